"""Teacher-forced states: what a datastore is made of, and what it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from corpora import Tokens
from torch import Tensor

from knnmt.model.network import Network

TOGETHER = 48


@dataclass(frozen=True, slots=True)
class Forced:
    """A row for each target token of some pairs."""

    states: Tensor  # (tokens, d_model), fp16 as in a datastore
    values: Tensor  # (tokens,)


@torch.inference_mode()
def force(network: Network, pairs: Sequence[Tokens], together: int = TOGETHER) -> Forced:
    """Return the states of all pairs in order; neighbours in order should be alike in length."""
    states = []
    for first in range(0, len(pairs), together):
        batch = pairs[first : first + together]
        hidden = network.force([pair.source for pair in batch], [pair.target for pair in batch]).hidden
        states.append(hidden.half())
    return Forced(torch.cat(states), torch.tensor([token for pair in pairs for token in pair.target]))


def deviations(states: Tensor, reference: Tensor) -> Tensor:
    """Return ‖state − reference‖ / ‖reference‖ of each row."""
    states, reference = states.float(), reference.float()
    return (states - reference).square().sum(1).div(reference.square().sum(1)).sqrt()
