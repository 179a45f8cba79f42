"""`knnmt translate`, with a real tiny model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from knnmt import SearchOptions, Translator

Run = Callable[..., Result]
Start = Callable[..., "subprocess.Popen[bytes]"]

TEXT = "ein Haus\n\nder Hund ist klein\n"


@pytest.fixture(scope="module")
def expected(tiny_model: Path) -> list[str]:
    translator = Translator.open(tiny_model, compute="fp32", threads=1)
    return [translation.text for translation in translator.translate(TEXT.splitlines())]


@pytest.fixture
def model(tiny_model: Path) -> list[str]:
    return ["--model", str(tiny_model), "--compute", "fp32", "--threads", "1"]


def test_standard_input_to_standard_output(run: Run, model: list[str], expected: list[str]) -> None:
    for arguments in ([], ["-"]):
        result = run("translate", *model, *arguments, input=TEXT)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == "".join(f"{line}\n" for line in expected)


def test_files_in_turn_to_a_file(run: Run, model: list[str], expected: list[str], tmp_path: Path) -> None:
    text, output = tmp_path / "in", tmp_path / "out"
    text.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    result = run("translate", text, text, *model, "-o", output)
    assert (result.exit_code, result.stdout) == (0, "")
    assert output.read_text(encoding="utf-8") == "".join(f"{line}\n" for line in expected * 2)


def test_json_lines(run: Run, model: list[str], expected: list[str]) -> None:
    lines = [json.loads(line) for line in run("translate", *model, "--json", input=TEXT).stdout.splitlines()]
    assert [set(line) for line in lines] == [{"source", "text", "score", "tokens"}] * 3
    assert [line["source"] for line in lines] == TEXT.splitlines()
    assert [line["text"] for line in lines] == expected
    assert lines[1]["tokens"] == 0


def test_search_options_reach_the_search(run: Run, model: list[str], tiny_model: Path) -> None:
    options = SearchOptions(beam=2, length_penalty=0.3, early_stopping=True, max_length=5)
    flags = ["--beam", 2, "--length-penalty", 0.3, "--early-stopping", "--max-length", 5, "--batch", 1]
    translator = Translator.open(tiny_model, compute="fp32", threads=1)
    found = json.loads(run("translate", *model, *flags, "--json", input="ein Haus\n").stdout)
    (wanted,) = translator.translate(["ein Haus"], options=options)
    assert (found["text"], found["tokens"]) == (wanted.text, wanted.tokens)
    assert found["score"] == pytest.approx(wanted.score)
    assert found["tokens"] <= 5


def test_the_model_can_come_from_the_environment(run: Run, tiny_model: Path, expected: list[str]) -> None:
    result = run("translate", "--compute", "fp32", input=TEXT, env={"KNNMT_MODEL": str(tiny_model)})
    assert result.stdout.splitlines() == expected


def test_no_model_is_wrong_use(run: Run) -> None:
    result = run("translate", input=TEXT)
    assert result.exit_code == 2
    assert "--model Helsinki-NLP/opus-mt-de-en" in result.stderr
    assert "KNNMT_MODEL" in result.stderr


def test_a_device_that_is_not_there_yet_is_refused(run: Run, model: list[str]) -> None:
    result = run("translate", *model, "--device", "cuda", input=TEXT)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "cuda" in result.stderr
    assert "cpu" in result.stderr


def test_nothing_is_written_before_all_input_is_known_to_be_utf8(run: Run, model: list[str], tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_text("old")
    for arguments in ([], ["--output", str(output)]):
        result = run("translate", *model, *arguments, input=b"gut\nsch\xf6n\n")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "standard input, line 2" in result.stderr
        assert "iconv -f latin1 -t utf-8" in result.stderr
    assert output.read_text() == "old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_is_an_error_without_a_traceback(run: Run, model: list[str]) -> None:
    result = run("translate", *model, "--output", "/dev/full", input=TEXT)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "No space left on device" in result.stderr


def test_an_interrupt_leaves_the_output_as_it_was(start: Start, model: list[str], tmp_path: Path) -> None:
    text, output = tmp_path / "in", tmp_path / "out"
    text.write_text("der Hund ist klein\n" * 50_000, encoding="utf-8")
    output.write_text("old")
    process = start("translate", text, *model, "--output", output, "--batch", 1)
    while len(list(tmp_path.iterdir())) < 3:  # the temporary file beside the output
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.decode().strip().startswith("interrupted")
    assert "Traceback" not in errors.decode()
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]
    assert output.read_text() == "old"


def test_a_closed_pipe_is_silent(start: Start, model: list[str], tmp_path: Path, expected: list[str]) -> None:
    text = tmp_path / "in"
    text.write_text("ein Haus\n" * 20_000, encoding="utf-8")
    with start("translate", text, *model, "--quiet") as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().decode().rstrip("\n") == expected[0]
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141
