"""The network's names for the tensors of a checkpoint, and the tensors under these names, read when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch

from knnmt.errors import ModelError
from knnmt.model.families.fields import Fields

if TYPE_CHECKING:
    from knnmt.model.checkpoint import Checkpoint
    from knnmt.model.families.family import Family
    from knnmt.model.spec import ModelSpec, StackSpec

BIAS = "final_logits_bias"


@dataclass(frozen=True, slots=True)
class Stored:
    """How a checkpoint stores one tensor of the network."""

    names: tuple[str, ...]
    """The first one present is it; the others are what it may be tied to."""
    shape: tuple[int, ...]
    """As stored."""
    convert: Callable[[torch.Tensor], torch.Tensor] | None = None


class LazyWeights(Mapping[str, torch.Tensor]):
    """Tensors that are made anew each time they are asked for."""

    def __init__(self, makers: Mapping[str, Callable[[], torch.Tensor]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._makers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def bind(family: Family, spec: ModelSpec, checkpoint: Checkpoint) -> LazyWeights:
    """The weights of a checkpoint, all known to be there and to have the right shape."""
    shared = family.vocabularies(Fields(checkpoint)).shared
    tensors = _tables(family, spec, shared)
    tensors |= _stack("encoder", spec.encoder, spec) | _stack("decoder", spec.decoder, spec)
    available = set(checkpoint.names())
    if BIAS in available:
        tensors["output_bias"] = Stored((BIAS,), (1, spec.decoder.vocabulary), torch.Tensor.flatten)
    computed: dict[str, Callable[[], torch.Tensor]] = {}
    for stack in ("encoder", "decoder"):
        stored = _positions(stack, family, spec)
        # A table that could be computed may be stored all the same, and even trained.
        if family.positions is None or available.intersection(_variants(stored)):
            tensors[f"{stack}.positions"] = stored
        else:
            computed[f"{stack}.positions"] = partial(family.positions, spec)
    return LazyWeights({name: _maker(stored, available, checkpoint) for name, stored in tensors.items()} | computed)


def _tables(family: Family, spec: ModelSpec, shared: bool) -> dict[str, Stored]:
    """Embeddings and output projection."""
    source, target = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
    tied = ("model.shared.weight", source, target, family.output) if shared else ()
    source_shape = (spec.encoder.vocabulary, spec.d_model)
    target_shape = (spec.decoder.vocabulary, spec.d_model)
    return {
        "source_embedding": Stored((source, *tied), source_shape),
        "target_embedding": Stored((target, *tied, family.output), target_shape),
        "output": Stored((family.output, target, *tied), target_shape),
    }


def _positions(stack: str, family: Family, spec: ModelSpec) -> Stored:
    """A stack's table of positions."""
    name, unused = f"model.{stack}.embed_positions.weight", family.unused_positions
    return Stored((name,), (unused + spec.max_positions, spec.d_model), lambda table: table[unused:])


def _stack(name: str, stack: StackSpec, spec: ModelSpec) -> dict[str, Stored]:
    """Layers and norms of the encoder or of the decoder."""
    width, inner = spec.d_model, stack.ffn
    modules: dict[tuple[str, str], tuple[int, ...]] = {}  # (our name, their name) to the shape of the weight
    if spec.embedding_norm:
        modules["embedding_norm", "layernorm_embedding"] = (width,)
    if spec.final_norm:
        modules["final_norm", "layer_norm"] = (width,)
    attentions = {"self": "self_attn"} | ({"cross": "encoder_attn"} if name == "decoder" else {})
    for layer in range(stack.layers):
        ours, theirs = f"{layer}", f"layers.{layer}"
        for kind, attention in attentions.items():
            for part in ("q", "k", "v", "out"):
                modules[f"{ours}.{kind}.{part}", f"{theirs}.{attention}.{part}_proj"] = (width, width)
            modules[f"{ours}.{kind}_norm", f"{theirs}.{attention}_layer_norm"] = (width,)
        modules[f"{ours}.ffn.in", f"{theirs}.fc1"] = (inner, width)
        modules[f"{ours}.ffn.out", f"{theirs}.fc2"] = (width, inner)
        modules[f"{ours}.ffn_norm", f"{theirs}.final_layer_norm"] = (width,)
    return {
        f"{name}.{ours}.{part}": Stored((f"model.{name}.{theirs}.{part}",), shape)
        for (ours, theirs), weight in modules.items()
        for part, shape in (("weight", weight), ("bias", weight[:1]))
    }


def _variants(stored: Stored) -> list[str]:
    """All names a tensor may have; those of a base model, saved without its output layer, begin later."""
    return [variant for name in stored.names for variant in (name, name.removeprefix("model."))]


def _maker(stored: Stored, available: set[str], checkpoint: Checkpoint) -> Callable[[], torch.Tensor]:
    """Reads a tensor; raises now if it is missing or has another shape."""
    name = next((name for name in _variants(stored) if name in available), None)
    if name is None:
        raise ModelError(
            f"{checkpoint.folder} has no tensor {stored.names[0]!r}. Expected one of shape {stored.shape}. "
            "Check that config.json and the weights belong together, and download them again."
        )
    if (found := checkpoint.shape(name)) != stored.shape:
        raise ModelError(
            f"{checkpoint.folder}: the tensor {name!r} has shape {found}. Expected {stored.shape} from config.json. "
            "Check that config.json and the weights belong together, and download them again."
        )
    convert = stored.convert
    return partial(checkpoint.tensor, name) if convert is None else lambda: convert(checkpoint.tensor(name))
