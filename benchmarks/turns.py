"""Engines that take turns at every setting, so that what disturbs the machine disturbs them all."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from corpora import Corpus
from engine_report import Speed
from peers import REFERENCE
from workers import Answer, Task, Worker

REST = 0.3
"""Seconds between two engines: idle threads of some libraries spin on their cores for up to 0.2."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all engines are asked to do."""

    corpus: Corpus
    beam: int
    batch: int
    sentences: int

    @property
    def task(self) -> Task:
        return Task(self.corpus.sources[: self.sentences], self.beam, self.batch)


def settings_of(corpora: Sequence[Corpus], options: argparse.Namespace) -> list[Setting]:
    """Return all settings; single sentences are slow, so there are fewer of them."""
    return [
        Setting(corpus, beam, batch, min(len(corpus.sources), options.singles if batch == 1 else options.sentences))
        for corpus in corpora
        for beam in options.beams
        for batch in options.batches
    ]


def run_turns(workers: list[Worker], setting: Setting, options: argparse.Namespace) -> dict[str, list[Answer]]:
    """Return the answers of each engine; within a repetition they come in random order."""
    answers: dict[str, list[Answer]] = {worker.engine: [] for worker in workers}
    for repetition in range(options.repetitions):
        turns = [w for w in workers if w.engine != REFERENCE or repetition < options.reference_repetitions]
        for worker in random.sample(turns, len(turns)):
            time.sleep(REST)
            answers[worker.engine].append(worker.translate(setting.task))
    return answers


def speeds_of(setting: Setting, threads: int, answers: dict[str, list[Answer]]) -> Iterator[Speed]:
    """Yield the speed of each engine at one setting."""
    expected = answers[REFERENCE][0].outputs if REFERENCE in answers else None
    for engine, turns in answers.items():
        rates = [sum(map(len, answer.outputs)) / answer.seconds for answer in turns]
        same = None
        if expected is not None:
            pairs = zip(turns[0].outputs, expected, strict=True)
            same = sum(ours == theirs for ours, theirs in pairs) / len(expected)
        yield Speed(
            setting.corpus.name, setting.sentences, threads, setting.beam, setting.batch, engine,
            median(rates), min(rates), max(rates), len(rates), same,
        )  # fmt: skip
