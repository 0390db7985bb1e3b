"""The pictures of the graph: what is near a chain, why each hop is there, where labels go, and the studies."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from itertools import combinations
from math import hypot
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_plots import marks

from catena.graph import ChunkGraph, GraphOptions, node_of
from catena.graph.edges import kinds_in_order, reason, reasons
from catena.model import CatenaError, Chain, Chunk, Edge, Hop, ParameterError
from catena_view import plots
from catena_view.plots.graph_view import around, beside, bowed, force_layout, least_met, overlap, spread
from catena_view.plots.picture import Cards, Discs, LineMark, Points, Strokes, TextMarks, lines_of, tip, width

WORDS = "pump seal valve motor filter gauge rotor shaft cover drain"
N = 12


def chunk(number, document=None, text=""):
    text = text or f"Number {number} has a {WORDS.split()[number % 10]} and a {WORDS.split()[number % 3]}."
    return Chunk(
        id=f"c{number:02}", document_id=document or f"d{number // 4}", position=number % 4, start=0, end=len(text),
        text=text, path=("Manual", f"Part {number}"), pages=(number + 1, number + 1),
        metadata={"title": f"Manual {document or number // 4}"},
    )  # fmt: skip


CHUNKS = [chunk(number) for number in range(N)]


def vectors(count=N):
    angles = np.linspace(0.0, 2.0, count)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def graph_of(chunks=CHUNKS, **options):
    keywords = [["pump", "seal", "valve", f"only {each.id}"] if int(each.id[1:]) < 3 else [] for each in chunks]
    nodes = [node_of(each, keywords=words) for each, words in zip(chunks, keywords, strict=True)]
    return ChunkGraph.build(nodes, vectors(len(chunks)), GraphOptions(**({"neighbours": 2} | options)))


GRAPH = graph_of()


def hop(number, score=0.5, came_from=None, words=()):
    before = "" if came_from is None else f"c{came_from:02}"
    edge = None if came_from is None else GRAPH.edge(before, f"c{number:02}")
    return Hop(chunk=CHUNKS[number], score=score, came_from=before, edge=edge, words=words)


CHAIN = Chain((hop(0, 0.75), hop(1, 0.5, 0), hop(2, 0.25, 0), hop(3, 0.125, 2)))


def cards_of(picture):
    return [card for mark in marks(picture, Cards) for card in mark.cards]


def hops_of(picture):
    return [mark for mark in marks(picture, Discs) if mark.texts]


def boxes_of(cards):
    return [(card.left, card.bottom, card.right, card.top) for card in cards]


# chain_graph


def test_the_chain_is_drawn_on_what_is_near_it():
    made = plots.chain_graph(GRAPH, [CHAIN], hops=3, nodes=3)
    assert [disc.texts for disc in hops_of(made)] == [["1"], ["2"], ["3"], ["4"]]
    assert marks(made, TextMarks)[0].texts == ["0.75", "0.50", "0.25", "0.12"]
    (arrows,) = (mark for mark in marks(made, Strokes) if mark.heads)
    assert arrows.label == "hop of a chain"
    ends = {disc.texts[0]: disc.places[0] for disc in hops_of(made)}
    led = [("1", "2"), ("1", "3"), ("3", "4")]  # from where each hop came, not from the one before it
    for path, (one, two) in zip(arrows.paths, led, strict=True):
        assert hypot(path[0][0] - ends[one][0], path[0][1] - ends[one][1]) < 0.4
        assert hypot(path[-1][0] - ends[two][0], path[-1][1] - ends[two][1]) < 0.4
    small = [mark for mark in marks(made, Discs) if not mark.texts]
    assert sum(len(mark.places) for mark in small) == 3
    assert max(mark.size for mark in small) < min(mark.size for mark in hops_of(made)) / 2
    assert made.caption.startswith("1 chain of 4 chunks from 1 document; 3 of the ")


def test_kinds_have_dashes_of_their_own_and_their_edges_are_counted():
    made = plots.chain_graph(GRAPH, [CHAIN])
    pale = [mark for mark in marks(made, Strokes) if "(" in mark.label and mark.opacity < 1]
    kinds = {mark.label.split()[0]: mark for mark in pale}
    assert {"structural", "semantic", "keyword"} <= set(kinds)
    assert [kinds[kind].dash for kind in ("structural", "semantic", "keyword")] == ["solid", "dashed", "dotted"]
    assert len({mark.dash for mark in kinds.values()}) == len(kinds)
    for label in {mark.label for mark in pale}:
        assert label.endswith(f"({sum(len(mark.paths) for mark in pale if mark.label == label)})")
    assert kinds["keyword"].label == "keyword (3)"
    dark = {mark.label: len(mark.paths) for mark in marks(made, Strokes) if "(" in mark.label and mark not in pale}
    assert dark["keyword (3)"] == 2  # beside arrows, and switched with their kind


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 10), st.lists(st.integers(0, 8), min_size=9, max_size=9), st.booleans())
def test_no_card_lies_on_another_and_none_leaves_the_page(length, parents, whole):
    alike = Edge(weights={"semantic": 0.5})
    origins = [f"c{parents[number - 1] % number:02}" for number in range(1, length)]
    more = (Hop(chunk=CHUNKS[at], score=0.5, came_from=origin, edge=alike) for at, origin in enumerate(origins, 1))
    made = plots.chain_graph(GRAPH, [Chain((hop(0), *more))], whole=whole)
    boxes = boxes_of(cards_of(made))
    assert len(boxes) == length
    assert all(overlap(one, two) == 0 for one, two in combinations(boxes, 2))
    (x0, x1), (y0, y1) = made.panels[0].x.limits, made.panels[0].y.limits
    assert all(x0 <= box[0] < box[2] <= x1 and y0 <= box[1] < box[3] <= y1 for box in boxes)
    places = [disc.places[0] for disc in hops_of(made)]
    assert all(hypot(one[0] - two[0], one[1] - two[1]) > 0.3 for one, two in combinations(places, 2))


def test_the_whole_graph_has_every_node_and_every_edge():
    made = plots.chain_graph(GRAPH, [CHAIN], whole=True)
    assert sum(len(mark.places) for mark in marks(made, Discs)) == N
    lines = [mark for mark in marks(made, Strokes) if "(" in mark.label]
    semantic = GRAPH.links("semantic")
    pairs = {(min(a, b), max(a, b)) for a, b in zip(semantic.sources, semantic.targets, strict=True)}
    assert sum(len(mark.paths) for mark in lines if mark.label.startswith("semantic")) == len(pairs)
    assert f"all {N} nodes" in made.caption
    reasons = [line for card in cards_of(made) for line in card.lines]
    assert any(line.startswith("semantic") or line.startswith("structural") for line in reasons)


def test_chunks_in_another_order_give_the_same_picture():
    nodes = [GRAPH.node(each.id) for each in CHUNKS]
    other = ChunkGraph.build(nodes[::-1], vectors()[::-1], GraphOptions(neighbours=2))
    for whole in (False, True):
        assert plots.chain_graph(GRAPH, [CHAIN], whole=whole) == plots.chain_graph(other, [CHAIN], whole=whole)
    assert plots.chain_graph(GRAPH, [CHAIN], seed=1) != plots.chain_graph(GRAPH, [CHAIN], seed=2)


class WalkOnly:
    """A graph behind the port alone: it can be asked for neighbours, and not for all that it holds."""

    def __init__(self, graph):
        self.expand, self.nodes = graph.expand, graph.nodes
        self.count_words, self.chunks_by_id = graph.count_words, graph.chunks_by_id


def test_a_graph_behind_the_port_is_drawn_but_not_whole(monkeypatch):
    made = plots.chain_graph(WalkOnly(GRAPH), [CHAIN])
    assert len(hops_of(made)) == 4
    with pytest.raises(ParameterError, match="cannot tell all its nodes"):
        plots.chain_graph(WalkOnly(GRAPH), [CHAIN], whole=True)
    monkeypatch.setattr("catena_view.plots.graph.MOST_NODES", N - 1)
    with pytest.raises(ParameterError, match="12 nodes, more than 11") as error:
        plots.chain_graph(GRAPH, [CHAIN], whole=True)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_what_is_a_hop_further_away_counts_half():
    edges = {"start": {"near": 1.0, "weak": 0.6}, "near": {"far": 1.0}}

    def expand(request):
        led = [(at, edges.get(one, {})) for at, one in enumerate(request.chunk_ids)]
        found = [(at, name, weight) for at, leads in led for name, weight in leads.items()]
        return SimpleNamespace(
            sources=request.chunk_ids, source=np.array([at for at, *_ in found], int), target=np.arange(len(found)),
            nodes=SimpleNamespace(ids=[name for _, name, _ in found]),
            weights=np.array([[weight] for *_, weight in found]).reshape(-1, 1),
        )  # fmt: skip

    assert around(SimpleNamespace(expand=expand), ("start",), hops=2, most=9) == (["near", "weak", "far"], 3)


def test_hovering_tells_where_a_node_stands_and_what_an_edge_shares():
    pytest.importorskip("plotly")
    figure = plots.chain_graph(GRAPH, [CHAIN]).interactive()
    told = [text for trace in figure.data for text in (trace.hovertext or ())]
    first = next(text for text in told if text.startswith("hop 1, score 0.750"))
    assert "Manual 0 › Manual › Part 0, page 1" in first
    assert "“Number 0 has a pump and a pump.”" in first
    assert "keywords: pump, seal, valve, only c00" in first
    assert any("keyword 3: " in text and "structural" in text for text in told)
    keyword = [trace for trace in figure.data if (trace.legendgroup or "").startswith("keyword")]
    assert [trace.showlegend for trace in keyword].count(True) == 1  # one click switches all of the kind
    assert any(trace.hovertext for trace in keyword)


def test_markup_of_documents_is_text(tmp_path):
    pytest.importorskip("plotly")
    evil = "<img src=x onerror=alert(1)> $x_1^$ 数字"
    chunks = [chunk(0, "d", evil), chunk(1, evil, evil)]
    graph = graph_of(chunks)
    chain = Chain((Hop(chunk=chunks[0], score=1.0), Hop(chunk=chunks[1], score=0.5)))
    for number, made in enumerate((plots.chain_graph(graph, [chain]), plots.chain_strip([chain], questions=[evil]))):
        page = made.save(tmp_path / f"{number}.html").read_text(encoding="utf-8")
        assert "<img src=x" not in page
        shown = json.dumps(made.interactive().to_plotly_json(), default=list)
        assert "<img" not in shown
        assert "&lt;img" in shown


# chain_strip


def test_boxes_say_what_and_arrows_why():
    words = Chain((hop(0, 0.75, words=("pump", "seal")), hop(1, 0.5, 0), hop(2, 0.25, 0), hop(8, 0.1)))
    made = plots.chain_strip([words], questions=["Which pump has a seal?"])
    cards = cards_of(made)
    assert [card.lines[0] for card in cards] == ["Manual 0", "Manual 0", "Manual 0", "Manual 2"]
    assert cards[0].lines[1] == "Part 0, page 1"
    assert cards[0].lines[-1] == "covers: pump, seal"
    assert [card.left for card in cards] == sorted(card.left for card in cards)
    texts = [text for mark in marks(made, TextMarks) for text in mark.texts]
    assert texts[0] == "Which pump has a seal?"
    assert {"0.750", "0.500", "0.250", "0.100", "from the first ranking"} <= set(texts)
    assert any("keyword 3: pump" in text for text in texts)
    sources = [disc.texts[0] for disc in marks(made, Discs) if not disc.names[0]]
    assert sources == ["1"]  # the third hop came from the first one, the second from the one before it
    arrows = [mark for mark in marks(made, Strokes) if mark.heads]
    assert [mark.dash for mark in arrows] == ["solid", "solid", "dotted"]


def test_a_hop_whose_edge_is_gone_is_not_said_to_come_from_the_first_ranking():
    made = plots.chain_strip([Chain((hop(0), replace(hop(1, came_from=0), edge=None)))])
    texts = [text.replace("\n", " ") for mark in marks(made, TextMarks) for text in mark.texts]
    assert "no edge any more" in texts


def test_a_reason_leaves_out_names_inside_others_and_ends_after_a_few_words():
    nested = Edge(weights={"name": 2.5}, words={"name": ("bash history", "bash history facilities", "c r")})
    assert reasons(nested) == ["name 2.50: bash history facilities, c r"]
    many = Edge(weights={"name": 4.2}, words={"name": tuple("abcdefg")})
    assert reasons(many) == ["name 4.20: a, b, c, d, e, …"]
    nested_keywords = Edge(weights={"keyword": 3}, words={"keyword": ("pump", "pump seal", "seal")})
    assert reasons(nested_keywords) == ["keyword 3: pump, pump seal, seal"]  # as many as their number says


# layout and text


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 30), st.integers(0, 3))
def test_nodes_stay_on_the_page_and_out_of_boxes(count, seed):
    area, box = (1.0, 2.0, 9.0, 7.0), (3.0, 3.5, 5.0, 5.0)
    fixed = np.full((count, 2), np.nan)
    fixed[0] = (2.0, 3.0)
    edges = np.array([(at, at + 1) for at in range(count - 1)], dtype=np.int64).reshape(-1, 2)
    places = force_layout(count, edges, area, fixed=fixed, apart=[box], seed=seed)
    assert (places >= np.array(area[:2])).all()
    assert (places <= np.array(area[2:])).all()
    inside = (places > np.array(box[:2])).all(axis=1) & (places < np.array(box[2:])).all(axis=1)
    assert not inside.any()
    assert tuple(places[0]) == (2.0, 3.0)
    assert np.array_equal(places, force_layout(count, edges, area, fixed=fixed, apart=[box], seed=seed))


def test_arrows_bow_around_what_is_in_their_way():
    straight, bowed_up = (bowed((0.0, 0.0), (4.0, 0.0), bow, gaps=(0.2, 0.2)) for bow in (0.0, 1.0))
    assert bowed_up[len(bowed_up) // 2] == pytest.approx((2.0, 1.0))
    assert straight[0][0] >= 0.2
    assert straight[-1][0] <= 3.8
    page = (-1.0, -1.0, 5.0, 5.0)
    assert least_met([straight, bowed_up], [], [], [], page) == 0
    assert least_met([straight, bowed_up], [(2.0, 0.0)], [], [], page) == 1
    assert least_met([straight, bowed_up], [], [(1.0, -0.5, 3.0, 0.5)], [], page) == 1
    assert least_met([bowed_up, straight], [], [], [], (-1.0, -1.0, 5.0, 0.5)) == 1
    assert least_met([straight, bowed_up], [], [], straight, page) == 1
    assert beside([(0.0, 0.0), (1.0, 0.0)], 0.5) == [(0.0, 0.5), (1.0, 0.5)]
    assert tip([(0.0, 0.0), (1.0, 0.0)], length=0.5) == ((1.0, 0.0), (0.5, 0.2), (0.5, -0.2))


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=8))
def test_discs_are_parted(places):
    parted = spread(places, (0.0, 0.0, 5.0, 5.0), apart=0.5)
    assert all(0 <= x <= 5 and 0 <= y <= 5 for x, y in parted)
    assert all(hypot(a[0] - b[0], a[1] - b[1]) > 0.4 for a, b in combinations(parted, 2))


@given(st.text(st.sampled_from("abMi数字 ,-"), max_size=80), st.floats(0.4, 3.0), st.integers(1, 4))
def test_lines_fit_and_only_the_end_is_cut(text, room, most):
    lines = lines_of(text, room, most)
    assert len(lines) <= most
    assert all(width(line) <= room + 1e-9 for line in lines)
    kept, whole = "".join("".join(lines).split()), "".join(text.split())
    assert kept == whole or (kept.endswith("…") and whole.startswith(kept[:-1].rstrip(",")))


def test_a_mention_is_one_kind_from_either_side():
    assert kinds_in_order(["ours", "mentioned", "keyword", "mention", "structural"]) == [
        "structural", "keyword", "mention", "ours",
    ]  # fmt: skip
    assert reason("mention", {"mentioned": 0.5}, {"mentioned": ("hx210",)}) == "mention 0.50: hx210"
    assert reason("structural", {"structural": 1.0}, {}) == "structural"
    assert reason("keyword", {"keyword": 3.0}, {"keyword": ("a", "b", "c")}) == "keyword 3: a, b, c"


# studies

LENGTHS = [
    {"name": name, "at": at, "value": value, "low": value - 0.1, "high": value + 0.1}
    for name, values in (("hotpotqa", (0.5, 0.75, 0.7)), ("musique", (0.25, 0.375, 0.5)))
    for at, value in zip((1, 3, 7), values, strict=True)
]


def test_lines_hold_values_and_intervals_by_length():
    made = plots.path_lengths(LENGTHS[::-1])
    musique, hotpot = marks(made, LineMark)
    assert (musique.label, list(musique.x), list(musique.y)) == ("musique", [1, 3, 7], [0.25, 0.375, 0.5])
    assert list(hotpot.low) == pytest.approx([0.4, 0.65, 0.6])
    assert made.panels[0].x.ticks == [(1, "1"), (3, "3"), (7, "7")]
    assert made.caption == (
        "Match rate of the evidence: musique 0.250 at 1 → 0.500 at 7; hotpotqa 0.500 at 1 → 0.700 at 7. "
        "Bands: intervals."
    )


def test_thresholds_are_panels_on_one_scale_and_a_name_keeps_its_colour():
    values = (
        ("a", 2, 0.2, "neighbours"),
        ("a", 5, 0.4, "neighbours"),
        ("b", 0, 0.6, "keyword"),
        ("b", 2, 0.6, "keyword"),
    )
    rows = [plots.Measured(name=name, at=at, value=value, setting=setting) for name, at, value, setting in values]
    made = plots.graph_density(rows)
    assert [panel.x.label[-1] for panel in made.panels] == ["T", "K"]
    assert made.panels[0].y.limits == made.panels[1].y.limits == pytest.approx((0.14, 0.66))
    assert [line.series for panel in (0, 1) for line in marks(made, LineMark, panel)] == [0, 1]
    assert "neighbours: a 0.200 → 0.400, best 0.400 at 5. keyword: b 0.600 → 0.600, best 0.600 at 0." in made.caption
    assert len(plots.graph_density(rows[:2]).panels) == 1


def test_training_shows_the_first_best_epoch():
    values = [(2, 0.5, 0.8), (1, 0.75, 0.7), (3, 0.25, 0.8), (4, 0.2, None)]
    made = plots.training_history([{"epoch": e, "loss": loss, "validation": v} for e, loss, v in values])
    loss, validation = (marks(made, LineMark, panel)[0] for panel in (0, 1))
    assert list(loss.y) == [0.75, 0.5, 0.25, 0.2]
    assert list(validation.y) == [0.7, 0.8, 0.8]
    (best,) = marks(made, Points, 1)
    assert (list(best.x), list(best.y), best.label) == ([2], [0.8], "best: epoch 2")
    assert "loss 0.750 → 0.200 in epochs 1–4" in made.caption
    assert len(plots.training_history([plots.EpochMeasured(epoch=1, loss=0.5)]).panels) == 1


def test_degrees_are_counted_from_above_by_kind():
    made = plots.graph_degrees(GRAPH)
    lines = {line.label: line for line in marks(made, LineMark)}
    assert (list(lines["keyword"].x), list(lines["keyword"].y)) == ([2], [3])  # three nodes, each with two others
    assert (list(lines["structural"].x), list(lines["structural"].y)) == ([1, 2], [12, 6])  # three rows of four
    everything = GRAPH.degrees()
    assert max(lines["all kinds"].y) == (everything > 0).sum()
    assert lines["all kinds"].x[-1] == everything.max()
    assert "keyword 0.5 (9 have none, the most 2)" in made.caption


STRANGER = Chain((hop(0), Hop(chunk=chunk(77), score=1.0)))


@pytest.mark.parametrize(
    ("draw", "what"),
    [
        (lambda: plots.chain_graph(GRAPH, []), "at least one hop"),
        (lambda: plots.chain_graph(GRAPH, [Chain(())]), "at least one hop"),
        (
            lambda: plots.chain_graph(GRAPH, [STRANGER]),
            "does not have 1 of the 2 chunks of these .*, the first is 'c77'",
        ),
        (lambda: plots.chain_graph(GRAPH, [CHAIN], hops=-1), "hops must be 0 or more"),
        (lambda: plots.chain_graph(GRAPH, [CHAIN], nodes=-1), "nodes must be 0 or more"),
        (lambda: plots.chain_strip([Chain(())]), "at least one hop"),
        (lambda: plots.chain_strip([CHAIN], columns=0), "columns must be 1 or more"),
        (lambda: plots.chain_strip([CHAIN], questions=["a", "b"]), "one for each of 1 chains"),
        (lambda: plots.graph_degrees(graph_of(CHUNKS[:1])), "at least one edge"),
        (lambda: plots.path_lengths([]), "at least one row"),
        (lambda: plots.path_lengths([LENGTHS[0], LENGTHS[0]]), "one name and one setting"),
        (lambda: plots.path_lengths([{"name": "a", "at": 0, "value": 0.5}]), "length must be >= 1"),
        (lambda: plots.path_lengths([{"name": "a", "at": 1, "value": 50.0}]), "shares in"),
        (lambda: plots.path_lengths([{"name": "a", "at": 1, "value": float("nan")}]), "shares in"),
        (lambda: plots.path_lengths([{"name": "a", "at": 1, "value": 0.5, "low": 0.6}]), "low <= value"),
        (lambda: plots.path_lengths([{"name": "a", "length": 1}]), "rows must be Measured or dicts with keys"),
        (lambda: plots.graph_density([{"name": "a", "at": 1, "value": 0.5}]), "'neighbours' and 'keyword'"),
        (lambda: plots.training_history([]), "at least one epoch"),
        (lambda: plots.training_history([{"epoch": 1, "loss": float("inf")}]), "finite"),
        (lambda: plots.training_history([{"epoch": 1, "loss": 1.0}] * 2), "there twice"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(draw, what):
    with pytest.raises(CatenaError, match=what):
        draw()
