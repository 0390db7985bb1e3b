"""Every plot as a matplotlib figure in one line: labelled, legible, told in words, and the same each time."""

from __future__ import annotations

import re
from io import BytesIO
from itertools import combinations

import pytest
from test_plots import PICTURES

from catena_view.plots import Picture
from catena_view.plots.picture import COLOURS, Axis, Bars, LineMark, Panel, Points

pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")

OVERLAP = 1.0  # pixels that the boxes of two texts may share


@pytest.fixture(scope="module", params=PICTURES)
def drawn(request):
    """Return the name of a plot, its picture, and the figure, laid out."""
    picture = PICTURES[request.param][0]()
    return request.param, picture, laid_out(picture)


def laid_out(picture):
    """Return a figure of a picture, laid out once and for all: each later drawing keeps its places."""
    figure = picture.figure()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def texts_of(figure):
    """Return each text that is drawn in a figure, with its box in pixels."""
    from matplotlib.text import Text

    hidden = {id(text) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for text in _not_drawn(axis)}
    found = [text for text in figure.findobj(Text) if id(text) not in hidden and text.get_visible()]
    return [(text.get_text(), text.get_window_extent()) for text in found if text.get_text().strip()]


def _not_drawn(axis):
    """Return the texts of an axis that are switched off, or belong to ticks outside its limits."""
    from matplotlib.text import Text

    if not axis.axes.axison:
        return axis.findobj(Text)
    low, high = sorted(axis.get_view_interval())
    room = 1e-9 * (high - low)
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    return [text for tick in ticks if not low - room <= tick.get_loc() <= high + room for text in tick.findobj(Text)]


def overlapping(figure):
    """Return the pairs of texts that lie on each other."""

    def shared(one, two):
        across = min(one.x1, two.x1) - max(one.x0, two.x0)
        up = min(one.y1, two.y1) - max(one.y0, two.y0)
        return across > OVERLAP and up > OVERLAP

    return [(a, b) for (a, one), (b, two) in combinations(texts_of(figure), 2) if shared(one, two)]


def test_each_axis_says_what_it_measures(drawn):
    _, picture, figure = drawn
    for panel, axes in zip(picture.panels, figure.axes, strict=False):
        if panel.drawing:
            continue
        for axis, label, ticks in (
            (panel.x, axes.get_xlabel(), axes.get_xticklabels()),
            (panel.y, axes.get_ylabel(), axes.get_yticklabels()),
        ):
            names = [tick.get_text() for tick in ticks]
            assert label == axis.label
            assert label or any(re.search(r"[^\W\d]", name) for name in names), panel


def test_no_text_lies_on_another(drawn):
    assert overlapping(drawn[2]) == []


def test_no_text_is_cut_off(drawn):
    *_, figure = drawn
    width, height = figure.canvas.get_width_height()
    cut = [
        text for text, box in texts_of(figure)
        if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]  # fmt: skip
    assert cut == []


def test_series_differ_in_more_than_colour(drawn):
    """Colours are Okabe and Ito's, and lines differ in dashes, points in shapes."""
    _, picture, figure = drawn
    for panel, axes in zip(picture.panels, figure.axes, strict=False):
        lines = [mark for mark in panel.marks if isinstance(mark, LineMark) and mark.series >= 0]
        assert all(mark.series < len(COLOURS) for mark in panel.marks if isinstance(mark, LineMark | Points | Bars))
        by_label = {line.get_label(): line for line in axes.lines}
        looks = {(by_label[mark.label].get_color(), by_label[mark.label].get_linestyle()) for mark in lines}
        assert len(looks) == len({mark.series for mark in lines})


@pytest.mark.slow
def test_equal_input_gives_equal_bytes(drawn):
    name, _, figure = drawn
    assert _bytes(figure) == _bytes(laid_out(PICTURES[name][0]()))


def _bytes(figure):
    """Return a figure as a small PNG."""
    held = BytesIO()
    figure.savefig(held, format="png", dpi=40)
    return held.getvalue()


def test_a_text_says_what_the_picture_shows(drawn):
    _, picture, _ = drawn
    assert picture.text.startswith(f"{picture.title}\n{picture.caption}")
    for panel in picture.panels:
        assert panel.drawing or panel.x.label in picture.text
        assert panel.drawing or panel.y.label in picture.text


def made_of(*marks, **axis):
    return Picture(
        title="Title", caption="1 of 2.", panels=[Panel(marks=marks, x=Axis(label="x, m", **axis), y=Axis(label="y"))]
    )


def test_the_text_goes_into_both_kinds_of_file(tmp_path):
    pytest.importorskip("plotly")
    made = made_of(LineMark(x=[0, 1], y=[0, 1], label='<b> & "c"'))
    assert made.text == 'Title\n1 of 2.\nx: x, m; y: y. Shown: <b> & "c"'
    assert texts_in(made._repr_png_()) == {"Title": made.title, "Description": made.text}
    page = made.save(tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count('role="figure"') == 1
    assert 'Shown: &lt;b&gt; &amp; &quot;c&quot;"><div id="picture"' in page


def texts_in(png):
    """Return the texts of a PNG."""
    with Image.open(BytesIO(png)) as opened:
        return opened.text
