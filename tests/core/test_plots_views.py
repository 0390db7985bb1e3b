"""The pictures of views: cells are ranks, lines are recalls, marks stand where a chunk tears what answers."""

from __future__ import annotations

from itertools import pairwise
from math import inf, log2, nan
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_plots import marks

from catena.evaluation import chunking_error, spans_of
from catena.model import Chunk, Document, EvaluationError, Hit, ParameterError, Provenance, Ranking, Scale
from catena.retrieval import ExactUnion, found_by, multi_view
from catena_view import plots
from catena_view.plots.picture import Cells, Points, Spans

TEXT = "Close the valve. Wait a minute. Open the drain. Paint the door."  # sentences end at 16, 31, 47, 63


def chunk(name, document="pump", path=("Pump", "Service"), text="Check it."):
    return Chunk(id=name, document_id=document, position=0, start=0, end=len(text), text=text, path=path)


def ranked(*names):
    return Ranking(tuple(Hit(chunk(name), 1.0 / at) for at, name in enumerate(names, 1)), Scale.SIMILARITY)


def mark(picture, kind):
    return marks(picture, kind)[0]


def pieces(*borders):
    return [SimpleNamespace(start=start, end=end) for start, end in pairwise(borders)]


# view_attribution


def test_cells_are_the_ranks_that_views_gave():
    found = multi_view({"raw": ranked("a", "b", "c"), "keywords": ranked("c", "d")}, ExactUnion(), 3)
    made = plots.view_attribution(found, views=("raw", "keywords"))
    cells = mark(made, Cells)
    assert [hit.chunk.id for hit in found.hits] == ["a", "c", "b"]
    assert cells.texts == [["1", ""], ["3", "1"], ["2", ""]]
    assert cells.values == [[1.0, None], [0.5, 1.0], [1 / log2(3), None]]
    assert [text for _, text in made.panels[0].x.ticks] == ["raw", "keywords"]
    assert [text for _, text in made.panels[0].y.ticks] == ["Service  1", "Service  2", "Service  3"]
    assert [place for place, _ in made.panels[0].y.ticks] == [2.5, 1.5, 0.5]  # the first row is the topmost
    assert made.caption == (
        "3 hits. raw ranked 3 (best of the views 2, alone 2); keywords ranked 1 (best of the views 1, alone 0)."
    )


def test_ranks_of_routes_within_a_view_are_not_taken_for_its_own():
    ways = (
        Provenance(route="dense+lexical", rank=4, score=0.5, view="raw"),
        Provenance(route="dense", rank=1, score=0.9, view="raw"),
        Provenance(route="keyword", rank=None, score=0.9, view="names"),
    )
    cells = mark(plots.view_attribution(Ranking((Hit(chunk("a"), 1.0, ways),), Scale.RANK)), Cells)
    assert cells.texts == [["4"]]  # and what was scored by id has no rank


@given(st.lists(st.permutations("abcdef"), min_size=1, max_size=4), st.integers(1, 6))
def test_every_cell_is_what_found_by_says(orders, k):
    found = multi_view({f"view{at}": ranked(*names) for at, names in enumerate(orders)}, ExactUnion(), k)
    made = plots.view_attribution(found, views=[f"view{at}" for at in range(len(orders))])
    for hit, row in zip(found.hits, mark(made, Cells).texts, strict=True):
        assert {f"view{at}": int(text) for at, text in enumerate(row) if text} == found_by(hit)


# scope_recall


@pytest.mark.parametrize("points", [None, {}, {0: 0.5}, {inf: 0.5}, {250: 50.0}, {250: nan}, {250: (0.5, 0.6, 0.7)}])
def test_recalls_that_are_no_shares_are_errors(points):
    with pytest.raises(EvaluationError):
        plots.scope_recall({} if points is None else {"raw": points})


# chunking_errors


def test_marks_stand_at_the_borders_inside_what_answers():
    document = Document(id="pump", text=TEXT)
    chunkers = {"short": pieces(0, 16, 31, 47, 63), "whole": pieces(0, 63)}
    made = plots.chunking_errors(document, chunkers, [(0, 16), (10, 40)], names=["How?", "How long?"])
    torn = mark(made, Points)
    assert (list(torn.x), list(torn.y)) == ([16.0, 31.0], [1.5, 1.5])  # the first strip is the topmost
    assert list(torn.names) == ["short: How long?"] * 2
    assert list(mark(made, Spans).spans) == [(0.0, 16.0), (10.0, 40.0)]
    assert [text for _, text in made.panels[0].y.ticks] == ["short: 50.0%", "whole: 0.0%"]
    assert made.caption == (
        "Chunking error, the share of 2 scopes that no chunk holds whole, and the number of chunks: "
        "short 50.0% (1 torn by 4), whole 0.0% (0 torn by 1)."
    )


@given(
    st.lists(st.integers(1, 62), max_size=6, unique=True),
    st.lists(st.tuples(st.integers(0, 60), st.integers(3, 20)), min_size=1, max_size=5),
)
def test_there_are_marks_exactly_where_there_is_an_error(cuts, found):
    evidence = [(start, min(start + size, 63)) for start, size in found]
    evidence = [span for span in evidence if TEXT[slice(*span)].strip()] or [(0, 5)]
    chunks = pieces(0, *sorted(cuts), 63)
    made = plots.chunking_errors(Document(id="pump", text=TEXT), {"cut": chunks}, evidence)
    torn = mark(made, Points)
    assert bool(torn.x) == (chunking_error(spans_of(chunks), evidence, TEXT) > 0)
    assert set(torn.x) <= {float(cut) for cut in cuts}
    assert len(torn.x) == len(torn.y) == len(torn.names)


PUMP, ONE = Document(id="pump", text=TEXT), {"one": pieces(0, 63)}
FOUND = multi_view({"raw": ranked("a")}, ExactUnion(), 1)


@pytest.mark.parametrize(
    ("draw", "what"),
    [
        (lambda: plots.view_attribution(Ranking((), Scale.RANK)), "no hit was ranked by a view"),
        (lambda: plots.view_attribution(ranked("a")), "no hit was ranked by a view"),
        (lambda: plots.view_attribution(FOUND, views=("summary",)), "no hit was ranked by a view"),
        (lambda: plots.view_attribution(FOUND, rows=0), "rows"),
        (lambda: plots.chunking_errors(PUMP, {}, [(0, 16)]), "at least one chunker"),
        (lambda: plots.chunking_errors(PUMP, ONE, []), "without evidence"),
        (lambda: plots.chunking_errors(PUMP, ONE, [(0, 64)]), "does not lie in the text"),
        (lambda: plots.chunking_errors(PUMP, ONE, [(0, 16)], names=["a", "b"]), "a name for each of 1 scopes"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(draw, what):
    with pytest.raises((EvaluationError, ParameterError), match=what):
        draw()


# as files


def test_ranks_are_written_in_the_cells_of_both_kinds():
    pytest.importorskip("matplotlib")
    pytest.importorskip("plotly")
    found = multi_view({"raw": ranked("a", "b"), "<keywords>": ranked("b")}, ExactUnion(), 2)
    made = plots.view_attribution(found)
    axes = made.figure().axes[0]
    assert sorted(text.get_text() for text in axes.texts if text.get_text()) == ["1", "1", "2"]
    (heatmap,) = made.interactive().data
    assert [list(row) for row in heatmap.text] == [["2", "1"], ["1", ""]]  # plotly counts rows from below
    assert "<br>Pump › Service<br>Check it." in heatmap.hovertext[0][0]
    assert "&lt;keywords&gt;: not ranked" in heatmap.hovertext[1][1]
