"""From decoder states to the probability of every target token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from knnmt.model.layers import Parts
from knnmt.model.linear import RULED_OUT, WIDE_LINEARS

BLOCK = 128
"""Tokens whose highest probability is kept beside the probabilities, so that the best few are found fast."""
_ROWS_AT_ONCE = 32
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
        self._linear = WIDE_LINEARS[parts.compute](weight, functional.pad(bias, (0, padding), value=RULED_OUT))
        self._suppressed = torch.tensor(parts.spec.suppressed)

    def __call__(self, hidden: Tensor) -> Distribution:
        probabilities = hidden.new_empty(len(hidden), self._width)
        maxima = hidden.new_empty(len(hidden), self._width // BLOCK)
        for rows in range(0, len(hidden), _ROWS_AT_ONCE):
            chunk = slice(rows, rows + _ROWS_AT_ONCE)
            torch.softmax(self._linear(hidden[chunk]), -1, out=probabilities[chunk])
            if len(self._suppressed):
                probabilities[chunk, self._suppressed] = 0
            torch.amax(probabilities[chunk].view(-1, self._width // BLOCK, BLOCK), -1, out=maxima[chunk])
        return Distribution(probabilities, maxima)
