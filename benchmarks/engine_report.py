"""The results of the engine benchmark, from JSON and as Markdown tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from peers import REFERENCE
from report import Origin, table
from startup import Startup
from stepwise import PARTS, Profile

BASELINE = "ctranslate2-int8"


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens a second of one engine at one setting: 1-best tokens, ends of sentences included, by wall clock."""

    corpus: str
    sentences: int
    threads: int
    beam: int
    batch: int
    engine: str
    median: float
    slowest: float
    fastest: float
    repetitions: int
    agreement: float | None
    """Share of sentences with the same tokens as the reference engine; None without that engine."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an engine takes besides time for translating."""

    engine: str
    threads: int
    load_seconds: float
    imported_mib: float
    """Resident after the imports, before the model."""
    peak_mib: float
    """The most that was resident in the whole run beyond that."""


@dataclass(frozen=True, slots=True)
class Results:
    origin: Origin
    speeds: list[Speed]
    costs: list[Cost]
    startups: list[Startup]
    profiles: list[Profile]


def read(file: Path) -> Results:
    """The results in a JSON file."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return Results(
        Origin(**content["origin"]),
        [Speed(**each) for each in content["speeds"]],
        [Cost(**each) for each in content["costs"]],
        [Startup(**each) for each in content["startups"]],
        [Profile(**each) for each in content["profiles"]],
    )


def show(results: Results) -> str:
    """Return everything that was measured as Markdown."""
    machine = results.origin.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    parts = [f"{machine['cpu']} ({', '.join(machine['features'])}); {versions}; {results.origin.date}"]
    parts += _speeds(results.speeds)
    if results.costs:
        parts.append(_costs(results.costs))
    if results.startups:
        rows = [
            [s.command, *(f"{seconds:.3f}" for seconds in (s.median, s.fastest, s.slowest))] for s in results.startups
        ]
        parts.append(table(["one sentence from a cold process", "median s", "fastest", "slowest"], rows))
    if results.profiles:
        parts.append(_profiles(results.profiles))
    return "\n\n".join(parts)


def _speeds(speeds: list[Speed]) -> Iterator[str]:
    """Yield a table for each test set and number of threads."""
    for (corpus, threads), group in groupby(speeds, lambda speed: (speed.corpus, speed.threads)):
        by_setting: dict[tuple[int, int], dict[str, Speed]] = {}
        for speed in group:
            by_setting.setdefault((speed.beam, speed.batch), {})[speed.engine] = speed
        head = [f"beam {beam}, batch {batch}" for beam, batch in by_setting]
        engines = dict.fromkeys(engine for column in by_setting.values() for engine in column)
        rows = [[engine, *(_cell(engine, column) for column in by_setting.values())] for engine in engines]
        sentences = [f"{next(iter(column.values())).sentences}" for column in by_setting.values()]
        cores = "1 thread" if threads == 1 else f"{threads} threads"
        title = f"**{corpus}, {cores}**: tokens a second (ratio to {BASELINE}) ± half the spread, = share of sentences "
        title += f"with the tokens of {REFERENCE}"
        yield f"{title}\n\n{table(['engine', *head], [*rows, ['sentences', *sentences]])}"


def _cell(engine: str, column: dict[str, Speed]) -> str:
    speed = column[engine]
    ratio = f" ({speed.median / column[BASELINE].median:.2f})" if BASELINE in column else ""
    spread = f" ± {50 * (speed.fastest - speed.slowest) / speed.median:.0f} %" if speed.repetitions > 1 else ""
    agreement = "" if speed.agreement is None else f" = {100 * speed.agreement:.1f} %"
    return f"{speed.median:,.0f}{ratio}{spread}{agreement}"


def _costs(costs: list[Cost]) -> str:
    head = ["engine", "threads", "load s", "MiB after imports", "peak MiB beyond"]
    rows = [
        [cost.engine, str(cost.threads), f"{cost.load_seconds:.2f}", f"{cost.imported_mib:.0f}", f"{cost.peak_mib:.0f}"]
        for cost in costs
    ]
    return table(head, rows)


def _profiles(profiles: list[Profile]) -> str:
    """Return the share of each part, and what the timers cost."""
    totals = [sum(profile.seconds.values()) for profile in profiles]
    rows = [
        [part, *(f"{100 * p.seconds[part] / total:.1f} %" for p, total in zip(profiles, totals, strict=True))]
        for part in PARTS
    ]
    rows.append(["seconds", *(f"{total:.2f}" for total in totals)])
    rows.append(["seconds without timers", *(f"{profile.untimed:.2f}" for profile in profiles)])
    return table(["knnmt-int8, 1 thread", *(f"{p.corpus}, beam {p.beam}, batch {p.batch}" for p in profiles)], rows)
