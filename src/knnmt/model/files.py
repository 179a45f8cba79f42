"""The files of a checkpoint folder: JSON, and weights opened so that a tensor is read when asked for."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open

from knnmt.errors import ModelError

SAFETENSORS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin")
"""Names of weights: one file, or an index and the files it lists."""

WHOLE_OR_INDEX = (*SAFETENSORS[:2], *PICKLES[:2])


class TensorFile(Protocol):
    """One file of weights."""

    def names(self) -> Iterable[str]: ...
    def shape(self, name: str) -> tuple[int, ...]: ...
    def tensor(self, name: str) -> torch.Tensor: ...


class SafetensorsFile:
    """A .safetensors file; a tensor is read when asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = safe_open(path, framework="pt")

    def names(self) -> Iterable[str]:
        names: Iterable[str] = self._file.keys()
        return names

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._file.get_slice(name).get_shape())

    def tensor(self, name: str) -> torch.Tensor:
        # Mapped anew and unmapped at once: what was read of a file that stays mapped counts as memory in use.
        with safe_open(self._path, framework="pt") as file:
            tensor: torch.Tensor = file.get_tensor(name).clone()
        return tensor


class PickleFile:
    """A .bin file, memory-mapped where its format allows that."""

    def __init__(self, path: Path) -> None:
        # What PyTorch wrote before 1.6 is no zip archive and can only be loaded whole.
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        if not isinstance(content, Mapping):
            raise UnpicklingError(f"it holds a {type(content).__name__}, not tensors by name")
        self._tensors = {name: value for name, value in content.items() if isinstance(value, torch.Tensor)}

    def names(self) -> Iterable[str]:
        return self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].shape)

    def tensor(self, name: str) -> torch.Tensor:
        return self._tensors[name].detach()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(
            f"{path.parent} has no {path.name}. Expected a checkpoint as transformers' save_pretrained writes it: "
            "check the path, or copy the missing file."
        ) from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {error}. Copy or download the file again.") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} holds a JSON {type(content).__name__}, expected an object. Download it again.")
    return content


def open_weights(folder: Path) -> dict[str, TensorFile]:
    """The opened file of each tensor, safetensors before pickles."""
    for name in WHOLE_OR_INDEX:
        path = folder / name
        if path.exists() and path.suffix != ".json":
            return dict.fromkeys((file := _open_file(path)).names(), file)
        if path.exists():
            return _sharded_files(path)
    raise ModelError(f"{folder} has no weights. Expected {', '.join(WHOLE_OR_INDEX)}: copy or download them into it.")


def _sharded_files(index: Path) -> dict[str, TensorFile]:
    """The opened file of each tensor that an index lists."""
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(place, str) for place in places.values()):
        raise ModelError(f'{index} has no object "weight_map" (tensor name to file). Download the file again.')
    shards = {shard: _open_file(index.parent / shard) for shard in sorted(set(places.values()))}
    for shard, file in shards.items():
        missing = {name for name, place in places.items() if place == shard}.difference(file.names())
        if missing:
            raise ModelError(
                f"{index} says that {shard} holds {min(missing)!r}, but it does not. Download both files again."
            )
    return {name: shards[shard] for name, shard in places.items()}


def _open_file(path: Path) -> TensorFile:
    """A file of weights, opened."""
    kind: Callable[[Path], TensorFile] = SafetensorsFile if path.suffix == ".safetensors" else PickleFile
    try:
        return kind(path)
    except FileNotFoundError as error:
        raise ModelError(f"{path} is missing, but the index beside it names it. Download it as well.") from error
    except (SafetensorError, UnpicklingError, RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        raise ModelError(
            f"{path} ({path.stat().st_size:,} bytes) cannot be read as weights: {first_line(error)} "
            "It may be cut short or of another format. Copy or download it again."
        ) from error


def first_line(error: Exception) -> str:
    """What the error says first, as a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(". ") + "."
