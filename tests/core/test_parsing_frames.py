"""Where a point of a page's own user space is on the page as shown."""

from __future__ import annotations

import math

import pytest

from catena.parsing.frames import IDENTITY, LETTER, Matrix, multiply, page_frame, shown_box

BOX = (10.0, 20.0, 110.0, 320.0)  # left, bottom, right, top: 100 wide, 300 high, away from the origin


def at(point: tuple[float, float], frame: Matrix) -> tuple[float, float]:
    x, y = multiply((1.0, 0.0, 0.0, 1.0, *point), frame)[4:]
    return x, y


@pytest.mark.parametrize(
    ("rotation", "size", "shown"),
    [
        (0, (100, 300), (5, 293)),
        (90, (300, 100), (7, 5)),
        (180, (100, 300), (95, 7)),
        (270, (300, 100), (293, 95)),
        (360, (100, 300), (5, 293)),
        (-90, (300, 100), (293, 95)),
        (450, (300, 100), (7, 5)),
    ],
)
def test_a_point_5_right_of_and_7_above_the_lower_left_corner(
    rotation: int, size: tuple[float, float], shown: tuple[float, float]
) -> None:
    width, height, frame = page_frame(BOX, rotation)
    assert (width, height) == size
    assert at((15.0, 27.0), frame) == shown


@pytest.mark.parametrize(
    "box",
    [
        (0, 0, 0, 10),
        (0, 0, 10, 0),
        (5, 0, 1, 9),
        (0, 0, 2e6, 9),
        (0, 0, 9, 2e6),
        (math.nan, 0, 9, 9),
        (0, math.inf, 9, 9),
    ],
)
def test_a_box_that_says_nothing_is_a_letter_page(box: tuple[float, float, float, float]) -> None:
    width, height, frame = page_frame(box, 0)
    assert (width, height) == LETTER
    assert at((0.0, 792.0), frame) == (0.0, 0.0)


def test_the_first_matrix_is_applied_first() -> None:
    twice, moved = (2.0, 0.0, 0.0, 2.0, 0.0, 0.0), (1.0, 0.0, 0.0, 1.0, 3.0, 4.0)
    assert at((1.0, 1.0), multiply(twice, moved)) == (5.0, 6.0)
    assert at((1.0, 1.0), multiply(moved, twice)) == (8.0, 10.0)
    assert multiply(twice, IDENTITY) == twice


@pytest.mark.parametrize(
    ("crop", "shown"),
    [
        ((50, 150, 500, 600), (50, 150, 500, 600)),
        ((500, 600, 50, 150), (50, 150, 500, 600)),  # corners in another order
        ((-50, -50, 700, 900), (0, 0, 612, 792)),  # beyond the paper
        ((500, 500, 500, 500), (0, 0, 612, 792)),  # empty
        ((700, 0, 900, 792), (0, 0, 612, 792)),  # beside it
    ],
)
def test_a_crop_box_shows_what_lies_in_the_media_box(
    crop: tuple[float, float, float, float], shown: tuple[float, float, float, float]
) -> None:
    assert shown_box((0, 0, 612, 792), crop) == shown
    assert shown_box((612, 792, 0, 0), crop) == shown
