"""Marian's tokenizer on sentencepiece alone: importing transformers for it would double the start-up time.

The ids are those of transformers' MarianTokenizer, but for one thing: text that spells a special token, such as
"</s>", is text here, and ends the sentence there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sentencepiece import SentencePieceProcessor

from knnmt.errors import ModelError
from knnmt.model.files import read_json
from knnmt.model.tokenizer.checks import check_vocabulary, language_token, refuse_languages

if TYPE_CHECKING:
    from knnmt.model.checkpoint import Checkpoint
    from knnmt.model.spec import ModelSpec

UNKNOWN = "<unk>"


@dataclass(frozen=True, slots=True)
class Side:
    """One side's pieces and their ids."""

    splitter: SentencePieceProcessor
    ids: Mapping[str, int]

    def encode(self, text: str) -> list[int]:
        """Ids of the text, and of a language code such as >>fra<< in front of it."""
        pieces = []
        if text.startswith(">>") and (end := text.find("<<")) != -1:
            pieces, text = [text[: end + 2]], text[end + 2 :]
        pieces += self.splitter.encode(text, out_type=str)
        unknown = self.ids[UNKNOWN]
        return [self.ids.get(piece, unknown) for piece in pieces]


@dataclass(frozen=True, slots=True)
class MarianTokenizer:
    """The tokenizer of an OPUS-MT model."""

    source: Side
    target: Side
    target_pieces: Mapping[int, str]
    language: tuple[int, ...]
    """Code of the target language, put in front of a source that begins with none."""
    special: frozenset[int]
    eos: int
    decoder_start: int
    forced_start: int | None

    def encode(self, text: str) -> list[int]:
        """What the encoder reads."""
        language = () if text.startswith(">>") else self.language
        return [*language, *self.source.encode(text), self.eos]

    def encode_target(self, text: str) -> list[int]:
        """What the decoder should produce."""
        return [*self.target.encode(text), self.eos]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of target tokens."""
        text: str = self.target.splitter.decode_pieces(self.pieces([i for i in ids if i not in self.special]))
        # Pieces that the target's sentencepiece does not know keep their mark of a space.
        return text.replace("▁", " ").strip()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each target token as written in the vocabulary."""
        return [self.target_pieces.get(i, UNKNOWN) for i in ids]


def open_marian_tokenizer(
    checkpoint: Checkpoint, spec: ModelSpec, source_language: str | None, target_language: str | None
) -> MarianTokenizer:
    """The tokenizer of a Marian checkpoint: two sentencepiece models and one or two vocabularies."""
    folder = checkpoint.folder
    source_ids = _read_vocabulary(folder / "vocab.json", spec.encoder.vocabulary)
    separate = folder / "target_vocab.json"
    target_ids = _read_vocabulary(separate, spec.decoder.vocabulary) if separate.exists() else source_ids
    return MarianTokenizer(
        source=Side(_read_pieces(folder / "source.spm"), source_ids),
        target=Side(_read_pieces(folder / "target.spm"), target_ids),
        target_pieces={number: piece for piece, number in target_ids.items()},
        language=_language(source_ids, source_language, target_language),
        special=frozenset((spec.eos, spec.pad, target_ids[UNKNOWN])),
        eos=spec.eos,
        decoder_start=spec.decoder_start,
        forced_start=spec.forced_start,
    )


def _language(ids: Mapping[str, int], source_language: str | None, target_language: str | None) -> tuple[int, ...]:
    """The code of the target language, if the model knows several."""
    codes = {piece[2:-2]: number for piece, number in ids.items() if piece.startswith(">>") and piece.endswith("<<")}
    refuse_languages(source_language, None if codes else target_language)
    return () if target_language is None else (language_token(target_language, codes),)


def _read_vocabulary(path: Path, rows: int) -> dict[str, int]:
    """Ids by piece."""
    ids = read_json(path)
    if UNKNOWN not in ids or any(type(number) is not int for number in ids.values()):
        raise ModelError(f"{path} is no vocabulary. Expected ids by piece, {UNKNOWN} among them: download it again.")
    check_vocabulary(path.parent, path.name, ids.values(), rows)
    return ids


def _read_pieces(path: Path) -> SentencePieceProcessor:
    """A sentencepiece model."""
    splitter = SentencePieceProcessor()
    try:
        splitter.Load(str(path))
    except (OSError, RuntimeError) as error:
        what = "cannot be read as a sentencepiece model" if path.exists() else "is missing"
        raise ModelError(f"{path} {what}. Expected the file that the model came with: download it again.") from error
    return splitter
