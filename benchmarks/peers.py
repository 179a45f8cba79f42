"""The engines that are compared, behind one call: token ids in, token ids out.

Nothing heavy is imported before an engine is opened: workers measure what importing and loading cost.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from knnmt.records import Compute

LIMIT = 256
"""Most target tokens; the sentences measured stay far below it, so that no engine is cut off."""


class Engine(ABC):
    """A loaded engine."""

    IMPORTS: ClassVar[tuple[str, ...]]
    """Modules that opening needs."""

    @abstractmethod
    def __init__(self, folder: Path, compute: Compute, threads: int) -> None: ...

    @abstractmethod
    def translate(self, sources: Sequence[Sequence[int]], beam: int, batch: int) -> list[list[int]]:
        """Return the best output of each source, end of sentence included."""


class Knnmt(Engine):
    """Ours."""

    IMPORTS = ("knnmt.decode.batching", "knnmt.model.checkpoint", "knnmt.model.families", "knnmt.model.network")

    def __init__(self, folder: Path, compute: Compute, threads: int) -> None:
        import torch

        from knnmt.model.checkpoint import open_checkpoint
        from knnmt.model.families import load
        from knnmt.model.network import Network

        torch.set_num_threads(threads)
        self._network = Network(*load(open_checkpoint(folder)), compute)

    def translate(self, sources: Sequence[Sequence[int]], beam: int, batch: int) -> list[list[int]]:
        from knnmt.decode.batching import search_all
        from knnmt.records import SearchOptions

        limits = [LIMIT] * len(sources)
        hypotheses = search_all(self._network, sources, limits, SearchOptions(beam), batch=batch)
        return [hypothesis.tokens for hypothesis in hypotheses]


class Transformers(Engine):
    """`generate`, sentences sorted by length."""

    IMPORTS = ("transformers.models.marian.modeling_marian", "transformers.models.auto.modeling_auto")

    def __init__(self, folder: Path, compute: Compute, threads: int) -> None:
        import torch
        from transformers import AutoModelForSeq2SeqLM
        from transformers.utils.logging import disable_progress_bar

        torch.set_num_threads(threads)
        disable_progress_bar()  # type: ignore[no-untyped-call]
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[compute]
        self._model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=dtype).eval()

    def translate(self, sources: Sequence[Sequence[int]], beam: int, batch: int) -> list[list[int]]:
        import torch
        from torch.nn.utils.rnn import pad_sequence

        config = self._model.config
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        outputs: dict[int, list[int]] = {}
        for first in range(0, len(order), batch):
            together = order[first : first + batch]
            rows = [torch.tensor(sources[i]) for i in together]
            ids = pad_sequence(rows, batch_first=True, padding_value=config.pad_token_id)
            mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
            with torch.inference_mode():
                generated = self._model.generate(
                    ids, attention_mask=mask, num_beams=beam, length_penalty=1.0, max_new_tokens=LIMIT, do_sample=False
                )
            for i, tokens in zip(together, generated[:, 1:].tolist(), strict=True):
                outputs[i] = tokens[: tokens.index(config.eos_token_id) + 1]
        return [outputs[i] for i in range(len(sources))]


class CTranslate2(Engine):
    """CTranslate2 with its own sorting and batching, from a folder that `conversion` made."""

    IMPORTS = ("ctranslate2",)

    def __init__(self, folder: Path, compute: Compute, threads: int) -> None:
        import ctranslate2  # type: ignore[import-untyped]

        self._vocabulary: list[str] = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
        self._ids = {token: i for i, token in enumerate(self._vocabulary)}
        compute_type = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}[compute]
        self._translator = ctranslate2.Translator(
            str(folder), compute_type=compute_type, inter_threads=1, intra_threads=threads
        )

    def translate(self, sources: Sequence[Sequence[int]], beam: int, batch: int) -> list[list[int]]:
        results = self._translator.translate_batch(
            [[self._vocabulary[i] for i in source] for source in sources],
            beam_size=beam,
            max_batch_size=batch,
            length_penalty=1.0,
            max_decoding_length=LIMIT,
            max_input_length=0,
            return_end_token=True,
        )
        return [[self._ids[token] for token in result.hypotheses[0]] for result in results]


ENGINES: dict[str, tuple[type[Engine], Compute]] = {
    "transformers-fp32": (Transformers, "fp32"),
    "ctranslate2-fp32": (CTranslate2, "fp32"),
    "ctranslate2-int8": (CTranslate2, "int8"),
    "knnmt-fp32": (Knnmt, "fp32"),
    "knnmt-bf16": (Knnmt, "bf16"),
    "knnmt-int8": (Knnmt, "int8"),
}
REFERENCE = "transformers-fp32"


def folder_for(engine: str, model: Path, scratch: Path) -> Path:
    """Return the folder that an engine opens: the checkpoint's own, or a converted copy in `scratch`."""
    kind, compute = ENGINES[engine]
    if kind is not CTranslate2:
        return model
    from conversion import convert

    folder = scratch / f"ctranslate2-{compute}"
    return folder if folder.exists() else convert(model, compute, folder)


def open_engine(engine: str, folder: Path, threads: int) -> Engine:
    """Return the named engine, loaded from the folder that is made for it."""
    kind, compute = ENGINES[engine]
    return kind(folder, compute, threads)
