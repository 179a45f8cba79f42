"""Translates one sentence with the network and nothing around it: the start-up time that the rest is measured by."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from knnmt.decode.search import search
from knnmt.model.checkpoint import open_checkpoint
from knnmt.model.families import load
from knnmt.model.network import Network
from knnmt.model.tokenizer import open_tokenizer
from knnmt.records import SearchOptions


def main() -> None:
    folder, sentence = sys.argv[1:]
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    checkpoint = open_checkpoint(Path(folder))
    spec, weights = load(checkpoint)
    tokenizer = open_tokenizer(checkpoint, spec)
    source = tokenizer.encode(sentence)
    limit = len(source) * 3 // 2 + 20
    (hypothesis,) = search(Network(spec, weights, "int8"), [source], [limit], SearchOptions())
    print(tokenizer.decode(hypothesis.tokens))


if __name__ == "__main__":
    main()
