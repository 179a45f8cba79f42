"""What sets one family of checkpoints apart, and how a spec is read from a configuration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from knnmt.errors import ModelError
from knnmt.model.families.fields import Fields
from knnmt.model.spec import Activation, ModelSpec, StackSpec

if TYPE_CHECKING:
    from knnmt.model.checkpoint import Checkpoint

ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """Sizes of the two vocabularies, and whether one table of embeddings serves both."""

    source: int
    target: int
    shared: bool


def one_vocabulary(fields: Fields) -> Vocabularies:
    """The common case: one vocabulary, one table."""
    size = fields.size("vocab_size")
    return Vocabularies(size, size, shared=True)


@dataclass(frozen=True, slots=True)
class Family:
    """Conventions that the checkpoints of one `model_type` share."""

    example: str
    """A model on the hub."""
    norm_first: bool
    final_norm: bool
    embedding_norm: bool
    positions: Callable[[ModelSpec], torch.Tensor] | None = None
    """Computes the table of positions; None if it is learned, and so part of the checkpoint."""
    unused_positions: int = 2
    """Rows at the head of a stored table; fairseq counts positions from pad + 1."""
    vocabularies: Callable[[Fields], Vocabularies] = one_vocabulary
    output: str = "lm_head.weight"
    """Tensor that maps a decoder state to logits; one that is absent is tied to the embeddings."""


def read_spec(model_type: str, family: Family, checkpoint: Checkpoint) -> ModelSpec:
    """The spec of a checkpoint, from its configuration."""
    fields = Fields(checkpoint)
    _refuse_other_conventions(family, fields)
    vocabularies = family.vocabularies(fields)
    d_model = fields.size("d_model")
    eos = fields.token("eos_token_id")
    start = "decoder_start_token_id" if fields.get("decoder_start_token_id") is not None else "bos_token_id"
    spec = ModelSpec(
        family=model_type,
        d_model=d_model,
        encoder=_stack("encoder", vocabularies.source, fields),
        decoder=_stack("decoder", vocabularies.target, fields),
        activation=ACTIVATIONS[fields.choice("activation_function", ACTIVATIONS)],
        norm_first=family.norm_first,
        final_norm=family.final_norm,
        embedding_norm=family.embedding_norm,
        embedding_scale=math.sqrt(d_model) if fields.flag("scale_embedding") else 1.0,
        max_positions=fields.size("max_position_embeddings"),
        pad=fields.token("pad_token_id"),
        eos=eos,
        decoder_start=fields.token(start),
        forced_start=fields.optional_token("forced_bos_token_id"),
        forced_eos=fields.optional_token("forced_eos_token_id") is not None,
        suppressed=_suppressed(eos, fields),
    )
    _check(spec, checkpoint)
    return spec


def _stack(stack: str, vocabulary: int, fields: Fields) -> StackSpec:
    return StackSpec(
        layers=fields.size(f"{stack}_layers"),
        heads=fields.size(f"{stack}_attention_heads"),
        ffn=fields.size(f"{stack}_ffn_dim"),
        vocabulary=vocabulary,
    )


def _refuse_other_conventions(family: Family, fields: Fields) -> None:
    """Raise for a configuration that asks for what its family does not do, and transformers ignores."""
    conventions = {
        "normalize_before": family.norm_first,
        "normalize_embedding": family.embedding_norm,
        "add_final_layer_norm": family.final_norm,
        "static_position_embeddings": family.positions is not None,
    }
    for name, convention in conventions.items():
        if fields.flag(name, convention) != convention:
            raise fields.error(name, fields.get(name), f"{convention}".lower() + " or no such field for this family")


def _suppressed(eos: int, fields: Fields) -> tuple[int, ...]:
    """Tokens that are never produced; like transformers, never the end of the sentence on account of bad words."""
    words = fields.get("bad_words_ids", [])
    if not isinstance(words, list) or not all(isinstance(word, list) and len(word) == 1 for word in words):
        raise fields.error("bad_words_ids", words, "a list of sequences of one token each")
    tokens = {word[0] for word in words if word[0] != eos}
    return tuple(sorted(tokens.union(fields.tokens("suppress_tokens"))))


def _check(spec: ModelSpec, checkpoint: Checkpoint) -> None:
    """Raise for sizes and tokens that cannot go together."""
    for name, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        if spec.d_model % stack.heads:
            raise ModelError(
                f"{checkpoint.folder}: config.json gives the {name} {stack.heads} heads for a d_model of "
                f"{spec.d_model}. Expected a divisor of d_model: correct config.json."
            )
    source, target = spec.encoder.vocabulary, spec.decoder.vocabulary
    tokens = [
        ("pad_token_id", spec.pad, min(source, target)),
        ("eos_token_id", spec.eos, min(source, target)),
        ("decoder_start_token_id", spec.decoder_start, target),
        ("forced_bos_token_id", spec.forced_start or 0, target),
        ("the largest suppressed token", max(spec.suppressed, default=0), target),
    ]
    for name, token, size in tokens:
        if token >= size:
            raise ModelError(
                f"{checkpoint.folder}: {name} is {token}, but the vocabulary has {size} tokens, counted from 0. "
                "Expected a smaller id: correct config.json or generation_config.json."
            )
