"""Drawings without axes, by plotly: the legend switches kinds of edge, hovering shows what is known."""

from __future__ import annotations

from html import escape
from typing import Any

from catena.plots.graph_marks import (
    Cards,
    Discs,
    GraphMark,
    Place,
    Strokes,
    Texts,
    letter_size,
    middle,
    tip,
    tip_length,
)

_DASHES = {
    "solid": "solid", "dashed": "dash", "dotted": "dot", "dashdot": "dashdot",
    "dashdotdot": "longdashdot", "long": "longdash",
}  # fmt: skip
_SHAPES = ("circle", "square", "diamond", "triangle-up")
_PER_POINT = 4 / 3  # CSS pixels
_EDGE = 0.045  # inches


def traces(mark: GraphMark, figure: Any, number: int) -> list[Any]:
    """Return the traces of one mark; what is none (the boxes of cards) is put into the figure.

    Args:
        mark: to draw.
        figure: a plotly figure.
        number: of its panel, from 1.
    """
    import plotly.graph_objects as go

    match mark:
        case Strokes():
            return _strokes(go, mark)
        case Discs():
            return [_discs(go, mark)]
        case Cards():
            return [_cards(go, mark, figure, number)]
        case Texts():
            _texts(mark, figure, number)
    return []


def _strokes(go: Any, mark: Strokes) -> list[Any]:
    """Return lines, their tips, and unseen dots in their middles, which are what hovering meets: all of one group."""
    group: dict[str, Any] = {"name": escape(mark.label), "opacity": mark.opacity}
    line = {"color": mark.colour, "width": mark.width * _PER_POINT, "dash": _DASHES[mark.dash]}
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


def _discs(go: Any, mark: Discs) -> Any:
    look = {
        "color": mark.colour, "size": mark.size * _PER_POINT, "opacity": mark.opacity,
        "symbol": _SHAPES[mark.shape % len(_SHAPES)], "line": {"width": 1.5 if mark.texts else 0.4, "color": "white"},
    }  # fmt: skip
    written: dict[str, Any] = {}
    if mark.texts:
        font = {"size": letter_size(mark) * _PER_POINT, "color": "white"}
        written = {"text": [f"<b>{escape(text)}</b>" for text in mark.texts], "textfont": font}
    return go.Scatter(
        x=[x for x, _ in mark.places], y=[y for _, y in mark.places], marker=look, name=escape(mark.label),
        mode="markers+text" if mark.texts else "markers", showlegend=None if mark.label else False, **written,
        **_told(mark.names),
    )  # fmt: skip


def _cards(go: Any, mark: Cards, figure: Any, number: int) -> Any:
    """Put the boxes and their texts into the figure; return unseen dots in their middles, to hover over."""
    suffix = "" if number == 1 else str(number)
    frame = {"xref": f"x{suffix}", "yref": f"y{suffix}"}
    for card in mark.cards:
        box = {"type": "rect", "y0": card.bottom, "y1": card.top, **frame}
        line = {"color": "#C8C8C8", "width": 1}
        figure.add_shape(x0=card.left, x1=card.right, fillcolor="white", line=line, **box)
        figure.add_shape(x0=card.left, x1=card.left + _EDGE, fillcolor=card.colour, line={"width": 0}, **box)
        figure.add_annotation(
            x=card.left + _EDGE + 0.01, y=card.top, xanchor="left", yanchor="top", align="left", showarrow=False,
            text="<br>".join(
                f"<b>{escape(line)}</b>" if at < card.bold else escape(line) for at, line in enumerate(card.lines)
            ),
            font={"size": 10, "color": "#222222"}, **frame,
        )  # fmt: skip
    middles: list[Place] = [((card.left + card.right) / 2, (card.bottom + card.top) / 2) for card in mark.cards]
    return go.Scatter(
        x=[x for x, _ in middles], y=[y for _, y in middles], mode="markers", showlegend=False,
        marker={"size": 40, "opacity": 0, "color": "#FFFFFF"}, **_told([card.name for card in mark.cards]),
    )  # fmt: skip


def _texts(mark: Texts, figure: Any, number: int) -> None:
    suffix = "" if number == 1 else str(number)
    for (x, y), text in zip(mark.places, mark.texts, strict=True):
        shown = escape(text).replace("\n", "<br>")
        figure.add_annotation(
            x=x, y=y, xref=f"x{suffix}", yref=f"y{suffix}", text=f"<b>{shown}</b>" if mark.bold else shown,
            xanchor="left" if mark.leading else "center", showarrow=False, captureevents=False,
            bgcolor="rgba(255,255,255,0.82)", borderpad=1,
            font={"size": mark.size * _PER_POINT, "color": mark.colour},
        )  # fmt: skip


def _told(names: Any) -> dict[str, Any]:
    """Return what shows on hovering, as plotly's markup."""
    if not any(names):
        return {"hoverinfo": "skip"}
    return {
        "hovertext": [escape(name).replace("\n", "<br>") for name in names],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "hoverlabel": {"align": "left", "bgcolor": "white"},
    }
