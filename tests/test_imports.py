"""Imports go one way, and starting up is cheap."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import knnmt

SOURCE = ROOT / "src" / "knnmt"
ROOMS = (
    *("errors", "records", "formats", "model", "decode", "memory", "datastore", "index", "learn", "methods", "tune"),
    *("segments", "translator", "explain", "evaluation", "experiments", "server", "cli"),
)
"""From the leaves up: a room imports only rooms before it."""
STARTUP_CPU_SECONDS = 0.3


def room(module: str) -> str:
    return module.split(".")[1]


def imported(path: Path) -> list[str]:
    """Every module of ours that a file imports, wherever in the file."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found += [f"knnmt.{name.name}" for name in node.names] if node.module == "knnmt" else [node.module]
        elif isinstance(node, ast.ImportFrom):
            found.append("knnmt.relative")
        elif isinstance(node, ast.Import):
            found += [name.name for name in node.names]
    return [name for name in found if name.startswith("knnmt.")]


def upward(path: Path, own: str) -> list[str]:
    return [name for name in imported(path) if room(name) not in ROOMS[: ROOMS.index(own) + 1]]


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCE.rglob("*.py") if not (path.parent == SOURCE and path.stem.startswith("__"))],
    ids=str,
)
def test_no_file_imports_upward(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert own in ROOMS, f"{own} is a new room: give it its place in ROOMS"
    assert upward(path, own) == []


def test_an_upward_import_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "search.py"
    path.write_text("import knnmt.errors\nfrom knnmt.cli.main import app\ndef f():\n    from knnmt import translator\n")
    assert upward(path, "decode") == ["knnmt.cli.main", "knnmt.translator"]


def test_public_names_are_sorted_and_load() -> None:
    assert knnmt.__all__ == sorted(knnmt.__all__)
    assert {name for name in dir(knnmt) if not name.startswith("_")} == set(knnmt.__all__)
    for name in knnmt.__all__:
        assert getattr(knnmt, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'Translater'.*Translator"):
        knnmt.Translater  # noqa: B018


@pytest.mark.parametrize(
    "program",
    ["import knnmt", "import sys; sys.argv = ['knnmt', '--help']; from knnmt.cli.main import main; main()"],
    ids=["import", "help"],
)
def test_starting_up_is_cheap(program: str) -> None:
    watch = (
        "import atexit, os, sys\n"
        "atexit.register(lambda: {'torch', 'transformers'} & set(sys.modules) and os._exit(9))\n"
    )
    assert min(cpu_seconds(watch + program) for _ in range(3)) < STARTUP_CPU_SECONDS


def cpu_seconds(program: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, cwd=ROOT / "src")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
