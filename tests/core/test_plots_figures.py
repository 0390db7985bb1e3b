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


def test_no_text_lies_on_another_and_none_is_cut_off(drawn):
    *_, figure = drawn
    texts = texts_of(figure)
    for (_, one), (_, two) in combinations(texts, 2):
        across = min(one.x1, two.x1) - max(one.x0, two.x0)
        assert min(across, min(one.y1, two.y1) - max(one.y0, two.y0)) <= OVERLAP, texts
    width, height = figure.canvas.get_width_height()
    for _, box in texts:
        assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= -1, texts


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
    one, other = BytesIO(), BytesIO()
    figure.savefig(one, format="png", dpi=40)
    laid_out(PICTURES[name][0]()).savefig(other, format="png", dpi=40)
    assert one.getvalue() == other.getvalue()


def test_a_text_says_what_the_picture_shows(drawn):
    _, picture, _ = drawn
    assert picture.text.startswith(f"{picture.title}\n{picture.caption}")
    for panel in picture.panels:
        assert panel.drawing or panel.x.label in picture.text
        assert panel.drawing or panel.y.label in picture.text


def test_the_text_goes_into_both_kinds_of_file(tmp_path):
    pytest.importorskip("plotly")
    line = LineMark(x=[0, 1], y=[0, 1], label='<b> & "c"')
    panel = Panel(marks=[line], x=Axis(label="x, m"), y=Axis(label="y"))
    made = Picture(title="Title", caption="1 of 2.", panels=[panel])
    assert made.text == 'Title\n1 of 2.\nx: x, m; y: y. Shown: <b> & "c"'
    with Image.open(BytesIO(made._repr_png_())) as opened:
        assert opened.text == {"Title": made.title, "Description": made.text}
    page = made.save(tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count('role="figure"') == 1
    assert 'Shown: &lt;b&gt; &amp; &quot;c&quot;"><div id="picture"' in page
