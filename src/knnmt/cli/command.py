"""What every command does alike: its way of failing, its examples, its log."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import typer
from typer.core import TyperCommand

from knnmt.errors import KnnmtError

FAILED = 1
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
PIPE_CLOSED = 141  # 128 + SIGPIPE

_EXAMPLES = {
    "knnmt": (
        "echo 'Guten Morgen.' | knnmt translate --model Helsinki-NLP/opus-mt-de-en",
        "knnmt evaluate test.tsv --model Helsinki-NLP/opus-mt-de-en",
    ),
    "translate": (
        "knnmt translate chapter.de.txt --model Helsinki-NLP/opus-mt-de-en --output chapter.en.txt",
        "knnmt translate --model facebook/nllb-200-distilled-600M --source-language deu_Latn "
        "--target-language fra_Latn < in.txt",
    ),
    "evaluate": (
        "knnmt evaluate test.tsv --model Helsinki-NLP/opus-mt-de-en --limit 200",
        "knnmt evaluate test.tsv --hypothesis ours.txt --compare theirs.txt --json",
    ),
    "doctor": (
        "knnmt doctor",
        "knnmt doctor --model Helsinki-NLP/opus-mt-de-en --input chapter.de.txt --json",
    ),
}


def examples(name: str) -> str:
    """The end of a command's help; the marks keep its lines from being run together."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in _EXAMPLES[name])


class Command(TyperCommand):
    """A command whose failures end in one line on stderr and an exit code, or with `--debug` in a traceback."""

    def invoke(self, ctx: Any) -> Any:  # a context's type is private to Typer
        """The command's result, or the end of the program."""
        _start_log(quiet=ctx.params["quiet"], debug=ctx.params["debug"])
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # a closed pipe must show here, not when the interpreter ends
            return result
        except KeyboardInterrupt as error:
            print("\ninterrupted: no output file was written or changed", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from error
        except BrokenPipeError as error:
            # The reader (`| head`) has what it wanted. Python would complain once more when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE_CLOSED) from error
        except (KnnmtError, OSError) as error:
            if ctx.params["debug"]:
                raise
            print(f"error: {error}", file=sys.stderr)
            raise typer.Exit(FAILED) from error


class _StderrHandler(logging.Handler):
    """Looks sys.stderr up at every message, because a progress bar replaces it while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"{record.levelname.lower()}: {self.format(record)}", file=sys.stderr)


def _start_log(*, quiet: bool, debug: bool) -> None:
    if quiet:
        os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # huggingface_hub reads it when it is imported, later
    logger = logging.getLogger("knnmt")
    logger.handlers = [_StderrHandler()]
    logger.setLevel(logging.DEBUG if debug else logging.ERROR if quiet else logging.WARNING)
