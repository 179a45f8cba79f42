"""What decoding remembers: the encoded sources, and the past of every beam in cells.

A decoder layer's past lies in *cells*, one for each beam of each step; a beam sees the cells of its own ancestors
through a mask. So a beam search never moves keys or values: it moves the mask. When the room for cells is full,
those that no beam sees any more are dropped; as beams share most of their past, that is most of them.

Attention works on (sentences × heads, ·, size): keys, values and masks are kept in that shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

HIDDEN = float("-inf")
_STEPS_OF_ROOM = 8
"""Steps between two droppings of unseen cells. More makes attention dearer, fewer makes dropping dearer."""


class Packing:
    """Sequences of different lengths: as rows without padding, and as a padded batch with its attention mask."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.sentences, self.width = len(lengths), max(lengths)
        real = torch.arange(self.width) < torch.tensor(lengths)[:, None]
        self._hidden = torch.zeros(real.shape).masked_fill_(~real, HIDDEN)
        self._rows = None if min(lengths) == self.width else real.flatten().nonzero().squeeze(1)

    def mask(self, heads: int) -> Tensor:
        """Return what hides the padding from every query, (sentences × heads, 1, width)."""
        return self._hidden.repeat_interleave(heads, 0)[:, None]

    def pad(self, rows: Tensor) -> Tensor:
        if self._rows is None:
            return rows
        return rows.new_zeros(self.sentences * self.width, *rows.shape[1:]).index_copy_(0, self._rows, rows)

    def unpad(self, padded: Tensor) -> Tensor:
        return padded if self._rows is None else padded.index_select(0, self._rows)


class Source:
    """Keys and values of the encoded sources for the cross-attention of every decoder layer, once a sentence."""

    def __init__(self, keys_values: Sequence[Tensor], mask: Tensor, sentences: int) -> None:
        self._keys_values = list(keys_values)  # keys of layer 0, values of layer 0, keys of layer 1, ...
        self.mask = mask
        self.sentences = sentences

    def keys_values(self, layer: int) -> tuple[Tensor, Tensor]:
        return self._keys_values[2 * layer], self._keys_values[2 * layer + 1]

    def keep(self, sentences: Tensor) -> None:
        mask = self._by_sentence(self.mask)[sentences].flatten(0, 1)
        width = int((mask > HIDDEN).sum(2).max())
        self.mask = mask[:, :, :width]
        self._keys_values = [self._by_sentence(each)[sentences, :, :width].flatten(0, 1) for each in self._keys_values]
        self.sentences = len(sentences)

    def _by_sentence(self, each: Tensor) -> Tensor:
        return each.view(self.sentences, -1, *each.shape[1:])


class Past(Protocol):
    """What a decoder layer's queries may attend to among the target's own tokens."""

    mask: Tensor
    """(sentences × heads, queries, keys), added to attention scores."""

    def extend(self, layer: int, keys_values: Tensor) -> Tensor:
        """Take the keys and values of the new rows, (2, sentences × heads, rows, size); return all there are."""


class TeacherForced:
    """The past of teacher forcing: every target token at once, each sees itself and those before it."""

    def __init__(self, packing: Packing, heads: int) -> None:
        causal = torch.full((packing.width, packing.width), HIDDEN).triu_(1)
        self.mask = causal + packing.mask(heads)

    def extend(self, layer: int, keys_values: Tensor) -> Tensor:
        return keys_values


class Cells:
    """The past of a beam search."""

    def __init__(self, layers: int, sentences: int, heads: int, beams: int, size: int) -> None:
        self._room = _STEPS_OF_ROOM * beams
        # Keys and values of each layer, (2, sentences × heads, room, size).
        self._cells = [torch.empty(2, sentences * heads, self._room, size) for _ in range(layers)]
        self._seen = torch.empty(sentences, 1, 0)  # (sentences, beams, cells): 0, or HIDDEN; at first one beam
        self._own = torch.full((sentences, beams, beams), HIDDEN)
        self._own.diagonal(dim1=1, dim2=2).zero_()
        self._heads = heads
        self.mask = self._seen

    def fork(self, parents: Tensor) -> None:
        """Let each beam continue the one that `parents`, (sentences, beams), names."""
        self._seen = self._seen.gather(1, parents.unsqueeze(2).expand(-1, -1, self._seen.shape[2]))

    def advance(self) -> None:
        """Open one cell for each beam, seen by that beam alone."""
        sentences, beams, used = self._seen.shape
        if used + beams > self._room:
            self.keep(torch.arange(sentences))
        self._seen = torch.cat([self._seen, self._own[:sentences, :beams, :beams]], 2)
        self.mask = self._seen.unsqueeze(1).expand(-1, self._heads, -1, -1).reshape(sentences * self._heads, beams, -1)

    def extend(self, layer: int, keys_values: Tensor) -> Tensor:
        beams, used = self._seen.shape[1:]
        cells = self._cells[layer]
        cells.narrow(2, used - beams, beams).copy_(keys_values)
        return cells.narrow(2, 0, used)

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences alone, without the cells that no beam sees, and make room."""
        beams, size = self._seen.shape[1], self._cells[0].shape[3]
        old_rows = self._cells[0].shape[1] * self._room
        self._seen = self._seen[sentences]
        alive = (self._seen > HIDDEN).any(1)  # (sentences, cells)
        most = int(alive.sum(1).max())
        order = alive.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]
        self._seen = self._seen.gather(2, order[:, None].expand(-1, beams, -1))
        room = most + _STEPS_OF_ROOM * beams
        # Rows of the old cells in their new order; what will lie in the free room is overwritten before it is seen.
        first = (sentences[:, None] * self._heads + torch.arange(self._heads)) * self._room
        rows = (first[:, :, None] + functional.pad(order, (0, room - most))[:, None]).flatten()
        both = torch.cat([rows, rows + old_rows])
        self._cells = [each.view(-1, size).index_select(0, both).view(2, -1, room, size) for each in self._cells]
        self._room = room
