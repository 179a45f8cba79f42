"""Tokenizers give the ids of transformers' own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from tiny import SENTENCES, TINY, VOCABULARY, tiny_marian_with_tokenizer
from transformers import BartTokenizer, FSMTTokenizer, M2M100Tokenizer, MarianTokenizer, MBart50Tokenizer, NllbTokenizer
from transformers.models.mbart.tokenization_mbart import MBartTokenizer

from knnmt.errors import InputError, KnnmtError, MissingExtra, ModelError
from knnmt.model.checkpoint import Checkpoint, open_checkpoint
from knnmt.model.families import load
from knnmt.model.spec import ModelSpec, StackSpec
from knnmt.model.tokenizer import Tokenizer, open_tokenizer

DEMO = Path(__file__).parent.parent / "demo"

SPECIAL = {"</s>", "<unk>", "<pad>"}


@pytest.fixture(scope="module")
def marian_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian")
    tiny_marian_with_tokenizer(folder)
    return folder


def opened(folder: Path, source: str | None = None, target: str | None = None) -> Tokenizer:
    """The tokenizer of a whole checkpoint."""
    checkpoint = open_checkpoint(folder)
    spec, _ = load(checkpoint)
    return open_tokenizer(checkpoint, spec, source, target)


@pytest.fixture(scope="module")
def both(marian_folder: Path) -> tuple[Tokenizer, Any]:
    """Our tokenizer of a Marian model, and transformers'."""
    return opened(marian_folder), MarianTokenizer.from_pretrained(marian_folder)


def assert_same_ids(ours: Tokenizer, theirs: Any, pairs: Iterable[tuple[str, str]]) -> None:
    for source, target in pairs:
        assert ours.encode(source) == theirs(source).input_ids
        labels = theirs(text_target=target).input_ids
        assert ours.encode_target(target) == labels
        assert ours.pieces(labels) == theirs.convert_ids_to_tokens(labels)
        assert ours.decode(labels) == theirs.decode(labels, skip_special_tokens=True)


def test_marian_on_its_own_sentences(both: tuple[Tokenizer, Any]) -> None:
    assert_same_ids(*both, SENTENCES)
    ours, _ = both
    for _, target in SENTENCES:
        assert ours.decode(ours.encode_target(target)) == target


def test_marian_on_the_demo_model() -> None:
    folder = DEMO / "de-en-small"
    lines = (DEMO / "medical.test.tsv").read_text(encoding="utf-8").split("\n")[:300]
    pairs = [(line.split("\t")[0], line.split("\t")[1]) for line in lines]
    assert_same_ids(opened(folder), MarianTokenizer.from_pretrained(folder), [*pairs, ("日本語 🎉", "\u2028 ≤ a  b ")])


@given(st.text().filter(lambda text: not any(token in text for token in SPECIAL)))
def test_marian_on_any_text(both: tuple[Tokenizer, Any], text: str) -> None:
    assert_same_ids(*both, [(text, text), (f">>fra<<{text}", text), (f">>xxx<< {text}", text)])


@given(st.lists(st.integers(0, 50)))
def test_marian_decodes_any_output(both: tuple[Tokenizer, Any], ids: list[int]) -> None:
    ours, theirs = both
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


def test_special_tokens_in_a_text_are_text(both: tuple[Tokenizer, Any]) -> None:
    ours, theirs = both
    assert ours.encode("Der </s> Hund")[:-1].count(theirs.eos_token_id) == 0


def test_marian_with_two_vocabularies(marian_folder: Path, tmp_path: Path) -> None:
    TINY["marian-separate"](tmp_path)
    for side, file in (("source", "vocab.json"), ("target", "target_vocab.json")):
        spm = SentencePieceProcessor(model_file=str(marian_folder / f"{side}.spm"))
        (tmp_path / f"{side}.spm").write_bytes(spm.serialized_model_proto())
        pieces = ["</s>", "<pad>", "<unk>", *(spm.id_to_piece(i) for i in range(3, len(spm)))]
        (tmp_path / file).write_text(json.dumps({piece: i for i, piece in enumerate(pieces[: VOCABULARY - 10])}))
    assert_same_ids(opened(tmp_path), MarianTokenizer.from_pretrained(tmp_path, separate_vocabs=True), SENTENCES)


