"""Tables of sinusoidal positions, computed as the families' own programs do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from knnmt.model.spec import ModelSpec


def marian_positions(spec: ModelSpec) -> torch.Tensor:
    """Row p: the sines of p * 10000 ** (-2i / d), then the cosines."""
    rates = 10000 ** (-2 * torch.arange(spec.d_model // 2, dtype=torch.float64) / spec.d_model)
    return _sines_and_cosines(torch.arange(spec.max_positions, dtype=torch.float64), rates).float()


def tensor2tensor_positions(spec: ModelSpec) -> torch.Tensor:
    """Row p: sines, then cosines, of p + pad + 1, the number fairseq gives to position p."""
    half = spec.d_model // 2
    # In single precision throughout, like fairseq: the angles reach 1024, where rounding is visible in the sines.
    rates = torch.exp(torch.arange(half).float() * -(math.log(10000) / (half - 1)))
    first = spec.pad + 1
    return _sines_and_cosines(torch.arange(first, first + spec.max_positions).float(), rates)


def _sines_and_cosines(positions: torch.Tensor, rates: torch.Tensor) -> torch.Tensor:
    angles = positions.unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
