"""Pictures as one HTML file, by plotly: everything it needs is inside, and nothing is fetched."""

from __future__ import annotations

import textwrap
from html import escape
from math import log10
from pathlib import Path
from typing import Any

from catena.model import MissingExtraError
from catena_view.plots.picture import (
    GREY,
    SHADE,
    Arrows,
    Axis,
    Bars,
    Cards,
    Cells,
    Discs,
    Labels,
    LineMark,
    Panel,
    Picture,
    Points,
    Spans,
    Strokes,
    TextMarks,
    colour,
    letter_size,
    middle,
    tip,
    tip_length,
)

PER_INCH = 96  # CSS pixels

_DASHES = ("solid", "dash", "dashdot", "dot")
_SHAPES = ("circle", "triangle-up", "square", "diamond", "triangle-down", "cross", "x")
_CAPTION_LINE = 17  # pixels
_STROKE_DASHES = {
    "solid": "solid", "dashed": "dash", "dotted": "dot", "dashdot": "dashdot",
    "dashdotdot": "longdashdot", "long": "longdash",
}  # fmt: skip
_DISC_SHAPES = ("circle", "square", "diamond", "triangle-up")
_PER_POINT = 4 / 3  # CSS pixels
_EDGE = 0.045  # inches


def draw(picture: Picture) -> Any:
    """Return the picture as a plotly `Figure`.

    Raises:
        MissingExtraError: plotly is not installed.
    """
    try:
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots
    except ImportError as error:
        raise MissingExtraError("plotly", "catena-view") from error
    titles = [escape(panel.title) for panel in picture.panels]
    count = len(picture.panels)
    shape: dict[str, Any] = {"rows": count, "cols": 1} if picture.stacked else {"rows": 1, "cols": count}
    if picture.stacked:
        shape["vertical_spacing"] = min(0.9 / picture.height, 0.9 / count)  # room for ticks and the next title
    figure = make_subplots(**shape, subplot_titles=titles if any(titles) else None)
    named: set[str] = set()
    for number, panel in enumerate(picture.panels, start=1):
        row, column = (number, 1) if picture.stacked else (1, number)
        suffix = "" if number == 1 else str(number)
        axes = {"xref": f"x{suffix}", "yref": f"y{suffix}"}  # as plotly names those of a panel
        for mark in panel.marks:
            for trace in _TRACES[type(mark)](go, mark, figure, axes):
                first = bool(trace.name) and trace.name not in named and trace.showlegend is not False
                trace.update(showlegend=first, legendgroup=trace.name)
                named.add(trace.name or "")
                figure.add_trace(trace, row=row, col=column)
        _axes(figure, panel, row, column)
    _frame(figure, picture)
    return figure


def save(picture: Picture, path: Path) -> None:
    """Write the picture as one HTML file that works without a network."""
    page = draw(picture).to_html(
        include_plotlyjs=True, full_html=True, div_id="picture", config={"displaylogo": False, "responsive": False}
    )
    head = f"<head><title>{escape(picture.title)}</title>"
    named = f'<div role="figure" aria-label="{escape(picture.text)}"><div id="picture"'
    page = page.replace("<head>", head, 1).replace('<div id="picture"', named, 1)
    path.write_text(page.replace("</body>", "</div></body>", 1), encoding="utf-8")


def _frame(figure: Any, picture: Picture) -> None:
    lines = textwrap.wrap(picture.caption, int(picture.width * 15))
    below = 70 + _CAPTION_LINE * len(lines)
    figure.update_layout(
        title={"text": f"<b>{escape(picture.title)}</b>", "x": 0.01, "font": {"size": 16}},
        width=int(picture.width * PER_INCH) + 60,
        height=int(picture.height * PER_INCH) + 40 + below - 70,
        margin={"l": 70, "r": 20, "t": 80, "b": below},
        template="plotly_white",
        font={"family": "Helvetica, Arial, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif"},
        hovermode="closest",
        barmode="overlay",
    )
    figure.add_annotation(
        text="<br>".join(map(escape, lines)), xref="paper", yref="paper", x=0, y=0, xanchor="left", yanchor="top",
        yshift=-50, showarrow=False, align="left", font={"size": 12, "color": "#333333"},
    )  # fmt: skip