def test_marian_names_the_target_language(marian_folder: Path) -> None:
    plain, french = opened(marian_folder), opened(marian_folder, target="fra")
    assert french.encode("Der Hund") == plain.encode(">>fra<<Der Hund")
    assert french.encode(">>eng<<Der Hund") == plain.encode(">>eng<<Der Hund")


@pytest.mark.parametrize(
    ("languages", "words"),
    [
        ((None, "frz"), ["'frz'", "Did you mean fra", "eng, fra"]),
        (("de", None), ["source language", "'de'", "multilingual"]),
    ],
)
def test_marian_refuses_languages_it_cannot_be_told(
    marian_folder: Path, languages: tuple[str | None, str | None], words: list[str]
) -> None:
    assert_error(InputError, lambda: opened(marian_folder, *languages), words)


def test_a_model_of_one_pair_refuses_a_target_language() -> None:
    assert_error(InputError, lambda: opened(DEMO / "de-en-small", target="fr"), ["target language", "'fr'", "Leave"])


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("vocab.json", None, ["has no vocab.json", "copy"]),
        ("vocab.json", '{"a": 0}', ["vocab.json", "<unk>", "download"]),
        ("vocab.json", '{"<unk>": 1, "a": 5000}', ["vocab.json", "5000", "embeddings", "another model"]),
        ("source.spm", None, ["source.spm is missing", "download"]),
        ("target.spm", "no model", ["target.spm cannot be read", "sentencepiece"]),
    ],
)
def test_marian_files_that_cannot_be_used(
    marian_folder: Path, tmp_path: Path, file: str, content: str | None, words: list[str]
) -> None:
    for path in marian_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_text(content)
    assert_error(ModelError, lambda: opened(tmp_path), [str(tmp_path), *words])


def test_marian_does_not_import_transformers() -> None:
    program = (
        "import sys; from knnmt.model.checkpoint import open_checkpoint; from knnmt.model.families import load; "
        "from knnmt.model.tokenizer import open_tokenizer; checkpoint = open_checkpoint(sys.argv[1]); "
        "open_tokenizer(checkpoint, load(checkpoint)[0]).encode('Hallo'); sys.exit('transformers' in sys.modules)"
    )
    folder = DEMO / "de-en-small"
    subprocess.run([sys.executable, "-c", program, folder], check=True, env={"PYTHONPATH": ":".join(sys.path)})


PIECES = ["▁Der", "▁Hund", "▁The", "▁dog", "▁", "D", "e", "r", "H", "u", "n", "d", "T", "h", "o", "g"]

TOKENS = ["<s>", "<pad>", "</s>", "<unk>", *PIECES]


def m2m100(folder: Path, marian_folder: Path) -> None:
    spm = marian_folder / "source.spm"
    pieces = SentencePieceProcessor(model_file=str(spm))
    tokens = [*TOKENS[:4], *(pieces.id_to_piece(i) for i in range(3, len(pieces)))]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    M2M100Tokenizer(str(folder / "vocab.json"), str(spm)).save_pretrained(folder)


def nllb(folder: Path, _: Path) -> None:
    merges: Any = [("▁", "D"), ("▁D", "e"), ("▁De", "r"), ("▁", "T"), ("▁T", "h"), ("▁Th", "e")]
    tokens = [*TOKENS, "▁D", "▁De", "▁T", "▁Th"]
    NllbTokenizer(vocab={token: i for i, token in enumerate(tokens)}, merges=merges).save_pretrained(folder)


def scored(codes: Iterable[str]) -> list[tuple[str, float]]:
    return [*((token, -float(len(token) < 3)) for token in TOKENS), *((code, 0.0) for code in codes), ("<mask>", 0.0)]


def mbart(folder: Path, _: Path) -> None:
    codes = transformers.models.mbart.tokenization_mbart.FAIRSEQ_LANGUAGE_CODES
    MBartTokenizer(vocab=scored(codes)).save_pretrained(folder)


def mbart50(folder: Path, _: Path) -> None:
    codes = transformers.models.mbart50.tokenization_mbart50.FAIRSEQ_LANGUAGE_CODES
    MBart50Tokenizer(vocab=scored(codes)).save_pretrained(folder)


