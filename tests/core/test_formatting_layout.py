"""Layout to Markdown: golden pages set by hand, and laws over generated ones."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from dataclasses import replace

import pytest
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
        id="d",
        text=plain,
        source="files/pump manual.pdf",
        media_type="text/plain",
        page_starts=tuple(starts),
        page_labels=labels,
        metadata={"maker": "Halden"},
    )
    return Parsed(document=document, layout=Layout(pages=pages, outline=outline, title=title))


DEFAULTS = LayoutOptions()


def markdown(*pages, options=DEFAULTS, **more):
    return format_layout(parsed(*pages, **more), options).text


def letters(text):
    return "".join(c for c in text if c.isalnum())


def headings(*pages, **more):
    return re.findall(r"^#+ .*", markdown(*pages, **more), re.M)


FOX = "The quick brown fox jumps over the lazy dog and runs away through the dark wood before anybody has seen it."
RAIN = "Rain falls on the roof of the plant for most of the year, so the covers of all the devices are kept closed."


# 1 golden pages


def test_title_chapters_and_paragraphs() -> None:
    one = page(
        1,
        line("Pump Manual", 60, size=24, bold=True),
        line("1 Safety", 120, size=16, bold=True),
        prose(FOX, 150),
        line("1.1 Terms", 190, size=12, bold=True),
        prose(RAIN, 210, first=12),
        prose(FOX, 234, first=12),
    )
    document = format_layout(parsed(one))
    assert document.text == (f"# Pump Manual\n\n## 1 Safety\n\n{FOX}\n\n### 1.1 Terms\n\n{RAIN}\n\n{FOX}\n")
    assert document.title == "Pump Manual"
    assert document.media_type == "text/markdown"


def test_chapters_are_of_level_one_where_no_title_is_printed() -> None:
    one = page(
        1,
        line("1 Safety", 60, size=16, bold=True),
        prose(FOX, 90),
        line("2 Use", 130, size=16, bold=True),
        prose(RAIN, 160),
    )
    document = format_layout(parsed(one))
    assert document.text == f"# 1 Safety\n\n{FOX}\n\n# 2 Use\n\n{RAIN}\n"
    assert document.title == "pump manual"  # the file's name


def test_a_first_section_as_large_as_the_title_is_no_part_of_it() -> None:
    found = headings(
        page(
            1,
            line("Warranty Terms 2026", 60, size=18, bold=True, x=200),
            line("1 Scope", 96, size=18, bold=True),
            *prose("These terms cover the pumps P40 and P60 sold in Europe, and no others. " * 4, 130),
            line("2 Duration", 230, size=18, bold=True),
            *prose("The warranty of the P40 lasts 24 months from the day of its delivery. " * 4, 264),
        ),
        title="Warranty Terms 2026",
    )
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
        prose(FOX, 120),
        line("2 Care", 160, size=20, bold=True),
        line("2.1 Cleaning", 190, size=14, bold=True),
        prose(RAIN, 220),
    )
    assert markdown(one) == (
        f"# 1 Replacing the seal of the second housing cover\n\n{FOX}\n\n# 2 Care\n\n## 2.1 Cleaning\n\n{RAIN}\n"
    )


def test_bold_numbered_headings_of_the_body_size_get_their_levels_from_the_numbers() -> None:
    one = page(
        1,
        line("1 Safety", 60, bold=True),
        prose(FOX, 80),
        line("1.1 Terms", 120, bold=True),
        prose(RAIN, 140),
        line("1.1.1 Signs", 180, bold=True),
        prose(FOX, 200),
    )
    assert headings(one) == ["# 1 Safety", "## 1.1 Terms", "### 1.1.1 Signs"]


def test_unnumbered_headings_are_ranked_by_size() -> None:
    one = page(
        1,
        line("Pump Manual", 40, size=24, bold=True),
        line("Safety", 80, size=16, bold=True),
        prose(FOX, 110),
        line("Terms", 150, size=13, bold=True),
        prose(RAIN, 170),
        line("Signs", 210, size=11, bold=True),
        prose(FOX, 230),
        line("Use", 270, size=16, bold=True),
        prose(RAIN, 300),
    )
    assert headings(one) == ["# Pump Manual", "## Safety", "### Terms", "#### Signs", "## Use"]


def test_of_two_styles_whose_numbers_contradict_the_smaller_one_gives_way() -> None:
    """As many headings of each: "1" in small type lies below "1.1" in large type."""

    def part(large, small, top):
        big, low = line(large, top, size=16, bold=True), line(small, top + 70, size=12, bold=True)
        return [big, *prose(FOX, top + 30), low, *prose(RAIN, top + 90)]

    found = headings(page(1, part("1.1 Safety", "1 Terms", 60), part("1.2 Use", "2 Signs", 260)))
    assert found == ["## 1.1 Safety", "### 1 Terms", "## 1.2 Use", "### 2 Signs"]


def test_numbered_steps_in_every_chapter_do_not_become_chapters() -> None:
    def chapter(title, top):
        return [
            line(title, top, size=16, bold=True),
            *prose(FOX, top + 30),
            line("Steps", top + 70, size=14, bold=True),
            *prose(FOX, top + 90),
            line("1. Open the lid", top + 130, size=12, bold=True),
            *prose(FOX, top + 150),
            line("2. Close the lid", top + 190, size=12, bold=True),
            *prose(RAIN, top + 210),
        ]

    found = re.findall(r"^(#+) ", markdown(page(1, chapter("Safety", 60)), page(2, chapter("Use", 60))), re.M)
    assert found == ["#", "##", "###", "###"] * 2


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
    first = page(
        1,
        line("A Long Report", 200, size=24, bold=True),
        line("Jane Doe", 260, size=14, bold=True),
        line("March 2025", 300, size=12, bold=True),
    )
    second = page(2, line("Summary", 60, size=14, bold=True), prose(FOX, 90))
    assert headings(first, second) == ["# A Long Report", "## Summary"]


def test_tables_of_contents_give_a_list_and_no_headings() -> None:
    dots = " . . . . . . . . . . . "
    first = page(
        1,
        line("Contents", 60, size=16, bold=True),
        line(f"1 Safety{dots}2", 90, bold=True, size=12),
        line(f"1.1 Terms{dots}2", 106),
        line(f"2 Use{dots}3", 122, bold=True, size=12),
    )
    second = page(2, line("1 Safety", 60, size=16, bold=True), prose(FOX, 90), line("2 Use", 140, size=16, bold=True))
    text = markdown(first, replace(second, lines=(*second.lines, *prose(RAIN, 170))))
    assert "- 1 Safety … 2\n- 1.1 Terms … 2\n- 2 Use … 3\n" in text
    assert re.findall(r"^#+ .*", text, re.M) == ["# Contents", "# 1 Safety", "# 2 Use"]


def outlined_pages():
    first = page(
        1,
        line("Chapter 1", 60, size=12, bold=True),
        line("The Safety of", 90, size=12, bold=True),
        line("All Pumps", 105, size=12, bold=True),
        prose(FOX, 140),
        line("Terms", 190),
        prose(RAIN, 215),
    )
    return first, page(2, line("2 Use", 60, size=12, bold=True), prose(FOX, 90))


def test_the_outline_decides_headings_and_levels() -> None:
    outline = (
        OutlineItem(level=1, title="the safety of all pumps", page=1, top=88.0),
        OutlineItem(level=2, title="1.1 Terms", page=1, top=188.0),
        OutlineItem(level=1, title="Use", page=2),
        OutlineItem(level=1, title="Not printed", page=2),
    )
    text = markdown(*outlined_pages(), outline=outline)
    assert re.findall(r"^#+ .*", text, re.M) == ["# Chapter 1 The Safety of All Pumps", "## Terms", "# 2 Use"]


def test_the_outline_is_ignored_on_request() -> None:
    outline = (OutlineItem(level=1, title="Terms", page=1),)
    text = markdown(*outlined_pages(), outline=outline, options=LayoutOptions(outline=False))
    assert "Terms" in text
    assert "# Terms" not in text


def test_headings_below_the_outline_are_added_where_their_number_continues_it() -> None:
    one = page(
        1,
        line("1 Safety", 60, size=16, bold=True),
        prose(FOX, 90),
        line("1.1 Terms", 130, size=12, bold=True),
        prose(RAIN, 150),
    )
    text = markdown(one, outline=(OutlineItem(level=1, title="Safety", page=1),))
    assert re.findall(r"^#+ .*", text, re.M) == ["# 1 Safety", "## 1.1 Terms"]


def numbered_pages(count, head="Pump Manual"):
    return [
        page(
            n,
            line(head, 20, size=8),
            line(f"Page {n}", 770, size=8, x=290),
            prose(f"{FOX} This is leaf {'abcdefgh'[n]}.", 60),
            label=str(n),
        )
        for n in range(1, count + 1)
    ]


def test_running_heads_and_page_numbers_go_and_may_be_kept() -> None:
    text = markdown(*numbered_pages(4))
    assert "Pump Manual" not in text
    assert "Page" not in text
    assert text.count("quick") == 4
    kept = markdown(*numbered_pages(4), options=LayoutOptions(running_heads=True))
    assert kept.count("Pump Manual") == 4


@pytest.mark.parametrize(("count", "leaves", "gone"), [(2, (1, 2), True), (4, (2, 3), False), (4, (2, 3, 4), True)])
def test_numbers_run_on_three_pages_or_on_all_of_two(count, leaves, gone) -> None:
    names = "abcd"
    pages = [
        page(
            n,
            *([line(f"Leaf {n}", 20, size=8)] if n in leaves else []),
            prose(f"{names[n - 1]} {FOX}", 60 if n in leaves else 200),
        )
        for n in range(1, count + 1)
    ]
    assert ("Leaf" not in markdown(*pages)) == gone


def test_text_that_repeats_at_the_top_of_the_body_stays() -> None:
    pages = [
        page(n, prose("All rights are with the maker of the pump.", 60), prose(f"{FOX} {n}", 72)) for n in range(1, 5)
    ]
    assert markdown(*pages).count("All rights") == 4


def test_chapters_that_begin_on_the_page_of_their_number_stay() -> None:
    pages = [page(n, line(f"{n} {name}", 60, size=14, bold=True), prose(FOX, 90)) for n, name in enumerate("ABC", 1)]
    named = [replace(p, lines=(replace(p.lines[0], text=p.lines[0].text + "lpha"), *p.lines[1:])) for p in pages]
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


def test_compounds_keep_their_hyphen_where_the_file_uses_it_elsewhere() -> None:
    one = page(
        1,
        prose(
            "A long-term plan is better than none, and the long-term plan of this plant is for ten years or a long-",
            60,
            right=569,
        ),
        line("term of twenty years.", 72),
    )
    assert "or a long-term of twenty" in markdown(one)


def test_lists_keep_their_depth_and_their_numbers() -> None:
    one = page(
        1,
        line("Take these parts:", 60),
        line(
            "• the pump, which stands in the corner of the large hall behind the old gate by the very long", 80, x=70
        ),
        line("northern wall", 92, x=80),
        line("– its cover", 108, x=90),
        line("• the seal", 124, x=70),
        line("1. Open the lid.", 148),
        line("2. Close it.", 164),
        line("(a) Wait.", 188),
        line("(b) Go.", 204),
    )
    assert markdown(one) == (
        "Take these parts:\n\n- the pump, which stands in the corner of the large hall behind the old gate by the "
        "very long northern wall\n  - its cover\n- the seal\n1. Open the lid.\n2. Close it.\n- (a) Wait.\n- (b) Go.\n"
    )


def test_a_year_or_an_initial_at_the_start_of_a_line_begins_no_item() -> None:
    one = page(
        1,
        prose(
            "The plant was built long ago and first closed in the very cold and long winter of the year 1999. After "
            "this it stood still.",
            60,
        ),
        line("A. Einstein", 120),
        line("12. is a number", 150),
    )
    text = markdown(one)
    assert "\n- " not in text
    assert "\n12\\. is a number\n" in text


def test_code_is_kept_with_its_indentation_and_empty_lines() -> None:
    one = page(
        1,
        prose(FOX, 60),
        line("def f(x):", 100, x=80, mono=True),
        line("return x  # ```", 112, x=100, mono=True),
        line("f(1)", 136, x=80, mono=True),
        prose(RAIN, 160),
    )
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
    assert "|" not in text.replace("Num|ber", "")
    assert "the cover" in text


def test_lines_that_align_in_columns_are_a_table() -> None:
    one = page(
        1,
        prose(FOX, 60),
        cells(100, (60, "Code"), (160, "Meaning"), (400, "Cause"), bold=True),
        cells(118, (60, "E-07"), (160, "no signal"), (400, "broken")),
        cells(136, (60, "E-08"), (160, "the shaft is inter-"), (400, "dirt")),
        cells(148, (160, "rupted")),
        cells(166, (60, "E-09"), (160, "too hot"), (400, "sun")),
        prose(RAIN, 200),
    )
    assert markdown(one) == (
        f"{FOX}\n\n| Code | Meaning | Cause |\n| --- | --- | --- |\n| E-07 | no signal | broken |\n"
        f"| E-08 | the shaft is interrupted | dirt |\n| E-09 | too hot | sun |\n\n{RAIN}\n"
    )
    assert "|" not in markdown(one, options=LayoutOptions(unruled_tables=False))


def test_two_lines_with_a_gap_are_no_table() -> None:
    one = page(1, cells(60, (60, "Left"), (300, "Right")), cells(76, (60, "Up"), (300, "Down")))
    assert "|" not in markdown(one)


def test_a_table_over_two_pages_has_its_header_once() -> None:
    def part(number, *codes):
        rows = [cells(78 + 18 * n, (60, code), (160, "meaning")) for n, code in enumerate(codes)]
        return page(number, cells(60, (60, "Code"), (160, "Text"), bold=True), *rows)

    document = format_layout(parsed(part(1, "E-07", "E-08"), part(2, "E-09", "E-10")))
    assert document.text.splitlines() == [
        "| Code | Text |",
        "| --- | --- |",
        "| E-07 | meaning |",
        "| E-08 | meaning |",
        "| E-09 | meaning |",
        "| E-10 | meaning |",
    ]
    assert document.text[document.page_starts[1] :].startswith("| E-09")


@pytest.mark.parametrize(
    ("printed", "written"),
    [
        ("# not a heading", "\\# not a heading"),
        ("7. of May", "7\\. of May"),
        ("> quoted", "\\> quoted"),
        ("| piped", "\\| piped"),
        ("~~~ tilde", "\\~~~ tilde"),
        ("=====", "\\====="),
        ("<!-- comment", "\\<!-- comment"),
        ("[1]: source", "\\[1]: source"),
        ("• # item", "- \\# item"),
        ("#hash and 1.5 and 7.", "#hash and 1.5 and 7."),
    ],
)
def test_prose_that_begins_like_markdown_is_escaped(printed, written) -> None:
    text = markdown(page(1, prose(FOX, 60), line(printed, 120), prose(RAIN, 160)))
    assert text == f"{FOX}\n\n{written}\n\n{RAIN}\n"


def test_chinese_lines_join_without_spaces() -> None:
    one = page(1, line("第一章 总则", 60, size=16, bold=True), line("为了保护" * 24, 90), line("合法权益。", 102))
    assert markdown(one) == f"# 第一章 总则\n\n{'为了保护' * 24}合法权益。\n"


def test_title_falls_back_to_the_metadata_and_then_to_the_file_name() -> None:
    assert format_layout(parsed(page(1, prose(FOX, 60)), title="A Good Title")).title == "A Good Title"
    assert format_layout(parsed(page(1, prose(FOX, 60)), title="Microsoft Word - x.doc")).title == "pump manual"


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
            text = mark + " ".join(draw(st.lists(words, min_size=1, max_size=12)))
            lines.append(line(text, top, **style))
            top += style["size"] * draw(st.sampled_from([1.2, 1.2, 1.2, 2.0]))
        pages.append(page(number, lines))
    return parsed(*pages)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(layouts())
def test_every_letter_and_digit_is_kept_in_order(source) -> None:
    document = format_layout(source, LayoutOptions(running_heads=True))
    printed = [one.text for each in source.layout.pages for one in each.lines]
    if "| ---" in document.text:  # cells of wrapped rows are read one after the other
        assert Counter(letters(document.text)) == Counter(letters("".join(printed)))
    else:
        assert letters(document.text) == letters("".join(printed))


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
