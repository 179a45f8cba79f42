"""Results on disk and on the screen."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where figures come from."""

    command: str
    date: str
    machine: dict[str, Any]


def origin() -> Origin:
    """The origin of the figures that this process makes."""
    from knnmt.evaluation.machine import describe_machine

    # Of a file the name alone: where it lies differs from machine to machine.
    arguments = [Path(argument).name if os.path.isabs(argument) else argument for argument in sys.orig_argv[1:]]
    command = shlex.join(["python", *arguments])
    return Origin(command, datetime.now(UTC).isoformat(timespec="seconds"), asdict(describe_machine()))


def write(results: Any, file: Path) -> None:
    """Write a frozen dataclass as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(results), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"Written: {file}", file=sys.stderr)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; every column but the first is aligned to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def progress(message: str) -> None:
    """Tell a waiting person what happens."""
    print(message, file=sys.stderr, flush=True)
