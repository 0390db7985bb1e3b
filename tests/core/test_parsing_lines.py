"""From runs to lines, and from user space to the page as shown: laws that hold for any page, and a few numbers."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.parsing.lines import page_lines, reading_blocks
from catena.parsing.pages import IDENTITY, LETTER, Matrix, multiply, page_frame, shown_box
from catena.parsing.runs import Gathered, Run, Style, readable_text, style_of

PLAIN = Style()


def run(
    text: str, x: float, y: float, *, size: float = 10.0, width: float | None = None, turned: bool = False
) -> Run:
    """Return a run whose letters are half as wide as high."""
    return Run(text, x, x + (0.5 * size * len(text) if width is None else width), y, size, PLAIN, turned)


RUNS = st.lists(
    st.builds(
        run,
        st.text("abcxyz", min_size=1, max_size=30),
        st.integers(0, 500),
        st.integers(0, 800),
        size=st.sampled_from([6.0, 10.0, 20.0]),
        turned=st.sampled_from([False, False, False, True]),
    ),
    max_size=60,
    unique_by=lambda run: (run.text, run.x0, run.y),
)


@given(RUNS)
def test_no_text_is_lost_or_doubled(runs: list[Run]) -> None:
    lines = page_lines(runs)
    letters = Counter("".join(run.text for run in runs))
    assert Counter("".join(line.text for line in lines).replace(" ", "")) == letters
    assert Counter("".join(span.text for line in lines for span in line.spans).replace(" ", "")) == letters


@given(RUNS)
def test_lines_are_well_formed(runs: list[Run]) -> None:
    lines = page_lines(runs)
    for line in lines:
        assert line.top < line.bottom
        assert [span.x0 for span in line.spans] == sorted(span.x0 for span in line.spans)
        assert line.column >= 0
    assert page_lines(runs) == lines


@given(RUNS)
def test_blocks_hold_each_run_once(runs: list[Run]) -> None:
    assert Counter(run for block in reading_blocks(runs) for run in block.runs) == Counter(runs)


@given(RUNS, st.integers(1, 300))
def test_moving_a_page_does_not_change_its_text(runs: list[Run], shift: int) -> None:
    moved = [replace(run, x0=run.x0 + shift, x1=run.x1 + shift, y=run.y + shift) for run in runs]
    assert [line.text for line in page_lines(moved)] == [line.text for line in page_lines(runs)]


@pytest.mark.parametrize(
    ("gap", "text", "spans"),
    [(0.0, "onetwo", 1), (1.4, "onetwo", 1), (1.5, "one two", 1), (6.9, "one two", 1), (7.0, "one two", 2)],
)
def test_gaps_are_measured_in_the_size(gap: float, text: str, spans: int) -> None:
    (line,) = page_lines([run("one", 0, 50), run("two", 15 + gap, 50)])
    assert (line.text, len(line.spans)) == (text, spans)


@pytest.mark.parametrize(
    ("dy", "size", "lines"), [(0, 10, 1), (-4, 7, 1), (3, 7, 1), (-4, 10, 2), (12, 10, 2), (-6, 7, 2)]
)
def test_raised_and_lowered_runs_stay_on_their_line(dy: float, size: float, lines: int) -> None:
    assert len(page_lines([run("base", 0, 50), run("2", 20, 50 + dy, size=size)])) == lines


def test_columns_that_are_printed_line_by_line_are_known_by_full_lines() -> None:
    left = [run("words of a column " * 2, 0, 20 * row) for row in range(10)]
    right = [run("words of a column " * 2, 220, 20 * row) for row in range(10)]
    by_rows = [run for pair in zip(left, right, strict=True) for run in pair]
    assert [line.column for line in page_lines(by_rows)] == [0] * 10 + [1] * 10


def test_a_table_with_two_short_columns_is_no_page_of_two_columns() -> None:
    rows = [item for row in range(10) for item in (run(f"key {row}", 0, 20 * row), run("value", 220, 20 * row))]
    assert [line.text for line in page_lines(rows)] == [f"key {row} value" for row in range(10)]


def test_text_after_the_columns_comes_after_them() -> None:
    wide = run("a line over the whole width of the page, as long as both columns", 0, 0, width=420)
    columns = [
        run(f"{name} {row} some words here", x, 20 + 20 * row)
        for name, x in (("l", 0), ("r", 220))
        for row in range(5)
    ]
    lines = page_lines([wide, *columns, replace(wide, y=140.0)])
    assert [line.text[0] for line in lines] == ["a", *"lllll", *"rrrrr", "a"]


def columns_of(left: list[float], right: list[float], *, widths: tuple[float, float] = (200, 200)) -> list[Run]:
    """Return two columns of lines on given baselines, printed one column after the other."""
    return [run(f"l{k}", 0, y, width=widths[0]) for k, y in enumerate(left)] + [
        run(f"r{k}", 220, y, width=widths[1]) for k, y in enumerate(right)
    ]


@pytest.mark.parametrize("first", [0, 1])
def test_columns_whose_first_lines_stand_on_unlike_baselines_are_not_mixed(first: int) -> None:
    baselines = [[74.0, 91, 104, 117, 130, 143], [79.0, 98, 111, 124, 137, 150]]
    lines = page_lines(columns_of(baselines[first], baselines[1 - first]))
    assert [line.text for line in lines] == [f"{side}{k}" for side in "lr" for k in range(6)]


@pytest.mark.parametrize("overflow", [1, 2, 3, 5])
def test_a_short_overflow_at_the_top_of_the_second_column_is_a_column(overflow: int) -> None:
    left = [79.0 + 14 * row for row in range(20)]
    right = [78.0 + 14 * row for row in range(overflow)]
    lines = page_lines(columns_of(left, right))
    assert [line.text for line in lines] == [f"l{k}" for k in range(20)] + [f"r{k}" for k in range(overflow)]


@pytest.mark.parametrize("overflow", [1, 5])
def test_running_lines_printed_before_the_text_do_not_hide_its_columns(overflow: int) -> None:
    left = [79.0 + 14 * row for row in range(20)]
    running = [run(text, x, y, width=60) for y in (40, 400) for text, x in (("outer", 0), ("inner", 360))]
    lines = page_lines([*running, *columns_of(left, left[:overflow])])
    texts = [line.text for line in lines if line.text not in {"outer", "inner", "outer inner"}]
    assert texts == [f"l{k}" for k in range(20)] + [f"r{k}" for k in range(overflow)]


@pytest.mark.parametrize(("left_lines", "right_lines"), [(5, 1), (1, 5), (3, 3), (9, 2)])
@pytest.mark.parametrize("rows", [2, 3, 6])
def test_a_table_with_cells_of_several_lines_is_read_by_rows(left_lines: int, right_lines: int, rows: int) -> None:
    height = max(left_lines, right_lines)
    table = [
        run(f"{row}", x, 50 + 12 * (row * height + line), width=200)
        for row in range(rows)
        for x, lines in ((0, left_lines), (220, right_lines))
        for line in range(lines)
    ]
    texts = [line.text.split()[0] for line in page_lines(table)]
    assert texts == sorted(texts)


def test_a_note_at_the_end_of_a_listing_is_no_column() -> None:
    listing = [run(f"step {row}", 0, 12 * row, width=200) for row in range(12)]
    lines = page_lines([*listing, run("end", 220, 132, width=60)])
    assert lines[-1].text == "step 11 end"


def test_gathered_words_end_at_a_cell_or_a_step_back() -> None:
    words = Gathered(em=10.0)
    assert words.add("a", 0, 5, spaced=False) is None
    assert words.add("b", 5, 10, spaced=True) is None
    assert words.add("c", 17, 22, spaced=False) == ("a b", 0, 10)
    assert words.add("d", 11, 15, spaced=False) == ("c", 17, 22)
    assert words.take() == ("d", 11, 15)
    assert words.take() is None


@pytest.mark.parametrize(
    ("name", "style"),
    [
        ("/ABCDEF+CMBX12", Style(bold=True)),
        ("CMTT10", Style(mono=True)),
        ("CMSLTT10", Style(italic=True, mono=True)),
        ("CMTI10", Style(italic=True)),
        ("CMR10", PLAIN),
        ("Helvetica-BoldOblique", Style(bold=True, italic=True)),
        ("Courier", Style(mono=True)),
        ("NimbusRomNo9L-Medi", Style(bold=True)),
        ("TimesNewRomanPS-ItalicMT", Style(italic=True)),
        ("SFBX1000", Style(bold=True)),
        ("Arial,Bold", Style(bold=True)),
        ("Verdana-It", Style(italic=True)),
        ("ABCDEF+Medium", PLAIN),
    ],
)
def test_a_font_tells_its_style_by_its_name(name: str, style: Style) -> None:
    assert style_of(name) == style


def test_a_font_tells_its_style_by_its_descriptor() -> None:
    assert style_of("X", flags=1 | 64 | 1 << 18) == Style(bold=True, italic=True, mono=True)
    assert style_of("X", weight=700) == Style(bold=True)


def test_text_is_made_readable_and_nothing_else() -> None:
    assert readable_text("\ufb01\ufb03 a\u00adb\x01 c\td ½ \ud800") == "fiffi a\u00adb c d ½ \ufffd"


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
def test_a_point_5_right_of_and_7_above_the_lower_left_corner(
    rotation: int, size: tuple[float, float], shown: tuple[float, float]
) -> None:
    width, height, frame = page_frame(BOX, rotation)
    assert (width, height) == size
    assert at((15.0, 27.0), frame) == shown


@pytest.mark.parametrize(
    "box", [(0, 0, 0, 10), (5, 0, 1, 9), (0, 0, 9, 2e6), (math.nan, 0, 9, 9), (0, math.inf, 9, 9)]
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
