"""Segments for a question, as a LangChain retriever: over a library, or any retriever and the store beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypedDict, Unpack

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from pydantic import Field, InstanceOf, PrivateAttr, model_validator

from catena.effects import Handler, Reranker, Services, Step, ask
from catena.library import segments_step
from catena.model import ParameterError, Ranking
from catena.segments import Extraction, SegmentHit, SegmentSearch
from langchain_catena.base import CatenaBaseRetriever
from langchain_catena.convert import POSITION, segment_documents, unknown_document
from langchain_catena.libraries import LibraryField
from langchain_catena.neighbours import NeighbourKey, neighbour_handlers
from langchain_catena.places import Passages, PlaceKeys
from langchain_catena.rerank import to_reranker, traced
from langchain_catena.retrieval import told
from langchain_catena.running import arun_within, run_within
from langchain_catena.search_fields import SearchFields
from langchain_catena.services import LangChainLLM

FIRST_RANKING = "first_ranking"
"""Tag, in traces, of the run of the retriever whose chunks become segments."""


class AskedSegments(TypedDict, total=False):
    """What `invoke` takes besides the question; each goes before the retriever's own."""

    k: int | None
    budget_tokens: int | None
    where: dict[str, Any] | None
    entities: Sequence[str] | None
    embedded_texts: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Retrieve:
    """Ask the base retriever; the reply is its documents."""

    query: str
    purpose: str = field(default="search", compare=False)
    waited_for: ClassVar[bool] = True


