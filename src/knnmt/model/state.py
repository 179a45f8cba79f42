"""What decoding remembers: the encoded sources, and the past of every beam in cells.

A decoder layer's past lies in *cells*, one for each beam of each step; a beam sees the cells of its own ancestors
through a mask. So a beam search never moves keys or values: it moves the mask. When the room for cells is full,
those that no beam sees any more are dropped; as beams share most of their past, that is most of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

HIDDEN = float("-inf")
_FIRST_STEPS = 16
"""Steps that fresh cells have room for."""
_SPARE = 1.25
"""How much wider than its widest sentence the batch of sources may be."""


class Packing:
    """Sequences of different lengths: as rows without padding, and as a padded batch with its attention mask."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.sentences, self.width = len(lengths), max(lengths)
        real = torch.arange(self.width) < torch.tensor(lengths)[:, None]
        self.mask = torch.zeros(real.shape).masked_fill_(~real, HIDDEN)[:, None, None, :]
        self._rows = None if min(lengths) == self.width else real.flatten().nonzero().squeeze(1)

    def pad(self, rows: Tensor) -> Tensor:
        if self._rows is None:
            return rows
        return rows.new_zeros(self.sentences * self.width, *rows.shape[1:]).index_copy_(0, self._rows, rows)

    def unpad(self, padded: Tensor) -> Tensor:
        return padded if self._rows is None else padded.index_select(0, self._rows)


class Source:
    """Keys and values of the encoded sources for the cross-attention of every decoder layer, once a sentence."""

    def __init__(self, layers: Tensor, mask: Tensor) -> None:
        self._layers = layers  # (layers, 2, sentences, heads, width, size)
        self.mask = mask  # (sentences, 1, 1, width), added to attention scores

    @property
    def sentences(self) -> int:
        return self._layers.shape[2]

    def keys_values(self, layer: int) -> tuple[Tensor, Tensor]:
        keys, values = self._layers[layer].unbind(0)
        return keys, values

    def keep(self, sentences: Tensor) -> None:
        self._layers = self._layers.index_select(2, sentences)
        self.mask = self.mask.index_select(0, sentences)

    def replace(self, sentences: Tensor, other: Source) -> None:
        """Put the sentences of `other` in the places of these."""
        self.mask[sentences] = HIDDEN
        others = max(int((self.mask > HIDDEN).sum(-1).max()), other.mask.shape[-1])
        if not others <= self.mask.shape[-1] <= _SPARE * others:
            self.mask = functional.pad(self.mask, (0, others - self.mask.shape[-1]), value=HIDDEN)
            self._layers = functional.pad(self._layers, (0, 0, 0, others - self._layers.shape[4]))
        width = other.mask.shape[-1]
        self.mask[sentences, :, :, :width] = other.mask
        self._layers[:, :, sentences, :, :width] = other._layers


class Past(Protocol):
    """What a decoder layer's queries may attend to among the target's own tokens."""

    mask: Tensor
    """(sentences, 1, queries, keys), added to attention scores."""

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Take the keys and values of the new rows, (sentences, heads, rows, size); return all there are."""


class TeacherForced:
    """The past of teacher forcing: every target token at once, each sees itself and those before it."""

    def __init__(self, packing: Packing) -> None:
        causal = torch.full((packing.width, packing.width), HIDDEN).triu_(1)
        self.mask = causal + packing.mask

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return keys, values


class Cells:
    """The past of a beam search."""

    def __init__(self, layers: int, sentences: int, heads: int, size: int, beams: int) -> None:
        # (layers, 2, sentences, heads, room, size); zeros, because a hidden cell must still be a number
        self._cells = torch.zeros(layers, 2, sentences, heads, _FIRST_STEPS * beams, size)
        self._new = slice(0, 0)
        self._own = torch.full((beams, beams), HIDDEN).fill_diagonal_(0)
        self.mask = torch.zeros(sentences, 1, beams, 0)

    @property
    def _used(self) -> int:
        return self.mask.shape[3]

    def fork(self, parents: Tensor) -> None:
        """Let each beam continue the one that `parents`, (sentences, beams), names."""
        self.mask = self.mask.gather(2, parents[:, None, :, None].expand(-1, 1, -1, self._used))

    def advance(self) -> None:
        """Open one cell for each beam, seen by that beam alone."""
        beams = len(self._own)
        if self._used + beams > self._cells.shape[4]:
            self._make_room()
        self._new = slice(self._used, self._used + beams)
        self.mask = torch.cat([self.mask, self._own.expand(self.mask.shape[0], 1, -1, -1)], 3)

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        all_keys, all_values = self._cells[layer].unbind(0)
        all_keys[:, :, self._new] = keys
        all_values[:, :, self._new] = values
        return all_keys[:, :, : self._used], all_values[:, :, : self._used]

    def keep(self, sentences: Tensor) -> None:
        self._cells = self._cells.index_select(2, sentences)
        self.mask = self.mask.index_select(0, sentences)

    def forget(self, sentences: Tensor) -> None:
        """Hide the whole past of these sentences."""
        self.mask[sentences] = HIDDEN

    def _make_room(self) -> None:
        """Drop the cells that no beam sees; have room for as many again as are left."""
        seen = (self.mask > HIDDEN).any(2).squeeze(1)  # (sentences, used)
        most = int(seen.sum(1).max())
        order = seen.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]
        layers, two, sentences, heads, room, size = self._cells.shape
        rows = torch.arange(0, self._cells.numel() // size, room).view(-1, sentences, heads, 1) + order[None, :, None]
        kept = self._cells.view(-1, size).index_select(0, rows.flatten())
        new_room = max(_FIRST_STEPS * len(self._own), 2 * most)
        self._cells = self._cells.new_zeros(layers, two, sentences, heads, new_room, size)
        self._cells[..., :most, :] = kept.view(layers, two, sentences, heads, most, size)
        self.mask = self.mask.gather(3, order[:, None, None, :].expand(-1, 1, len(self._own), -1))
