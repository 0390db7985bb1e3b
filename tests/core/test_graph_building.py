"""The edges of a graph against their definitions, whatever the order of nodes and the blocks; what it refuses."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pytest
from graph_cases import expected, graph_options, holds, node, nodes_and_vectors, weights_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from catena.effects import Cancel, CountWords, Expand, FetchById, FetchNodes, Graph
from catena.graph import KEYWORDS, ChunkGraph, GraphOptions, GraphProgress, Node, TermEdges, node_of, semantic
from catena.graph.options import LONGEST, titles_of, words_of
from catena.graph.term_index import NodeWords, numbers_said, title_number, titles_said
from catena.model import CancelledError, CatenaError, Edge, MissingExtraError
from catena.text import word_keys

PHONE, SCREEN, BATTERY = (
    node(0, "The phone has a Lithium battery.", titles=["Phone"], keywords=["phone", "battery", "cell", "usb"]),
    node(1, "Its screen is large.", titles=["Screen"], keywords=["screen", "battery", "cell", "usb"]),
    node(4, "A lithium battery (電池) ages.", titles=["Lithium battery"], keywords=["battery", "screen"]),
)
ROWS = np.array([[1, 0], [0, 2], [0.6, 0.8]], np.float32)
Case: TypeAlias = tuple[list[Node], NDArray[np.float32]]


def built(options: GraphOptions | None = None) -> ChunkGraph:
    return ChunkGraph.build([PHONE, SCREEN, BATTERY], ROWS, options)


def test_edges_are_those_computed_by_hand() -> None:
    graph = built(GraphOptions(neighbours=1, kinds=(KEYWORDS,)))
    phone = graph.edge(PHONE.id, SCREEN.id)
    assert phone == Edge(weights={"keyword": 3.0, "structural": 1.0}, words={"keyword": ("battery", "cell", "usb")})
    assert phone.triple == (1.0, 0.0, 3.0)
    rarity = pytest.approx(np.log(4 / 2) / np.log(4))  # one node says it, another bears it
    assert graph.edge(PHONE.id, BATTERY.id) == Edge(
        weights={"mention": rarity, "semantic": pytest.approx(0.6)}, words={"mention": ("Lithium battery",)}
    )
    assert graph.edge(BATTERY.id, PHONE.id).words == {"mentioned": ("Lithium battery",)}
    assert graph.edge(SCREEN.id, BATTERY.id) == Edge(weights={"semantic": pytest.approx(0.8)})
    assert graph.edge(PHONE.id, PHONE.id) is None
    assert isinstance(graph, Graph)
    sent = pickle.loads(pickle.dumps(graph))
    assert (sent.ids, sent.identity, sent.edge(PHONE.id, SCREEN.id)) == (graph.ids, graph.identity, phone)


@settings(max_examples=40)
@given(nodes_and_vectors(), graph_options(), st.randoms())
def test_all_edges_are_those_of_the_definitions(case: Case, options: GraphOptions, random: st.random.Random) -> None:
    order = random.sample(range(len(case[0])), len(case[0]))  # no order of the nodes changes a graph
    graph = ChunkGraph.build([case[0][place] for place in order], case[1][order], options)
    assert graph.identity == ChunkGraph.build(*case, options).identity
    wanted = expected(*case, options)
    assert graph.kinds == tuple(sorted(wanted))
    for kind, weights in wanted.items():
        assert weights_of(graph, kind) == pytest.approx(weights, abs=2e-6)
    pairs = {pair for weights in wanted.values() for pair in weights}
    assert graph.degrees().tolist() == [sum(one == each for each, _ in pairs) for one in graph.ids]
    for one, other in pairs:
        edge = graph.edge(one, other)
        assert list(edge.weights) == [kind for kind in graph.kinds if (one, other) in wanted[kind]]
        assert set(edge.words) == set(edge.weights) - {"structural", "semantic"}


@settings(max_examples=40)
@given(nodes_and_vectors(), graph_options(), st.randoms())
def test_expanding_nodes_finds_the_same_edges(case: Case, options: GraphOptions, random: st.random.Random) -> None:
    graph = ChunkGraph.build(*case, options)
    asked = random.sample(graph.ids, len(graph.ids) // 2)
    found = graph.expand(Expand(chunk_ids=(*asked, "nobody", *asked)))
    assert found.sources == tuple(asked)
    assert found.nodes.ids == tuple(sorted(set(found.nodes.ids)))
    ends = list(zip(found.source.tolist(), found.target.tolist(), strict=True))
    assert ends == sorted(set(ends))
    assert found.kinds == graph.kinds
    for column, kind in zip(found.weights.T, graph.kinds, strict=True):
        pairs = [(asked[s], found.nodes.ids[t]) for s, t in ends]
        weights = {pair: w for pair, w in zip(pairs, column.tolist(), strict=True) if w}
        assert weights == {pair: w for pair, w in weights_of(graph, kind).items() if pair[0] in asked}
        alone = graph.expand(Expand(chunk_ids=tuple(asked), kinds=(kind,)))
        assert alone.kinds == (kind,)
        assert alone.weights[:, 0].tolist() == column[column > 0].tolist()


@settings(max_examples=40)
@given(nodes_and_vectors(), st.lists(st.sampled_from(["alpha", "beta", "電", "電池", "no"]), max_size=4))
def test_words_are_counted_as_the_text_divides_them(case: Case, words: list[str]) -> None:
    graph = ChunkGraph.build(*case)
    asked = tuple(reversed(graph.ids))
    found = graph.nodes(FetchNodes(chunk_ids=("nobody", *asked), words=tuple(words)))
    assert found.ids == asked
    titles = [[key for title in graph.node(each).titles for key in word_keys(title)] for each in asked]
    held = [word_keys(graph.node(each).chunk.text) + own for each, own in zip(asked, titles, strict=True)]
    assert found.counts.tolist() == [[each.count(word) for word in words] for each in held]
    assert found.in_title.tolist() == [[word in each for word in words] for each in titles]
    assert found.lengths.tolist() == list(map(len, held))
    counts = graph.count_words(CountWords(words=tuple(words)))
    assert counts.holding == tuple(sum(word in each for each in held) for word in words)
    assert counts.nodes == len(graph)
    assert counts.mean_length * (len(graph) or 1) == pytest.approx(sum(map(len, held)))


# mentions


@pytest.mark.parametrize(
    ("text", "title", "said"),
    [
        ("He moved to NEW-YORK in May.", "New York", True),
        ("New York City is large.", "New York", True),  # one title inside another counts
        ("A new city called York.", "New York", False),
        ("York is new. New pumps.", "New York", False),
        ("the seals of two pumps", "Seal of two pump", False),  # "seals" has not more than six characters
        ("his philosophical work", "His philosophy work", True),  # words are compared by their first six
        ("他喜歡東京塔。", "東京塔", True),
        ("他喜歡東京。塔很高", "京東", False),
        ("", "New York", False),
    ],
)
def test_a_text_holds_a_title_whose_words_are_there_in_order(text: str, title: str, said: bool) -> None:
    assert holds(words_of(text), words_of(title)) is said
    assert titles_said(NodeWords.of([node(0, text)]), [words_of(title)])[0].tolist() == [0] * said


WORDS = ["new", "york", "city", "pumps", "pump", "東京", "塔", "a", "1999", "Straße", "x-ray", "."]
some_titles = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join), max_size=3)


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), some_titles), min_size=1, max_size=6
    )
)
def test_titles_found_in_many_texts_at_once_are_those_of_the_definition(cases: list[tuple[str, list[str]]]) -> None:
    nodes = [node(place, text, titles=titles) for place, (text, titles) in enumerate(cases)]
    titles = sorted({title for each in nodes for title in titles_of(each)})
    wanted = sorted(
        (slot, title_number(title))
        for slot, each in enumerate(nodes)
        for title in titles
        if holds(words_of(each.chunk.text), title)
    )
    words, numbers = NodeWords.of(nodes), np.array(sorted(map(title_number, titles)), np.uint64)
    for found in (titles_said(words, titles), numbers_said(words, numbers)):
        assert list(zip(*(part.tolist() for part in found), strict=True)) == wanted


def test_titles_without_meaning_are_not_looked_for() -> None:
    assert LONGEST == 12
    long = " ".join(["title"] * LONGEST)
    named = node(0, titles=["New York City", "York", "3.2", "X", "塔", f"{long} more", long, "york!", "ab"])
    assert titles_of(named) == (("title",) * 12, ("new", "york", "city"), ("ab",), ("york",))
    text = "東京塔 is 3.5 times as tall as Philosophy"
    assert words_of(text) == ("東", "京", "塔", "is", "3.5", "times", "as", "tall", "as", "philos")
    assert set(words_of(text)) < set(word_keys(text))


# neighbours by meaning


def clustered(size: int, *, copies: int = 1) -> NDArray[np.float32]:
    """Return vectors in clusters, each some times."""
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((max(size // 20, 1), 16))
    rows = centres[rng.integers(0, len(centres), size)] + 0.5 * rng.standard_normal((size, 16))
    return semantic.unit(np.repeat(rows, copies, axis=0)[:size].astype(np.float32))


@pytest.mark.parametrize(("block", "copies"), [(7, 9), (64, 1), (2_048, 1)])
def test_neighbours_do_not_depend_on_the_blocks(block: int, copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = clustered(200, copies=copies)
    monkeypatch.setattr(semantic, "_BLOCK", block)
    found = semantic.nearest(rows, 5, lambda done, total: None)
    cosines = np.round(rows.astype(np.float64) @ rows.T.astype(np.float64), 6)
    for place, (near, weights) in enumerate(zip(found.places, found.cosines, strict=True)):
        others = [other for other in range(len(rows)) if other != place]
        best = sorted(others, key=lambda other: -cosines[place, other])[:5]
        assert weights == pytest.approx(cosines[place, best], abs=2e-6)
        assert len(set(near)) == 5
        assert place not in near
        assert all(one < other for one, other in pairwise(zip(-weights, near, strict=True)))


def test_where_all_centres_are_compared_approximate_neighbours_are_the_exact_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr(semantic, "_BATCH", 64)
    rows, told = clustered(300, copies=2), list[tuple[int, int]]()
    found = semantic.nearest(rows, 5, lambda done, total: told.append((done, total)), exact=False)
    wanted = semantic.nearest(rows, 5, lambda done, total: None)
    assert found.places.tolist() == wanted.places.tolist()
    assert found.cosines.tolist() == wanted.cosines.tolist()
    assert told == [(0, 150), (64, 150), (128, 150), (150, 150)]  # each row is there twice


@pytest.mark.slow
def test_approximate_neighbours_are_nearly_the_exact_ones() -> None:
    pytest.importorskip("faiss")
    rows = clustered(3_000)
    nodes = [node(number) for number in range(len(rows))]
    exact = ChunkGraph.build(nodes, rows, GraphOptions(exact_up_to=3_000)).links("semantic")
    graph = ChunkGraph.build(nodes, rows, GraphOptions(exact_up_to=2_999))
    found = weights_of(graph, "semantic")
    wanted = set(zip(exact.sources.tolist(), exact.targets.tolist(), strict=True))
    places = {chunk_id: place for place, chunk_id in enumerate(graph.ids)}
    same = sum((places[one], places[other]) in wanted for one, other in found)
    assert same / len(wanted) >= 0.99
    assert found == weights_of(ChunkGraph.build(nodes[::-1], rows[::-1], graph.options), "semantic")


def test_building_tells_how_far_it_is_and_can_be_stopped() -> None:
    told: list[GraphProgress] = []
    ChunkGraph.build([PHONE, SCREEN, BATTERY], ROWS, progress=told.append)
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert told[-1].done == told[-1].total
    cancel = Cancel()
    cancel.set()
    with pytest.raises(CancelledError):
        ChunkGraph.build([PHONE, SCREEN, BATTERY], ROWS, cancel=cancel)


def of_nothing(what: object) -> GraphOptions:
    return GraphOptions(kinds=(TermEdges(name="own", of=lambda node: what),))


def test_what_cannot_be_a_graph_or_a_question_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, build = built(), ChunkGraph.build
    assert graph.chunks_by_id(FetchById(chunk_ids=("nobody", PHONE.id))) == (None, PHONE.chunk)
    assert (graph.chunk(SCREEN.id), "nobody" in graph, SCREEN.id in graph) == (SCREEN.chunk, False, True)
    own = f"edges 'own' of chunk '{PHONE.id}'"
    for call, message in (
        (lambda: build([PHONE, SCREEN], ROWS), r"vectors must be of shape \(2, dim\)"),
        (lambda: build([PHONE, SCREEN, PHONE], ROWS), "nodes must be of distinct chunks"),
        (lambda: build([PHONE], [[np.nan, 1.0]]), "vectors must be finite numbers, got 'row 0"),
        (lambda: build([PHONE], "ab"), "vectors must be an array of numbers"),
        (lambda: build([PHONE], [[1e300, 0.0]]), "vectors must be finite numbers, got 'row 0 with inf'"),
        (lambda: build([PHONE.chunk], [[1.0, 0.0]]), "nodes must be of Node"),
        (lambda: build([], np.empty((0, 2)), {"neighbours": 2}), "options must be GraphOptions"),
        *((lambda what=what: build([PHONE], ROWS[:1], of_nothing(what)), own) for what in (None, "abc", [1, 2])),
        (lambda: graph.expand(Expand(chunk_ids=(PHONE.id,), kinds=("keywords",))), "one of keyword, mention"),
        (lambda: graph.edge(PHONE.id, "nobody"), "chunk id must be of a node of the graph, got 'nobody'"),
        (lambda: graph.updated(removed=[3]), "chunk id must be of a node of the graph, got 3"),
        (lambda: node_of(PHONE.chunk, titles="abc"), "titles must be a sequence of strings"),
        (lambda: node_of(PHONE.chunk, keywords=[3]), "keywords must be a sequence of strings"),
        (lambda: GraphOptions(kinds=(KEYWORDS, KEYWORDS)), "kinds"),
    ):
        with pytest.raises(CatenaError, match=message):
            call()
    monkeypatch.setattr("catena.graph.semantic.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install './packages/catena\[ann\]'"):
        built(GraphOptions(exact_up_to=2))
