"""Linear layers in every arithmetic are near the exact product, and a row never sees its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor

from knnmt.model import linear
from knnmt.model.linear import (
    RULED_OUT,
    BFloat16Linear,
    Float32Linear,
    Int8Linear,
    Int8WideLinear,
    Linear,
    PlainLinear,
    few_sizes,
    make_linear,
)
from knnmt.records import COMPUTE_TYPES, Compute

BOUNDS: dict[Compute, float] = {"int8": 0.015, "bf16": 0.005, "fp32": 1e-6}
"""Of the error, relative to the norm of the exact product."""

KINDS: dict[str, Mapping[Compute, Callable[[Tensor, Tensor], Linear]]] = {
    "narrow": {"fp32": Float32Linear, "bf16": BFloat16Linear, "int8": Int8Linear},
    "wide": {"fp32": Float32Linear, "bf16": BFloat16Linear, "int8": Int8WideLinear},
}

every_kind = pytest.mark.parametrize("kind", KINDS)
every_compute = pytest.mark.parametrize("compute", COMPUTE_TYPES)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def random_layer(kind: str, compute: Compute, generator: torch.Generator) -> tuple[Linear, Tensor, Tensor]:
    """A layer whose channels differ in size, its weight and its bias."""
    weight = torch.randn(512, 96, generator=generator) * torch.rand(512, 1, generator=generator)
    bias = torch.randn(512, generator=generator)
    return KINDS[kind][compute](weight, bias), weight, bias


def relative_error(found: Tensor, exact: Tensor) -> float:
    return float((found - exact).norm() / exact.norm())


@every_kind
@every_compute
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_the_product_is_near_the_exact_one(kind: str, compute: Compute, rows: int, generator: torch.Generator) -> None:
    layer, weight, bias = random_layer(kind, compute, generator)
    x = torch.randn(rows, 96, generator=generator)
    assert relative_error(layer(x), x @ weight.T + bias) < BOUNDS[compute]


@every_kind
@every_compute
def test_rows_of_very_different_size(kind: str, compute: Compute, generator: torch.Generator) -> None:
    layer, weight, bias = random_layer(kind, compute, generator)
    x = torch.randn(6, 96, generator=generator) * torch.tensor([1e-4, 1e-2, 1, 1e2, 1e4, 1])[:, None]
    for found, row in zip(layer(x), x, strict=True):
        assert relative_error(found, row @ weight.T + bias) < BOUNDS[compute]


@every_kind
@every_compute
def test_a_row_of_zeros_gives_the_bias(kind: str, compute: Compute, generator: torch.Generator) -> None:
    layer, _, bias = random_layer(kind, compute, generator)
    expected = bias.bfloat16().float() if compute == "bf16" else bias
    torch.testing.assert_close(layer(torch.zeros(3, 96)), expected.expand(3, -1), rtol=0, atol=1e-6)


@every_kind
@every_compute
def test_a_row_does_not_see_its_neighbours(kind: str, compute: Compute, generator: torch.Generator) -> None:
    layer, *_ = random_layer(kind, compute, generator)
    x = torch.randn(33, 96, generator=generator)
    x[4] *= 1000
    together = layer(x)
    for rows in (1, 2, 8):
        apart = torch.cat([layer(chunk) for chunk in x.split(rows)])
        if compute == "int8":  # integers add up to the same in any order
            assert torch.equal(together, apart)
        for one, other in zip(together, apart, strict=True):
            assert relative_error(one, other) < BOUNDS[compute]


@every_compute
@pytest.mark.parametrize("biased", [True, False])
def test_an_output_that_is_ruled_out_has_no_probability(
    compute: Compute, biased: bool, generator: torch.Generator
) -> None:
    weight = torch.randn(512, 96, generator=generator)
    bias = torch.randn(512, generator=generator) * biased
    bias[500:] = RULED_OUT
    x = torch.cat([torch.randn(5, 96, generator=generator) * 10, torch.zeros(1, 96), torch.full((1, 96), 1e-30)])
    found = KINDS["wide"][compute](weight, bias)(x).softmax(-1)
    assert not found[:, 500:].any()
    torch.testing.assert_close(found.sum(1), torch.ones(len(x)))


@every_kind
@every_compute
def test_a_layer_leaves_its_input_alone(kind: str, compute: Compute, generator: torch.Generator) -> None:
    layer, *_ = random_layer(kind, compute, generator)
    x = torch.randn(5, 96, generator=generator)
    before = x.clone()
    layer(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize(("outputs", "kind"), [(512, Int8Linear), (4096, Int8WideLinear)])
def test_large_weights_are_packed(outputs: int, kind: type, generator: torch.Generator) -> None:
    weight = torch.randn(outputs, 96, generator=generator)
    layer = make_linear(weight, torch.zeros(outputs), "int8")
    assert isinstance(layer, kind)
    x = torch.randn(5, 96, generator=generator)
    assert relative_error(layer(x), x @ weight.T) < BOUNDS["int8"]


@every_compute
def test_a_machine_without_onednn(
    compute: Compute, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "_ONEDNN", False)
    weight, bias = torch.randn(4096, 96, generator=generator), torch.randn(4096, generator=generator)
    layer = make_linear(weight, bias, compute)
    assert isinstance(layer, PlainLinear | Int8Linear)
    x = torch.randn(5, 96, generator=generator)
    assert relative_error(layer(x), x @ weight.T + bias) < BOUNDS[compute]


def test_few_sizes() -> None:
    sizes = {few_sizes(rows) for rows in range(1, 257)}
    assert sorted(sizes)[:14] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24]
    assert len(sizes) == 28
    assert all(rows <= few_sizes(rows) < 1.25 * rows + 1 for rows in range(1, 257))
