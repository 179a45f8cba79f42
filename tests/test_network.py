"""The network gives what transformers' own models give, and the same whichever way it is asked."""

from __future__ import annotations

import copy
import random

import pytest
import torch
from reference import Family, Tokens, family, forced
from tiny import FAMILIES, WORDS
from torch import Tensor

from knnmt.model.network import Network
from knnmt.model.vocabulary import BLOCK
from knnmt.records import Compute

SOURCES = (4, 1, 12, 7)
TARGETS = (3, 9, 1, 40)
"""Lengths; they fall and rise, because a batch need not be sorted."""


def real_rows(padded: Tensor) -> Tensor:
    """Those of the target tokens, one sentence after the other."""
    return torch.cat([sentence[:length] for sentence, length in zip(padded, TARGETS, strict=True)])


@pytest.mark.parametrize("safetensors", [True, False])
@pytest.mark.parametrize("name", FAMILIES)
def test_probabilities_are_those_of_transformers(name: str, safetensors: bool) -> None:
    one = family(name, safetensors)
    sources, targets = one.sources(SOURCES), one.targets(TARGETS)
    network = one.network()
    distribution = network.vocabulary(network.force(sources, targets).hidden)
    expected = real_rows(forced(one, sources, targets).logits).softmax(-1)
    expected[:, list(one.spec.suppressed)] = 0
    words = expected.shape[1]
    torch.testing.assert_close(distribution.probabilities[:, :words].log(), expected.log(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("compute", ["fp32", "int8", "bf16"])
@pytest.mark.parametrize("name", FAMILIES)
def test_padding_of_the_vocabulary_is_impossible_and_maxima_are_those_of_blocks(name: str, compute: Compute) -> None:
    one = family(name)
    network = one.network(compute)
    distribution = network.vocabulary(network.force(one.sources(SOURCES), one.targets(TARGETS)).hidden)
    probabilities = distribution.probabilities
    assert torch.equal(distribution.maxima, probabilities.unflatten(1, (-1, BLOCK)).amax(-1))
    assert not probabilities[:, one.spec.decoder.vocabulary :].any()
    assert not probabilities[:, list(one.spec.suppressed)].any()
    if not one.spec.suppressed:
        torch.testing.assert_close(probabilities.sum(1), torch.ones(len(probabilities)))


@pytest.mark.parametrize(("compute", "bound"), [("int8", 0.05), ("bf16", 0.02)])
@pytest.mark.parametrize("name", FAMILIES)
def test_cheap_arithmetic_stays_close(name: str, compute: Compute, bound: float) -> None:
    one = family(name)
    cheap, exact = (one.network(which).force(one.sources(SOURCES), one.targets(TARGETS)) for which in (compute, "fp32"))
    assert (cheap.hidden - exact.hidden).norm() / exact.hidden.norm() < bound


@pytest.mark.parametrize("name", FAMILIES)
def test_attention_is_that_of_the_last_layer(name: str) -> None:
    one = family(name)
    sources, targets = one.sources(SOURCES), one.targets(TARGETS)
    attention = one.network().force(sources, targets).attention
    theirs = copy.deepcopy(one.theirs)
    theirs.set_attn_implementation("eager")
    eager = Family(one.name, theirs, one.spec, one.weights)
    expected = forced(eager, sources, targets, output_attentions=True).cross_attentions[-1]
    ours = attention.unflatten(0, expected.shape[:2])
    for sentence, length in enumerate(TARGETS):
        torch.testing.assert_close(ours[sentence, :, :length], expected[sentence, :, :length], atol=1e-5, rtol=0)


def distances(ours: Tensor, expected: Tensor) -> Tensor:
    """Of every row, relative to its norm."""
    ratios: Tensor = (ours - expected).norm(dim=1) / expected.norm(dim=1)
    return ratios


def random_walk(network: Network, sources: list[Tokens], steps: int) -> Tensor:
    """Decode random tokens, with beams that fork and sentences that leave; return each state's distance to `force`."""
    beams, choice = 3, random.Random(2)
    decoding = network.start(sources, beams)
    live = list(range(len(sources)))
    prefixes: list[list[Tokens]] = [[[]] for _ in sources]
    fed = torch.full((len(sources), 1), network.spec.decoder_start)
    found = []
    for step in range(steps):
        states = network.step(decoding, fed)
        repeated = [sources[sentence] for sentence in live for _ in prefixes[sentence]]
        targets = [[*prefix, 0] for sentence in live for prefix in prefixes[sentence]]
        expected = network.force(repeated, targets).hidden.view(len(targets), step + 1, -1)[:, -1]
        found.append(distances(states.hidden, expected))
        parents = [[choice.randrange(fed.shape[1]) for _ in range(beams)] for _ in live]
        decoding.fork(torch.tensor(parents))
        tokens = [[choice.randrange(5, WORDS) for _ in range(beams)] for _ in live]
        for i, sentence in enumerate(live):
            old = prefixes[sentence]
            prefixes[sentence] = [[*old[parent], token] for parent, token in zip(parents[i], tokens[i], strict=True)]
        staying = list(range(len(live)))
        if step % 9 == 5 and len(live) > 1:
            staying.remove(choice.choice(staying))
            decoding.keep(torch.tensor(staying))
        live, fed = [live[i] for i in staying], torch.tensor([tokens[i] for i in staying])
    return torch.cat(found)


def assert_same_states(compute: Compute, found: Tensor) -> None:
    """Nothing but float noise, except that in int8 the noise now and then tips an activation to the next integer."""
    if compute == "int8":
        assert found.quantile(0.9) < 1e-5
    assert found.max() < {"fp32": 1e-5, "int8": 0.03}[compute]


@pytest.mark.parametrize("compute", ["fp32", "int8"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_state_depends_on_its_own_prefix_alone(name: str, compute: Compute) -> None:
    one = family(name)
    with torch.inference_mode():
        assert_same_states(compute, random_walk(one.network(compute), one.sources((4, 1, 12, 7, 9)), steps=45))


@pytest.mark.parametrize("compute", ["fp32", "int8"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_state_does_not_depend_on_the_batch(name: str, compute: Compute) -> None:
    one = family(name)
    network, sources, targets = one.network(compute), one.sources(SOURCES), one.targets(TARGETS)
    alone = torch.cat([network.force(*([row] for row in pair)).hidden for pair in zip(sources, targets, strict=True)])
    assert_same_states(compute, distances(network.force(sources, targets).hidden, alone))
