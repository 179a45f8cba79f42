"""Progress on stderr, and nowhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

SECONDS_BETWEEN_LINES = 10.0


def track(segments: Iterable[T], total: int, *, quiet: bool) -> Iterator[T]:
    """The same segments, while progress is shown: a bar on a terminal, elsewhere a line now and then."""
    if quiet:
        return iter(segments)
    return _with_bar(segments, total) if sys.stderr.isatty() else _with_lines(segments, total)


def _with_bar(segments: Iterable[T], total: int) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = MofNCompleteColumn(), BarColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn()
    # Results keep their own way to stdout: rich would send them through the bar's console, that is to stderr.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    with bar:
        task = bar.add_task("", total=total, rate="")
        for segment, rate, _ in _timed(segments, total):
            bar.update(task, advance=1, rate=f"{rate:.1f} segments/s")
            yield segment


def _with_lines(segments: Iterable[T], total: int) -> Iterator[T]:
    last = time.monotonic()
    for done, (segment, rate, left) in enumerate(_timed(segments, total), 1):
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"{done} of {total} segments, {rate:.1f} a second, {left:.0f} s left", file=sys.stderr, flush=True)
        yield segment


def _timed(segments: Iterable[T], total: int) -> Iterator[tuple[T, float, float]]:
    """Every segment with the rate so far and the seconds left."""
    start = time.monotonic()
    for done, segment in enumerate(segments, 1):
        rate = done / max(time.monotonic() - start, 1e-9)
        yield segment, rate, (total - done) / rate
