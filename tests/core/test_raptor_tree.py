"""Trees of summaries: what is found in one, or in several searched as one, by traversal and in all layers at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk, ids

from catena.effects import Services, run
from catena.model import Chunk, ParameterError, Provenance, Ranking, Scale
from catena.retrieval.late_interaction import LateInteractionReranker
from catena.testing.fakes import AngleEmbedder
from catena_bench.baselines import SummaryTree, collapsed, node_cosines, search_trees, traverse
from catena_bench.baselines.tree_search import Collapsed, leaf_of, parent_of

TEXT = "one two. three. four five. six. seven eight. nine."
SPANS = {"a": (0, 8), "b": (9, 15), "c": (16, 26), "d": (27, 31), "e": (32, 44), "f": (45, 50)}


CHUNKS = tuple(
    chunk(name, TEXT[start:end], start=start, document_id="doc", position=position)
    for position, (name, (start, end)) in enumerate(SPANS.items())
)


def tree_of(layers: Sequence[Sequence[Sequence[int]]], chunks: Sequence[Chunk] = CHUNKS) -> SummaryTree:
    """Return the tree whose nodes above the leaves have children at these places of the layer below."""
    built = [[leaf_of(each) for each in chunks]]
    for layer in layers:
        built.append([parent_of([built[-1][place] for place in places], f"about {len(places)}") for places in layer])
    return SummaryTree(
        document_id="doc", nodes=tuple(node for layer in built for node in layer), chunks=tuple(chunks)
    )


ASKED = Services(embedder=AngleEmbedder())


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
def test_traversal_takes_the_best_of_each_layer_among_the_children_of_those_above(k, expected):
    assert found(TREE, SCORES, k) == expected


def test_all_layers_at_once_return_made_text_beside_chunks_and_never_as_one():
    result = collapsed(TREE, SCORES, k=3)
    assert [(each.node.id, each.node.made, each.rank) for each in result.nodes] == [
        ("a", False, 1), (TREE.layers[1][2], True, 2), (TREE.layers[1][0], True, 3),
    ]  # fmt: skip
    assert [[chunk.id for chunk in each.chunks] for each in result.nodes] == [["a"], ["e", "f"], ["a", "b", "c"]]
    assert [hit.chunk.id for hit in result.ranking.hits] == ["a", "f", "e", "c", "b"]
    assert result.ranking.scale is Scale.RANK
    assert result.ranking.hits[0].provenance == (Provenance(route="tree", rank=1, score=0.9),)
    assert result.ranking.hits[2].provenance == (Provenance(route="tree", rank=2, score=0.8, view="summary"),)


def test_scores_by_vectors_are_cosines_with_the_query():
    vectors = np.array([[1, 0], [0, 1], [0, 0], [-1, 0]], dtype=np.float32)
    scores = run(node_cosines("60 degrees", vectors), ASKED)
    assert scores == pytest.approx((0.5, 0.8660254, 0.0, -0.5), abs=1e-6)
    assert run(node_cosines("60 degrees", vectors[:0]), ASKED) == ()


def test_the_id_of_a_summary_is_derived_from_its_children_and_a_leaf_bears_that_of_its_chunk():
    leaves = [leaf_of(each) for each in CHUNKS]
    assert parent_of(leaves[:2], "one text").id == parent_of(leaves[:2], "another").id
    assert len({parent_of(each, "").id for each in (leaves[:2], leaves[1:3], leaves[:3], leaves[1::-1])}) == 4
    assert [leaf.id for leaf in leaves] == list(SPANS)


# Several trees


def of_angles(name: str, leaves: dict[str, float], summary: float) -> tuple[SummaryTree, np.ndarray]:
    """Return one summary over leaves; a text is its angle in degrees, as `AngleEmbedder` reads it."""
    chunks = tuple(
        chunk(each, str(angle), start=10 * place, document_id=name, position=place)
        for place, (each, angle) in enumerate(leaves.items())
    )
    below = [leaf_of(each) for each in chunks]
    nodes = (*below, parent_of(below, str(summary)))
    angles = np.radians([*leaves.values(), summary])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    return SummaryTree(document_id=name, nodes=nodes, chunks=chunks), vectors


TREES = [of_angles("one", {"a": 80.0, "b": 30.0}, 2.0), of_angles("two", {"c": 10.0, "d": 60.0}, 50.0)]


def in_all(k: int, way: str = "collapsed") -> Ranking:
    return run(search_trees("0", TREES, k=k, way=way), ASKED)


def test_the_best_nodes_of_all_trees_bring_their_leaves():
    ranking = in_all(4)  # the summary of "one" at 2 degrees, then c at 10, b at 30, the summary of "two" at 50
    assert ids(ranking) == "bacd"
    ways = [(hit.provenance[0].rank, hit.provenance[0].view) for hit in ranking.hits]
    assert ways == [(1, "summary"), (1, "summary"), (2, "raw"), (4, "summary")]
    assert ranking.scale is Scale.RANK
    assert ids(in_all(1)) == "b"


def test_a_walk_down_ranks_the_leaves_of_all_trees_by_their_own_cosines():
    ranking = in_all(3, "traversal")
    assert ids(ranking) == "cbd"
    assert [hit.score for hit in ranking.hits] == pytest.approx(np.cos(np.radians([10, 30, 60])), abs=1e-6)


def test_nothing_is_found_in_no_tree_and_bad_values_are_named():
    assert in_all(0).hits == run(search_trees("0", [], k=3), ASKED).hits == ()
    with pytest.raises(ParameterError, match="way"):
        in_all(1, "sideways")
    with pytest.raises(ParameterError, match="k must be"):
        in_all(-1)


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
def test_traversal_returns_at_most_k_by_the_order_of_scores_and_with_room_every_chunk_by_its_own(case, k):
    tree, scores = case
    best = found(tree, scores, k)
    assert 1 <= len(best) == len(set(best)) <= k
    assert best == found(tree, [score**3 + 7 for score in scores], k)
    own = dict(zip((node.id for node in tree.nodes), scores, strict=True))
    expected = sorted((chunk.id for chunk in tree.chunks), key=lambda each: (-own[each], each))
    assert found(tree, scores, len(tree.nodes)) == expected
    assert {chunk.id for node in tree.root for chunk in tree.chunks_below(node)} == set(expected)


@given(scored(), st.integers(1, 30))
def test_all_layers_at_once_cover_exactly_what_is_under_the_best_nodes(case, k):
    tree, scores = case
    result: Collapsed = collapsed(tree, scores, k=k)
    assert [each.score for each in result.nodes] == sorted(scores, reverse=True)[:k]
    under = {chunk.id for each in result.nodes for chunk in each.chunks}
    assert {hit.chunk.id for hit in result.ranking.hits} == under
    assert all(TEXT[hit.chunk.start : hit.chunk.end] == hit.chunk.text for hit in result.ranking.hits)
    assert all(each.node.made or each.node.text == each.chunks[0].text for each in result.nodes)


# Errors


@pytest.mark.parametrize("scores", [SCORES[:-1], (*SCORES[:-1], float("nan")), (*SCORES[:-1], float("inf"))])
def test_scores_that_are_not_one_finite_number_per_node_are_refused(scores):
    with pytest.raises(ParameterError, match="one finite number for each of 11 nodes"):
        traverse(TREE, scores, k=1)
    with pytest.raises(ParameterError, match="one finite number for each of 11 nodes"):
        collapsed(TREE, scores, k=1)
    with pytest.raises(ParameterError, match="k"):
        collapsed(TREE, SCORES, k=0)


# Late interaction as a reranker


class ByLetter:
    """One axis per letter of "abc": the tokens of a text are its letters."""

    identity = "letters"

    def embed_document_tokens(self, texts):
        return [self.embed_query_tokens(text) for text in texts]

    def embed_query_tokens(self, text):
        return np.eye(3, dtype=np.float32)[["abc".index(letter) for letter in text]].reshape(-1, 3)


def test_late_interaction_scores_each_token_of_the_question_once():
    reranker = LateInteractionReranker(ByLetter())
    assert reranker.score("ab", ["ab", "bbb", "c", ""]) == [2.0, 1.0, 0.0, -2.0]
    assert reranker.score("ab", []) == []
    assert reranker.identity == "late interaction of letters"
