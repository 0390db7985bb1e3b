"""Marks of drawings that have no axes: strokes, discs, cards and texts; places are in inches, y upwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from typing import Literal, TypeAlias

Place: TypeAlias = tuple[float, float]
Dash: TypeAlias = Literal["solid", "dashed", "dotted", "dashdot", "dashdotdot", "long"]

LETTER_SIZE = 7.5  # points, of the letters in cards
LINE = 1.32  # heights of letters from one line to the next


@dataclass(frozen=True, slots=True, kw_only=True)
class Strokes:
    """Lines through places, all of one look.

    Attributes:
        width: in points.
        heads: whether a filled tip stands at the end of each.
        names: of each, shown on hovering over its middle; empty for none.
    """

    paths: Sequence[Sequence[Place]]
    label: str
    colour: str
    dash: Dash = "solid"
    width: float = 1.0
    opacity: float = 1.0
    heads: bool = False
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Discs:
    """Nodes of one look.

    Attributes:
        size: diameter in points.
        shape: number of the shape, from 0, a disc.
        texts: written inside, white; empty for none.
        names: shown on hovering.
    """

    places: Sequence[Place]
    label: str
    colour: str
    size: float
    opacity: float = 1.0
    shape: int = 0
    texts: Sequence[str] = ()
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A box with a coloured left edge and lines, the first `bold` of them its title; `name` shows on hovering."""

    left: float
    bottom: float
    right: float
    top: float
    lines: Sequence[str]
    colour: str
    bold: int = 1
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """Cards, none of which touches another."""

    cards: Sequence[Card]


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Short texts about places, or from there on where `leading`, on white so that what lies below is no trouble."""

    places: Sequence[Place]
    texts: Sequence[str]
    size: float = LETTER_SIZE - 1
    colour: str = "#333333"
    bold: bool = False
    leading: bool = False


GraphMark: TypeAlias = Strokes | Discs | Cards | Texts


def letter_size(mark: Discs) -> float:
    """Return the size in points of what is written in discs, so that the longest of it fits."""
    return mark.size * (0.55 if max(map(len, mark.texts), default=0) < 3 else 0.42)


def tip(path: Sequence[Place], *, length: float) -> tuple[Place, Place, Place]:
    """Return the corners of the triangle at the end of a path, `length` inches long and 0.8 times as wide."""
    (x0, y0), (x1, y1) = path[-2], path[-1]
    reach = hypot(x1 - x0, y1 - y0) or 1.0
    dx, dy = (x1 - x0) / reach * length, (y1 - y0) / reach * length
    base = (x1 - dx, y1 - dy)
    return (x1, y1), (base[0] - 0.4 * dy, base[1] + 0.4 * dx), (base[0] + 0.4 * dy, base[1] - 0.4 * dx)


def tip_length(width: float) -> float:
    """Return how long the tip of a stroke of `width` points is, in inches."""
    return 0.07 + 0.02 * width


def middle(path: Sequence[Place]) -> Place:
    """Return the place in the middle of a path, of its points or between the two middle ones."""
    (x0, y0), (x1, y1) = path[(len(path) - 1) // 2], path[len(path) // 2]
    return (x0 + x1) / 2, (y0 + y1) / 2
