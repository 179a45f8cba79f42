"""Tiny models of every family, made with transformers' own classes.

They begin with random weights, no bias at zero and no norm at one, so that a forgotten one shows. Purely random models
repeat one token for ever; a second of training to reverse their source makes them end their sentences and mean it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    FSMTConfig,
    FSMTForConditionalGeneration,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    PreTrainedModel,
)

VOCABULARY = 60

WORDS = 45
"""Tokens from 5 up to here are words in every tiny vocabulary; special tokens lie outside."""

SHAPE: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "scale_embedding": True,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
}

MARIAN_TOKENS: dict[str, Any] = {"eos_token_id": 0, "forced_eos_token_id": 0}

SENTENCES = [
    ("Der Hund sieht die Katze.", "The dog sees the cat."),
    ("Die Katze schläft im alten Haus.", "The cat sleeps in the old house."),
    ("Das Haus ist alt und groß.", "The house is old and big."),
    ("Der alte Mann trinkt kaltes Wasser.", "The old man drinks cold water."),
    ("Wir sehen ein großes Schiff auf dem Wasser.", "We see a big ship on the water."),
]


def marian(vocabulary: int = VOCABULARY) -> PreTrainedModel:
    """OPUS-MT's shape: one vocabulary, padding starts the decoder and is never produced."""
    pad = vocabulary - 1
    special = MARIAN_TOKENS | {"pad_token_id": pad, "decoder_start_token_id": pad}
    config = MarianConfig(vocab_size=vocabulary, activation_function="swish", **special, **SHAPE)
    return _trained(MarianMTModel(config), bad_words_ids=[[pad]])


def marian_separate() -> PreTrainedModel:
    """Marian with a vocabulary for each side."""
    special = MARIAN_TOKENS | {"pad_token_id": 1, "decoder_start_token_id": 1}
    sides: dict[str, Any] = {"decoder_vocab_size": VOCABULARY - 10, "share_encoder_decoder_embeddings": False}
    config = MarianConfig(vocab_size=VOCABULARY, activation_function="relu", **sides, **special, **SHAPE)
    return _trained(MarianMTModel(config), bad_words_ids=[[1]])


def fsmt() -> PreTrainedModel:
    """The shape of facebook/wmt19-de-en."""
    config = FSMTConfig(src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY - 10, langs=["de", "en"], **SHAPE)
    model = FSMTForConditionalGeneration(config)
    for stack in (model.model.encoder, model.model.decoder):
        stack.embed_positions.requires_grad_(False)  # sinusoids, as the published models have them
    return _trained(model, max_length=None)


def m2m100() -> PreTrainedModel:
    """M2M100 without a language chosen."""
    return _trained(M2M100ForConditionalGeneration(M2M100Config(vocab_size=VOCABULARY, **SHAPE)))


def nllb() -> PreTrainedModel:
    """NLLB, which is M2M100 to the network, with the target language in its configuration."""
    model = M2M100ForConditionalGeneration(M2M100Config(vocab_size=VOCABULARY + 4, **SHAPE))
    return _trained(model, forced_bos_token_id=VOCABULARY + 1)


def mbart() -> PreTrainedModel:
    """mBART-50 with the target language in its configuration."""
    config = MBartConfig(vocab_size=VOCABULARY, decoder_start_token_id=2, **SHAPE)
    return _trained(MBartForConditionalGeneration(config), forced_bos_token_id=VOCABULARY - 5)


def bart() -> PreTrainedModel:
    """BART, whose outputs begin with <s>."""
    config = BartConfig(vocab_size=VOCABULARY, **SHAPE | {"scale_embedding": False})
    return _trained(BartForConditionalGeneration(config), forced_bos_token_id=0)


def _saved(build: Callable[[], PreTrainedModel], folder: Path) -> PreTrainedModel:
    model = build()
    save(model, folder)
    return model


FAMILIES = {
    "marian": marian,
    "marian-separate": marian_separate,
    "fsmt": fsmt,
    "m2m100": m2m100,
    "nllb": nllb,
    "mbart": mbart,
    "bart": bart,
}

TINY: dict[str, Callable[[Path], PreTrainedModel]] = {
    name: partial(_saved, cache(build)) for name, build in FAMILIES.items()
}
"""Saves the model of a family to a folder and returns it, trained once in a process: do not change it."""


def save(model: PreTrainedModel, folder: Path, safetensors: bool = True) -> None:
    """Write a model as transformers does, or as it did before safetensors."""
    model.save_pretrained(folder)
    if not safetensors:
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")


def tiny_marian_with_tokenizer(folder: Path) -> PreTrainedModel:
    """A Marian model that turns text into text, its tokenizer trained on SENTENCES."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = ["</s>", "<unk>"]
    for side, name in enumerate(("source", "target")):
        splitter = _train_pieces([pair[side] for pair in SENTENCES])
        (folder / f"{name}.spm").write_bytes(splitter.serialized_model_proto())
        pieces += [piece for i in range(len(splitter)) if (piece := splitter.id_to_piece(i)) not in pieces]
    pieces += [">>eng<<", ">>fra<<", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
    return _saved(lambda: marian(len(pieces)), folder)


def _train_pieces(sentences: list[str]) -> SentencePieceProcessor:
    """A sentencepiece model of a few sentences."""
    written = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=written,
        vocab_size=VOCABULARY,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return SentencePieceProcessor(model_proto=written.getvalue())


def _trained(model: PreTrainedModel, **generation: Any) -> PreTrainedModel:
    """The model with weights of its own, ready to compare with."""
    for name, value in generation.items():
        setattr(model.generation_config, name, value)
    generator = torch.Generator().manual_seed(0)
    _randomise(model, generator)
    _train_to_reverse(model, generator)
    model.train(False)
    return model


@torch.no_grad()
def _randomise(model: PreTrainedModel, generator: torch.Generator) -> None:
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1:
            parameter.add_(0.1 * noise)
        elif parameter.requires_grad:  # computed positions do not
            parameter.copy_(0.15 * noise)
    for name, buffer in model.named_buffers():
        if name == "final_logits_bias":
            buffer.copy_(0.3 * torch.randn(buffer.shape, generator=generator))


def _train_to_reverse(model: PreTrainedModel, generator: torch.Generator) -> None:
    """Some steps towards the source reversed, behind the token that every output begins with."""
    options = model.generation_config
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3, betas=(0.9, 0.98))
    for _ in range(250):
        length = int(torch.randint(3, 9, (1,), generator=generator))
        words = torch.randint(5, WORDS, (16, length), generator=generator)
        end = torch.full((16, 1), options.eos_token_id)
        start = torch.full((16, 1), options.decoder_start_token_id)
        forced = torch.full((16, 0 if options.forced_bos_token_id is None else 1), options.forced_bos_token_id or 0)
        labels = torch.cat([forced, words.flip(1), end], 1)
        # With a cache, FSMT's decoder would not mask the future.
        logits = model(
            torch.cat([words, end], 1), decoder_input_ids=torch.cat([start, labels[:, :-1]], 1), use_cache=False
        ).logits
        optimizer.zero_grad()
        torch.autograd.backward(torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()))
        optimizer.step()
