"""Section chunks: one per smallest division, whole, exact, and nothing between them but what was passed over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_structure_outline import texts

from catena.model import Chunk, Document, ParameterError, span_id
from catena.structure import (
    HEADING_ONLY,
    ChunkOptions,
    SectionChunkOptions,
    blocks_of,
    cut,
    cut_fixed,
    cut_sections,
    outline,
    searchable,
    trimmed,
)
from catena.structure.title_numbers import Numbered, numbered

MANUAL = """# HX210

The pump lifts water.

## 1 Mounting

### 1.1 Cover

Take off the cover. Turn it.

### 1.2 Foot

- one
- two

## 2 References

1. A book.

### Older books

None is left.
"""


def document(text: str, media_type: str = "text/markdown") -> Document:
    return Document(id="d", text=text, media_type=media_type, page_starts=(0, len(text) // 2))


def sections_of(text: str, media_type: str = "text/markdown", **options: object) -> tuple[Chunk, ...]:
    found = document(text, media_type)
    return cut_sections(found, outline(found), options=SectionChunkOptions(**options))  # type: ignore[arg-type]


def test_each_smallest_division_is_one_chunk_with_its_heading() -> None:
    chunks = sections_of(MANUAL)
    assert [chunk.path for chunk in chunks] == [
        ("HX210",),
        ("HX210", "1 Mounting", "1.1 Cover"),
        ("HX210", "1 Mounting", "1.2 Foot"),
        ("HX210", "2 References"),
        ("HX210", "2 References", "Older books"),
    ]
    assert chunks[1].text == "### 1.1 Cover\n\nTake off the cover. Turn it."
    assert (chunks[1].section, chunks[1].position, chunks[1].lines, chunks[1].kind) == (2, 1, (7, 9), "text")


def test_titles_left_out_take_what_is_below_them_along() -> None:
    for title in ("References", "references.", "2. REFERENCES"):
        assert [chunk.path[-1] for chunk in sections_of(MANUAL, leave_out=(title,))] == [
            "HX210",
            "1.1 Cover",
            "1.2 Foot",
        ]
    assert sections_of(MANUAL, leave_out=("See also",)) == sections_of(MANUAL)
    assert sections_of("# Notes\n\nAll of it.\n", leave_out=("Notes",)) == ()


def test_too_short_a_body_gives_no_chunk() -> None:
    assert [chunk.path[-1] for chunk in sections_of(MANUAL, min_characters=10)] == [
        "HX210", "1.1 Cover", "Older books",
    ]  # fmt: skip


def test_the_fewest_characters_are_enough() -> None:
    text = "# A\n\na b <!-- x -->c\n\n# B\n\nab\n\n<!-- long enough -->\n"
    assert [chunk.path for chunk in sections_of(text, min_characters=3)] == [("A",)]
    assert [chunk.path for chunk in sections_of(text, min_characters=2)] == [("A",), ("B",)]


def test_no_length_cuts_a_division() -> None:
    body = "One more sentence stands here. " * 5_000
    (chunk,) = sections_of(f"# A\n\n{body}")
    assert chunk.text == f"# A\n\n{body.strip()}"


def test_a_document_of_headings_alone_keeps_them() -> None:
    chunks = sections_of("# A\n\n## B\n\n<!-- later -->\n\n***\n")
    assert [chunk.path for chunk in chunks] == [("A",), ("A", "B")]
    assert chunks[0].metadata == {HEADING_ONLY: True}


def test_comments_and_rules_are_no_body_but_code_and_tags_are() -> None:
    text = "# A\n\n<!-- x -->\n<!-- y -->\n\n---\n\n# B\n\n<p>x</p>\n\n# C\n\n```\n<!-- z -->\n```\n"
    assert [chunk.path for chunk in sections_of(text)] == [("B",), ("C",)]


def test_a_division_that_is_one_table_or_figure_is_of_that_kind() -> None:
    table = "# A\n\nTable 1: sizes\n\n| a |\n|---|\n| 1 |\n"
    figure = "# B\n\n![pump](p.png)\n\nFigure 1: the pump\n"
    both = f"# C\n\n{table.removeprefix('# A')}\nMore words.\n"
    assert [chunk.kind for chunk in sections_of(f"{table}\n{figure}\n{both}")] == ["table", "figure", "text"]


@pytest.mark.parametrize("media_type", ["text/markdown", "text/plain"])
def test_a_text_without_headings_is_one_chunk_with_sections_or_without(media_type: str) -> None:
    found = document("Only words.\n\nAnd more of them.\n", media_type)
    (chunk,) = cut_sections(found, outline(found))
    assert (chunk.text, chunk.path, chunk.section) == (found.text.strip(), (), 0)
    assert cut_sections(found, ()) == (chunk,)
    assert cut_sections(document(" \n"), ()) == cut_sections(document(""), ()) == ()


def test_plain_text_is_divided_at_its_numbered_headings() -> None:
    text = "1 Start\n\nSome words.\n\n2 End\n\nMore words.\n"
    assert [chunk.path for chunk in sections_of(text, "text/plain")] == [("1 Start",), ("2 End",)]


@pytest.mark.parametrize(
    ("text", "least", "expected"),
    [
        ("***\n# a", 1, ["# a"]),
        ("***", 1, ["***"]),
        ("a\n\n# b", 8, ["a"]),
        ("# a\n\n# b", 1, ["# a", "# b"]),
    ],
)
def test_where_nothing_is_long_enough_the_best_there_is_is_taken(text: str, least: int, expected: list[str]) -> None:
    found = document(text)
    options = SectionChunkOptions(min_characters=least)
    assert [chunk.text for chunk in cut_sections(found, outline(found), options=options)] == expected


@given(texts, st.sampled_from(["text/markdown", "text/plain"]), st.integers(1, 8))
def test_chunks_are_the_own_spans_of_sections(text: str, media_type: str, least: int) -> None:
    found = document(text, media_type)
    sections = outline(found)
    chunks = cut_sections(found, sections, options=SectionChunkOptions(min_characters=least))
    assert chunks == cut_sections(
        found, sections, options=SectionChunkOptions(min_characters=least), blocks=blocks_of(found)
    )
    assert bool(chunks) == bool(text.strip())
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    assert sorted({chunk.section for chunk in chunks}) == [chunk.section for chunk in chunks]
    for chunk in chunks:
        section = sections[chunk.section]
        assert (chunk.start, chunk.end) == trimmed(text, section.start, section.end)
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.path == section.path
        assert chunk.id == span_id(found.id, chunk.kind, chunk.start, chunk.end)
        assert chunk.place == found.place_of(chunk.start, chunk.end)
    assert searchable(chunks) == chunks


@given(texts)
def test_they_are_what_a_cut_without_a_cap_finds_where_tables_stand_alone(text: str) -> None:
    found = document(text, "text/plain")
    sections = outline(found)
    whole = cut(found, sections, options=ChunkOptions(max_tokens=10**9, min_tokens=0))
    assert [chunk.text for chunk in cut_sections(found, sections)] == [chunk.text for chunk in searchable(whole)]


def test_fixed_lengths_with_content_stay_inside_their_sections() -> None:
    """The "w/ content" rows of Tables 6 and 9: fixed lengths inside each section, each with its path."""
    found = document("# A\n\nOne two three. Four five six.\n\n# B\n\nSeven eight nine.\n")
    across = cut_fixed(found, tokens=100)
    inside = cut_fixed(found, outline(found), tokens=100)
    assert [(chunk.path, chunk.text[:3]) for chunk in across] == [((), "# A")]
    assert [(chunk.path, chunk.text[:3]) for chunk in inside] == [(("A",), "# A"), (("B",), "# B")]


@pytest.mark.parametrize(
    "options", [{"min_characters": 0}, {"leave_out": "Notes"}, {"leave_out": ("Notes", " -")}], ids=str
)
def test_options_that_mean_nothing_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        SectionChunkOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("3.2  The Cover", Numbered(("3", "2"), 2, ("the", "cover"))),
        ("Chapter 3: Pumps", Numbered(("3",), 1, ("pumps",))),
        ("Appendix A Tables", Numbered(("A",), 1, ("tables",))),
        ("A.1 Tables", Numbered(("A", "1"), 2, ("tables",))),
        ("IV. Results", Numbered(("IV",), 1, ("results",))),
        ("Part II", Numbered(("part", "II"), 0, ())),
        ("第三章 概述", Numbered(("章3",), 1, ("概", "述", "概述"))),
        ("A note", Numbered((), 0, ("a", "note"))),
        ("I am", Numbered((), 0, ("i", "am"))),
        ("MIX it", Numbered((), 0, ("mix", "it"))),
        ("2001 was a year", Numbered((), 0, ("2001", "was", "a", "year"))),
        ("", Numbered((), 0, ())),
    ],
)
def test_numbers_of_titles(title: str, expected: Numbered) -> None:
    assert numbered(title) == expected
