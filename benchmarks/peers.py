"""The peers that the engine is measured against, behind one call: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Protocol

LIMIT = 256
"""Most target tokens; the sentences measured stay far below it, so that no engine is cut off."""


class Engine(Protocol):
    """A loaded engine."""

    def translate(self, sources: Sequence[Sequence[int]], beam: int, batch: int) -> list[list[int]]:
        """Return the best output of each source, end of sentence included."""


class Knnmt:
    def __init__(self, model: Path, compute: str) -> None:
        from knnmt.model.checkpoint import open_checkpoint
        from knnmt.model.families import load
        from knnmt.model.network import Network

        self._network = Network(*load(open_checkpoint(model)), compute)

    def translate(self, sources: Sequence[Sequence[int]], beam: int, batch: int) -> list[list[int]]:
        from knnmt.decode.search import search
        from knnmt.records import SearchOptions

        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        ordered = [sources[i] for i in order]
        hypotheses = search(self._network, ordered, [LIMIT] * len(ordered), SearchOptions(beam), batch=batch)
        return [tokens for _, tokens in sorted(zip(order, (h.tokens for h in hypotheses), strict=True))]


class Transformers:
    """`generate` in fp32, sentences sorted by length."""

    def __init__(self, model: Path, compute: str) -> None:
        import torch
        from transformers import AutoModelForSeq2SeqLM

        self._torch = torch
        self._model = AutoModelForSeq2SeqLM.from_pretrained(model, dtype=torch.float32).eval()

    def translate(self, sources: Sequence[Sequence[int]], beam: int, batch: int) -> list[list[int]]:
        torch, config = self._torch, self._model.config
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        outputs: dict[int, list[int]] = {}
        for first in range(0, len(order), batch):
            chunk = order[first : first + batch]
            rows = [torch.tensor(sources[i]) for i in chunk]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=config.pad_token_id)
            mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
            with torch.inference_mode():
                generated = self._model.generate(
                    ids, attention_mask=mask, num_beams=beam, length_penalty=1.0, max_new_tokens=LIMIT, do_sample=False
                )
            for i, tokens in zip(chunk, generated[:, 1:].tolist(), strict=True):
                outputs[i] = tokens[: tokens.index(config.eos_token_id) + 1]
        return [outputs[i] for i in range(len(sources))]


class CTranslate2:
    """CTranslate2 with its own sorting and batching."""

    def __init__(self, model: Path, compute: str, threads: int) -> None:
        import ctranslate2

        self._vocabulary = _vocabulary(model)
        self._ids = {token: i for i, token in enumerate(self._vocabulary)}
        self._translator = ctranslate2.Translator(
            str(convert(model, compute)), compute_type=compute, inter_threads=1, intra_threads=threads
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


def _vocabulary(model: Path) -> list[str]:
    import json

    ids: dict[str, int] = json.loads((model / "vocab.json").read_text(encoding="utf-8"))
    return sorted(ids, key=ids.__getitem__)


def convert(model: Path, compute: str) -> Path:
    """Convert a Marian checkpoint, keeping the embedding that the decoder starts from.

    CTranslate2's own Marian loader assumes that it is zero, as in models trained by Marian; in ours it is not.
    """
    from ctranslate2.converters import transformers as converters

    class Loader(converters.MarianMTLoader):
        def set_config(self, config, model, tokenizer):  # type: ignore[no-untyped-def]
            super().set_config(config, model, tokenizer)
            config.decoder_start_token = tokenizer.pad_token

        def set_decoder(self, spec, decoder):  # type: ignore[no-untyped-def]
            super().set_decoder(spec, decoder)
            spec.start_from_zero_embedding = False

        def get_vocabulary(self, model, tokenizer):  # type: ignore[no-untyped-def]
            return converters.BartLoader.get_vocabulary(self, model, tokenizer)

        def _remove_pad_weights(self, spec):  # type: ignore[no-untyped-def]
            pass

    stock = converters._MODEL_LOADERS["MarianConfig"]
    converters._MODEL_LOADERS["MarianConfig"] = Loader()
    folder = Path(mkdtemp(prefix="ctranslate2-")) / "model"
    try:
        converters.TransformersConverter(str(model)).convert(
            str(folder), quantization="int8" if compute == "int8" else None
        )
    finally:
        converters._MODEL_LOADERS["MarianConfig"] = stock
    return folder
