"""The tokens that a search considered, linked into hypotheses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor


class Trellis:
    """Nodes are tokens; each knows the node before it, so that no hypothesis is ever copied."""

    def __init__(self) -> None:
        self._tokens: list[Tensor] = []
        self._parents: list[Tensor] = []
        self._size = 0

    def add(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """Return new nodes of these tokens; `parents` are the nodes before them, −1 for none."""
        nodes = torch.arange(self._size, self._size + tokens.numel()).view(tokens.shape)
        self._tokens.append(tokens.flatten())
        self._parents.append(parents.flatten())
        self._size += tokens.numel()
        return nodes

    def paths(self, ends: Sequence[int]) -> Iterator[list[int]]:
        """Yield the tokens that lead to each of the nodes `ends`."""
        tokens, parents = torch.cat(self._tokens).tolist(), torch.cat(self._parents).tolist()
        for node in ends:
            path = []
            while node >= 0:
                path.append(tokens[node])
                node = parents[node]
            yield path[::-1]
