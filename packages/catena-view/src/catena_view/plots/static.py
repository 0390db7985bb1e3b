"""Pictures as PNG, by matplotlib: no screen, no global state, equal bytes each time."""

from __future__ import annotations

import textwrap
import warnings
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena.model import MissingExtraError
from catena_view.plots.picture import (
    LETTER_SIZE,
    LINE,
    SHADE,
    Arrows,
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
    tip,
    tip_length,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


DPI = 150
LABEL_SIZE = 7.5  # points

_DASHES = ("-", "--", "-.", ":")
_SHAPES = ("o", "^", "s", "D", "v", "P", "X")
_LARGE, _USUAL, _FAINT = 90, 20, 8  # square points
_DEFAULTS = {"axes", "figure", "font", "grid", "legend", "lines", "patch", "savefig", "text", "xtick", "ytick"}
# Scripts that matplotlib's own font lacks; the first of these that is installed is asked after it.
_MORE_FONTS = ("Noto Sans CJK SC", "Noto Sans SC", "WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC", "SimHei")
_STROKE_DASHES: dict[str, Any] = {
    "solid": "-",
    "dashed": (0, (5, 2.5)),
    "dotted": (0, (1, 1.7)),
    "dashdot": (0, (6, 2, 1, 2)),
    "dashdotdot": (0, (7, 1.6, 1, 1.6, 1, 1.6)),
    "long": (0, (11, 3)),
}
_DISC_SHAPES = ("o", "s", "D", "^")
_INCH = 72.0  # points
_EDGE = 0.045  # inches, of a card's coloured edge
_KEY = 7.0  # points, of a disc in the legend


def draw(picture: Picture) -> Figure:
    """Return the picture as a matplotlib `Figure`.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "catena-view") from error
    with mpl.rc_context(_settings()):
        figure = Figure(figsize=(picture.width, picture.height), dpi=DPI, layout="constrained")
        count = len(picture.panels)
        axes = figure.subplots(*((count, 1) if picture.stacked else (1, count)), squeeze=False).ravel()
        for panel, ax in zip(picture.panels, axes, strict=True):
            _panel(ax, panel)
        figure.suptitle(picture.title, fontsize=12, fontweight="bold", x=0.01, ha="left")
        caption = textwrap.fill(picture.caption, int(picture.width * 14.5))
        figure.supxlabel(caption, fontsize=8.5, color="#333333", x=0.01, ha="left")
        handles = {text: each for ax in axes for each, text in zip(*ax.get_legend_handles_labels(), strict=True)}
        if len(handles) > 1:
            figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=8.5, frameon=False)
    return figure


def save(picture: Picture, path: Path) -> None:
    """Write the picture as PNG."""
    path.write_bytes(png(picture))


def png(picture: Picture) -> bytes:
    """Return the picture as the bytes of a PNG."""
    figure, buffer = draw(picture), BytesIO()
    import matplotlib as mpl

    with mpl.rc_context(_settings()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # such letters are boxes; the HTML has them
        told = {"Title": picture.title, "Description": picture.text}
        unsigned = {"Software": None} | {key: text for key, text in told.items() if text}
        figure.savefig(buffer, format="png", dpi=DPI, metadata=unsigned)
    return buffer.getvalue()


def _settings() -> Any:
    """Return what all pictures are drawn under, whatever a user has set: text is text, never a formula."""
    from matplotlib import font_manager, rcParamsDefault

    there = {font.name for font in font_manager.fontManager.ttflist}
    fonts = ["DejaVu Sans", *[name for name in _MORE_FONTS if name in there][:1]]
    usual = {key: value for key, value in rcParamsDefault.items() if key.partition(".")[0] in _DEFAULTS}
    return {**usual, "text.parse_math": False, "font.family": fonts}


def _panel(ax: Any, panel: Panel) -> None:
    from matplotlib.ticker import NullFormatter

    ax.set_title(panel.title, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, color="#E6E6E6", linewidth=0.7)
    ax.set_axisbelow(True)
    for mark in panel.marks:
        _DRAWN[type(mark)](ax, mark)
    for axis, side in ((panel.x, "x"), (panel.y, "y")):
        getattr(ax, f"set_{side}label")(axis.label, fontsize=9)
        if axis.logarithmic:
            getattr(ax, f"set_{side}scale")("log")
        if axis.ticks is not None:
            places, labels = [at for at, _ in axis.ticks], [text for _, text in axis.ticks]
            getattr(ax, f"set_{side}ticks")(places, labels)
            ax.tick_params(axis=side, which="minor", length=0)
            getattr(ax, f"{side}axis").set_minor_formatter(NullFormatter())
        if axis.limits is not None:
            getattr(ax, f"set_{side}lim")(*axis.limits)
        ax.tick_params(axis=side, which="major", labelsize=8.5)
    if panel.drawing:
        ax.set_axis_off()
        ax.set_aspect("equal")


def _points(ax: Any, mark: Points) -> None:
    shape = _SHAPES[mark.series % len(_SHAPES)]
    faint = mark.series < 0
    size = _LARGE if mark.large else _FAINT if faint else _USUAL
    ax.scatter(
        mark.x, mark.y, s=size, c=colour(mark.series), marker="o" if faint else shape,
        alpha=0.6 if faint else 0.85, linewidths=0.3, edgecolors="white", label=mark.label, zorder=3,
    )  # fmt: skip


def _arrows(ax: Any, mark: Arrows) -> None:
    style = {"arrowstyle": "-|>", "color": "#666666", "lw": 0.9, "shrinkA": 2, "shrinkB": 2, "alpha": 0.7}
    for tail, head in zip(mark.tails, mark.heads, strict=True):
        ax.annotate("", xy=head, xytext=tail, arrowprops=style)


def _spans(ax: Any, mark: Spans) -> None:
    for number, (first, last) in enumerate(mark.spans):
        label = "" if number else mark.label
        ax.axvspan(first, last, color=SHADE, alpha=0.35, linewidth=0, label=label, zorder=0)


def _labels(ax: Any, mark: Labels) -> None:
    side = "left" if mark.leading else "center"
    for x, y, text in zip(mark.x, mark.y, mark.texts, strict=True):
        ax.text(x, y, text, ha=side, va="center", fontsize=LABEL_SIZE, color="#333333", clip_on=True)


def _line(ax: Any, mark: LineMark) -> None:
    shade = colour(mark.series)
    dash = _DASHES[mark.series % len(_DASHES)]
    drawn = "steps-post" if mark.step else "default"
    step = {"step": "post"} if mark.step else {}
    if mark.low:
        ax.fill_between(mark.x, mark.low, mark.high, color=shade, alpha=0.15, linewidth=0, **step)
    if mark.filled:
        alpha = 0.10 if mark.series >= 0 else 0.4
        ax.fill_between(mark.x, mark.y, color=shade, alpha=alpha, linewidth=0, **step)
    shape = _SHAPES[mark.series % len(_SHAPES)] if mark.dotted else None
    ax.plot(
        mark.x, mark.y, dash, color=shade, linewidth=1.8 if mark.series >= 0 else 1.0, drawstyle=drawn, marker=shape,
        markersize=5, label=mark.label,
    )  # fmt: skip


def _bars(ax: Any, mark: Bars) -> None:
    ax.barh(mark.y, mark.lengths, height=mark.thickness, color=colour(mark.series), alpha=0.85, label=mark.label)
    for place, length, interval in zip(mark.y, mark.lengths, mark.intervals or [None] * len(mark.y), strict=True):
        end = length
        if interval is not None:
            ax.plot(interval, [place, place], "-", color="#222222", linewidth=1.2)
            for edge in interval:
                ax.plot([edge, edge], [place - 0.12, place + 0.12], "-", color="#222222", linewidth=1.2)
            end = max(length, interval[1])
        ax.annotate(f"{length:.3f}", (end, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)
    ax.grid(visible=False, axis="y")


def _cells(ax: Any, mark: Cells) -> None:
    import numpy as np

    values = np.array([[np.nan if cell is None else cell for cell in row] for row in mark.values], dtype=float)
    edges = [mark.x[0] - 0.5, *((one + two) / 2 for one, two in pairwise(mark.x)), mark.x[-1] + 0.5]
    drawn = ax.pcolormesh(
        edges, np.arange(len(values) + 1), values[::-1], cmap="cividis", vmin=mark.low, vmax=mark.high
    )
    ax.grid(visible=False)
    for row, texts in enumerate(mark.texts):
        for x, value, text in zip(mark.x, values[row], texts, strict=True):
            dark = not value > (mark.low + mark.high) / 2  # an empty cell has no text
            place, shade = (x, len(values) - row - 0.5), "white" if dark else "#222222"
            ax.text(*place, text, ha="center", va="center", fontsize=LABEL_SIZE + 1, color=shade, clip_on=True)
    bar = ax.figure.colorbar(drawn, ax=ax, extend="neither" if mark.low == 0 else "min", fraction=0.04, pad=0.02)
    bar.set_label(mark.label, fontsize=8.5)
    bar.ax.tick_params(labelsize=8)


def _texts(ax: Any, mark: TextMarks) -> None:
    box = {"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.82}
    for (x, y), text in zip(mark.places, mark.texts, strict=True):
        ax.text(
            x, y, text, ha="left" if mark.leading else "center", va="center", fontsize=mark.size, color=mark.colour,
            bbox=box, zorder=6, fontweight="bold" if mark.bold else "normal", linespacing=1.15,
        )  # fmt: skip


def _strokes(ax: Any, mark: Strokes) -> None:
    from matplotlib.collections import LineCollection, PolyCollection

    lines = LineCollection(
        list(mark.paths), colors=mark.colour, linewidths=mark.width, linestyles=[_STROKE_DASHES[mark.dash]],
        alpha=mark.opacity, zorder=2,
    )  # fmt: skip
    ax.add_collection(lines, autolim=False)
    if mark.label:  # as dark as can be told apart in the legend, however pale on the page
        ax.plot([], [], linestyle=_STROKE_DASHES[mark.dash], color=mark.colour, linewidth=max(mark.width, 1.4),
                alpha=max(mark.opacity, 0.75), label=mark.label)  # fmt: skip
    if mark.heads:
        corners = [tip(path, length=tip_length(mark.width)) for path in mark.paths]
        ax.add_collection(PolyCollection(corners, facecolors=mark.colour, linewidths=0, zorder=3), autolim=False)


def _discs(ax: Any, mark: Discs) -> None:
    shape = _DISC_SHAPES[mark.shape % len(_DISC_SHAPES)]
    look = {"c": mark.colour, "marker": shape, "edgecolors": "white"}
    ax.scatter(
        [x for x, _ in mark.places], [y for _, y in mark.places], s=mark.size**2, alpha=mark.opacity,
        linewidths=0.3 if not mark.texts else 1.2, zorder=5 if mark.texts else 3, **look,
    )  # fmt: skip
    if mark.label:
        ax.scatter([], [], s=_KEY**2, linewidths=0.3, label=mark.label, **look)
    for (x, y), text in zip(mark.places, mark.texts or [""] * len(mark.places), strict=True):
        ax.text(
            x, y, text, ha="center", va="center_baseline", fontsize=letter_size(mark), color="white",
            fontweight="bold", zorder=6,
        )  # fmt: skip


def _cards(ax: Any, mark: Cards) -> None:
    from matplotlib.patches import Rectangle

    for card in mark.cards:
        size = card.right - card.left, card.top - card.bottom
        look: dict[str, Any] = {"facecolor": "white", "edgecolor": "#C8C8C8", "linewidth": 0.7, "alpha": 0.96}
        ax.add_patch(Rectangle((card.left, card.bottom), *size, zorder=6, **look))
        ax.add_patch(Rectangle((card.left, card.bottom), _EDGE, size[1], color=card.colour, linewidth=0, zorder=7))
        left, y = card.left + _EDGE + 0.05, card.top - 0.05
        for number, line in enumerate(card.lines):
            weight, shade = ("bold", "#111111") if number < card.bold else ("normal", "#333333")
            ax.text(
                left, y - number * LETTER_SIZE * LINE / _INCH, line, ha="left", va="top", fontsize=LETTER_SIZE,
                fontweight=weight, color=shade, zorder=8,
            )  # fmt: skip


_DRAWN: dict[type, Any] = {
    LineMark: _line, Points: _points, Bars: _bars, Arrows: _arrows, Cells: _cells, Spans: _spans, Labels: _labels,
    Strokes: _strokes, Discs: _discs, Cards: _cards, TextMarks: _texts,
}  # fmt: skip
"""By kind of mark, what draws it into axes."""
