"""Linear layers in the arithmetic of choice: y = x Wᵀ + b with fp32 in, fp32 out.

Every kind computes a row independently of the rows beside it, so that a decoder state made in a batch of many is the
state made alone. For int8 this is why activations are scaled row by row (PyTorch's own dynamic quantisation scales
the batch as a whole) and why the kernel is the plain integer product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from knnmt.records import Compute

Linear: TypeAlias = Callable[[Tensor], Tensor]
"""Maps (rows, in) to (rows, out)."""

RULED_OUT = -1e30
"""A bias that leaves an output no probability."""

_SMALLEST = 1e-12
"""Stands for the largest entry of a row of zeros, which may then be divided by it."""


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return x scaled to ±127 by row and rounded, still as floats, and the (rows, 1) scales that undo it."""
    scales = x.abs().amax(-1, keepdim=True).clamp_min_(_SMALLEST).mul_(1 / 127)
    return (x / scales).round_(), scales


class Float32Linear:
    """fp32 through oneDNN with weights packed once; PyTorch's default, MKL, reaches half of it on AMD."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.float().contiguous())
        self._bias = None if bias is None else bias.float()

    def __call__(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")


class BFloat16Linear:
    """bf16 product with fp32 accumulation; the sums between layers stay fp32."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16().contiguous())
        self._bias = None if bias is None else bias.bfloat16()

    def __call__(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x.bfloat16(), self._weight, self._bias, "none", [], "").float()


class Int8Linear:
    """int8 product; weights scaled by output channel, activations by row."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        quantized, scales = quantize_rows(weight.float())
        zeros = torch.zeros(len(weight), dtype=torch.long)
        per_channel = torch._make_per_channel_quantized_tensor(
            quantized.to(torch.int8), scales.flatten().double(), zeros, 0
        )
        self._weight = torch.ops.quantized.linear_prepack(per_channel, None)
        self._bias = bias.float()

    def __call__(self, x: Tensor) -> Tensor:
        largest = x.abs().amax(-1, keepdim=True).clamp_min_(_SMALLEST)
        product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x / largest, 1 / 127, 128, self._weight
        )
        return torch.addcmul(self._bias, product, largest)


class Int8WideLinear:
    """int8 product for very many outputs, such as a vocabulary, through oneDNN with weights packed once.

    Beside `Int8Linear` it costs more for a call and less for a byte of weights: it wins from a few thousand outputs.
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        quantized, scales = quantize_rows(weight.float())
        self._scales = scales.flatten()
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)
        self._weight = torch.ops.onednn.qlinear_prepack(quantized.to(torch.int8), [64, weight.shape[1]])
        # The kernel adds its bias before a row is scaled: right for free where every output has none or is ruled out.
        plain = bool(((bias == 0) | (bias <= RULED_OUT)).all())
        self._unscaled_bias, self._bias = (bias, None) if plain else (None, bias)

    def __call__(self, x: Tensor) -> Tensor:
        quantized, scales = quantize_rows(x)
        # Unsigned with zero point 128: oneDNN has no fast kernel for signed activations.
        product = torch.ops.onednn.qlinear_pointwise(
            quantized.add_(128).to(torch.uint8), 1.0, 128, self._weight, self._scales, self._zeros,
            self._unscaled_bias, 1.0, 0, torch.float32, "none", [], "",
        ).mul_(scales)  # fmt: skip
        return product if self._bias is None else product.add_(self._bias)


LINEARS: dict[Compute, type[Float32Linear] | type[BFloat16Linear] | type[Int8Linear]] = {
    "fp32": Float32Linear,
    "bf16": BFloat16Linear,
    "int8": Int8Linear,
}

WIDE_LINEARS: dict[Compute, type[Float32Linear] | type[BFloat16Linear] | type[Int8WideLinear]] = {
    "fp32": Float32Linear,
    "bf16": BFloat16Linear,
    "int8": Int8WideLinear,
}
