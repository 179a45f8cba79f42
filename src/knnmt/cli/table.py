"""Plain aligned columns."""

from __future__ import annotations

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], *, right: bool = True) -> str:
    """The rows as lines: the first column to the left, the others to the right or all to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(_cells(row, widths, right)).rstrip() for row in rows)


def _cells(row: Sequence[str], widths: Sequence[int], right: bool) -> list[str]:
    first, *others = zip(row, widths, strict=True)
    return [first[0].ljust(first[1]), *(cell.rjust(width) if right else cell.ljust(width) for cell, width in others)]


def number(value: float | None, form: str) -> str:
    """The value in a format such as `.2f` or `.1%`, or a dash for no value."""
    return "-" if value is None else format(value, form)
