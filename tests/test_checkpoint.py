"""Checkpoints of every family, read from disk, hold what transformers' own models hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch
from tiny import TINY, save
from transformers import PreTrainedModel, T5Config, T5ForConditionalGeneration

from knnmt.errors import ModelError
from knnmt.model.checkpoint import Checkpoint, open_checkpoint
from knnmt.model.families import FAMILIES, load


@pytest.fixture(scope="module", params=TINY)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[PreTrainedModel, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    return TINY[request.param](folder), folder


@pytest.fixture
def marian(tmp_path: Path) -> tuple[PreTrainedModel, Path]:
    return TINY["marian"](tmp_path), tmp_path


def expected_weights(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of the network, taken from the modules that transformers computes with."""
    encoder, decoder = model.model.encoder, model.model.decoder
    yield "source_embedding", encoder.embed_tokens.weight
    yield "target_embedding", decoder.embed_tokens.weight
    yield "output", (decoder.output_projection if model.config.model_type == "fsmt" else model.lm_head).weight
    if hasattr(model, "final_logits_bias"):
        yield "output_bias", model.final_logits_bias[0]
    for stack, module in (("encoder", encoder), ("decoder", decoder)):
        yield f"{stack}.positions", positions(model, module)
        modules = {"embedding_norm": "layernorm_embedding", "final_norm": "layer_norm"}
        for layer in range(len(module.layers)):
            for ours, theirs in (("self", "self_attn"), *((("cross", "encoder_attn"),) * (stack == "decoder"))):
                for part in ("q", "k", "v", "out"):
                    modules[f"{layer}.{ours}.{part}"] = f"layers.{layer}.{theirs}.{part}_proj"
                modules[f"{layer}.{ours}_norm"] = f"layers.{layer}.{theirs}_layer_norm"
            for ours, theirs in (("ffn.in", "fc1"), ("ffn.out", "fc2"), ("ffn_norm", "final_layer_norm")):
                modules[f"{layer}.{ours}"] = f"layers.{layer}.{theirs}"
        known = dict(module.named_modules())
        for ours, theirs in modules.items():
            if theirs in known:
                yield f"{stack}.{ours}.weight", known[theirs].weight
                yield f"{stack}.{ours}.bias", known[theirs].bias


def positions(model: PreTrainedModel, stack: Any) -> torch.Tensor:
    """What the position module adds to a sentence as long as the model allows."""
    words = torch.full((1, model.config.max_position_embeddings), 7)
    takes_shape = model.config.model_type == "marian"
    table: torch.Tensor = stack.embed_positions(words.shape if takes_shape else words)
    return table.expand(1, -1, -1)[0]


def assert_same_weights(model: PreTrainedModel, folder: Path) -> None:
    _, weights = load(open_checkpoint(folder))
    expected = dict(expected_weights(model))
    assert set(weights) == set(expected)
    for name, tensor in expected.items():
        assert torch.equal(weights[name], tensor), name


@pytest.mark.parametrize("safetensors", [True, False])
def test_weights_are_those_of_transformers(
    tiny: tuple[PreTrainedModel, Path], safetensors: bool, tmp_path: Path
) -> None:
    model, _ = tiny
    save(model, tmp_path, safetensors=safetensors)
    assert_same_weights(model, tmp_path)


def test_spec_is_the_configuration_of_transformers(tiny: tuple[PreTrainedModel, Path]) -> None:
    model, folder = tiny
    config, options = model.config, model.generation_config
    spec, _ = load(open_checkpoint(folder))
    assert spec.family == config.model_type
    assert (spec.encoder.layers, spec.encoder.heads, spec.encoder.ffn) == (2, 4, 64)
    assert (spec.decoder.layers, spec.decoder.heads, spec.decoder.ffn) == (2, 2, 48)
    assert spec.encoder.vocabulary == model.get_input_embeddings().num_embeddings
    assert spec.decoder.vocabulary == model.get_output_embeddings().weight.shape[0]
    assert spec.embedding_scale == pytest.approx(config.d_model**0.5 if config.scale_embedding else 1)
    assert spec.activation == {"swish": "silu"}.get(config.activation_function, config.activation_function)
    assert (spec.pad, spec.eos, spec.decoder_start) == (
        options.pad_token_id,
        options.eos_token_id,
        options.decoder_start_token_id,
    )
    assert spec.forced_start == options.forced_bos_token_id
    assert spec.forced_eos == (options.forced_eos_token_id is not None)
    assert spec.suppressed == tuple(word for words in options.bad_words_ids or [] for word in words)


