"""What the one network must know to behave like a given checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import torch

Activation: TypeAlias = Literal["relu", "gelu", "silu"]


@dataclass(frozen=True, slots=True)
class StackSpec:
    """Shape of the encoder or of the decoder."""

    layers: int
    heads: int
    ffn: int
    vocabulary: int


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Shape and conventions of an encoder-decoder Transformer."""

    family: str
    d_model: int
    encoder: StackSpec
    decoder: StackSpec
    activation: Activation
    norm_first: bool
    """Layer norm before each block (mBART, M2M100) instead of after it (Marian, FSMT, BART)."""
    final_norm: bool
    """One more layer norm after the last layer of each stack."""
    embedding_norm: bool
    """A layer norm on the sum of embedding and position (BART, mBART)."""
    embedding_scale: float
    max_positions: int
    pad: int
    eos: int
    decoder_start: int
    """The token that the decoder is fed first; never part of an output."""
    forced_start: int | None = None
    """The token every output must begin with: a language code, or BART's <s>."""
    forced_eos: bool = False
    """The last token that the length limit allows is the end of the sentence."""
    suppressed: tuple[int, ...] = ()
    """Tokens that are never produced."""


Weights: TypeAlias = Mapping[str, "torch.Tensor"]
"""The tensors of a checkpoint under the network's own names, read from disk when asked for:

    source_embedding, target_embedding           (vocabulary, d_model)
    output, output_bias?                         (vocabulary, d_model), (vocabulary,)
    {encoder,decoder}.positions                  (max_positions, d_model), row p for position p
    {encoder,decoder}.embedding_norm.*?          * is weight and bias
    {encoder,decoder}.final_norm.*?
    {encoder,decoder}.I.self.{q,k,v,out}.*       layer I, counted from 0
    {encoder,decoder}.I.self_norm.*
    decoder.I.cross.{q,k,v,out}.*, decoder.I.cross_norm.*
    {encoder,decoder}.I.ffn.{in,out}.*, {encoder,decoder}.I.ffn_norm.*

A name marked ? is missing where the spec does not ask for it. Tensors keep the dtype of the checkpoint.
"""
