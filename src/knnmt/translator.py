"""The facade: open a model, translate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import torch

from knnmt.decode.batching import search_all
from knnmt.decode.search import Hypothesis
from knnmt.errors import InputError
from knnmt.model.checkpoint import open_checkpoint
from knnmt.model.families import load
from knnmt.model.network import Network
from knnmt.model.tokenizer import Tokenizer, open_tokenizer
from knnmt.records import COMPUTE_TYPES, DEFAULT_COMPUTE, Compute, SearchOptions, Translation
from knnmt.segments import SegmentEncoder

_WINDOW = 32
"""Batches of segments that are read ahead and sorted by length; measured: twice 16 brought nothing more."""


class Translator:
    """A model, ready to translate."""

    def __init__(self, model: str, network: Network, tokenizer: Tokenizer, encoder: SegmentEncoder) -> None:
        self.model = model
        self._network, self._tokenizer, self._encoder = network, tokenizer, encoder

    @classmethod
    def open(
        cls,
        model: str | Path,
        *,
        compute: Compute | None = None,
        threads: int | None = None,
        device: str = "cpu",
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> Translator:
        """Return the translator of a checkpoint, given by its folder or its name on the hub.

        The languages are for models of many: codes as the model writes them. `threads` holds for the whole process.
        """
        _check_machine(compute, threads, device)
        if threads is not None:
            torch.set_num_threads(threads)
        checkpoint = open_checkpoint(model)
        spec, weights = load(checkpoint)
        tokenizer = open_tokenizer(checkpoint, spec, source_language, target_language)
        spec = replace(spec, decoder_start=tokenizer.decoder_start, forced_start=tokenizer.forced_start)
        network = Network(spec, weights, compute or DEFAULT_COMPUTE)
        return cls(str(model), network, tokenizer, SegmentEncoder(tokenizer, spec.max_positions, source_language))

    @property
    def compute(self) -> Compute:
        """The arithmetic of the network."""
        return self._network.compute

    def translate(
        self, sources: Iterable[str], *, options: SearchOptions = SearchOptions(), batch: int = 16
    ) -> list[Translation]:
        """Return the translation of every segment, in order.

        >>> translator = Translator.open("demo/de-en-small")
        >>> translator.translate(["Guten Morgen."])[0].text
        'Good morning.'
        """
        return list(self.stream(sources, options=options, batch=batch))

    def stream(
        self, sources: Iterable[str], *, options: SearchOptions = SearchOptions(), batch: int = 16
    ) -> Iterator[Translation]:
        """Return an iterator over the translations, in order, that reads a few hundred segments ahead."""
        if isinstance(sources, str):
            raise InputError(f"Found one string, {sources[:40]!r}, expected several segments: put it into a list.")
        _check_search(options, batch)
        return self._windows(iter(sources), options, batch)

    def _windows(self, segments: Iterator[str], options: SearchOptions, batch: int) -> Iterator[Translation]:
        while window := list(islice(segments, _WINDOW * batch)):
            parts = [self._encoder.parts(segment) for segment in window]
            sources = list(chain.from_iterable(parts))
            limits = [self._limit(source, options) for source in sources]
            hypotheses = search_all(self._network, sources, limits, options, batch=batch)
            for segment, own in zip(window, parts, strict=True):
                yield self._join(segment, list(islice(hypotheses, len(own))))

    def _limit(self, source: Sequence[int], options: SearchOptions) -> int:
        pieces = len(source) - 1  # without the end of the sentence
        return min(options.max_length or int(1.5 * pieces) + 20, self._network.spec.max_positions)

    def _join(self, segment: str, parts: Sequence[Hypothesis]) -> Translation:
        texts = [self._tokenizer.decode(part.tokens) for part in parts]
        score = sum(part.score for part in parts) / max(1, len(parts))
        return Translation(segment, " ".join(filter(None, texts)), score, sum(len(part.tokens) for part in parts))


def _check_machine(compute: Compute | None, threads: int | None, device: str) -> None:
    if compute is not None and compute not in COMPUTE_TYPES:
        raise InputError(f"Found the arithmetic {compute!r}, expected one of {', '.join(COMPUTE_TYPES)}: choose one.")
    if threads is not None and threads < 1:
        raise InputError(f"Found {threads} threads, expected 1 or more: leave the number out to use all cores.")
    if device != "cpu":
        raise InputError(f"Found the device {device!r}, expected 'cpu', the only one there is: leave the device out.")


def _check_search(options: SearchOptions, batch: int) -> None:
    for name, number in (("beam", options.beam), ("batch", batch), ("max_length", options.max_length)):
        if number is not None and number < 1:
            raise InputError(f"Found {name} {number}, expected 1 or more: correct it or leave it out.")
