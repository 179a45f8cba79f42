"""What holds for every command, and `doctor`."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from typer.main import get_command
from typer.testing import Result

import knnmt
from knnmt.cli.main import app
from knnmt.cli.progress import track

Run = Callable[..., Result]

PROGRAM = get_command(app)
COMMANDS = {name: command for name, command in PROGRAM.commands.items()}  # type: ignore[attr-defined]
DOCUMENTED = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_two_examples_that_parse(run: Run, name: str) -> None:
    help_page = run(name, "--help").stdout
    _, _, examples = help_page.partition("Examples:\n")
    lines = [line.strip() for line in examples.strip().splitlines()]
    assert len(lines) == 2
    for line in lines:
        program, command, *arguments = line.partition(" <")[0].split()
        assert (program, command) == ("knnmt", name)
        COMMANDS[name].make_context(name, arguments).close()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    assert f"## knnmt {name}" in DOCUMENTED
    for parameter in [*COMMANDS[name].params, *PROGRAM.params]:
        for option in (one for one in parameter.opts if one.startswith("-")):
            assert f"`{option}" in DOCUMENTED or f" {option}`" in DOCUMENTED, option


def test_every_documented_option_exists() -> None:
    options = {option for command in [*COMMANDS.values(), PROGRAM] for one in command.params for option in one.opts}
    assert set(re.findall(r"`(--[a-z-]+)", DOCUMENTED)) <= options | {"--help"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_knows_json_quiet_and_debug(name: str) -> None:
    assert {"--json", "--quiet", "--debug"} <= {option for one in COMMANDS[name].params for option in one.opts}


def test_version(run: Run) -> None:
    assert run("--version").stdout == f"knnmt {knnmt.__version__}\n"


def test_the_module_is_the_program() -> None:
    page = subprocess.run([sys.executable, "-m", "knnmt", "--help"], cwd=ROOT / "src", capture_output=True, text=True)
    assert page.returncode == 0
    assert page.stdout.startswith("Usage: knnmt ")


@pytest.mark.parametrize("arguments", [["translate", "--beam", "0"], ["translate", "--no-such"], ["no-such"]])
def test_wrong_use_is_exit_code_2(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_failure_is_one_line_and_exit_code_1(run: Run, tmp_path: Path) -> None:
    result = run("translate", "--model", "any", tmp_path / "absent.txt")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")
    assert "absent.txt cannot be read" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("arguments", "environment"), [(["--debug"], {}), ([], {"KNNMT_DEBUG": "1"})])
def test_debug_lets_the_error_through(
    run: Run, tmp_path: Path, arguments: list[str], environment: dict[str, str]
) -> None:
    result = run("translate", "--model", "any", tmp_path / "absent.txt", *arguments, env=environment)
    assert isinstance(result.exception, knnmt.InputError)


@pytest.mark.parametrize(("arguments", "shown"), [([], "warning: too long\n"), (["--quiet"], "")])
def test_warnings_of_the_library_are_shown_unless_quiet(
    run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], shown: str
) -> None:
    run("doctor", *arguments)
    logging.getLogger("knnmt.translator").warning("too %s", "long")
    assert capsys.readouterr().err == shown


def test_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knnmt.cli.progress.SECONDS_BETWEEN_LINES", 0)
    assert list(track("abc", 3, quiet=False)) == ["a", "b", "c"]
    captured = capsys.readouterr()
    assert re.match(r"1 of 3 segments, [\d.]+ a second, \d+ s left\n2 of 3", captured.err)
    assert captured.out == ""


def test_progress_is_silent_when_quiet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knnmt.cli.progress.SECONDS_BETWEEN_LINES", 0)
    assert list(track("abc", 3, quiet=True)) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""


def test_doctor_describes_the_machine(run: Run) -> None:
    report = json.loads(run("doctor", "--json").stdout)
    assert report["versions"]["knnmt"] == knnmt.__version__
    assert report["threads"] >= 1
    assert report["speed"] is None
    assert report["cpu"] in run("doctor").stdout


def test_doctor_measures_a_model(run: Run, tiny_model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("ein Haus\n" * 30, encoding="utf-8")
    arguments = ("doctor", "--model", tiny_model, "--compute", "fp32", "--threads", 1)
    speed = json.loads(run(*arguments, "--input", text, "--json").stdout)["speed"]
    assert (speed["segments"], speed["compute"]) == (20, "fp32")
    assert speed["tokens_per_second"] == pytest.approx(speed["tokens"] / speed["seconds"])
    assert " tokens/s: 20 segments in " in run(*arguments).stdout


def test_doctor_refuses_an_empty_text(run: Run, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    result = run("doctor", "--model", tiny_model, "--input", tmp_path / "empty")
    assert result.exit_code == 1
    assert "is empty. Expected at least one line" in result.stderr
