"""Where walks begin: the paper's greedy cover on an example worked out by hand, and what it asks of a real graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.effects import FindCovering, Services, Step, run
from catena.graph import PAPER, ChunkGraph, Node, WalkOptions, pose, walk
from catena.graph.walking import WalkResult
from catena.model import Chunk, Hit, ParameterError, Ranking, Scale
from catena.testing.fakes import FakeGraph

TEXTS = {
    "a": "alpha beta gamma",
    "b": "alpha beta delta",
    "c": "delta and the epsilon coefficient",
    "d": "delta",
    "e": "epsilon",
    "f": "nothing of it",
}
VECTORS = {"a": (0.6, 0.8), "b": (0.8, 0.6), "c": (0.0, 1.0), "d": (1.0, 0.0), "e": (1.0, 0.0), "f": (1.0, 0.0)}
KEYWORDS = ("alpha", "beta", "gamma", "delta", "epsilon coefficient")


def chunk(chunk_id: str, text: str) -> Chunk:
    return Chunk(id=chunk_id, document_id=f"doc {chunk_id}", position=0, start=0, end=len(text), text=text)


CHUNKS = [chunk(chunk_id, text) for chunk_id, text in TEXTS.items()]
FIRST = Ranking((Hit(CHUNKS[5], 1.0), Hit(CHUNKS[2], 0.5)), Scale.SIMILARITY)


def graph_of(kind: str) -> Any:
    if kind == "drawn":
        return FakeGraph(CHUNKS, VECTORS, {})
    nodes = [Node(chunk=each, titles=(), keywords=(), names=()) for each in CHUNKS]
    return ChunkGraph.build(nodes, np.array([VECTORS[each.id] for each in CHUNKS], np.float32))


def seeds(
    options: WalkOptions, keywords: tuple[str, ...] = KEYWORDS, kind: str = "drawn", **further: Any
) -> list[Any]:
    def steps() -> Step[WalkResult]:
        question = yield from pose("alpha?", np.array([1.0, 0.0], dtype=np.float32), keywords=keywords)
        return (yield from walk(question, FIRST, options, k=10, **further))

    return [
        (chain.hops[0].chunk.id, chain.hops[0].score) for chain in run(steps(), Services(graph=graph_of(kind))).chains
    ]


@pytest.mark.parametrize("kind", ["drawn", "real"])
def test_the_greedy_cover_of_the_paper(kind: str) -> None:
    """a and b cover three keywords, b is nearer; then a covers gamma alone, c only the coefficient: a is nearer."""
    alone = WalkOptions(strategy="paper", max_length=1)
    assert seeds(alone, kind=kind) == [("b", 3.0), ("a", 1.0), ("c", 1.0)]
    assert seeds(alone, ("delta", "epsilon coefficient"), kind=kind) == [("c", 2.0)]
    assert seeds(alone, ("delta",), kind=kind) == [("d", 1.0)]  # the nearest of three
    assert seeds(alone, ("epsilon", "unheard of"), kind=kind) == [("e", 1.0)]  # ends where nothing matches
    assert seeds(alone, ("?!", "Alpha"), kind=kind) == [("b", 1.0)]


def test_without_a_keyword_that_is_covered_the_first_of_the_ranking_is_the_seed() -> None:
    assert seeds(PAPER, ()) == seeds(PAPER, ("unheard of",)) == [("f", 1.0)]


def test_no_more_seeds_than_asked_for() -> None:
    assert seeds(WalkOptions(strategy="paper", max_length=1, most_seeds=2)) == [("b", 3.0), ("a", 1.0)]
    assert seeds(WalkOptions(strategy="paper", max_length=1, max_chunks=1)) == [("b", 3.0)]


def test_both_takes_the_first_and_what_covers_the_rest() -> None:
    both = WalkOptions(strategy="paper", seeds="both", max_length=1)
    assert seeds(both) == [("f", 1.0), ("b", 3.0), ("a", 1.0), ("c", 1.0)]
    two = WalkOptions(strategy="paper", seeds="both", most_seeds=2, max_length=1)
    assert seeds(two, ("epsilon coefficient",)) == [("f", 1.0), ("c", 0.5)]  # c covers it, and is no seed twice
    assert seeds(two) == [("f", 1.0), ("c", 0.5), ("b", 3.0), ("a", 1.0)]  # c was taken as second of the ranking


def test_seeds_obey_the_filter_and_the_budget() -> None:
    alone = WalkOptions(strategy="paper", max_length=1)
    assert seeds(alone, allows=lambda each: each.id != "b") == [("a", 3.0), ("c", 2.0)]
    assert seeds(WalkOptions(strategy="paper", max_length=1, budget_tokens=2)) == [("d", 1.0)]  # no other is so short


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.sampled_from(["one", "two", "three", "four"]), max_size=5), max_size=8),
    st.lists(st.sampled_from(["one", "two", "two three", "four", "!", "none"]), unique=True, max_size=4),
    st.integers(0, 9),
)
def test_a_real_graph_covers_as_the_definition_says(texts: list[list[str]], terms: list[str], k: int) -> None:
    chunks = [chunk(f"n{number}", " ".join(words)) for number, words in enumerate(texts)]
    angles = [float(number % 3) for number in range(len(chunks))]
    rows = np.array([(np.cos(angle), np.sin(angle)) for angle in angles], np.float32).reshape(len(chunks), 2)
    nodes = [Node(chunk=each, titles=(), keywords=(), names=()) for each in chunks]
    graph = ChunkGraph.build(nodes, rows)
    asked = FindCovering(terms=tuple(terms), vector=np.array([1.0, 0.0], np.float32), k=k, words=("one", "four"))
    drawn = FakeGraph(chunks, {each.id: tuple(row) for each, row in zip(chunks, rows.tolist(), strict=True)}, {})
    real, plain = graph.covering(asked), drawn.covering(asked)
    assert real.ids == plain.ids
    assert real.counts.tolist() == plain.counts.tolist()


def test_a_vector_of_another_embedder_is_refused_by_name() -> None:
    graph = ChunkGraph.build([Node(chunk=chunk("n", "one two"))], [[1.0, 0.0]])
    with pytest.raises(ParameterError, match=r"vector of the question must be of shape \(2,\).*got \(3,\)"):
        graph.covering(FindCovering(terms=("one",), vector=np.ones(3, np.float32), k=1, words=()))
