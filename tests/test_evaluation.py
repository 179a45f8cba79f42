"""Scores, significance, speed, and COMET through another program."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import sacrebleu

from knnmt.errors import InputError
from knnmt.evaluation.comet import comet_score
from knnmt.evaluation.machine import describe_machine
from knnmt.evaluation.metrics import score
from knnmt.evaluation.report import System, evaluate_systems
from knnmt.evaluation.significance import compare
from knnmt.evaluation.speed import run_timed
from knnmt.formats.tsv import SegmentPair
from knnmt.records import Translation

REFERENCES = [f"The number {n} is larger than {n - 1} and smaller than {n + 1}." for n in range(40)]
CLOSE = [line.replace("larger", "bigger") if n % 2 else line for n, line in enumerate(REFERENCES)]
FAR = [line.replace("is larger than", "was above") for line in REFERENCES]


def test_scores_are_those_of_sacrebleu() -> None:
    quality = score(CLOSE, REFERENCES)
    assert quality.bleu == sacrebleu.corpus_bleu(CLOSE, [REFERENCES]).score
    assert quality.chrf == sacrebleu.corpus_chrf(CLOSE, [REFERENCES]).score
    assert quality.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert "nc:6|nw:0" in quality.chrf_signature


def test_a_worse_system_is_significantly_worse_and_an_equal_one_is_not() -> None:
    found = compare({"close": CLOSE, "far": FAR, "same": CLOSE}, REFERENCES)
    assert list(found) == ["far", "same"]
    assert found["far"].baseline == "close"
    assert found["far"].bleu.delta == pytest.approx(score(FAR, REFERENCES).bleu - score(CLOSE, REFERENCES).bleu)
    assert found["far"].chrf.delta < 0
    assert found["far"].bleu.p_value < 0.01
    assert (found["same"].bleu.delta, found["same"].bleu.p_value) == (0, 1)
    assert "bs:1000" in found["far"].signature


def test_a_comparison_is_the_same_every_time() -> None:
    systems = {"close": CLOSE, "far": FAR}
    assert compare(systems, REFERENCES) == compare(systems, REFERENCES)


def test_speed_counts_the_time_in_which_a_lazy_stream_works() -> None:
    def translations() -> Iterator[Translation]:
        for line in REFERENCES[:3]:
            time.sleep(0.02)
            yield Translation(line, line, -1.0, 5)

    run = run_timed(translations())
    assert run.tokens == 15
    assert run.seconds >= 0.06
    assert run.tokens_per_second == 15 / run.seconds
    assert run_timed([]).tokens_per_second == 0


def test_a_report_keeps_order_and_compares_with_the_first() -> None:
    pairs = [SegmentPair("?", reference) for reference in REFERENCES]
    run = run_timed(Translation("?", line, -1.0, 2) for line in CLOSE)
    systems = [System("base", CLOSE, {"method": "base"}, run, 0.0, 0.0), System("far", FAR, {"method": "file"})]
    base, far = evaluate_systems(systems, pairs)
    assert (base.method, base.tokens, base.retrieved, base.comparison) == ("base", 80, 0.0, None)
    assert (far.method, far.tokens_per_second, far.retrieved) == ("far", None, None)
    assert far.comparison
    assert far.comparison.bleu.delta == pytest.approx(far.bleu - base.bleu)
    assert asdict(far)["comparison"]["baseline"] == "base"


COMET_SCORE = f"""#!{sys.executable}
# Takes the options and prints the lines of unbabel-comet's program; the score of a segment is the share of words that
# hypothesis and reference have in common.
import argparse

parser = argparse.ArgumentParser()
for short in "-s", "-t", "-r":
    parser.add_argument(short)
parser.add_argument("--model")
parser.add_argument("--gpus", type=int, default=1)
given = parser.parse_args()
if given.model == "absent":
    parser.error("absent is not a valid checkpoint path or model choice.")
if given.gpus:
    parser.error("no GPU here")
sources, hypotheses, references = ([line.strip() for line in open(name)] for name in (given.s, given.t, given.r))
assert len(sources) == len(hypotheses) == len(references)
scores = []
for number, (left, right) in enumerate(zip(hypotheses, references)):
    left, right = set(left.split()), set(right.split())
    scores.append(len(left & right) / len(left | right))
    print("{{}}\\tSegment {{}}\\tscore: {{:.4f}}".format(given.t, number, scores[-1]))
if given.model != "silent":
    print("{{}}\\tscore: {{:.4f}}".format(given.t, sum(scores) / len(scores)))
"""


@pytest.fixture
def comet_program(tmp_path: Path) -> str:
    path = tmp_path / "comet-score"
    path.write_text(COMET_SCORE, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_comet_is_asked_through_files(comet_program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, hypotheses, references = ["über\u2028", "b\r"], ["a b\nc d", "schön"], ["a b c d", "nicht schön"]
    found = comet_score(sources, hypotheses, references, checkpoint="any", program=comet_program)
    assert found == 0.75
    monkeypatch.setenv("PATH", str(Path(comet_program).parent))
    assert comet_score(sources, hypotheses, references, checkpoint="any") == 0.75


@pytest.mark.parametrize(
    ("checkpoint", "words"),
    [("absent", ["code 2", "not a valid checkpoint"]), ("silent", ["code 0", "score: NUMBER", "Segment 0"])],
)
def test_a_failure_of_comet_is_shown(comet_program: str, checkpoint: str, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        comet_score(["a"], ["a"], ["a"], checkpoint=checkpoint, program=comet_program)
    assert all(word in str(error.value) for word in words)


def test_a_missing_comet_says_how_to_install_it() -> None:
    with pytest.raises(InputError, match=r"'no-such-program' was not found.*pipx install unbabel-comet"):
        comet_score(["a"], ["a"], ["a"], checkpoint="any", program="no-such-program")


def test_the_machine_is_described() -> None:
    machine = describe_machine()
    assert machine.cpu
    assert machine.threads >= 1
    assert machine.versions["torch"]
