"""Chunks and their views: what is cut where, that nothing is lost or repeated, and what each chunk is found by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_structure_outline import texts

from catena.model import Chunk, Document, ParameterError, span_id
from catena.structure import (
    HEADING_ONLY,
    PASSAGE,
    Block,
    ChunkOptions,
    SectionChunkOptions,
    blocks_of,
    body_of,
    cut,
    cut_fixed,
    cut_sections,
    headed_views,
    outline,
    passage_views,
    passages_of,
    prose,
    raw_views,
    searchable,
    section_segment,
    sentences_of,
    trimmed,
)
from catena.structure.chunking import by_section
from catena.structure.division import pack
from catena.structure.passages import section_of
from catena.structure.views import is_contents
from catena.testing.strategies import documents
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
def test_chunks_tile_their_sections(text: str, limit: int, small: int, count: Any, media_type: str) -> None:
    found = document(text, media_type)
    sections, blocks = outline(found), blocks_of(found)
    options = ChunkOptions(max_tokens=limit, min_tokens=min(small, limit))
    chunks = cut(found, sections, options=options, count=count)
    assert outline(found, blocks=blocks) == sections
    assert cut(found, sections, options=options, count=count, blocks=blocks) == chunks
    fixed, across = cut_fixed(found, sections, tokens=limit), cut_fixed(found, tokens=limit)
    for made, counted in ((chunks, count), (fixed, count_tokens), (across, count_tokens)):
        check_law(found, made, limit, counted)
    for chunk in (*chunks, *fixed):
        section = sections[chunk.section]
        assert section.start <= chunk.start <= chunk.end <= section.end
        assert chunk.path == section.path
    for chunk in chunks:
        is_bare = not text[sections[chunk.section].body_start : sections[chunk.section].end].strip()
        assert bool(chunk.metadata.get(HEADING_ONLY)) == (sections[chunk.section].level > 0 and is_bare)
    assert {chunk.path for chunk in across} <= {()}


def test_a_short_section_is_one_chunk_with_its_heading_and_a_bare_heading_says_so() -> None:
    assert [bool(chunk.metadata.get(HEADING_ONLY)) for chunk in chunks_of("# A\n\n## B\n\ntext\n")] == [True, False]
    parts = ["# A\n\nOne.\n\n- x\n- y\n\n    code\tkept", "## B\n\nTwo."]
    assert [chunk.text for chunk in chunks_of("\n\n".join(parts) + "\n")] == parts


def test_tables_and_figures_are_chunks_of_their_own_with_their_captions() -> None:
    table, figure = "Table 1. Sizes\n\n| a | b |\n|---|---|\n| 1 | 2 |", "![x](y.png)\n\nFigure 2: a picture"
    parts = ["# A\n\nFirst words.", table, "More words.", figure, "Last words."]
    found = chunks_of("\n\n".join(parts))
    assert [chunk.text for chunk in found] == parts
    assert [chunk.kind for chunk in found] == ["text", "table", "text", "figure", "text"]


CELL = "| a |\n|---|\n| 1 |\n"


def test_what_belongs_to_a_table_or_figure_is_its_caption() -> None:
    for text, kinds in (
        (f"Table 1. {'x' * 191}\n\n{CELL}", "table"), (f"Table 1. {'x' * 192}\n\n{CELL}", "text table"),
        (f"![x](y)\n\nFigure 1: {'x' * 190}", "figure"), (f"![x](y)\n\nFigure 1: {'x' * 191}", "figure text"),
        (f"Size\n{CELL}", "table"), (f"Size\n\n{CELL}", "text table"), (f"**Size**\n\n{CELL}", "table"),
        (f"Table 1. Size\nof it\n\n{CELL}", "text table"),
    ):  # fmt: skip
        assert [chunk.kind for chunk in chunks_of(text)] == kinds.split()


def test_parts_are_joined_up_to_their_share_of_8_and_one_above_10_takes_along_the_little_that_waits() -> None:
    for sizes, borders in (
        ((4, 4, 4), (8, 12)), ((3, 4, 3), (10,)), ((3, 4, 4), (7, 11)), ((3, 12, 5), (15, 20)),
        ((4, 12, 5), (4, 16, 21)), ((3, 10, 5), (3, 13, 18)),
    ):  # fmt: skip
        spans = list(pairwise([0, *accumulate(sizes)]))
        found = pack("x" * sum(sizes), spans, lambda span: iter([span]), limit=10, share=8, count=len)
        assert list(found) == list(pairwise([0, *borders]))


def test_white_space_around_a_slice_is_left_out_but_for_the_indentation_of_its_first_line() -> None:
    for text, start, found in (("x\n\n  y ", 1, (3, 6)), ("x  y", 1, (3, 4)), (" y", 0, (0, 2)), ("x \n", 1, (1, 1))):
        assert trimmed(text, start, len(text)) == found


@pytest.mark.parametrize(
    ("text", "small"), [(f"# A\n\nSizes:\n\n{CELL}", "# A\n\nSizes:"), (f"# A\n\n{CELL}\nA note.", "A note.")]
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
    assert [len(inside) for _, inside in by_section(found, [Block("paragraph", 5, 13)])] == [1, 0]


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
    assert [chunk.text for chunk in sections_of(text, min_characters=least)] == expected


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
    whole = cut(found, outline(found), options=ChunkOptions(max_tokens=10**9, min_tokens=0))
    assert [chunk.text for chunk in sections_of(text, "text/plain")] == [chunk.text for chunk in searchable(whole)]


# Views put a chunk under its titles; a chunk leads to its section and to its passages, which are exact slices.

TEXT = "# Board\n\n## Setup\n\nPlug it in.\n\n### Steps ###\n\nOne.\n\nUsage\n-----\n\nTurn it on.\n"
BOARD = Document(id="d", text=TEXT, title="Board")
SECTIONS = outline(BOARD)
CHUNKS = cut(BOARD, SECTIONS)


def test_a_headed_view_is_the_titles_and_the_body() -> None:
    texts = ["Board", "Board › Setup\nPlug it in.", "Board › Setup › Steps\nOne.", "Board › Usage\nTurn it on."]
    assert [(view.kind, view.text) for view in headed_views(BOARD, CHUNKS)] == [("headed", text) for text in texts]
    assert [(view.chunk_id, view.text) for view in raw_views(CHUNKS)] == [(chunk.id, chunk.text) for chunk in CHUNKS]
    assert list(map(searchable, (CHUNKS, CHUNKS[:1], ()))) == [CHUNKS[1:], CHUNKS[:1], ()]  # bare headings


def test_the_document_title_leads_unless_it_is_the_first_heading() -> None:
    assert headed_views(replace(BOARD, title="Guide"), CHUNKS)[1].text == "Guide › Board › Setup\nPlug it in."
    assert headed_views(replace(BOARD, title=""), CHUNKS)[1].text == "Board › Setup\nPlug it in."
    plain = Document(id="d", text="Just text.", title="Guide")
    assert headed_views(plain, cut(plain, outline(plain)))[0].text == "Guide\nJust text."


def test_a_table_that_goes_on_is_given_its_header() -> None:
    text = "# T\n\n| name | n |\n|---|---|\n" + "".join(f"| r{row} | {row} |\n" for row in range(30))
    found = Document(id="d", text=text)
    views = headed_views(found, cut(found, outline(found), options=ChunkOptions(max_tokens=60)))
    assert all(view.text.startswith("T\n| name | n |\n|---|---|\n| r") for view in views)


@given(texts)
def test_a_view_keeps_the_body_of_every_chunk(text: str) -> None:
    found = Document(id="d", text=text, title="T")
    chunks = cut(found, outline(found))
    for chunk, view in zip(chunks, headed_views(found, chunks), strict=True):
        assert chunk.text.endswith(body_of(chunk))
        assert view.text.endswith(body_of(chunk))
        assert view.chunk_id == chunk.id


def test_a_chunk_leads_back_to_its_section() -> None:
    assert section_of(SECTIONS, CHUNKS[1]).title == "Setup"
    own = section_segment(BOARD, SECTIONS, CHUNKS[1], chunks=CHUNKS)
    assert (own.text, own.chunk_ids, own.lines) == ("## Setup\n\nPlug it in.", (CHUNKS[1].id,), (3, 5))
    tree = section_segment(BOARD, SECTIONS, CHUNKS[1], chunks=CHUNKS, descendants=True)
    assert (tree.text, tree.chunk_ids) == (TEXT[tree.start : tree.end], (CHUNKS[1].id, CHUNKS[2].id))
    assert tree.text.endswith("One.")
    assert section_segment(BOARD, SECTIONS, CHUNKS[1]).chunk_ids == (CHUNKS[1].id,)
    for other in (outline(Document(id="other", text=TEXT)), ()):
        with pytest.raises(ParameterError, match=r"the sections that chunk .* was cut from, got '\d sections'"):
            section_of(other, CHUNKS[1])


ENTRIES = "- 1 Safety … 1\n- 2 Mounting … 3\n- 2.1 Cover ..... 4\n"
CONTENTS = f"# Manual\n\n## Contents\n\n{ENTRIES}\n## Safety\n\nWear gloves … always.\n"


def test_a_table_of_contents_is_found_by_its_titles_alone() -> None:
    document = Document(id="d", text=CONTENTS, title="Manual")
    chunks = searchable(cut(document, outline(document)))
    views = [view.text for view in headed_views(document, chunks)]
    assert views == ["Manual › Contents", "Manual › Safety\nWear gloves … always."]
    assert "2.1 Cover" in chunks[0].text
    for text in ("1 One … 1\n2 Two . . . . 12\nPreface … iv", "1 One … 1\n2 Two … 2\n\n3 Three\n4 Four … 4"):
        assert is_contents(text)
    for text in ("1 One … 1\n2 Two … 2", "1 One … 1\n2 Two … 2\n3 Three\n4 Four", "It goes on …\nand … on", ""):
        assert not is_contents(text)


# Passages

LONG = (
    "# Pump\n\n## Care\n\nOil the bearing weekly. Never use grease.\n\n"
    "Check the seal for leaks. Replace it when it drips.\n"
)


def section_chunks(text: str, **fields: object) -> tuple[Document, tuple[Chunk, ...]]:
    document = Document(id="d", text=text, title="Manual", **fields)  # type: ignore[arg-type]
    return document, cut_sections(document, outline(document))


def test_a_long_chunk_is_cut_between_its_paragraphs_and_each_found_under_its_titles() -> None:
    document, chunks = section_chunks(LONG, page_starts=(0, LONG.index("Check")))
    first, second = passages_of(chunks[0], max_tokens=14, document=document)
    texts = ("Oil the bearing weekly. Never use grease.", "Check the seal for leaks. Replace it when it drips.")
    assert (first.text, second.text) == (f"## Care\n\n{texts[0]}", texts[1])
    placed = [(each.lines, each.pages, each.position) for each in (first, second)]
    assert placed == [((3, 5), (1, 1), 0), ((7, 7), (2, 2), 1)]
    assert (first.path, first.section) == (("Pump", "Care"), chunks[0].section)
    alone = passages_of(chunks[0], max_tokens=14)  # without its document: on the pages of its chunk
    assert {passage.pages for passage in alone} == {(1, 2)}
    found = passage_views(document, chunks, max_tokens=14)
    assert {(view.chunk_id, view.kind) for view in found} == {(chunks[0].id, PASSAGE)}
    assert [view.text for view in found] == [f"Manual › Pump › Care\n{text}" for text in texts]


def test_a_short_chunk_is_its_only_passage() -> None:
    document, (chunk,) = section_chunks(LONG)
    (passage,) = passages_of(chunk, max_tokens=count_tokens(chunk.text))
    assert (passage.id, passage.text) == (chunk.id, chunk.text)
    assert len(passage_views(document, [chunk], max_tokens=1_000)) == 1
    for refused in (lambda: passages_of(chunk, max_tokens=0), lambda: passage_views(document, [chunk], max_tokens=0)):
        with pytest.raises(ParameterError, match="max_tokens must be an integer >= 1, got 0"):
            refused()


def test_a_heading_alone_is_no_passage_to_read() -> None:
    paragraph = ("word " * 39).strip() + "."  # of 40 tokens: no room for the heading beside it
    document, (chunk,) = section_chunks(f"## Moisture\n\n{paragraph}\n\n{paragraph}\n")
    first, *others = passages_of(chunk, max_tokens=40, document=document)
    assert (first.text, first.metadata["heading_only"]) == ("## Moisture", True)
    assert [dict(passage.metadata) for passage in others] == [{}, {}]
    assert [view.text.count("word") for view in passage_views(document, [chunk], max_tokens=40)] == [39, 39]


def check_slices(document: Document, chunk: Chunk, found: Sequence[Chunk], limit: int) -> None:
    assert all(document.text[each.start : each.end] == each.text for each in found)
    assert [each.lines for each in found] == [document.place_of(each.start, each.end).lines for each in found]
    ends = [chunk.start, *(end for each in found for end in (each.start, each.end)), chunk.end]
    assert ends == sorted(ends)
    between = zip(ends[::2], ends[1::2], strict=True)
    assert not any(document.text[start:end].strip() for start, end in between)
    assert all(count_tokens(each.text) <= limit or len(each.text.strip()) == 1 for each in found)


@given(documents(), st.integers(1, 40))
def test_passages_and_sentences_are_exact_slices_that_cover_their_chunk(document: Document, limit: int) -> None:
    for chunk in cut(document, outline(document), options=ChunkOptions(max_tokens=300)):
        check_slices(document, chunk, passages_of(chunk, max_tokens=limit, document=document), limit)
        check_slices(document, chunk, sentences_of(chunk), 100)


def test_short_sentences_and_headings_join_what_follows_and_tables_stay_whole() -> None:
    table = "| part | torque |\n|---|---|\n" + "".join(f"| screw M{size} | {size} Nm |\n" for size in range(3, 9))
    said = (
        "Never use grease for it, as it blocks the valve in the housing.",
        "1. Check the seal for leaks. It is old.",
    )
    _, (chunk,) = section_chunks(f"## Care\n\nOil it. {said[0]}\n{said[1]}\n\n{table}\nDone.\n")
    assert [each.text for each in sentences_of(chunk)] == [
        f"## Care\n\nOil it. {said[0]}", said[1], table.strip(), "Done."
    ]  # fmt: skip
    for words, sentences in ((10, 1), (11, 2)):  # and the stop
        text = f"{' '.join(['Word'] * words)}. {'It follows here and now ' * 4}."
        assert len(sentences_of(section_chunks(text)[1][0])) == sentences
    (row, *later) = sentences_of(section_chunks(f"## Care\n\n{table * 3}")[1][0])
    assert count_tokens(row.text) <= 100
    assert row.text.endswith("|")
    assert {each.metadata["table_header"] for each in later} == {"| part | torque |\n|---|---|"}


def test_prose_is_the_sentences_of_paragraphs_and_items_section_by_section() -> None:
    entries = "1 One … 1\n2 Two … 2\n3 Three … 3"
    first = f"One here.  It\ngoes on. ![p](p.png) shown.\n\n- An item. Two.\n\n| t |\n|---|\n| no |\n\n{entries}\n"
    document = Document(id="d", text=f"# A\n\n{first}\n## B\n\n> no\n\n```\nno\n```\n\nLast.\n")
    assert prose(document, outline(document)) == (("One here.", "It goes on.", "An item.", "Two."), ("Last.",))
