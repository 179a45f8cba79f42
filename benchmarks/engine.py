"""Speed, memory, start-up and agreement of the decoding engines, measured in turns on one machine."""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from corpora import Corpus, open_model, read_corpus
from engine_report import Cost, Results, Speed, read, show
from peers import ENGINES, REFERENCE, folder_for
from report import RESULTS, origin, progress, write
from startup import measure_startup
from stepwise import Profile, profile
from turns import Setting, run_turns, settings_of, speeds_of
from workers import Task, Worker

DEFAULT_ENGINES = [name for name in ENGINES if not name.endswith("bf16")]
STARTUPS = 10


def measure_engines(
    settings: list[Setting], threads: int, scratch: Path, options: argparse.Namespace
) -> tuple[list[Speed], list[Cost]]:
    """Return what all engines do with so many threads, and what they cost."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    workers = [Worker(name, folder_for(name, options.model, scratch), cores) for name in options.engines]
    for worker in workers:
        worker.translate(Task(settings[0].task.sources[:16], settings[0].beam, 16))  # warms up
    speeds: list[Speed] = []
    peaks: dict[str, float] = {}
    for setting in settings:
        progress(f"threads {threads}, {setting.corpus.name}, beam {setting.beam}, batch {setting.batch}")
        answers = run_turns(workers, setting, options)
        speeds += speeds_of(setting, threads, answers)
        peaks = {engine: turns[-1].peak_mib for engine, turns in answers.items()}
    costs = []
    for worker in workers:
        imported = worker.loaded.imported_mib
        costs.append(Cost(worker.engine, threads, worker.loaded.seconds, imported, peaks[worker.engine] - imported))
        worker.close()
    return speeds, costs


def measure_profiles(corpora: Sequence[Corpus], options: argparse.Namespace) -> list[Profile]:
    """Return where our engine's time goes, on one core."""
    os.environ["OMP_NUM_THREADS"] = "1"
    core = min(os.sched_getaffinity(0))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return [
            each
            for corpus in corpora
            for each in pool.submit(
                profile, options.model, corpus.name, corpus.sources, options.profile_beam, options.batches, [core]
            ).result()
        ]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of the checkpoint")
    parser.add_argument("--data", type=Path, nargs="+", help="TSV files")
    parser.add_argument(
        "--parts", nargs="+", choices=["speed", "startup", "profile"], default=["speed", "startup", "profile"]
    )
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=DEFAULT_ENGINES)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--beams", type=int, nargs="+", default=[4, 1])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--profile-beam", type=int, default=4, help="2 or more")
    parser.add_argument("--sentences", type=int, default=200, help="first sentences of each file")
    parser.add_argument("--singles", type=int, default=64, help="sentences at batch 1")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--reference-repetitions", type=int, default=1, help=f"of {REFERENCE}, which is slow")
    parser.add_argument("--output", type=Path, default=RESULTS / "engine.json", help="JSON file")
    parser.add_argument("--table", type=Path, metavar="JSON", help="only print the tables of this file")
    options = parser.parse_args()
    if options.table is None and not (options.model and options.data):
        parser.error("no --model or no --data. Expected both, or --table with the JSON file of a finished run.")
    cores = len(os.sched_getaffinity(0))
    if options.table is None and max(options.threads) > cores:
        parser.error(f"--threads {max(options.threads)}, but this process may use {cores} cores. Ask for fewer.")
    return options


def main() -> None:
    options = parse_options()
    if options.table is not None:
        print(show(read(options.table)))
        return
    random.seed(0)
    tokenizer = open_model(options.model).tokenizer
    corpora = [read_corpus(file, options.sentences, tokenizer) for file in options.data]
    settings = settings_of(corpora, options)
    speeds: list[Speed] = []
    costs: list[Cost] = []
    # Start-up first: workers change the environment of what is started after them.
    startups = measure_startup(options.model, corpora[0].texts[0], STARTUPS) if "startup" in options.parts else []
    profiles = measure_profiles(corpora, options) if "profile" in options.parts else []
    if "speed" in options.parts:
        with TemporaryDirectory(prefix="benchmark-") as scratch:
            for threads in options.threads:
                more_speeds, more_costs = measure_engines(settings, threads, Path(scratch), options)
                speeds += more_speeds
                costs += more_costs
    results = Results(origin(), speeds, costs, startups, profiles)
    write(results, options.output)
    print(show(results))


if __name__ == "__main__":
    main()
