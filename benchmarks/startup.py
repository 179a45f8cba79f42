"""How long one sentence takes from a cold process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

BARE = Path(__file__).with_name("bare.py")


@dataclass(frozen=True, slots=True)
class Startup:
    """Wall seconds of a command from its start to its end."""

    command: str
    median: float
    fastest: float
    slowest: float


def measure_startup(model: Path, sentence: str, runs: int) -> list[Startup]:
    """Return the times of the command line, of the bare network, and of importing torch alone, which take turns."""
    commands = {
        "knnmt translate": ["-m", "knnmt", "translate", "--model", str(model), "--quiet"],
        "bare network": [str(BARE), str(model), sentence],
        "import torch": ["-c", "import torch"],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs + 1):  # one more, to fill the disk cache
        for name, arguments in commands.items():
            start = perf_counter()
            subprocess.run(
                [sys.executable, "-W", "ignore", *arguments],
                input=f"{sentence}\n".encode(),
                check=True,
                stdout=subprocess.DEVNULL,
            )
            seconds[name].append(perf_counter() - start)
    return [
        Startup(name, median(timed := all_times[1:]), min(timed), max(timed)) for name, all_times in seconds.items()
    ]
