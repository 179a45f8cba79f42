"""The one Transformer, written for decoding: it hands out h_t for every live row at every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from knnmt.model.allocation import keep_freed_memory
from knnmt.model.layers import DecoderLayer, EncoderLayer, Norm, Parts
from knnmt.model.spec import ModelSpec, Weights
from knnmt.model.state import Cells, Packing, Past, Source, TeacherForced
from knnmt.model.vocabulary import Vocabulary
from knnmt.records import Compute

_TOKENS_AT_ONCE = 320
"""Source tokens encoded together: 64 long sentences at once took 1.6 times as long, 160 to 640 tokens are alike."""


@dataclass(frozen=True, slots=True)
class States:
    """What the decoder knows at some rows, before any token is chosen."""

    hidden: Tensor
    """(rows, d_model): h_t, the input of the output projection."""
    attention: Tensor
    """(sentences × heads, queries, source width): the last layer's attention to the source."""


class Decoding:
    """The live sentences of a search; row = sentence × beams + beam."""

    def __init__(self, source: Source, past: Cells) -> None:
        self._source, self._past = source, past
        self._position = 0

    def fork(self, parents: Tensor) -> None:
        """Let each beam continue the one that `parents`, (sentences, beams), names."""
        self._past.fork(parents)

    def keep(self, sentences: Tensor) -> None:
        """Drop all sentences but these."""
        self._source.keep(sentences)
        self._past.keep(sentences)


class _Stack:
    """Embeddings, positions and norms of the encoder or the decoder."""

    def __init__(self, parts: Parts, name: str, embedding: str) -> None:
        spec = parts.spec
        self._embedding, self._scale = parts.weights[embedding], spec.embedding_scale
        self._positions = parts.weights[f"{name}.positions"].float()
        self._embedding_norm: Norm | None = parts.norm(f"{name}.embedding_norm") if spec.embedding_norm else None
        self.final_norm: Norm | None = parts.norm(f"{name}.final_norm") if spec.final_norm else None

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x = self._embedding.index_select(0, tokens).float().mul_(self._scale)
        x += self._positions.index_select(0, positions)
        return x if self._embedding_norm is None else self._embedding_norm(x)


class Network:
    """An encoder-decoder Transformer with the weights of a checkpoint."""

    def __init__(self, spec: ModelSpec, weights: Weights, compute: Compute) -> None:
        keep_freed_memory()
        parts = Parts(spec, weights, compute)
        self.spec, self.compute = spec, compute
        self._encoder = _Stack(parts, "encoder", "source_embedding")
        self._decoder = _Stack(parts, "decoder", "target_embedding")
        self._encoder_layers = [
            EncoderLayer(parts, f"encoder.{i}", spec.encoder.heads) for i in range(spec.encoder.layers)
        ]
        self._decoder_layers = [DecoderLayer(parts, i) for i in range(spec.decoder.layers)]
        self._cross = parts.linear(*(f"decoder.{i}.cross.{n}" for i in range(spec.decoder.layers) for n in "kv"))
        self.vocabulary = Vocabulary(parts)

    def start(self, sources: Sequence[Sequence[int]], beams: int) -> Decoding:
        """Encode the sources for a search with so many beams."""
        decoder = self.spec.decoder
        past = Cells(decoder.layers, len(sources), decoder.heads, beams, self.spec.d_model // decoder.heads)
        return Decoding(self._encode(sources), past)

    def step(self, decoding: Decoding, tokens: Tensor) -> States:
        """Feed every beam its last token, (sentences, beams); return the states that choose the next."""
        position = torch.tensor([decoding._position])
        decoding._past.advance()
        decoding._position += 1
        return self._decode(tokens.flatten(), position, decoding._past, decoding._source)

    def force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> States:
        """Return the states that would choose each target token, rows in order, without padding."""
        packing = Packing([len(target) for target in targets])
        start = self.spec.decoder_start
        shifted = torch.full((packing.sentences, packing.width), start)
        for row, target in zip(shifted, targets, strict=True):
            row[1 : len(target)] = torch.tensor(target[:-1])
        positions = torch.arange(packing.width).repeat(packing.sentences)
        past = TeacherForced(packing, self.spec.decoder.heads)
        states = self._decode(shifted.flatten(), positions, past, self._encode(sources))
        return States(packing.unpad(states.hidden), states.attention)

    def _encode(self, sources: Sequence[Sequence[int]]) -> Source:
        layers, heads = self.spec.decoder.layers, self.spec.decoder.heads
        packing = Packing([len(source) for source in sources])
        # Zeros, because a hidden key or value must still be a number.
        keys_values = torch.zeros(2 * layers, len(sources), heads, packing.width, self.spec.d_model // heads)
        first = 0
        for group in _groups(sources):
            group_packing = Packing([len(source) for source in group])
            rows = group_packing.pad(self._cross(self._encode_rows(group, group_packing)))
            by_layer = rows.view(len(group), group_packing.width, 2 * layers, heads, -1).permute(2, 0, 3, 1, 4)
            keys_values[:, first : first + len(group), :, : group_packing.width] = by_layer
            first += len(group)
        return Source(keys_values.flatten(1, 2).unbind(0), packing.mask(heads), len(sources))

    def _encode_rows(self, sources: Sequence[Sequence[int]], packing: Packing) -> Tensor:
        tokens = torch.tensor([token for source in sources for token in source])
        x = self._encoder.embed(tokens, torch.cat([torch.arange(len(source)) for source in sources]))
        mask = packing.mask(self.spec.encoder.heads)
        for layer in self._encoder_layers:
            x = layer(x, packing, mask)
        return x if self._encoder.final_norm is None else self._encoder.final_norm(x)

    def _decode(self, tokens: Tensor, positions: Tensor, past: Past, source: Source) -> States:
        x = self._decoder.embed(tokens, positions)
        for layer in self._decoder_layers:
            x, attention = layer(x, past, source)
        if self._decoder.final_norm is not None:
            x = self._decoder.final_norm(x)
        return States(x, attention)


def _groups(sources: Sequence[Sequence[int]]) -> Iterator[Sequence[Sequence[int]]]:
    """Yield the sources in runs short enough for the processor's caches."""
    first, tokens = 0, 0
    for last, source in enumerate(sources):
        if tokens and tokens + len(source) > _TOKENS_AT_ONCE:
            yield sources[first:last]
            first, tokens = last, 0
        tokens += len(source)
    yield sources[first:]
