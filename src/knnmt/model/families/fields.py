"""The fields of a checkpoint's configuration, checked as they are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from knnmt.errors import ModelError

if TYPE_CHECKING:
    from knnmt.model.checkpoint import Checkpoint


class Fields:
    """config.json with generation_config.json on top, as transformers' `generate` sees them."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._folder = checkpoint.folder
        given = {name: value for name, value in checkpoint.generation_config.items() if value is not None}
        self._fields = {**checkpoint.config, **given}

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an optional field; null counts as absent."""
        value = self._fields.get(name)
        return default if value is None else value

    def size(self, name: str) -> int:
        """A positive integer."""
        value = self.get(name)
        if type(value) is not int or value < 1:
            raise self.error(name, value, "a positive integer")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false."""
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise self.error(name, value, "true or false")
        return value

    def token(self, name: str) -> int:
        """A token id."""
        token = self.optional_token(name)
        if token is None:
            raise self.error(name, None, "a token id")
        return token

    def optional_token(self, name: str) -> int | None:
        """A token id; None if the field is absent."""
        value = self.get(name)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is not None and (type(value) is not int or value < 0):
            raise self.error(name, value, "one token id")
        return value

    def tokens(self, name: str) -> list[int]:
        """A list of token ids; empty if the field is absent."""
        value = self.get(name, [])
        if not isinstance(value, list) or any(type(token) is not int or token < 0 for token in value):
            raise self.error(name, value, "a list of token ids")
        return value

    def choice(self, name: str, choices: Iterable[str]) -> str:
        """One of `choices`."""
        value = self.get(name)
        if value not in (choices := sorted(choices)):
            raise self.error(name, value, f"one of {', '.join(choices)}")
        return str(value)

    def error(self, name: str, found: object, expected: str) -> ModelError:
        """The error to raise for a field that cannot be used."""
        what = "is missing" if found is None else f"is {found!r}"
        return ModelError(
            f"{self._folder}: the field {name!r} of config.json or generation_config.json {what}. "
            f"Expected {expected}. Correct it if it does not describe these weights; otherwise use another model."
        )
