"""`knnmt doctor`: is everything there, and how fast is it?"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from knnmt.cli.grouping import grouped
from knnmt.cli.options import DecodingOptions, ModelOptions, ReportOptions
from knnmt.cli.table import table
from knnmt.errors import InputError
from knnmt.formats.text import read_lines

if TYPE_CHECKING:
    from knnmt.evaluation.machine import Machine

SEGMENTS = 20


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one model translates a few segments."""

    model: str
    compute: str
    segments: int
    tokens: int
    seconds: float
    tokens_per_second: float


@grouped
def doctor(
    *,
    input_file: Annotated[
        Path | None,
        Option("--input", metavar="FILE", help=f"Measure speed on the first {SEGMENTS} lines of this text."),
    ] = None,
    model: ModelOptions,
    decoding: DecodingOptions,
    report: ReportOptions,
) -> None:
    """Show versions, processor and speed.

    Speed is measured when a model is named: 20 segments after a warm-up.
    """
    from knnmt.evaluation.machine import describe_machine

    speed = _measure(_segments(input_file), model, decoding) if model.model else None
    machine = describe_machine()  # after the model, which sets the number of threads
    if report.as_json:
        print(json.dumps(asdict(machine) | {"speed": asdict(speed) if speed else None}, ensure_ascii=False, indent=2))
    else:
        print(_for_people(machine, speed))


def _segments(path: Path | None) -> list[str]:
    if path is None:  # segments that differ, so that none is translated twice
        return [f"Version {number} wurde im Jahr {2000 + number} in Berlin geprüft." for number in range(SEGMENTS)]
    segments = list(islice(read_lines(path), SEGMENTS))
    if not segments:
        raise InputError(f"{path} is empty. Expected at least one line of text to measure speed on.")
    return segments


def _measure(segments: list[str], model: ModelOptions, decoding: DecodingOptions) -> Speed:
    translator = model.open()

    from knnmt.evaluation.speed import run_timed

    translator.translate(segments[:1], options=decoding.search)  # the first call pays for what later ones reuse
    run = run_timed(translator.stream(segments, options=decoding.search, batch=decoding.batch))
    return Speed(translator.model, translator.compute, len(segments), run.tokens, run.seconds, run.tokens_per_second)


def _for_people(machine: Machine, speed: Speed | None) -> str:
    rows = [(name, version or "not installed") for name, version in machine.versions.items()]
    rows += [
        ("processor", machine.cpu),
        ("instructions", ", ".join((*machine.features, f"PyTorch uses {machine.vector_code}"))),
        ("threads", str(machine.threads)),
        ("device", machine.device),
    ]
    if speed:
        rows += [
            ("model", f"{speed.model} ({speed.compute})"),
            ("speed", f"{speed.tokens_per_second:.1f} tokens/s: {speed.segments} segments in {speed.seconds:.2f} s"),
        ]
    return table(rows, right=False)