def bart(folder: Path, _: Path) -> None:
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "Ġ", *"DerHundThog", "ĠD", "ĠT", "<mask>"]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    merges: Any = [("Ġ", "D"), ("Ġ", "T")]
    BartTokenizer(vocab=vocabulary, merges=merges).save_pretrained(folder)


@pytest.fixture
def bare(tmp_path: Path, marian_folder: Path) -> Callable[..., Checkpoint]:
    """A checkpoint of a family that has a tokenizer and no weights."""

    def make(save: Callable[[Path, Path], None], model_type: str) -> Checkpoint:
        save(tmp_path, marian_folder)
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
        return Checkpoint(tmp_path, {"model_type": model_type}, {}, {})

    return make


def spec_of(family: str, forced_start: int | None = None, rows: int = 300) -> ModelSpec:
    stack = StackSpec(layers=1, heads=1, ffn=8, vocabulary=rows)
    return ModelSpec(family, 8, stack, stack, "relu", False, False, False, 1.0, 64, 1, 2, 2, forced_start=forced_start)


MULTILINGUAL: dict[str, tuple[Callable[[Path, Path], None], str, str, str]] = {
    "m2m100": (m2m100, "m2m_100", "de", "en"),
    "nllb": (nllb, "m2m_100", "deu_Latn", "eng_Latn"),
    "mbart50": (mbart50, "mbart", "de_DE", "en_XX"),
    "mbart": (mbart, "mbart", "de_DE", "en_XX"),
}


@pytest.mark.parametrize("name", MULTILINGUAL)
def test_multilingual_tokenizers(bare: Callable[..., Checkpoint], name: str) -> None:
    save, family, source, target = MULTILINGUAL[name]
    checkpoint = bare(save, family)
    theirs = transformers.AutoTokenizer.from_pretrained(checkpoint.folder, src_lang=source, tgt_lang=target)
    ours = open_tokenizer(checkpoint, spec_of(family), source, target)
    codes = getattr(theirs, "lang_code_to_id", None) or {target: theirs.convert_tokens_to_ids(target)}
    language = codes[target]
    text = theirs("The dog", add_special_tokens=False).input_ids

    assert ours.encode("Der Hund") == theirs("Der Hund").input_ids
    produced = [] if name == "mbart" else [language]
    assert ours.encode_target("The dog") == [*produced, *text, 2]
    assert (ours.decoder_start, ours.forced_start) == ((language, None) if name == "mbart" else (2, language))
    assert ours.decode([language, *text, 2, 1]) == theirs.decode(text, skip_special_tokens=True)
    assert ours.pieces([language, 2])[1] == "</s>"


@pytest.mark.parametrize("name", MULTILINGUAL)
def test_languages_are_asked_for(bare: Callable[..., Checkpoint], name: str) -> None:
    save, family, source, target = MULTILINGUAL[name]
    checkpoint, spec = bare(save, family), spec_of(family)
    wrong = target[:-1] + "q"
    assert_error(
        InputError, lambda: open_tokenizer(checkpoint, spec, source, wrong), [f"{wrong!r}", "Did you mean", target]
    )
    assert_error(
        InputError, lambda: open_tokenizer(checkpoint, spec, source), ["target language", target, "--target-language"]
    )
    assert_error(InputError, lambda: open_tokenizer(checkpoint, spec), ["source language", "--source-language"])
    assert_error(
        ModelError,
        lambda: open_tokenizer(checkpoint, spec_of(family, rows=9), source, target),
        ["below 9", str(checkpoint.folder)],
    )


def test_a_target_language_saved_with_the_model(bare: Callable[..., Checkpoint]) -> None:
    checkpoint = bare(mbart50, "mbart")
    english = transformers.AutoTokenizer.from_pretrained(checkpoint.folder).lang_code_to_id["en_XX"]
    ours = open_tokenizer(checkpoint, spec_of("mbart", forced_start=english), "de_DE")
    assert ours.forced_start == english
    original = replace(spec_of("mbart"), decoder_start=english)
    checkpoint = bare(mbart, "mbart")
    english = transformers.AutoTokenizer.from_pretrained(checkpoint.folder).lang_code_to_id["en_XX"]
    ours = open_tokenizer(checkpoint, replace(original, decoder_start=english), "de_DE")
    assert (ours.decoder_start, ours.forced_start) == (english, None)


