"""The one Transformer, written for decoding: it hands out h_t for every live row at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from knnmt.model.layers import DecoderLayer, EncoderLayer, Norm, Parts
from knnmt.model.spec import ModelSpec, StackSpec, Weights
from knnmt.model.state import Cells, Packing, Past, Source, TeacherForced
from knnmt.model.vocabulary import Vocabulary
from knnmt.records import Compute


@dataclass(frozen=True, slots=True)
class States:
    """What the decoder knows at some rows, before any token is chosen."""

    hidden: Tensor
    """(rows, d_model): h_t, the input of the output projection."""
    attention: Tensor
    """(sentences, heads, queries, source width): the last layer's attention to the source."""


class Decoding:
    """The live sentences of a search; row = sentence × beams + beam."""

    def __init__(self, source: Source, past: Cells) -> None:
        self._source, self._past = source, past
        self._positions = torch.zeros(source.sentences, dtype=torch.long)

    def fork(self, parents: Tensor) -> None:
        """Let each beam continue the one that `parents`, (sentences, beams), names."""
        self._past.fork(parents)

    def keep(self, sentences: Tensor) -> None:
        """Drop all sentences but these."""
        self._source.keep(sentences)
        self._past.keep(sentences)
        self._positions = self._positions.index_select(0, sentences)


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
        parts = Parts(spec, weights, compute)
        self.spec, self.compute = spec, compute
        self._encoder = _Stack(parts, "encoder", "source_embedding")
        self._decoder = _Stack(parts, "decoder", "target_embedding")
        self._encoder_layers = [EncoderLayer(parts, f"encoder.{i}", spec.encoder.heads) for i in range(spec.encoder.layers)]
        self._decoder_layers = [DecoderLayer(parts, i) for i in range(spec.decoder.layers)]
        self._cross = parts.linear(*(f"decoder.{i}.cross.{n}" for i in range(spec.decoder.layers) for n in "kv"))
        self.vocabulary = Vocabulary(parts)

    def start(self, sources: Sequence[Sequence[int]], beams: int) -> Decoding:
        """Encode the sources for a search with so many beams."""
        decoder = self.spec.decoder
        past = Cells(decoder.layers, len(sources), decoder.heads, self.spec.d_model // decoder.heads, beams)
        return Decoding(self._encode(sources), past)

    def replace(self, decoding: Decoding, sentences: Tensor, sources: Sequence[Sequence[int]]) -> None:
        """Put new sources in the places of these sentences."""
        decoding._source.replace(sentences, self._encode(sources))
        decoding._past.forget(sentences)
        decoding._positions[sentences] = 0

    def step(self, decoding: Decoding, tokens: Tensor) -> States:
        """Feed every beam its last token, (sentences, beams); return the states that choose the next."""
        positions = decoding._positions[:, None].expand(tokens.shape).flatten()
        decoding._past.advance()
        decoding._positions = decoding._positions + 1
        return self._decode(tokens.flatten(), positions, decoding._past, decoding._source)

    def force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> States:
        """Return the states that would choose each target token, rows in order, without padding."""
        packing = Packing([len(target) for target in targets])
        start = self.spec.decoder_start
        shifted = torch.full((packing.sentences, packing.width), start)
        for row, target in zip(shifted, targets, strict=True):
            row[1 : len(target)] = torch.tensor(target[:-1])
        positions = torch.arange(packing.width).repeat(packing.sentences)
        states = self._decode(shifted.flatten(), positions, TeacherForced(packing), self._encode(sources))
        return States(packing.unpad(states.hidden), states.attention)

    def _encode(self, sources: Sequence[Sequence[int]]) -> Source:
        packing = Packing([len(source) for source in sources])
        tokens = torch.tensor([token for source in sources for token in source])
        positions = torch.cat([torch.arange(len(source)) for source in sources])
        x = self._encoder.embed(tokens, positions)
        for layer in self._encoder_layers:
            x = layer(x, packing)
        if self._encoder.final_norm is not None:
            x = self._encoder.final_norm(x)
        decoder = self.spec.decoder
        keys_values = packing.pad(self._cross(x)).view(
            packing.sentences, packing.width, decoder.layers, 2, decoder.heads, -1
        )
        return Source(keys_values.permute(2, 3, 0, 4, 1, 5).contiguous(), packing.mask)

    def _decode(self, tokens: Tensor, positions: Tensor, past: Past, source: Source) -> States:
        x = self._decoder.embed(tokens, positions)
        for layer in self._decoder_layers:
            x, attention = layer(x, past, source)
        if self._decoder.final_norm is not None:
            x = self._decoder.final_norm(x)
        return States(x, attention)
