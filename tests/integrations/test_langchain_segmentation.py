"""CatenaDocumentTransformer by meaning: sections from any model or embedding, in chunks that stay exact slices."""

from __future__ import annotations

import json
import logging
import re

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage
from langchain_fakes import ReplyingChatModel

from catena.effects import Journal, Services
from catena.model import ParameterError
from catena.structure import EmbeddingOptions, SegmentOptions
from langchain_catena import CatenaDocumentTransformer

PARTS = (
    "The pump is primed before its first use.\nOpen the valve and wait until the air is out.\nClose it again.",
    "The fuse lies behind the cover.\nIt is rated 250 mA, slow.\nNever replace it with a larger one.",
    "Clean the housing with a damp cloth.\nUse no solvents.\n\tDry it at once.",
)
TEXT = "\n".join(PARTS) + "\n"


def dividing(messages: list[BaseMessage]) -> str:
    """Answer with the three parts of the text, by the numbers of their first lines."""
    first, last = map(int, re.findall(r"Divide lines (\d+) to (\d+)\.", str(messages[-1].content))[-1])
    titles = {first: "Priming", first + 3: "Fuse", first + 6: "Cleaning"}
    return json.dumps([{"title": t, "start": n} for n, t in titles.items() if n <= last])


OPTIONS = SegmentOptions(min_section=0)


def transformer(**options) -> CatenaDocumentTransformer:
    return CatenaDocumentTransformer(
        segmentation=OPTIONS, llm=ReplyingChatModel(reply=dividing), min_tokens=1, **options
    )


def parent(name: str = "p", text: str = TEXT) -> Document:
    return Document(id=name, page_content=text, metadata={"source": f"{name}.txt"})


def test_sections_of_a_model_are_paths_of_exact_slices() -> None:
    chunks = transformer().transform_documents([parent()])
    assert [chunk.metadata["heading_path"] for chunk in chunks] == ["Priming", "Fuse", "Cleaning"]
    for chunk in chunks:
        assert TEXT[chunk.metadata["start_index"] : chunk.metadata["end_index"]] == chunk.page_content
        assert chunk.metadata["generated_title"]
    assert "\tDry it" in chunks[2].page_content
    assert [chunk.metadata["first_line"] for chunk in chunks] == [1, 4, 7]


def test_places_and_links_are_written_for_what_comes_later() -> None:
    chunks = transformer().transform_documents([parent("a"), parent("b")])
    assert [chunk.metadata["position"] for chunk in chunks] == [0, 1, 2, 0, 1, 2]
    assert [chunk.metadata["document_id"] for chunk in chunks] == ["a"] * 3 + ["b"] * 3
    a = chunks[:3]
    assert [chunk.metadata.get("next_id") for chunk in a] == [a[1].id, a[2].id, None]
    assert [chunk.metadata.get("previous_id") for chunk in a] == [None, a[0].id, a[1].id]
    for chunk in chunks:
        assert all(isinstance(value, str | int | float | bool) for value in chunk.metadata.values()), "flat"


def test_the_shipped_embedding_divides_without_a_model() -> None:
    options = EmbeddingOptions(shortest=60, longest=400)
    chunks = CatenaDocumentTransformer(segmentation=options).transform_documents([parent()])
    assert "".join(TEXT[c.metadata["start_index"] : c.metadata["end_index"]] for c in chunks).split() == TEXT.split()
    assert all(chunk.metadata["heading_path"] for chunk in chunks)


async def test_any_embeddings_divide() -> None:
    options = EmbeddingOptions(shortest=60, longest=200)
    by_fake = CatenaDocumentTransformer(segmentation=options, embeddings=DeterministicFakeEmbedding(size=8))
    chunks = by_fake.transform_documents([parent()])
    assert chunks == await by_fake.atransform_documents([parent()])
    assert len(chunks) > 1


def test_a_model_that_answers_nonsense_costs_its_sections_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    silly = CatenaDocumentTransformer(segmentation=OPTIONS, llm=FakeListChatModel(responses=["I would rather not."]))
    with caplog.at_level(logging.WARNING):
        chunks = silly.transform_documents([parent()])
    assert "".join(chunk.page_content for chunk in chunks).split() == TEXT.split()
    assert "divided at headings and paragraphs" in caplog.text


def test_what_was_asked_once_is_not_asked_again(tmp_path) -> None:
    model = ReplyingChatModel(reply=dividing)
    with Journal.open(tmp_path / "journal.db") as journal:
        services = Services(journal=journal)
        cut = CatenaDocumentTransformer(segmentation=OPTIONS, llm=model, services=services, min_tokens=1)
        assert cut.transform_documents([parent()]) == cut.transform_documents([parent()])
    assert len(model.sent) == 1


def test_a_model_that_is_asked_must_be_given() -> None:
    with pytest.raises(ParameterError, match="llm must be a chat model or LLM: segmentation or context asks it"):
        CatenaDocumentTransformer(segmentation=SegmentOptions())
    CatenaDocumentTransformer(segmentation=EmbeddingOptions())  # asks none
