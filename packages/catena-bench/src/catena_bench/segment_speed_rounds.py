"""One round of each system over the same input: ours from arrays or from rankings, and dsRAG's own functions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from time import process_time
from typing import Any, TypeAlias, TypeVar

from catena.effects import run as run_step
from catena.segments import (
    Limits,
    Track,
    documents_considered,
    extract,
    gaps,
    greedy,
    hits_by_place,
    lay_out,
    optimal,
    weighted_values,
)
from catena_bench.segment_speed_inputs import QUERIES, Retrieved

CLOSE = 1e-9  # values that differ by less are equal

T = TypeVar("T")
Found: TypeAlias = list[tuple[str, int, int, float]]  # document, first position, end position, value


@dataclass(slots=True)
class Rounds:
    """The milliseconds of each stage, one per round, and what the systems found."""

    times: dict[str, list[float]] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)

    def time(self, stage: str, work: Callable[[], T]) -> T:
        """Do the work, and note how long it took."""
        start = process_time()
        result = work()
        self.times.setdefault(stage, []).append((process_time() - start) * 1_000)
        return result


Measure: TypeAlias = "Callable[[Retrieved, Rounds, bool], Callable[[], None]]"
"""Makes the input, also as rankings if that is asked for, and returns what measures one round."""


def dense_rounds(given: Retrieved, rounds: Rounds, whole: bool) -> Callable[[], None]:
    """Return what measures one round of ours: values from arrays, selection, and laying out if the whole is asked."""
    rankings = given.rankings() if whole else ()
    params = given.params
    limits = Limits(
        max_chunks=params.max_chunks, budget=params.budget_in_chunks(QUERIES), minimum_value=params.minimum_value
    )

    def valued() -> Track:
        values = weighted_values(given.ranks, given.probabilities, given.lengths, params=params).values
        return Track(values=values, ends=given.ends)

    def laid() -> Track:
        documents = documents_considered(rankings, params.top_k)
        found = hits_by_place(rankings, documents)
        known = {place: hit.hit.chunk for mine in found for place, hit in mine.items()}
        gaps(found, params)  # every chunk was found: none
        return lay_out([known[place] for place in sorted(known)], found, params).track

    def once() -> None:
        track = rounds.time("catena.values", valued)
        if whole:
            rounds.time("catena.model.layout", laid)
        for name, select in (("greedy", greedy), ("optimal", optimal)):
            picks = rounds.time(f"catena.{name}", partial(select, track, limits))
            rounds.found[name] = [_placed(given, pick.start, pick.end, pick.value) for pick in picks]

    return once


def sparse_rounds(given: Retrieved, rounds: Rounds, _: bool) -> Callable[[], None]:
    """Return what measures one round of ours: the step as users call it."""
    rankings, services = given.rankings(), given.services()
    ways = {"greedy": given.params, "optimal": replace(given.params, selection="optimal", queries=None)}

    def once() -> None:
        for name, params in ways.items():
            step = extract(rankings, params=params)
            extraction = rounds.time(f"catena.extract_{name}", partial(run_step, step, services))
            rounds.found[name] = [
                (hit.segment.document_id, hit.segment.positions[0], hit.segment.positions[1] + 1, hit.value)
                for hit in extraction.segments
                if hit.segment.positions is not None
            ]

    return once


def dsrag_rounds(rse: Any, given: Retrieved, rounds: Rounds, whole: bool) -> Callable[[], None]:
    """Return what measures one round of dsRAG's algorithm, called as dsRAG's own query does.

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
        segments, scores = rounds.time(
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
        for (start, end), score in zip(segments, scores, strict=True):
            owner = documents[bisect_right(splits, start)]
            found.append((owner, start - starts[owner], end - starts[owner], float(score)))
        rounds.found["dsrag"] = found

    return once


def _placed(given: Retrieved, start: int, end: int, value: float) -> tuple[str, int, int, float]:
    first = start % given.size
    return given.document(start), first, first + end - start, value


def agreement(ours: Found, theirs: Found) -> str:
    """Return "same" for the same segments in the same order, "tied" where only their values are, else "different"."""
    values = [[found[3] for found in each] for each in (ours, theirs)]
    close = len(ours) == len(theirs) and all(abs(a - b) <= CLOSE for a, b in zip(*values, strict=True))
    if not close:
        return "different"
    return "same" if [found[:3] for found in ours] == [found[:3] for found in theirs] else "tied"
