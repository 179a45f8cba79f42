"""Which arithmetic may make keys and queries: what it does to decoder states, to their neighbours and to speed.

Keys are teacher-forced states of a training set, queries those of a validation set; both are stored in fp16, as a
datastore would store them, and searched exactly.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from corpora import Tokens, open_model, read_tokens
from forcing import Forced, deviations, force
from neighbours import Neighbours, search_exactly, shares_of_exact
from report import RESULTS, Origin, origin, progress, table, write
from torch import Tensor
from variants import Speed, build_variants, measure_speeds

from knnmt.model.network import Network

K = 8
MOVED = 1e-3


@dataclass(frozen=True, slots=True)
class Variant:
    """The figures of one arithmetic; shares are of queries or of their neighbours, between 0 and 1."""

    name: str
    deviation: float
    """Mean of ‖h − h_fp32‖ / ‖h_fp32‖."""
    batch_deviation: float
    """The same between a state computed in a batch and computed alone."""
    batch_moved: float
    """Share of states that computing them alone moves by more than 0.1 %."""
    kept_own_keys: float
    """Neighbours that are as near in fp32 as the fp32 ones, when this arithmetic makes keys and queries."""
    kept_fp32_keys: float
    """The same when it makes queries alone."""
    same_ids_own_keys: float
    """Neighbours that are the fp32 ones themselves; lower, as equal sentences have equal keys."""
    same_ids_fp32_keys: float
    same_nearest_value: float
    """Queries whose nearest key has the token that the nearest key has in fp32."""
    gold_found: float
    """Queries whose gold token is among the values of the K neighbours."""
    speed: Speed


@dataclass(frozen=True, slots=True)
class Results:
    origin: Origin
    keys: int
    queries: int
    k: int
    variants: list[Variant]


def share(which: Tensor) -> float:
    return float(which.float().mean())


@dataclass(frozen=True, slots=True)
class Study:
    """What every variant is compared with: the data, and the states and neighbours that fp32 makes of them."""

    train: list[Tokens]
    valid: list[Tokens]
    keys: Forced
    queries: Forced
    neighbours: Neighbours

    def measure(self, name: str, network: Network, speed: Speed) -> Variant:
        """Return the figures of one network."""
        queries = force(network, self.valid)
        keys = force(network, self.train)
        own = search_exactly(queries.states, keys.states, K)
        mixed = search_exactly(queries.states, self.keys.states, K)
        kept_own, same_own = shares_of_exact(own, self.neighbours, self.queries.states, self.keys.states)
        kept_mixed, same_mixed = shares_of_exact(mixed, self.neighbours, self.queries.states, self.keys.states)
        values = keys.values[own.ids]
        alone = force(network, self.valid, 1).states
        moved = deviations(alone, queries.states)
        return Variant(
            name,
            deviation=float(deviations(queries.states, self.queries.states).mean()),
            batch_deviation=float(moved.mean()),
            batch_moved=share(moved > MOVED),
            kept_own_keys=kept_own,
            kept_fp32_keys=kept_mixed,
            same_ids_own_keys=same_own,
            same_ids_fp32_keys=same_mixed,
            same_nearest_value=share(values[:, 0] == self.keys.values[self.neighbours.ids[:, 0]]),
            gold_found=share((values == queries.values[:, None]).any(1)),
            speed=speed,
        )


def by_length(pairs: Iterable[Tokens]) -> list[Tokens]:
    return sorted(pairs, key=lambda pair: (-len(pair.target), -len(pair.source)))


def show(results: Results) -> str:
    """Return the figures as a Markdown table."""
    head = ["arithmetic", "off fp32", "alone vs batch", "moved", "kept, own keys", "kept, fp32 keys", "same ids"]
    head += ["same nearest value", "gold found", "forced/s", "decoded/s"]
    rows = [
        [
            variant.name,
            *(f"{100 * each:.2f} %" for each in (variant.deviation, variant.batch_deviation, variant.batch_moved)),
            *(f"{100 * each:.1f} %" for each in (variant.kept_own_keys, variant.kept_fp32_keys)),
            *(f"{100 * each:.1f} %" for each in (variant.same_ids_own_keys, variant.same_nearest_value)),
            f"{100 * variant.gold_found:.1f} %",
            *(f"{speed:,.0f}" for speed in (variant.speed.forced, variant.speed.decoded)),
        ]
        for variant in results.variants
    ]
    title = f"{results.keys:,} keys, {results.queries:,} queries, k = {results.k}"
    return f"{title}\n\n{table(head, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--train", type=Path, required=True, help="TSV file that keys are made of")
    parser.add_argument("--valid", type=Path, required=True, help="TSV file that queries are made of")
    parser.add_argument("--keys", type=int, default=100_000, help="target tokens of the keys [%(default)s]")
    parser.add_argument("--queries", type=int, default=4_000, help="target tokens of the queries [%(default)s]")
    parser.add_argument("--output", type=Path, default=RESULTS / "states.json", help="JSON file [%(default)s]")
    options = parser.parse_args()
    model = open_model(options.model)
    train = by_length(read_tokens(options.train, options.keys, model.tokenizer))
    valid = by_length(read_tokens(options.valid, options.queries, model.tokenizer))
    networks = build_variants(model)
    keys, queries = (force(networks["fp32"], pairs) for pairs in (train, valid))
    study = Study(train, valid, keys, queries, search_exactly(queries.states, keys.states, K))
    speeds = measure_speeds(networks, valid)
    variants = []
    for name, network in networks.items():
        progress(name)
        variants.append(study.measure(name, network, speeds[name]))
    results = Results(origin(), len(keys.values), len(queries.values), K, variants)
    write(results, options.output)
    print(show(results))


if __name__ == "__main__":
    main()
