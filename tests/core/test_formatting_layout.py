"""Layout to Markdown: golden pages set by hand, and laws over generated ones."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from dataclasses import replace

import pytest
from case_files import cases_of
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.formatting import LayoutOptions, format_layout
from catena.model import Document, Layout, Line, OutlineItem, Page, Parsed, RuledTable
from catena.model.layout import Span

WIDTH, HEIGHT, LEFT, RIGHT = 600.0, 800.0, 60.0, 540.0
CHARACTER = 0.5  # of the size: every character is as wide


def line(text, top, *, size=10.0, x=LEFT, bold=False, italic=False, mono=False, column=0):
    """One line in one style, as wide as its characters."""
    x1 = x + CHARACTER * size * len(text)
    span = Span(text=text, x0=x, x1=x1, size=size, bold=bold, italic=italic, mono=mono)
    return Line(text=text, x0=x, x1=x1, top=top, bottom=top + size, spans=(span,), column=column)


def cells(top, *pairs, bold=False, size=10.0):
    """One line of several cells, each with its left edge."""
    spans = tuple(
        Span(text=text, x0=x, x1=x + CHARACTER * size * len(text), size=size, bold=bold) for x, text in pairs
    )
    text = " ".join(text for _, text in pairs)
    return Line(text=text, x0=spans[0].x0, x1=spans[-1].x1, top=top, bottom=top + size, spans=spans)


def prose(text, top, *, x=LEFT, right=RIGHT, size=10.0, first=0.0, column=0):
    """A paragraph set in lines of 1.2 times the size; `first` indents the first line."""
    lines, current, left = [], "", x + first
    for word in text.split():
        longer = f"{current} {word}".strip()
        if current and left + CHARACTER * size * len(longer) > right:
            lines.append((current, left))
            current, left = word, x
        else:
            current = longer
    lines.append((current, left))
    return [line(t, top + 1.2 * size * n, size=size, x=start, column=column) for n, (t, start) in enumerate(lines)]


def page(number, *lines, tables=(), label=""):
    flat = [one for many in lines for one in (many if isinstance(many, list) else [many])]
    return Page(number=number, width=WIDTH, height=HEIGHT, lines=tuple(flat), tables=tuple(tables), label=label)


def parsed(*pages, outline=(), title="", labels=()):
    plain = "\n".join(one.text for each in pages for one in each.lines)
    starts, at = [], 0
    for each in pages:
        starts.append(at)
        at += sum(len(one.text) + 1 for one in each.lines)
    starts = [min(start, len(plain)) for start in starts]
    document = Document(
        id="d", text=plain, source="files/pump manual.pdf", media_type="text/plain", page_starts=tuple(starts),
        page_labels=labels, metadata={"maker": "Halden"},
    )  # fmt: skip
    return Parsed(document=document, layout=Layout(pages=pages, outline=outline, title=title))


DEFAULTS = LayoutOptions()


def markdown(*pages, options=DEFAULTS, **more):
    return format_layout(parsed(*pages, **more), options).text


def letters(text):
    return "".join(c for c in text if c.isalnum())


def flow(*parts, top=60.0):
    """Lines one below the other: prose, or a bold line of (size, text)."""
    lines = []
    for part in parts:
        lines += prose(part, top) if isinstance(part, str) else [line(part[1], top, size=part[0], bold=True)]
        top = lines[-1].bottom + (18 if isinstance(part, str) else 10)
    return lines


def headings(*pages, **more):
    return re.findall(r"^#+ .*", markdown(*pages, **more), re.M)


FOX = "The quick brown fox jumps over the lazy dog and runs away through the dark wood before anybody has seen it."
RAIN = "Rain falls on the roof of the plant for most of the year, so the covers of all the devices are kept closed."


# 1 golden pages


def test_title_chapters_and_paragraphs() -> None:
    top = flow((24, "Pump Manual"), (16, "1 Safety"), FOX, (12, "1.1 Terms"))
    document = format_layout(parsed(page(1, top, prose(RAIN, 250, first=12), prose(FOX, 274, first=12))))
    assert document.text == f"# Pump Manual\n\n## 1 Safety\n\n{FOX}\n\n### 1.1 Terms\n\n{RAIN}\n\n{FOX}\n"
    assert (document.title, document.media_type) == ("Pump Manual", "text/markdown")


def chapter(title):
    return [(16, title), FOX, (14, "Steps"), FOX, (12, "1. Open the lid"), FOX, (12, "2. Close the lid"), RAIN]


HEADINGS = {
    "of the body's size, by their numbers": (
        [(10, "1 Safety"), FOX, (10, "1.1 Terms"), RAIN, (10, "1.1.1 Signs"), FOX],
        ["# 1 Safety", "## 1.1 Terms", "### 1.1.1 Signs"],
    ),
    "without numbers, by their size": (
        [(24, "Pump Manual"), (16, "Safety"), FOX, (13, "Terms"), RAIN, (11, "Signs"), FOX, (16, "Use"), RAIN],
        ["# Pump Manual", "## Safety", "### Terms", "#### Signs", "## Use"],
    ),
    "of two styles whose numbers contradict, the smaller gives way": (
        [(16, "1.1 Safety"), FOX, (12, "1 Terms"), RAIN, (16, "1.2 Use"), FOX, (12, "2 Signs"), RAIN],
        ["## 1.1 Safety", "### 1 Terms", "## 1.2 Use", "### 2 Signs"],
    ),
    "numbered steps in every chapter": (
        [*chapter("Safety"), *chapter("Use")],
        ["# Safety", *(steps := ("## Steps", "### 1. Open the lid", "### 2. Close the lid")), "# Use", *steps],
    ),
}


@pytest.mark.parametrize("case", HEADINGS)
def test_levels_of_headings(case) -> None:
    parts, expected = HEADINGS[case]
    assert headings(page(1, flow(*parts))) == expected


def test_a_first_section_as_large_as_the_title_is_no_part_of_it() -> None:
    title = line("Warranty Terms 2026", 60, size=18, bold=True, x=200)
    below = flow((18, "1 Scope"), f"{FOX} " * 3, (18, "2 Duration"), f"{RAIN} " * 3, top=96)
    found = headings(page(1, title, below), title="Warranty Terms 2026")
    assert found == ["# Warranty Terms 2026", "## 1 Scope", "## 2 Duration"]


def test_identity_and_metadata_are_kept() -> None:
    before = parsed(page(1, prose(FOX, 60)), page(2, prose(RAIN, 60)), labels=("i", "1"))
    copy = pickle.loads(pickle.dumps(before))
    after = format_layout(before)
    assert (after.id, after.source, after.metadata) == ("d", "files/pump manual.pdf", {"maker": "Halden"})
    assert after.page_labels == ("i", "1")
    assert before == copy


def test_a_source_without_layout_is_returned_as_it_is() -> None:
    document = Document(id="d", text="# A\n")
    assert format_layout(Parsed(document=document)) is document


def test_a_wrapped_heading_is_one_and_neighbours_are_two() -> None:
    one = page(
        1,
        line("1 Replacing the seal of the", 60, size=20, bold=True, x=280),
        line("second housing cover", 84, size=20, bold=True, x=300),
        flow(FOX, (20, "2 Care"), (14, "2.1 Cleaning"), RAIN, top=120),
    )
    assert markdown(one) == (
        f"# 1 Replacing the seal of the second housing cover\n\n{FOX}\n\n# 2 Care\n\n## 2.1 Cleaning\n\n{RAIN}\n"
    )


def test_text_placed_miles_away_does_not_fill_the_memory() -> None:
    far = cells(100, (80, "a"), (1e9, "b"))
    mono = replace(far, spans=tuple(replace(span, mono=True) for span in far.spans))
    assert len(markdown(page(1, prose(FOX, 60), mono, prose(RAIN, 130)))) < 1_000


def test_what_only_looks_like_a_heading_is_none() -> None:
    run_in = line("Danger", 60, bold=True)
    rest = " marks what may kill. Do not go on before you know why it is there at all."
    mixed = replace(
        run_in,
        text=run_in.text + rest,
        x1=run_in.x1 + 5 * len(rest),
        spans=(*run_in.spans, Span(text=rest, x0=run_in.x1, x1=run_in.x1 + 5 * len(rest), size=10.0)),
    )
    one = page(
        1,
        mixed,
        line("Table 3. Values of the pump", 90, size=12, bold=True),
        prose(FOX, 120),
        line("Figure 2: The pump", 160, size=12, bold=True),
        line("Warning", 190, bold=True),
        prose(RAIN, 210),
        line("$ pump --start", 250, mono=True, bold=True, size=11),
        line("• Open the lid", 280, bold=True, size=12),
    )
    assert "#" not in markdown(one)


def test_authors_and_dates_of_a_title_page_are_no_headings() -> None:
    first = page(1, flow((24, "A Long Report"), (14, "Jane Doe"), (12, "March 2025"), top=200))
    assert headings(first, page(2, flow((14, "Summary"), FOX))) == ["# A Long Report", "## Summary"]


def test_tables_of_contents_give_a_list_and_no_headings() -> None:
    dots = " . . . . . . . . . . . "
    entries = (f"1 Safety{dots}2", f"1.1 Terms{dots}2", f"2 Use{dots}3")
    lines = [line(text, 90 + 16 * n, bold=n != 1, size=12) for n, text in enumerate(entries)]
    first = page(1, line("Contents", 60, size=16, bold=True), lines)
    text = markdown(first, page(2, flow((16, "1 Safety"), FOX, (16, "2 Use"), RAIN)))
    assert "- 1 Safety … 2\n- 1.1 Terms … 2\n- 2 Use … 3\n" in text
    assert re.findall(r"^#+ .*", text, re.M) == ["# Contents", "# 1 Safety", "# 2 Use"]


def outlined_pages():
    wrapped = [line(text, top, size=12, bold=True) for text, top in (("The Safety of", 90), ("All Pumps", 105))]
    first = page(1, flow((12, "Chapter 1")), wrapped, prose(FOX, 140), line("Terms", 190), prose(RAIN, 215))
    return first, page(2, flow((12, "2 Use"), FOX, (12, "Notes")))


def test_the_outline_decides_headings_and_levels_unless_it_is_to_be_ignored() -> None:
    outline = (
        OutlineItem(level=1, title="the safety of all pumps", page=1, top=88.0),
        OutlineItem(level=2, title="1.1 Terms", page=1, top=188.0),
        OutlineItem(level=1, title="Use", page=1),  # printed on the page behind
        OutlineItem(level=1, title="Not printed", page=2),
        OutlineItem(level=1, title="Notes", page=3),  # on the page before: the last line of the file
    )
    expected = ["# Chapter 1 The Safety of All Pumps", "## Terms", "# 2 Use", "# Notes"]
    assert headings(*outlined_pages(), outline=outline) == expected
    ignored = markdown(*outlined_pages(), outline=outline, options=LayoutOptions(outline=False))
    assert "Terms" in ignored
    assert "# Terms" not in ignored


def test_headings_below_the_outline_are_added_where_their_number_continues_it() -> None:
    one = page(1, flow((16, "1 Safety"), FOX, (12, "1.1 Terms"), RAIN))
    assert headings(one, outline=(OutlineItem(level=1, title="Safety", page=1),)) == ["# 1 Safety", "## 1.1 Terms"]


def test_running_heads_and_page_numbers_go_and_may_be_kept() -> None:
    pages = [
        page(
            n,
            line("Pump Manual", 20, size=8),
            line(f"Page {n}", 770, size=8, x=290),
            prose(f"{FOX} This is leaf {'abcd'[n - 1]}.", 60),
            label=str(n),
        )
        for n in range(1, 5)
    ]
    text = markdown(*pages)
    assert ("Pump Manual" in text, "Page" in text, text.count("quick")) == (False, False, 4)
    assert markdown(*pages, options=LayoutOptions(running_heads=True)).count("Pump Manual") == 4


@pytest.mark.parametrize(("count", "leaves", "gone"), [(2, (1, 2), True), (4, (2, 3), False), (4, (2, 3, 4), True)])
def test_numbers_run_on_three_pages_or_on_all_of_two(count, leaves, gone) -> None:
    def leaf(n):
        head = [line(f"Leaf {n}", 20, size=8)] if n in leaves else []
        return page(n, *head, prose(f"{'abcd'[n - 1]} {FOX}", 60 if n in leaves else 200))

    assert ("Leaf" not in markdown(*map(leaf, range(1, count + 1)))) == gone


def test_what_is_printed_as_the_label_of_its_page_goes_with_the_numbers() -> None:
    labels = ("1", "2", "3", "A-1")
    leaves = [
        page(n, prose(f"{FOX} {'abcd'[n - 1]}", 60), line(label, 770, size=8), label=label)
        for n, label in enumerate(labels, 1)
    ]
    assert "A-1" not in markdown(*leaves)
    assert "A-1" in markdown(*leaves[:3], replace(leaves[3], label="4"))


def test_page_numbers_go_at_any_height_but_not_other_numbers() -> None:
    leaves = [page(n, prose(FOX * n, 60), line(f"{n + 6}", 100 + 70 * n, x=300)) for n in range(1, 6)]
    assert not re.search(r"^\d+$", markdown(*leaves), re.M)
    assert "99" in markdown(*leaves, page(6, prose(FOX, 60), line("99", 300)))


def test_head_of_several_lines_and_of_a_part_goes_but_for_the_first_page_of_the_part() -> None:
    def leaf(n, first):
        head = [line("Halden plc", 30, size=8), line("Notes to the statements", 39, size=8)]
        return page(
            n, *(head if n >= first else []), prose(f"{'abcdefghijkl'[n - 1]} {FOX}", 60 if n >= first else 30)
        )

    assert [markdown(*(leaf(n, first) for n in range(1, 13))).count("Notes to") for first in (6, 9)] == [1, 4]


def test_names_of_columns_at_the_top_of_pages_are_no_running_head() -> None:
    def leaf(n):
        head = cells(30, (60, "Name"), (300, "Amount")) if n > 5 else line("abcde"[n - 1] * 9, 30)
        return page(n, head, prose(f"{'abcdefghijkl'[n - 1]} {FOX}", 60))

    assert markdown(*map(leaf, range(1, 13))).count("Amount") == 7


def test_rows_at_the_edges_of_pages_that_differ_in_digits_stay_below_their_running_heads() -> None:
    def leaf(n, columns):
        numbers = range(40 * n, 40 * n + 40)
        rows = [cells(60 + 16 * at, *((x, f"P-{m:05}") for x in columns)) for at, m in enumerate(numbers)]
        return page(
            n, line("Parts of Halden", 20), cells(44, *((x, "Number") for x in columns)), *rows, line(f"{n}", 740)
        )

    for columns in ((60,), (60, 300), (60, 200, 400)):
        text = markdown(*(leaf(n, columns) for n in range(1, 8)))
        assert text.count("P-") == 7 * 40 * len(columns)
        assert "Halden" not in text


def test_line_that_only_says_that_something_goes_on_is_gone() -> None:
    first = page(1, flow((14, "Balance Sheets"), FOX))
    text = markdown(first, page(2, line("Balance Sheets (Continued)", 40), prose(RAIN, 70)))
    assert text.count("Balance Sheets") == 1
    assert "Income (Continued)" in markdown(first, page(2, line("Income (Continued)", 40), prose(RAIN, 70)))


def test_unit_is_parted_from_its_heading_and_names_of_columns_are_none() -> None:
    text = markdown(page(1, flow((14, "Statements of Income (in thousands, except per share data)"), FOX)))
    assert text.startswith("# Statements of Income\n\n(in thousands, except per share data)\n\n")
    row = cells(100, (60, "Fiscal year"), (400, "Amount"), bold=True, size=12)
    two = page(1, flow((14, "Debt"), FOX), row, prose(RAIN, 130), cells(300, (60, "Item 2."), (140, "Debt"), size=12))
    assert headings(two, page(2, prose(FOX, 60))) == ["# Debt", "## Item 2. Debt"]


@pytest.mark.parametrize("bold", [True, False])
def test_titles_over_statements_head_them_alike_whatever_their_unit_stands_in(bold) -> None:
    def statement(number, name, *unit):
        title = line(name, 60, x=297 - 2.5 * len(name), bold=bold)
        values = [("Sales", "6,779", "5,504"), ("Cost of sales", "4,591", "3,752"), ("Marketing", "824", "607")]
        rows = [cells(98 + 18 * n, *zip((60, 300, 400), row, strict=True)) for n, row in enumerate(values)]
        return page(number, title, *unit, *rows, prose(FOX, 200), prose(RAIN, 240))

    beside = cells(80, (60, "(in thousands)"), (300, "2015"), (400, "2014"), bold=bold)
    above = line("(in thousands, except the number of shares)", 72, x=190, bold=bold)
    apart = cells(86, (300, "2015"), (400, "2014"), bold=True)
    pages = [
        page(1, prose(FOX, 60), prose(RAIN, 100)),
        statement(2, "STATEMENTS OF INCOME", beside),
        statement(3, "BALANCE SHEETS", above, apart),
    ]
    assert headings(*pages) == ["# STATEMENTS OF INCOME", "# BALANCE SHEETS"]


def test_page_of_fields_gives_the_title_and_no_heading() -> None:
    fields = [
        line("SECURITIES AND EXCHANGE COMMISSION", 60, size=16, bold=True),
        line("FORM 10-K", 100, size=14, bold=True),
        line("For the fiscal year ended December 31, 2015", 130),
        line("Halden, Inc.", 170, size=18, bold=True),
        line("(Exact name of registrant as specified in its charter)", 200),
    ]
    pages = [page(1, *fields), page(2, flow((14, "Business"), FOX))]
    document = format_layout(parsed(*pages, title="0000764478-23-000041"))
    assert document.title == "Halden, Inc. 10-K 2015"
    assert dict(document.metadata) == {
        "maker": "Halden", "company": "Halden, Inc.", "form": "10-K", "period": "2015", "date": "2015-12-31"
    }  # fmt: skip
    assert headings(*pages) == ["# Business"]


@pytest.mark.parametrize(
    ("outline", "named", "first", "title"),
    [
        ("The Pump", "Pumps of Halden", 14, "The Pump"),
        ("", "Pumps of Halden", 14, "Pumps of Halden"),
        ("", "0000764478-23-000041", 14, "On Pumps"),
        ("", "0000764478-23-000041", 10, "pump manual"),
    ],
)
def test_title_is_taken_from_outline_metadata_first_line_or_file(outline, named, first, title) -> None:
    items = (OutlineItem(level=1, title=outline, page=1),) if outline else ()
    leaf = page(1, line("On Pumps", 60, size=first), prose(FOX, 100))
    rival = page(2, flow((14, "Use"), FOX))
    assert format_layout(parsed(leaf, rival, outline=items, title=named)).title == title


def test_text_that_repeats_in_the_body_and_chapters_on_the_page_of_their_number_stay() -> None:
    rights = prose("All rights are with the maker of the pump.", 60)
    pages = [page(n, rights, prose(f"{FOX} {n}", 72)) for n in range(1, 5)]
    assert markdown(*pages).count("All rights") == 4
    named = [page(n, flow((14, f"{n} {name}lpha"), FOX)) for n, name in enumerate("ABC", 1)]
    assert markdown(*named).count("lpha") == 3


def test_a_paragraph_goes_on_over_columns_and_pages_and_hyphens_are_undone() -> None:
    first = page(
        1,
        prose("One two three four five six seven eight nine ten eleven twelve thirteen.", 60, right=290),
        line("The covers of all the devices are kept in-", 740, x=LEFT),
        prose("stalled and closed, since the well-known HX-", 60, x=310, column=1),
    )
    # the left column is 230 points wide: its last line is full
    second = page(2, prose("200 leaks, as its well-known maker says.", 60))
    document = format_layout(parsed(first, second))
    assert "kept installed and closed, since the well-known HX-200 leaks, as its" in document.text
    assert document.text[document.page_starts[1] :].startswith("200 leaks")


FULL = "The covers of all the devices are kept closed since rain falls for the most of any year in it, etc."


@pytest.mark.parametrize(("following", "between"), [("of the plant.", " "), ("Rain is frequent.", "\n\n")])
def test_a_full_line_that_ends_a_sentence_goes_on_over_the_page_only_in_lower_case(following, between) -> None:
    first = page(1, prose(RAIN, 60), line(FULL, 740))
    document = format_layout(parsed(first, page(2, prose(f"{following} {FOX}", 60))))
    assert f"etc.{between}{following}" in document.text


@pytest.mark.parametrize(("number", "between"), [(2, " "), (3, "\n\n")])
def test_a_paragraph_goes_on_to_the_next_page_and_over_no_empty_one(number, between) -> None:
    first, last = page(1, prose(RAIN, 60), line(FULL[:-6], 740)), page(number, prose(f"of the plant. {FOX}", 60))
    text = format_layout(parsed(first, *([page(2)] if number == 3 else []), last)).text
    assert f"{FULL[:-6].strip()}{between}of the plant." in text


def test_a_paragraph_does_not_go_on_in_a_caption_on_the_next_page() -> None:
    first, last = page(1, prose(RAIN, 60), line(FULL[:-6], 740)), page(2, prose(f"Figure 2. The plant. {FOX}", 60))
    assert f"{FULL[:-6].strip()}\n\nFigure 2." in markdown(first, last)


def test_the_distance_of_lines_is_measured_in_the_file() -> None:
    lines = [replace(one, top=60 + 20.0 * n, bottom=70 + 20.0 * n) for n, one in enumerate(prose(f"{FOX} " * 4, 60))]
    assert markdown(page(1, lines, prose(RAIN, 320))) == f"{' '.join([FOX] * 4)}\n\n{RAIN}\n"


def test_compounds_keep_their_hyphen_where_the_file_uses_it_elsewhere() -> None:
    text = "A long-term plan is better than none, and the long-term plan of this plant is for ten years or a long-"
    one = page(1, prose(text, 60, right=569), line("term of twenty years.", 72))
    assert "or a long-term of twenty" in markdown(one)


def test_lists_keep_their_depth_and_their_numbers() -> None:
    pump = "the pump, which stands in the corner of the large hall behind the old gate by the very long"
    placed = [
        *(("Take these parts:", 60, 60), (f"• {pump}", 80, 70), ("northern wall", 92, 80), ("– its cover", 108, 90)),
        *(("• the seal", 124, 70), ("1. Open the lid.", 148, 60), ("2. Close it.", 164, 60)),
        *(("(a) Wait.", 188, 60), ("(b) Go.", 204, 60)),
    ]
    assert markdown(page(1, *(line(text, top, x=x) for text, top, x in placed))) == (
        f"Take these parts:\n\n- {pump} northern wall\n  - its cover\n- the seal\n"
        "1. Open the lid.\n2. Close it.\n- (a) Wait.\n- (b) Go.\n"
    )


def test_a_year_or_an_initial_at_the_start_of_a_line_begins_no_item() -> None:
    year = "The plant was built long ago, and it was first closed in the long and cold winter of the year 1999. Then"
    text = markdown(page(1, prose(year, 60), line("A. Einstein", 120), line("12. is a number", 150)))
    assert "\n- " not in text
    assert "\n12\\. is a number\n" in text


def test_code_is_kept_with_its_indentation_and_empty_lines_however_far_apart_its_lines_are() -> None:
    for pitch in (12, 18):
        code = [line("def f(x):", 100, x=80, mono=True), line("return x  # ```", 100 + pitch, x=100, mono=True)]
        last = line("f(1)", 100 + 3 * pitch, x=80, mono=True)
        one = page(1, prose(FOX, 60), code, last, prose(RAIN, 124 + 3 * pitch))
        assert markdown(one) == f"{FOX}\n\n````\ndef f(x):\n    return x  # ```\n\nf(1)\n````\n\n{RAIN}\n"


def test_a_file_in_one_fixed_width_font_is_prose() -> None:
    lines = [replace(one, spans=(replace(one.spans[0], mono=True),)) for one in prose(FOX, 60)]
    assert markdown(page(1, lines)) == f"{FOX}\n"


RULED = RuledTable(
    x0=50, x1=550, top=95, bottom=150, rows=(("Part", "Num|ber"), ("Seal of\nthe cover", "2"), ("", ""))
)


def ruled_lines():
    return (
        cells(100, (60, "Part"), (300, "Num|ber"), bold=True),
        cells(115, (60, "Seal of"), (300, "2")),
        line("the cover", 127),
    )


def test_ruled_tables_take_the_place_of_their_lines_and_titles_stay_before_them() -> None:
    table = "| Part | Num\\|ber |\n| --- | --- |\n| Seal of the cover | 2 |"
    above = page(1, line("Table 1. Parts", 80), *ruled_lines(), prose(RAIN, 170), tables=[RULED])
    assert markdown(above) == f"Table 1. Parts\n\n{table}\n\n{RAIN}\n"
    below = page(1, prose(FOX, 60), *ruled_lines(), line("Table 1. Parts", 160), prose(RAIN, 190), tables=[RULED])
    assert markdown(below) == f"{FOX}\n\nTable 1. Parts\n\n{table}\n\n{RAIN}\n"


def test_a_ruled_table_that_lost_words_is_not_believed() -> None:
    wrong = replace(RULED, rows=(("Part", "Number"), ("Seal", "2")))
    text = markdown(page(1, *ruled_lines(), tables=[wrong]), options=LayoutOptions(unruled_tables=False))
    assert ("|" in text.replace("Num|ber", ""), "the cover" in text) == (False, True)


def test_lines_that_align_in_columns_are_a_table_and_two_with_a_gap_are_none() -> None:
    rows = [("Code", "Meaning", "Cause"), ("E-07", "no signal", "broken"), ("E-08", "the shaft is inter-", "dirt")]
    lines = [cells(100 + 18 * n, *zip((60, 160, 400), row, strict=True), bold=n == 0) for n, row in enumerate(rows)]
    last = (cells(148, (160, "rupted")), cells(166, (60, "E-09"), (160, "too hot"), (400, "sun")))
    one = page(1, prose(FOX, 60), lines, *last, prose(RAIN, 200))
    assert markdown(one) == (
        f"{FOX}\n\n| Code | Meaning | Cause |\n| --- | --- | --- |\n| E-07 | no signal | broken |\n"
        f"| E-08 | the shaft is interrupted | dirt |\n| E-09 | too hot | sun |\n\n{RAIN}\n"
    )
    assert "|" not in markdown(one, options=LayoutOptions(unruled_tables=False))
    assert "|" not in markdown(page(1, cells(60, (60, "Left"), (300, "Right")), cells(76, (60, "Up"), (300, "Down"))))


def test_a_table_over_two_pages_has_its_header_once() -> None:
    def part(number, *codes):
        rows = [cells(78 + 18 * n, (60, code), (160, "meaning")) for n, code in enumerate(codes)]
        return page(number, cells(60, (60, "Code"), (160, "Text"), bold=True), *rows)

    document = format_layout(parsed(part(1, "E-07", "E-08"), part(2, "E-09", "E-10")))
    rows = "".join(f"| E-{number} | meaning |\n" for number in ("07", "08", "09", "10"))
    assert document.text == f"| Code | Text |\n| --- | --- |\n{rows}"
    assert document.text[document.page_starts[1] :].startswith("| E-09")
    over_an_empty_page = markdown(part(1, "E-07", "E-08"), page(2), part(3, "E-09", "E-10"))
    assert over_an_empty_page.count("| Code | Text |") == 2


@pytest.mark.parametrize(("printed", "written"), cases_of("cases_escapes.txt"))
def test_prose_that_begins_like_markdown_is_escaped(printed, written) -> None:
    text = markdown(page(1, prose(FOX, 60), line(printed, 120), prose(RAIN, 160)))
    assert text == f"{FOX}\n\n{written}\n\n{RAIN}\n"


def test_chinese_lines_join_without_spaces() -> None:
    one = page(1, line("第一章 总则", 60, size=16, bold=True), line("为了保护" * 24, 90), line("合法权益。", 102))
    assert markdown(one) == f"# 第一章 总则\n\n{'为了保护' * 24}合法权益。\n"


def test_empty_pages_begin_where_the_next_one_does() -> None:
    document = format_layout(parsed(page(1), page(2, prose(FOX, 60)), page(3), page(4, prose(RAIN, 60)), page(5)))
    second = document.text.index("Rain")
    assert document.page_starts == (0, 0, second, second, len(document.text))
    assert document.page_at(second) == 4
    assert format_layout(parsed(page(1), page(2))).text == ""


# 2 laws


words = st.text("abcdefgXYZ0123456789#*|->.", min_size=1, max_size=9).filter(
    lambda word: any(c.isalpha() for c in word)
)
styles = st.fixed_dictionaries(
    {
        "size": st.sampled_from([8.0, 10.0, 10.0, 10.0, 13.0, 18.0]),
        "bold": st.booleans(),
        "mono": st.sampled_from([False, False, False, True]),
        "x": st.sampled_from([60.0, 60.0, 72.0, 90.0]),
    }
)


@st.composite
def layouts(draw):
    pages = []
    for number in range(1, draw(st.integers(1, 4)) + 1):
        top, lines = 100.0, []
        for _ in range(draw(st.integers(0, 12))):
            style = draw(styles)
            mark = draw(st.sampled_from(["", "", "", "• ", "1. ", "2. ", "# ", "Table 1. "]))
            lines.append(line(mark + " ".join(draw(st.lists(words, min_size=1, max_size=12))), top, **style))
            top += style["size"] * draw(st.sampled_from([1.2, 1.2, 1.2, 2.0]))
        pages.append(page(number, lines))
    return parsed(*pages)


@settings(max_examples=25, deadline=None)
@given(layouts())
def test_every_letter_and_digit_is_kept_in_order(source) -> None:
    text = letters(markdown_of := format_layout(source, LayoutOptions(running_heads=True)).text)
    printed = letters("".join(one.text for each in source.layout.pages for one in each.lines))
    # cells of wrapped rows are read one after the other
    assert text == printed or ("| ---" in markdown_of and Counter(text) == Counter(printed))


@settings(max_examples=25, deadline=None)
@given(layouts())
def test_every_page_begins_with_its_own_first_word(source) -> None:
    document = format_layout(source, LayoutOptions(running_heads=True, unruled_tables=False))
    assert len(document.page_starts) == len(source.layout.pages)
    for each, start in zip(source.layout.pages, document.page_starts, strict=True):
        if each.lines:
            first = letters(each.lines[0].text)[:6]
            assert letters(document.text[start : start + 200]).startswith(first)


@settings(max_examples=25, deadline=None)
@given(layouts())
def test_a_file_of_one_plain_style_has_no_headings(source) -> None:
    plain = [  # capitals are a style: "1. XX XX" is a heading
        replace(each, lines=tuple(line(one.text.lower(), one.top, size=10.0, x=one.x0) for one in each.lines))
        for each in source.layout.pages
    ]
    document = format_layout(parsed(*plain))
    assert [text for text in document.text.splitlines() if re.match(r" *#{1,6} ", text)] == []


@settings(max_examples=25, deadline=None)
@given(layouts())
def test_equal_layouts_give_equal_documents(source) -> None:
    assert format_layout(source) == format_layout(pickle.loads(pickle.dumps(source)))
