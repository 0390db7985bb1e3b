"""Titles and summaries for chunks whose document is not at hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.effects import Services, run
from catena.enrichment import ContextOptions, context_of_chunks
from catena.enrichment.chunk_context import joined_document
from catena.model import Chunk, Document, MissingServiceError
from catena.structure import ChunkOptions, cut, outline
from catena.testing import FakeEmbedder, FakeLLM, strategies

OFFLINE = ContextOptions(by="offline")
SERVICES = Services(embedder=FakeEmbedder())
TEXT = """# Manual

## Seal

The seal keeps the oil inside the housing.

## Cover

The cover takes four screws made of steel.
"""


def chunks_of(text: str = TEXT, id_: str = "d") -> tuple[Chunk, ...]:
    document = Document(id=id_, text=text)
    return cut(document, outline(document), options=ChunkOptions(min_tokens=0))


def plain(text: str, start: int, id_: str = "d") -> Chunk:
    return Chunk(id=f"{id_}{start}", document_id=id_, position=start, start=start, end=start + len(text), text=text)


def told(chunks) -> list[tuple[object, object, object]]:
    keys = ("title", "document_summary", "section_summary")
    return [tuple(chunk.metadata.get(key) for key in keys) for chunk in chunks]


def test_sections_are_those_that_the_chunks_count() -> None:
    found = run(context_of_chunks(chunks_of()[1:], OFFLINE), SERVICES).chunks
    seal, cover = "The seal keeps the oil inside the housing.", "The cover takes four screws made of steel."
    assert [(title, summary) for title, _, summary in told(found)] == [("Manual", seal), ("Manual", cover)]
    assert {summary for _, summary, _ in told(found)} <= {seal, cover}


def test_without_counted_sections_those_of_the_text_count_else_the_paths() -> None:
    uncounted = [replace(chunk, section=0, path=()) for chunk in chunks_of()]
    found = run(context_of_chunks(uncounted, OFFLINE), SERVICES).chunks
    assert [summary for _, _, summary in told(found)][1:] == [
        "The seal keeps the oil inside the housing.",
        "The cover takes four screws made of steel.",
    ]
    paths = [
        replace(plain("The seal keeps the oil inside.", 0), path=("Manual", "Seal")),
        replace(plain("The cover takes four screws.", 40), path=("Manual", "Cover")),
    ]
    found = run(context_of_chunks(paths, OFFLINE), SERVICES).chunks
    assert [(title, summary) for title, _, summary in told(found)] == [
        ("Manual", "The seal keeps the oil inside."),
        ("Manual", "The cover takes four screws."),
    ]


def test_documents_are_described_apart_and_chunks_come_back_in_their_order() -> None:
    first, second = chunks_of(), chunks_of(TEXT.replace("Manual", "Handbook"), "e")
    mixed = [chunk for pair in zip(first, second, strict=True) for chunk in pair]
    found = run(context_of_chunks(mixed, OFFLINE), SERVICES).chunks
    assert [chunk.id for chunk in found] == [chunk.id for chunk in mixed]
    assert [title for title, _, _ in told(found)] == ["Manual", "Handbook"] * 3


def test_only_metadata_and_paths_are_new() -> None:
    given_ = chunks_of()
    found = run(context_of_chunks(given_, OFFLINE), SERVICES).chunks
    assert tuple(replace(chunk, metadata=old.metadata) for chunk, old in zip(found, given_, strict=True)) == given_
    assert run(context_of_chunks([], OFFLINE), SERVICES).chunks == ()


def test_what_a_model_does_not_give_is_reported() -> None:
    services = Services(llm=FakeLLM("Sure! Here you are."))
    found = run(context_of_chunks(chunks_of()), services)
    assert {part.what for part in found.degraded} >= {"summary of d"}
    with pytest.raises(MissingServiceError):
        run(context_of_chunks(chunks_of()), Services())


@settings(max_examples=50)
@given(st.text(alphabet="ab .\n", min_size=1, max_size=60), st.integers(1, 12), st.integers(0, 6))
def test_overlapping_chunks_give_their_text_back(text: str, size: int, overlap: int) -> None:
    step = max(1, size - overlap)
    pieces = [plain(text[start : start + size], start) for start in range(0, max(1, len(text) - overlap), step)]
    document, starts = joined_document(pieces)
    for piece, start in zip(pieces, starts, strict=True):
        assert document.text[start : start + len(piece.text)] == piece.text
    if overlap and size > overlap:
        assert document.text == text


@given(strategies.texts())
def test_chunks_stand_where_it_says(text: str) -> None:
    chunks = chunks_of(text)
    if not chunks:
        return
    document, starts = joined_document(chunks)
    assert all(document.text.startswith(chunk.text, start) for chunk, start in zip(chunks, starts, strict=True))


def test_headings_side_by_side_are_no_title() -> None:
    parts = [
        replace(plain("The seal keeps the oil inside.", 0), path=("Seal",)),
        replace(plain("The cover takes four screws.", 40), path=("Cover",)),
    ]
    found = run(context_of_chunks(parts, OFFLINE), SERVICES).chunks
    assert [title for title, _, _ in told(found)] == [None, None]
