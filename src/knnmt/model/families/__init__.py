"""The families of checkpoints that can be loaded: one file each, listed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knnmt.errors import ModelError
from knnmt.model.families.bart import BART, MBART
from knnmt.model.families.family import Family, read_spec
from knnmt.model.families.fsmt import FSMT
from knnmt.model.families.m2m100 import M2M100
from knnmt.model.families.marian import MARIAN
from knnmt.model.families.weights import bind

if TYPE_CHECKING:
    from knnmt.model.checkpoint import Checkpoint
    from knnmt.model.spec import ModelSpec, Weights

__all__ = ["FAMILIES", "load"]

FAMILIES: dict[str, Family] = {"bart": BART, "fsmt": FSMT, "m2m_100": M2M100, "marian": MARIAN, "mbart": MBART}
"""By the `model_type` of config.json."""


def load(checkpoint: Checkpoint) -> tuple[ModelSpec, Weights]:
    """The spec of a checkpoint, and its tensors under the network's names, read when asked for."""
    model_type = checkpoint.config.get("model_type")
    family = FAMILIES.get(str(model_type))
    if family is None:
        known = ", ".join(f"{name} (such as {family.example})" for name, family in FAMILIES.items())
        raise ModelError(
            f"{checkpoint.folder}: config.json gives the model_type {model_type!r}, which knnmt cannot run. Expected "
            f"one of {known}. Use such a model; to add a family, write one file and one line of the registry in "
            "knnmt/model/families."
        )
    spec = read_spec(str(model_type), family, checkpoint)
    return spec, bind(family, spec, checkpoint)
