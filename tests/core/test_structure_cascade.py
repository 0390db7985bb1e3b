"""Headed views carry the titles above a chunk; a chunk leads back to its whole section."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from test_structure_outline import texts

from catena.model import Document, ParameterError
from catena.structure import ChunkOptions, body_of, cut, headed_views, outline, raw_views, searchable, section_segment
from catena.structure.cascade import is_contents
from catena.structure.sections import section_of

TEXT = "# Board\n\n## Setup\n\nPlug it in.\n\n### Steps ###\n\nOne.\n\nUsage\n-----\n\nTurn it on.\n"
MANUAL = Document(id="d", text=TEXT, title="Board")
SECTIONS = outline(MANUAL)
CHUNKS = cut(MANUAL, SECTIONS)


def test_a_headed_view_is_the_titles_and_the_body() -> None:
    assert [view.text for view in headed_views(MANUAL, CHUNKS)] == [
        "Board",
        "Board › Setup\nPlug it in.",
        "Board › Setup › Steps\nOne.",
        "Board › Usage\nTurn it on.",
    ]
    assert [view.kind for view in headed_views(MANUAL, CHUNKS)] == ["headed"] * 4


def test_the_document_title_leads_unless_it_is_the_first_heading() -> None:
    assert headed_views(replace(MANUAL, title="Guide"), CHUNKS)[1].text == "Guide › Board › Setup\nPlug it in."
    assert headed_views(replace(MANUAL, title=""), CHUNKS)[1].text == "Board › Setup\nPlug it in."
    plain = Document(id="d", text="Just text.", title="Guide")
    assert headed_views(plain, cut(plain, outline(plain)))[0].text == "Guide\nJust text."


def test_raw_views_are_the_chunks_as_they_are() -> None:
    assert [(view.chunk_id, view.text) for view in raw_views(CHUNKS)] == [(chunk.id, chunk.text) for chunk in CHUNKS]


def test_a_table_that_goes_on_is_given_its_header() -> None:
    text = "# T\n\n| name | n |\n|---|---|\n" + "".join(f"| r{row} | {row} |\n" for row in range(30))
    found = Document(id="d", text=text)
    views = headed_views(found, cut(found, outline(found), options=ChunkOptions(max_tokens=60)))
    assert all(view.text.startswith("T\n| name | n |\n|---|---|\n| r") for view in views)


def test_bare_headings_are_searchable_only_where_there_is_nothing_else() -> None:
    assert searchable(CHUNKS) == CHUNKS[1:]
    assert searchable(CHUNKS[:1]) == CHUNKS[:1]
    assert searchable(()) == ()


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
    assert tree.text.endswith("One.")
    assert tree.chunk_ids == (CHUNKS[1].id, CHUNKS[2].id)
    assert TEXT[tree.start : tree.end] == tree.text
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
    assert [view.text for view in headed_views(document, chunks)] == [
        "Manual › Contents",
        "Manual › Safety\nWear gloves … always.",
    ]
    assert "2.1 Cover" in chunks[0].text


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        ("1 One … 1\n2 Two . . . . 12\nPreface … iv", True),
        ("1 One … 1\n2 Two … 2", False),
        ("It goes on …\nand on …\nand on … 3", False),
        ("", False),
    ],
)
def test_what_is_a_table_of_contents(text: str, contents: bool) -> None:
    assert is_contents(text) is contents
