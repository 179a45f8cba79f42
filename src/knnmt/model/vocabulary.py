"""From decoder states to the probability of every target token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from knnmt.model.layers import Parts
from knnmt.model.linear import RULED_OUT, make_linear

BLOCK = 128
"""Tokens whose highest probability is kept beside the probabilities, so that the best few are found fast."""
_ROWS_AT_ONCE = 64
"""Rows whose logits stay in the cache of a core from the product to the last look at them."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """p(token) for some rows."""

    probabilities: Tensor  # (rows, vocabulary padded to whole blocks)
    maxima: Tensor  # (rows, blocks)


class Vocabulary:
    """The output projection and its softmax."""

    def __init__(self, parts: Parts) -> None:
        output = parts.weights["output"]
        padding = -len(output) % BLOCK
        self._width = len(output) + padding
        bias = torch.zeros(len(output))
        if "output_bias" in parts.weights:
            bias += parts.weights["output_bias"].float()
        weight = functional.pad(output, (0, 0, 0, padding))
        bias = functional.pad(bias, (0, padding), value=RULED_OUT)
        self._linear = make_linear(weight, bias, parts.compute)
        self._suppressed = torch.tensor(parts.spec.suppressed)

    def __call__(self, hidden: Tensor) -> Distribution:
        if len(hidden) <= _ROWS_AT_ONCE:
            probabilities = self._linear(hidden)
            return Distribution(probabilities, self._finish(probabilities, probabilities))
        probabilities = hidden.new_empty(len(hidden), self._width)
        maxima = []
        for first in range(0, len(hidden), _ROWS_AT_ONCE):
            chunk = slice(first, first + _ROWS_AT_ONCE)
            maxima.append(self._finish(self._linear(hidden[chunk]), probabilities[chunk]))
        return Distribution(probabilities, torch.cat(maxima))

    def _finish(self, logits: Tensor, out: Tensor) -> Tensor:
        """Write the probabilities to `out`, which may be the logits, and return the maxima of their blocks."""
        torch.softmax(logits, -1, out=out)
        if len(self._suppressed):
            out[:, self._suppressed] = 0
        return out.view(len(out), -1, BLOCK).amax(-1)
