"""Segments as an encoder can read them: token ids, in several parts where a segment is longer than the model."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from knnmt.model.tokenizer import Tokenizer

_log = logging.getLogger("knnmt")

_SHOWN = 40
"""Characters of a segment that a warning quotes."""


@dataclass(frozen=True, slots=True)
class SegmentEncoder:
    """Turns segments into what the network reads."""

    tokenizer: Tokenizer
    most_tokens: int
    """Tokens that the network has positions for."""
    language: str | None
    """Of the source, as the model writes it; None if it was not said."""

    def parts(self, segment: str) -> list[list[int]]:
        """Return the tokens of a segment: no part if it is blank, several if it is too long for the network."""
        if not segment.strip():
            return []
        tokens = self.tokenizer.encode(segment)
        if len(tokens) <= self.most_tokens:
            return [tokens]
        parts = [part for sentence in self._sentences(segment) for part in self._halves(sentence)]
        _log.warning(
            "the segment that begins %r has %d tokens, but the model reads %d at once: it is translated in %d parts, "
            "split at the ends of sentences where possible. To choose the places, split such segments yourself.",
            segment.strip()[:_SHOWN],
            len(tokens),
            self.most_tokens,
            len(parts),
        )
        return parts

    def _sentences(self, text: str) -> Iterator[str]:
        from sentencex import segment

        # Of deu_Latn and de_DE it understands the part before the mark; what it does not know it splits as English.
        language = (self.language or "en").partition("_")[0]
        return (sentence.strip() for sentence in segment(language, text) if sentence.strip())

    def _halves(self, text: str) -> Iterator[list[int]]:
        """Yield the tokens of a text, halved at the space nearest its middle as often as needed."""
        tokens = self.tokenizer.encode(text)
        if len(tokens) <= self.most_tokens:
            yield tokens
            return
        middle = len(text) // 2
        spaces = (text.rfind(" ", 0, middle), text.find(" ", middle))
        # Where there is no space, as in Chinese, between two characters.
        cut = min((space for space in spaces if space > 0), key=lambda space: abs(space - middle), default=middle)
        for half in (text[:cut], text[cut:].lstrip(" ")):
            yield from self._halves(half)
