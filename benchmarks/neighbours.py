"""Exact nearest neighbours by squared Euclidean distance, and how far another search found the same."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_QUERIES_AT_ONCE = 256
_EQUALLY_NEAR = 1e-3
"""Relative difference of distances below which fp16 keys count as equally near."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The k nearest keys of every query, nearest first; both (queries, k)."""

    ids: Tensor
    distances: Tensor


def search_exactly(queries: Tensor, keys: Tensor, k: int) -> Neighbours:
    """Return the nearest keys, by products in fp32."""
    transposed = keys.float().t().contiguous()
    norms = transposed.square().sum(0)
    found = []
    for chunk in torch.split(queries.float(), _QUERIES_AT_ONCE):
        distances = torch.addmm(norms, chunk, transposed, alpha=-2)
        found.append(distances.topk(k, largest=False).indices)
    ids = torch.cat(found)
    return Neighbours(ids, exact_distances(queries, keys, ids))


def exact_distances(queries: Tensor, keys: Tensor, ids: Tensor) -> Tensor:
    """Return the squared distance of each query to its own keys `ids`, (queries, k)."""
    return (keys[ids].float() - queries.float()[:, None]).square().sum(2)


def shares_of_exact(found: Neighbours, exact: Neighbours, queries: Tensor, keys: Tensor) -> tuple[float, float]:
    """Return which share of `found` is as near to the queries as the exact neighbours, and which share is those."""
    limit = exact.distances.amax(1, keepdim=True) * (1 + _EQUALLY_NEAR) + _EQUALLY_NEAR
    near = exact_distances(queries, keys, found.ids) <= limit
    same = (found.ids[:, :, None] == exact.ids[:, None]).any(2)
    return float(near.float().mean()), float(same.float().mean())
