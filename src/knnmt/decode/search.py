"""Beam search with the meaning of transformers' `generate`.

Sentences leave a batch when they are done, a few at a time. Letting others take their places was measured and lost:
attention is as wide as the oldest hypothesis, and keeping the batch full cost more on a CPU than it brought.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from knnmt.decode.step import Hook, Step
from knnmt.decode.trellis import Trellis
from knnmt.model.linear import few_sizes
from knnmt.model.network import Decoding, Network
from knnmt.model.vocabulary import BLOCK, Distribution
from knnmt.records import SearchOptions

_NEVER = -1e9
"""The score of a hypothesis that does not exist; finite, so that differences stay numbers."""
_BLOCK_BITS = BLOCK.bit_length() - 1


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An output with its score; the tokens end with the end of sentence unless the limit cut them off."""

    tokens: list[int]
    score: float


@dataclass(slots=True)
class _Beams:
    """The hypotheses of the live sentences; the first dimension of every tensor is the sentence."""

    sentences: Tensor  # (live,) which source
    limits: Tensor  # (live,) most tokens
    scores: Tensor  # (live, beams) log p of the running hypotheses, best first
    tokens: Tensor  # (live, beams) to be fed next
    nodes: Tensor  # (live, beams) in the trellis
    parents: Tensor  # (live, beams) the beam of the step before that each continues
    finished_scores: Tensor  # (live, beam) with length penalty, best first
    finished_nodes: Tensor  # (live, beam)
    done: Tensor  # (live,)

    def keep(self, sentences: Tensor) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name).index_select(0, sentences))

    def best(self, sentences: Tensor) -> Iterator[tuple[int, int, float]]:
        """Yield source, last node and score of the best finished hypothesis of these sentences."""
        return zip(
            self.sentences[sentences].tolist(),
            self.finished_nodes[sentences, 0].tolist(),
            self.finished_scores[sentences, 0].tolist(),
            strict=True,
        )


@torch.inference_mode()
def search(
    network: Network,
    sources: Sequence[Sequence[int]],
    limits: Sequence[int],
    options: SearchOptions,
    hook: Hook | None = None,
) -> list[Hypothesis]:
    """Return the best hypothesis of each source, at most `limits` tokens long; all are searched together."""
    return _Search(network, options, hook).run(sources, limits)


