"""One decoding step, as a hook sees it between the scores and the choice of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from knnmt.model.network import States
from knnmt.model.vocabulary import BLOCK, Distribution


@dataclass(frozen=True, slots=True)
class Step:
    """Every live row at one step; row = live sentence × beams + beam."""

    sentences: Tensor
    """(live,): which of the sources each live sentence is."""
    length: int
    """Tokens that every hypothesis has so far."""
    parents: Tensor
    """(live, beams): which beam of the sentence's step before each row continues; 0 at its first step."""
    states: States
    distribution: Distribution
    log_weight: Tensor
    """(rows,): log of the share that the model's own distribution keeps; 0 until a hook mixes something in."""

    def mix(self, rows: Tensor, knn_weight: Tensor, tokens: Tensor, weights: Tensor) -> None:
        """Make p = (1 − knn_weight) · p + knn_weight · Σ weights, in place, for the given rows.

        knn_weight is (n,), below 1; tokens and weights are (n, k), a token may occur more than once, and the weights
        of a row add up to 1. Only the k tokens are touched: the rest of the row is scaled by `log_weight`.
        """
        log_weight = self.log_weight[rows] + torch.log1p(-knn_weight)
        self.log_weight[rows] = log_weight
        added = weights * (knn_weight * torch.exp(-log_weight))[:, None]
        probabilities, maxima = self.distribution.probabilities, self.distribution.maxima
        probabilities.index_put_((rows[:, None], tokens), added, accumulate=True)
        raised = probabilities[rows[:, None], tokens]
        maxima.view(-1).scatter_reduce_(
            0, (rows[:, None] * maxima.shape[1] + tokens // BLOCK).flatten(), raised.flatten(), "amax"
        )


class Hook(Protocol):
    """What a memory gives to the search: a look at each step, and a chance to change what tokens are likely."""

    def __call__(self, step: Step) -> None: ...
