"""A checkpoint folder: its configuration, and its tensors by name, read from disk one at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch

from knnmt.errors import ModelError
from knnmt.model.files import PICKLES, SAFETENSORS, TensorFile, first_line, open_weights, read_json

CONFIGURATION = (
    *("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json"),
    *("special_tokens_map.json", "added_tokens.json", "vocab.json", "target_vocab.json", "vocab-src.json"),
    *("vocab-tgt.json", "merges.txt", "source.spm", "target.spm", "sentencepiece.bpe.model"),
)
"""Everything but weights that a family's configuration or tokenizer may consist of."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint folder holds, in the checkpoint's own names."""

    folder: Path
    config: Mapping[str, Any]
    generation_config: Mapping[str, Any]
    """Empty if the folder has none."""
    files: Mapping[str, TensorFile] = field(repr=False)
    """The file of each tensor."""
    in_use: WeakValueDictionary[str, torch.Tensor] = field(default_factory=WeakValueDictionary, repr=False)
    """The tensors that somebody holds: a table that serves twice is in memory once."""

    def names(self) -> list[str]:
        """Names of all tensors."""
        return list(self.files)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, known without reading it."""
        return self.files[name].shape(name)

    def tensor(self, name: str) -> torch.Tensor:
        """The tensor in the dtype stored; it may be shared, so copy before changing it."""
        tensor = self.in_use.get(name)
        if tensor is None:
            self.in_use[name] = tensor = self.files[name].tensor(name)
        return tensor


def open_checkpoint(model: str | Path) -> Checkpoint:
    """The checkpoint in a local folder or, for a hub name, in the local copy that is fetched if need be."""
    folder = _local_folder(model) or _fetch(str(model))
    config = read_json(folder / "config.json")
    generation = folder / "generation_config.json"
    return Checkpoint(folder, config, read_json(generation) if generation.exists() else {}, open_weights(folder))


def _local_folder(model: str | Path) -> Path | None:
    """The folder meant by `model`; None if only the hub can know it."""
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise ModelError(f"{path} is a file. Expected a checkpoint folder with config.json: give its parent folder.")
    name = str(model).replace(os.sep, "/")
    if isinstance(model, Path) or name.startswith((".", "/", "~")) or name.count("/") != 1 or not all(name.split("/")):
        raise ModelError(
            f"There is no folder {path}. Expected a checkpoint folder, or a hub name such as "
            "Helsinki-NLP/opus-mt-de-en. Check the path."
        )
    return None


def _fetch(name: str) -> Path:
    """The folder of a snapshot in the local cache of the hub, downloaded where it is missing."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(name, allow_patterns=[*CONFIGURATION, *SAFETENSORS]))
        if not any(folder.glob("model*.safetensors")):
            folder = Path(snapshot_download(name, allow_patterns=[*CONFIGURATION, *PICKLES]))
    except Exception as error:  # of the hub, its HTTP client, its transfer library or the disk: no common base
        raise ModelError(
            f"Cannot fetch the model {name!r} from the Hugging Face hub: {first_line(error)} "
            f"There is no folder {name!r} here either. Check the spelling and the connection (HF_HUB_OFFLINE must not "
            "be set for a first download; a private model needs `hf auth login`), or copy the checkpoint's folder to "
            "this machine and give its path."
        ) from error
    return folder
