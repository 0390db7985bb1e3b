"""Tables of figures in a layout: statements set by hand, and laws over generated ones."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_formatting_layout import cells, line, markdown, page

from catena.formatting import format_layout
from catena.model import RuledTable
from catena.parsing import parse
from catena.text import cells_of

WIDE = 5.0  # of a character


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


def test_a_header_of_two_levels_and_words_of_several_lines_name_their_own_columns() -> None:
    ends = (240, 320, 400, 480)
    lines = [
        centred(100, (260, "Fiscal 2024"), (420, "Fiscal 2023")),
        centred(112, (300, "Stores"), (460, "Stores")),
        centred(124, (220, "Opened"), (300, "Closed"), (380, "Opened"), (460, "Closed")),
        row(136, "Best Buy", "908", "(1)", "931", "(2)", ends=ends),
        row(148, "Yardbird", "18", "4", "9", "-", ends=ends),
    ]
    names = [f"Fiscal {year} › {name}" for year in (2024, 2023) for name in ("Opened", "Stores Closed")]
    assert rows_of(markdown(page(1, *lines)))[0] == ("", *names)


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


def test_a_dash_printed_twice_in_a_column_is_one() -> None:
    lines = [
        cells(100, (280, "2021"), (380, "2020")),
        row(112, "Cash", "1,500", "1,700"),
        cells(124, (60, "Other"), (282, "—"), (296, "—"), (395, "—")),
        row(136, "Debt", "2,500", "2,700"),
    ]
    assert rows_of(markdown(page(1, *lines)))[2] == ("Other", "—", "—")


def test_the_first_of_the_amounts_in_words_names_no_column() -> None:
    rows = [
        ("Net sales", "$10.95 billion to $11.05 billion"),
        ("Tax rate", "approximately 24.6%"),
        ("New stores", "25"),
    ]
    lines = [cells(112 + 12 * n, (60, label), (380 - 2.5 * len(text), text)) for n, (label, text) in enumerate(rows)]
    found = rows_of(markdown(page(1, centred(100, (380, "FY23 Outlook")), *lines)))
    assert found == [("", "FY23 Outlook"), *rows]


def test_a_year_alone_names_a_group_but_ends_a_label_that_goes_on() -> None:
    lines = [
        centred(100, (284, "Q2"), (384, "Q1")),
        line("2015", 112),
        row(124, "Total revenues", "1,823", "1,738"),
        row(136, "Diluted", "0.10", "0.07"),
        line("2014", 148),
        row(160, "Total revenues", "1,484", "1,409"),
        row(172, "Balance as of December 31,", "83", "59"),
        line("2014", 184),
        row(196, "Diluted", "0.19", "0.14"),
    ]
    labels = [each[0] for each in rows_of(markdown(page(1, *lines)))]
    assert labels[1:4] == ["2015", "Total revenues", "Diluted"]
    assert labels[4:] == ["2014", "Total revenues", "Balance as of December 31, 2014", "Diluted"]


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


def test_a_table_goes_on_over_the_page_and_other_columns_begin_another() -> None:
    one = [
        cells(700, (280, "2021"), (380, "2020")),
        row(712, "Cash", "1,500", "1,700"),
        row(724, "Debt", "2,500", "2,700"),
    ]
    two = [row(60, "Equity", "3,500", "3,700"), row(72, "Total", "4,500", "4,700")]
    other = [
        cells(200, (200, "Low"), (260, "High"), (330, "Mean"), (400, "Change")),
        *(row(212 + 12 * n, f"Site {n}", "7", "8", "9", "(3)", ends=(220, 290, 350, 430)) for n in range(3)),
    ]
    found = markdown(page(1, *one), page(2, *two, *other))
    labels = [each[0] for each in rows_of(found)]
    assert labels == ["", "Cash", "Debt", "Equity", "Total", "", "Site 0", "Site 1", "Site 2"]
    assert rows_of(found)[5] == ("", "Low", "High", "Mean", "Change")


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


def test_a_header_at_the_end_of_a_page_names_the_columns_of_the_next_page() -> None:
    head = [
        line("They add up.", 600),
        cells(712, (265, "June 30,"), (365, "June 30,")),
        cells(724, (280, "2021"), (380, "2020")),
    ]
    body = [row(60 + 12 * n, f"Item {n}", f"{n},100", f"{n},200") for n in range(3)]
    assert rows_of(markdown(page(1, *head), page(2, *body)))[0] == ("", "June 30, 2021", "June 30, 2020")


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


def test_a_row_of_figures_is_no_header_and_a_year_is_one() -> None:
    body = [row(112 + 12 * n, f"Item {n}", f"{n},100", f"{n},200") for n in range(1, 5)]
    assert rows_of(markdown(page(1, *body)))[0] == ("", "", "")
    years = cells(112, (280, "2015"), (380, "2014"))
    assert rows_of(markdown(page(1, years, *body)))[0] == ("", "2015", "2014")


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


def test_a_group_below_rows_without_figures_keeps_its_place() -> None:
    lines = [
        cells(100, (60, "Name"), (160, "Shares"), (260, "Price"), bold=True),
        cells(112, (60, "Alpha"), (160, "none"), (260, "unknown")),
        line("Others:", 124, x=60),
        *(cells(136 + 12 * n, (60, f"Unit {n}"), (160, f"{n},100"), (260, f"{n},200")) for n in range(3)),
    ]
    assert rows_of(markdown(page(1, *lines)))[1:4] == [
        ("Alpha", "none", "unknown"), ("Others:", "", ""), ("Unit 0", "0,100", "0,200"),
    ]  # fmt: skip


def test_names_of_two_lines_and_marks_of_columns_stay_names() -> None:
    body = [cells(124 + 12 * n, (60, f"Unit {n}"), (160, f"{n},100"), (260, f"{n},200")) for n in range(3)]
    names = [cells(100, (60, "Name of"), (160, "Shares"), (260, "Price"), bold=True)]
    for below in (("the unit", "sold", "paid"), ("(a)", "(b)", "(c)")):
        for bold in {True, below[0][0] == "t"}:
            lines = [*names, cells(112, *zip((60, 160, 260), below, strict=True), bold=bold)]
            head = tuple(map(" ".join, zip(("Name of", "Shares", "Price"), below, strict=True)))
            assert rows_of(markdown(page(1, *lines, *body)))[0] == head


def test_prose_with_figures_is_no_table() -> None:
    said = [
        "In 2015 we sold 1,200 units, in 2014",
        "we sold 1,100 of them, 100 fewer than",
        "in 2013, and 24% of all.",
    ]
    assert "|" not in markdown(page(1, *(line(each, 100 + 12 * n) for n, each in enumerate(said))))


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
