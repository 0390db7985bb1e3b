"""From runs to lines, and from user space to the page as shown: laws that hold for any page, and a few numbers."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from case_files import rows_of
from hypothesis import given
from hypothesis import strategies as st

from catena.parsing.lines import page_lines, reading_blocks
from catena.parsing.pages import IDENTITY, LETTER, Matrix, multiply, page_frame, placed, shown_box
from catena.parsing.runs import Gathered, Run, Style, readable_text, style_of

PLAIN = Style()


def run(
    text: str, x: float, y: float, *, size: float = 10.0, width: float | None = None, turned: bool = False
) -> Run:
    """Return a run whose letters are half as wide as high."""
    return Run(text, x, x + (0.5 * size * len(text) if width is None else width), y, size, PLAIN, turned)


RUNS = st.lists(
    st.builds(
        run, st.text("abcxyz", min_size=1, max_size=30), st.integers(0, 500), st.integers(0, 800),
        size=st.sampled_from([6.0, 10.0, 20.0]), turned=st.sampled_from([False, False, False, True]),
    ),
    max_size=60,
    unique_by=lambda run: (run.text, run.x0, run.y),
)  # fmt: skip


@given(RUNS, st.integers(1, 300))
def test_no_text_is_lost_or_doubled_wherever_the_page_stands(runs: list[Run], shift: int) -> None:
    lines = page_lines(runs)
    letters = Counter("".join(run.text for run in runs))
    assert Counter("".join(line.text for line in lines).replace(" ", "")) == letters
    assert Counter("".join(span.text for line in lines for span in line.spans).replace(" ", "")) == letters
    for line in lines:
        assert line.top < line.bottom
        assert [span.x0 for span in line.spans] == sorted(span.x0 for span in line.spans)
    assert Counter(run for block in reading_blocks(runs) for run in block.runs) == Counter(runs)
    moved = [run._replace(x0=run.x0 + shift, x1=run.x1 + shift, y=run.y + shift) for run in runs]
    assert [line.text for line in page_lines(moved)] == [line.text for line in lines]


@pytest.mark.parametrize(
    ("gap", "text", "spans"),
    [(0.0, "onetwo", 1), (1.4, "onetwo", 1), (1.5, "one two", 1), (6.9, "one two", 1), (7.0, "one two", 2)],
)
def test_gaps_are_measured_in_the_size(gap: float, text: str, spans: int) -> None:
    (line,) = page_lines([run("one", 0, 50), run("two", 15 + gap, 50)])
    assert (line.text, len(line.spans)) == (text, spans)


@pytest.mark.parametrize(("dy", "size", "small", "read"), rows_of("cases_raised_runs.txt"))
def test_raised_and_lowered_runs_stay_on_their_line(dy: float, size: float, small: str, read: str) -> None:
    lines = page_lines([run("base", 0, 50), run(small, 20, 50 + dy, size=size)])
    assert "|".join(line.text for line in lines) == read


@pytest.mark.parametrize(
    ("before", "behind", "read"), [(1, 9, "a¹ b"), (1.1, 9, "a 1 b"), (9, 1, "a ¹b"), (9, 1.1, "a 1 b")]
)
def test_a_raised_digit_is_one_that_touches_its_word(before: float, behind: float, read: str) -> None:
    around = [run("a", 0, 50), run("1", 5 + before, 47, size=7), run("b", 8.5 + before + behind, 50)]
    assert [line.text for line in page_lines(around)] == [read]


def test_a_line_has_the_place_of_all_its_runs_and_small_ones_join_the_nearest() -> None:
    runs = [run("above", 0, 50, size=20), run("x", 50, 61, size=7), run("below", 0, 66, size=20)]
    one, other = page_lines([*runs, run("wide", 60, 66)])
    assert (one.text, other.text) == ("above", "belowx wide")
    assert (other.x0, other.x1, other.top, other.bottom) == (0, 80, 50, 70)
    spans = [(span.text, span.x0, span.x1, span.size) for span in other.spans]
    assert spans == [("below", 0, 50, 20), ("x", 50, 53.5, 7), ("wide", 60, 80, 10)]


def test_text_after_the_columns_comes_after_them() -> None:
    wide = run("a line over the whole width of the page, as long as both columns", 0, 0, width=420)
    columns = [run(f"{'lr'[x > 0]} {row} some words", x, 20 + 20 * row) for x in (0, 220) for row in range(5)]
    lines = page_lines([wide, *columns, wide._replace(y=140.0)])
    assert [line.text[0] for line in lines] == ["a", *"lllll", *"rrrrr", "a"]


def columns_of(left: list[float], right: list[float]) -> list[Run]:
    """Return two columns of lines on given baselines, printed one column after the other."""
    placed = ((0, "l", left), (220, "r", right))
    return [run(f"{side}{k}", x, y, width=200) for x, side, tops in placed for k, y in enumerate(tops)]


def named(left: int, right: int) -> list[str]:
    return [f"l{k}" for k in range(left)] + [f"r{k}" for k in range(right)]


@pytest.mark.parametrize("first", [0, 1])
def test_columns_whose_first_lines_stand_on_unlike_baselines_are_not_mixed(first: int) -> None:
    baselines = [[74.0, 91, 104, 117, 130, 143], [79.0, 98, 111, 124, 137, 150]]
    lines = page_lines(columns_of(baselines[first], baselines[1 - first]))
    assert [line.text for line in lines] == named(6, 6)


EVEN = [20.0 * row for row in range(20)]
FULL = "four words of text"


def rows_of_two(count: int, words: str = FULL, width: float = 200, few: float = 200) -> list[Run]:
    """Return two columns printed line by line, whose first lines are `width` wide and the others `few`."""
    widths = [width] + [few] * (count - 1)
    return [run(words, x, 20.0 * row, width=wide) for row, wide in enumerate(widths) for x in (0, 220)]


def out_of_turn(*, late: int, rows: int) -> list[Run]:
    """Return two columns, the second one behind the first, but for some lines that come before it."""
    runs = columns_of(EVEN[:rows], EVEN[:rows])
    return [*runs[rows + 4 : rows + 4 + late], *runs[:rows], *runs[rows : rows + 4], *runs[rows + 4 + late :]]


def with_running_line(y: float) -> list[Run]:
    """Return two columns from 0 to 120, and a line over or below both, printed last."""
    line = [run(text, x, y, width=60) for text, x in (("outer", 0), ("inner", 360))]
    return [*columns_of(EVEN[:7], EVEN[:7])[::-1], *line]


@pytest.mark.parametrize(
    ("runs", "are_columns"),
    [
        (columns_of(EVEN[:3], EVEN[:3]), True),  # three lines on each side
        (columns_of(EVEN[:2], EVEN[:2]), False),
        (columns_of([20.0, *EVEN[2:9]], [19.0]), True),  # or one that begins above eight lines
        (columns_of([20.0, *EVEN[2:8]], [19.0]), False),
        ([each._replace(x1=208.0) if not each.x0 else each for each in columns_of(EVEN, EVEN)], True),  # a gutter
        ([each._replace(x1=209.0) if not each.x0 else each for each in columns_of(EVEN, EVEN)], False),
        ([each._replace(x1=51.0) if not each.x0 else each for each in columns_of(EVEN, EVEN)], True),  # 0.12 of all
        ([each._replace(x1=50.0) if not each.x0 else each for each in columns_of(EVEN, EVEN)], False),
        (out_of_turn(late=2, rows=20), True),  # a tenth of the lines printed out of turn
        (out_of_turn(late=3, rows=20), False),
        (rows_of_two(8), True),  # eight lines, full and of four words, printed line by line
        (rows_of_two(7), False),
        (rows_of_two(8, "three words only"), False),
        (rows_of_two(8, few=161), True),
        (rows_of_two(8, few=160), False),
        (with_running_line(146), True),  # a running line is 2.5 of the size away
        (with_running_line(145), False),
        (with_running_line(-26), True),
        (with_running_line(-25), False),
    ],
)
def test_what_columns_are(runs: list[Run], are_columns: bool) -> None:
    assert (len(page_lines(runs)) == len(runs)) is are_columns


@pytest.mark.parametrize("overflow", [1, 2, 5])
def test_a_short_overflow_at_the_top_of_the_second_column_is_a_column_with_running_lines_or_without(overflow):
    left = [79.0 + 14 * row for row in range(20)]
    lines = page_lines(columns_of(left, [78.0 + 14 * row for row in range(overflow)]))
    assert [line.text for line in lines] == named(20, overflow)
    running = [run(text, x, y, width=60) for y in (40, 400) for text, x in (("outer", 0), ("inner", 360))]
    lines = page_lines([*running, *columns_of(left, left[:overflow])])
    texts = [line.text for line in lines if line.text not in {"outer", "inner", "outer inner"}]
    assert texts == named(20, overflow)


@pytest.mark.parametrize("heights", [(5, 1), (1, 5), (3, 3), (9, 2)])
@pytest.mark.parametrize("rows", [2, 3, 6])
def test_a_table_with_cells_of_several_lines_is_read_by_rows(heights: tuple[int, int], rows: int) -> None:
    cells = [(row, 220 * side, n) for row in range(rows) for side in (0, 1) for n in range(heights[side])]
    table = [run(f"{row}", x, 50 + 12 * (row * max(heights) + n), width=200) for row, x, n in cells]
    texts = [line.text.split()[0] for line in page_lines(table)]
    assert texts == sorted(texts)


def test_a_note_at_the_end_of_a_listing_is_no_column() -> None:
    listing = [run(f"step {row}", 0, 12 * row, width=200) for row in range(12)]
    lines = page_lines([*listing, run("end", 220, 132, width=60)])
    assert lines[-1].text == "step 11 end"


def test_gathered_words_end_at_a_cell_or_a_step_back() -> None:
    assert Gathered(em=10.0, words=["a"]).add("b", 7.0, 9.0, spaced=False) == ("a", 0.0, 0.0)
    assert Gathered(em=10.0, words=["a"]).add("b", 6.9, 9.0, spaced=False) is None
    words = Gathered(em=10.0)
    pieces = [("a", 0, 5, False), ("b", 5, 10, True), ("c", 17, 22, False), ("d", 11, 15, False)]
    ended = [words.add(text, x0, x1, spaced=spaced) for text, x0, x1, spaced in pieces]
    assert ended == [None, None, ("a b", 0, 10), ("c", 17, 22)]
    assert [words.take(), words.take()] == [("d", 11, 15), None]


@pytest.mark.parametrize(
    ("names", "style"),
    [
        ("/ABCDEF+CMBX12 NimbusRomNo9L-Medi SFBX1000 Arial,Bold", Style(bold=True)),
        ("CMTT10 Courier", Style(mono=True)),
        ("CMSLTT10", Style(italic=True, mono=True)),
        ("CMTI10 TimesNewRomanPS-ItalicMT Verdana-It", Style(italic=True)),
        ("Helvetica-BoldOblique", Style(bold=True, italic=True)),
        ("CMR10 ABCDEF+Medium", PLAIN),
    ],
)
def test_a_font_tells_its_style_by_its_name_or_its_descriptor(names: str, style: Style) -> None:
    assert {style_of(name) for name in names.split()} == {style}
    for flag, look in ((1, {"mono": True}), (64, {"italic": True}), (1 << 18, {"bold": True})):
        assert style_of("X", flags=flag) == Style(**look)
    assert (style_of("X", weight=600), style_of("X", weight=599)) == (Style(bold=True), PLAIN)


def test_text_is_made_readable_and_nothing_else() -> None:
    assert readable_text("\ufb01\ufb03 a\u00adb\x01 c\td ½ \ud800") == "fiffi a\u00adb c d ½ \ufffd"
    assert readable_text("\ufaff\ufb00\ufb06\ufb07") == "\ufaffffst\ufb07"
    assert readable_text("a\x00\x1f~\x7f\x9f\xa0b\t\n\v\f\r\x85\u2028\u2029c") == "a~\xa0b        c"
    assert readable_text("\ud7ff\ud800\udfff\ue000") == "\ud7ff\ufffd\ufffd\ue000"


# the frame of a page


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
        (-90, (300, 100), (293, 95)),
        (450, (300, 100), (7, 5)),
    ],
)
def test_a_point_5_right_of_and_7_above_the_lower_left_corner(rotation: int, size: Any, shown: Any) -> None:
    width, height, frame = page_frame(BOX, rotation)
    assert (width, height, at((15.0, 27.0), frame)) == (*size, shown)


@pytest.mark.parametrize(
    "box",
    [
        *((0, 0, 0, 9), (0, 0, 9, 0), (5, 0, 1, 9), (0, 0, 1e6, 9), (0, 0, 9, 1e6)),
        *((math.nan, 0, 9, 9), (0, math.inf, 9, 9)),
    ],
)
def test_a_box_that_says_nothing_is_a_letter_page(box: tuple[float, float, float, float]) -> None:
    width, height, frame = page_frame(box, 0)
    assert ((width, height), at((0.0, 792.0), frame)) == (LETTER, (0.0, 0.0))
    assert page_frame((0, 0, 0.5, 999_999), 0)[:2] == (0.5, 999_999)


def test_the_first_matrix_is_applied_first() -> None:
    twice, moved = (2.0, 0.0, 0.0, 2.0, 0.0, 0.0), (1.0, 0.0, 0.0, 1.0, 3.0, 4.0)
    assert at((1.0, 1.0), multiply(twice, moved)) == (5.0, 6.0)
    assert at((1.0, 1.0), multiply(moved, twice)) == (8.0, 10.0)
    assert multiply(twice, IDENTITY) == twice
    assert multiply((1, 2, 3, 4, 5, 6), (7, 8, 9, 10, 11, 12)) == (25, 28, 57, 64, 100, 112)
    assert placed((1, 2, -3, 4, 5, 6), 0, 0, 10, 20) == (-55, 6, 15, 106)


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
def test_a_crop_box_shows_what_lies_in_the_media_box(crop: tuple[float, ...], shown: tuple[float, ...]) -> None:
    assert shown_box((0, 0, 612, 792), crop) == shown_box((612, 792, 0, 0), crop) == shown


@given(RUNS)
def test_a_word_printed_letter_by_letter_is_that_word(runs: list[Run]) -> None:
    apart = [run for run in runs if not run.turned and run.x1 < 590]
    apart = list({(run.y, int(run.x0 // 600)): run for run in apart}.values())  # one a line: else letters interleave
    letters = [
        each._replace(text=letter, x0=each.x0 + place * 0.5 * each.size, x1=each.x0 + (place + 1) * 0.5 * each.size)
        for each in apart
        for place, letter in enumerate(each.text)
    ]
    assert page_lines(letters) == page_lines(apart)


def test_what_stands_between_two_words_or_is_printed_twice_is_not_joined() -> None:
    mark = run("(d)", 20.0, 96.0, size=6.0)
    around = [run("word", 0.0, 100.0), run(":", 29.0, 100.0), mark]
    assert [line.text for line in page_lines(around)] == ["word(d):"]
    bold = [run(letter, 5.0 * place, 100.0) for place, letter in enumerate("word") for _ in range(2)]
    assert [line.text for line in page_lines(bold)] == ["word"]