def test_shards_of_safetensors(marian: tuple[PreTrainedModel, Path], tmp_path: Path) -> None:
    model, folder = marian
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    assert_same_weights(model, folder)


def shard_pickle(model: PreTrainedModel, folder: Path) -> list[Path]:
    """Save as two .bin shards with an index."""
    state = model.state_dict()
    places = {name: f"pytorch_model-0000{1 + i % 2}-of-00002.bin" for i, name in enumerate(state)}
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    paths = [folder / place for place in sorted(set(places.values()))]
    for path in paths:
        torch.save({name: tensor for name, tensor in state.items() if places[name] == path.name}, path)
    return paths


def test_shards_of_pickles(marian: tuple[PreTrainedModel, Path]) -> None:
    model, folder = marian
    shard_pickle(model, folder)
    assert_same_weights(model, folder)


def test_pickles_of_old_pytorch(marian: tuple[PreTrainedModel, Path]) -> None:
    model, folder = marian
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    assert_same_weights(model, folder)


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    """Replace the weights of a checkpoint by a changed copy."""
    checkpoint = open_checkpoint(folder)
    state = change({name: checkpoint.tensor(name).clone() for name in checkpoint.names()})
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    "name", ["lm_head", "model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens"]
)
def test_one_table_of_embeddings_under_any_name(marian: tuple[PreTrainedModel, Path], name: str) -> None:
    model, folder = marian
    rewrite(folder, lambda state: {**state, f"{name}.weight": state.pop("model.shared.weight")})
    assert f"{name}.weight" in open_checkpoint(folder).names()
    assert_same_weights(model, folder)


def test_names_without_the_prefix_of_the_base_model(tmp_path: Path) -> None:
    model = TINY["bart"](tmp_path)
    rewrite(tmp_path, lambda state: {name.removeprefix("model."): tensor for name, tensor in state.items()})
    assert_same_weights(model, tmp_path)


def test_positions_are_computed_unless_stored(tmp_path: Path) -> None:
    model, name = TINY["fsmt"](tmp_path), "model.encoder.embed_positions.weight"
    assert name in open_checkpoint(tmp_path).names()
    rewrite(tmp_path, lambda state: {name: state[name] for name in state if "embed_positions" not in name})
    assert_same_weights(model, tmp_path)

    TINY["fsmt"](tmp_path)
    rewrite(tmp_path, lambda state: state | {name: state[name] + 1})
    _, weights = load(open_checkpoint(tmp_path))
    assert torch.equal(weights["encoder.positions"], positions(model, model.model.encoder) + 1)


def test_dtype_is_that_of_the_file(marian: tuple[PreTrainedModel, Path]) -> None:
    _, folder = marian
    rewrite(folder, lambda state: {name: tensor.half() for name, tensor in state.items()})
    _, weights = load(open_checkpoint(folder))
    assert weights["encoder.1.ffn.in.weight"].dtype == torch.float16


def edit(folder: Path, file: str = "config.json", **fields: Any) -> Checkpoint:
    """The checkpoint with some fields of a JSON file changed; `...` removes one."""
    path = folder / file
    content = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not ...}))
    return open_checkpoint(folder)


