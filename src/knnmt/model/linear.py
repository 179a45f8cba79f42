"""Linear layers in the arithmetic of choice: y = x Wᵀ + b with fp32 in, fp32 out.

Every kind computes a row independently of the rows beside it. For int8 this is why activations are scaled row by row:
PyTorch's own dynamic quantisation scales the batch as a whole, and a key of the datastore would depend on the batch
that it was made in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from knnmt.records import Compute

Linear: TypeAlias = Callable[[Tensor], Tensor]
"""Maps (rows, in) to (rows, out)."""

RULED_OUT = -1e30
"""A bias that leaves an output no probability."""

_WIDE = 1 << 18
"""Weights from which packing them once saves more than a call of the packed kernel costs."""
_MOST = torch.tensor(127.0)
_SMALLEST = 1e-12
"""Stands for the largest entry of a row of zeros."""

_ONEDNN = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
if _ONEDNN:
    _packed_linear = torch.ops.mkldnn._linear_pointwise.default
    _packed_int8_linear = torch.ops.onednn.qlinear_pointwise.default


def few_sizes(rows: int) -> int:
    """Return the next number of rows with three significant binary digits: 16, 20, 24, 28, 32, 40, ...

    oneDNN compiles a kernel for every number of rows that it meets, at 0.3 ms and 0.3 MB each: let it meet few.
    """
    step = 1 << max(0, rows.bit_length() - 3)
    return rows + -rows % step


def _padded(x: Tensor) -> Tensor:
    missing = few_sizes(len(x)) - len(x)
    return functional.pad(x, (0, 0, 0, missing)) if missing else x


def make_linear(weight: Tensor, bias: Tensor, compute: Compute) -> Linear:
    """Return the layer in the given arithmetic; where PyTorch comes without oneDNN, by its plain kernels."""
    if compute == "int8":
        return Int8WideLinear(weight, bias) if _ONEDNN and weight.numel() >= _WIDE else Int8Linear(weight, bias)
    if not _ONEDNN:
        return PlainLinear(weight, bias, torch.float32 if compute == "fp32" else torch.bfloat16)
    return Float32Linear(weight, bias) if compute == "fp32" else BFloat16Linear(weight, bias)


class PlainLinear:
    """The product as PyTorch makes it on any machine."""

    def __init__(self, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> None:
        self._weight, self._bias = weight.to(dtype), bias.to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x.to(self._weight.dtype), self._weight, self._bias).float()


class Float32Linear:
    """fp32 through oneDNN with weights packed once; PyTorch's default, MKL, reaches half of it on AMD."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.float().contiguous())
        self._bias = bias.float()

    def __call__(self, x: Tensor) -> Tensor:
        product: Tensor = _packed_linear(_padded(x), self._weight, self._bias, "none", [], "")
        return product[: len(x)]


class BFloat16Linear:
    """bf16 product with fp32 accumulation; the sums between layers stay fp32."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16().contiguous())
        self._bias = bias.bfloat16()

    def __call__(self, x: Tensor) -> Tensor:
        product: Tensor = _packed_linear(_padded(x.bfloat16()), self._weight, self._bias, "none", [], "")
        return product[: len(x)].float()


def _quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return x as int8, each row scaled by its largest entry, and these, (rows, 1)."""
    largest = x.abs().amax(-1, True).clamp_min_(_SMALLEST)
    return (x * torch.div(_MOST, largest)).round_().to(torch.int8), largest


def _quantize_weight(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weight as int8, and the scale of each output; in parts, for a vocabulary is large in fp32."""
    parts = [_quantize_rows(part.float()) for part in weight.tensor_split(max(1, weight.numel() >> 20))]
    quantized, largest = (torch.cat(each) for each in zip(*parts, strict=True))
    return quantized, largest.flatten() / 127**2


class Int8Linear:
    """int8 product; weights scaled by output, activations by row."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        quantized, self._scales = _quantize_weight(weight)
        self._weight = quantized.t()
        self._bias = bias.float()

    def __call__(self, x: Tensor) -> Tensor:
        quantized, largest = _quantize_rows(x)
        return torch.addcmul(self._bias, torch._int_mm(quantized, self._weight) * largest, self._scales)


class Int8WideLinear:
    """The same product through oneDNN with weights packed once: dearer for a call, cheaper for a byte of weights."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        quantized, self._scales = _quantize_weight(weight)
        self._weight = torch.ops.onednn.qlinear_prepack(quantized, [64, weight.shape[1]])
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)
        # The kernel adds its bias before a row is scaled: right for free where every output has none or is ruled out.
        bias = bias.float()
        plain = bool(((bias == 0) | (bias <= RULED_OUT)).all())
        self._inner_bias = bias if plain else None
        self._bias = None if plain else bias

    def __call__(self, x: Tensor) -> Tensor:
        quantized, largest = _quantize_rows(x)
        # Unsigned with zero point 128, by wrapping around: oneDNN has no fast kernel for signed activations.
        product: Tensor = _packed_int8_linear(
            _padded(quantized).view(torch.uint8).add_(128), 1.0, 128, self._weight, self._scales, self._zeros,
            self._inner_bias, 1.0, 0, torch.float32, "none", [], "",
        )[: len(x)]  # fmt: skip
        return product.mul_(largest) if self._bias is None else torch.addcmul(self._bias, product, largest)
