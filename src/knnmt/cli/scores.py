"""Evaluations as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from knnmt.cli.table import number, table

if TYPE_CHECKING:
    from knnmt.evaluation.report import Evaluation
    from knnmt.evaluation.significance import Comparison, Difference

_HEADS = ("", "BLEU", "chrF", "COMET", "tokens/s", "retrieved", "chained", "sentences", "seconds")


def for_people(evaluations: Sequence[Evaluation]) -> str:
    """Plain tables: the scores, their signatures, the comparisons with the first system."""
    first = evaluations[0]
    parts = [
        table([_HEADS, *map(_score_row, evaluations)]),
        f"BLEU {first.signature}\nchrF {first.chrf_signature}",
        *(_comparison(one.method, one.comparison) for one in evaluations if one.comparison),
    ]
    return "\n\n".join(parts)


def _score_row(one: Evaluation) -> list[str]:
    return [
        one.method,
        number(one.bleu, ".2f"),
        number(one.chrf, ".2f"),
        number(one.comet, ".4f"),
        number(one.tokens_per_second, ".1f"),
        number(one.retrieved, ".1%"),
        number(one.chained, ".1%"),
        str(one.sentences),
        number(one.seconds, ".1f"),
    ]


def _comparison(method: str, comparison: Comparison) -> str:
    rows = [
        (f"{method} against {comparison.baseline}", "difference", "95 % interval of the score", "p"),
        ("BLEU", *_difference(comparison.bleu)),
        ("chrF", *_difference(comparison.chrf)),
    ]
    return f"{table(rows)}\npaired bootstrap, {comparison.signature}"


def _difference(difference: Difference) -> tuple[str, str, str]:
    interval = f"{difference.mean:.2f} ± {difference.interval:.2f}"
    return f"{difference.delta:+.2f}", interval, f"{difference.p_value:.3f}"
