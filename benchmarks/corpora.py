"""Test sets as every benchmark takes them: the first so many pairs of a TSV file, in text and in a model's tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knnmt.model.spec import ModelSpec, Weights
    from knnmt.model.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Model:
    """A checkpoint, opened."""

    spec: ModelSpec
    weights: Weights
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True)
class Tokens:
    """A pair in the tokens of a model."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Some pairs of one domain."""

    name: str
    texts: list[str]
    references: list[str]
    sources: list[list[int]]


def open_model(folder: Path) -> Model:
    """The model in a checkpoint folder."""
    # Worker processes import this module and must not load torch by it: their memory is measured.
    from knnmt.model.checkpoint import open_checkpoint
    from knnmt.model.families import load
    from knnmt.model.tokenizer import open_tokenizer

    checkpoint = open_checkpoint(folder)
    spec, weights = load(checkpoint)
    return Model(spec, weights, open_tokenizer(checkpoint, spec))


def read_corpus(file: Path, sentences: int | None, tokenizer: Tokenizer) -> Corpus:
    """The first sentences of a TSV file, all for None, under the name of the file."""
    from knnmt.formats.tsv import read_pairs

    pairs = list(islice(read_pairs(file), sentences))
    texts = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    return Corpus(file.stem, texts, references, [tokenizer.encode(text) for text in texts])


def read_tokens(file: Path, target_tokens: int, tokenizer: Tokenizer) -> Iterator[Tokens]:
    """The first pairs of a TSV file until they have so many target tokens."""
    from knnmt.formats.tsv import read_pairs

    for pair in read_pairs(file):
        if target_tokens <= 0:
            return
        target = tokenizer.encode_target(pair.target)
        target_tokens -= len(target)
        yield Tokens(tokenizer.encode(pair.source), target)
