"""Measure the cost of segment extraction as documents grow: ours, greedy and optimal, and dsRAG's algorithm.

All times are milliseconds of processor time of this process. The systems take turns in each round, so that all meet
the machine in the same states; ratios are of times of the same round.
"""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from math import fsum
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from catena import Chunk, Hit, ParameterError, Ranking, Scale, Services, segments
from catena import run as run_step
from catena.effects import FetchChunks, FetchText, Handler
from catena_bench.figures import Figures, Tell, silent, timed

QUERIES = 6
RETRIEVED = 200  # chunks that a query finds, in the sparse case
MEAN, DEVIATION = -0.02, 0.35  # of chunk values, in the dense case
_NO_DECAY = 1e12  # in ranks: so large that every chunk keeps its probability


CLOSE = 1e-9  # values that differ by less are equal
T = TypeVar("T")
Found: TypeAlias = list[tuple[str, int, int, float]]  # document, first position, end position, value
Measure: TypeAlias = "Callable[[Retrieved, Rounds, bool], Callable[[], None]]"
"""Makes the input, also as rankings if that is asked for, and returns what measures one round."""
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Retrieved:
    """Chunks that the queries found among n, laid end to end in documents of `size` chunks.

    Attributes:
        ranks: shape (queries, n), from 0; -1 where the query did not find the chunk.
        probabilities: shape (queries, n); 0 where it did not.
        lengths: shape (n,), in characters.
        params: under which dsRAG and we do the same.
    """

    ranks: segments.Ints
    probabilities: segments.Floats
    lengths: segments.Ints
    size: int
    params: segments.ExtractionParams

    @property
    def n(self) -> int:
        """Return the number of chunks."""
        return len(self.lengths)

    @property
    def ends(self) -> segments.Ints:
        """Return where each document ends."""
        return np.append(np.arange(self.size, self.n, self.size, dtype=np.int64), self.n)

    @cached_property
    def _before(self) -> segments.Ints:
        """Return the characters before each chunk, of all documents."""
        return np.concatenate(([0], np.cumsum(self.lengths)))

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {int(length): "x" * int(length) for length in np.unique(self.lengths)}

    def document(self, place: int) -> str:
        """Return the id of the document of the chunk at this place."""
        return f"document-{place // self.size:05d}"

    def chunk(self, place: int) -> Chunk:
        """Return the chunk at a place."""
        number, position = divmod(place, self.size)
        start = int(self._before[place] - self._before[number * self.size])
        text = self._texts[int(self.lengths[place])]
        document = self.document(place)
        return Chunk(
            id=f"{document}-{position:05d}",
            document_id=document,
            position=position,
            start=start,
            end=start + len(text),
            text=text,
        )

    def _ranked(self) -> Iterable[list[tuple[int, float]]]:
        """Return for each query the places that it found with their probabilities, best first."""
        for ranks, probabilities in zip(self.ranks, self.probabilities, strict=True):
            found = np.flatnonzero(ranks >= 0)
            places = found[np.argsort(ranks[found])]
            yield list(zip(places.tolist(), probabilities[places].tolist(), strict=True))

    def rankings(self) -> tuple[Ranking, ...]:
        """Return the input of `catena.segments.extract`."""
        chunks = {place: self.chunk(place) for place in np.flatnonzero((self.ranks >= 0).any(axis=0)).tolist()}
        return tuple(
            Ranking(tuple(Hit(chunks[place], score) for place, score in ranked), Scale.PROBABILITY)
            for ranked in self._ranked()
        )

    def results(self) -> list[list[dict[str, Any]]]:
        """Return the input of `dsrag.rse.get_meta_document`."""
        found = np.flatnonzero((self.ranks >= 0).any(axis=0)).tolist()
        told = {
            place: {
                "doc_id": self.document(place),
                "chunk_index": place % self.size,
                "chunk_text": self._texts[int(self.lengths[place])],
            }
            for place in found
        }
        return [[{"metadata": told[place], "similarity": score} for place, score in each] for each in self._ranked()]

    def meta_document(self) -> tuple[list[int], dict[str, int], list[str]]:
        """Return dsRAG's meta-document of all chunks: where documents end, where each begins, and their ids."""
        ends: list[int] = self.ends.tolist()
        documents = [self.document(end - 1) for end in ends]
        return ends, dict(zip(documents, [0, *ends[:-1]], strict=True)), documents

    def services(self) -> Services:
        """Return a store of all chunks, in memory."""

        def chunks(request: FetchChunks) -> tuple[tuple[Chunk, ...], ...]:
            begins = [int(document.rpartition("-")[2]) * self.size for document, _, _ in request.spans]
            return tuple(
                tuple(self.chunk(begin + position) for position in range(first, end))
                for begin, (_, first, end) in zip(begins, request.spans, strict=True)
            )

        def texts(request: FetchText) -> tuple[str, ...]:
            return tuple("x" * (end - start) for _, start, end in request.spans)

        return Services(
            handlers={
                FetchChunks: Handler(identity="chunks in memory", call=chunks),
                FetchText: Handler(identity="texts in memory", call=texts),
            }
        )


