"""Engines in processes of their own, pinned to some cores, that stay loaded and translate when told to.

So engines can take turns at every setting, and none inherits threads, caches or memory from another.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter

from peers import ENGINES, open_engine


@dataclass(frozen=True, slots=True)
class Loaded:
    """What it took to get an engine ready."""

    imported_mib: float
    """Resident after the imports, before the model."""
    seconds: float
    """From the imported modules to the loaded model."""


@dataclass(frozen=True, slots=True)
class Task:
    """Sentences to translate."""

    sources: Sequence[Sequence[int]]
    beam: int
    batch: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The outputs of a task."""

    outputs: list[list[int]]
    seconds: float
    peak_mib: float
    """The most that was resident at any time until now."""


class Worker:
    """One engine, loaded in its own process."""

    def __init__(self, engine: str, folder: Path, cores: Sequence[int]) -> None:
        self.engine = engine
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        # Read when the child imports its numerical libraries, so it must stand before the child starts.
        os.environ["OMP_NUM_THREADS"] = str(len(cores))
        self._process = context.Process(target=_serve, args=(theirs, engine, folder, cores), daemon=True)
        self._process.start()
        theirs.close()
        self.loaded: Loaded = self._pipe.recv()

    def translate(self, task: Task) -> Answer:
        """Return the outputs of a task with the seconds that they took inside the worker."""
        self._pipe.send(task)
        answer: Answer = self._pipe.recv()
        return answer

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join()


def _serve(pipe: Connection, engine: str, folder: Path, cores: Sequence[int]) -> None:
    os.sched_setaffinity(0, cores)
    for module in ENGINES[engine][0].IMPORTS:
        import_module(module)
    imported = memory_mib("VmRSS")
    start = perf_counter()
    loaded = open_engine(engine, folder, len(cores))
    pipe.send(Loaded(imported, perf_counter() - start))
    while (task := pipe.recv()) is not None:
        start = perf_counter()
        outputs = loaded.translate(task.sources, task.beam, task.batch)
        pipe.send(Answer(outputs, perf_counter() - start, memory_mib("VmHWM")))


def memory_mib(field: str) -> float:
    """Return a field of this process's memory as Linux counts it: VmRSS now, VmHWM at most so far."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}. Expected a Linux that counts memory.")
