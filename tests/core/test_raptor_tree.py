"""Trees of summaries: what is found in one by traversal and in all layers at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.effects import Services, run
from catena.model import Chunk, ParameterError, Provenance, Scale
from catena.testing.fakes import AngleEmbedder
from catena_bench.baselines import SummaryTree, collapsed, node_cosines, traverse
from catena_bench.baselines.tree_search import Collapsed, leaf_of, parent_of

TEXT = "one two. three. four five. six. seven eight. nine."
SPANS = {"a": (0, 8), "b": (9, 15), "c": (16, 26), "d": (27, 31), "e": (32, 44), "f": (45, 50)}


CHUNKS = tuple(
    Chunk(id=name, document_id="doc", position=position, start=start, end=end, text=TEXT[start:end])
    for position, (name, (start, end)) in enumerate(SPANS.items())
)


def tree_of(layers: Sequence[Sequence[Sequence[int]]], chunks: Sequence[Chunk] = CHUNKS) -> SummaryTree:
    """Return the tree whose nodes above the leaves have children at these places of the layer below."""
    built = [[leaf_of(chunk) for chunk in chunks]]
    for layer in layers:
        built.append([parent_of([built[-1][place] for place in places], f"about {len(places)}") for places in layer])
    return SummaryTree(
        document_id="doc", nodes=tuple(node for layer in built for node in layer), chunks=tuple(chunks)
    )


#        x            y
#     p     q         r
#   a b c  c d       e f
TREE = tree_of([[(0, 1, 2), (2, 3), (4, 5)], [(0, 1), (2,)]])
SCORES = (0.9, 0.1, 0.5, 0.6, 0.2, 0.3, 0.7, 0.4, 0.8, 0.35, 0.45)  # a b c d e f, p q r, x y


def found(tree: SummaryTree, scores: Sequence[float], k: int) -> list[str]:
    return [hit.chunk.id for hit in traverse(tree, scores, k=k).hits]


# Goldens, by hand


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (1, ["f"]),  # y above x, then r, then f: the best leaf of all, a, is not under them
        (2, ["a", "c"]),  # x and y; r and p; of a, b, c, e, f the best two
        (3, ["a", "d", "c"]),  # q too; c is under both p and q, and found once
        (6, ["a", "d", "c", "f", "e", "b"]),
    ],
)
def test_traversal_takes_the_best_of_each_layer_among_the_children_of_those_above(
    k: int, expected: list[str]
) -> None:
    assert found(TREE, SCORES, k) == expected


def test_scores_may_come_from_any_retriever_of_the_nodes() -> None:
    shared_words = [float("four" in node.text or "3" in node.text) for node in TREE.nodes]
    assert found(TREE, SCORES, 1) == ["f"]
    assert [hit.chunk.id for hit in traverse(TREE, shared_words, k=3).hits] == ["c", "a", "b"]


def test_all_layers_at_once_return_made_text_beside_chunks_and_never_as_one() -> None:
    result = collapsed(TREE, SCORES, k=3)
    assert [(each.node.id, each.node.made, each.rank) for each in result.nodes] == [
        ("a", False, 1), (TREE.layers[1][2], True, 2), (TREE.layers[1][0], True, 3),
    ]  # fmt: skip
    assert [[chunk.id for chunk in each.chunks] for each in result.nodes] == [["a"], ["e", "f"], ["a", "b", "c"]]
    assert [hit.chunk.id for hit in result.ranking.hits] == ["a", "f", "e", "c", "b"]
    assert result.ranking.scale is Scale.RANK
    assert result.ranking.hits[0].provenance == (Provenance(route="tree", rank=1, score=0.9),)
    assert result.ranking.hits[2].provenance == (Provenance(route="tree", rank=2, score=0.8, view="summary"),)


def test_scores_by_vectors_are_cosines_with_the_query() -> None:
    vectors = np.array([[1, 0], [0, 1], [0, 0], [-1, 0]], dtype=np.float32)
    services = Services(embedder=AngleEmbedder())
    scores = run(node_cosines("60 degrees", vectors), services)
    assert scores == pytest.approx((0.5, 0.8660254, 0.0, -0.5), abs=1e-6)
    assert run(node_cosines("60 degrees", vectors[:0]), services) == ()


def test_the_id_of_a_summary_is_derived_from_its_children_and_a_leaf_bears_that_of_its_chunk() -> None:
    leaves = [leaf_of(chunk) for chunk in CHUNKS]
    assert parent_of(leaves[:2], "one text").id == parent_of(leaves[:2], "another").id
    assert len({parent_of(each, "").id for each in (leaves[:2], leaves[1:3], leaves[:3], leaves[1::-1])}) == 4
    assert [leaf.id for leaf in leaves] == list(SPANS)


# Laws


@st.composite
def scored(draw: st.DrawFn) -> tuple[SummaryTree, list[float]]:
    """Draw a tree of up to six leaves, whose nodes may have several parents, and a score for each node."""
    width = draw(st.integers(1, len(CHUNKS)))
    layers, chunks = [], CHUNKS[:width]
    for _ in range(draw(st.integers(0, 3))):
        groups = draw(st.sets(st.frozensets(st.integers(0, width - 1), min_size=1), min_size=1, max_size=4))
        missing = set(range(width)) - set().union(*groups)
        if missing:
            groups.add(frozenset(missing))
        layers.append(sorted(map(sorted, groups)))
        width = len(groups)
    tree = tree_of(layers, chunks)
    size = len(tree.nodes)
    return tree, draw(st.lists(st.integers(-5, 5).map(float), min_size=size, max_size=size))


@given(scored(), st.integers(1, 4))
def test_traversal_returns_at_most_k_by_the_order_of_scores_and_with_room_every_chunk_by_its_own(
    case: tuple[SummaryTree, list[float]], k: int
) -> None:
    tree, scores = case
    ids = found(tree, scores, k)
    assert 1 <= len(ids) == len(set(ids)) <= k
    assert ids == found(tree, [score**3 + 7 for score in scores], k)
    own = dict(zip((node.id for node in tree.nodes), scores, strict=True))
    expected = sorted((chunk.id for chunk in tree.chunks), key=lambda each: (-own[each], each))
    assert found(tree, scores, len(tree.nodes)) == expected
    assert {chunk.id for node in tree.root for chunk in tree.chunks_below(node)} == set(expected)


@given(scored(), st.integers(1, 30))
def test_all_layers_at_once_cover_exactly_what_is_under_the_best_nodes(
    case: tuple[SummaryTree, list[float]], k: int
) -> None:
    tree, scores = case
    result: Collapsed = collapsed(tree, scores, k=k)
    assert [each.score for each in result.nodes] == sorted(scores, reverse=True)[:k]
    under = {chunk.id for each in result.nodes for chunk in each.chunks}
    assert {hit.chunk.id for hit in result.ranking.hits} == under
    assert all(TEXT[hit.chunk.start : hit.chunk.end] == hit.chunk.text for hit in result.ranking.hits)
    assert all(each.node.made or each.node.text == each.chunks[0].text for each in result.nodes)


# Errors


@pytest.mark.parametrize("scores", [SCORES[:-1], (*SCORES[:-1], float("nan")), (*SCORES[:-1], float("inf"))])
def test_scores_that_are_not_one_finite_number_per_node_are_refused(scores: Sequence[float]) -> None:
    with pytest.raises(ParameterError, match="one finite number for each of 11 nodes"):
        traverse(TREE, scores, k=1)
    with pytest.raises(ParameterError, match="one finite number for each of 11 nodes"):
        collapsed(TREE, scores, k=1)
    with pytest.raises(ParameterError, match="k"):
        collapsed(TREE, SCORES, k=0)
