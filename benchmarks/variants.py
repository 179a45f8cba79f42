"""Networks whose parts use different arithmetic, and how fast they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from time import process_time

import torch
from corpora import Model, Tokens
from forcing import force
from report import progress

from knnmt.decode.batching import search_all
from knnmt.model.network import Network
from knnmt.records import COMPUTE_TYPES, Compute, SearchOptions

TURNS = 3
DECODED_TOGETHER = 16


@dataclass(frozen=True, slots=True)
class Speed:
    """Target tokens a second of processor time on one thread, in teacher forcing and in beam search."""

    forced: float
    decoded: float


def build_variants(model: Model) -> dict[str, Network]:
    """Return pure networks, fp32 first, and mixtures of their parts, by name."""
    networks: dict[Compute, Network] = {c: Network(model.spec, model.weights, c) for c in reversed(COMPUTE_TYPES)}

    def mixed(base: Compute, change: Callable[[Network], None]) -> Network:
        network = copy(networks[base])
        change(network)
        return network

    def last_layer(other: Compute) -> Callable[[Network], None]:
        def change(network: Network) -> None:
            network._decoder_layers = [*network._decoder_layers[:-1], networks[other]._decoder_layers[-1]]

        return change

    def last_feed_forward(other: Compute) -> Callable[[Network], None]:
        def change(network: Network) -> None:
            last, source = copy(network._decoder_layers[-1]), networks[other]._decoder_layers[-1]
            last._ffn_in, last._ffn_out = source._ffn_in, source._ffn_out
            network._decoder_layers = [*network._decoder_layers[:-1], last]

        return change

    def int8_encoder(network: Network) -> None:
        network._encoder_layers = networks["int8"]._encoder_layers

    mixtures = {
        "int8, last decoder layer fp32": mixed("int8", last_layer("fp32")),
        "int8, last decoder layer bf16": mixed("int8", last_layer("bf16")),
        "int8, last feed-forward fp32": mixed("int8", last_feed_forward("fp32")),
        "int8, last feed-forward bf16": mixed("int8", last_feed_forward("bf16")),
        "int8 encoder, fp32 decoder": mixed("fp32", int8_encoder),
        "int8 encoder, bf16 decoder": mixed("bf16", int8_encoder),
    }
    return {str(name): network for name, network in networks.items()} | mixtures


def measure_speeds(networks: Mapping[str, Network], pairs: Sequence[Tokens]) -> dict[str, Speed]:
    """Return the speed of each network; they take turns, and the fastest turn counts."""
    torch.set_num_threads(1)
    speeds = dict.fromkeys(networks, Speed(0, 0))
    for turn in range(TURNS):
        progress(f"speed, turn {turn + 1} of {TURNS}")
        for name, network in networks.items():
            before, speed = speeds[name], _measure_speed(network, pairs)
            speeds[name] = Speed(max(before.forced, speed.forced), max(before.decoded, speed.decoded))
    return speeds


def _measure_speed(network: Network, pairs: Sequence[Tokens]) -> Speed:
    sources = [pair.source for pair in pairs]
    limits = [len(source) * 3 // 2 + 20 for source in sources]
    start = process_time()
    forced = len(force(network, pairs).values)
    between = process_time()
    hypotheses = search_all(network, sources, limits, SearchOptions(), batch=DECODED_TOGETHER)
    decoded = sum(len(hypothesis.tokens) for hypothesis in hypotheses)
    return Speed(forced / (between - start), decoded / (process_time() - between))