def _axes(figure: Any, panel: Panel, row: int, column: int) -> None:
    for axis, update in ((panel.x, figure.update_xaxes), (panel.y, figure.update_yaxes)):
        update(**_axis(axis), row=row, col=column)
    if panel.drawing:
        anchor = f"x{max(row, column)}".removesuffix("1")
        figure.update_xaxes(visible=False, row=row, col=column)
        figure.update_yaxes(visible=False, scaleanchor=anchor, row=row, col=column)
        figure.update_layout(legend={"itemsizing": "constant"})


def _axis(axis: Axis) -> dict[str, Any]:
    made: dict[str, Any] = {"title": {"text": escape(axis.label)}, "zeroline": False}
    if axis.logarithmic:
        made["type"] = "log"
    if axis.ticks is not None:
        made |= {"tickvals": [at for at, _ in axis.ticks], "ticktext": [escape(text) for _, text in axis.ticks]}
    if axis.limits is not None:
        made["range"] = [log10(end) for end in axis.limits] if axis.logarithmic else list(axis.limits)
    return made


def _points(go: Any, mark: Points, *_: Any) -> list[Any]:
    faint = mark.series < 0
    look = {
        "color": colour(mark.series), "symbol": "circle" if faint else _SHAPES[mark.series % len(_SHAPES)],
        "size": 15 if mark.large else 5 if faint else 8, "opacity": 0.6 if faint else 0.85,
        "line": {"width": 0.5, "color": "white"},
    }  # fmt: skip
    names = [_lines(name) for name in mark.names]
    text = {"text": names, "hovertemplate": "%{text}<extra></extra>"} if names else {}
    return [go.Scatter(x=list(mark.x), y=list(mark.y), mode="markers", name=escape(mark.label), marker=look, **text)]


def _lines(text: str) -> str:
    """Return text as plotly's markup, with its line breaks."""
    return escape(text).replace("\n", "<br>")


def _line(go: Any, mark: LineMark, *_: Any) -> list[Any]:
    shade, shape = colour(mark.series), "hv" if mark.step else "linear"
    traces = []
    if mark.low:
        bounds = ((mark.high, "none"), (mark.low, "tonexty"))
        traces += [
            go.Scatter(
                x=list(mark.x), y=list(bound), mode="lines", line={"width": 0, "shape": shape}, fill=fill,
                fillcolor=_pale(shade, 0.15), hoverinfo="skip", showlegend=False, name=escape(mark.label),
            )
            for bound, fill in bounds
        ]  # fmt: skip
    look: dict[str, Any] = {"color": shade, "dash": _DASHES[mark.series % len(_DASHES)], "shape": shape}
    look["width"] = 2.2 if mark.series >= 0 else 1.0
    extra: dict[str, Any] = {}
    if mark.filled:
        extra |= {"fill": "tozeroy", "fillcolor": _pale(shade, 0.10 if mark.series >= 0 else 0.4)}
    if not mark.hovers:
        extra["hoverinfo"] = "skip"
    dots = {"symbol": _SHAPES[mark.series % len(_SHAPES)], "size": 8}
    traces.append(
        go.Scatter(
            x=list(mark.x), y=list(mark.y), mode="lines+markers" if mark.dotted else "lines", line=look, marker=dots,
            name=escape(mark.label), **extra,
        )
    )  # fmt: skip
    return traces


def _bars(go: Any, mark: Bars, *_: Any) -> list[Any]:
    bounds = list(mark.intervals) or [None] * len(mark.y)
    pairs = list(zip(mark.lengths, bounds, strict=True))
    error = {
        "type": "data", "symmetric": False, "color": "#222222", "thickness": 1.4,
        "array": [0.0 if bound is None else bound[1] - length for length, bound in pairs],
        "arrayminus": [0.0 if bound is None else length - bound[0] for length, bound in pairs],
    }  # fmt: skip
    trace = go.Bar(
        x=list(mark.lengths), y=list(mark.y), orientation="h", width=mark.thickness, name=escape(mark.label),
        marker={"color": colour(mark.series), "opacity": 0.85}, error_x=error if any(bounds) else None,
        hovertemplate="%{x:.3f}<extra></extra>", text=[f"{length:.3f}" for length in mark.lengths],
        textposition="inside", insidetextanchor="start",
    )  # fmt: skip
    return [trace]


