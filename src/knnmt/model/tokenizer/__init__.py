"""Text to the token ids of a model, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from knnmt.model.checkpoint import Checkpoint
    from knnmt.model.spec import ModelSpec

__all__ = ["Tokenizer", "open_tokenizer"]


class Tokenizer(Protocol):
    """The two vocabularies of a model, for one direction of translation."""

    @property
    def decoder_start(self) -> int:
        """The token that the decoder is fed first."""

    @property
    def forced_start(self) -> int | None:
        """The token every output must begin with: the target language, or what the spec says."""

    def encode(self, text: str) -> list[int]:
        """What the encoder reads: the source's tokens and the special tokens around them."""

    def encode_target(self, text: str) -> list[int]:
        """What the decoder should produce after `decoder_start`, end of sentence included."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of target tokens, special tokens left out."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each target token as written in the vocabulary."""


def open_tokenizer(
    checkpoint: Checkpoint,
    spec: ModelSpec,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Tokenizer:
    """The tokenizer of a checkpoint; the languages are for models that know more than one pair."""
    if spec.family == "marian":
        from knnmt.model.tokenizer.marian import open_marian_tokenizer

        return open_marian_tokenizer(checkpoint, spec, source_language, target_language)
    from knnmt.model.tokenizer.automatic import open_automatic_tokenizer

    return open_automatic_tokenizer(checkpoint, spec, source_language, target_language)
