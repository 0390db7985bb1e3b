"""Where walks begin: the paper's greedy cover on an example worked out by hand, and what it asks of a real graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from graph_fakes import FakeGraph
from hypothesis import given, settings
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.effects import FindCovering, Services, Step, run
from catena.graph import ChunkGraph, Node, WalkOptions, pose, walk
from catena.graph.walking import WalkResult
from catena.model import Hit, ParameterError, Ranking, Scale
from catena.text import word_keys

TEXTS = {"a": "alpha beta gamma", "b": "alpha beta delta", "c": "delta and the epsilon coefficient"}
TEXTS |= {"d": "delta", "e": "epsilon", "f": "nothing of it"}
VECTORS = {"a": (0.6, 0.8), "b": (0.8, 0.6), "c": (0.0, 1.0), "d": (1.0, 0.0), "e": (1.0, 0.0), "f": (1.0, 0.0)}
KEYWORDS = ("alpha", "beta", "gamma", "delta", "epsilon coefficient")


CHUNKS = [chunk(chunk_id, text, document_id=f"doc {chunk_id}") for chunk_id, text in TEXTS.items()]
FIRST = Ranking((Hit(CHUNKS[5], 1.0), Hit(CHUNKS[2], 0.5)), Scale.SIMILARITY)


def seeds(options: WalkOptions, keywords: tuple[str, ...] = KEYWORDS, **further: Any) -> list[tuple[str, float]]:
    def steps() -> Step[WalkResult]:
        question = yield from pose("alpha?", np.array([1.0, 0.0], dtype=np.float32), keywords=keywords)
        return (yield from walk(question, FIRST, options, k=10, **further))

    first = [chain.hops[0] for chain in run(steps(), Services(graph=FakeGraph(CHUNKS, VECTORS, {}))).chains]
    return [(hop.chunk.id, hop.score) for hop in first]


def test_the_greedy_cover_of_the_paper() -> None:
    """a and b cover three keywords, b is nearer; then a covers gamma alone, c only the coefficient: a is nearer."""
    alone = WalkOptions(strategy="paper", max_length=1)
    assert seeds(alone) == [("b", 3.0), ("a", 1.0), ("c", 1.0)]
    assert seeds(alone, ("delta", "epsilon coefficient")) == [("c", 2.0)]
    assert seeds(alone, ("delta",)) == [("d", 1.0)]  # the nearest of three
    assert seeds(alone, ("epsilon", "unheard of")) == [("e", 1.0)]  # ends where nothing matches
    assert seeds(alone, ("?!", "Alpha")) == [("b", 1.0)]


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
    nodes = [Node(chunk=each) for each in chunks]
    asked = FindCovering(terms=tuple(terms), vector=np.array([1.0, 0.0], np.float32), k=k, words=("one", "four"))
    found = ChunkGraph.build(nodes, rows).covering(asked)
    keys = {each.id: word_keys(each.text) for each in chunks}
    wanted = [words for term in terms if (words := set(word_keys(term)))]
    covered = {name: sum(words <= set(held) for words in wanted) for name, held in keys.items()}
    near = {each.id: -row[0] for each, row in zip(chunks, rows, strict=True)}
    best = sorted((name for name in keys if covered[name]), key=lambda name: (-covered[name], near[name], name))[:k]
    assert found.ids == tuple(best)
    assert found.counts.tolist() == [[keys[name].count(word) for word in ("one", "four")] for name in best]

    with pytest.raises(ParameterError, match=r"vector of the question must be of shape \(2,\).*got \(3,\)"):
        ChunkGraph.build([Node(chunk=chunk("n"))], [[1.0, 0.0]]).covering(replace(asked, vector=np.ones(3)))


@pytest.mark.parametrize(
    ("options", "given", "found"),
    [
        ({}, {"keywords": ()}, [("f", 1.0)]),  # nothing is covered: the first of the ranking
        ({}, {"keywords": ("unheard of",)}, [("f", 1.0)]),
        ({"most_seeds": 2}, {}, [("b", 3.0), ("a", 1.0)]),
        ({"max_chunks": 1}, {}, [("b", 3.0)]),
        ({"seeds": "both"}, {}, [("f", 1.0), ("b", 3.0), ("a", 1.0), ("c", 1.0)]),
        # c covers it, and is no seed twice
        ({"seeds": "both", "most_seeds": 2}, {"keywords": ("epsilon coefficient",)}, [("f", 1.0), ("c", 0.5)]),
        # c was taken as second of the ranking
        ({"seeds": "both", "most_seeds": 2}, {}, [("f", 1.0), ("c", 0.5), ("b", 3.0), ("a", 1.0)]),
        ({}, {"allows": lambda each: each.id != "b"}, [("a", 3.0), ("c", 2.0)]),
        ({"budget_tokens": 2}, {}, [("d", 1.0)]),  # no other is so short
    ],
)
def test_seeds_keep_to_limits_filter_and_budget(options: Any, given: Any, found: list[tuple[str, float]]) -> None:
    assert seeds(WalkOptions(strategy="paper", max_length=1, **options), **given) == found
