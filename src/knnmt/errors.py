"""Every error a user can meet.

    KnnmtError
    ├── InputError      what was handed in cannot be used: a file, a line, an option
    ├── ModelError      a checkpoint cannot be loaded or does not fit
    └── MissingExtra    an optional dependency is not installed

A message says what was found, what was expected and what to do next.
"""


class KnnmtError(Exception):
    """Base of all errors whose message is meant for the user; the command line prints it and exits with 1."""


class InputError(KnnmtError):
    """A file, a line or an option that the user gave cannot be used."""


class ModelError(KnnmtError):
    """A checkpoint cannot be found, read, or turned into a model."""


class MissingExtra(KnnmtError):
    """A feature needs a package that is not installed."""

    def __init__(self, feature: str, package: str) -> None:
        super().__init__(f"{feature} needs the package {package!r}. Install it with: pip install {package}")
