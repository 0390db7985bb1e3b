"""Views put a chunk under its titles; a chunk leads to its section and to its passages, which are exact slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_structure_outline import texts

from catena.model import Chunk, Document, ParameterError
from catena.structure import (
    PASSAGE,
    ChunkOptions,
    body_of,
    cut,
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
)
from catena.structure.passages import section_of
from catena.structure.views import is_contents
from catena.testing.strategies import documents
from catena.text import count_tokens

TEXT = "# Board\n\n## Setup\n\nPlug it in.\n\n### Steps ###\n\nOne.\n\nUsage\n-----\n\nTurn it on.\n"
MANUAL = Document(id="d", text=TEXT, title="Board")
SECTIONS = outline(MANUAL)
CHUNKS = cut(MANUAL, SECTIONS)


def test_a_headed_view_is_the_titles_and_the_body() -> None:
    texts = ["Board", "Board › Setup\nPlug it in.", "Board › Setup › Steps\nOne.", "Board › Usage\nTurn it on."]
    assert [(view.kind, view.text) for view in headed_views(MANUAL, CHUNKS)] == [("headed", text) for text in texts]
    assert [(view.chunk_id, view.text) for view in raw_views(CHUNKS)] == [(chunk.id, chunk.text) for chunk in CHUNKS]


def test_the_document_title_leads_unless_it_is_the_first_heading() -> None:
    assert headed_views(replace(MANUAL, title="Guide"), CHUNKS)[1].text == "Guide › Board › Setup\nPlug it in."
    assert headed_views(replace(MANUAL, title=""), CHUNKS)[1].text == "Board › Setup\nPlug it in."
    plain = Document(id="d", text="Just text.", title="Guide")
    assert headed_views(plain, cut(plain, outline(plain)))[0].text == "Guide\nJust text."


def test_a_table_that_goes_on_is_given_its_header() -> None:
    text = "# T\n\n| name | n |\n|---|---|\n" + "".join(f"| r{row} | {row} |\n" for row in range(30))
    found = Document(id="d", text=text)
    views = headed_views(found, cut(found, outline(found), options=ChunkOptions(max_tokens=60)))
    assert all(view.text.startswith("T\n| name | n |\n|---|---|\n| r") for view in views)


def test_bare_headings_are_searchable_only_where_there_is_nothing_else() -> None:
    given = (CHUNKS, CHUNKS[:1], ())
    assert list(map(searchable, given)) == [CHUNKS[1:], CHUNKS[:1], ()]


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
    own = section_segment(MANUAL, SECTIONS, CHUNKS[1], chunks=CHUNKS)
    assert (own.text, own.chunk_ids, own.lines) == ("## Setup\n\nPlug it in.", (CHUNKS[1].id,), (3, 5))
    tree = section_segment(MANUAL, SECTIONS, CHUNKS[1], chunks=CHUNKS, descendants=True)
    assert (tree.text, tree.chunk_ids) == (TEXT[tree.start : tree.end], (CHUNKS[1].id, CHUNKS[2].id))
    assert tree.text.endswith("One.")
    assert section_segment(MANUAL, SECTIONS, CHUNKS[1]).chunk_ids == (CHUNKS[1].id,)


def test_sections_of_another_document_are_refused() -> None:
    other = outline(Document(id="other", text=TEXT))
    with pytest.raises(ParameterError, match=r"the sections that chunk .* was cut from"):
        section_of(other, CHUNKS[1])
    with pytest.raises(ParameterError, match="got '0 sections'"):
        section_of((), CHUNKS[1])


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
    found = passage_views(document, chunks, max_tokens=14)
    assert {(view.chunk_id, view.kind) for view in found} == {(chunks[0].id, PASSAGE)}
    assert [view.text for view in found] == [f"Manual › Pump › Care\n{text}" for text in texts]


def test_a_short_chunk_is_its_only_passage() -> None:
    document, (chunk,) = section_chunks(LONG)
    (passage,) = passages_of(chunk, max_tokens=count_tokens(chunk.text))
    assert (passage.id, passage.text) == (chunk.id, chunk.text)
    assert len(passage_views(document, [chunk], max_tokens=1_000)) == 1


def test_without_its_document_a_passage_is_on_the_pages_of_its_chunk() -> None:
    _, (chunk,) = section_chunks(LONG, page_starts=(0, LONG.index("Check")))
    assert {passage.pages for passage in passages_of(chunk, max_tokens=14)} == {(1, 2)}


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
def test_passages_are_exact_slices_that_cover_their_chunk(document: Document, limit: int) -> None:
    for chunk in cut(document, outline(document), options=ChunkOptions(max_tokens=300)):
        found = passages_of(chunk, max_tokens=limit, document=document)
        check_slices(document, chunk, found, limit)


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
    (row, *_) = sentences_of(section_chunks(f"## Care\n\n{table * 3}")[1][0])
    assert count_tokens(row.text) <= 100
    assert row.text.endswith("|")


@given(documents())
def test_sentences_are_exact_slices_that_cover_their_chunk(document: Document) -> None:
    for chunk in cut(document, outline(document)):
        found = sentences_of(chunk)
        check_slices(document, chunk, found, 100)


def test_no_length_below_one_is_taken() -> None:
    document, (chunk,) = section_chunks(LONG)
    for refused in (lambda: passages_of(chunk, max_tokens=0), lambda: passage_views(document, [chunk], max_tokens=0)):
        with pytest.raises(ParameterError, match="max_tokens must be an integer >= 1, got 0"):
            refused()


def test_prose_is_the_sentences_of_paragraphs_and_items_section_by_section() -> None:
    entries = "1 One … 1\n2 Two … 2\n3 Three … 3"
    first = f"One here.  It\ngoes on. ![p](p.png) shown.\n\n- An item. Two.\n\n| t |\n|---|\n| no |\n\n{entries}\n"
    document = Document(id="d", text=f"# A\n\n{first}\n## B\n\n> no\n\n```\nno\n```\n\nLast.\n")
    assert prose(document, outline(document)) == (("One here.", "It goes on.", "An item.", "Two."), ("Last.",))
