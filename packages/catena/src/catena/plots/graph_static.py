"""Drawings without axes as PNG, by matplotlib."""

from __future__ import annotations

from typing import Any

from catena.plots.graph_marks import (
    LETTER_SIZE,
    LINE,
    Cards,
    Discs,
    GraphMark,
    Strokes,
    Texts,
    letter_size,
    tip,
    tip_length,
)

_DASHES: dict[str, Any] = {
    "solid": "-",
    "dashed": (0, (5, 2.5)),
    "dotted": (0, (1, 1.7)),
    "dashdot": (0, (6, 2, 1, 2)),
    "dashdotdot": (0, (7, 1.6, 1, 1.6, 1, 1.6)),
    "long": (0, (11, 3)),
}
_SHAPES = ("o", "s", "D", "^")
_INCH = 72.0  # points
_EDGE = 0.045  # inches, of a card's coloured edge
_KEY = 7.0  # points, of a disc in the legend


def draw(ax: Any, mark: GraphMark) -> None:
    """Draw one mark."""
    match mark:
        case Strokes():
            _strokes(ax, mark)
        case Discs():
            _discs(ax, mark)
        case Cards():
            _cards(ax, mark)
        case Texts():
            box = {"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.82}
            for (x, y), text in zip(mark.places, mark.texts, strict=True):
                ax.text(
                    x, y, text, ha="left" if mark.leading else "center", va="center", fontsize=mark.size,
                    color=mark.colour, bbox=box, zorder=6,
                    fontweight="bold" if mark.bold else "normal", linespacing=1.15,
                )  # fmt: skip


def _strokes(ax: Any, mark: Strokes) -> None:
    from matplotlib.collections import LineCollection, PolyCollection

    lines = LineCollection(
        list(mark.paths), colors=mark.colour, linewidths=mark.width, linestyles=[_DASHES[mark.dash]],
        alpha=mark.opacity, zorder=2,
    )  # fmt: skip
    ax.add_collection(lines, autolim=False)
    if mark.label:  # as dark as can be told apart in the legend, however pale on the page
        ax.plot([], [], linestyle=_DASHES[mark.dash], color=mark.colour, linewidth=max(mark.width, 1.4),
                alpha=max(mark.opacity, 0.75), label=mark.label)  # fmt: skip
    if mark.heads:
        corners = [tip(path, length=tip_length(mark.width)) for path in mark.paths]
        ax.add_collection(PolyCollection(corners, facecolors=mark.colour, linewidths=0, zorder=3), autolim=False)


def _discs(ax: Any, mark: Discs) -> None:
    shape = _SHAPES[mark.shape % len(_SHAPES)]
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
        look: dict[str, Any] = {
            "facecolor": "white",
            "edgecolor": "#C8C8C8",
            "linewidth": 0.7,
            "alpha": 0.96,
            "zorder": 6,
        }
        ax.add_patch(Rectangle((card.left, card.bottom), *size, **look))
        ax.add_patch(Rectangle((card.left, card.bottom), _EDGE, size[1], color=card.colour, linewidth=0, zorder=7))
        left, y = card.left + _EDGE + 0.05, card.top - 0.05
        for number, line in enumerate(card.lines):
            weight, shade = ("bold", "#111111") if number < card.bold else ("normal", "#333333")
            ax.text(
                left, y - number * LETTER_SIZE * LINE / _INCH, line, ha="left", va="top", fontsize=LETTER_SIZE,
                fontweight=weight, color=shade, zorder=8,
            )  # fmt: skip