def dense(n: int, seed: int) -> Retrieved:
    """Return n chunks that each query found, in documents of 500, with values of normal distribution.

    As no decay of ranks has that outcome, there is none, and similarities are what the values ask for, some of
    them outside [0, 1].
    """
    size = 500
    documents = -(-n // size)
    params = segments.dsrag_compatible(replace(segments.BALANCED, decay_rate=_NO_DECAY, top_k=5 * max(2, documents)))
    values = np.random.default_rng(seed).normal(MEAN, DEVIATION, (QUERIES, n))
    probabilities = values + params.irrelevance_penalty
    return Retrieved(
        ranks=np.argsort(np.argsort(-probabilities, axis=1), axis=1),
        probabilities=probabilities,
        lengths=np.full(n, params.reference_length, np.int64),
        size=size,
        params=params,
    )


def sparse(n: int, seed: int) -> Retrieved:
    """Return n chunks in documents of 1,000, of which each query found 200, with probabilities from 1 down to 0."""
    draw = np.random.default_rng(seed)
    params = segments.dsrag_compatible(replace(segments.BALANCED, top_k=RETRIEVED))
    ranks = np.full((QUERIES, n), -1, np.int64)
    probabilities = np.zeros((QUERIES, n))
    count = min(RETRIEVED, n)
    for query in range(QUERIES):
        places: NDArray[np.int64] = draw.choice(n, count, replace=False)
        ranks[query, places] = np.arange(count)
        probabilities[query, places] = np.sort(draw.random(count))[::-1]
    return Retrieved(
        ranks=ranks, probabilities=probabilities, lengths=draw.integers(300, 1_100, n), size=1_000, params=params
    )


@dataclass(slots=True)
class Rounds:
    """The milliseconds of each stage, one per round, and what the systems found."""

    times: dict[str, list[float]] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)

    def time(self, stage: str, work: Callable[[], T]) -> T:
        """Do the work, and note how long it took."""
        seconds, result = timed(work)
        self.times.setdefault(stage, []).append(seconds * 1_000)
        return result


def dense_rounds(given: Retrieved, rounds: Rounds, whole: bool) -> Callable[[], None]:
    """Return a function that measures one round of ours: values from arrays, selection, and laying out if `whole`."""
    rankings = given.rankings() if whole else ()
    params = given.params
    limits = segments.SelectionBounds(
        max_chunks=params.max_chunks, budget=params.budget_in_chunks(QUERIES), minimum_value=params.minimum_value
    )

    def valued() -> segments.ChunkSequence:
        values = segments.weighted_values(given.ranks, given.probabilities, given.lengths, params=params).values
        return segments.ChunkSequence(values=values, ends=given.ends)

    def laid() -> segments.ChunkSequence:
        documents = segments.documents_considered(rankings, params.top_k)
        found = segments.hits_by_place(rankings, documents)
        known = {place: hit.hit.chunk for mine in found for place, hit in mine.items()}
        segments.gaps(found, params)  # every chunk was found: none
        return segments.lay_out([known[place] for place in sorted(known)], found, params).sequence

    def once() -> None:
        track = rounds.time("catena.values", valued)
        if whole:
            rounds.time("catena.model.layout", laid)
        for name, select in (("greedy", segments.greedy), ("optimal", segments.optimal)):
            picks = rounds.time(f"catena.{name}", partial(select, track, limits))
            rounds.found[name] = [
                (given.document(pick.start), at := pick.start % given.size, at + pick.end - pick.start, pick.value)
                for pick in picks
            ]

    return once


def sparse_rounds(given: Retrieved, rounds: Rounds, _: bool) -> Callable[[], None]:
    """Return a function that measures one round of ours: the step as users call it."""
    rankings, services = given.rankings(), given.services()
    ways = {"greedy": given.params, "optimal": replace(given.params, selection="optimal", queries=None)}

    def once() -> None:
        for name, params in ways.items():
            step = segments.extract(rankings, params=params)
            extraction = rounds.time(f"catena.extract_{name}", partial(run_step, step, services))
            rounds.found[name] = [
                (hit.segment.document_id, hit.segment.positions[0], hit.segment.positions[1] + 1, hit.value)
                for hit in extraction.segments
                if hit.segment.positions is not None
            ]

    return once


def dsrag_rounds(rse: Any, given: Retrieved, rounds: Rounds, whole: bool) -> Callable[[], None]:
    """Return a function that measures one round of dsRAG's algorithm, called as dsRAG's own query does.

    Where the whole is not asked for, it is given the meta-document.
    """
    results, params = given.results(), given.params

    def once() -> None:
        splits, starts, documents = given.meta_document()
        if whole:
            splits, starts, documents = rounds.time(
                "dsrag.meta_document", lambda: rse.get_meta_document(results, params.top_k)
            )
        values = rounds.time(
            "dsrag.values",
            lambda: rse.get_relevance_values(
                all_ranked_results=results,
                meta_document_length=splits[-1],
                document_start_points=starts,
                unique_document_ids=documents,
                irrelevant_chunk_penalty=params.irrelevance_penalty,
                decay_rate=params.decay_rate,
                chunk_length_adjustment=True,
            ),
        )
        spans, scores = rounds.time(
            "dsrag.selection",
            lambda: rse.get_best_segments(
                all_relevance_values=values,
                document_splits=splits,
                max_length=params.max_chunks,
                overall_max_length=params.budget_in_chunks(QUERIES),
                minimum_value=params.minimum_value,
            ),
        )
        found: Found = []
        for (start, end), score in zip(spans, scores, strict=True):
            owner = documents[bisect_right(splits, start)]
            found.append((owner, start - starts[owner], end - starts[owner], float(score)))
        rounds.found["dsrag"] = found

    return once


def agreement(ours: Found, theirs: Found) -> str:
    """Return "same" for the same segments in the same order, "tied" where only their values are, else "different"."""
    values = [[found[3] for found in each] for each in (ours, theirs)]
    close = len(ours) == len(theirs) and all(abs(a - b) <= CLOSE for a, b in zip(*values, strict=True))
    if not close:
        return "different"
    return "same" if [found[:3] for found in ours] == [found[:3] for found in theirs] else "tied"


def run(
    data: Path | None = None, *, chunks: int = SIZES[-1], repeats: int = REPEATS, seed: int = 0, tell: Tell = silent
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


def _peer(tell: Tell) -> Any:
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
