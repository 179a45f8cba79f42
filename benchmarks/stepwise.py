"""Where the time of our engine goes: the real functions, wrapped in timers for the length of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

ENCODER = "encoder"
LINEARS = "decoder linears"
SELF_ATTENTION = "self-attention"
CROSS_ATTENTION = "cross-attention"
DECODER = "norms and the rest of the decoder"
PROJECTION = "output projection"
SOFTMAX = "softmax and block maxima"
CHOICE = "choice of tokens"
BOOKKEEPING = "bookkeeping"
PARTS = (ENCODER, LINEARS, SELF_ATTENTION, CROSS_ATTENTION, DECODER, PROJECTION, SOFTMAX, CHOICE, BOOKKEEPING)


@dataclass(frozen=True, slots=True)
class Profile:
    """The seconds of one run by part."""

    corpus: str
    beam: int
    batch: int
    seconds: dict[str, float]
    untimed: float
    """Seconds of the same run without timers."""


class Stopwatch:
    """Gives every moment to the innermost function that is timed."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._running = [BOOKKEEPING]
        self._since = perf_counter()

    def switch(self) -> None:
        """Account for the time since the last switch."""
        now = perf_counter()
        self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def timed(self, function: Callable[..., Any], part: str | Callable[..., str]) -> Callable[..., Any]:
        """Return the function with its time given to a part, or to the part that its arguments tell.

        The encoder is one part, whatever it calls.
        """

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self._running[-1] == ENCODER:
                return function(*args, **kwargs)
            name = part(*args, **kwargs) if callable(part) else part
            if name == LINEARS and self._running[-1] == SOFTMAX:
                name = PROJECTION
            self.switch()
            self._running.append(name)
            try:
                return function(*args, **kwargs)
            finally:
                self.switch()
                self._running.pop()

        return wrapper


def _places() -> list[tuple[Any, str, str | Callable[..., str]]]:
    """Return owner, name and part of every function that is timed."""
    from knnmt.decode import search
    from knnmt.model import layers, linear, network, state, vocabulary

    def attention(mask: Any, *rest: Any) -> str:
        # To the source a mask is the same for all beams; among the target's tokens each beam has its own.
        return CROSS_ATTENTION if mask.shape[1] == 1 else SELF_ATTENTION

    return [
        (network.Network, "_encode", ENCODER),
        (network.Network, "_decode", DECODER),
        (linear.Int8Linear, "__call__", LINEARS),
        (linear.Int8WideLinear, "__call__", LINEARS),
        (layers, "attend", attention),
        *((state.Cells, name, SELF_ATTENTION) for name in ("advance", "extend", "fork", "keep")),
        (state.Source, "keep", CROSS_ATTENTION),
        (vocabulary.Vocabulary, "__call__", SOFTMAX),
        (search, "_best", CHOICE),
    ]


@contextmanager
def timers() -> Iterator[Stopwatch]:
    """Time the functions of the engine within this context."""
    stopwatch = Stopwatch()
    with ExitStack() as stack:
        for owner, name, part in _places():
            original = getattr(owner, name)
            setattr(owner, name, stopwatch.timed(original, part))
            stack.callback(setattr, owner, name, original)
        yield stopwatch
        stopwatch.switch()


def profile(
    model: Path, corpus: str, sources: Sequence[Sequence[int]], beam: int, batches: Sequence[int], cores: Sequence[int]
) -> list[Profile]:
    """Return one profile for each batch size; meant to be called in a process of its own."""
    os.sched_setaffinity(0, cores)
    from peers import open_engine

    if beam < 2:
        raise ValueError("One beam's self-attention cannot be told from cross-attention: profile two beams or more.")
    engine = open_engine("knnmt-int8", model, len(cores))
    profiles = []
    for batch in batches:
        engine.translate(sources[:batch], beam, batch)
        start = perf_counter()
        engine.translate(sources, beam, batch)
        untimed = perf_counter() - start
        with timers() as stopwatch:
            engine.translate(sources, beam, batch)
        profiles.append(Profile(corpus, beam, batch, stopwatch.seconds, untimed))
    return profiles
