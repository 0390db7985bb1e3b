"""CatenaDocumentTransformer with titles and summaries: in flat metadata, in a header, and in the content if asked."""

from __future__ import annotations

import copy
import logging

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import ReplyingChatModel

from catena.enrichment import ContextOptions
from catena.model import ParameterError
from langchain_catena import CatenaDocumentTransformer, CatenaEmbeddings, CatenaSegmentExtractor, whole_chunk

MANUAL = "# Care\n\nClean it with a damp cloth, never with solvents.\n\n# Fuse\n\nIt is rated 250 mA, slow.\n"


def saying(messages: list[BaseMessage]) -> str:
    """Answer in the form that each of the four prompts asks for."""
    prompt = str(messages[-1].content) + str(messages[0].content)
    if "This document is about" in prompt:
        return "This document is about: keeping the HX7 in order."
    if "This section is about" in prompt:
        return "This section is about: " + ("the fuse." if "250 mA" in prompt else "cleaning.")
    return "HX7 handbook"


def parent(text: str = MANUAL) -> Document:
    return Document(id="hx7", page_content=text, metadata={"source": "hx7.md", "deep": {"kept": 1}})


def by_model(**options) -> CatenaDocumentTransformer:
    return CatenaDocumentTransformer(
        context=ContextOptions(**options.pop("context", {})), llm=ReplyingChatModel(reply=saying), **options
    )


def test_titles_and_summaries_are_in_the_metadata_and_the_content_stays_the_slice() -> None:
    chunks = by_model().transform_documents([parent()])
    assert [chunk.page_content.split("\n")[0] for chunk in chunks] == ["# Care", "# Fuse"]
    for chunk in chunks:
        assert MANUAL[chunk.metadata["start_index"] : chunk.metadata["end_index"]] == chunk.page_content
        assert chunk.metadata["document_summary"] == "This document is about: keeping the HX7 in order."
        assert chunk.metadata["deep"] == {"kept": 1}
    assert [chunk.metadata["section_summary"] for chunk in chunks] == [
        "This section is about: cleaning.",
        "This section is about: the fuse.",
    ]
    fuse = chunks[1].metadata
    assert fuse["header"].endswith("titled 'Fuse'. This section is about: the fuse.")
    assert "This document is about: keeping the HX7 in order." in fuse["header"]


def test_the_content_may_be_the_chunk_in_its_context() -> None:
    options = {"context": {"embed": True}, "content": "context"}
    chunks = by_model(**options).transform_documents([parent()])
    for chunk in chunks:
        assert chunk.page_content == f"{chunk.metadata['header']}\n\n{chunk.metadata['raw_text']}"
        assert whole_chunk(chunk).page_content == chunk.metadata["raw_text"]
    without_summaries = CatenaDocumentTransformer(content="context").transform_documents([parent()])
    assert without_summaries[1].page_content.startswith("Document context: the following excerpt is from a document")
    assert without_summaries[1].page_content.endswith("\n\n# Fuse\n\nIt is rated 250 mA, slow.")


async def test_async_gives_the_same_and_inputs_stay() -> None:
    documents = [parent(), parent("No heading stands here, only text.")]
    before = copy.deepcopy(documents)
    plain = by_model().transform_documents(documents)
    with blockbuster_ctx(["catena", "langchain_catena"]):
        assert await by_model().atransform_documents(documents) == plain
    assert documents == before


def test_a_title_is_made_where_none_is_printed() -> None:
    (chunk,) = by_model().transform_documents([parent("No heading stands here, only text.")])
    assert chunk.metadata["title"] == "HX7 handbook"


def test_without_a_model_the_shipped_embedding_makes_summaries() -> None:
    chunks = CatenaDocumentTransformer(context=ContextOptions(by="offline")).transform_documents([parent()])
    assert chunks[1].metadata["section_summary"] == "It is rated 250 mA, slow."
    assert chunks[0].metadata["document_summary"]
    assert chunks == CatenaDocumentTransformer(context=ContextOptions(by="offline")).transform_documents([parent()])


def test_what_a_model_does_not_give_is_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    mute = CatenaDocumentTransformer(context=ContextOptions(), llm=ReplyingChatModel(reply=lambda messages: "..."))
    with caplog.at_level(logging.WARNING):
        chunks = mute.transform_documents([parent()])
    assert [chunk.page_content for chunk in chunks] == [
        chunk.page_content for chunk in CatenaDocumentTransformer().transform_documents([parent()])
    ]
    assert "document_summary" not in chunks[0].metadata
    assert "missing of titles and summaries" in caplog.text


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ParameterError, match="content must be 'context' where the context's embed is True"):
        by_model(context={"embed": True})
    with pytest.raises(ParameterError, match="llm must be a chat model or LLM"):
        CatenaDocumentTransformer(context=ContextOptions())


def test_summaries_reach_the_header_of_a_segment() -> None:
    chunks = by_model(content="context").transform_documents([parent()])
    store = InMemoryVectorStore.from_documents(chunks, CatenaEmbeddings())
    found = store.similarity_search("fuse rating", k=2)
    (segment,) = CatenaSegmentExtractor(neighbours=store, content="headed").compress_documents(found, "fuse")
    assert segment.metadata["header"].endswith("This document is about: keeping the HX7 in order.")
    assert segment.metadata["raw_text"] == MANUAL[: segment.metadata["end_index"]]
    assert segment.page_content == f"{segment.metadata['header']}\n\n{segment.metadata['raw_text']}"