class _Search:
    def __init__(self, network: Network, options: SearchOptions, hook: Hook | None) -> None:
        self._network, self._options, self._hook = network, options, hook
        self._trellis = Trellis()
        self._length = 0
        self._some_full = False

    def run(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> list[Hypothesis]:
        ends = [(-1, 0.0)] * len(sources)
        decoding = self._network.start(sources, self._options.beam)
        beams = _fresh(limits, self._options.beam, self._network.spec.decoder_start)
        self._shortest = min(limits)
        while live := len(beams.done):
            self._step(decoding, beams)
            if not self._some_full and self._length < self._shortest:
                continue
            remaining = live - int(beams.done.sum())
            if remaining and few_sizes(remaining) == few_sizes(live):
                continue  # leaving copies what stays, and would make no product smaller
            for sentence, node, score in beams.best(beams.done.nonzero().squeeze(1)):
                ends[sentence] = (node, score)
            staying = (~beams.done).nonzero().squeeze(1)
            beams.keep(staying)
            if len(staying):
                decoding.keep(staying)
        paths = self._trellis.paths([node for node, _ in ends])
        return [Hypothesis(path, score) for path, (_, score) in zip(paths, ends, strict=True)]

    def _step(self, decoding: Decoding, beams: _Beams) -> None:
        """Extend the running hypotheses by a token."""
        beam = self._options.beam
        states = self._network.step(decoding, beams.tokens)
        distribution = self._network.vocabulary(states.hidden)
        scores = beams.scores
        if self._hook is not None:
            log_weight = torch.zeros_like(scores)
            self._hook(Step(beams.sentences, self._length, beams.parents, states, distribution, log_weight.view(-1)))
            scores = scores + log_weight
        self._length += 1
        at_limit = self._length >= self._shortest
        last = beams.limits <= self._length
        spec = self._network.spec
        if self._length == 1 and spec.forced_start is not None:
            _force(distribution, torch.ones(scores.numel(), dtype=torch.bool), spec.forced_start)
        if at_limit and spec.forced_eos:
            _force(distribution, last.repeat_interleave(scores.shape[1]), spec.eos)
        log_probs, parents, tokens = _best(distribution, scores, 2 * beam)
        # Where fewer tokens are possible than are asked for, the rest may lie in the padding of the vocabulary.
        tokens.clamp_max_(spec.decoder.vocabulary - 1)
        nodes = self._trellis.add(tokens, beams.nodes.gather(1, parents))
        ended = tokens == spec.eos
        if at_limit:
            ended |= last.unsqueeze(1)
        if bool(ended.any()):
            self._finish(beams, log_probs, nodes, ended)
            log_probs, kept = log_probs.masked_fill_(ended, _NEVER).topk(beam)
            parents, tokens, nodes = (each.gather(1, kept) for each in (parents, tokens, nodes))
        beams.scores, beams.parents = log_probs[:, :beam], parents[:, :beam]
        beams.tokens, beams.nodes = tokens[:, :beam], nodes[:, :beam]
        if self._some_full or at_limit:
            beams.done = beams.done | last | self._cannot_improve(beams)
        decoding.fork(beams.parents)

    def _finish(self, beams: _Beams, log_probs: Tensor, nodes: Tensor, ended: Tensor) -> None:
        """Merge the hypotheses that ended just now, among the best `beam` alone, with those that had."""
        beam = self._options.beam
        counts = ended & ~beams.done[:, None]
        counts[:, beam:] = False
        scores = (log_probs / self._length**self._options.length_penalty).masked_fill_(~counts, _NEVER)
        beams.finished_scores, kept = torch.cat([beams.finished_scores, scores], 1).topk(beam)
        beams.finished_nodes = torch.cat([beams.finished_nodes, nodes], 1).gather(1, kept)
        self._some_full = bool((beams.finished_scores[:, -1] > _NEVER).any())

    def _cannot_improve(self, beams: _Beams) -> Tensor:
        """Tell, for each sentence, whether enough has finished and no running hypothesis promises more.

        transformers' rule: the best running one is judged as if it ended now.
        """
        worst = beams.finished_scores[:, -1]
        full = worst > _NEVER
        if self._options.early_stopping or self._options.beam == 1:
            return full
        promised: Tensor = beams.scores[:, 0] / self._length**self._options.length_penalty
        return full & (promised <= worst)


def _fresh(limits: Sequence[int], beam: int, start: int) -> _Beams:
    """Return the hypotheses of sentences that have no token yet: a single one each."""
    live = len(limits)
    return _Beams(
        sentences=torch.arange(live),
        limits=torch.tensor(limits),
        scores=torch.zeros(live, 1),
        tokens=torch.full((live, 1), start),
        nodes=torch.full((live, 1), -1),
        parents=torch.zeros(live, 1, dtype=torch.long),
        finished_scores=torch.full((live, beam), _NEVER),
        finished_nodes=torch.full((live, beam), -1),
        done=torch.zeros(live, dtype=torch.bool),
    )


def _best(distribution: Distribution, scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return score, parent beam and token of the best continuations of each sentence, each (live, count), in order.

    The best `count` tokens lie in the best `count` blocks, judged by their maxima.
    """
    live, beams = scores.shape
    width = distribution.probabilities.shape[1]
    block_scores = distribution.maxima.view(live, beams, -1).log().add_(scores.unsqueeze(2)).view(live, -1)
    chosen = block_scores.topk(min(count, block_scores.shape[1]), sorted=False).indices
    rows = chosen if live == 1 else chosen + torch.arange(0, block_scores.numel(), block_scores.shape[1]).unsqueeze(1)
    block_beams = chosen.div(width // BLOCK, rounding_mode="floor")
    probabilities = distribution.probabilities.view(-1, BLOCK).index_select(0, rows.view(-1))
    values = probabilities.view(live, -1, BLOCK).log_().add_(scores.gather(1, block_beams).unsqueeze(2))
    log_probs, positions = values.view(live, -1).topk(count)
    block = chosen.gather(1, positions.bitwise_right_shift(_BLOCK_BITS))
    continuations = positions.bitwise_and_(BLOCK - 1).add_(block, alpha=BLOCK)
    parents = continuations.div(width, rounding_mode="floor")
    return log_probs.clamp_min_(_NEVER / 2), parents, continuations.sub_(parents, alpha=width)


def _force(distribution: Distribution, rows: Tensor, token: int) -> None:
    """Leave the given rows no choice but this token."""
    for values, chosen in ((distribution.probabilities, token), (distribution.maxima, token // BLOCK)):
        values[rows] = 0
        values[rows, chosen] = 1
