"""The pictures of segment extraction and of cost: what is drawn is what was found, and no label hides another."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import inf, isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_plots import marks

from catena.effects import FetchChunks, FetchText, Handler, Services, run
from catena.model import Chunk, EvaluationError, Hit, ParameterError, Ranking, Scale
from catena.segments import BALANCED, explain, extract
from catena_view import plots
from catena_view.plots import Cost
from catena_view.plots.picture import Labels, LineMark, Points, Spans, label_rows, position_ticks

PLAIN = replace(BALANCED, length_adjustment="off", minimum_value=0.4)


def chunk(document, position):
    text = f"{document} paragraph {position}: check the <b>pump</b>."
    return Chunk(
        id=f"{document}{position}", document_id=document, position=position, start=100 * position,
        end=100 * position + len(text), text=text, path=(document, "1 Mounting"), metadata={"title": "Pump <manual>"},
    )  # fmt: skip


def fetched(request):
    return tuple(tuple(chunk(name, at) for at in range(first, end)) for name, first, end in request.spans)


SERVICES = Services(
    handlers={
        FetchChunks: Handler(identity="shelf", call=fetched),
        FetchText: Handler(identity="shelf", call=lambda request: (None,) * len(request.spans)),
    }
)


def ranking(*found):
    return Ranking(tuple(Hit(chunk(name, at), score) for name, at, score in found), Scale.PROBABILITY)


def extracted(params=PLAIN):
    """Document a: 3, 4 and 6 found by the first query, 4 and 20 by the second; document b: one chunk."""
    first = ranking(("a", 3, 0.98), ("a", 4, 0.8), ("a", 6, 0.7), ("b", 0, 0.1))
    second = ranking(("a", 4, 0.9), ("a", 20, 0.3))
    return run(extract([first, second], params=params), SERVICES)


def named(picture, kind, label, panel=0):
    return next(mark for mark in marks(picture, kind, panel) if mark.label == label)


# relevance_curve


def test_each_query_has_a_point_for_each_chunk_that_it_found():
    extraction = extracted()
    made = plots.relevance_curve(extraction)
    weighed = {chunk.position: chunk for chunk in explain(extraction).chunks if chunk.document_id == "a"}
    assert sorted(weighed) == [3, 4, 5, 6, 20]
    points = named(made, Points, "query 1")
    assert list(points.x) == [0.0, 1.0, 3.0]  # position 5 is between; its chunk was fetched
    assert list(points.y) == [weighed[at].worths[0].value for at in (3, 4, 6)]
    assert points.y[0] == pytest.approx(0.98 - 0.18)
    assert list(named(made, Points, "query 2").x) == [1.0, 5.0]  # 20 comes after a gap


def test_a_line_breaks_where_the_query_did_not_find_a_chunk():
    line = named(plots.relevance_curve(extracted()), LineMark, "query 1")
    levels = [(x, y) for x, y in zip(line.x, line.y, strict=True) if not isnan(x)]
    assert [x for x, _ in levels] == [-0.5, 0.5, 0.5, 1.5, 2.5, 3.5]
    assert sum(map(isnan, line.x)) == 1


def test_what_no_query_found_is_grey_from_0_down():
    made = plots.relevance_curve(extracted())
    points = named(made, Points, "found by no query")
    assert (list(points.x), list(points.y)) == ([2.0], [-0.18])
    assert points.series < 0
    assert named(made, LineMark, "found by no query").filled
    assert "5 chunks drawn, 1 of them found by no query" in plots.relevance_curve(extracted(), documents=1).caption


def test_segments_are_shaded_with_their_values():
    extraction = extracted()
    made = plots.relevance_curve(extraction)
    (spans,) = marks(made, Spans)[:1]
    labels = marks(made, Labels)[0]
    hits = [hit for hit in extraction.segments if hit.segment.document_id == "a"]
    assert len(spans.spans) == len(hits) == len(labels.texts)
    assert spans.spans[0] == (-0.5, 3.5)
    assert labels.texts[0] == f"{hits[0].value:.2f}"
    assert f"{extraction.value:.3f}" in made.caption
    assert f"{len(extraction.segments)} of {len(extraction.segments)} segments" in made.caption


def test_what_neighbours_lend_is_drawn_and_told():
    made = plots.relevance_curve(extracted(replace(PLAIN, lending=0.5)))
    points = named(made, Points, "found by no query")
    assert points.y[list(points.x).index(0.0)] == pytest.approx(0.98 / 2 - 0.18)  # position 2, beside 3
    assert "lent 0.490, penalty 0.18" in points.names[0]
    assert "max(P × decay, 0.5 × a neighbour's) − 0.18" in made.caption


def test_lines_leave_hovering_to_their_points_and_texts_are_no_markup():
    pytest.importorskip("plotly")
    extraction = extracted()
    figure = plots.relevance_curve(extraction).interactive()
    assert any("rank 2, P 0.800<br>" in text for trace in figure.data for text in trace.text or ())
    assert any("&lt;b&gt;pump" in text for trace in figure.data for text in trace.text or ())
    assert {shape.yref for shape in figure.layout.shapes} <= {"y domain", "y2 domain"}
    assert len(figure.layout.shapes) == len(extraction.segments)
    assert {trace.hoverinfo for trace in figure.data if trace.mode == "lines"} == {"skip"}  # their points tell more
    names = [trace.name for trace in figure.data if trace.showlegend]
    assert len(names) == len(set(names))


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(EvaluationError, match="at least one document"):
        plots.relevance_curve(run(extract([], params=PLAIN), SERVICES))
    with pytest.raises(ParameterError, match="documents"):
        plots.relevance_curve(extracted(), documents=0)
    with pytest.raises(ParameterError, match="name for each of 2 queries"):
        plots.relevance_curve(extracted(), queries=["one"])


# where labels go


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(0.1, 50)), max_size=40), st.integers(1, 4))
def test_labels_of_one_row_never_touch(labels, most):
    labels.sort()
    starts, widths = [start for start, _ in labels], [width for _, width in labels]
    rows = label_rows(starts, widths, most=most)
    for row in range(most):
        kept = [at for at, found in rows.items() if found == row]
        assert all(starts[a] + widths[a] <= starts[b] for a, b in pairwise(kept))
    assert all(0 <= row < most for row in rows.values())
    assert not labels or rows[0] == 0


@given(st.sets(st.integers(0, 5_000), min_size=1, max_size=400))
def test_ticks_are_at_their_places_and_apart(found):
    positions = sorted(found)
    places = [0.0]
    for before, after in pairwise(positions):
        places.append(places[-1] + (1 if after == before + 1 else 2))
    ticks = position_ticks(places, positions, letter=0.7)
    assert ticks[0] == (0.0, str(positions[0]))
    assert all(str(positions[places.index(place)]) == text for place, text in ticks)
    assert all(after[0] - before[0] >= 0.7 * len(after[1]) * 0.5 for before, after in pairwise(ticks))


# cost_growth


def costs(*pairs):
    return [Cost(size=size, milliseconds=time, low=time / 2, high=time * 2) for size, time in pairs]


def test_cost_has_a_line_for_each_system_and_tells_its_power():
    cases = {
        "dense": {"ours": costs((10_000, 100.0), (1_000, 1.0)), "theirs": costs((1_000, 5.0))},
        "sparse": {"theirs": costs((1_000, 2.0))},
    }
    made = plots.cost_growth(cases)
    first, second = made.panels
    assert [line.label for line in first.marks] == ["ours", "theirs"]
    assert list(first.marks[0].x) == [1_000.0, 10_000.0]
    assert list(first.marks[0].low) == [0.5, 50.0]
    assert first.x.logarithmic
    assert first.y.logarithmic
    assert first.y == second.y
    assert second.marks[0].series == first.marks[1].series
    assert "ours 100.0 (50.0–200.0) at 10,000, as size^2.00" in made.caption
    assert "theirs 5.0 (2.5–10.0) at 1,000" in made.caption
    assert [text for _, text in first.x.ticks] == ["1,000", "10,000"]


NO_COSTS = [{"b": costs(*pairs)} for pairs in ((), [(0, 1.0)], [(1, 0.0)], [(1, inf)])]


@pytest.mark.parametrize("systems", [None, {}, *NO_COSTS])
def test_costs_that_no_logarithm_has_are_errors(systems):
    with pytest.raises(EvaluationError):
        plots.cost_growth({} if systems is None else {"a": systems})
