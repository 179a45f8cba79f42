"""`knnmt evaluate`: how good and how fast on a test set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from knnmt.cli.grouping import grouped
from knnmt.cli.options import DecodingOptions, ModelOptions, ReportOptions
from knnmt.cli.progress import track
from knnmt.cli.scores import for_people
from knnmt.errors import InputError
from knnmt.formats.text import read_lines
from knnmt.formats.tsv import SegmentPair, read_pairs

if TYPE_CHECKING:
    from knnmt.evaluation.report import System

METHODS = ("base",)


@dataclass(frozen=True)
class SystemOptions:
    """What is scored, and with what."""

    method: Annotated[str, Option("--method", metavar="NAMES", help=f"Comma-separated, of: {', '.join(METHODS)}.")] = (
        METHODS[0]
    )
    limit: Annotated[int | None, Option("--limit", metavar="N", min=1, help="Only the first pairs of the test.")] = None
    hypothesis: Annotated[
        Path | None, Option("--hypothesis", metavar="FILE", help="Score this finished translation; no model is needed.")
    ] = None
    compare: Annotated[
        list[Path] | None,
        Option("--compare", metavar="FILE", help="A finished translation to compare with; may be repeated."),
    ] = None
    comet_model: Annotated[
        str | None,
        Option(
            "--comet-model",
            metavar="CHECKPOINT",
            help="Score with COMET too: a checkpoint file, or a COMET model's name.",
        ),
    ] = None
    comet_program: Annotated[
        str, Option("--comet-program", metavar="PROGRAM", help="The program of unbabel-comet.")
    ] = "comet-score"


@grouped
def evaluate(
    test: Annotated[Path, typer.Argument(metavar="TEST.tsv", help="Test pairs: source<TAB>reference, one a line.")],
    scored: SystemOptions,
    model: ModelOptions,
    decoding: DecodingOptions,
    report: ReportOptions,
) -> None:
    """Score a model on a test set.

    Translates the sources and prints BLEU, chrF and tokens per second. The first system is the baseline: with
    --compare, or with several methods, every other one is compared with it by paired bootstrap resampling.
    """
    methods = _methods(scored.method)
    pairs = list(islice(read_pairs(test), scored.limit))
    if not pairs:
        raise InputError(f"{test} holds no pairs. Expected one pair a line: source<TAB>reference.")
    files = [scored.hypothesis, *(scored.compare or [])]
    finished = [_finished(path, len(pairs), scored.limit) for path in files if path]
    translated = [] if scored.hypothesis else _translated(methods, pairs, model, decoding, report)

    from knnmt.evaluation.report import evaluate_systems

    evaluations = evaluate_systems(_with_comet([*translated, *finished], pairs, scored), pairs)
    if report.as_json:
        print(json.dumps([asdict(evaluation) for evaluation in evaluations], ensure_ascii=False, indent=2))
    else:
        print(for_people(evaluations))


def _methods(names: str) -> list[str]:
    methods = list(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in methods:
        if name not in METHODS:
            raise typer.BadParameter(
                f"found {name!r}, expected names with commas between, out of: {', '.join(METHODS)}.",
                param_hint="--method",
            )
    return methods


def _finished(path: Path, count: int, limit: int | None) -> System:
    from knnmt.evaluation.report import System

    lines = list(islice(read_lines(path), limit))
    if len(lines) != count:
        raise InputError(
            f"{path} has {len(lines)} lines, but {count} pairs are scored. "
            "Expected the translation of every source, one a line, in the order of the test set."
        )
    return System(str(path), lines, {"method": "file", "file": str(path)})


def _translated(
    methods: Sequence[str],
    pairs: Sequence[SegmentPair],
    model: ModelOptions,
    decoding: DecodingOptions,
    report: ReportOptions,
) -> list[System]:
    translator = model.open()

    from knnmt.evaluation.report import System
    from knnmt.evaluation.speed import run_timed

    systems = []
    for method in methods:
        results = translator.stream([pair.source for pair in pairs], options=decoding.search, batch=decoding.batch)
        run = run_timed(track(results, len(pairs), quiet=report.quiet))
        hypotheses = [translation.text for translation in run.translations]
        recipe = {"method": method} | asdict(model) | {"compute": translator.compute} | asdict(decoding)
        systems.append(System(method, hypotheses, recipe, run, retrieved=0.0, chained=0.0))
    return systems


def _with_comet(systems: list[System], pairs: Sequence[SegmentPair], scored: SystemOptions) -> list[System]:
    if scored.comet_model is None:
        return systems
    from knnmt.evaluation.comet import comet_score

    ask = partial(comet_score, checkpoint=scored.comet_model, program=scored.comet_program)
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    return [replace(system, comet=ask(sources, system.hypotheses, references)) for system in systems]
