"""LangChain's standard suites, over whatever of this package they apply to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import InMemoryByteStore
from langchain_slots import QUESTION, retriever_of, small_library
from langchain_tests.integration_tests import (
    BaseStoreAsyncTests,
    BaseStoreSyncTests,
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
)
from langchain_tests.unit_tests import EmbeddingsUnitTests

from catena import Library
from langchain_catena import CatenaEmbeddings, DocumentStore


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with small_library(tmp_path_factory.mktemp("manuals")) as opened:
        yield opened


class _Retriever(RetrieversIntegrationTests):
    kind = "library"

    @pytest.fixture(autouse=True)
    def _one(self, library: Library) -> None:
        self._retriever = retriever_of(self.kind, library)

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return type(self._retriever)

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return dict(self._retriever)

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


class TestOver(_Retriever):
    kind = "over"


class TestFigures(_Retriever):
    kind = "figures"

    @property
    def retriever_query_example(self) -> str:
        return "failures by year, and the pressure of the pumps"


class TestPerView(_Retriever):
    kind = "per view"


class TestEmbeddings(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return CatenaEmbeddings


class TestEmbeddingsOfTexts(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return CatenaEmbeddings


class _Store:
    @pytest.fixture
    def kv_store(self) -> DocumentStore:
        return DocumentStore(InMemoryByteStore())

    @pytest.fixture
    def three_values(self) -> tuple[Document, Document, Document]:
        return (
            Document(id="a", page_content="one", metadata={"source": "a.md", "pages": [1, 2]}),
            Document(page_content=""),
            Document(id="c", page_content="ﬁ 三 \u2028", metadata={"catena": {"routes": [{"rank": 1}]}}),
        )


class TestDocumentStore(_Store, BaseStoreSyncTests[Document]):
    pass


class TestDocumentStoreInAsync(_Store, BaseStoreAsyncTests[Document]):
    pass
