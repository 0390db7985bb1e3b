"""Tables of figures in a layout: statements set by hand, and laws over generated ones."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from case_files import cases_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_formatting_layout import FOX, cells, line, markdown, page

from catena.formatting import format_layout
from catena.model import RuledTable
from catena.parsing import parse
from catena.text import cells_of

WIDE = 5.0  # of a character
CELL = re.compile(r"\S+(?: \S+)*")


def row(top, label, *values, x=60.0, ends=(300, 400, 500), money=False):
    """A row whose values end at the right edges of their columns; None leaves a column empty."""
    pairs = [(x, label)] if label else []
    for value, end in zip(values, ends, strict=False):
        if value is not None:
            pairs += [(end - 48, "$")] * money
            pairs.append((end - WIDE * len(value) + WIDE * value.endswith(")"), value))
    return cells(top, *pairs)


def centred(top, *pairs, size=10.0):
    return cells(top, *((middle - WIDE * len(text) / 2, text) for middle, text in pairs), size=size)


def rows_of(text):
    """The rows of the tables of a text, rules left out."""
    return [cells_of(each) for each in text.splitlines() if each.startswith("|") and not each.startswith("| ---")]


STATEMENT = [
    centred(100, (370, "Three Months Ended")),
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


PARTS = [
    cells(top, (60, part), (109, order), (178, price))
    for top, part, order, price in (
        (100, "Part", "Order number", "Price"), (116, "Seal", "4711-2", "12.50 €"),
        (132, "Impeller", "4711-3", "88.00 €"), (148, "Shaft", "4711-4", "140.00 €"),
    )
]  # fmt: skip


def test_narrow_white_parts_cells_where_other_lines_agree_and_words_elsewhere() -> None:
    """The widest cells of a column stand 0.9 of the size before the next, as loose words do."""
    assert rows_of(markdown(page(1, *PARTS))) == [
        ("Part", "Order number", "Price"),
        ("Seal", "4711-2", "12.50 €"),
        ("Impeller", "4711-3", "88.00 €"),
        ("Shaft", "4711-4", "140.00 €"),
    ]
    loose, words = [], FOX.split()
    for top in range(6):
        x, said = 60.0, []
        for word in (*words[top:], *words[:top])[:6]:
            said.append((x, word))
            x += WIDE * len(word) + 8
        loose.append(cells(100 + 12 * top, *said))
    assert rows_of(markdown(page(1, *loose))) == []


def test_names_set_to_the_right_over_columns_whose_names_repeat_are_of_all_of_these() -> None:
    head = cells(100, (60, "Region"), (265, "Revenue"), (410, "Operating profit"))
    years = row(112, "", "2022", "2021", "2022", "2021", ends=(240, 300, 420, 490))
    body = [row(124 + 12 * k, name, "8,521", "6,328", "(660)", "888", ends=(240, 300, 420, 490)) for k, name in
            enumerate(("North", "South", "Iberia"))]  # fmt: skip
    assert rows_of(markdown(page(1, head, years, body)))[0] == (
        "Region", "Revenue › 2022", "Revenue › 2021", "Operating profit › 2022", "Operating profit › 2021"
    )  # fmt: skip


def test_a_statement_keeps_its_header_groups_signs_marks_and_unlabelled_totals() -> None:
    head = STATEMENT[0]
    spans = [centred(100, (340, "Three Months Ended")), *STATEMENT[1:]]
    assert head != spans[0]
    assert markdown(page(1, *spans)) == (
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


PRODUCTS = [
    cells(100, (60, "Product"), (150, "Indication"), (280, "2021"), (380, "2020")),
    line("Everything that is sold to anyone", 112),
    cells(126, (60, "Alpha"), (150, "Migraine"), (275, "1,500"), (375, "1,700")),
    line("Symptoms of", 140, x=150),
    cells(147, (60, "Beta sales"), (275, "2,500"), (375, "2,700")),
    cells(161, (60, "Gamma"), (150, "Pneumonia and")),
    cells(168, (155, "diseases"), (275, "3,500"), (375, "3,700")),
    cells(182, (60, "Delta"), (150, "Various"), (275, "4,500"), (375, "4,700")),
    cells(196, (60, "Epsilon"), (150, "Various"), (275, "5,500"), (375, "5,700")),
    row(210, "Total", "9,500", "9,700"),
]


def printed(picture):
    """The pages of a picture, see `cases_grids.txt`."""
    for number, drawn in enumerate(picture.split("\n-----\n"), start=1):
        rows = [(row[:1] == "*", [*CELL.finditer(row, 1)]) for row in drawn.split("\n")]
        yield page(number, *(
            cells(100 + 12 * n, *((60 + WIDE * (cell.start() - 1), cell[0]) for cell in found), bold=bold)
            for n, (bold, found) in enumerate(rows) if found
        ))  # fmt: skip


@pytest.mark.parametrize(("picture", "text"), cases_of("cases_grids.txt"))
def test_what_is_printed_in_columns_becomes_the_table_that_a_reader_sees(picture, text) -> None:
    assert markdown(*printed(picture)).rstrip("\n") == text


def test_words_between_labels_and_values_are_a_column_though_they_take_several_lines() -> None:
    expected = [("Product", "Indication"), ("Everything that is sold to anyone", ""), ("Alpha", "Migraine")]
    expected += [("Beta sales", "Symptoms of"), ("Gamma", "Pneumonia and diseases"), ("Delta", "Various")]
    expected += [("Epsilon", "Various"), ("Total", "")]
    assert [each[:2] for each in rows_of(markdown(page(1, *PRODUCTS)))] == expected


def test_the_first_row_too_has_its_label_above_its_last_line_of_words() -> None:
    first = [
        cells(112, (60, "Omega"), (150, "Treatment of")),
        cells(119, (155, "headache"), (275, "1,000"), (375, "1,100")),
    ]
    found = rows_of(markdown(page(1, PRODUCTS[0], *first, *PRODUCTS[2:])))
    assert [each[:3] for each in found[1:3]] == [
        ("Omega", "Treatment of headache", "1,000"),
        ("Alpha", "Migraine", "1,500"),
    ]


def test_a_column_of_words_without_a_name_is_a_part_of_the_labels() -> None:
    unnamed = cells(100, (60, "Product"), (280, "2021"), (380, "2020"))
    labels = [each[0].strip("\u2003") for each in rows_of(markdown(page(1, unnamed, *PRODUCTS[1:])))]
    assert labels[2:5] == ["Alpha Migraine", "Symptoms of Beta sales", "Gamma Pneumonia and diseases"]


@pytest.mark.parametrize(
    ("name", "indent", "after", "is_group"),
    [
        ("Owners", 6, 6, True),
        ("Owners", 0, 0, False),  # not indented
        ("Owners", 6, 0, False),  # a single row
        ("Owners of the company and its partners", 6, 6, False),  # the next word had no room
    ],
)
def test_a_near_line_names_a_group_where_several_rows_are_indented_below_it_and_a_word_had_room(
    name, indent, after, is_group
) -> None:
    lines = [
        cells(100, (280, "2021"), (380, "2020")),
        row(112, "Cash and cash equivalents, all of it", "1,500", "1,700"),
        line(name, 126),
        row(134, "Preferred stock", "22", "20", x=60 + indent),
        row(148, "Retained earnings", "2,491", "2,430", x=60 + after),
        row(162, "Total", "2,835", "2,795"),
    ]
    labels = [each[0].strip("\u2003") for each in rows_of(markdown(page(1, *lines)))]
    assert labels[2:-2] == ([name, "Preferred stock"] if is_group else [f"{name} Preferred stock"])


def test_a_title_and_its_unit_are_no_names_of_columns() -> None:
    lines = [
        centred(80, (300, "Consolidated Balance Sheets")),
        centred(92, (300, "(in thousands)")),
        centred(110, (350, "As of December 31,")),
        cells(122, (280, "2021"), (380, "2020")),
        *(row(134 + 12 * n, f"Item {n}", f"{n + 1},500", f"{n + 2},700") for n in range(4)),
    ]
    title, header, *_ = [each for each in markdown(page(1, *lines)).splitlines() if each]
    assert title.lstrip("# ") == "Consolidated Balance Sheets"
    assert cells_of(header) == ("(in thousands)", "As of December 31, › 2021", "As of December 31, › 2020")


def test_signs_in_lines_of_their_own_go_with_their_figures() -> None:
    lines = [
        cells(100, (280, "2021"), (370, "% Change")),
        row(112, "Net sales", "1,500", "4.5%"),
        cells(124, (405, ")")),
        cells(130, (60, "Other costs"), (275, "2,500"), (375, "(15.7")),
        cells(136, (405, "%")),
        row(148, "Gross profit", "3,500", "6.5%"),
    ]
    assert rows_of(markdown(page(1, *lines)))[1:] == [
        ("Net sales", "1,500", "4.5%"),
        ("Other costs", "2,500", "(15.7 ) %"),
        ("Gross profit", "3,500", "6.5%"),
    ]


def test_names_that_touch_are_parted_by_the_columns_of_figures_below() -> None:
    ends = (300, 345, 390, 435)
    body = [row(112 + 12 * n, f"Item {n}", "4,100", "5,200", "6,300", "7,400", ends=ends) for n in range(3)]
    glued = cells(100, (260, "reported adjusted reported adjusted"), (500, "Note"))
    assert rows_of(markdown(page(1, glued, *body)))[0] == ("Note", *("reported", "adjusted") * 2)
    one = centred(100, (347, "Three Months Ended"))
    names = rows_of(markdown(page(1, one, row(106, "", "2021", "2020", "2019", "2018", ends=ends), *body)))[0]
    assert names == ("", *(f"Three Months Ended › {year}" for year in (2021, 2020, 2019, 2018)))


def test_labels_beside_their_values_are_joined_and_words_behind_figures_are_remarks() -> None:
    lines = [
        cells(100, (280, "2021"), (380, "2020"), (420, "Comment")),
        row(112, "Sales", "1,500", "1,700"),
        line("Other assets and", 124, x=60),
        cells(130, (275, "2,500"), (375, "2,700"), (420, "More was sold in")),
        cells(136, (60, "prepaid expenses"), (420, "the north.")),
        cells(148, (60, "Debt"), (290, "n/a"), (375, "3,700"), (420, "Note 4")),
        cells(160, (60, "Total equity and"), (275, "4,500"), (375, "4,700")),
        line("liabilities", 166, x=60),
    ]
    assert rows_of(markdown(page(1, *lines))) == [
        ("", "2021", "2020", "Comment"),
        ("Sales", "1,500", "1,700", ""),
        ("Other assets and prepaid expenses", "2,500", "2,700", "More was sold in the north."),
        ("Debt", "n/a", "3,700", "Note 4"),
        ("Total equity and liabilities", "4,500", "4,700", ""),
    ]


ROLES = [["Role", "May open", "May edit", "Limit"], ["Guest", "yes", "no", "none"], ["Clerk", "yes", "yes", "none"]]
CODES = [
    *(
        ["Code", "Parameter", "Setting", "Locked"],
        ["P11", "Lower value", "0 bar", "yes"],
        ["P13", "Unit", "bar", "no"],
    ),
    *(["P51", "Address", "31", "yes"], ["P52", "Speed", "19,200 baud", "yes"], ["P60", "Brightness", "70 %", "no"]),
]
STARS = [
    *(["Name", "Rating", "Seats"], ["Hall", "closed", "few"], ["Barn", "4.5", "1,200"], ["Loft", "3.5", "800"]),
    *(["Shed", "open", "many"], ["Tent", "2.5", "300"], ["Yard", "shut", "none"]),
]


@pytest.mark.parametrize(
    ("table", "pitch", "bold"),
    [
        (
            [*ROLES, ["Manager", "yes", "yes", "5,000"], ["Owner", "yes", "yes", "20,000"]],
            12,
            False,
        ),  # by known words
        ([*ROLES, ["Manager", "all", "some", "5,000"], ["Owner", "any", "none", "20,000"]], 12, True),
        *((CODES, pitch, bold) for pitch, bold in ((12, False), (12, True), (18, False))),
        (STARS, 12, True),  # by the weight of the names alone
        (STARS, 18, False),  # as far apart as rows, not as lines of one name
    ],
)
def test_rows_without_figures_that_look_like_those_with_them_are_rows(table, pitch, bold) -> None:
    lines = [
        cells(200 + pitch * place, *zip((60, 160, 260, 360), each, strict=False), bold=bold and not place)
        for place, each in enumerate(table)
    ]
    prose = [
        line("These are read by the plant at any time, and none is asked for a passcode.", 60 + 12 * n)
        for n in range(9)
    ]
    assert rows_of(markdown(page(1, *prose, *lines))) == list(map(tuple, table))


def test_every_table_of_settings_of_the_bundled_manuals_has_its_own_rows() -> None:
    for manual in Path(str(files("catena"))).joinpath("data", "demo").glob("halden-hx*.pdf"):
        rows = rows_of(format_layout(parse(manual)).text)
        at = rows.index(("Code", "Parameter", "Factory setting", "Protected"))
        assert rows[at + 1] == ("P11", "Lower range value", "0 bar", "yes")
        assert [row[0] for row in rows[at + 9 : at + 12]] == ["P42", "P51", "P52"]
        assert ("1", "Calibration certificate with five points", "enclosed") in rows


def test_a_ruled_table_with_glued_columns_gives_way_to_the_grid_of_its_figures() -> None:
    glued = RuledTable(
        x0=50, x1=510, top=95, bottom=260,
        rows=(("Revenues", "$ 12,734 $ 27,742"), ("Operating income", "305 402")),
    )  # fmt: skip
    ruled = RuledTable(
        x0=50, x1=510, top=100, bottom=145, rows=(("", "2023", "2022"), ("Cash", "1", "2"), ("Debt", "3", "4"))
    )
    lines = [row(100, "Revenues", "12,734", "27,742", money=True), row(112, "Operating income", "305", "402")]
    assert rows_of(markdown(page(1, *lines, tables=[glued])))[1] == ("Revenues", "$ 12,734", "$ 27,742")
    small = [cells(102, (280, "2023"), (380, "2022")), row(114, "Cash", "1", "2"), row(126, "Debt", "3", "4")]
    assert rows_of(markdown(page(1, *small, tables=[ruled])))[0] == ("", "2023", "2022")


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
