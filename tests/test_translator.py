"""The facade: segments in, translations out, in order, whatever their number and length."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from tiny import SENTENCES
from transformers import MarianMTModel, MarianTokenizer

from knnmt import InputError, SearchOptions, Translation, Translator
from knnmt.decode.search import search
from knnmt.model.checkpoint import open_checkpoint
from knnmt.model.families import load
from knnmt.model.network import Network
from knnmt.model.tokenizer import Tokenizer, open_tokenizer
from knnmt.segments import SegmentEncoder

DEMO = ROOT / "demo" / "de-en-small"
POSITIONS = 64
"""Tokens that the tiny model can read."""
LONG = " ".join(source for source, _ in SENTENCES)
"""Five sentences, more than the tiny model can read at once."""


@pytest.fixture(scope="module")
def translator(tiny_model: Path) -> Translator:
    return Translator.open(tiny_model, compute="fp32")


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Tokenizer:
    return open_tokenizer(checkpoint := open_checkpoint(tiny_model), load(checkpoint)[0])


@pytest.fixture(scope="module")
def sources() -> list[str]:
    words = LONG.split()
    return [" ".join(words[start : start + length]) for length in (3, 1, 6, 2, 0, 5) for start in range(20)]


@pytest.fixture(scope="module")
def one_by_one(translator: Translator, sources: list[str]) -> list[Translation]:
    return [translation for source in sources for translation in translator.translate([source])]


def text_of(translator: Translator, source: str, **how: Any) -> str:
    return translator.translate([source], **how)[0].text


def assert_same(found: list[Translation], expected: list[Translation]) -> None:
    assert [(one.source, one.text, one.tokens) for one in found] == [(x.source, x.text, x.tokens) for x in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)


def test_text_is_that_of_transformers(tiny_model: Path, translator: Translator) -> None:
    model: Any = MarianMTModel.from_pretrained(tiny_model)
    tokenizer = MarianTokenizer.from_pretrained(tiny_model)
    for source, _ in SENTENCES:
        ids = torch.tensor([tokenizer(source).input_ids])
        limit = int(1.5 * (ids.shape[1] - 1)) + 20
        found = model.generate(ids, num_beams=4, length_penalty=1.0, max_new_tokens=limit)
        assert text_of(translator, source) == tokenizer.decode(found[0], skip_special_tokens=True)


def test_the_demo_model_translates() -> None:
    translator = Translator.open(DEMO)
    assert (translator.model, translator.compute) == (str(DEMO), "int8")
    assert text_of(translator, "Guten Morgen.") == "Good morning."


@pytest.mark.parametrize("batch", [1, 2, 3, 16])
def test_order_and_text_do_not_depend_on_the_batch(
    translator: Translator, sources: list[str], one_by_one: list[Translation], batch: int
) -> None:
    assert_same(list(translator.stream(iter(sources), batch=batch)), one_by_one)


def test_the_same_twice(translator: Translator, sources: list[str]) -> None:
    assert translator.translate(sources) == translator.translate(sources)


@pytest.mark.parametrize("blank", ["", " ", "\t\u3000\n"])
def test_a_blank_segment_stays_blank(translator: Translator, blank: str) -> None:
    assert translator.translate([blank]) == [Translation(blank, "", 0.0, 0)]
    found = translator.translate(["ein Hund", blank, "eine Katze"])
    assert found[1] == Translation(blank, "", 0.0, 0)
    assert_same(found[::2], translator.translate(["ein Hund", "eine Katze"]))


def test_no_segments(translator: Translator) -> None:
    assert translator.translate([]) == []


def test_input_is_read_window_by_window(translator: Translator) -> None:
    read = 0

    def segments() -> Iterator[str]:
        nonlocal read
        for _ in range(1_000):
            read += 1
            yield "Hund"

    stream = translator.stream(segments(), batch=1)
    assert read == 0
    next(stream)
    assert read == 32


def test_a_stream_can_be_left(translator: Translator, sources: list[str]) -> None:
    expected = translator.translate(sources)
    stream = translator.stream(sources)
    assert_same([next(stream), next(stream)], expected[:2])
    del stream
    assert translator.translate(sources) == expected


def test_an_interrupt_between_segments_leaves_the_translator_usable(translator: Translator) -> None:
    def interrupted() -> Iterator[str]:
        yield "ein Hund"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(translator.stream(interrupted()))
    assert text_of(translator, "ein Hund")


@pytest.mark.parametrize("most", [None, 1, 7, 10_000])
def test_the_limit(translator: Translator, tiny_model: Path, tokenizer: Tokenizer, most: int | None) -> None:
    spec, weights = load(open_checkpoint(tiny_model))
    network, options = Network(spec, weights, "fp32"), SearchOptions(max_length=most)
    for source in ("Hund", SENTENCES[1][0]):
        tokens = tokenizer.encode(source)
        limit = min(most or int(1.5 * (len(tokens) - 1)) + 20, POSITIONS)
        (expected,) = search(network, [tokens], [limit], options)
        (found,) = translator.translate([source], options=options)
        assert (found.text, found.tokens) == (tokenizer.decode(expected.tokens), len(expected.tokens))
        assert found.tokens <= limit


def test_a_target_language_is_told_to_the_model(tiny_model: Path, translator: Translator) -> None:
    french = Translator.open(tiny_model, compute="fp32", target_language="fra")
    assert text_of(french, "der Hund") == text_of(translator, ">>fra<<der Hund")


def test_a_long_segment_is_split_at_sentences(translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "knnmt"):
        before, whole, after = translator.translate(["Hund", LONG, "Katze"])
    parts = translator.translate([source for source, _ in SENTENCES])
    assert whole.source == LONG
    assert whole.text == " ".join(part.text for part in parts if part.text)
    assert whole.tokens == sum(part.tokens for part in parts)
    assert whole.score == pytest.approx(sum(part.score for part in parts) / len(parts), abs=1e-5)
    assert_same([before, after], translator.translate(["Hund", "Katze"]))
    (record,) = caplog.records
    for word in ("Der Hund sieht", "reads 64", "5 parts", "split such segments"):
        assert word in record.message


def test_only_a_long_segment_is_split(tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    encoder = SegmentEncoder(tokenizer, POSITIONS, None)
    two = " ".join(source for source, _ in SENTENCES[:2])
    assert encoder.parts(two) == [tokenizer.encode(two)]
    assert not caplog.records


@pytest.mark.parametrize("language", [None, "de", "de_DE", "deu_Latn", "zz"])
def test_the_language_of_sentences_may_be_anything(tokenizer: Tokenizer, language: str | None) -> None:
    parts = SegmentEncoder(tokenizer, POSITIONS, language).parts(LONG)
    assert parts == [tokenizer.encode(source) for source, _ in SENTENCES]


def test_a_long_sentence_is_split_at_spaces(tokenizer: Tokenizer) -> None:
    text = " ".join(["Der alte Hund"] * 60)
    parts = SegmentEncoder(tokenizer, POSITIONS, "de").parts(text)
    assert [token for part in parts for token in part[:-1]] == tokenizer.encode(text)[:-1]
    assert max(map(len, parts)) <= POSITIONS
    assert min(map(len, parts)) > POSITIONS / 3  # halves, not full parts and a crumb


@given(st.text(alphabet="abHund. !?\u3000語😀", min_size=1, max_size=400))
def test_any_text_is_split_into_what_the_model_can_read(tokenizer: Tokenizer, text: str) -> None:
    parts = SegmentEncoder(tokenizer, 16, None).parts(text)
    assert all(2 <= len(part) <= 16 for part in parts)
    assert bool(parts) == bool(text.strip())


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"compute": "int4"}, ["'int4'", "int8, bf16, fp32"]),
        ({"threads": 0}, ["0 threads", "1 or more"]),
        ({"device": "cuda"}, ["'cuda'", "'cpu'"]),
        ({"target_language": "xx"}, ["'xx'", "eng, fra"]),
    ],
)
def test_what_a_translator_cannot_be_opened_with(tiny_model: Path, how: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        Translator.open(tiny_model, **how)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("sources", "how", "words"),
    [
        ("ein Hund", {}, ["'ein Hund'", "list"]),
        (["a"], {"batch": 0}, ["batch 0", "1 or more"]),
        (["a"], {"options": SearchOptions(beam=0)}, ["beam 0", "1 or more"]),
        (["a"], {"options": SearchOptions(max_length=-1)}, ["max_length -1", "1 or more"]),
    ],
)
def test_what_cannot_be_translated(translator: Translator, sources: Any, how: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        translator.stream(sources, **how)
    assert all(word in str(caught.value) for word in words)


def test_opening_a_marian_model_imports_nothing_that_is_not_needed(tiny_model: Path) -> None:
    program = (
        "import sys; from knnmt import Translator; Translator.open(sys.argv[1], compute='fp32').translate(['Hund']); "
        "sys.exit(bool({'transformers', 'sentencex', 'rich', 'typer'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program, tiny_model], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_threads_are_set(tiny_model: Path) -> None:
    before = torch.get_num_threads()
    try:
        Translator.open(tiny_model, threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
