"""The heading tree: which lines are headings, whose children they are, and that sections tile the text."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict

import pytest
from case_files import cases_of
from hypothesis import example, given
from hypothesis import strategies as st

from catena.model import Document, Section
from catena.structure import cut, headed_views, outline
from catena.structure.blocks import LineBlock, _Scanner, parse_blocks, split_lines
from catena.text import plain_title
from catena.text.headings import chinese_number
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


@pytest.mark.parametrize(("numeral", "value"), [("三", 3), ("十", 10), ("二十一", 21), ("一百零五", 105), ("12", 12)])
def test_chinese_numerals(numeral: str, value: int) -> None:
    assert chinese_number(numeral) == value


@given(texts, st.sampled_from(["text/markdown", "text/plain"]))
@example("\r", "text/markdown")
def test_sections_tile_the_text(text: str, media_type: str) -> None:
    check_tiling(text, outline(document(text, media_type)))


@given(markdown_lines)
@example(["- q", "", " \tz"])
@example(["a | b", "--|--", "\u2028"])
@example(["- a", "b", "```", "", "x"])
def test_the_scanner_finds_the_blocks_that_markdown_it_finds(lines: list[str]) -> None:
    assert shapes(_Scanner(lines).scan()) == shapes(parse_blocks(lines))


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
