"""A graph after additions, replacements and deletions equals the one built of what is left."""

from __future__ import annotations

from itertools import compress

import numpy as np
import pytest
from graph_cases import DIM, assert_equal, assert_same, graph_options, node, nodes_and_vectors
from hypothesis import given
from hypothesis import strategies as st

from catena.effects import Cancel
from catena.graph import ChunkGraph, GraphOptions, semantic, state, term_index
from catena.graph.term_index import TermIndex, terms_of
from catena.model import CancelledError, ParameterError

terms = st.lists(st.sampled_from("abcdefgh"), max_size=4)


@given(
    st.sampled_from([0, 4_096]),  # terms up to which runs are copied as they are
    st.lists(st.tuples(st.sampled_from(["stays", "goes", "comes"]), terms), max_size=12),
)
def test_an_index_of_terms_after_a_change_is_that_of_what_is_left(few, nodes):
    before = [held for what, held in nodes if what != "comes"]
    after = [(what, held) for what, held in nodes if what != "goes"]
    places = iter(range(len(after)))
    moves = [(what, next(places) if what != "goes" else -1) for what, _ in nodes]
    moved = np.array([place for what, place in moves if what != "comes"], np.int64)
    came = np.array([place for what, place in moves if what == "comes"], np.int64)
    who, new = terms_of(held for what, held in after if what == "comes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(term_index, "_FEW", few)
        changed = TermIndex.of_pairs(*terms_of(before), len(before)).changed(moved, came[who], new, len(after))
    assert_equal(changed, TermIndex.of_pairs(*terms_of(held for _, held in after), len(after)))


@given(st.sampled_from([0, 4_096]), nodes_and_vectors(most=16), graph_options(), st.data())
def test_any_sequence_of_changes_equals_a_graph_built_anew(spare, case, options, data):
    nodes, vectors = case
    everyone = range(len(nodes))
    some = st.lists(st.sampled_from(everyone), unique=True) if nodes else st.just([])
    held = set(data.draw(some, label="at first"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "_SPARE", spare)
        graph = ChunkGraph.build([nodes[i] for i in sorted(held)], vectors[sorted(held)], options)
        for _ in range(3):
            removed = held & set(data.draw(some, label="removed"))
            added = [i for i in data.draw(some, label="added") if i not in held or i in removed]
            graph = graph.updated(
                added=[nodes[i] for i in added], vectors=vectors[added], removed={nodes[i].id for i in removed}
            )
            held = (held - removed) | set(added)
    assert_same(graph, ChunkGraph.build([nodes[i] for i in sorted(held)], vectors[sorted(held)], options))


@pytest.mark.parametrize("block", [7, 2_048])  # rows of a product
def test_a_large_graph_takes_a_document_in_and_lets_it_go(block, monkeypatch):
    monkeypatch.setattr(semantic, "_BLOCK", block)
    rng = np.random.default_rng(2)
    words = [f"w{i}" for i in range(200)]
    some = [rng.choice(words, 17).tolist() for _ in range(400)]
    nodes = [node(i, " ".join(w[5:]), titles=[" ".join(w[:2])], names=w[2:5]) for i, w in enumerate(some)]
    vectors = rng.standard_normal((400, 8))
    whole, part = ChunkGraph.build(nodes, vectors), ChunkGraph.build(nodes[:390], vectors[:390])
    before = part.identity
    assert_same(part.updated(added=nodes[390:], vectors=vectors[390:]), whole)
    assert_same(whole.updated(removed=[each.id for each in nodes[390:]]), part)
    stays = [place not in range(1, 30, 3) for place in range(400)]  # also out of the middle of a document
    both = part.updated(added=nodes[390:], vectors=vectors[390:], removed=[each.id for each in nodes[1:30:3]])
    assert_same(both, ChunkGraph.build(list(compress(nodes, stays)), vectors[stays]))
    assert part.identity == before
    assert len(part) == 390  # what was updated is as it was


def test_of_equally_near_nodes_the_lowest_places_are_kept_in_whichever_order_they_come():
    lists = semantic.NearestNodes.nothing(2, 2)
    rows, half = np.zeros(3, np.int64), np.full(3, 0.5, np.float32)
    lists.offer(rows, np.array([7, 3, 5]), half)
    assert lists.places.tolist() == [[3, 5], [-1, -1]]
    lists.offer(rows[:2], np.array([9, 1]), half[:2])
    assert lists.places[0].tolist() == [1, 3]
    middle, *mirrored = (node(number) for number in range(5))  # four nodes as near to the first, no two vectors equal
    vectors = np.array([[0, 0, 1], [1, 0, 1], [-1, 0, 1], [0, 1, 1], [0, -1, 1]], np.float32)
    options = GraphOptions(neighbours=2, kinds=())
    whole = ChunkGraph.build([middle, *mirrored], vectors, options)
    for first in range(1, 5):
        later = [place for place in range(1, 5) if place != first]
        graph = ChunkGraph.build([middle, mirrored[first - 1]], vectors[[0, first]], options)
        for place in reversed(later):
            graph = graph.updated(added=[mirrored[place - 1]], vectors=vectors[[place]])
        assert_same(graph, whole)


def test_a_title_that_goes_and_comes_back_joins_texts_that_came_meanwhile():
    titled, text = node(0, "x", titles=["Alpha beta"]), node(4, "say alpha beta")
    graph = ChunkGraph.build([titled], np.eye(1, DIM)).updated(removed=[titled.id])
    graph = graph.updated(added=[text], vectors=np.eye(1, DIM)).updated(added=[titled], vectors=np.eye(1, DIM))
    assert graph.edge(text.id, titled.id).words["mention"] == ("Alpha beta",)


def test_changes_that_cannot_be_made_are_named_and_an_update_can_be_stopped():
    graph, cancel = ChunkGraph.build([node(0), node(1)], np.eye(2, DIM)), Cancel()
    wide, twice = np.ones((1, DIM + 1)), [node(5), node(5)]
    for change, message in (
        ({"removed": ["nobody"]}, "chunk id must be of a node of the graph, got 'nobody'"),
        ({"added": [node(0)], "vectors": np.ones((1, DIM))}, "added must be of new chunks, or also in `removed`"),
        ({"added": twice, "vectors": np.ones((2, DIM))}, "nodes must be of distinct chunks"),
        ({"added": [node(5)], "vectors": wide}, r"vectors must be of shape \(1, 3\), as the graph's"),
        ({"added": [node(5)]}, r"vectors must be of shape \(1, dim\)"),
    ):
        with pytest.raises(ParameterError, match=message):
            graph.updated(**change)
    cancel.set()
    with pytest.raises(CancelledError):
        graph.updated(removed=[node(0).id], cancel=cancel)