class CatenaSegmentRetriever(SearchFields, CatenaBaseRetriever):
    """Returns the segments that answer a question: runs of adjacent chunks, each worth more than it costs to read.

        CatenaSegmentRetriever(library=library)
        CatenaSegmentRetriever(retriever=store.as_retriever(search_kwargs={"k": 100}), neighbours=store)

    What the documents' metadata say, and what those of the base retriever must say, is stated at
    `CatenaSegmentExtractor`. `extraction` and `aextraction` return the core's `Extraction`, for
    `catena.segments.explain`. A name in the question that stands nowhere is told as `CatenaRetriever` tells it.
    Fields that are not described here are those of `SearchFields`; they go with `library`.

    Attributes:
        library: whose chunks are ranked; else `retriever`, any LangChain retriever, which should return many chunks
            (100 or so): they are what segments are made of. Its scores are read as `CatenaSegmentExtractor` reads
            them, but where they are no probabilities, `options.calibration` is asked, by default for the order alone.
        neighbours, neighbour_key, document_key, position_key: with `retriever`, as of `CatenaSegmentExtractor`.
        options: what is searched for, what a score says of relevance, what a segment is worth.
        k: most segments returned, the best; None: as many as the budget holds.
        budget_tokens: of all segments together, headers counted, in place of the budget of `options`.
        reranker: of the core or of LangChain, see `CatenaRerank`; `options.calibration` should be made for it.
        llm: any chat model or LLM; it writes the search queries.
        services: with `retriever`, journal, budget and limits of the model's and the reranker's calls.
        content: "headed" puts the header of `options.header` before the text.
    """

    asked: ClassVar[type] = AskedSegments
    provider: ClassVar[str] = "catena-segments"

    library: LibraryField | None = Field(default=None, exclude=True)
    retriever: InstanceOf[Runnable[str, list[Document]]] | None = None
    neighbours: Any = Field(default=None, exclude=True)
    neighbour_key: NeighbourKey | None = Field(default=None, exclude=True)
    document_key: str | None = None
    position_key: str = POSITION
    options: InstanceOf[SegmentSearch] = Field(default_factory=SegmentSearch)
    k: int | None = Field(default=None, ge=0)
    budget_tokens: int | None = Field(default=None, ge=1)
    reranker: InstanceOf[Reranker] | InstanceOf[BaseDocumentCompressor] | InstanceOf[BaseCrossEncoder] | None = Field(
        default=None, exclude=True
    )
    llm: InstanceOf[BaseLanguageModel[Any]] | None = Field(default=None, exclude=True)
    services: InstanceOf[Services] | None = Field(default=None, exclude=True)
    content: Literal["raw", "headed"] = "raw"
    _outside: Services = PrivateAttr(default_factory=Services)  # one, so that a dead service is remembered

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.library is None) == (self.retriever is None):
            raise ValueError("give either library=… or retriever=…")
        if self.library is not None and (self.neighbours is not None or self.services is not None):
            raise ValueError("neighbours=… and services=… are for retriever=…: a library has its own")
        if self.library is None and (unheard := self.given_options(without="where")):
            raise ValueError(f"{unheard[0]}=… is for library=…: a retriever has its own")
        neighbour_handlers(self.neighbours, self._passages(), key=self.neighbour_key)
        return self

    def extraction(self, query: str, **asked: Unpack[AskedSegments]) -> Extraction:
        """Return the core's extraction: segments with values, what failed, and what `explain` needs."""
        return self._run(None, query, asked)

    async def aextraction(self, query: str, **asked: Unpack[AskedSegments]) -> Extraction:
        """As `extraction`, without blocking the event loop."""
        return await self._arun(None, query, asked)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **asked: Unpack[AskedSegments]
    ) -> list[Document]:
        extraction = self._run(run_manager.get_child(), query, asked)
        for name, part in told(extraction):
            dispatch_custom_event(name, asdict(part), config={"callbacks": run_manager.get_child()})
        return self._documents(extraction)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **asked: Unpack[AskedSegments]
    ) -> list[Document]:
        extraction = await self._arun(run_manager.get_child(), query, asked)
        for name, part in told(extraction):
            await adispatch_custom_event(name, asdict(part), config={"callbacks": run_manager.get_child()})
        return self._documents(extraction)

    def children(self) -> Iterator[object]:
        yield from (self.retriever, self.llm)

    def _run(self, callbacks: Callbacks, query: str, asked: AskedSegments) -> Extraction:
        passages = self._passages()
        return run_within(callbacks, self._step(query, passages, **asked), self._services(passages))

    async def _arun(self, callbacks: Callbacks, query: str, asked: AskedSegments) -> Extraction:
        passages = self._passages()
        return await arun_within(callbacks, self._step(query, passages, **asked), self._services(passages))

    def _passages(self) -> Passages:
        keys = PlaceKeys(document=self.document_key, position=self.position_key)
        return Passages(keys, positions_needed=self.neighbours is not None)

    def _services(self, passages: Passages) -> Services:
        services = self.services or self._outside if self.library is None else self.library.services
        if self.retriever is not None:
            base = self.retriever
            search = Handler(
                identity=f"langchain:{type(base).__name__}",
                call=lambda request: base.invoke(request.query, {"tags": [FIRST_RANKING]}),
                acall=lambda request: base.ainvoke(request.query, {"tags": [FIRST_RANKING]}),
            )
            beside = neighbour_handlers(self.neighbours, passages, key=self.neighbour_key)
            services = replace(services, handlers={_Retrieve: search, **beside})
        if self.reranker is not None:
            services = replace(services, reranker=traced(to_reranker(self.reranker)))
        return services if self.llm is None else replace(services, llm=LangChainLLM(self.llm))

    def _step(
        self,
        query: str,
        passages: Passages,
        *,
        k: int | None = None,
        budget_tokens: int | None = None,
        **search: Any,
    ) -> Step[Extraction]:
        most = self.k if k is None else k
        if most is not None and (type(most) is not int or most < 0):
            raise ParameterError("k", most, "an integer >= 0, or None")
        options = self.search_options(search)
        how = self._how(budget_tokens)
        if self.retriever is None:
            found = yield from segments_step(query, how, options)
        else:
            found = yield from segments_step(query, how, options, ranked=_ranked(passages), place=passages.place)
        return found if most is None else replace(found, segments=_best(found, most))

    def _how(self, budget_tokens: int | None) -> SegmentSearch:
        how, budget = self.options, self.budget_tokens if budget_tokens is None else budget_tokens
        if budget is not None:
            given = how.extraction and replace(how.extraction, overall_max_tokens=budget)
            how = replace(how, extraction=given, budget_tokens=budget)
        if self.reranker is not None:
            how = replace(how, rerank=True)
        return how if self.llm is None else replace(how, queries_by="llm")

    def _documents(self, extraction: Extraction) -> list[Document]:
        first = [unknown_document(extraction)] if self.tell_unknown and extraction.unknown else []
        return [*first, *segment_documents(extraction, content=self.content, header=self.options.header)]


def _ranked(passages: Passages) -> Callable[[str], Step[Ranking]]:
    def ranked(query: str) -> Step[Ranking]:
        (documents,) = yield from ask([_Retrieve(query=query)])
        return passages.ranking(documents)

    return ranked


def _best(found: Extraction, most: int) -> tuple[SegmentHit, ...]:
    """Return the segments of most value, in the order they are in."""
    kept = {hit.chunk.id for hit in found.ranking().hits[:most]}
    return tuple(hit for hit in found.segments if hit.segment.id in kept)
