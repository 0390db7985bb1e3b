"""A walk over the graph as a stage behind any retriever: what it found, widened by what belongs to it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Self

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel
from pydantic import Field, InstanceOf, model_validator

from catena.effects import Graph, Services, Step
from catena.graph import GraphSearch
from catena.library import check_graph_step
from langchain_catena.base import CatenaBaseCompressor
from langchain_catena.convert import is_unknown
from langchain_catena.graph.nodes import NodeKeys
from langchain_catena.graph.widening import (
    Widened,
    check_source,
    one_source,
    walking_services,
    widened,
)
from langchain_catena.libraries import LibraryField
from langchain_catena.running import arun_within, run_within

_log = logging.getLogger(__name__)


class CatenaChainCompressor(CatenaBaseCompressor):
    """Widens what any retriever found by a walk over the graph, in LangChain's slot for rerankers.

        wider = CatenaChainCompressor(graph=build_graph(splits, embeddings), embeddings=embeddings, k=8)
        found = store.as_retriever(search_kwargs={"k": 50})
        retriever = ContextualCompressionRetriever(base_compressor=wider, base_retriever=found)

    Documents come in the order of the walk, then the rest of those given; those that the graph does not have stay,
    at their place among this rest. Metadata are those of `CatenaGraphRetriever`. Where the walk fails, the first k of
    the given ones are returned, and the log and `metadata["catena"]["degraded"]` say so. What
    `CatenaRetriever(tell_unknown=True)` tells stays in front, on top of k.

    Attributes:
        library: whose graph is walked; or `graph`, of `build_graph`.
        graph: or that of the user's own documents.
        embeddings: by which it was built, of LangChain or of the core.
        k: documents returned.
        how: walk and scorer; the first ranking is what is given.
        where: a filter on metadata, in the core's grammar, for what is given and what the graph brings.
        id_key, source_key: as the graph was built with, see `GraphDocuments`.
        llm: any chat model or LLM, where `how` asks one.
        services: without a library, journal, budget and limits of the calls of models.
    """

    library: LibraryField | None = Field(default=None, exclude=True)
    graph: InstanceOf[Graph] | None = Field(default=None, exclude=True)
    embeddings: Any = Field(default=None, exclude=True)
    k: int = Field(default=10, ge=0)
    how: InstanceOf[GraphSearch] = Field(default_factory=GraphSearch)
    where: dict[str, Any] | None = None
    id_key: str | None = None
    source_key: str | None = None
    llm: InstanceOf[BaseLanguageModel[Any]] | None = Field(default=None, exclude=True)
    services: InstanceOf[Services] | None = Field(default=None, exclude=True)

    @model_validator(mode="after")
    def _sources(self) -> Self:
        check_source(self.library, self.graph, self.embeddings, self.services)
        if self.graph is not None and self.embeddings is None:
            raise ValueError("graph=… needs embeddings=…: those by which it was built")
        return self

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        return self._documents(documents, run_within(callbacks, self._step(documents, query), self._services()))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        found = await arun_within(callbacks, self._step(documents, query), self._services())
        return self._documents(documents, found)

    def _step(self, documents: Sequence[Document], query: str) -> Step[Widened]:
        yield from check_graph_step()
        keys = NodeKeys(id=self.id_key, source=self.source_key)
        return (yield from widened(query, documents, keys, self.how, route="documents", k=self.k, where=self.where))

    def _services(self) -> Services:
        source = one_source(self.library, self.graph)
        return walking_services(source, self.embeddings, llm=self.llm, services=self.services)

    def _documents(self, given: Sequence[Document], found: Widened) -> list[Document]:
        for part in found.result.ranking.degraded:
            _log.warning("%s: %s", part.what, part.why)
        return [*(document for document in given if is_unknown(document)), *found.documents()]
