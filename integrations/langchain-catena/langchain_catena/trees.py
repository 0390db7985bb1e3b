"""Trees of summaries over LangChain documents (RAPTOR), and the retriever that finds documents through them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypedDict, Unpack

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel
from pydantic import Field, InstanceOf, PrivateAttr

from catena.effects import Embedder, Failed, Services, Step, arun, run, together
from catena.enrichment import ClusterSummaries, RaptorOptions, RaptorTree, raptor_tree
from catena.model import Ranking
from catena.retrieval import TreeWay, search_trees
from langchain_catena.base import CatenaBaseRetriever
from langchain_catena.content_ids import source_of
from langchain_catena.convert import to_chunk, to_document
from langchain_catena.running import arun_within, run_within
from langchain_catena.services import LangChainLLM, to_embedder

_log = logging.getLogger(__name__)


class AskedTrees(TypedDict, total=False):
    """What `invoke` takes besides the question; it goes before the retriever's own."""

    k: int | None


def build_trees(
    documents: Sequence[Document],
    embeddings: Embeddings | Embedder,
    *,
    llm: BaseLanguageModel[Any] | None = None,
    options: RaptorOptions | None = None,
    source_key: str | None = None,
    services: Services | None = None,
) -> tuple[RaptorTree, ...]:
    """Return one tree of summaries per source, for `CatenaTreeRetriever`; what a model fails at is told in the log.

    Args:
        documents: chunks of any splitter, those of one source in reading order.
        embeddings: of LangChain or of the core.
        llm: any chat model or LLM, which writes the summaries; without one they are sentences of the documents.
        options: clustering (extra `raptor`), layers, and how long summaries are.
        source_key: metadata key of whose a document is; "source", or else "document_id", where None.
        services: journal, budget and limits of the calls.

    Raises:
        ParameterError: a document does not say whose it is, or is there twice.
        MissingExtraError: a document is long enough for clusters, and scikit-learn is not installed.
    """
    outside = _outside(embeddings, llm, services)
    return _made(run(_grown(documents, _options(options, llm), source_key), outside))


async def abuild_trees(
    documents: Sequence[Document],
    embeddings: Embeddings | Embedder,
    *,
    llm: BaseLanguageModel[Any] | None = None,
    options: RaptorOptions | None = None,
    source_key: str | None = None,
    services: Services | None = None,
) -> tuple[RaptorTree, ...]:
    """As `build_trees`, without blocking the event loop; clusters are computed in threads."""
    outside = _outside(embeddings, llm, services)
    return _made(await arun(_grown(documents, _options(options, llm), source_key), outside, computes=True))


class CatenaTreeRetriever(CatenaBaseRetriever):
    """Finds documents through trees of summaries: a summary that is near to the question brings what it sums up.

        trees = build_trees(chunks, embeddings, llm=model)
        CatenaTreeRetriever(trees=trees, embeddings=embeddings, k=6)

    Documents come as they were given, with their metadata, `relevance_score` and provenance: in
    `metadata["catena"]["routes"]` the node that brought one, `view` "summary" or "raw". Summaries are not returned:
    they stand in no document. `ranking` and `aranking` return the core's `Ranking`.

    Attributes:
        trees: of `build_trees`.
        embeddings: by which they were built.
        k: documents returned; `invoke` takes it, too.
        way: "collapsed" ranks the nodes of all layers at once, "traversal" goes down from the roots.
    """

    asked: ClassVar[type] = AskedTrees
    provider: ClassVar[str] = "catena-trees"

    trees: tuple[InstanceOf[RaptorTree], ...] = Field(exclude=True)
    embeddings: Any = Field(exclude=True)
    k: int = Field(default=4, ge=0)
    way: TreeWay = "collapsed"
    _outside: Services = PrivateAttr(default_factory=Services)  # one, so that a dead model is remembered

    def ranking(self, query: str, **asked: Unpack[AskedTrees]) -> Ranking:
        """Return the core's ranking: chunks, each with the node that brought it."""
        return run(self._step(query, **asked), self._services())

    async def aranking(self, query: str, **asked: Unpack[AskedTrees]) -> Ranking:
        """As `ranking`, without blocking the event loop."""
        return await arun(self._step(query, **asked), self._services())

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **asked: Unpack[AskedTrees]
    ) -> list[Document]:
        ranking = run_within(run_manager.get_child(), self._step(query, **asked), self._services())
        return [to_document(hit, ranking) for hit in ranking.hits]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **asked: Unpack[AskedTrees]
    ) -> list[Document]:
        ranking = await arun_within(run_manager.get_child(), self._step(query, **asked), self._services())
        return [to_document(hit, ranking) for hit in ranking.hits]

    def _step(self, query: str, *, k: int | None = None) -> Step[Ranking]:
        trees = [(each.tree, each.vectors) for each in self.trees]
        return search_trees(query, trees, k=self.k if k is None else k, way=self.way)

    def _services(self) -> Services:
        return replace(self._outside, embedder=to_embedder(self.embeddings))


def _options(given: RaptorOptions | None, llm: object) -> RaptorOptions:
    return given or RaptorOptions(summaries=ClusterSummaries(by="offline" if llm is None else "llm"))


def _outside(
    embeddings: Embeddings | Embedder, llm: BaseLanguageModel[Any] | None, services: Services | None
) -> Services:
    found = replace(services or Services(), embedder=to_embedder(embeddings))
    return found if llm is None else replace(found, llm=LangChainLLM(llm))


def _grown(documents: Sequence[Document], how: RaptorOptions, source_key: str | None) -> Step[list[RaptorTree]]:
    sources: dict[str, list[Document]] = defaultdict(list)
    for document in documents:
        sources[source_of(document, source_key)].append(document)
    steps = []
    for source, parts in sources.items():
        chunks = [replace(to_chunk(part), document_id=source, position=place) for place, part in enumerate(parts)]
        steps.append(raptor_tree(source, chunks, how, title=str(parts[0].metadata.get("title", ""))))
    results = yield from together(steps)
    for result in results:
        if isinstance(result, Failed):
            raise result.error
    return [result for result in results if isinstance(result, RaptorTree)]


def _made(trees: Sequence[RaptorTree]) -> tuple[RaptorTree, ...]:
    for part in (part for each in trees for part in each.degraded):
        _log.warning("%s: %s", part.what, part.why)
    return tuple(trees)
