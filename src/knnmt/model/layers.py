"""Encoder and decoder layers. Rows are tokens: (rows, d_model); attention alone sees which sentence a row is of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from knnmt.model.linear import Linear, make_linear
from knnmt.model.spec import Activation, ModelSpec, Weights
from knnmt.model.state import Packing, Past, Source
from knnmt.records import Compute

_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": functional.gelu,
    "silu": partial(functional.silu, inplace=True),
}


@dataclass(frozen=True, slots=True)
class Norm:
    """Layer norm."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


@dataclass(frozen=True, slots=True)
class Parts:
    """Makes the parts of a network from a checkpoint's weights."""

    spec: ModelSpec
    weights: Weights
    compute: Compute

    def linear(self, *names: str, scales: Sequence[float] | None = None) -> Linear:
        """Return the named layers side by side as one, each multiplied by its scale."""
        scaled = list(zip(names, scales or [1.0] * len(names), strict=True))
        weight = torch.cat([self.weights[f"{name}.weight"].float() * scale for name, scale in scaled])
        bias = torch.cat([self.weights[f"{name}.bias"].float() * scale for name, scale in scaled])
        return make_linear(weight, bias, self.compute)

    def norm(self, name: str) -> Norm:
        return Norm(self.weights[f"{name}.weight"].float(), self.weights[f"{name}.bias"].float())


def attend(mask: Tensor, q: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return context and attention; everything is (sentences × heads, ·, ·), q already scaled."""
    attention = torch.softmax(torch.baddbmm(mask, q, keys.transpose(1, 2)), -1)
    return torch.bmm(attention, values), attention


class _Layer:
    """What both kinds of layer share: self-attention's product, the feed-forward block, where the norms stand."""

    def __init__(self, parts: Parts, prefix: str, heads: int) -> None:
        self._heads = heads
        self._norm_first = parts.spec.norm_first
        self._activation = _ACTIVATIONS[parts.spec.activation]
        self._q_scale = (parts.spec.d_model // heads) ** -0.5
        self._qkv = parts.linear(*(f"{prefix}.self.{n}" for n in "qkv"), scales=(self._q_scale, 1.0, 1.0))
        self._out = parts.linear(f"{prefix}.self.out")
        self._self_norm = parts.norm(f"{prefix}.self_norm")
        self._ffn_in = parts.linear(f"{prefix}.ffn.in")
        self._ffn_out = parts.linear(f"{prefix}.ffn.out")
        self._ffn_norm = parts.norm(f"{prefix}.ffn_norm")

    def _before(self, x: Tensor, norm: Norm) -> Tensor:
        return norm(x) if self._norm_first else x

    def _after(self, x: Tensor, block: Tensor, norm: Norm) -> Tensor:
        x = block.add_(x)
        return x if self._norm_first else norm(x)

    def _split(self, x: Tensor, sentences: int, parts: int) -> Tensor:
        """Return the parts that each row holds side by side, as (parts, sentences × heads, queries, size)."""
        queries, size = x.shape[0] // sentences, x.shape[1] // (parts * self._heads)
        split = x.view(sentences, queries, parts, self._heads, size).permute(2, 0, 3, 1, 4)
        return split.reshape(parts, sentences * self._heads, queries, size)

    def _join(self, x: Tensor, sentences: int) -> Tensor:
        """Return rows again from (sentences × heads, queries, size)."""
        heads = x.view(sentences, self._heads, *x.shape[1:])
        return heads.transpose(1, 2).reshape(sentences * x.shape[1], -1)

    def _feed_forward(self, x: Tensor) -> Tensor:
        hidden = self._activation(self._ffn_in(self._before(x, self._ffn_norm)))
        return self._after(x, self._ffn_out(hidden), self._ffn_norm)


class EncoderLayer(_Layer):
    def __call__(self, x: Tensor, packing: Packing, mask: Tensor) -> Tensor:
        qkv = packing.pad(self._qkv(self._before(x, self._self_norm)))
        context, _ = attend(mask, *self._split(qkv, packing.sentences, 3))
        context = packing.unpad(self._join(context, packing.sentences))
        return self._feed_forward(self._after(x, self._out(context), self._self_norm))


class DecoderLayer(_Layer):
    def __init__(self, parts: Parts, index: int) -> None:
        prefix, heads = f"decoder.{index}", parts.spec.decoder.heads
        super().__init__(parts, prefix, heads)
        self._index = index
        self._cross_q = parts.linear(f"{prefix}.cross.q", scales=(self._q_scale,))
        self._cross_out = parts.linear(f"{prefix}.cross.out")
        self._cross_norm = parts.norm(f"{prefix}.cross_norm")

    def __call__(self, x: Tensor, past: Past, source: Source) -> tuple[Tensor, Tensor]:
        """Return the rows after this layer, and its attention to the source."""
        sentences = source.sentences
        qkv = self._split(self._qkv(self._before(x, self._self_norm)), sentences, 3)
        context, _ = attend(past.mask, qkv[0], *past.extend(self._index, qkv[1:]))
        x = self._after(x, self._out(self._join(context, sentences)), self._self_norm)
        q = self._split(self._cross_q(self._before(x, self._cross_norm)), sentences, 1)[0]
        context, attention = attend(source.mask, q, *source.keys_values(self._index))
        x = self._after(x, self._cross_out(self._join(context, sentences)), self._cross_norm)
        return self._feed_forward(x), attention
