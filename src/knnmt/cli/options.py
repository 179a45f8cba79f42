"""The options that several commands share, each written down once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from knnmt.records import Compute, SearchOptions

if TYPE_CHECKING:
    from knnmt.translator import Translator

_SEARCH = SearchOptions()


@dataclass(frozen=True)
class ModelOptions:
    """Which model translates, and how it computes."""

    model: Annotated[
        str | None,
        Option("--model", "-m", metavar="MODEL", envvar="KNNMT_MODEL", help="A model: a folder, or a name on the hub."),
    ] = None
    compute: Annotated[
        Compute | None, Option("--compute", help="Arithmetic of the network.  [default: int8]", show_default=False)
    ] = None
    threads: Annotated[int | None, Option("--threads", metavar="N", min=1, help="CPU threads.  [default: all]")] = None
    device: Annotated[str, Option("--device", metavar="DEVICE", help="Where to compute.")] = "cpu"
    source_language: Annotated[
        str | None, Option("--source-language", metavar="CODE", help="Language code, for a model of many languages.")
    ] = None
    target_language: Annotated[
        str | None, Option("--target-language", metavar="CODE", help="Language code, for a model of many languages.")
    ] = None

    def require(self) -> str:
        """The name of the model; a command that translates without one is used wrongly."""
        if not self.model:
            raise typer.BadParameter(
                "no model was named. Expected --model with a folder or a name on the hub, for example "
                "--model Helsinki-NLP/opus-mt-de-en, or the same in the environment variable KNNMT_MODEL.",
                param_hint="--model",
            )
        return self.model

    def open(self) -> Translator:
        """The translator that these options describe."""
        name = self.require()
        from knnmt.translator import Translator

        return Translator.open(
            name,
            compute=self.compute,
            threads=self.threads,
            device=self.device,
            source_language=self.source_language,
            target_language=self.target_language,
        )


@dataclass(frozen=True)
class DecodingOptions:
    """How translations are searched for."""

    beam: Annotated[int, Option("--beam", metavar="N", min=1, help="Hypotheses kept per sentence; 1 is greedy.")] = (
        _SEARCH.beam
    )
    batch: Annotated[int, Option("--batch", metavar="N", min=1, help="Sentences translated together.")] = 16
    length_penalty: Annotated[
        float, Option("--length-penalty", metavar="PENALTY", help="A hypothesis scores log p / length ** PENALTY.")
    ] = _SEARCH.length_penalty
    max_length: Annotated[
        int | None,
        Option(
            "--max-length",
            metavar="N",
            min=1,
            help="Most tokens of one output.  [default: 1.5 x the source's tokens + 20]",
        ),
    ] = _SEARCH.max_length
    early_stopping: Annotated[
        bool, Option("--early-stopping", help="Stop a sentence once BEAM hypotheses have finished.")
    ] = _SEARCH.early_stopping

    @property
    def search(self) -> SearchOptions:
        """The part of these options that the search itself knows."""
        return SearchOptions(self.beam, self.length_penalty, self.early_stopping, self.max_length)


@dataclass(frozen=True)
class ReportOptions:
    """What is printed, and where."""

    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False
    quiet: Annotated[bool, Option("--quiet", "-q", help="No progress and no warnings.")] = False
    debug: Annotated[bool, Option("--debug", envvar="KNNMT_DEBUG", help="Show tracebacks and a detailed log.")] = False
