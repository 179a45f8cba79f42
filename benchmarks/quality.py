"""BLEU and chrF of the engines on several test sets, and how often they agree with transformers' `generate`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from corpora import Corpus, open_model, read_corpus
from peers import ENGINES, REFERENCE, Engine, folder_for, open_engine
from report import RESULTS, Origin, origin, progress, table, write

from knnmt.evaluation.metrics import Quality, score
from knnmt.model.tokenizer import Tokenizer

BATCH = 16


@dataclass(frozen=True, slots=True)
class Score:
    """The translations of one test set by one engine."""

    corpus: str
    engine: str
    sentences: int
    quality: Quality
    agreement: float | None
    """Share of the sentences that the reference engine translated on which the tokens are the same."""


@dataclass(frozen=True, slots=True)
class Results:
    origin: Origin
    beam: int
    reference: str
    reference_sentences: int
    scores: list[Score]


def parse_corpus(text: str) -> tuple[Path, int | None]:
    """Return file and number of sentences of FILE or FILE:COUNT."""
    file, colon, count = text.rpartition(":")
    return (Path(file), int(count)) if colon and count.isdigit() else (Path(text), None)


def measure(
    engines: dict[str, Engine], corpus: Corpus, tokenizer: Tokenizer, options: argparse.Namespace
) -> list[Score]:
    """Return the scores of all engines on one test set."""
    scores: list[Score] = []
    expected: Sequence[list[int]] = []
    for name, engine in engines.items():
        progress(f"{corpus.name}, {name}")
        sources = corpus.sources[: options.reference_sentences] if name == REFERENCE else corpus.sources
        outputs = engine.translate(sources, options.beam, BATCH)
        if name == REFERENCE:
            expected = outputs
        texts = [tokenizer.decode(tokens) for tokens in outputs]
        quality = score(texts, corpus.references[: len(texts)])
        same = sum(ours == theirs for ours, theirs in zip(outputs, expected, strict=False))
        scores.append(Score(corpus.name, name, len(texts), quality, same / len(expected) if expected else None))
    return scores


def show(results: Results) -> str:
    """Return the figures as a Markdown table."""
    head = ["test set", "engine", "sentences", "BLEU", "chrF", "same as generate"]
    rows = [
        [
            score.corpus,
            score.engine,
            str(score.sentences),
            f"{score.quality.bleu:.2f}",
            f"{score.quality.chrf:.2f}",
            "" if score.agreement is None else f"{100 * score.agreement:.1f} %",
        ]
        for score in results.scores
    ]
    quality = results.scores[0].quality
    return f"beam {results.beam}\n\n{table(head, rows)}\n\n{quality.signature}\n{quality.chrf_signature}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="+", type=parse_corpus, metavar="FILE[:SENTENCES]", help="TSV files")
    parser.add_argument("--model", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), help="[all]")
    parser.add_argument("--beam", type=int, default=4, help="[%(default)s]")
    parser.add_argument(
        "--reference-sentences", type=int, default=300, help="sentences for the slow reference engine [%(default)s]"
    )
    parser.add_argument("--output", type=Path, default=RESULTS / "quality.json", help="JSON file [%(default)s]")
    options = parser.parse_args()
    tokenizer = open_model(options.model).tokenizer
    corpora = [read_corpus(file, sentences, tokenizer) for file, sentences in options.corpora]
    # The reference first: the others are compared with it.
    names = sorted(options.engines, key=lambda name: name != REFERENCE)
    with TemporaryDirectory(prefix="benchmark-") as scratch:
        engines = {name: open_engine(name, folder_for(name, options.model, Path(scratch)), 1) for name in names}
        scores = [score for corpus in corpora for score in measure(engines, corpus, tokenizer, options)]
    results = Results(origin(), options.beam, REFERENCE, options.reference_sentences, scores)
    write(results, options.output)
    print(show(results))


if __name__ == "__main__":
    main()
