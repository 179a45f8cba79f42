"""Translation speed: target tokens of the best hypotheses, ends of sentences included, by the wall clock."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from knnmt.records import Translation


@dataclass(frozen=True, slots=True)
class TimedRun:
    """Translations and the seconds that producing them took."""

    translations: tuple[Translation, ...]
    seconds: float

    @property
    def tokens(self) -> int:
        """Target tokens, ends of sentences included."""
        return sum(translation.tokens for translation in self.translations)

    @property
    def tokens_per_second(self) -> float:
        """The speed that tables report; 0 for a run without tokens."""
        return self.tokens / self.seconds if self.tokens else 0.0


def run_timed(translations: Iterable[Translation]) -> TimedRun:
    """The translations of a lazy stream, with the time from the first request to the last result."""
    start = time.perf_counter()
    done = tuple(translations)
    return TimedRun(done, time.perf_counter() - start)