def test_generation_config_has_the_last_word(marian: tuple[PreTrainedModel, Path]) -> None:
    _, folder = marian
    edit(folder, forced_bos_token_id=3, suppress_tokens=[8])
    fields: dict[str, Any] = {"forced_bos_token_id": 4, "bad_words_ids": [[59], [0], [6]], "forced_eos_token_id": None}
    spec, _ = load(edit(folder, "generation_config.json", **fields))
    assert spec.forced_start == 4
    assert spec.forced_eos  # null says nothing, config.json still counts
    assert spec.suppressed == (6, 8, 59)  # never the end of the sentence (0)


def test_generation_config_is_optional(marian: tuple[PreTrainedModel, Path]) -> None:
    _, folder = marian
    (folder / "generation_config.json").unlink()
    assert open_checkpoint(folder).generation_config == {}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"activation_function": "gelu_new"}, ["activation_function", "gelu_new", "gelu, relu, silu, swish"]),
        ({"normalize_embedding": True}, ["normalize_embedding", "True", "false"]),
        ({"normalize_before": True}, ["normalize_before", "True"]),
        ({"static_position_embeddings": False}, ["static_position_embeddings", "False"]),
        ({"d_model": ...}, ["d_model", "missing", "positive integer"]),
        ({"encoder_layers": "six"}, ["encoder_layers", "'six'", "positive integer"]),
        ({"scale_embedding": 1}, ["scale_embedding", "true or false"]),
        ({"encoder_attention_heads": 5}, ["5 heads", "d_model of 32"]),
        ({"vocab_size": 61}, ["model.shared.weight", "(60, 32)", "(61, 32)"]),
        ({"encoder_ffn_dim": 65}, ["model.encoder.layers.0.fc1.weight", "(64, 32)", "(65, 32)"]),
        ({"decoder_layers": 3}, ["model.decoder.layers.2.self_attn.q_proj.weight", "(32, 32)"]),
        ({"model_type": "t5"}, ["'t5'", "Helsinki-NLP/opus-mt-de-en", *FAMILIES, "to add a family"]),
        ({"model_type": ...}, ["model_type", "config.json"]),
    ],
)
def test_configuration_that_cannot_be_used(
    marian: tuple[PreTrainedModel, Path], fields: dict[str, Any], words: list[str]
) -> None:
    _, folder = marian
    assert_error(lambda: load(edit(folder, **fields)), words)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"eos_token_id": [0, 5]}, ["eos_token_id", "[0, 5]", "one token id"]),
        ({"pad_token_id": 60}, ["pad_token_id", "60 tokens"]),
        ({"forced_bos_token_id": 77}, ["forced_bos_token_id is 77", "60 tokens"]),
        ({"bad_words_ids": [[3, 4]]}, ["bad_words_ids", "[[3, 4]]", "one token each"]),
        ({"suppress_tokens": 9}, ["suppress_tokens", "9", "list"]),
    ],
)
def test_generation_options_that_cannot_be_used(
    marian: tuple[PreTrainedModel, Path], fields: dict[str, Any], words: list[str]
) -> None:
    _, folder = marian
    assert_error(lambda: load(edit(folder, "generation_config.json", **fields)), words)


def test_an_architecture_of_another_kind(tmp_path: Path) -> None:
    shape: dict[str, Any] = {"vocab_size": 20, "d_model": 8, "d_ff": 8, "d_kv": 4, "num_layers": 1, "num_heads": 2}
    T5ForConditionalGeneration(T5Config(**shape)).save_pretrained(tmp_path)
    assert_error(lambda: load(open_checkpoint(tmp_path)), ["'t5'", "facebook/wmt19-de-en", "marian"])


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def short_pickle(model: PreTrainedModel, folder: Path) -> None:
    save(model, folder, safetensors=False)
    truncate(folder / "pytorch_model.bin")


def pickled_list(model: PreTrainedModel, folder: Path) -> None:
    save(model, folder, safetensors=False)
    torch.save([1], folder / "pytorch_model.bin")


def empty_index(_: PreTrainedModel, folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "elsewhere")
    (folder / INDEX).write_text("{}")


INDEX = "model.safetensors.index.json"

