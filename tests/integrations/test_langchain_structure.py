"""CatenaDocumentTransformer and the services: exact slices, derived ids, unit vectors, replies with their reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers.multi_vector import MultiVectorRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from catena.effects import Budget, Complete, Services, ask, run
from catena.model import ParameterError
from langchain_catena import (
    CatenaDocumentTransformer,
    CatenaEmbeddings,
    CatenaRetriever,
    LangChainEmbedder,
    LangChainLLM,
    whole_chunk,
)

TEXT = "# Manual\n\n## Mounting\n\nTurn\tit.\n\n```\n# no heading\n\tcode\n```\n\n## Wiring\n\nRed\u00a0wire.\n"


def test_chunks_are_exact_slices_with_paths_and_the_parents_metadata() -> None:
    parent = Document(page_content=TEXT, metadata={"source": "m.md", "deep": {"kept": 1}})
    chunks = CatenaDocumentTransformer().split_documents([parent])
    assert [chunk.metadata["heading_path"] for chunk in chunks] == ["Manual › Mounting", "Manual › Wiring"]
    for chunk in chunks:
        assert TEXT[chunk.metadata["start_index"] : chunk.metadata["end_index"]] == chunk.page_content
        assert chunk.metadata["deep"] == {"kept": 1}
        assert chunk.metadata["source"] == "m.md"
    assert "\tcode" in chunks[0].page_content


def test_headed_content_finds_look_alikes_in_a_plain_vector_store() -> None:
    parents = [
        Document(id=name, page_content=f"# {name} manual\n\n## Mounting\n\nTighten the screws.\n")
        for name in ("Alpha", "Omega")
    ]
    chunks = CatenaDocumentTransformer(content="headed").transform_documents(parents)
    store = InMemoryVectorStore.from_documents(chunks, CatenaEmbeddings())
    (found,) = store.similarity_search("mounting of the Omega", k=1)
    assert found.page_content == "Omega manual › Mounting\nTighten the screws."
    assert found.metadata["raw_text"] == "## Mounting\n\nTighten the screws."


def test_a_definition_is_searched_and_the_whole_table_is_returned() -> None:
    text = (
        "# Pump\n\n## Limits\n\n| Quantity | max |\n|---|---|\n| Pressure | 9 bar |\n\n## Use\n\nTurn it on slowly.\n"
    )
    chunks = CatenaDocumentTransformer(content="definition").split_documents([Document(page_content=text)])
    assert [chunk.page_content for chunk in chunks] == [
        "Pump › Limits\nQuantity, max\nPressure",
        "Pump › Use\nTurn it on slowly.",
    ]
    store = InMemoryVectorStore(CatenaEmbeddings())
    retriever = MultiVectorRetriever(
        vectorstore=store, docstore=InMemoryStore(), id_key="chunk_id", search_kwargs={"k": 1}
    )
    retriever.vectorstore.add_documents(chunks)
    retriever.docstore.mset([(chunk.metadata["chunk_id"], whole_chunk(chunk)) for chunk in chunks])
    (found,) = retriever.invoke("maximum pressure")
    assert text[found.metadata["start_index"] : found.metadata["end_index"]] == found.page_content
    assert "9 bar" in found.page_content
    assert "raw_text" not in found.metadata


def test_what_prints_no_title_is_named_by_its_source() -> None:
    untitled = Document(page_content="Only text here.", metadata={"source": "notes/pump guide.txt"})
    (chunk,) = CatenaDocumentTransformer(content="headed").split_documents([untitled])
    assert chunk.page_content == "pump guide\nOnly text here."
    assert chunk.metadata["citation"] == "pump guide, line 1"


def test_a_whole_chunk_of_a_raw_one_is_the_same() -> None:
    (chunk,) = CatenaDocumentTransformer().split_documents([Document(page_content="Just text.")])
    assert whole_chunk(chunk) == chunk


@given(st.text(max_size=400))
def test_ids_are_derived_and_slices_exact_for_any_text(text: str) -> None:
    parent = Document(page_content=text)
    chunks = CatenaDocumentTransformer().transform_documents([parent])
    assert chunks == CatenaDocumentTransformer().transform_documents([parent])
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    for chunk in chunks:
        assert text[chunk.metadata["start_index"] : chunk.metadata["end_index"]] == chunk.page_content
    assert bool(chunks) == bool(text.strip())


def test_create_documents_pairs_texts_with_metadatas() -> None:
    made = CatenaDocumentTransformer().create_documents(["One.", "Two."], [{"n": 1}, {"n": 2}])
    assert [document.metadata["n"] for document in made] == [1, 2]
    with pytest.raises(ParameterError, match=r"metadatas must be as many as texts \(2\), got 1"):
        CatenaDocumentTransformer().create_documents(["One.", "Two."], [{}])


def test_bad_options_are_named() -> None:
    with pytest.raises(ParameterError, match="content must be 'raw', 'headed', 'definition' or 'context'"):
        CatenaDocumentTransformer(content="both")  # type: ignore[arg-type]


async def test_langchain_embeddings_become_unit_vectors() -> None:
    embedder = LangChainEmbedder(DeterministicFakeEmbedding(size=12))
    rows = embedder.embed_documents(["a", "b"])
    assert rows.shape == (2, 12) == (2, embedder.dim)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert np.array_equal(await embedder.aembed_documents(["a", "b"]), rows)
    assert np.array_equal(embedder.embed_query("a"), await embedder.aembed_query("a"))
    assert embedder.identity == "langchain:DeterministicFakeEmbedding"


async def test_a_chat_model_completes() -> None:
    llm = LangChainLLM(FakeListChatModel(responses=["one", "two"]))
    request = Complete(prompt="say", purpose="test", system="be brief")
    assert llm.complete(request).text == "one"
    assert (await llm.acomplete(request)).text == "two"
    assert llm.complete(request).finish_reason == "stop"


def test_the_shipped_embedding_serves_langchain() -> None:
    embeddings = CatenaEmbeddings()
    (row,) = embeddings.embed_documents(["a cat"])
    assert isinstance(row[0], float)
    assert row == embeddings.embed_query("a cat")


class Counting(FakeListChatModel):
    """Tells what it spent: as much as it was allowed, or 6,000 tokens where nobody says."""

    allowed: list[Any] = []  # noqa: RUF012 - pydantic copies it

    def _generate(self, *arguments: Any, **options: Any) -> Any:
        limit = getattr(self, "max_tokens", None) or options.get("max_tokens")
        self.allowed.append(limit)
        usage = {"input_tokens": 3, "output_tokens": limit or 6_000, "total_tokens": 3 + (limit or 6_000)}
        message = AIMessage("fine", usage_metadata={**usage, "output_token_details": {"reasoning": 2}})
        return ChatResult(generations=[ChatGeneration(message=message)])


class Limited(Counting):
    """Has a setting for the limit, as the models of providers have."""

    max_tokens: int | None = None


@pytest.mark.parametrize(
    ("model", "allowed"),
    [
        (Counting(responses=[]), [100] * 2),
        (Counting(responses=[]).with_retry(), [100] * 2),
        (Limited(responses=[]), [100] * 2),
        (Limited(responses=[], max_tokens=50), [50] * 2),
    ],
    ids=["argument", "bound", "setting", "a smaller one of the user"],
)
async def test_a_budget_holds_as_the_limit_of_a_reply_reaches_the_model(model: Any, allowed: list[int]) -> None:
    inner = getattr(model, "bound", model)
    services = Services(llm=LangChainLLM(model), budget=Budget(max_tokens=150), max_concurrency=1)
    asked = [Complete(prompt="say", purpose="test", max_tokens=100)]
    assert run(ask(asked), services)[0].reasoning_tokens == 2
    assert services.budget is not None
    assert services.budget.spent.tokens <= 150
    await LangChainLLM(model).acomplete(asked[0])
    assert inner.allowed == allowed
    assert getattr(inner, "max_tokens", None) in (None, 50)  # the user's own model stays as it was


UNKNOWN = ["\U0001f600", "", "\U0001f600 \U0001f680"]


@pytest.mark.parametrize("question", [UNKNOWN[0], UNKNOWN[2]])
def test_a_question_without_a_known_word_fails_nowhere(question: str) -> None:
    store = InMemoryVectorStore.from_documents(
        [Document(page_content="Tighten the screws."), Document(page_content=UNKNOWN[0])], CatenaEmbeddings()
    )

    found = store.similarity_search_with_score(question, k=2)
    assert np.isfinite([score for _, score in found]).all()
    assert len(CatenaRetriever.over({"mine": store.as_retriever()}).invoke(question)) == 2


def test_only_rows_of_zeros_are_given_a_direction() -> None:
    embeddings = CatenaEmbeddings()
    texts = [*UNKNOWN, "Tighten the screws.", "42"]
    core = embeddings.embedder.embed_documents(texts)
    rows = embeddings.embed_documents(texts)

    assert not core[:3].any()
    assert rows[0] == rows[1] == rows[2] == embeddings.embed_query(texts[0]) == [256**-0.5] * 256
    assert rows[3:] == core[3:].tolist()
    assert embeddings.embed_query(texts[3]) == rows[3]
