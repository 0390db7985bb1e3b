"""Chunks: what is cut where, and the law that nothing is lost, moved, repeated or too long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_structure_outline import markdown_lines, texts

from catena.model import TABLE_HEADER, Chunk, Document, ParameterError, span_id
from catena.structure import (
    HEADING_ONLY,
    Block,
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
from catena.structure.chunking import by_section
from catena.text import count_tokens

limits = st.integers(1, 40)
counters = st.sampled_from([count_tokens, len, lambda text: len(text.split())])


def document(text: str, media_type: str = "text/markdown") -> Document:
    return Document(id="d", text=text, media_type=media_type, page_starts=(0, len(text) // 2))


def chunks_of(text: str, max_tokens: int = 320, min_tokens: int = 0) -> tuple[Chunk, ...]:
    found = document(text)
    options = ChunkOptions(max_tokens=max_tokens, min_tokens=min(min_tokens, max_tokens))
    return cut(found, outline(found), options=options)


def check_law(found: Document, chunks: Any, limit: int, count: Any = count_tokens, *, whole: bool = True) -> None:
    at = 0
    for position, chunk in enumerate(chunks):
        assert chunk.position == position
        assert chunk.start >= at
        assert not whole or not found.text[at : chunk.start].strip()
        assert found.text[chunk.start : chunk.end] == chunk.text
        assert chunk.text.strip()
        assert len(chunk.text) == 1 or count(chunk.text.strip()) <= limit
        assert chunk.id == span_id(found.id, chunk.kind, chunk.start, chunk.end)
        assert chunk.place == found.place_of(chunk.start, chunk.end)
        at = chunk.end
    assert not whole or not found.text[at:].strip()


@given(texts, limits, st.integers(0, 20), counters, st.sampled_from(["text/markdown", "text/plain"]))
def test_chunks_tile_their_sections(text: str, limit: int, small: int, count: object, media_type: str) -> None:
    found = document(text, media_type)
    sections = outline(found)
    chunks = cut(found, sections, options=ChunkOptions(max_tokens=limit, min_tokens=min(small, limit)), count=count)  # type: ignore[arg-type]
    check_law(found, chunks, limit, count)
    for chunk in chunks:
        section = sections[chunk.section]
        assert section.start <= chunk.start <= chunk.end <= section.end
        assert chunk.path == section.path
        assert bool(chunk.metadata.get(HEADING_ONLY)) == (
            section.level > 0 and not text[section.body_start : section.end].strip()
        )


@given(texts, limits, st.booleans())
def test_fixed_length_chunks_obey_the_same_law(text: str, limit: int, inside: bool) -> None:
    found = document(text)
    sections = outline(found)
    chunks = cut_fixed(found, sections if inside else None, tokens=limit)
    check_law(found, chunks, limit)
    for chunk in chunks:
        section = sections[chunk.section]
        assert chunk.path == (section.path if inside else ())
        assert not inside or section.start <= chunk.start <= chunk.end <= section.end


@given(markdown_lines)
def test_blocks_given_or_asked_for_give_the_same_chunks(lines: list[str]) -> None:
    found = document("\n".join(lines))
    blocks = blocks_of(found)
    assert outline(found, blocks=blocks) == outline(found)
    assert cut(found, outline(found), blocks=blocks) == cut(found, outline(found))


def test_a_short_section_is_one_chunk_with_its_heading_and_a_bare_heading_says_so() -> None:
    assert [bool(chunk.metadata.get(HEADING_ONLY)) for chunk in chunks_of("# A\n\n## B\n\ntext\n")] == [True, False]
    parts = ["# A\n\nOne.\n\n- x\n- y\n\n    code\tkept", "## B\n\nTwo."]
    assert [chunk.text for chunk in chunks_of("\n\n".join(parts) + "\n")] == parts


def test_tables_and_figures_are_chunks_of_their_own_with_their_captions() -> None:
    parts = [
        ("text", "# A\n\nFirst words."),
        ("table", "Table 1. Sizes\n\n| a | b |\n|---|---|\n| 1 | 2 |"),
        ("text", "More words."),
        ("figure", "![x](y.png)\n\nFigure 2: a picture"),
        ("text", "Last words."),
    ]
    found = chunks_of("\n\n".join(text for _, text in parts))
    assert [(chunk.kind, chunk.text) for chunk in found] == parts


@pytest.mark.parametrize(
    ("text", "small"),
    [
        ("# A\n\nSizes:\n\n| a |\n|---|\n| 1 |\n", "# A\n\nSizes:"),
        ("# A\n\n| a |\n|---|\n| 1 |\n\nA note.", "A note."),
    ],
)
def test_small_text_joins_its_table_up_to_the_cap_and_not_beyond_it_or_its_section(text: str, small: str) -> None:
    whole = count_tokens(text)
    (joined,) = chunks_of(text, max_tokens=whole, min_tokens=8)
    assert (joined.kind, joined.text) == ("table", text.strip())
    assert len(chunks_of(text, max_tokens=whole - 1, min_tokens=8)) == 2
    assert small in [chunk.text for chunk in chunks_of(text, min_tokens=count_tokens(small))]  # as long as it need be
    both = chunks_of(f"{text}\n\n# B\n\nx\n", min_tokens=8)
    assert [(chunk.kind, chunk.path) for chunk in both] == [("table", ("A",)), ("text", ("B",))]


def test_a_block_that_a_border_cuts_counts_on_both_sides_from_where_each_side_begins() -> None:
    text = "# A\n\none two\n# B\n"
    found = outline(document(text))
    blocks = [Block("heading", 0, 3, 1, "A"), Block("paragraph", 5, len(text) - 1)]
    assert [inside for _, inside in by_section(found, blocks)] == [blocks, [Block("paragraph", 13, len(text) - 1)]]


def test_a_long_table_is_cut_between_rows_and_keeps_its_header_in_metadata() -> None:
    rows = "".join(f"| r{row} | {row} |\n" for row in range(30))
    header = "| name | n |\n|---|---|"
    first, *rest = chunks_of(f"# A\n\n{header}\n{rows}", max_tokens=60)
    assert (first.text[:3], TABLE_HEADER in first.metadata, len(rest)) == ("# A", False, 2)
    found = {(chunk.kind, chunk.text[:3], chunk.metadata[TABLE_HEADER]) for chunk in rest}
    assert found == {("table", "| r", header)}


def test_a_long_section_is_cut_at_the_mildest_border_into_even_pieces() -> None:
    paragraph = "Some words stand here today. And more of them follow it."
    chunks = chunks_of("# A\n\n" + f"{paragraph}\n\n" * 6, max_tokens=50)
    assert [chunk.text.count(paragraph) for chunk in chunks] == [3, 3]
    sentences = chunks_of("# A\n\n" + "Dr. Who has 3.5 of them. " * 20, max_tokens=40)
    assert all(chunk.text.endswith("them.") for chunk in sentences)
    assert sentences[0].text.startswith("# A\n\nDr. Who")


@pytest.mark.parametrize("text", [sign * 50_000 for sign in ("x", ".", "a.", "中。", "! ")], ids=range(5))
def test_hostile_texts_are_cut_under_the_cap(text: str) -> None:
    check_law(document(text), chunks_of(text), 320)
    check_law(document(text), cut_fixed(document(text), tokens=100), 100)


def test_options_name_the_bad_parameter() -> None:
    with pytest.raises(ParameterError, match=r"min_tokens must be between 0 and max_tokens \(10\), got 11"):
        ChunkOptions(max_tokens=10, min_tokens=11)
    with pytest.raises(ParameterError, match="tokens must be an integer >= 1, got 0"):
        cut_fixed(document("x"), tokens=0)
    with pytest.raises(ParameterError, match="leave_out"):
        SectionChunkOptions(leave_out=("Notes", " -"))


# One chunk per smallest division

MANUAL = Path(__file__).with_name("manual_hx210.md").read_text(encoding="utf-8")


def sections_of(text: str, media_type: str = "text/markdown", **options: object) -> tuple[Chunk, ...]:
    found = document(text, media_type)
    return cut_sections(found, outline(found), options=SectionChunkOptions(**options))  # type: ignore[arg-type]


def test_each_smallest_division_is_one_chunk_with_its_heading() -> None:
    chunks = sections_of(MANUAL)
    paths = ["HX210", "1 Mounting|1.1 Cover", "1 Mounting|1.2 Foot", "2 References", "2 References|Older books"]
    assert ["|".join(chunk.path).removeprefix("HX210|") for chunk in chunks] == paths
    assert chunks[1].text == "### 1.1 Cover\n\nTake off the cover. Turn it."
    assert (chunks[1].section, chunks[1].position, chunks[1].lines, chunks[1].kind) == (2, 1, (7, 9), "text")


def test_titles_left_out_take_what_is_below_them_along() -> None:
    for title in ("References", "references.", "2. REFERENCES"):
        found = [chunk.path[-1] for chunk in sections_of(MANUAL, leave_out=(title,))]
        assert found == ["HX210", "1.1 Cover", "1.2 Foot"]
    assert sections_of(MANUAL, leave_out=("See also",)) == sections_of(MANUAL)
    assert sections_of("# Notes\n\nAll of it.\n", leave_out=("Notes",)) == ()


def test_a_body_of_too_few_visible_characters_gives_no_chunk() -> None:
    found = [chunk.path[-1] for chunk in sections_of(MANUAL, min_characters=10)]
    assert found == ["HX210", "1.1 Cover", "Older books"]
    text = "# A\n\na b <!-- x -->c\n\n# B\n\nab\n\n<!-- long enough -->\n"
    assert [chunk.path for chunk in sections_of(text, min_characters=3)] == [("A",)]
    assert [chunk.path for chunk in sections_of(text, min_characters=2)] == [("A",), ("B",)]


def test_no_length_cuts_a_division_and_headings_alone_are_kept() -> None:
    (chunk,) = sections_of(f"# A\n\n{'One more sentence. ' * 5_000}")
    assert chunk.text.count("sentence") == 5_000
    chunks = sections_of("# A\n\n## B\n\n<!-- later -->\n\n***\n")
    assert [chunk.path for chunk in chunks] == [("A",), ("A", "B")]
    assert chunks[0].metadata == {HEADING_ONLY: True}
    # comments and rules are no body, but code and tags are
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
    numbered = "1 Start\n\nSome words.\n\n2 End\n\nMore words.\n"
    assert [chunk.path for chunk in sections_of(numbered, media_type)] == [("1 Start",), ("2 End",)]


@pytest.mark.parametrize(
    ("text", "least", "expected"),
    [("***\n# a", 1, ["# a"]), ("***", 1, ["***"]), ("a\n\n# b", 8, ["a"]), ("# a\n\n# b", 1, ["# a", "# b"])],
)
def test_where_nothing_is_long_enough_the_best_there_is_is_taken(text: str, least: int, expected: list[str]) -> None:
    found = document(text)
    options = SectionChunkOptions(min_characters=least)
    assert [chunk.text for chunk in cut_sections(found, outline(found), options=options)] == expected


@given(texts, st.sampled_from(["text/markdown", "text/plain"]), st.integers(1, 8))
def test_chunks_are_the_own_spans_of_sections(text: str, media_type: str, least: int) -> None:
    found, options = document(text, media_type), SectionChunkOptions(min_characters=least)
    sections = outline(found)
    chunks = cut_sections(found, sections, options=options)
    assert chunks == cut_sections(found, sections, options=options, blocks=blocks_of(found))
    assert bool(chunks) == bool(text.strip())
    check_law(found, chunks, 10**9, whole=False)
    assert sorted({chunk.section for chunk in chunks}) == [chunk.section for chunk in chunks]
    for chunk in chunks:
        section = sections[chunk.section]
        assert (chunk.start, chunk.end) == trimmed(text, section.start, section.end)
        assert chunk.path == section.path
    headings = [section.position for section in sections if section.level]  # all of them, where nothing has text
    assert searchable(chunks) == chunks or [chunk.section for chunk in chunks] == headings


@given(texts)
def test_they_are_what_a_cut_without_a_cap_finds_where_tables_stand_alone(text: str) -> None:
    found = document(text, "text/plain")
    sections = outline(found)
    whole = cut(found, sections, options=ChunkOptions(max_tokens=10**9, min_tokens=0))
    assert [chunk.text for chunk in cut_sections(found, sections)] == [chunk.text for chunk in searchable(whole)]
