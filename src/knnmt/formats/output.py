"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from knnmt.errors import InputError


@contextmanager
def open_output(path: Path) -> Iterator[TextIO]:
    """A UTF-8 text stream whose content becomes `path` when the block ends well.

    After an error or Ctrl-C nothing is left behind and a file that was there before is as it was.
    """
    path = path.resolve()  # a symbolic link keeps pointing: its target is what is replaced
    special = path.exists() and not path.is_file() and not path.is_dir()
    # Opened by name rather than by tempfile, so that a new file gets the user's umask instead of mode 0600.
    scratch = path if special else path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        stream = scratch.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror}). Name a file in an existing folder that you may write to."
        ) from error
    if special:  # a device such as /dev/null, a pipe: nothing to replace
        with stream:
            yield stream
        return
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            shutil.copymode(path, scratch)
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
