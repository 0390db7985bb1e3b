"""Whatever may be asked of a graph, drawn; and whether two replies are the same to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np
from graph_cases import DIM, WORDS
from hypothesis import strategies as st

from catena.effects import CountWords, DescribeEdges, Expand, FetchById, FetchNodes, FindCovering
from catena.graph import ChunkGraph

Asked: TypeAlias = tuple[str, Any]
"""A method of a graph, and the request that it is given."""


def requests(graph: ChunkGraph, draw: Callable[[Any], Any]) -> list[Asked]:
    """Draw one request for each method; unknown ids and words, repetitions and kinds of edge among them."""
    ids = st.lists(st.sampled_from([*graph.ids, "nowhere"]), max_size=6).map(tuple)
    words = st.lists(st.sampled_from([*WORDS, "電池", "none", "alphabet"]), max_size=4).map(tuple)
    kinds = st.none() | st.lists(st.sampled_from(graph.kinds), max_size=3).map(tuple)
    terms = st.lists(st.lists(st.sampled_from(WORDS), max_size=2).map(" ".join), max_size=4).map(tuple)
    vector = np.array(draw(st.tuples(*[st.sampled_from([-1.0, 0.0, 0.3, 1.0])] * DIM)), np.float32)
    pairs = tuple((one, other) for one in graph.ids for other in (*graph.ids, "nowhere"))
    return [
        ("expand", Expand(chunk_ids=draw(ids), words=draw(words), kinds=draw(kinds))),
        ("nodes", FetchNodes(chunk_ids=draw(ids), words=draw(words))),
        ("count_words", CountWords(words=draw(words))),
        ("chunks_by_id", FetchById(chunk_ids=draw(ids))),
        ("describe_edges", DescribeEdges(pairs=pairs)),
        ("covering", FindCovering(terms=draw(terms), vector=vector, k=draw(st.integers(0, 5)), words=draw(words))),
    ]


def assert_same(one: Any, other: Any) -> None:
    """Assert that two replies are equal in every value, its type, and the shape and type of every array."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()
    elif is_dataclass(one):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for each, twin in zip(one, other, strict=True):
            assert_same(each, twin)
    else:
        assert one == other
