"""Is one system better than another, or was it the draw of the test set? Paired bootstrap resampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of one system against the baseline."""

    delta: float
    """Score minus the baseline's."""
    mean: float
    """Mean score over the resampled test sets, and the half-width of its 95 % interval."""
    interval: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A system against the baseline on the same sentences."""

    baseline: str
    bleu: Difference
    chrf: Difference
    signature: str


def compare(systems: Mapping[str, Sequence[str]], references: Sequence[str]) -> dict[str, Comparison]:
    """Every system but the first, by name, compared with the first.

    `systems` maps at least two names to hypotheses; sacreBLEU draws 1,000 resamples with a fixed seed.
    """
    baseline, *others = systems
    signatures, scores = PairedTest(list(systems.items()), {"BLEU": BLEU(), "chrF2": CHRF()}, [references], "bs")()
    bleu, chrf = scores["BLEU"], scores["chrF2"]
    return {
        name: Comparison(
            baseline, _difference(bleu[0], bleu[row]), _difference(chrf[0], chrf[row]), str(signatures["BLEU"])
        )
        for row, name in enumerate(others, 1)
    }


def _difference(baseline: Any, system: Any) -> Difference:
    """From two of sacreBLEU's results, which stand in one list with names and so have no type of their own."""
    delta = system.score - baseline.score
    # sacreBLEU counts only resamples beyond the difference found, and so calls two equal systems different.
    return Difference(delta, float(system.mean), float(system.ci), system.p_value if delta else 1.0)
