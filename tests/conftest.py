"""Fixtures that several test modules share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny import tiny_marian_with_tokenizer
from typer.testing import CliRunner, Result

from knnmt.cli.main import app

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random Marian model with a tokenizer: text in, text out."""
    folder = tmp_path_factory.mktemp("tiny-marian")
    tiny_marian_with_tokenizer(folder)
    return folder


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KNNMT_MODEL", "KNNMT_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run() -> Callable[..., Result]:
    """The command line within this process: `run("translate", path, input=...)`."""
    return lambda *arguments, **how: CliRunner().invoke(app, [str(one) for one in arguments], **how)


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[bytes]]:
    """The command line as a process of its own, with pipes, or with another stderr."""

    def start_process(*arguments: object, stderr: int = subprocess.PIPE, **environment: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "knnmt", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")} | environment,
        )

    return start_process
