"""The frozen values that cross rooms. A leaf: imports nothing heavy and nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Compute: TypeAlias = Literal["int8", "bf16", "fp32"]

COMPUTE_TYPES: tuple[Compute, ...] = ("int8", "bf16", "fp32")
"""Arithmetic of the network, cheapest first; see docs/engine.md for what each one costs in quality."""

DEFAULT_COMPUTE: Compute = "int8"


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How hypotheses are searched for; the meaning of each field is that of transformers' `generate`."""

    beam: int = 4
    """Hypotheses kept for each sentence; 1 is greedy search."""
    length_penalty: float = 1.0
    """A finished hypothesis scores log p / length ** length_penalty."""
    early_stopping: bool = False
    """Stop a sentence as soon as `beam` hypotheses have finished, even if a running one could still win."""
    max_length: int | None = None
    """Most tokens of one output, end of sentence included; None means 1.5 × the source's tokens + 20."""


@dataclass(frozen=True, slots=True)
class Translation:
    """One translated segment."""

    source: str
    text: str
    score: float
    """Log probability / length ** length_penalty; a segment translated in parts has the mean of its parts."""
    tokens: int
    """Target tokens of the output, end of sentence included; 0 for an empty segment."""
