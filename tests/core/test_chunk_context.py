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


SEAL, COVER = "The seal keeps the oil inside the housing.", "The cover takes four screws made of steel."


def test_sections_are_those_that_the_chunks_count_or_of_the_text_else_of_the_paths() -> None:
    def summaries(chunks):
        found = told(run(context_of_chunks(chunks, OFFLINE), SERVICES).chunks)
        return [(title, summary) for title, _, summary in found]

    def of_paths(*paths):
        parts = zip((plain(SEAL, 0), plain(COVER, 50)), paths, strict=True)
        return [replace(chunk, path=path) for chunk, path in parts]

    expected = [("Manual", SEAL), ("Manual", COVER)]
    assert summaries(chunks_of()[1:]) == expected
    uncounted = [replace(chunk, section=0, path=()) for chunk in chunks_of()]
    assert [summary for _, summary in summaries(uncounted)][1:] == [SEAL, COVER]
    assert summaries(of_paths(("Manual", "Seal"), ("Manual", "Cover"))) == expected
    assert [title for title, _ in summaries(of_paths(("Seal",), ("Cover",)))] == [None, None]  # side by side


def test_documents_are_described_apart_and_chunks_come_back_in_their_order() -> None:
    first, second = chunks_of(), chunks_of(TEXT.replace("Manual", "Handbook"), "e")
    mixed = [chunk for pair in zip(first, second, strict=True) for chunk in pair]
    found = run(context_of_chunks(mixed, OFFLINE), SERVICES).chunks
    assert [chunk.id for chunk in found] == [chunk.id for chunk in mixed]
    assert [title for title, _, _ in told(found)] == ["Manual", "Handbook"] * 3


def test_only_metadata_and_paths_are_new_and_what_a_model_does_not_give_is_reported() -> None:
    given_ = chunks_of()
    found = run(context_of_chunks(given_, OFFLINE), SERVICES).chunks
    assert tuple(replace(chunk, metadata=old.metadata) for chunk, old in zip(found, given_, strict=True)) == given_
    assert run(context_of_chunks([], OFFLINE), SERVICES).chunks == ()
    silent = run(context_of_chunks(given_), Services(llm=FakeLLM("Sure! Here you are.")))
    assert {part.what for part in silent.degraded} >= {"summary of d"}
    with pytest.raises(MissingServiceError):
        run(context_of_chunks(given_), Services())


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
    if chunks := chunks_of(text):
        document, starts = joined_document(chunks)
        assert all(document.text.startswith(chunk.text, start) for chunk, start in zip(chunks, starts, strict=True))
