"""What every tokenizer checks of a model and of the languages asked for."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from knnmt.errors import InputError, ModelError


def check_vocabulary(folder: Path, side: str, ids: Iterable[int], rows: int) -> None:
    """Raise if the tokenizer can give an id that the network has no embedding for."""
    if (largest := max(ids, default=0)) >= rows:
        raise ModelError(
            f"{folder}: the tokenizer's {side} vocabulary goes up to id {largest}, but the network has {rows} "
            f"embeddings. Expected ids below {rows}: these are another model's tokenizer files, copy the right ones."
        )


def language_token(code: str, languages: dict[str, int]) -> int:
    """The token of a language code."""
    token = languages.get(code)
    if token is None:
        close = get_close_matches(code, languages, cutoff=0.4)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        raise InputError(f"The model has no language {code!r}.{hint} It has: {', '.join(sorted(languages))}.")
    return token


def refuse_languages(source_language: str | None, target_language: str | None) -> None:
    """Raise if a language was asked for that the model cannot be told."""
    for option, code in (("source language", source_language), ("target language", target_language)):
        if code is not None:
            raise InputError(
                f"A {option} was given ({code!r}), but this model has no token that says it: expected none. "
                f"Leave the {option} out, or open a multilingual model."
            )
