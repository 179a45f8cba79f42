"""Tiny models in our engine and in transformers', side by side, and what transformers makes of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tiny import FAMILIES, TINY, VOCABULARY, WORDS, save
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from knnmt.model.checkpoint import open_checkpoint
from knnmt.model.families import load
from knnmt.model.network import Network
from knnmt.model.spec import ModelSpec
from knnmt.records import Compute, SearchOptions

Tokens = list[int]


@dataclass(frozen=True)
class Family:
    """A tiny model of one family, as transformers has it and as we do."""

    name: str
    theirs: Any
    spec: ModelSpec
    weights: dict[str, Tensor]

    def network(self, compute: Compute = "fp32", **changes: Any) -> Network:
        return Network(replace(self.spec, **changes), self.weights, compute)

    def sources(self, lengths: Sequence[int], seed: int = 0) -> list[Tokens]:
        """Random sources; those of 3 to 8 words are of the kind that the models were trained on."""
        words = random.Random(seed)
        return [[*(words.randrange(5, WORDS) for _ in range(length)), self.spec.eos] for length in lengths]

    def targets(self, lengths: Sequence[int], seed: int = 1) -> list[Tokens]:
        """Random targets; padding, which shifts the positions of some families, is not among them."""
        tokens = random.Random(seed)
        return [[tokens.randrange(5, VOCABULARY - 10) for _ in range(length)] for length in lengths]


@cache
def family(name: str, safetensors: bool = True) -> Family:
    assert name in FAMILIES
    with TemporaryDirectory() as folder:
        theirs = TINY[name](Path(folder))
        save(theirs, Path(folder), safetensors=safetensors)
        spec, weights = load(open_checkpoint(folder))
        return Family(name, theirs, spec, {name: weights[name].clone() for name in weights})


def padded(rows: Sequence[Tokens], value: int) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def inputs(family: Family, sources: Sequence[Tokens]) -> dict[str, Tensor]:
    return {
        "input_ids": padded(sources, family.spec.pad),
        "attention_mask": padded([[1] * len(source) for source in sources], 0),
    }


@torch.inference_mode()
def forced(family: Family, sources: Sequence[Tokens], targets: Sequence[Tokens], **wanted: Any) -> Any:
    """transformers' output for targets that are given."""
    # With a cache, FSMT's decoder would not mask the future.
    cache = {"use_cache": False} if family.name == "fsmt" else {}
    shifted = padded([[family.spec.decoder_start, *target[:-1]] for target in targets], family.spec.pad)
    return family.theirs(**inputs(family, sources), decoder_input_ids=shifted, **cache, **wanted)


def generated(
    family: Family, sources: Sequence[Tokens], options: SearchOptions, limit: int, **changes: Any
) -> list[tuple[Tokens, float | None]]:
    """Tokens and score of the best hypothesis by transformers' `generate`; greedy search has no score there."""
    found = family.theirs.generate(
        **inputs(family, sources),
        num_beams=options.beam,
        length_penalty=options.length_penalty,
        early_stopping=options.early_stopping,
        max_new_tokens=limit,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **changes,
    )
    eos = changes.get("eos_token_id", family.spec.eos)
    scores = [None] * len(sources) if options.beam == 1 else found.sequences_scores.tolist()
    return [(_ended(row[1:], eos), score) for row, score in zip(found.sequences.tolist(), scores, strict=True)]


def _ended(tokens: Tokens, eos: int) -> Tokens:
    return tokens[: tokens.index(eos) + 1] if eos in tokens else tokens
