"""Passages of long chunks: exact slices that cover them, each under its titles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.model import Chunk, Document, ParameterError
from catena.structure import PASSAGE, ChunkOptions, count_tokens, cut, cut_sections, outline, passages_of
from catena.structure.passages import passage_views
from catena.testing.strategies import documents

LONG = (
    "# Pump\n\n## Care\n\nOil the bearing weekly. Never use grease.\n\n"
    "Check the seal for leaks. Replace it when it drips.\n"
)


def section_chunks(text: str, **fields: object) -> tuple[Document, tuple[Chunk, ...]]:
    document = Document(id="d", text=text, title="Manual", **fields)  # type: ignore[arg-type]
    return document, cut_sections(document, outline(document))


def test_a_long_chunk_is_cut_between_its_paragraphs() -> None:
    document, (chunk,) = section_chunks(LONG, page_starts=(0, LONG.index("Check")))
    first, second = passages_of(chunk, max_tokens=14, document=document)
    assert first.text == "## Care\n\nOil the bearing weekly. Never use grease."
    assert second.text == "Check the seal for leaks. Replace it when it drips."
    assert [passage.lines for passage in (first, second)] == [(3, 5), (7, 7)]
    assert [passage.pages for passage in (first, second)] == [(1, 1), (2, 2)]
    assert [passage.position for passage in (first, second)] == [0, 1]
    assert (first.path, first.section) == (("Pump", "Care"), chunk.section)


def test_each_passage_is_found_under_its_titles() -> None:
    document, chunks = section_chunks(LONG)
    found = passage_views(document, chunks, max_tokens=14)
    assert {(view.chunk_id, view.kind) for view in found} == {(chunks[0].id, PASSAGE)}
    assert [view.text for view in found] == [
        "Manual › Pump › Care\n\nOil the bearing weekly. Never use grease.".replace("\n\n", "\n"),
        "Manual › Pump › Care\nCheck the seal for leaks. Replace it when it drips.",
    ]


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


@given(documents(), st.integers(1, 40))
def test_passages_are_exact_slices_that_cover_their_chunk(document: Document, limit: int) -> None:
    for chunk in cut(document, outline(document), options=ChunkOptions(max_tokens=300)):
        found = passages_of(chunk, max_tokens=limit, document=document)
        assert all(document.text[each.start : each.end] == each.text for each in found)
        assert [each.lines for each in found] == [document.place_of(each.start, each.end).lines for each in found]
        ends = [chunk.start, *(end for each in found for end in (each.start, each.end)), chunk.end]
        assert ends == sorted(ends)
        between = zip(ends[::2], ends[1::2], strict=True)
        assert not any(document.text[start:end].strip() for start, end in between)
        assert all(count_tokens(each.text) <= limit or len(each.text.strip()) == 1 for each in found)


def test_no_length_below_one_is_taken() -> None:
    document, (chunk,) = section_chunks(LONG)
    with pytest.raises(ParameterError, match="max_tokens must be an integer >= 1, got 0"):
        passages_of(chunk, max_tokens=0)
    with pytest.raises(ParameterError, match="max_tokens"):
        passage_views(document, [chunk], max_tokens=0)
