"""Machine translation that learns from a translation memory at once, without training."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knnmt.errors import InputError, KnnmtError, MissingExtra, ModelError
    from knnmt.records import SearchOptions, Translation
    from knnmt.translator import Translator

__version__ = "0.1.0"

__all__ = ["InputError", "KnnmtError", "MissingExtra", "ModelError", "SearchOptions", "Translation", "Translator"]

_HOME = {"SearchOptions": "knnmt.records", "Translation": "knnmt.records", "Translator": "knnmt.translator"}


def __getattr__(name: str) -> object:
    """Load the public names when they are first asked for: `Translator` costs an import of torch."""
    if name not in __all__:
        raise AttributeError(f"module 'knnmt' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME.get(name, "knnmt.errors")), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
