"""The outline by a document's own table of contents: what is one, what its entries name, how deep they stand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_structure_outline import check_tiling, texts

from catena.formatting import format_layout
from catena.model import Document, ParameterError, Section
from catena.parsing import parse
from catena.structure import content_outline, cut_sections, outline, outline_by_contents
from catena.structure.contents import Contents
from catena.structure.contents_entries import is_announcement
from catena_bench.headings import Counts, Title, compare
from conftest import needs_data


def document(text: str, media_type: str = "text/markdown") -> Document:
    return Document(id="d", text=text, media_type=media_type)


def contents_of(text: str, media_type: str = "text/markdown") -> Contents:
    found = outline_by_contents(document(text, media_type))
    assert found is not None
    return found


def levels(sections: tuple[Section, ...]) -> list[tuple[int, str]]:
    return [(section.level, section.title) for section in sections]


LEADERS = """HX210 Manual

Contents

1 Mounting ........ 3
1.1 Cover . . . . . 4
1.2 Foot and a title that
goes on ........... 5
2 Use … 6
Index 9

1 Mounting
Some words about it.
1.1 Cover
Take it off.
1.2 Foot and a title that goes on
Put it on.
2 Use

Now use it.

Index

none
"""


def test_lines_with_leaders_divide_plain_text() -> None:
    found = contents_of(LEADERS, "text/plain")
    assert levels(found.sections) == [
        (0, ""), (1, "1 Mounting"), (2, "1.1 Cover"), (2, "1.2 Foot and a title that goes on"), (1, "2 Use"),
        (1, "Index"),
    ]  # fmt: skip
    assert [position for _, position in found.matched] == [1, 2, 3, 4, 5]
    assert found.missing == ()
    assert LEADERS[found.start : found.end].startswith("1 Mounting ...")
    assert LEADERS[found.start : found.end].endswith("Index 9\n")
    check_tiling(LEADERS, found.sections)


def test_an_entry_that_names_nothing_shifts_no_other() -> None:
    text = LEADERS.replace("1.1 Cover\nTake", "1.1 Lid\nTake")
    found = contents_of(text, "text/plain")
    assert found.missing == ("1.1 Cover",)
    assert [title for _, title in levels(found.sections)][2] == "1.2 Foot and a title that goes on"
    assert [title for title, _ in found.matched][1:] == [
        "1.2 Foot and a title that",
        "2 Use",
        "Index",
    ] or found.matched


def test_links_nested_by_indentation_give_the_levels_of_flat_headings() -> None:
    text = (
        "# Guide\n\n- [Start](#start)\n  - [Linux](#linux)\n  - [Other **systems**](#else)\n- [Use](#use-it)\n\n"
        "## Start\n\na\n\n## Linux\n\nb\n\n## Other systems\n\nc\n\n## Use it!\n\nd\n\n## Left out\n\ne\n"
    )
    found = contents_of(text)
    assert levels(found.sections) == [
        (1, "Guide"), (2, "Start"), (3, "Linux"), (3, "Other systems"), (2, "Use it!"), (3, "Left out"),
    ]  # fmt: skip
    assert found.sections[3].path == ("Guide", "Start", "Other systems")
    assert found.missing == ()


def test_headings_deeper_than_the_table_stay_below_its_entries() -> None:
    text = (
        "# M\n\n## Contents\n\n- A\n- B\n- C\n\n## A\n\nx\n\n### A deep\n\ny\n\n#### Deeper\n\nz\n\n## B\n\nx\n\n"
        "### B deep\n\ny\n\n## C\n\nx\n"
    )
    assert content_outline(document(text)) == outline(document(text))
    assert outline_by_contents(document(text)) is not None


def test_numbers_fix_the_levels_where_all_headings_are_alike() -> None:
    entries = "- 1 One … 2\n- 1.1 Two … 3\n- 2 Three … 4\n"
    text = f"# Contents\n\n{entries}\n# 1 One\n\na\n\n# 1.1 Two\n\nb\n\n# 1.1.1 Deep\n\nc\n\n# 2 Three\n\nd\n"
    assert levels(contents_of(text).sections) == [
        (1, "Contents"), (1, "1 One"), (2, "1.1 Two"), (3, "1.1.1 Deep"), (1, "2 Three"),
    ]  # fmt: skip


def test_a_title_without_marks_becomes_a_section() -> None:
    text = (
        "# M\n\n**Inhalt**\n\n1. Eins\n2. Zwei\n3. Drei\n\n## Eins\n\na\n\nZwei\n\nb\n\n## Drei\n\nDrei\nist mehr.\n"
    )
    found = contents_of(text)
    assert levels(found.sections) == [(1, "M"), (2, "Eins"), (2, "Zwei"), (2, "Drei")]


def test_a_heading_goes_before_a_line_of_the_same_words() -> None:
    text = "# M\n\n- [A](#a)\n- [B](#b)\n- [C](#c)\n\n## A\n\nB\n\nC\n\n## B\n\nx\n\n## C\n\nB\n\ny\n"
    found = contents_of(text)
    assert found.sections == outline(document(text))
    assert [position for _, position in found.matched] == [1, 2, 3]


def test_what_the_table_does_not_list_moves_with_the_entry_above_it() -> None:
    entries = "- [A](#a)\n  - [B](#b)\n- [C](#c)\n"
    text = f"# M\n\n{entries}\n## A\n\nx\n\n## B\n\ny\n\n### Deep\n\nz\n\n#### Deeper\n\nz\n\n## C\n\nx\n"
    assert levels(contents_of(text).sections)[1:] == [(2, "A"), (3, "B"), (4, "Deep"), (5, "Deeper"), (2, "C")]


def test_a_page_head_that_repeats_a_title_is_not_taken_for_it() -> None:
    body = "".join(f"{n} Part number {n}\n\ntext of {n}\n\n3 Part number 3\n\n" for n in range(1, 6))
    entries = "".join(f"{n} Part number {n} .... {n}\n" for n in range(1, 6))
    found = contents_of(f"Contents\n{entries}\n{body}", "text/plain")
    assert [title for _, title in levels(found.sections)[1:]] == [f"{n} Part number {n}" for n in range(1, 6)]


@pytest.mark.parametrize(
    "text",
    [
        "# M\n\n## Contents\n\n- one cable\n- two screws\n- a manual\n\n## Mounting\n\nx\n\n## Use\n\ny\n",
        "# M\n\n```\n1 A .... 1\n2 B .... 2\n3 C .... 3\n```\n\n# A\n\n# B\n\n# C\n",
        "# M\n\n| 1 A … 1 |\n|---|\n| 2 B … 2 |\n| 3 C … 3 |\n",
        "# M\n\n- [A](#a)\n- [B](#b)\n\n# A\n\n# B\n",
        "# M\n\n- A\n- B\n- C\n\n# A\n\n# B\n\n# C\n",
        "Contents\n",
        "Contents\n\n1 A\n2 B\n3 C\n",
        "",
    ],
    ids=["a list of parts", "code", "table", "two links", "no word for it", "a word alone", "no text below", "empty"],
)
def test_what_is_no_table_of_contents(text: str) -> None:
    assert outline_by_contents(document(text)) is None
    assert content_outline(document(text)) == outline(document(text))


def test_fewer_entries_than_the_share_are_not_trusted() -> None:
    text = "# Contents\n\n- [A](#a)\n- [B](#b)\n- [C](#c)\n- [D](#d)\n\n# A\n\n# B\n\nx\n"
    assert len(contents_of(text).matched) == 2
    assert outline_by_contents(document(text), share=0.6) is None
    for share in (0, -1, 1.1):
        with pytest.raises(ParameterError):
            outline_by_contents(document(text), share=share)


@pytest.mark.parametrize(
    "line", ["## Table of Contents", "**Inhaltsverzeichnis**", "CONTENTS:", "目 录", "Table des matières"]
)
def test_words_for_a_table_of_contents(line: str) -> None:
    assert is_announcement(line)
    assert not is_announcement(f"{line} of the box")


TITLES = st.lists(
    st.sampled_from(["Alpha", "Beta two", "Gamma", "Delta", "Epsilon", "Zeta"]), min_size=3, unique=True
)


@given(TITLES, st.sets(st.integers(0, 5)), st.sampled_from(["link", "leader", "item"]), st.integers(1, 3))
def test_the_sections_of_headings_are_all_kept(titles: list[str], unlisted: set[int], form: str, level: int) -> None:
    listed = [title for i, title in enumerate(titles) if i not in unlisted]
    lines = {
        "link": [f"- [{title}](#{title.lower().replace(' ', '-')})" for title in listed],
        "leader": [f"{title} ..... {page}" for page, title in enumerate(listed, 1)],
        "item": [f"* {title}" for title in listed],
    }[form]
    body = "".join(f"{'#' * level} {title}\n\nbody of it\n\n" for title in titles)
    found = document("Contents\n\n" + "\n".join(lines) + "\n\n" + body)
    sections = content_outline(found)
    check_tiling(found.text, sections)
    assert [section.title for section in sections if section.level] == titles
    by_contents = outline_by_contents(found)
    assert (by_contents is not None) == (len(listed) >= 3)
    if by_contents is not None:
        assert [title for title, _ in by_contents.matched] == listed
        assert all(sections[position].title == title for title, position in by_contents.matched)


@given(texts, st.sampled_from(["text/markdown", "text/plain"]))
def test_sections_tile_whatever_is_called_contents(text: str, media_type: str) -> None:
    found = document(f"Contents\n\n- text\n- # a\n- x\n{text}\nContents\n\n- [a](#a)\n- [b](#b)\n{text}", media_type)
    sections = content_outline(found)
    check_tiling(found.text, sections)
    assert {section.start for section in outline(found)} - {section.start for section in sections} <= set(
        range(len(found.text))
    )
    for chunk in cut_sections(found, sections):
        assert found.text[chunk.start : chunk.end] == chunk.text


@pytest.mark.parametrize(
    "text",
    [
        "Contents\n" * 10_000,
        "Contents\n\n" + "- a\n" * 30_000,
        "Contents\n" + "a .... 1\n" * 2_000 + "\na\n" * 2_000,
        (". " * 149 + "x\n") * 2_000,
        "- [a](#a)\n" * 2_000 + "# a\n" * 1_000,
    ],
    ids=["words", "items", "equal titles", "dots", "equal links"],
)
def test_hostile_tables_cost_no_square(text: str) -> None:
    check_tiling_ends(text, content_outline(document(text)))


def check_tiling_ends(text: str, sections: tuple[Section, ...]) -> None:
    assert sections[0].start == 0
    assert sections[-1].end == len(text)
    assert all(one.end == other.start for one, other in pairwise(sections))


@pytest.fixture(scope="module", params=["R-intro.pdf", "bashref.pdf"])
def manual(request: pytest.FixtureRequest):
    return parse(needs_data("pdfs", request.param), engine="pypdfium2")


def score(found: Document, sections: tuple[Section, ...], truth: list[Title]) -> Counts:
    titles = [Title(s.level, s.title, found.page_at(s.start) or 1) for s in sections if s.level]
    return compare(truth, titles)


def test_a_printed_table_loses_no_section_of_a_manual(manual) -> None:
    """By layout nearly all headings are known already; of the bare text the table finds nearly all by itself."""
    truth = [Title(item.level, item.title, item.page) for item in manual.layout.outline]
    formatted = format_layout(replace(manual, layout=replace(manual.layout, outline=())))
    by_headings, by_contents = outline(formatted), content_outline(formatted)
    assert len(by_contents) >= len(by_headings)
    assert score(formatted, by_contents, truth).shared >= score(formatted, by_headings, truth).shared
    plain = outline_by_contents(manual.document)
    assert plain is not None
    assert len(plain.matched) >= 0.95 * (len(plain.matched) + len(plain.missing))
    counts = score(manual.document, plain.sections, truth)
    assert counts.shared >= 0.95 * counts.truth
    assert counts.level >= 0.97 * counts.shared
