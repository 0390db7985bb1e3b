"""The methods of `catena-bench graph`: each ranks the whole corpus for every question.

| method | ranking |
|---|---|
| bm25, dense, hybrid | those of `graph_rankings` |
| library_hybrid | the library's own search: a store on disk, its routes, its fusion by score |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.effects import run as run_step
from catena.library import Library
from catena.model import Entry
from catena.pipeline import embed
from catena_bench.graph_data import Split
from catena_bench.graph_embedding import KeptVectors
from catena_bench.graph_rankings import BM25, DENSE, HYBRID, Rankings

LIBRARY = "library_hybrid"
DEPTH = 20  # hits of a ranking: the largest cutoff
_TOGETHER = 200  # documents written in one transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every method is given.

    Attributes:
        vectors: of the chunks, in their order, shape (chunks, dim).
        first: the rankings of `graph_rankings`.
        k: length of the rankings that are judged.
        tell: is told how far a method is.
        times: by method, milliseconds of each question; written by methods that are timed.
    """

    split: Split
    embedder: KeptVectors
    vectors: NDArray[np.float32]
    first: Mapping[str, Rankings]
    k: int = DEPTH
    tell: Callable[[str], None] = lambda message: None
    times: dict[str, list[float]] = field(default_factory=dict)


Method: TypeAlias = Callable[[Setting], Rankings]
"""Returns one ranking per question, of at most `k` chunks."""


def listed(name: str) -> Method:
    """Return the method that answers with one of the first rankings."""
    return lambda setting: tuple(ranking.top(setting.k) for ranking in setting.first[name])


def library_hybrid(setting: Setting) -> Rankings:
    """Put the corpus into a library, and search it as its users do."""
    texts = [question.text for question in setting.split.questions]
    with (
        TemporaryDirectory(prefix="catena-bench-") as folder,
        Library.open(Path(folder) / "library", embedder=setting.embedder) as library,
    ):
        for some in _parts(setting.split.entries()):
            library.store.add([(entry, run_step(embed(entry), library.services)) for entry in some])
        return tuple(library.search(text, k=setting.k, on_route_error="raise", on_unknown="keep") for text in texts)


METHODS: dict[str, Method] = {
    BM25: listed(BM25),
    DENSE: listed(DENSE),
    HYBRID: listed(HYBRID),
    LIBRARY: library_hybrid,
}


def _parts(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    while some := list(islice(entries, _TOGETHER)):
        yield some