def test_bart(bare: Callable[..., Checkpoint]) -> None:
    checkpoint = bare(bart, "bart")
    theirs = transformers.AutoTokenizer.from_pretrained(checkpoint.folder)
    ours = open_tokenizer(checkpoint, spec_of("bart", forced_start=0))
    assert_same_ids(ours, theirs, [("Der Hund", "The dog")])
    assert (ours.decoder_start, ours.forced_start) == (2, 0)
    assert_error(InputError, lambda: open_tokenizer(checkpoint, spec_of("bart"), target_language="en"), ["'en'"])


def fsmt(folder: Path, _: Path) -> None:
    words = [["Der</w>", "Hund</w>"], ["The</w>", "dog</w>"]]
    letters = [*"DerHundThog", *(f"{letter}</w>" for letter in "rdeg")]
    for file, side in zip(("vocab-src.json", "vocab-tgt.json"), words, strict=True):
        tokens = dict.fromkeys([*TOKENS[:4], *side, *letters])
        (folder / file).write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    merges = ["D e 1", "De r</w> 1", "H u 1", "Hu n 1", "Hun d</w> 1", "T h 1", "Th e</w> 1", "d o 1", "do g</w> 1"]
    (folder / "merges.txt").write_text("\n".join([*merges, ""]))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"langs": ["de", "en"], "tokenizer_class": "FSMTTokenizer"})
    )


def test_fsmt(bare: Callable[..., Checkpoint]) -> None:
    pytest.importorskip("sacremoses")
    checkpoint = bare(fsmt, "fsmt")
    theirs = FSMTTokenizer.from_pretrained(checkpoint.folder)
    ours = open_tokenizer(checkpoint, spec_of("fsmt"))
    assert ours.encode("Der Hund") == theirs("Der Hund").input_ids == [4, 5, 2]
    # transformers' tokenizer would split this as German and look it up in the source's vocabulary.
    assert ours.encode_target("The dog") == [4, 5, 2]
    assert ours.pieces([4, 5]) == ["The</w>", "dog</w>"]
    assert ours.decode([4, 5, 2, 1]) == theirs.decode([4, 5]) == "The dog"


def test_fsmt_needs_sacremoses(bare: Callable[..., Checkpoint], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    checkpoint = bare(fsmt, "fsmt")
    assert_error(MissingExtra, lambda: open_tokenizer(checkpoint, spec_of("fsmt")), ["pip install sacremoses"])


def test_a_folder_without_tokenizer(bare: Callable[..., Checkpoint]) -> None:
    checkpoint = bare(lambda folder, _: None, "bart")
    words = [str(checkpoint.folder), "no tokenizer", "copy or download"]
    assert_error(ModelError, lambda: open_tokenizer(checkpoint, spec_of("bart")), words)


@pytest.mark.skipif(find_spec("google") is not None, reason="protobuf is installed")
def test_a_sentencepiece_model_alone_needs_protobuf(bare: Callable[..., Checkpoint], marian_folder: Path) -> None:
    checkpoint = bare(lambda folder, _: None, "mbart")
    (checkpoint.folder / "sentencepiece.bpe.model").write_bytes((marian_folder / "source.spm").read_bytes())
    assert_error(MissingExtra, lambda: open_tokenizer(checkpoint, spec_of("mbart")), ["pip install protobuf"])


def test_a_damaged_tokenizer(bare: Callable[..., Checkpoint]) -> None:
    checkpoint = bare(bart, "bart")
    (checkpoint.folder / "tokenizer.json").write_text("{")
    assert_error(ModelError, lambda: open_tokenizer(checkpoint, spec_of("bart")), [str(checkpoint.folder), "download"])


def assert_error(kind: type[KnnmtError], action: Callable[[], object], words: list[str]) -> None:
    """The action fails with a message that has all the words."""
    with pytest.raises(kind) as caught:
        action()
    for word in words:
        assert word in str(caught.value)
