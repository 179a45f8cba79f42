"""Plain text, one segment a line: strict UTF-8, read as a stream."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from knnmt.errors import InputError

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def read_lines(path: Path, shown: str | None = None) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends; only `\\n` and `\\r\\n` end a line, never U+2028 and the like.

    `shown` is the name that error messages use, where it is not the path.
    """
    name = shown or str(path)
    try:
        with path.open("rb") as stream:
            yield from _decode(stream, name)
    except OSError as error:
        raise InputError(
            f"{name} cannot be read ({error.strerror}). Expected a text file; check the name and its permissions."
        ) from error


def _decode(stream: BinaryIO, name: str) -> Iterator[str]:
    start = 0
    for number, raw in enumerate(stream, 1):
        line = raw.removeprefix(_BOM) if number == 1 else raw
        if not line:
            return
        try:
            yield line.decode("utf-8").removesuffix("\r\n").removesuffix("\n")
        except UnicodeDecodeError as error:
            offset = start + len(raw) - len(line) + error.start
            encoding = "utf-16" if number == 1 and raw.startswith(_UTF16_BOMS) else "latin1"
            raise InputError(
                f"{name}, line {number}: byte {line[error.start]:#04x} at offset {offset} is not UTF-8. "
                f"Expected UTF-8 text; if the file is {encoding}, convert it: iconv -f {encoding} -t utf-8"
            ) from error
        start += len(raw)


def one_line(text: str) -> str:
    """The text with line ends turned into spaces, so that it stays one segment in a file."""
    return text.replace("\r", " ").replace("\n", " ")


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of several files in turn, all known to be readable; can be read more than once."""

    files: tuple[Path, ...]
    count: int

    def __iter__(self) -> Iterator[str]:
        for path in self.files:
            yield from read_lines(path)


def open_segments(names: list[str], stack: ExitStack) -> Segments:
    """Every segment of the named files ("-" is standard input), checked to the last byte before one is handed out.

    What can be read only once (standard input, a pipe) is copied to a temporary file that lives as long as `stack`.
    """
    files = tuple(_rereadable(name, stack) for name in names)
    shown = ("standard input" if name == "-" else name for name in names)
    count = sum(1 for path, name in zip(files, shown, strict=True) for _ in read_lines(path, name))
    return Segments(files, count)


def _rereadable(name: str, stack: ExitStack) -> Path:
    path = Path(name)
    if name != "-" and not path.is_fifo():
        return path
    copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="knnmt-"))) / "input"
    with copy.open("wb") as target:
        if name == "-":
            shutil.copyfileobj(sys.stdin.buffer, target)
        else:
            with path.open("rb") as pipe:
                shutil.copyfileobj(pipe, target)
    return copy
