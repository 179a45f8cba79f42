"""COMET, asked of the separate program `comet-score`.

unbabel-comet needs transformers < 5 and so cannot be installed beside knnmt; it is run in its own environment and
spoken to through files.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from knnmt.errors import InputError
from knnmt.formats.text import one_line

_INSTALL = "Install it in an environment of its own: pipx install unbabel-comet (or: uv tool install unbabel-comet)"
# Segment scores carry one more column ("hyp<TAB>Segment 3<TAB>score: ..."), which this leaves out.
_SYSTEM_SCORE = re.compile(r"^[^\t\n]*\tscore: (-?\d+\.\d+)\s*$", re.MULTILINE)


def comet_score(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    checkpoint: str,
    program: str = "comet-score",
) -> float:
    """The system score that `program` gives with the COMET model `checkpoint`, a name or a .ckpt file."""
    executable = shutil.which(program)
    if executable is None:
        raise InputError(f"The program {program!r} was not found; COMET is computed by comet-score. {_INSTALL}")
    with tempfile.TemporaryDirectory(prefix="knnmt-") as folder:
        files = [
            _write(Path(folder, name), lines)
            for name, lines in (("source", sources), ("hypothesis", hypotheses), ("reference", references))
        ]
        arguments = [*("-s", files[0], "-t", files[1], "-r", files[2]), "--model", checkpoint, "--gpus", "0"]
        run = subprocess.run(
            [executable, *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=os.environ | {"PYTHONUTF8": "1"},  # comet-score opens its files in the locale's encoding
        )
    found = _SYSTEM_SCORE.search(run.stdout)
    if run.returncode or not found:
        last_words = "\n".join((run.stderr or run.stdout).strip().splitlines()[-5:]) or "nothing"
        raise InputError(
            f"{executable} ended with code {run.returncode} and without a system score; expected a line "
            f"'FILE<TAB>score: NUMBER'. Try it by hand with --model {checkpoint}. It said:\n{last_words}"
        )
    return float(found[1])


def _write(path: Path, lines: Sequence[str]) -> str:
    path.write_text("".join(f"{one_line(line)}\n" for line in lines), encoding="utf-8", newline="\n")
    return str(path)
