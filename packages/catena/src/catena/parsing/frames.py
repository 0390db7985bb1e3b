"""Coordinates of a PDF page: from its own user space to points from the top left corner of the page as shown."""

from __future__ import annotations

from math import isfinite
from typing import TypeAlias

Sides: TypeAlias = tuple[float, float, float, float]  # left, bottom, right, top
Matrix: TypeAlias = tuple[float, float, float, float, float, float]
IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
LETTER = (612.0, 792.0)  # points; for a page whose box says nothing


def multiply(m: Matrix, n: Matrix) -> Matrix:
    """Return the matrix that applies `m` first and `n` then, for row vectors as PDF has them."""
    a, b, c, d, e, f = m
    p, q, r, s, t, u = n
    return (a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u)


def shown_box(media: Sides, crop: Sides) -> Sides:
    """Return what a viewer shows of a page: the crop box as far as it lies in the media box, or else the latter.

    The corners of either may come in any order (ISO 32000-2, 7.9.5 and 14.11.2).
    """
    media, crop = _ordered(media), _ordered(crop)
    left, bottom = max(media[0], crop[0]), max(media[1], crop[1])
    right, top = min(media[2], crop[2]), min(media[3], crop[3])
    return (left, bottom, right, top) if left < right and bottom < top else media


def _ordered(box: Sides) -> Sides:
    left, bottom, right, top = box
    return min(left, right), min(bottom, top), max(left, right), max(bottom, top)


def page_frame(box: Sides, rotation: int) -> tuple[float, float, Matrix]:
    """Return width and height of a page as shown, and the matrix from its user space to its top left corner.

    Args:
        box: left, bottom, right, top of the crop box, in user space.
        rotation: clockwise, in degrees.
    """
    left, bottom, right, top = box
    width, height = right - left, top - bottom
    if not (0 < width < 1e6 and 0 < height < 1e6 and isfinite(left) and isfinite(bottom)):
        left, bottom, (width, height) = 0.0, 0.0, LETTER
    right, top = left + width, bottom + height
    match rotation % 360:
        case 90:
            return height, width, (0.0, 1.0, 1.0, 0.0, -bottom, -left)
        case 180:
            return width, height, (-1.0, 0.0, 0.0, 1.0, right, -bottom)
        case 270:
            return height, width, (0.0, -1.0, -1.0, 0.0, top, right)
        case _:
            return width, height, (1.0, 0.0, 0.0, -1.0, -left, top)
