"""Tables of figures in a layout: statements set by hand, and laws over generated ones."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_formatting_layout import FOX, cells, line, markdown, page, printed

from catena.formatting import LayoutOptions, format_layout
from catena.formatting.figure_cells import LineCell
from catena.formatting.figure_cells import cells_of as cells_of_line
from catena.formatting.styled_lines import rows_of as lines_of
from catena.formatting.table_headers import HeaderReader
from catena.model import Layout, RuledTable
from catena.parsing import parse
from catena.text import cells_of

WIDE = 5.0  # of a character


def row(top, label, *values, x=60.0, ends=(300, 400, 500), money=False):
    """A row whose values end at the right edges of their columns."""
    pairs = [(x, label)] if label else []
    for value, end in zip(values, ends, strict=False):
        pairs += [(end - 48, "$")] * money
        pairs.append((end - WIDE * len(value) + WIDE * value.endswith(")"), value))
    return cells(top, *pairs)


def rows_of(text):
    """The rows of the tables of a text, rules left out."""
    return [cells_of(each) for each in text.splitlines() if each.startswith("|") and not each.startswith("| ---")]


STATEMENT = [
    cells(100, (295, "Three Months Ended")),
    cells(112, (60, "(in millions)"), (265, "July 2,"), (365, "July 3,")),
    cells(124, (280, "2023"), (380, "2022")),
    row(136, "Revenues", "12,734", "27,742", money=True),
    line("Operating expenses:", 148),
    row(160, "Marketing", "824", "(607)", x=70),
    cells(172, (70, "General"), (105, "(1)"), (280, "—"), (385, "269")),
    line("Depreciation of property, plant and", 184, x=70),
    row(196, "equipment", "77", "66", x=70),
    row(208, "", "1,901", "728", money=True),
    row(220, "Operating income", "305", "402"),
    line("Earnings per share:", 232),
    row(244, "Basic", "0.29", "0.63", x=70),
]


def test_narrow_white_parts_cells_where_other_lines_agree_and_words_elsewhere() -> None:
    """The widest cells of a column stand 0.9 of the size before the next, as loose words do."""
    rows = [("Part", "Order number", "Price"), ("Seal", "4711-2", "12.50 €")]
    rows += [("Impeller", "4711-3", "88.00 €"), ("Shaft", "4711-4", "140.00 €")]
    for share in (0, 2.5, 5):  # of the widest price's edges, the left, the middle and the right one is that of all
        parts = [(*each[:2], 178 + share * (len("140.00 €") - len(each[2])), each[2]) for each in rows]
        lines = [cells(100 + 16 * n, (60, a), (109, b), (x, c)) for n, (a, b, x, c) in enumerate(parts)]
        assert rows_of(markdown(page(1, *lines))) == rows
    loose, words = [], FOX.split()
    for top in range(6):
        x, said = 60.0, []
        for word in (*words[top:], *words[:top])[:6]:
            said.append((x, word))
            x += WIDE * len(word) + 8
        loose.append(cells(100 + 12 * top, *said))
    assert rows_of(markdown(page(1, *loose))) == []


def test_a_statement_keeps_its_header_groups_signs_marks_and_unlabelled_totals() -> None:
    assert markdown(page(1, *STATEMENT)) == (
        "| (in millions) | Three Months Ended › July 2, 2023 | Three Months Ended › July 3, 2022 |\n"
        "| --- | --- | --- |\n"
        "| Revenues | $ 12,734 | $ 27,742 |\n"
        "| Operating expenses: |  |  |\n"
        "| \u2003Marketing | 824 | (607) |\n"
        "| \u2003General(1) | — | 269 |\n"
        "| \u2003Depreciation of property, plant and equipment | 77 | 66 |\n"
        "|  | $ 1,901 | $ 728 |\n"
        "| Operating income | 305 | 402 |\n"
        "| Earnings per share: |  |  |\n"
        "| \u2003Basic | 0.29 | 0.63 |\n"
    )
    assert "|" not in markdown(page(1, *STATEMENT), options=LayoutOptions(unruled_tables=False))


ROLES = ["Role|May open|May edit|Limit", "Guest|yes|no|none", "Clerk|yes|yes|none"]
CODES = [
    "Code|Parameter|Setting|Locked", "P11|Lower value|0 bar|yes", "P13|Unit|bar|no", "P51|Address|31|yes",
    "P52|Speed|19,200 baud|yes", "P60|Brightness|70 %|no",
]  # fmt: skip
STARS = [
    "Name|Rating|Seats", "Hall|closed|few", "Barn|4.5|1,200", "Loft|3.5|800", "Shed|open|many", "Tent|2.5|300",
    "Yard|shut|none",
]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "pitch", "bold"),
    [
        ([*ROLES, "Manager|yes|yes|5,000", "Owner|yes|yes|20,000"], 12, False),  # by known words
        ([*ROLES, "Manager|all|some|5,000", "Owner|any|none|20,000"], 12, True),
        *((CODES, pitch, bold) for pitch, bold in ((12, False), (12, True), (18, False))),
        (STARS, 12, True),  # by the weight of the names alone
        (STARS, 18, False),  # as far apart as rows, not as lines of one name
    ],
)
def test_rows_without_figures_that_look_like_those_with_them_are_rows(table, pitch, bold) -> None:
    rows = [tuple(each.split("|")) for each in table]
    lines = [
        cells(200 + pitch * place, *zip((60, 160, 260, 360), each, strict=False), bold=bold and not place)
        for place, each in enumerate(rows)
    ]
    said = "These are read by the plant at any time, and none is asked for a passcode."
    assert rows_of(markdown(page(1, *(line(said, 60 + 12 * n) for n in range(9)), *lines))) == rows


def test_every_table_of_settings_of_the_bundled_manuals_has_its_own_rows() -> None:
    for manual in Path(str(files("catena"))).joinpath("data", "demo").glob("halden-hx*.pdf"):
        rows = rows_of(format_layout(parse(manual)).text)
        at = rows.index(("Code", "Parameter", "Factory setting", "Protected"))
        assert rows[at + 1] == ("P11", "Lower range value", "0 bar", "yes")
        assert [row[0] for row in rows[at + 9 : at + 12]] == ["P42", "P51", "P52"]
        assert ("1", "Calibration certificate with five points", "enclosed") in rows


def test_a_ruled_table_with_glued_columns_gives_way_to_the_grid_of_its_figures() -> None:
    rows = (("Revenues", "$ 12,734 $ 27,742"), ("Operating income", "305 402"))
    glued = RuledTable(x0=50, x1=510, top=95, bottom=260, rows=rows)
    rows = (("", "2023", "2022"), ("Cash", "1", "2"), ("Debt", "3", "4"))
    ruled = RuledTable(x0=50, x1=510, top=100, bottom=145, rows=rows)
    lines = [row(100, "Revenues", "12,734", "27,742", money=True), row(112, "Operating income", "305", "402")]
    assert rows_of(markdown(page(1, *lines, tables=[glued])))[1] == ("Revenues", "$ 12,734", "$ 27,742")
    small = [cells(102, (280, "2023"), (380, "2022")), row(114, "Cash", "1", "2"), row(126, "Debt", "3", "4")]
    assert rows_of(markdown(page(1, *small, tables=[ruled])))[0] == ("", "2023", "2022")


@pytest.mark.parametrize(
    ("spans", "made"),
    [
        ([(100, "Cash 1,500 1,700")], [(100, 100, 125, "Cash"), (125, 125, 150, "1,500"), (155, 155, 180, "1,700")]),
        ([(100, "Cash $ 500 $ 700")], [(100, 100, 125, "Cash"), (125, 135, 150, "$ 500"), (155, 165, 180, "$ 700")]),
        ([(100, "Sales $"), (150, "5")], [(100, 100, 130, "Sales"), (130, 150, 155, "$ 5")]),
        ([(100, "$"), (110, "1,500"), (136, ")"), (160, "%")], [(100, 110, 165, "$ 1,500) %")]),
        ([(100, "12"), (129, "%")], [(100, 100, 134, "12 %")]),
        ([(100, "12"), (130, "%")], [(100, 100, 110, "12"), (130, 130, 135, "%")]),  # four digits behind it
        ([(100, "2021"), (127, "%")], [(100, 100, 120, "2021"), (127, 127, 132, "%")]),
        ([(100, "12 € 5")], [(100, 100, 110, "12"), (115, 125, 130, "€ 5")]),
        ([(100, "Sales ......"), (200, "5")], [(100, 100, 125, "Sales"), (200, 200, 205, "5")]),
        ([(100, "one"), (124.9, "a"), (139.9, "b")], [(100, 100, 129.9, "one a"), (139.9, 139.9, 144.9, "b")]),
        ([(100, "12"), (116.9, "two")], [(100, 100, 131.9, "12 two")]),
        ([(100, "12"), (117, "two")], [(100, 100, 110, "12"), (117, 117, 132, "two")]),
        ([(100, "12"), (114.9, "34")], [(100, 100, 124.9, "12 34")]),
        ([(100, "12"), (115, "34")], [(100, 100, 110, "12"), (115, 115, 125, "34")]),
        ([(100, "Note"), (121, "$"), (130, "5")], [(100, 100, 135, "Note$ 5")]),
        ([(100, "ab"), (111, "c"), (118, "d")], [(100, 100, 123, "abc d")]),
        ([(100, "May 5, 2021 June 5, 2020")], [(100, 100, 155, "May 5, 2021"), (160, 160, 220, "June 5, 2020")]),
        ([(100, "5 6 Sales")], [(100, 100, 145, "5 6 Sales")]),
    ],
)
def test_spans_are_cells_where_white_or_a_figure_parts_them(spans, made) -> None:
    found = cells_of_line(lines_of(Layout(pages=(page(1, cells(100, *spans)),)))[0])
    assert [(*(round(x, 3) for x in (each.x0, each.left, each.x1)), each.text) for each in found] == made


YEARS, CASH, DEBT = (f" {label:43}{a:>5}               {b:>5}" for label, a, b in (
    ("", 2021, 2020), ("Cash", "1,500", "1,700"), ("Debt", "2,500", "2,700"),
))  # fmt: skip


@pytest.mark.parametrize(
    ("picture", "most", "found", "beyond"),
    [
        (lambda n: f"{YEARS}\n{CASH}\n" + " Group\n" * n + f"{DEBT}\n{DEBT}", 6, 1, 2),
        (lambda n: f"{YEARS}\n{CASH}\n{CASH}\n-----\n" + " Title\n" * n + f"{DEBT}\n{DEBT}", 5, 1, 2),
        (lambda n: "\n".join(f" {each}    " + "  12" * n for each in ("Cash", "Debt", "Rest")), 24, 1, 0),
    ],
)
def test_so_many_lines_or_columns_are_one_table(picture, most, found, beyond) -> None:
    assert [markdown(*printed(picture(n))).count("\n| ---") for n in (most, most + 1)] == [found, beyond]


COLUMNS = [(100, 130), (160, 190), (220, 250), (280, 310)]
PERIODS, WORDS = "110 2021|170 2020|230 2019|290 2018", "110 one|170 two|230 six|290 ten"
OVER = dict(zip(["", "1", "2", "3", "4", "12", "23", "34", "123", "234", "1234"], ".1234abcdef", strict=True))


def reader_of(*lines):
    """A reader of headers over four columns, with names below, each behind its left edge."""
    reader = HeaderReader(COLUMNS, 10.0)
    for names in lines:
        assert reader.takes([named(text, float(x)) for x, text in (name.split(" ", 1) for name in names.split("|"))])
    return reader


def named(text, x, width=5.0):
    return LineCell(x, x + width * len(text), text, x, False)


@pytest.mark.parametrize(
    ("name", "below", "over"),
    [
        ("all", (), "....1111111111111aaa222222222bbb333333333ccc444444444444."),
        ("all", (PERIODS,), "....1111111111aaaaadddddddffffffeeeeeeccccccc44444444444."),
        ("all", (PERIODS, "125 Sales|245 Costs"), "....1111111111aaaaaddd2222ffffffee3333ccccccc44444444444."),
        ("of both", (WORDS,), "...11111111aaaaaadddd2ffffffffeee33eccccccc4444444444...."),
        ("of these here and now", (), ".......aaaadd....dfbbbbee....e.cccc......................"),
    ],
)
def test_a_name_on_its_way_to_the_right_is_that_of_one_column_and_of_those_beside_it(name, below, over) -> None:
    found = ""
    for x in range(50, 335, 5):
        reader = reader_of(*below)
        taken = reader.takes([named(name, x)])
        found += OVER["".join(f"{at}" for at, each in enumerate(reader.names(), 1) if taken and name in each)]
    assert found == over


@pytest.mark.parametrize(
    ("text", "x", "width", "parts"),
    [
        ("one   two   six   ten", 100, 10, ["one", "two", "six", "ten"]),
        ("one   two   six   ten", 100, 5, ["one two", "six ten"]),
        ("2021        2020", 105, 5, ["2021", "2020"]),
        ("2021        2020", 127, 5, ["2021        2020"]),
        ("June        2020", 105, 5, ["June        2020"]),
        ("(one) (two)", 100, 10, ["(one)", "(two)"]),
        ("(one two)", 100, 10, ["(one two)"]),
    ],
)
def test_names_that_touch_are_parted_where_they_stand_over_their_columns(text, x, width, parts) -> None:
    assert [each.text for each in reader_of().parted(named(text, x, width))] == parts


LABELS = ("Net sales", "Cost of sales", "Gross profit", "Interest, net", "Other items", "Taxes on income", "Minority")


@st.composite
def statements(draw):
    """Rows of different figures in columns of any width, under years, with dashes and empty cells."""
    n = draw(st.integers(2, 6))
    ends, left = [], 230.0
    for _ in range(n):
        left += draw(st.floats(56, 75))
        ends.append(left)
    numbers = iter(draw(st.lists(st.integers(10, 99_999), min_size=n * 7, max_size=n * 7, unique=True)))
    table = []
    for label in draw(st.lists(st.sampled_from(LABELS), min_size=2, max_size=7, unique=True)):
        kinds = draw(st.lists(st.sampled_from(["plain", "plain", "loss", "none"]), min_size=n, max_size=n))
        values = [f"{next(numbers):,}" for _ in kinds]
        shown = [f"({v})" if k == "loss" else "—" if k == "none" else v for v, k in zip(values, kinds, strict=True)]
        table.append((label, *shown))
    return ends, table, draw(st.floats(11.5, 20)), draw(st.booleans())


@settings(max_examples=60)
@given(statements())
def test_every_value_stands_alone_under_its_own_name_beside_its_own_label(made) -> None:
    ends, table, pitch, money = made
    years = [str(2023 - k) for k in range(len(ends))]
    top = cells(100, *((end - WIDE * 4, year) for end, year in zip(ends, years, strict=True)))
    body = [row(100 + pitch * n, *each, ends=ends, money=money and n == 1) for n, each in enumerate(table, start=1)]
    header, *rows = rows_of(markdown(page(1, top, *body)))
    assert header == ("", *years)
    assert [tuple(re.sub(r"^\$ ", "", cell) for cell in each) for each in rows] == table


FIGURES = """12,734|(5)|$ 9|9.0 %|36% - 53%|—|1.5x|n/a|1 234 567|-3|12 €|$1.2 billion|4% to 5%
about $400 million to $475 million""".replace("\n", "|").split("|")


@pytest.mark.parametrize("value", FIGURES)
def test_figures_are_told_from_words(value) -> None:
    lines = [row(100 + 12 * n, f"Item {n}", value, "77") for n in range(3)]
    assert rows_of(markdown(page(1, *lines)))[1] == ("Item 0", value, "77")