def _arrows(go: Any, mark: Arrows, figure: Any, at: dict[str, str]) -> list[Any]:
    for (x0, y0), (x1, y1) in zip(mark.tails, mark.heads, strict=True):
        figure.add_annotation(
            x=x1, y=y1, ax=x0, ay=y0, axref=at["xref"], ayref=at["yref"], **at,
            showarrow=True, arrowhead=2, arrowwidth=1.2, arrowcolor="#666666", opacity=0.7, text="",
        )  # fmt: skip
    return []


def _spans(go: Any, mark: Spans, figure: Any, at: dict[str, str]) -> list[Any]:
    """Shade the spans; return what stands for them in the legend."""
    for first, last in mark.spans:
        figure.add_shape(
            type="rect", x0=first, x1=last, y0=0, y1=1, xref=at["xref"], yref=f"{at['yref']} domain",
            fillcolor=SHADE, opacity=0.35, line_width=0, layer="below",
        )  # fmt: skip
    look = {"color": SHADE, "symbol": "square", "size": 12, "opacity": 0.6}
    return [go.Scatter(x=[None], y=[None], mode="markers", marker=look, name=escape(mark.label))]


def _labels(go: Any, mark: Labels, *_: Any) -> list[Any]:
    trace = go.Scatter(
        x=list(mark.x), y=list(mark.y), mode="text", text=[escape(text) for text in mark.texts],
        textposition="middle right" if mark.leading else "middle center",
        hovertext=[_lines(name) for name in mark.names],
        hovertemplate="%{hovertext}<extra></extra>", textfont={"size": 10, "color": "#333333"}, showlegend=False,
    )  # fmt: skip
    return [trace]


def _cells(go: Any, mark: Cells, *_: Any) -> list[Any]:
    names = [[_lines(name) for name in row] for row in reversed(mark.names)]
    places = [number + 0.5 for number in range(len(mark.values))]
    texts = [[escape(text) for text in row] for row in reversed(mark.texts)]
    written = {"text": texts, "texttemplate": "%{text}"} if texts else {}
    trace = go.Heatmap(
        x=list(mark.x), y=places, z=[list(row) for row in reversed(mark.values)], zmin=mark.low, zmax=mark.high,
        colorscale="Cividis", colorbar={"title": {"text": escape(mark.label)}}, hovertext=names,
        hovertemplate="%{hovertext}<extra></extra>", hoverongaps=False, showlegend=False, **written,
    )  # fmt: skip
    return [trace]


