"""BLEU and chrF of a whole test set, as sacreBLEU computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


@dataclass(frozen=True, slots=True)
class Quality:
    """Scores of one system, each with the signature that makes it reproducible."""

    bleu: float
    chrf: float
    signature: str
    chrf_signature: str


def score(hypotheses: Sequence[str], references: Sequence[str]) -> Quality:
    """BLEU and chrF of hypotheses against one reference each."""
    bleu, chrf = BLEU(), CHRF()
    bleu_score = bleu.corpus_score(hypotheses, [references]).score
    chrf_score = chrf.corpus_score(hypotheses, [references]).score
    return Quality(bleu_score, chrf_score, str(bleu.get_signature()), str(chrf.get_signature()))