DAMAGES: dict[str, tuple[Callable[[PreTrainedModel, Path], object], list[str]]] = {
    "no configuration": (lambda _, folder: (folder / "config.json").unlink(), ["config.json", "save_pretrained"]),
    "half a configuration": (lambda _, folder: (folder / "config.json").write_text('{"a": '), ["config.json", "JSON"]),
    "another object": (lambda _, folder: (folder / "config.json").write_text("[1]"), ["config.json", "list", "object"]),
    "no text": (lambda _, folder: (folder / "config.json").write_bytes(b"\xff"), ["config.json", "JSON"]),
    "no weights": (lambda _, folder: (folder / "model.safetensors").unlink(), ["no weights", "pytorch_model.bin"]),
    "cut short": (lambda _, folder: truncate(folder / "model.safetensors"), ["model.safetensors", "cut short"]),
    "empty": (lambda _, folder: (folder / "model.safetensors").write_bytes(b""), ["model.safetensors", "0 bytes"]),
    "pickle cut short": (short_pickle, ["pytorch_model.bin", "cut short"]),
    "pickle of a list": (pickled_list, ["pytorch_model.bin", "list"]),
    "no shard": (
        lambda model, folder: shard_pickle(model, folder)[1].unlink(),
        ["-00002-of-00002.bin is missing", "index"],
    ),
    "empty shard": (
        lambda model, folder: torch.save({}, shard_pickle(model, folder)[0]),
        ["says that", "-00001-of-00002.bin holds"],
    ),
    "weights for index": (lambda _, folder: (folder / "model.safetensors").rename(folder / INDEX), [INDEX, "JSON"]),
    "empty index": (empty_index, [INDEX, "weight_map"]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_files_that_are_missing_or_damaged(marian: tuple[PreTrainedModel, Path], damage: str) -> None:
    model, folder = marian
    do, words = DAMAGES[damage]
    do(model, folder)
    assert_error(lambda: open_checkpoint(folder), [str(folder), *words])


def test_a_pickle_that_runs_code_is_refused(marian: tuple[PreTrainedModel, Path], tmp_path: Path) -> None:
    class Touch:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "touched",))

    _, folder = marian
    (folder / "model.safetensors").unlink()
    torch.save({"model.shared.weight": Touch()}, folder / "pytorch_model.bin")
    assert_error(lambda: open_checkpoint(folder), ["pytorch_model.bin", "cannot be read as weights"])
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("model", ["./none", "/none/at/all", "~/none", "models/opus/none", "none", "a/", Path("a/b")])
def test_a_path_that_does_not_exist_is_not_looked_up_on_the_hub(model: str | Path) -> None:
    assert_error(lambda: open_checkpoint(model), ["There is no folder", "hub name such as"])


def test_a_file_is_no_checkpoint(marian: tuple[PreTrainedModel, Path]) -> None:
    _, folder = marian
    assert_error(lambda: open_checkpoint(folder / "config.json"), ["is a file", "parent folder"])


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's local cache, empty, with the network switched off."""
    cache = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    return cache


def test_a_hub_name_that_cannot_be_fetched(hub_cache: Path) -> None:
    words = ["'Helsinki-NLP/opus-mt-xx-yy'", "Hugging Face hub", "HF_HUB_OFFLINE", "folder"]
    assert_error(lambda: open_checkpoint("Helsinki-NLP/opus-mt-xx-yy"), words)


@pytest.mark.parametrize("safetensors", [True, False])
def test_a_hub_name_in_the_local_cache(hub_cache: Path, safetensors: bool) -> None:
    repository = hub_cache / "models--tiny--marian"
    snapshot = repository / "snapshots" / ("0" * 40)
    model = TINY["marian"](snapshot)
    save(model, snapshot, safetensors)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    checkpoint = open_checkpoint("tiny/marian")
    assert checkpoint.folder == snapshot
    assert checkpoint.config["model_type"] == "marian"


def assert_error(action: Callable[[], object], words: list[str]) -> None:
    """The action fails with a message that has all the words."""
    with pytest.raises(ModelError) as caught:
        action()
    for word in words:
        assert word in str(caught.value)
