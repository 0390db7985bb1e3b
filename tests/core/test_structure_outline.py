"""The heading tree and the outline by a table of contents: which headings there are, and that sections tile texts."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from case_files import cases_of
from hypothesis import example, given
from hypothesis import strategies as st

from catena.formatting import format_layout
from catena.model import Document, ParameterError, Section
from catena.parsing import parse
from catena.structure import blocks_of, content_outline, cut, cut_sections, headed_views, outline, outline_by_contents
from catena.structure.blocks import LineBlock, _Scanner, parse_blocks, split_lines
from catena.structure.contents import ContentsOutline, is_announcement, printed_contents
from catena.text import plain_title
from catena.text.headings import chinese_number
from catena_bench.generated_pdfs import Heading
from catena_bench.headings import Counts, compare
from conftest import needs_data

LINES = [
    *("# a", "## b #", "#c", "    code", "\tcode", "- item", "  - nest", "1. one", "2. two", "7) x", "* s", "***"),
    *("- - -", "---", "===", "--", "```", "~~~", "``` py", "````", "> q", ">", "<!-- c", "-->", "<div>", "<b>x</b>"),
    *("<script>", "</script>", "text", "  two", "   three", "a | b", "|---|---|", "--|--", "| a | b |", "[a]: /u"),
    *("[a]:", '"title"', "[a]: b 'x", "[x", "", "", "", " ", "-", "- ", "+", "    - d", "1. x | y", "-\tx", " \tz"),
    *("> - a", "- > q", "- ```", "  ```", "- # h", "  # h2", " # h3", "- <!--", "\x0b", "\u2028", "\xa0"),
    "- [a]: /u",
]  # fmt: skip
markdown_lines = st.lists(st.sampled_from(LINES), max_size=10)
texts = st.one_of(
    st.tuples(markdown_lines, st.sampled_from(["\n", "\r\n", "\r"])).map(lambda pair: pair[1].join(pair[0])),
    st.text(),
)


def document(text: str, media_type: str = "text/markdown") -> Document:
    return Document(id="d", text=text, media_type=media_type)


def titles(text: str, media_type: str = "text/markdown") -> list[tuple[int, str]]:
    return [(section.level, section.title) for section in outline(document(text, media_type))]


def shapes(blocks: list[LineBlock]) -> list[tuple[object, ...]]:
    return [(b.kind, b.first, b.last, b.level, plain_title(b.title).replace("\x00", "\ufffd")) for b in blocks]


def check_tiling(text: str, sections: tuple[Section, ...]) -> None:
    assert "".join(text[section.start : section.end] for section in sections) == text
    assert [section.position for section in sections] == list(range(len(sections)))
    assert len({section.id for section in sections}) == len(sections)
    for section in sections:
        parent = None if section.parent is None else sections[section.parent]
        assert section.path == ((*(parent.path if parent else ()), section.title) if section.level else ())
        inside = [other for other in sections if section.start <= other.start < section.tree_end]
        assert section.tree_end == inside[-1].end
        assert all(other.level > section.level for other in inside[1:])


@pytest.mark.parametrize(("text", "sections"), cases_of("cases_outline.txt"))
def test_headings_are_found_where_a_text_has_them(text: str, sections: str) -> None:
    markdown = titles(f"{text}\n")
    assert [f"{'#' * level} {title}" if level else "-" for level, title in markdown] == sections.split("\n")
    if "#" not in text and "===" not in text:
        assert titles(f"{text}\n", "text/plain") == markdown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n\n# A ##\n", [(1, "A")]),
        ("#\ta\n#b\n####### c\n\\# d\n", [(1, "a")]),
        ("#\n", [(1, "")]),
        ("\ufeff# A\n", [(1, "A")]),
        (f"1 {'A' * 118}\n\nx\n\n2 B\n\ny\n\n3 {'C' * 119}\n\nz\n", [(1, f"1 {'A' * 118}"), (1, "2 B")]),
        ("# A\x0b# no\u2028# no\x85# no\r# B\r\n# C", [(1, "A # no # no # no"), (1, "B"), (1, "C")]),
    ],
)
def test_what_is_white_or_empty_hides_no_heading(text: str, expected: list[tuple[int, str]]) -> None:
    assert titles(text) == expected


def test_a_level_jump_gives_a_path_of_the_titles_there_are_and_plain_text_has_no_markdown_headings() -> None:
    assert titles("# A\n\nx\n", "text/plain") == [(0, "")]
    sections = outline(document("# A\n#### B\n### C\n## D\n# E\n"))
    assert [section.path for section in sections] == [("A",), ("A", "B"), ("A", "C"), ("A", "D"), ("E",)]
    assert [section.parent for section in sections] == [None, 0, 0, 0, None]
    assert [outline(document(f"# A{end}x"))[0].body_start for end in ("\n", "\r\n", "\r")] == [4, 5, 4]


@pytest.mark.parametrize(("numeral", "value"), [("三", 3), ("十", 10), ("二十一", 21), ("一百零五", 105), ("12", 12)])
def test_chinese_numerals(numeral: str, value: int) -> None:
    assert chinese_number(numeral) == value


@given(texts, st.sampled_from(["text/markdown", "text/plain"]))
@example("\r", "text/markdown")
def test_sections_tile_the_text_and_whatever_is_called_contents(text: str, media_type: str) -> None:
    check_tiling(text, outline(document(text, media_type)))
    listed = f"Contents\n\n- text\n- # a\n- x\n{text}\nContents\n\n- [a](#a)\n- [b](#b)\n{text}"
    found = document(listed, media_type)
    sections = content_outline(found)
    check_tiling(listed, sections)
    assert all(listed[chunk.start : chunk.end] == chunk.text for chunk in cut_sections(found, sections))


@given(markdown_lines)
@example(["- a", "b", "```", "", "x"])
def test_the_scanner_finds_the_blocks_that_markdown_it_finds(lines: list[str]) -> None:
    assert shapes(_Scanner(lines).scan()) == shapes(parse_blocks(lines))


def test_of_any_two_lines_the_scanner_makes_what_markdown_it_makes() -> None:
    for one, between, other in product(LINES, ([], [""]), LINES):
        lines = [one, *between, other, "text"]
        assert shapes(_Scanner(lines).scan()) == shapes(parse_blocks(lines)), lines


HOSTILE = ["# h\n" * 20_000, ">" * 100_000, "- " * 50_000, "a" * 1_000_000, "#" + " " * 100_000 + "x"]
HOSTILE.append("[x\n===\n" * 3_000 + "]:")


@pytest.mark.parametrize("text", HOSTILE, ids=range(6))
def test_hostile_texts_are_read_whole(text: str) -> None:
    assert sum(section.end - section.start for section in outline(document(text))) == len(text)


def test_sections_of_similar_docs_are_those_of_the_data() -> None:
    folder = needs_data("similar_docs")
    expected: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    for row in map(json.loads, (folder / "sections.jsonl").read_text("utf-8").splitlines()):
        expected[row["doc_id"]].append((row["start"], row["end"], row["level"], tuple(row["path"])))
    for entry in json.loads((folder / "documents.json").read_text("utf-8")):
        text = (folder / entry["path"]).read_bytes().decode("utf-8")
        found = [(s.start, s.end, s.level, s.path) for s in outline(document(text))]
        assert found == expected[entry["doc_id"]], entry["doc_id"]


@pytest.mark.slow
def test_blocks_of_real_pages_are_those_of_markdown_it() -> None:
    path = needs_data("structured", "aws_documentation", "pages.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as rows:
        for page in map(json.loads, rows):
            lines = split_lines(page["text"]).texts
            assert shapes(_Scanner(lines).scan()) == shapes(parse_blocks(lines)), page["id"]


def test_an_endless_heading_gives_a_title_of_bounded_length() -> None:
    found = document(f"# {'long ' * 5_000}\n\nwords of the text\n")
    (section,) = outline(found)
    assert section.title == ("long " * 200).strip() + "…"
    assert found.text[section.body_start :].strip() == "words of the text"
    assert max(len(view.text) for view in headed_views(found, cut(found, (section,)))) < 5_000


# The outline by a document's own table of contents: what is one, what its entries name, and their levels.


def contents_of(text: str, media_type: str = "text/markdown") -> ContentsOutline:
    found = outline_by_contents(document(text, media_type))
    assert found is not None
    return found


def levels(sections: tuple[Section, ...]) -> list[tuple[int, str]]:
    return [(section.level, section.title) for section in sections]


LEADERS = Path(__file__).with_name("manual_with_contents.txt").read_text(encoding="utf-8")


def test_lines_with_leaders_divide_plain_text_and_an_entry_that_names_nothing_shifts_no_other() -> None:
    found = contents_of(LEADERS, "text/plain")
    foot = (2, "1.2 Foot and a title that goes on")
    expected = [(0, ""), (1, "1 Mounting"), (2, "1.1 Cover"), foot, (1, "2 Use"), (1, "Index")]
    assert levels(found.sections) == expected
    assert (found.matched, found.missing) == (tuple((says, at) for at, (_, says) in enumerate(expected[1:], 1)), ())
    printed = LEADERS[found.start : found.end]
    assert (printed[:14], printed[-8:]) == ("1 Mounting ...", "Index 9\n")
    check_tiling(LEADERS, found.sections)
    found = contents_of(LEADERS.replace("1.1 Cover\nTake", "1.1 Lid\nTake"), "text/plain")
    assert (found.missing, levels(found.sections)[2][1]) == (("1.1 Cover",), foot[1])


@pytest.mark.parametrize(("text", "sections"), cases_of("cases_contents.txt"))
def test_the_table_of_contents_gives_the_levels(text: str, sections: str) -> None:
    found = contents_of(f"# M\n\n{text}\n")
    assert [f"{'#' * level} {title}" for level, title in levels(found.sections)[1:]] == sections.split("\n")
    unlisted = ("M", "Contents", "Left out", "A deep", "Deep", "Deeper", "1.1.1 Deep")
    matched = [found.sections[position].title for _, position in found.matched]
    assert matched == [title for _, title in levels(found.sections) if title not in unlisted]
    assert found.missing == ()


def test_announced_tables_come_first_of_them_the_longest_and_two_lines_between_entries_end_none() -> None:
    def listed(titles: str, before: str = "") -> str:
        return before + "".join(f"{title} .... 1\n" for title in titles) + "\n# -\n\n"

    text = "".join(map(listed, ("ABC", "ABCD", "ABC", "ABCDE"), ("", "", "Contents\n", "Contents\n")))
    assert [len(one.entries) for one in printed_contents(text, blocks_of(document(text)))] == [5, 3, 3, 4]
    for between, entries in (("x\ny\n", [3]), ("x\ny\nz\n", [])):
        text = f"Contents\nA .... 1\nB .... 2\n{between}C .... 3\n"
        assert [len(one.entries) for one in printed_contents(text, blocks_of(document(text)))] == entries


@pytest.mark.parametrize("entries", [3, 4, 5])
def test_of_equal_places_for_the_last_entry_the_earliest_is_taken(entries: int) -> None:
    titles = [f"Part {letter}" for letter in "ABCDE"[:entries]]
    listed = "".join(f"{title} .... {page}\n" for page, title in enumerate(titles, 1))
    text = f"Contents\n{listed}\n" + "".join(f"{title}\n\nwords\n\n" for title in [*titles, titles[-1]])
    found = contents_of(text, "text/plain")
    assert found.sections[-1].start == text.index(f"{titles[-1]}\n\nwords")


def test_a_page_head_that_repeats_a_title_is_not_taken_for_it() -> None:
    body = "".join(f"{n} Part number {n}\n\ntext of {n}\n\n3 Part number 3\n\n" for n in range(1, 6))
    entries = "".join(f"{n} Part number {n} .... {n}\n" for n in range(1, 6))
    found = contents_of(f"Contents\n{entries}\n{body}", "text/plain")
    assert [title for _, title in levels(found.sections)[1:]] == [f"{n} Part number {n}" for n in range(1, 6)]


NONE = [
    "# M\n\n## Contents\n\n- one cable\n- two screws\n- a manual\n\n## Mounting\n\nx\n\n## Use\n",  # a list of parts
    "# M\n\n```\n1 A .... 1\n2 B .... 2\n3 C .... 3\n```\n\n# A\n\n# B\n\n# C\n",
    "# M\n\n| 1 A … 1 |\n|---|\n| 2 B … 2 |\n| 3 C … 3 |\n",
    "# M\n\n- [A](#a)\n- [B](#b)\n\n# A\n\n# B\n",  # two links
    "# M\n\n- A\n- B\n- C\n\n# A\n\n# B\n\n# C\n",  # no word for it
    *("Contents\n", "Contents\n\n1 A\n2 B\n3 C\n", ""),
]


@pytest.mark.parametrize("text", NONE)
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


TITLES = st.lists(st.sampled_from(["Alpha", "Beta two", "Gamma", "Delta", "Eta", "Zeta"]), min_size=3, unique=True)


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


HOSTILE_TABLES = ["Contents\n" * 10_000, "Contents\n\n" + "- a\n" * 30_000, (". " * 149 + "x\n") * 2_000]
HOSTILE_TABLES += ["Contents\n" + "a .... 1\n" * 2_000 + "\na\n" * 2_000, "- [a](#a)\n" * 2_000 + "# a\n" * 1_000]


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE_TABLES, ids=range(5))
def test_hostile_tables_cost_no_square(text: str) -> None:
    sections = content_outline(document(text))
    assert (sections[0].start, sections[-1].end) == (0, len(text))
    assert all(one.end == other.start for one, other in pairwise(sections))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["R-intro.pdf", "bashref.pdf"])
def test_a_printed_table_loses_no_section_of_a_manual(name: str) -> None:
    """By layout nearly all headings are known already; of the bare text the table finds nearly all by itself."""
    manual = parse(needs_data("pdfs", name), engine="pypdfium2")
    truth = [Heading(item.level, item.title, item.page) for item in manual.layout.outline]

    def score(found: Document, sections: tuple[Section, ...]) -> Counts:
        return compare(truth, [Heading(s.level, s.title, found.page_at(s.start) or 1) for s in sections if s.level])

    formatted = format_layout(replace(manual, layout=replace(manual.layout, outline=())))
    by_headings, by_contents = outline(formatted), content_outline(formatted)
    assert len(by_contents) >= len(by_headings)
    assert score(formatted, by_contents).shared >= score(formatted, by_headings).shared
    plain = contents_of(manual.document.text, manual.document.media_type)
    assert len(plain.matched) >= 0.95 * (len(plain.matched) + len(plain.missing))
    counts = score(manual.document, plain.sections)
    assert (counts.shared >= 0.95 * counts.truth, counts.level >= 0.97 * counts.shared) == (True, True)
