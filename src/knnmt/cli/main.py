"""The program `knnmt`: its commands, and what holds for all of them."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

import knnmt
from knnmt.cli.command import Command, examples
from knnmt.cli.doctor import doctor
from knnmt.cli.evaluate import evaluate
from knnmt.cli.translate import translate

app = typer.Typer(
    name="knnmt",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help and errors: quick to start, easy to search
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (translate, evaluate, doctor):
    app.command(cls=Command, epilog=examples(command.__name__))(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"knnmt {knnmt.__version__}")
        raise typer.Exit


@app.callback(epilog=examples("knnmt"))
def knnmt_program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Machine translation that learns from a translation memory at once, without training."""


def main() -> None:
    """Run the command line; leaves by SystemExit."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # results are UTF-8 with \n in every locale, on every system
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    app(prog_name="knnmt")
