"""`knnmt translate`: text in, text out."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from knnmt.cli.grouping import grouped
from knnmt.cli.options import DecodingOptions, ModelOptions, ReportOptions
from knnmt.cli.progress import track
from knnmt.formats.output import open_output
from knnmt.formats.text import one_line, open_segments
from knnmt.records import Translation


@grouped
def translate(
    *,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help='Text files, one segment a line; "-" or none is standard input.'),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to this file, whole or not at all.  [default: standard output]",
        ),
    ] = None,
    model: ModelOptions,
    decoding: DecodingOptions,
    report: ReportOptions,
) -> None:
    """Translate text, one segment a line.

    Translations come in the order of the input, as they are made. All input is checked to be UTF-8 before the first
    one is written. With --json every line of the output is an object with source, text, score and tokens.
    """
    model.require()  # before standard input is waited for
    with ExitStack() as stack:
        segments = open_segments(files or ["-"], stack)
        results = model.open().stream(segments, options=decoding.search, batch=decoding.batch)
        stream = stack.enter_context(open_output(output)) if output else sys.stdout
        # On a terminal the results themselves are the progress, and a bar would run through them.
        for result in track(results, segments.count, quiet=report.quiet or stream.isatty()):
            print(_as_line(result, report.as_json), file=stream, flush=output is None)


def _as_line(result: Translation, as_json: bool) -> str:
    return json.dumps(asdict(result), ensure_ascii=False) if as_json else one_line(result.text)
