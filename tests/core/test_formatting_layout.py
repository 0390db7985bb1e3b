"""Layout to Markdown: golden pages set by hand, laws over generated ones, and real manuals."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from dataclasses import replace
from itertools import accumulate
from textwrap import wrap

import pytest
from case_files import cases_of
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.formatting import LayoutOptions, format_layout
from catena.formatting.source import source_of
from catena.formatting.styled_lines import key
from catena.model import Document, Layout, Line, OutlineItem, Page, Parsed, RuledTable
from catena.model.layout import FigureCrop, Span
from catena.parsing import parse
from catena_bench.headings import score_outline
from conftest import needs_data

WIDTH, HEIGHT, LEFT, RIGHT = 600.0, 800.0, 60.0, 540.0
CHARACTER = 0.5  # of the size: every character is as wide


def line(text, top, *, size=10.0, x=LEFT, bold=False, mono=False, italic=False, column=0):
    """One line in one style, as wide as its characters."""
    x1 = x + CHARACTER * size * len(text)
    span = Span(text=text, x0=x, x1=x1, size=size, bold=bold, mono=mono, italic=italic)
    return Line(text=text, x0=x, x1=x1, top=top, bottom=top + size, spans=(span,), column=column)


def cells(top, *pairs, bold=False, size=10.0):
    """One line of several cells, each with its left edge."""
    spans = tuple(
        Span(text=text, x0=x, x1=x + CHARACTER * size * len(text), size=size, bold=bold) for x, text in pairs
    )
    text = " ".join(text for _, text in pairs)
    return Line(text=text, x0=spans[0].x0, x1=spans[-1].x1, top=top, bottom=top + size, spans=spans)


def prose(text, top, *, x=LEFT, right=RIGHT, column=0):
    """A paragraph of size 10 set in lines of 12 points."""
    lines = wrap(text, int((right - x) / (10 * CHARACTER)), break_on_hyphens=False)
    return [line(said, top + 12.0 * n, x=x, column=column) for n, said in enumerate(lines)]


def page(number, *lines, tables=(), label=""):
    flat = [one for many in lines for one in (many if isinstance(many, list) else [many])]
    return Page(number=number, width=WIDTH, height=HEIGHT, lines=tuple(flat), tables=tuple(tables), label=label)


def leaf(number, *lines, top=60.0, label=""):
    """A page of a text that no other page has, after other lines."""
    return page(number, *lines, prose(f"{chr(96 + number)} {FOX}", top), label=label)


def parsed(*pages, outline=(), title="", labels=()):
    plain = "\n".join(one.text for each in pages for one in each.lines)
    sizes = [sum(len(one.text) + 1 for one in each.lines) for each in pages]
    starts = tuple(min(start, len(plain)) for start in accumulate(sizes[:-1], initial=0))
    document = Document(
        id="d", text=plain, source="files/pump manual.pdf", media_type="text/plain", page_starts=starts,
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


CELL = re.compile(r"\S+(?: \S+)*")


def printed(picture):
    """The pages of a picture, see `cases_layout.txt`."""
    for number, drawn in enumerate(picture.split("\n-----\n"), start=1):
        top, lines = 100.0, []
        for row in drawn.split("\n"):
            mark, start = row[:1], 4 if row[:1] in ("!", "?") else 1
            size = int(row[1:3]) if start == 4 else 10
            top -= 6 * (mark == "'")
            pairs = [(LEFT + 5 * (cell.start() - start), cell[0]) for cell in CELL.finditer(row, start)]
            lines += [cells(top, *pairs, bold=mark in ("*", "!"), size=float(size))] if pairs else []
            top += max(12, 1.2 * size)
        yield page(number, lines)


@pytest.mark.parametrize(("picture", "text"), [*cases_of("cases_layout.txt"), *cases_of("cases_grids.txt")])
def test_what_is_printed_becomes_the_markdown_that_a_reader_sees(picture, text) -> None:
    assert markdown(*printed(picture)).rstrip("\n") == text


TITLE = line("Pump Manual", 30, size=24, bold=True)
CLOSED = "The covers of all the devices are kept closed, as rain falls for most of every year in that pl"
ENDED = f"{CLOSED[:93]}."
LONG = "All that the user of a pump has to know about the covers before the"


def written(*lines):
    """The blocks of a page of lines below each other, each with its style and how far it drops, amid prose."""
    body = [TITLE, *prose(FOX * 3, 70)]
    for text, style in lines:
        more = {"drop": 12, **style}
        body.append(line(text, body[-1].top + more.pop("drop"), **more))
    return markdown(page(1, body, prose(f"{RAIN} {FOX}", body[-1].top + 40))).rstrip("\n").split("\n\n")


@pytest.mark.parametrize(
    ("text", "style", "inside", "outside"),
    [
        ("Terms of use", {}, {"size": 11.5}, {"size": 11.4}),
        ("Terms of use", {"mono": True, "bold": True}, {"size": 11.5}, {"size": 11.4}),
        ("Terms of use", {"bold": True}, {"size": 10.8}, {"size": 10.7}),
        ("1.1 Terms", {"bold": True}, {"drop": 14.5}, {"drop": 14.3}),
        ("1.1 Terms", {"bold": True, "drop": 20}, {"size": 8.5}, {"size": 8.4}),
        ("1.1 TERMS", {"drop": 20}, {"size": 8.5}, {"size": 8.4}),
        ("1.1 Terms", {"drop": 20}, {"italic": True}, {"italic": False}),
        ("SUMMARY", {"drop": 20}, {"x": 274}, {"x": 272}),
        ("SUMMARY", {"drop": 20}, {"x": 282}, {"x": 285}),
    ],
)
def test_a_line_is_a_heading_by_its_size_weight_place_and_the_white_over_it(text, style, inside, outside) -> None:
    assert any(re.fullmatch(f"#+ {text}", block) for block in written((text, {**style, **inside})))
    assert text in " ".join(block for block in written((text, {**style, **outside})) if block[0] != "#")


@pytest.mark.parametrize(
    ("first", "text", "style", "inside", "outside"),
    [
        (LONG, "opening it", {}, {"drop": 27}, {"drop": 28}),
        (LONG, "opening it", {}, {"drop": 18}, {"drop": -1}),
        (LONG, "opening it", {"drop": 18}, {"size": 14.5}, {"size": 14.6}),
        (LONG, "opening it", {"drop": 18}, {"size": 13.5}, {"size": 13.4}),
        (LONG[:60], "opening it", {}, {"drop": 27}, {"drop": 28}),
        (LONG[:55], "opening it", {}, {"drop": 18}, {"drop": 19}),
        ("1 All the users", "opening it", {"x": 64}, {"drop": 21}, {"drop": 22}),
        ("1 All the users", "opening it", {"drop": 21}, {"x": 64}, {"x": 62}),
        ("Chapter 3", "Safety", {"size": 18}, {"drop": 66}, {"drop": 68}),
    ],
)
def test_two_lines_are_one_heading_where_they_are_near(first, text, style, inside, outside) -> None:
    one = (first, {"size": 14, "bold": True, "drop": 40})
    for near, is_one in ((inside, True), (outside, False)):
        blocks = written(one, (text, {"size": 14, "bold": True, **style, **near}))
        assert any(re.fullmatch(f"#+ {first} {text}", block) for block in blocks) == is_one


@pytest.mark.parametrize(
    ("first", "text", "style", "inside", "outside"),
    [
        (CLOSED, "whole", {}, {"drop": 16.2}, {"drop": 16.3}),
        (ENDED, "Whole", {}, {"drop": 13.4}, {"drop": 13.5}),
        (ENDED, "Whole", {}, {"x": 65}, {"x": 66}),
        (CLOSED, "whole", {}, {"size": 10.8}, {"size": 10.9}),
        (CLOSED, "whole", {}, {"size": 9.3}, {"size": 9.2}),
        (CLOSED[:49], "whole", {}, {"drop": 3.5}, {"drop": 3.7}),
        (CLOSED[:49], "whole", {}, {"drop": -3.5}, {"drop": -3.7}),
        (CLOSED, "whole", {"drop": 14}, {"bold": False}, {"bold": True}),
        (CLOSED, "whole", {"mono": True}, {"drop": 13.7}, {"drop": 13.9}),
        (CLOSED, "whole", {"mono": True}, {"x": 61.9}, {"x": 62.1}),
        (f"• {ENDED[-92:]}", "whole", {}, {"x": 79}, {"x": 81}),
    ],
)
def test_two_lines_are_one_paragraph_where_they_are_near_and_alike(first, text, style, inside, outside) -> None:
    for near, is_one in ((inside, True), (outside, False)):
        blocks = written((first, {"drop": 40}), (text, {**style, **near}))
        assert any(block.endswith(f"{first[2:]} {text}") for block in blocks) == is_one


@pytest.mark.parametrize(("x0", "inside", "outside"), [(60, 68, 69), (62, 69, 70.5), (70, 73, 74), (70, 57, 56)])
def test_a_paragraph_goes_on_over_the_page_where_its_lines_begin(x0, inside, outside) -> None:
    for x, is_one in ((inside, True), (outside, False)):
        first = page(1, prose(FOX * 3, 60), line(CLOSED[:91], 700, x=x0))
        assert (f"{CLOSED[:91]} whole" in markdown(first, page(2, line("whole", 60, x=x), prose(FOX, 100)))) == is_one


@pytest.mark.parametrize(
    ("lengths", "tops", "sizes", "blocks"),
    [
        ((60, 60, 60), (0, 12, 24), (10, 10, 10), 1),  # a quotation is narrower than its column
        ((60, 60), (0, 12), (10, 10), 2),  # two lines say nothing of its width
        ((60, 60, 60), (0, 12, 30), (10, 10, 10), 3),
        ((60, 60, 60), (0, 12, 24), (10, 10, 11.1), 3),
        ((60, 60, 60, 60, 90), (0, 12, 24, 36, 48), (10,) * 5, 4),  # a wide line is among the next ones
    ],
)
def test_narrow_lines_are_full_where_those_around_are_as_narrow(lengths, tops, sizes, blocks) -> None:
    each = zip(lengths, tops, sizes, strict=True)
    lines = [line(CLOSED[:length], 200 + top, x=80, size=size) for length, top, size in each]
    text = markdown(page(1, prose(FOX * 3, 60), lines, prose(f"{RAIN} {FOX}", 400)))
    assert text.count("\n\n") - 1 == blocks


def test_a_model_is_shown_lines_and_cells_where_they_are_printed() -> None:
    first = [line(CLOSED, 60), line("whole", 72), line("Part", 88.2), line("near", 100.2), line("far", 116.5)]
    first += [cells(140, (60, "Name"), (200, "Count"), (300, "Sum")), cells(164, (60, "ab"), (79, "c"))]
    first.insert(-1, cells(152, (60, "Seal"), (200, "12"), (211.6, "a"), (216.7, "b"), (1e7, "far")))
    first += [line("Two in-", 176), line("stalled ones", 188)]
    last = page(3, line("new", 400), line("column", 60, x=310, column=1))
    source = source_of(parsed(page(1, first), page(2), last, page(4)))
    table = f"Name{'Count':>29}{'Sum':>18}\n{'Seal                        12 ab':160}far\nab c"
    assert source.text == (f"{CLOSED}\nwhole\n\nPart\nnear\n\nfar\n\n{table}\nTwo installed\nones\nnew\ncolumn")
    assert (source.pages, source.page_atoms) == (4, (0, 36, 36, 38, 38))


def test_a_first_section_as_large_as_the_title_is_no_part_of_it() -> None:
    title = line("Warranty Terms 2026", 60, size=18, bold=True, x=200)
    below = flow((18, "1 Scope"), f"{FOX} " * 3, (18, "2 Duration"), f"{RAIN} " * 3, top=96)
    found = headings(page(1, title, below), title="Warranty Terms 2026")
    assert found == ["# Warranty Terms 2026", "## 1 Scope", "## 2 Duration"]


def test_a_title_of_two_sizes_is_one_where_the_metadata_say_so() -> None:
    leaf = page(1, TITLE, line("2026 Edition", 70, size=12), flow(FOX, (14, "Safety"), RAIN, top=110))
    assert headings(leaf, title="Pump Manual 2026 edition") == ["# Pump Manual 2026 Edition", "## Safety"]


def test_what_is_in_bold_beside_something_is_no_heading() -> None:
    for drop, found in ((0, 1), (7, 2)):
        pair = ("1.1 Fiscal", {"drop": 20, "bold": True}), ("Amount", {"drop": drop, "x": 300, "bold": True})
        assert sum(block[0] == "#" for block in written(*pair)) == found


def test_the_only_root_of_an_outline_is_the_title() -> None:
    leaf = page(1, flow((24, "Pump Manual"), FOX, (14, "Safety"), RAIN, (14, "Use"), FOX))
    items = [OutlineItem(level=1, title="Pump Manual", page=1)]
    items += [OutlineItem(level=2, title=title, page=1) for title in ("Safety", "Use")]
    assert headings(leaf, outline=items) == ["# Pump Manual", "## Safety", "## Use"]


def test_identity_and_metadata_are_kept() -> None:
    before = parsed(page(1, flow((24, "Pump"), FOX)), page(2, prose(RAIN, 60)), labels=("i", "1"))
    copy = pickle.loads(pickle.dumps(before))
    after = format_layout(before)
    assert (after.id, after.source, after.metadata) == ("d", "files/pump manual.pdf", {"maker": "Halden"})
    assert (after.title, after.media_type, after.page_labels) == ("Pump", "text/markdown", ("i", "1"))
    assert before == copy


def test_a_source_without_layout_is_returned_as_it_is() -> None:
    document = Document(id="d", text="# A\n")
    assert format_layout(Parsed(document=document)) is document


def test_text_placed_miles_away_does_not_fill_the_memory() -> None:
    far = cells(100, (80, "a"), (1e9, "b"))
    mono = replace(far, spans=tuple(replace(span, mono=True) for span in far.spans))
    assert len(markdown(page(1, prose(FOX, 60), mono, prose(RAIN, 130)))) < 1_000


def test_a_bold_word_that_begins_a_line_and_a_command_are_no_headings() -> None:
    run_in = cells(
        60, (60, "Danger"), (95, "marks what may kill. Do not go on before you know why it is there at all.")
    )
    run_in = replace(run_in, spans=(replace(run_in.spans[0], bold=True), run_in.spans[1]))
    command = line("$ pump --start", 250, mono=True, bold=True, size=11)
    assert "#" not in markdown(page(1, run_in, prose(FOX, 120), prose(RAIN, 210), command))


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
        leaf(n, line("Pump Manual", 20, size=8), line(f"Page {n}", 770, size=8, x=290), label=str(n))
        for n in range(1, 5)
    ]
    text = markdown(*pages)
    assert ("Pump Manual" in text, "Page" in text, text.count("quick")) == (False, False, 4)
    assert markdown(*pages, options=LayoutOptions(running_heads=True)).count("Pump Manual") == 4


@pytest.mark.parametrize(("count", "leaves", "gone"), [(2, (1, 2), True), (4, (2, 3), False), (4, (2, 3, 4), True)])
def test_numbers_run_on_three_pages_or_on_all_of_two(count, leaves, gone) -> None:
    pages = [leaf(n, line(f"Leaf {n}", 20, size=8)) if n in leaves else leaf(n, top=200) for n in range(1, count + 1)]
    assert ("Leaf" not in markdown(*pages)) == gone


def test_what_is_printed_as_the_label_of_its_page_goes_with_the_numbers() -> None:
    labels = enumerate(("1", "2", "3", "A-1"), 1)
    leaves = [leaf(n, line(label, 770, size=8), label=label) for n, label in labels]
    assert "A-1" not in markdown(*leaves)
    assert "A-1" in markdown(*leaves[:3], replace(leaves[3], label="4"))


def test_page_numbers_go_at_any_height_but_not_other_numbers() -> None:
    leaves = [page(n, prose(FOX * n, 60), line(f"{n + 6}", 100 + 70 * n, x=300)) for n in range(1, 6)]
    assert not re.search(r"^\d+$", markdown(*leaves), re.M)
    assert "99" in markdown(*leaves, page(6, prose(FOX, 60), line("99", 300)))


def test_head_of_several_lines_and_of_a_part_goes_but_for_the_first_page_of_the_part() -> None:
    head = (line("Halden plc", 30, size=8), line("Notes to the statements", 39, size=8))
    for first, kept in ((6, 1), (9, 4)):
        pages = [leaf(n, *head) if n >= first else leaf(n, top=30) for n in range(1, 13)]
        assert markdown(*pages).count("Notes to") == kept


def test_names_of_columns_at_the_top_of_pages_are_no_running_head() -> None:
    head = cells(30, (60, "Name"), (300, "Amount"))
    pages = [leaf(n, head if n > 5 else line("abcde"[n - 1] * 9, 30)) for n in range(1, 13)]
    assert markdown(*pages).count("Amount") == 7


@pytest.mark.parametrize("columns", [(60,), (60, 300), (60, 200, 400)])
def test_rows_at_the_edges_of_pages_that_differ_in_digits_stay_below_their_running_heads(columns) -> None:
    def parts(n):
        rows = [cells(60 + 16 * at, *((x, f"P-{40 * n + at:05}") for x in columns)) for at in range(40)]
        names = cells(44, *((x, "Number") for x in columns))
        return page(n, line("Parts of Halden", 20), names, *rows, line(f"{n}", 740))

    text = markdown(*map(parts, range(1, 8)))
    assert (text.count("P-"), "Halden" in text) == (7 * 40 * len(columns), False)


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
        ("The Pump|Its Use", "Pumps of Halden", 14, "Pumps of Halden"),
        ("", "Pumps of Halden", 14, "Pumps of Halden"),
        ("", "0000764478-23-000041", 14, "On Pumps"),
        ("", "0000764478-23-000041", 10, "pump manual"),
    ],
)
def test_title_is_taken_from_outline_metadata_first_line_or_file(outline, named, first, title) -> None:
    items = [OutlineItem(level=1, title=root, page=1) for root in filter(None, outline.split("|"))]
    leaf = page(1, line("On Pumps", 60, size=first), prose(FOX, 100))
    rival = page(2, flow((14, "Use"), FOX))
    assert format_layout(parsed(leaf, rival, outline=items, title=named)).title == title


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
RULED_LINES = (
    cells(100, (60, "Part"), (300, "Num|ber"), bold=True),
    cells(115, (60, "Seal of"), (300, "2")),
    line("the cover", 127),
)


def test_ruled_tables_take_the_place_of_their_lines_and_titles_stay_before_them() -> None:
    table = "| Part | Num\\|ber |\n| --- | --- |\n| Seal of the cover | 2 |"
    above = page(1, line("Table 1. Parts", 80), *RULED_LINES, prose(RAIN, 170), tables=[RULED])
    assert markdown(above) == f"Table 1. Parts\n\n{table}\n\n{RAIN}\n"
    below = page(1, prose(FOX, 60), *RULED_LINES, line("Table 1. Parts", 160), prose(RAIN, 190), tables=[RULED])
    assert markdown(below) == f"{FOX}\n\nTable 1. Parts\n\n{table}\n\n{RAIN}\n"


def test_a_ruled_table_that_lost_words_is_not_believed() -> None:
    wrong = replace(RULED, rows=(("Part", "Number"), ("Seal", "2")))
    text = markdown(page(1, *RULED_LINES, tables=[wrong]), options=LayoutOptions(unruled_tables=False))
    assert ("|" in text.replace("Num|ber", ""), "the cover" in text) == (False, True)


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


def test_empty_pages_begin_where_the_next_one_does() -> None:
    document = format_layout(parsed(page(1), page(2, prose(FOX, 60)), page(3), page(4, prose(RAIN, 60)), page(5)))
    second = document.text.index("Rain")
    assert document.page_starts == (0, 0, second, second, len(document.text))
    assert document.page_at(second) == 4
    assert format_layout(parsed(page(1), page(2))).text == ""


def figured(*lines, boxes=((100, 200, 300, 300),)):
    """The Markdown of lines on a page with figures, whose names are their numbers, above a paragraph."""
    cut = [FigureCrop(x0=x0, top=top, x1=x1, bottom=bottom, kind="bitmap", png=b"", width=1, height=1)
           for x0, top, x1, bottom in boxes]  # fmt: skip
    text = markdown(replace(page(1, *lines, prose(RAIN, 600)), figures=tuple(cut)))
    return re.sub(r"figures/\w+-p0001-(\d)\.png", r"\1", text).removesuffix(f"\n\n{RAIN}\n")


CAPTION = "Figure 1: The pump"


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ([(CAPTION, 110, 372)], [(CAPTION, 110, 373)]),
        ([(CAPTION, 110, 118)], [(CAPTION, 110, 117)]),
        ([(CAPTION, 324, 250)], [(CAPTION, 325, 250)]),
        ([(CAPTION, 320, 195)], [(CAPTION, 320, 194)]),
        ([(CAPTION, 320, 295)], [(CAPTION, 320, 296)]),
        ([(CAPTION, 110, 101), ("of Halden", 110, 118)], [(CAPTION, 110, 101), ("of Halden", 110, 119)]),
        ([("(a)     (b)x", 110, 310), (CAPTION, 110, 330)], [("(a)     (b)xy", 110, 310), (CAPTION, 110, 330)]),
        ([("Other words", 310, 310), (CAPTION, 110, 330)], [("Some other words", 290, 310), (CAPTION, 110, 330)]),
    ],
)
def test_a_caption_is_near_its_figure_with_no_words_between(inside, outside) -> None:
    for placed, title in ((inside, CAPTION), (outside, "")):
        written = figured([line(text, top, x=x) for text, x, top in placed])
        assert written.startswith(f"![{title}") or f"\n![{title}" in written
        assert (f"![{CAPTION}" in written) == (title != "")


@pytest.mark.parametrize(
    ("second", "shared"),
    [
        ((320, 200, 420, 300), True), ((421, 200, 520, 300), False), ((320, 250, 420, 350), True),
        ((320, 252, 420, 352), False), ((320, 200, 420, 356), False),
    ],
)  # fmt: skip
def test_a_figure_shares_the_caption_below_one_beside_it(second, shared) -> None:
    written = figured([line(CAPTION, 352, x=100)], boxes=((100, 200, 300, 300), second))
    assert written.count(f"![{CAPTION}]") == 1 + shared


def test_figures_take_the_words_in_them_and_stand_where_they_are_printed() -> None:
    column = [line("above it", 180, x=110), line("right of it", 280, x=400), line("below it", 303, x=110)]
    within = [line("in it", 297, x=86), line("and too", 193, x=283), line("left of it", 297, x=70)]
    assert figured(column, within).split("\n\n") == [
        "above it", "right of it", '![](1 "in it and too")', "below it", "left of it"
    ]  # fmt: skip
    column = [line("first", 240, x=400), line("then", 280, x=400)]
    assert figured(column, boxes=((545, 200, 590, 300),)).split("\n\n") == ["first", "![](1)", "then"]


def test_captions_side_by_side_come_one_after_the_other() -> None:
    two = [cells(310, (100, "Figure 1: Left"), (330, "Figure 2: Right")), cells(327, (100, "part"), (322, "side"))]
    assert figured(two, boxes=((100, 200, 300, 300), (320, 200, 420, 300))).split("\n\n") == [
        "![Figure 1: Left](1)", "Figure 1: Left", "part", "![Figure 2: Right side](2)", "Figure 2: Right side"
    ]  # fmt: skip


# 2 laws


words = st.text("abcdefgXYZ0123456789#*|->.", min_size=1, max_size=9).filter(
    lambda word: any(c.isalpha() for c in word)
)
styles = st.fixed_dictionaries({
    "size": st.sampled_from([8.0, 10.0, 10.0, 10.0, 13.0, 18.0]), "bold": st.booleans(),
    "mono": st.sampled_from([False, False, False, True]), "x": st.sampled_from([60.0, 60.0, 72.0, 90.0]),
})  # fmt: skip


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
def test_every_letter_and_digit_is_kept_in_order_and_equal_layouts_give_equal_documents(source) -> None:
    document = format_layout(source, LayoutOptions(running_heads=True))
    assert document == format_layout(pickle.loads(pickle.dumps(source)), LayoutOptions(running_heads=True))
    printed = letters("".join(one.text for each in source.layout.pages for one in each.lines))
    text = letters(document.text)
    # cells of wrapped rows are read one after the other
    assert text == printed or ("| ---" in document.text and Counter(text) == Counter(printed))


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


# 3 real manuals, where they are at hand


MANUALS = ("R-FAQ.pdf", "R-data.pdf", "libtasn1.pdf")


@pytest.fixture(scope="module", params=MANUALS)
def manual(request):
    return parse(needs_data("pdfs", request.param))


@pytest.mark.slow
def test_every_letter_is_kept(manual) -> None:
    document = format_layout(manual, LayoutOptions(running_heads=True, unruled_tables=False))
    printed = key("".join(line.text for page in manual.layout.pages for line in page.lines))
    assert key(document.text) == printed


def test_running_heads_are_all_that_goes_and_pages_begin_with_their_first_words(manual) -> None:
    kept = format_layout(manual, LayoutOptions(running_heads=True, unruled_tables=False))
    document = format_layout(manual, LayoutOptions(unruled_tables=False))
    assert 0 < len(key(kept.text)) - len(key(document.text)) < 60 * len(manual.layout.pages)
    assert not re.search(r"^Chapter \d+: .* \d+$", document.text, re.MULTILINE)
    for page, start in zip(manual.layout.pages, kept.page_starts, strict=True):
        assert not page.lines or key(kept.text[start : start + 300]).startswith(key(page.lines[0].text)[:12])


def test_headings_are_found_without_the_outline_and_with_it(manual) -> None:
    counts = score_outline(manual)
    assert counts is not None
    assert counts.shared >= 0.95 * counts.truth
    assert counts.shared >= 0.9 * counts.outlined
    assert counts.level == counts.shared
