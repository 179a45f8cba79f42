"""What a speed depends on besides the model: the machine and the versions of the libraries."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

import knnmt

_LIBRARIES = ("torch", "transformers", "sentencepiece", "safetensors", "huggingface-hub", "sacrebleu", "ctranslate2")
# Instructions that the arithmetic of the network can use, by the names that Linux gives them.
_X86_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
_ARM_FEATURES = ("asimddp", "i8mm", "bf16", "sve")


@dataclass(frozen=True, slots=True)
class Machine:
    """The processor and the software of this computer."""

    versions: Mapping[str, str | None]
    """None for a library that is not installed."""
    cpu: str
    features: tuple[str, ...]
    """Those instruction sets that matter for speed."""
    vector_code: str
    """The widest code path that PyTorch chose for this processor."""
    threads: int
    device: str


def describe_machine() -> Machine:
    """This computer, as far as translation speed is concerned."""
    versions = {"knnmt": knnmt.__version__, "python": platform.python_version()} | {
        name: _version(name) for name in _LIBRARIES
    }
    listed = _cpuinfo()
    flags = (listed.get("flags") or listed.get("Features") or "").split()
    return Machine(
        versions,
        cpu=listed.get("model name") or platform.processor() or platform.machine(),
        features=tuple(name for name in _X86_FEATURES + _ARM_FEATURES if name in flags),
        vector_code=torch.backends.cpu.get_cpu_capability(),
        threads=torch.get_num_threads(),
        device="cpu",
    )


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _cpuinfo() -> dict[str, str]:
    """What Linux says of the first processor; empty on other systems."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
