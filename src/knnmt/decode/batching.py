"""Many sentences: which of them are searched together, and when their hypotheses come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knnmt.decode.search import Hypothesis, search
from knnmt.decode.step import Hook
from knnmt.model.network import Network
from knnmt.records import SearchOptions

_TOKENS_OF_ROWS = 16_384
"""Most padded source tokens × beams of a batch, so that memory stays flat when sentences are very long."""


def search_all(
    network: Network,
    sources: Sequence[Sequence[int]],
    limits: Sequence[int],
    options: SearchOptions,
    *,
    batch: int,
    hook: Hook | None = None,
) -> Iterator[Hypothesis]:
    """Yield the best hypothesis of each source in order, each as soon as those before it are known."""
    found: dict[int, Hypothesis] = {}
    awaited = 0
    for together in batches([len(source) for source in sources], batch, options.beam):
        chosen = [sources[i] for i in together], [limits[i] for i in together]
        found.update(zip(together, search(network, *chosen, options, hook=hook), strict=True))
        while awaited in found:
            yield found.pop(awaited)
            awaited += 1


def batches(lengths: Sequence[int], batch: int, beam: int) -> list[list[int]]:
    """Return the indices of what is searched together: at most `batch` sentences, alike in length, longest first.

    The batch with the earliest sentence comes first: whoever reads along waits least, and no batch is fuller for it.
    """
    groups: list[list[int]] = []
    room = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if not room:
            room = max(1, min(batch, _TOKENS_OF_ROWS // (lengths[i] * beam)))
            groups.append([])
        groups[-1].append(i)
        room -= 1
    return sorted(groups, key=min)
