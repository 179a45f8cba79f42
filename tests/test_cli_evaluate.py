"""`knnmt evaluate`, with a real tiny model and with finished translations."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from test_evaluation import COMET_SCORE
from typer.testing import Result

from knnmt import Translator
from knnmt.evaluation.metrics import score

Run = Callable[..., Result]
Start = Callable[..., "subprocess.Popen[bytes]"]

SOURCES = [f"der Hund ist {size}" for size in ("klein", "alt", "neu", "gut")]
REFERENCES = [f"the dog is very {size} today" for size in ("small", "old", "new", "good")]
OTHER = [line.replace("very ", "") for line in REFERENCES]


@pytest.fixture
def test_set(tmp_path: Path) -> Path:
    return written(tmp_path / "test.tsv", [f"{s}\t{r}" for s, r in zip(SOURCES, REFERENCES, strict=True)])


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_model_is_scored(run: Run, tiny_model: Path, test_set: Path) -> None:
    flags = ("--model", tiny_model, "--compute", "fp32", "--threads", 1, "--beam", 2, "--limit", 3)
    (found,) = json.loads(run("evaluate", test_set, *flags, "--json").stdout)
    translations = Translator.open(tiny_model, compute="fp32", threads=1).translate(SOURCES[:3])
    assert (found["method"], found["sentences"], found["retrieved"], found["chained"]) == ("base", 3, 0.0, 0.0)
    assert found["bleu"] == pytest.approx(score([one.text for one in translations], REFERENCES[:3]).bleu)
    assert found["tokens_per_second"] == pytest.approx(found["tokens"] / found["seconds"])
    assert found["signature"].startswith("nrefs:1")
    assert (found["comet"], found["comparison"]) == (None, None)
    recipe = {"method": "base", "model": str(tiny_model), "compute": "fp32", "device": "cpu", "beam": 2, "batch": 16}
    assert recipe.items() <= found["recipe"].items()


def test_a_model_is_compared_with_a_finished_translation(run: Run, tiny_model: Path, test_set: Path) -> None:
    other = written(test_set.with_name("other"), OTHER)
    flags = ("--model", tiny_model, "--compute", "fp32", "--compare", other)
    base, found = json.loads(run("evaluate", test_set, *flags, "--json").stdout)
    assert (base["method"], found["method"]) == ("base", str(other))
    assert found["comparison"]["baseline"] == "base"
    assert found["comparison"]["bleu"]["delta"] == pytest.approx(found["bleu"] - base["bleu"])
    assert found["recipe"] == {"method": "file", "file": str(other)}


def test_a_finished_translation_needs_no_model(run: Run, test_set: Path) -> None:
    best, other = written(test_set.with_name("best"), REFERENCES), written(test_set.with_name("other"), OTHER)
    result = run("evaluate", test_set, "--hypothesis", best, "--compare", other)
    assert (result.exit_code, result.stderr) == (0, "")
    heads, first, second = result.stdout.splitlines()[:3]
    assert heads.split() == ["BLEU", "chrF", "COMET", "tokens/s", "retrieved", "chained", "sentences", "seconds"]
    assert first.split() == [str(best), "100.00", "100.00", "-", "-", "-", "-", "4", "-"]
    assert second.startswith(str(other))
    assert f"{other} against {best}" in result.stdout
    assert "paired bootstrap, nrefs:1|bs:1000" in result.stdout


def test_comet_is_one_more_score(run: Run, test_set: Path) -> None:
    program = test_set.with_name("comet-score")
    program.write_text(COMET_SCORE, encoding="utf-8")
    program.chmod(0o755)
    best, other = written(test_set.with_name("best"), REFERENCES), written(test_set.with_name("other"), OTHER)
    flags = ("--hypothesis", best, "--compare", other, "--comet-model", "any", "--comet-program", program)
    first, second = json.loads(run("evaluate", test_set, *flags, "--json").stdout)
    assert (first["comet"], second["comet"]) == (1.0, pytest.approx(5 / 6, abs=1e-4))


def test_an_unknown_method_names_those_that_exist(run: Run, test_set: Path) -> None:
    result = run("evaluate", test_set, "--model", "any", "--method", "base,vanilla")
    assert result.exit_code == 2
    assert "'vanilla'" in result.stderr
    assert "out of: base" in result.stderr


def test_a_translation_of_another_length_is_refused(run: Run, test_set: Path) -> None:
    result = run("evaluate", test_set, "--hypothesis", written(test_set.with_name("short"), OTHER[:3]))
    assert result.exit_code == 1
    assert "has 3 lines, but 4 pairs are scored" in result.stderr
    assert run("evaluate", test_set, "--hypothesis", test_set.with_name("short"), "--limit", 3).exit_code == 0


def test_an_empty_test_set_is_refused(run: Run, tmp_path: Path) -> None:
    result = run("evaluate", written(tmp_path / "empty.tsv", []), "--model", "any")
    assert result.exit_code == 1
    assert "holds no pairs" in result.stderr


def test_no_model_is_wrong_use(run: Run, test_set: Path) -> None:
    assert run("evaluate", test_set).exit_code == 2


@pytest.mark.parametrize(("flags", "shown"), [([], True), (["--quiet"], False)])
def test_on_a_terminal_a_bar_is_drawn_on_stderr(
    start: Start, tiny_model: Path, test_set: Path, flags: list[str], shown: bool
) -> None:
    terminal, stderr = os.openpty()
    process = start(
        *("evaluate", test_set, "--model", tiny_model, "--json", *flags), stderr=stderr, TERM="xterm", NO_COLOR="1"
    )
    os.close(stderr)
    results, _ = process.communicate(timeout=60)
    drawn = read_all(terminal)
    assert len(json.loads(results)) == 1
    assert ("4/4" in drawn, "segments/s" in drawn) == (shown, shown)
    assert "\x1b[3" not in drawn  # colours


def read_all(terminal: int) -> str:
    """What a terminal was sent; Linux reports its end as an OSError."""
    chunks = []
    try:
        while chunk := os.read(terminal, 65536):
            chunks.append(chunk)
    except OSError:
        os.close(terminal)
    return b"".join(chunks).decode()
