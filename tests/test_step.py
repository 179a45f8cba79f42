"""Mixing neighbours into a step is the textbook's interpolation, computed where it differs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from knnmt.decode.step import Step
from knnmt.model.network import States
from knnmt.model.vocabulary import BLOCK, Distribution

ROWS, BLOCKS, WORDS, K = 12, 3, 300, 8


def random_step(generator: torch.Generator) -> Step:
    logits = torch.randn(ROWS, BLOCKS * BLOCK, generator=generator) * 3
    logits[:, WORDS:] = -torch.inf
    probabilities = logits.softmax(-1)
    return Step(
        sentences=torch.arange(3),
        length=0,
        parents=torch.zeros(3, 4, dtype=torch.long),
        states=States(torch.empty(ROWS, 8), torch.empty(0)),
        distribution=Distribution(probabilities, probabilities.unflatten(1, (-1, BLOCK)).amax(-1)),
        log_weight=torch.zeros(ROWS),
    )


def dense(step: Step) -> Tensor:
    """p of every token, as the search will see it."""
    return step.distribution.probabilities * step.log_weight.exp()[:, None]


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("most", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("words", [5, WORDS])
def test_mix_is_the_dense_mixture(generator: torch.Generator, most: float, words: int) -> None:
    """With few words to choose from, the neighbours of a row often agree on a token."""
    step = random_step(generator)
    before = dense(step)
    rows = torch.tensor([0, 3, 4, 11])
    knn_weight = torch.rand(len(rows), generator=generator) * most
    tokens = torch.randint(words, (len(rows), K), generator=generator)
    weights = torch.rand(len(rows), K, generator=generator).softmax(-1)
    p_knn = torch.zeros(len(rows), BLOCKS * BLOCK).scatter_add_(1, tokens, weights)
    expected = before.clone()
    expected[rows] = (1 - knn_weight)[:, None] * before[rows] + knn_weight[:, None] * p_knn

    step.mix(rows, knn_weight, tokens, weights)
    torch.testing.assert_close(dense(step), expected, rtol=1e-5, atol=1e-7)
    maxima = step.distribution.probabilities.unflatten(1, (-1, BLOCK)).amax(-1)
    assert torch.equal(step.distribution.maxima, maxima)


def test_weight_zero_leaves_everything_as_it_is(generator: torch.Generator) -> None:
    step = random_step(generator)
    probabilities, maxima = step.distribution.probabilities.clone(), step.distribution.maxima.clone()
    tokens = torch.randint(WORDS, (ROWS, K), generator=generator)
    step.mix(torch.arange(ROWS), torch.zeros(ROWS), tokens, torch.full((ROWS, K), 1 / K))
    assert torch.equal(step.distribution.probabilities, probabilities)
    assert torch.equal(step.distribution.maxima, maxima)
    assert not step.log_weight.any()


def test_a_row_can_be_mixed_twice(generator: torch.Generator) -> None:
    step = random_step(generator)
    rows, half = torch.tensor([2]), torch.tensor([0.5])
    expected = dense(step)[2] * 0.25
    expected[7] += 0.25
    expected[9] += 0.5
    for token in (7, 9):
        step.mix(rows, half, torch.tensor([[token]]), torch.ones(1, 1))
    torch.testing.assert_close(dense(step)[2], expected)
