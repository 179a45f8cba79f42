"""From translations of a test set to the numbers that a table shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from knnmt.evaluation.metrics import score
from knnmt.evaluation.significance import Comparison, compare
from knnmt.evaluation.speed import TimedRun
from knnmt.formats.tsv import SegmentPair

Recipe: TypeAlias = Mapping[str, str | int | float | bool | None]
"""Everything that a system's output depends on, by name."""


@dataclass(frozen=True, slots=True)
class System:
    """The translations of a test set by one method, or by a program that we did not run."""

    method: str
    hypotheses: Sequence[str]
    recipe: Recipe
    run: TimedRun | None = None
    """None for a finished translation."""
    retrieved: float | None = None
    """Share of live rows that searched the index; None for a finished translation."""
    chained: float | None = None
    """Share of live rows served by cheaper candidates; None for a finished translation."""
    comet: float | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The numbers of one system; None where a number was not asked for or does not exist."""

    method: str
    bleu: float
    chrf: float
    comet: float | None
    signature: str
    chrf_signature: str
    tokens_per_second: float | None
    retrieved: float | None
    chained: float | None
    sentences: int
    tokens: int | None
    seconds: float | None
    recipe: Recipe
    comparison: Comparison | None
    """Against the first system; None for the first itself."""


def evaluate_systems(systems: Sequence[System], pairs: Sequence[SegmentPair]) -> list[Evaluation]:
    """Numbers of each system, in order; every one after the first is compared with the first."""
    references = [pair.target for pair in pairs]
    comparisons: Mapping[str, Comparison] = {}
    if len(systems) > 1:
        comparisons = compare({system.method: system.hypotheses for system in systems}, references)
    return [_evaluation(system, references, comparisons.get(system.method)) for system in systems]


def _evaluation(system: System, references: Sequence[str], comparison: Comparison | None) -> Evaluation:
    quality = score(system.hypotheses, references)
    run = system.run
    return Evaluation(
        method=system.method,
        bleu=quality.bleu,
        chrf=quality.chrf,
        comet=system.comet,
        signature=quality.signature,
        chrf_signature=quality.chrf_signature,
        tokens_per_second=run.tokens_per_second if run else None,
        retrieved=system.retrieved,
        chained=system.chained,
        sentences=len(references),
        tokens=run.tokens if run else None,
        seconds=run.seconds if run else None,
        recipe=system.recipe,
        comparison=comparison,
    )
