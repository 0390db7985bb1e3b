"""What segment extraction costs as documents grow: ours, greedy and optimal, and dsRAG's published algorithm.

All times are milliseconds of processor time of this process. The systems take turns in each round, so that all meet
the machine in the same states; ratios are of times of the same round.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from math import fsum
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from catena.model import ParameterError
from catena_bench.segment_speed_inputs import Retrieved, dense, sparse
from catena_bench.segment_speed_rounds import Measure, Rounds, agreement, dense_rounds, dsrag_rounds, sparse_rounds

SIZES = (1_000, 5_000, 20_000, 100_000, 1_000_000)
LARGEST_OF_PEER = 100_000  # chunks
LARGEST_FROM_RANKINGS = 20_000  # chunks, where all are ranked: dsRAG then goes through all once for each document
REPEATS = 5

_PEERS = ("dsrag.meta_document", "dsrag.values", "dsrag.selection")
_STAGES: dict[str, dict[str, tuple[str, ...]]] = {  # whose times together are those of a system
    "dense": {
        "greedy": ("catena.values", "catena.greedy"),
        "optimal": ("catena.values", "catena.optimal"),
        "dsrag": _PEERS[1:],
    },
    "dense_from_rankings": {
        "greedy": ("catena.model.layout", "catena.greedy"),
        "optimal": ("catena.model.layout", "catena.optimal"),
        "dsrag": _PEERS,
    },
    "sparse": {"greedy": ("catena.extract_greedy",), "optimal": ("catena.extract_optimal",), "dsrag": _PEERS},
}
SYSTEMS = ("greedy", "optimal", "dsrag")

Figures: TypeAlias = dict[str, float]


def run(
    data: Path | None = None,
    *,
    chunks: int = SIZES[-1],
    repeats: int = REPEATS,
    seed: int = 0,
    tell: Callable[[str], None] = lambda message: None,
) -> Figures:
    """Measure segment extraction for six queries, under the limits of the preset `BALANCED`, dsRAG's length rule.

    Three cases:
    - "dense": every chunk has a value to every query (mean -0.02, deviation 0.35), documents of 500 chunks. Chunk
      values, in ours from arrays and in dsRAG's from ranked results, and selection.
    - "dense_from_rankings": the same input, and all of it: from ranked results to segments, in both.
    - "sparse": 200 chunks found by each query, documents of 1,000 chunks; all of it, in ours with the fetching of
      neighbours from memory and the making of segments, neither of which dsRAG's does.

    Args:
        data: not read; the inputs are made here.
        chunks: the largest number of chunks; of 1,000, 5,000, 20,000, 100,000 and 1,000,000 those up to it. dsRAG's
            ends at 100,000, and the second case at 20,000: dsRAG's meta-document costs documents x queries x chunks.
        repeats: rounds.
        seed: of the inputs.
        tell: is told how far the run is.

    Returns:
        Over the rounds: `milliseconds.CASE.SYSTEM.N`, medians, with least and most (`.low`, `.high`), of the systems
        "greedy" and "optimal" (ours) and "dsrag"; `speedup.CASE.SYSTEM.N`: dsRAG's time by ours, likewise;
        `stage.INPUT.STAGE.N`: medians of the parts, in milliseconds. `picks.INPUT.N`: of greedy; `gain.INPUT.N`:
        what optimal selection is worth over greedy's, less 1. `peer.installed`: 1 or 0; without dsRAG there are no
        ratios. Of the inputs that dsRAG was given: `segments.compared`, and by how greedy's segments are dsRAG's
        `segments.same`, `segments.tied` (others of equal values) and `segments.different`.

    Raises:
        ParameterError: `chunks` is less than 1,000, or `repeats` less than 1.
    """
    if chunks < SIZES[0]:
        raise ParameterError("chunks", chunks, f"{SIZES[0]:,} or more")
    if repeats < 1:
        raise ParameterError("repeats", repeats, "1 or more")
    peer = _peer(tell)
    figures: Figures = {"peer.installed": float(peer is not None), "repeats": repeats}
    agreements: Counter[str] = Counter()
    inputs = (("dense", dense, dense_rounds), ("sparse", sparse, sparse_rounds))
    for _, make, measure in inputs:  # warms up
        _measured(make(SIZES[0], seed), measure, peer, True, 1)
    for n in (size for size in SIZES if size <= chunks):
        rival = peer if n <= LARGEST_OF_PEER else None
        for name, make, measure in inputs:
            tell(f"{name}, {n:,} chunks")
            given = make(n, seed)
            whole = name == "sparse" or n <= LARGEST_FROM_RANKINGS
            rounds = _measured(given, measure, rival, whole, repeats)
            figures |= _figures(name, n, rounds)
            if rival is not None:
                agreements[agreement(rounds.found["greedy"], rounds.found["dsrag"])] += 1
    if peer is not None:
        figures["segments.compared"] = agreements.total()
        figures |= {f"segments.{kind}": agreements[kind] for kind in ("same", "tied", "different")}
    return figures


def _peer(tell: Callable[[str], None]) -> Any:
    """Return dsRAG's module of segment extraction, or None where it is not installed."""
    try:
        return import_module("dsrag.rse")
    except ImportError as error:
        tell(f"without dsRAG ({error}). Try: nox -s dsrag")
        return None


def _measured(given: Retrieved, measure: Measure, rival: Any, whole: bool, repeats: int) -> Rounds:
    rounds = Rounds()
    work = [measure(given, rounds, whole)]
    if rival is not None:
        work.append(dsrag_rounds(rival, given, rounds, whole))
    gc.collect()
    gc.freeze()  # the inputs are many objects; no system should pay for looking through them again and again
    try:
        for _ in range(repeats):
            for each in work:
                each()
    finally:
        gc.unfreeze()
    return rounds


def _figures(name: str, n: int, rounds: Rounds) -> Figures:
    """Return the figures of one input."""
    figures: Figures = {f"stage.{name}.{stage}.{n}": median(times) for stage, times in rounds.times.items()}
    for case, systems in _STAGES.items():
        totals = {
            system: [fsum(each) for each in zip(*(rounds.times[stage] for stage in stages), strict=True)]
            for system, stages in systems.items()
            if case.startswith(name) and all(stage in rounds.times for stage in stages)
        }
        for system, times in totals.items():
            figures |= _spread(f"milliseconds.{case}.{system}.{n}", times)
            if system != "dsrag" and "dsrag" in totals:
                ratios = [theirs / ours for theirs, ours in zip(totals["dsrag"], times, strict=True)]
                figures |= _spread(f"speedup.{case}.{system}.{n}", ratios)
    worth = {system: fsum(found[3] for found in rounds.found[system]) for system in SYSTEMS[:2]}
    figures[f"picks.{name}.{n}"] = len(rounds.found["greedy"])
    figures[f"gain.{name}.{n}"] = worth["optimal"] / worth["greedy"] - 1
    return figures


def _spread(key: str, values: Sequence[float]) -> Figures:
    return {key: median(values), f"{key}.low": min(values), f"{key}.high": max(values)}