def _pale(shade: str, opacity: float) -> str:
    red, green, blue = (int((shade or GREY)[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def _strokes(go: Any, mark: Strokes, *_: Any) -> list[Any]:
    """Return lines, their tips, and unseen dots in their middles, which are what hovering meets: all of one group."""
    group: dict[str, Any] = {"name": escape(mark.label), "opacity": mark.opacity}
    line = {"color": mark.colour, "width": mark.width * _PER_POINT, "dash": _STROKE_DASHES[mark.dash]}
    made = [go.Scatter(**_joined(mark.paths), mode="lines", line=line, hoverinfo="skip", **group)]
    if not mark.label:
        made[0].update(showlegend=False)
    if mark.heads:
        corners = [tip(path, length=tip_length(mark.width)) for path in mark.paths]
        made.append(
            go.Scatter(
                **_joined([(*each, each[0]) for each in corners]), mode="lines", fill="toself", fillcolor=mark.colour,
                line={"width": 0, "color": mark.colour}, hoverinfo="skip", showlegend=False, **group,
            )
        )  # fmt: skip
    if mark.names:
        middles = [middle(path) for path in mark.paths]
        made.append(
            go.Scatter(
                x=[x for x, _ in middles], y=[y for _, y in middles], mode="markers", showlegend=False,
                marker={"size": 9, "color": mark.colour, "opacity": 0}, name=escape(mark.label), **_told(mark.names),
            )
        )  # fmt: skip
    return made


def _joined(paths: Any) -> dict[str, list[float | None]]:
    """Return paths as one line with gaps."""
    places = [place for path in paths for place in (*path, (None, None))]
    return {"x": [x for x, _ in places], "y": [y for _, y in places]}


def _discs(go: Any, mark: Discs, *_: Any) -> list[Any]:
    look = {
        "color": mark.colour, "size": mark.size * _PER_POINT, "opacity": mark.opacity,
        "symbol": _DISC_SHAPES[mark.shape % len(_DISC_SHAPES)],
        "line": {"width": 1.5 if mark.texts else 0.4, "color": "white"},
    }  # fmt: skip
    written: dict[str, Any] = {}
    if mark.texts:
        font = {"size": letter_size(mark) * _PER_POINT, "color": "white"}
        written = {"text": [f"<b>{escape(text)}</b>" for text in mark.texts], "textfont": font}
    trace = go.Scatter(
        x=[x for x, _ in mark.places], y=[y for _, y in mark.places], marker=look, name=escape(mark.label),
        mode="markers+text" if mark.texts else "markers", showlegend=None if mark.label else False, **written,
        **_told(mark.names),
    )  # fmt: skip
    return [trace]


def _cards(go: Any, mark: Cards, figure: Any, at: dict[str, str]) -> list[Any]:
    """Put the boxes and their texts into the figure; return unseen dots in their middles, to hover over."""
    for card in mark.cards:
        box = {"type": "rect", "y0": card.bottom, "y1": card.top, **at}
        line = {"color": "#C8C8C8", "width": 1}
        figure.add_shape(x0=card.left, x1=card.right, fillcolor="white", line=line, **box)
        figure.add_shape(x0=card.left, x1=card.left + _EDGE, fillcolor=card.colour, line={"width": 0}, **box)
        figure.add_annotation(
            x=card.left + _EDGE + 0.01, y=card.top, xanchor="left", yanchor="top", align="left", showarrow=False,
            text="<br>".join(
                f"<b>{escape(line)}</b>" if at < card.bold else escape(line) for at, line in enumerate(card.lines)
            ),
            font={"size": 10, "color": "#222222"}, **at,
        )  # fmt: skip
    trace = go.Scatter(
        x=[(card.left + card.right) / 2 for card in mark.cards],
        y=[(card.bottom + card.top) / 2 for card in mark.cards], mode="markers", showlegend=False,
        marker={"size": 40, "opacity": 0, "color": "#FFFFFF"}, **_told([card.name for card in mark.cards]),
    )  # fmt: skip
    return [trace]


def _texts(go: Any, mark: TextMarks, figure: Any, at: dict[str, str]) -> list[Any]:
    for (x, y), text in zip(mark.places, mark.texts, strict=True):
        shown = _lines(text)
        figure.add_annotation(
            x=x, y=y, **at, text=f"<b>{shown}</b>" if mark.bold else shown,
            xanchor="left" if mark.leading else "center", showarrow=False, captureevents=False,
            bgcolor="rgba(255,255,255,0.82)", borderpad=1,
            font={"size": mark.size * _PER_POINT, "color": mark.colour},
        )  # fmt: skip
    return []


def _told(names: Any) -> dict[str, Any]:
    """Return what shows on hovering, as plotly's markup."""
    if not any(names):
        return {"hoverinfo": "skip"}
    return {
        "hovertext": [_lines(name) for name in names],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "hoverlabel": {"align": "left", "bgcolor": "white"},
    }


_TRACES: dict[type, Any] = {
    LineMark: _line, Points: _points, Bars: _bars, Arrows: _arrows, Cells: _cells, Spans: _spans, Labels: _labels,
    Strokes: _strokes, Discs: _discs, Cards: _cards, TextMarks: _texts,
}  # fmt: skip
"""By kind of mark, what returns its traces; what is none (arrows, boxes, texts) is put into the figure."""
