"""Tab-separated pairs: `source<TAB>translation`, UTF-8, no header, no quoting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from knnmt.errors import InputError
from knnmt.formats.text import read_lines


@dataclass(frozen=True, slots=True)
class SegmentPair:
    """A source segment and its translation."""

    source: str
    target: str


def read_pairs(path: Path) -> Iterator[SegmentPair]:
    """The pairs of a TSV file in order; a line that has not exactly two columns is an InputError."""
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) != 2:
            found = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
            raise InputError(
                f"{path}, line {number}: found {found}, expected 2: source<TAB>translation. "
                "Correct the line or remove it; a tab inside a segment must become a space."
            )
        yield SegmentPair(*columns)
