"""The tokenizers that transformers has, behind the same protocol."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from knnmt.errors import InputError, MissingExtra, ModelError
from knnmt.model.files import first_line
from knnmt.model.tokenizer.checks import check_vocabulary, language_token, refuse_languages

if TYPE_CHECKING:
    from pathlib import Path

    from knnmt.model.checkpoint import Checkpoint
    from knnmt.model.spec import ModelSpec

SENTENCEPIECE = "sentencepiece.bpe.model"

VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab-src.json", SENTENCEPIECE)

REMEDY = "copy or download the model's tokenizer files into the folder"


@dataclass(frozen=True, slots=True)
class AutomaticTokenizer:
    """A tokenizer of transformers, set to one direction of translation."""

    source: Any
    target: Any
    """The one that splits target text; differs from `source` only for FSMT."""
    languages: Mapping[str, int]
    """Token of each language; empty for a model of one pair."""
    eos: int
    decoder_start: int
    forced_start: int | None

    def encode(self, text: str) -> list[int]:
        """What the encoder reads."""
        return list(self.source(text).input_ids)

    def encode_target(self, text: str) -> list[int]:
        """What the decoder should produce."""
        if not self.languages:
            return list(self.target(text_target=text).input_ids)
        # Some of these tokenizers put the language last, where the decoder never produces it.
        start = [] if self.forced_start is None else [self.forced_start]
        return [*start, *self.target(text_target=text, add_special_tokens=False).input_ids, self.eos]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of target tokens."""
        # M2M100's tokenizer does not count languages as special tokens.
        languages = set(self.languages.values())
        text: str = self.source.decode([i for i in ids if i not in languages], skip_special_tokens=True)
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each target token as written in the vocabulary."""
        return list(self.source.convert_ids_to_tokens(list(ids)))


def open_automatic_tokenizer(
    checkpoint: Checkpoint, spec: ModelSpec, source_language: str | None, target_language: str | None
) -> AutomaticTokenizer:
    """The tokenizer of a checkpoint as transformers' AutoTokenizer reads it, for one direction."""
    tokenizer = _load(checkpoint.folder)
    languages = _languages(tokenizer)
    start, forced = spec.decoder_start, spec.forced_start
    if languages:
        source, target = _direction(languages, spec, source_language, target_language)
        tokenizer.src_lang, tokenizer.tgt_lang = source, target
        start, forced = _starts(tokenizer, languages[target], spec)
    else:
        refuse_languages(source_language, target_language)
    other = _reversed_fsmt(tokenizer) if spec.family == "fsmt" else tokenizer
    for side, splitter, stack in (("source", tokenizer, spec.encoder), ("target", other, spec.decoder)):
        ids = [*splitter.get_vocab().values(), *languages.values()]
        check_vocabulary(checkpoint.folder, side, ids, stack.vocabulary)
    return AutomaticTokenizer(tokenizer, other, languages, spec.eos, start, forced)


def _load(folder: Path) -> Any:
    """What AutoTokenizer makes of a folder."""
    from transformers import AutoTokenizer

    # AutoTokenizer would make an empty tokenizer of a folder that has none of these.
    if not any((folder / name).exists() for name in VOCABULARIES):
        raise ModelError(f"{folder} has no tokenizer. Expected one of {', '.join(VOCABULARIES)}: {REMEDY}.")
    try:
        # Longer text is split by the translator; the tokenizer need not warn of it.
        return AutoTokenizer.from_pretrained(folder, model_max_length=sys.maxsize)
    except Exception as error:  # the tokenizers package raises bare Exception for a malformed file
        if isinstance(error, ImportError) and not _importable("sacremoses"):
            raise MissingExtra(f"The tokenizer in {folder}", "sacremoses") from error
        if (folder / SENTENCEPIECE).exists() and not _importable("google.protobuf"):
            raise MissingExtra(f"The tokenizer in {folder}", "protobuf") from error
        raise ModelError(
            f"{folder} has no tokenizer that transformers can read: {first_line(error)} Expected those files that the "
            f"model came with: {REMEDY}."
        ) from error


def _importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False


def _languages(tokenizer: Any) -> dict[str, int]:
    """Token of each language that a multilingual tokenizer knows."""
    if not hasattr(tokenizer, "set_tgt_lang_special_tokens"):
        return {}
    if hasattr(tokenizer, "lang_code_to_id"):
        return dict(tokenizer.lang_code_to_id)
    return {code: tokenizer.convert_tokens_to_ids(code) for code in tokenizer.extra_special_tokens}


def _direction(languages: dict[str, int], spec: ModelSpec, source: str | None, target: str | None) -> tuple[str, str]:
    """Codes of source and target: as given, or the target that the checkpoint begins its outputs with."""
    # The source that a tokenizer was saved with is no help: transformers writes English for want of any.
    codes = {token: code for code, token in languages.items()}
    target = target or codes.get(spec.decoder_start if spec.forced_start is None else spec.forced_start)
    if source is None or target is None:
        side = "source" if source is None else "target"
        raise InputError(
            f"The model translates between many languages, and no {side} language was given. Expected one of "
            f"{', '.join(sorted(languages))}: name it with --{side}-language."
        )
    for code in (source, target):
        language_token(code, languages)
    return source, target


def _starts(tokenizer: Any, language: int, spec: ModelSpec) -> tuple[int, int | None]:
    """The tokens that the decoder is fed first and must produce first."""
    from transformers import MBartTokenizer

    # The first mBART is fed its language; M2M100, NLLB and mBART-50 produce it.
    return (language, None) if isinstance(tokenizer, MBartTokenizer) else (spec.decoder_start, language)


def _reversed_fsmt(tokenizer: Any) -> Any:
    """FSMT's tokenizer splits source text only; this one has the languages swapped."""
    source, target = tokenizer.src_lang, tokenizer.tgt_lang
    return type(tokenizer)(
        langs=[target, source],
        src_vocab_file=tokenizer.tgt_vocab_file,
        tgt_vocab_file=tokenizer.src_vocab_file,
        merges_file=tokenizer.merges_file,
        do_lower_case=tokenizer.do_lower_case,
    )
