"""Text and TSV in, whole files out."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnmt.errors import InputError
from knnmt.formats.output import open_output
from knnmt.formats.text import one_line, open_segments, read_lines
from knnmt.formats.tsv import SegmentPair, read_pairs

line_text = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])).filter(
    lambda line: not line.endswith("\r")
)


def written(folder: Path, content: bytes, name: str = "input.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@given(lines=st.lists(line_text), end=st.sampled_from(["\n", "\r\n"]), bom=st.booleans())
def test_every_line_comes_back(tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str, bom: bool) -> None:
    content = "".join(line + end for line in lines).encode("utf-8-sig" if bom else "utf-8")
    if not bom and content.startswith(b"\xef\xbb\xbf"):
        return  # the first line begins with U+FEFF, which is the mark itself
    assert list(read_lines(written(tmp_path_factory.getbasetemp(), content))) == lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\xef\xbb\xbf", []),
        (b"\n", [""]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\rc\r", ["a", "b\rc\r"]),
        ("a\u2028b\x0bc\x0cd\x1ce\x85f\n".encode(), ["a\u2028b\x0bc\x0cd\x1ce\x85f"]),
    ],
)
def test_only_newlines_end_a_line(tmp_path: Path, content: bytes, lines: list[str]) -> None:
    assert list(read_lines(written(tmp_path, content))) == lines


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"gut\nsch\xf6n\n", ["line 2", "0xf6", "offset 7", "latin1"]),
        (b"\xef\xbb\xbfsch\xf6n\n", ["line 1", "offset 6"]),
        ("gut\n".encode("utf-16"), ["line 1", "offset 0", "iconv -f utf-16 -t utf-8"]),
        (b"gut\n\xed\xa0\x80\n", ["line 2", "offset 4"]),
    ],
)
def test_what_is_not_utf8_is_located(tmp_path: Path, content: bytes, words: list[str]) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InputError) as error:
        list(read_lines(path))
    assert all(word in str(error.value) for word in [str(path), "UTF-8", *words])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.txt cannot be read \(No such file"):
        list(read_lines(tmp_path / "absent.txt"))


def test_segments_of_several_files_follow_one_another_again_and_again(tmp_path: Path) -> None:
    names = [str(written(tmp_path, b"a\nb", "1")), str(written(tmp_path, b"c\n", "2"))]
    with ExitStack() as stack:
        segments = open_segments(names, stack)
        assert (segments.count, list(segments), list(segments)) == (3, ["a", "b", "c"], ["a", "b", "c"])


def test_the_last_line_of_the_last_file_is_checked_before_anything_is_handed_out(tmp_path: Path) -> None:
    names = [str(written(tmp_path, b"a\n", "1")), str(written(tmp_path, b"b\n\xff", "2"))]
    with ExitStack() as stack, pytest.raises(InputError, match="2, line 2"):
        open_segments(names, stack)


def test_a_pipe_can_be_read_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_bytes, args=(b"a\nb\n",)).start()
    with ExitStack() as stack:
        segments = open_segments([str(pipe)], stack)
        assert list(segments) == list(segments) == ["a", "b"]
        (copy,) = segments.files
    assert not copy.exists()


def test_pairs_are_two_columns(tmp_path: Path) -> None:
    path = written(tmp_path, b"Haus\thouse\r\n\t\n")
    assert list(read_pairs(path)) == [SegmentPair("Haus", "house"), SegmentPair("", "")]


@pytest.mark.parametrize(("line", "found"), [(b"Haus", "1 column"), (b"a\tb\tc", "3 columns"), (b"", "1 column")])
def test_other_columns_are_located(tmp_path: Path, line: bytes, found: str) -> None:
    path = written(tmp_path, b"Haus\thouse\n" + line + b"\n")
    with pytest.raises(InputError, match=f"line 2: found {found}, expected 2"):
        list(read_pairs(path))


def test_one_line_keeps_everything_but_line_ends() -> None:
    assert one_line("a\nb\r\nc\u2028d") == "a b  c\u2028d"


def test_output_appears_whole_with_the_mode_of_what_it_replaces(tmp_path: Path) -> None:
    path = written(tmp_path, b"old")
    path.chmod(0o640)
    with open_output(path) as stream:
        stream.write("schön\n")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == "schön\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("before", [b"old", None])
def test_after_a_failure_all_is_as_it_was(tmp_path: Path, failure: type[BaseException], before: bytes | None) -> None:
    path = tmp_path / "out"
    if before:
        path.write_bytes(before)
    with pytest.raises(failure), open_output(path) as stream:
        stream.write("half")
        raise failure
    assert [one.read_bytes() for one in tmp_path.iterdir()] == ([before] if before else [])


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = written(tmp_path, b"old"), tmp_path / "link"
    link.symlink_to(target)
    with open_output(link) as stream:
        stream.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    with open_output(Path("/dev/null")) as stream:
        stream.write("gone")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("name", ["absent/out.txt", "."])
def test_an_impossible_output_is_an_input_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot be written"), open_output(tmp_path / name):
        pass
