"""What is drawn on a page, as boxes with a kind: rules, rectangles, other ink, images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

ShapeKind: TypeAlias = Literal["rule", "box", "ink", "image"]
"""A straight line along an axis; a rectangle (corners may be round); any other path or shading; a bitmap."""

RULE = 2.5  # points: a shape thinner than this is a line
_ON = 0.75  # points: how far a point may be from an edge and still lie on it


class Box(NamedTuple):
    """A rectangle on the page as shown, in points, y downwards."""

    x0: float
    top: float
    x1: float
    bottom: float

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def area(self) -> float:
        return max(0.0, self.width) * max(0.0, self.height)

    def grown(self, by: float) -> Box:
        """Return the box with a margin of so many points."""
        return Box(self.x0 - by, self.top - by, self.x1 + by, self.bottom + by)

    def meets(self, other: Box) -> bool:
        """Return whether the two share a point."""
        across = self.x0 <= other.x1 and other.x0 <= self.x1
        return across and self.top <= other.bottom and other.top <= self.bottom

    def common(self, other: Box) -> Box:
        """Return what both cover; of negative width or height where they are apart."""
        return Box(
            max(self.x0, other.x0), max(self.top, other.top), min(self.x1, other.x1), min(self.bottom, other.bottom)
        )

    def holds(self, other: Box) -> bool:
        """Return whether the centre of the other lies in this one."""
        across, down = (other.x0 + other.x1) / 2, (other.top + other.bottom) / 2
        return self.x0 <= across <= self.x1 and self.top <= down <= self.bottom


def union(boxes: Iterable[Box]) -> Box:
    """Return the smallest box around all of them; at least one is needed."""
    x0, top, x1, bottom = zip(*boxes, strict=True)
    return Box(min(x0), min(top), max(x1), max(bottom))


class Shape(NamedTuple):
    """One thing that is drawn.

    Attributes:
        solid: filled with a colour that is not white.
        group: number of the form (an embedded drawing) it is part of, 0 for none.
        mark: tells contents of equal size apart, e.g. two bitmaps.
    """

    kind: ShapeKind
    box: Box
    solid: bool = False
    group: int = 0
    mark: int = 0


class Drawn(NamedTuple):
    """What a page shows besides its lines of text: shapes, and the boxes of its text objects, turned ones too."""

    shapes: list[Shape]
    texts: list[Box]


Point: TypeAlias = tuple[float, float]


def kind_of_path(points: Sequence[Point], curved: bool, box: Box) -> ShapeKind:
    """Return what one subpath is.

    Args:
        points: its corners and control points, on the page as shown.
        curved: whether there is a curve in it.
        box: what is seen of it.
    """
    if not curved and min(box.width, box.height) <= RULE:
        return "rule"
    whole = union(Box(x, y, x, y) for x, y in points)
    on_border = all(
        min(abs(x - whole.x0), abs(x - whole.x1), abs(y - whole.top), abs(y - whole.bottom)) <= _ON for x, y in points
    )
    straight = [
        (a, b)
        for a, b in zip(points, [*points[1:], points[0]], strict=True)
        if abs(a[0] - b[0]) <= _ON or abs(a[1] - b[1]) <= _ON
    ]
    sides = sum(abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in straight)
    around = 2 * (whole.width + whole.height)
    # the arcs of an ellipse lie on its border too, but no long side does
    return "box" if on_border and len(points) >= 4 and sides >= (0.75 if curved else 0.95) * around else "ink"
