"""Beam search finds what transformers' `generate` finds, token for token, and lets a hook steer it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import Tokens, family, generated
from tiny import FAMILIES
from torch import Tensor

from knnmt.decode.batching import batches, search_all
from knnmt.decode.search import Hypothesis, search
from knnmt.decode.step import Step
from knnmt.model.network import Decoding, Network, States
from knnmt.records import SearchOptions

LENGTHS = (3, 8, 5, 4, 6, 15, 7, 3, 1, 8)
"""Of sources; the models know 3 to 8."""
SETTINGS = ((1, 1.0), (2, 0.6), (2, 2.0), (4, 0.6), (4, 1.0), (4, 2.0), (5, 1.0))
"""Of beam and length penalty."""
NEVER_PRODUCED = 4
"""Takes the part of the end of sentence where a search must be long."""


def assert_same(ours: Sequence[Hypothesis], theirs: Sequence[tuple[Tokens, float | None]]) -> None:
    assert [one.tokens for one in ours] == [tokens for tokens, _ in theirs]
    for one, (_, score) in zip(ours, theirs, strict=True):
        assert score is None or one.score == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize("name", FAMILIES)
def test_hypotheses_are_those_of_transformers(name: str, early_stopping: bool) -> None:
    one = family(name)
    network, sources = one.network(), one.sources(LENGTHS)
    for beam, penalty in SETTINGS:
        options = SearchOptions(beam, penalty, early_stopping)
        ours = search(network, sources, [20] * len(sources), options)
        assert_same(ours, generated(one, sources, options, limit=20))


@pytest.mark.parametrize("name", FAMILIES)
def test_one_sentence_at_a_time(name: str) -> None:
    one, options = family(name), SearchOptions()
    network = one.network()
    for source in one.sources(LENGTHS):
        assert_same(search(network, [source], [20], options), generated(one, [source], options, limit=20))


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
@pytest.mark.parametrize("name", FAMILIES)
def test_short_limits(name: str, limit: int) -> None:
    one = family(name)
    network, sources = one.network(), one.sources(LENGTHS)
    for options in (SearchOptions(1), SearchOptions(4), SearchOptions(4, early_stopping=True)):
        ours = search(network, sources, [limit] * len(sources), options)
        assert_same(ours, generated(one, sources, options, limit))
        assert max(len(hypothesis.tokens) for hypothesis in ours) == limit


@pytest.mark.parametrize("beam", [1, 4])
def test_a_forced_start(beam: int) -> None:
    one, options = family("m2m100"), SearchOptions(beam)
    sources = one.sources(LENGTHS)
    ours = search(one.network(forced_start=9), sources, [20] * len(sources), options)
    assert_same(ours, generated(one, sources, options, limit=20, forced_bos_token_id=9))
    assert {hypothesis.tokens[0] for hypothesis in ours} == {9}


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", FAMILIES)
def test_long_searches(name: str, beam: int) -> None:
    one, options = family(name), SearchOptions(beam)
    network = one.network(eos=NEVER_PRODUCED, forced_eos=False, suppressed=(*one.spec.suppressed, NEVER_PRODUCED))
    sources = one.sources(LENGTHS)
    ours = search(network, sources, [60] * len(sources), options)
    assert {len(hypothesis.tokens) for hypothesis in ours} == {60}
    changes = {"eos_token_id": NEVER_PRODUCED, "forced_eos_token_id": None, "suppress_tokens": [NEVER_PRODUCED]}
    assert_same(ours, generated(one, sources, options, limit=60, **changes))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_score_is_that_of_the_network(name: str) -> None:
    one = family(name)
    network, sources = one.network(), one.sources(LENGTHS)
    # What is forced costs nothing.
    free = slice(0 if one.spec.forced_start is None else 1, 19 if one.spec.forced_eos else None)
    for beam, penalty in SETTINGS:
        found = search(network, sources, [20] * len(sources), SearchOptions(beam, penalty))
        outputs = [hypothesis.tokens for hypothesis in found]
        distribution = network.vocabulary(network.force(sources, outputs).hidden)
        log_p = distribution.probabilities.log().gather(1, torch.tensor([[token] for out in outputs for token in out]))
        for hypothesis, own in zip(found, log_p.split([len(tokens) for tokens in outputs]), strict=True):
            assert hypothesis.score == pytest.approx(float(own[free].sum()) / len(own) ** penalty, abs=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_neighbours_in_the_batch_change_nothing(name: str) -> None:
    """Sentences leave at different times: their limits differ, and so do the lengths of their outputs."""
    one, options = family(name), SearchOptions()
    network, sources = one.network(), one.sources([*LENGTHS, *LENGTHS])
    limits = [random.Random(i).choice([4, 10, 25, 60]) for i in range(len(sources))]
    alone = [search(network, [source], [limit], options)[0] for source, limit in zip(sources, limits, strict=True)]
    for batch in (1, 3, 16, 16, 100):
        found = list(search_all(network, sources, limits, options, batch=batch))
        assert_same(found, [(hypothesis.tokens, hypothesis.score) for hypothesis in alone])


def test_a_beam_wider_than_the_vocabulary() -> None:
    one, options = family("m2m100"), SearchOptions(beam=40)
    sources = one.sources((4, 7))
    words = one.spec.decoder.vocabulary
    assert 2 * options.beam > words
    for hypothesis in search(one.network(), sources, [30, 30], options):
        assert max(hypothesis.tokens) < words


@given(lengths=st.lists(st.integers(1, 2000), max_size=60), batch=st.integers(1, 20), beam=st.integers(1, 8))
def test_batches(lengths: list[int], batch: int, beam: int) -> None:
    groups = batches(lengths, batch, beam)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        own = [lengths[i] for i in group]
        assert own == sorted(own, reverse=True)
        assert len(group) <= batch
        assert len(group) == 1 or own[0] * len(group) * beam <= 16_384
    assert [min(group) for group in groups] == sorted(min(group) for group in groups)


class Mixing:
    """Gives a share of every row to one token."""

    def __init__(self, knn_weight: float, token: int) -> None:
        self.knn_weight, self.token = knn_weight, token

    def __call__(self, step: Step) -> None:
        rows = torch.arange(len(step.log_weight))
        tokens = torch.full((len(rows), 2), self.token)
        step.mix(
            rows, torch.full((len(rows),), self.knn_weight), tokens, torch.tensor([[0.25, 0.75]]).expand(len(rows), 2)
        )


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_hook_of_weight_zero_changes_nothing(name: str, beam: int) -> None:
    one = family(name)
    search_with = one.network(), one.sources(LENGTHS), [20] * len(LENGTHS), SearchOptions(beam)
    assert search(*search_with, hook=Mixing(0.0, 9)) == search(*search_with)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_hook_of_nearly_all_weight_decides(name: str, beam: int) -> None:
    one = family(name)
    found = search(one.network(), one.sources((4, 7)), [12, 12], SearchOptions(beam), hook=Mixing(0.999999, 9))
    start = [] if one.spec.forced_start is None else [one.spec.forced_start]
    end = [one.spec.eos] if one.spec.forced_eos else []
    assert [hypothesis.tokens for hypothesis in found] == [[*start, *[9] * (12 - len(start + end)), *end]] * 2


class Watched(Network):
    """A network that remembers what it was fed last."""

    def step(self, decoding: Decoding, tokens: Tensor) -> States:
        self.fed = tokens.tolist()
        return super().step(decoding, tokens)


@pytest.mark.parametrize("name", ["marian", "nllb"])
def test_a_hook_can_follow_hypotheses(name: str) -> None:
    """`sentences` and `parents` say which hypothesis a row continues, while sentences leave."""
    one = family(name)
    network, sources = Watched(one.spec, one.weights, "fp32"), one.sources(LENGTHS)
    prefixes: dict[tuple[int, int], Tokens] = {}
    seen = []

    def follow(step: Step) -> None:
        live = step.sentences.tolist()
        continued = {
            (sentence, beam): [*prefixes.get((sentence, parent), []), network.fed[i][beam]]
            for i, sentence in enumerate(live)
            for beam, parent in enumerate(step.parents[i].tolist())
        }
        prefixes.clear()
        prefixes.update(continued)
        targets = [[*prefix[1:], 0] for prefix in prefixes.values()]
        assert {len(target) for target in targets} == {step.length + 1}
        expected = network.force([sources[sentence] for sentence, _ in prefixes], targets)
        last = expected.hidden.view(len(targets), step.length + 1, -1)[:, -1]
        torch.testing.assert_close(step.states.hidden, last, rtol=1e-4, atol=1e-4)
        seen.append(len(live))

    limits = [6, 40, 9, 30, 8, 40, 40, 12, 7, 40]
    plain = search(one.network(), sources, limits, SearchOptions())
    assert search(network, sources, limits, SearchOptions(), hook=follow) == plain
    assert seen[0] == len(sources)
    assert len(set(seen)) > 2
