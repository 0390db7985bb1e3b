"""Return segments, runs of adjacent chunks, for a question: over a library, a retriever, or what one has found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from pydantic import Field, InstanceOf, PrivateAttr, model_validator

from catena import Chunk, Hit, ParameterError, Ranking, Services
from catena.effects import Reranker, Step, calling
from catena.library import boxed, segments_step
from catena.segments import (
    ROUTE,
    Artefact,
    Calibration,
    Constant,
    Extraction,
    ExtractionParams,
    OnFailure,
    SegmentSearch,
    calibration_for,
    calibration_given,
    chunk_text,
    headed_text,
    preset,
    rerank,
)
from catena.structure import DSRAG, HeaderTemplate
from langchain_catena.base import CatenaBaseCompressor, CatenaBaseRetriever, LibraryField, warn
from langchain_catena.convert import (
    POSITION,
    original_of,
    segment_documents,
    to_chunk,
    to_document,
    told_of,
    with_told,
)
from langchain_catena.places import Passages, PlaceKeys, ranked, to_linked
from langchain_catena.retrieval import SearchFields
from langchain_catena.retriever_routes import first_documents
from langchain_catena.services import services_with, to_reranker, traced
from langchain_catena.stores import NeighbourKey, neighbour_handlers


class CatenaRerank(CatenaBaseCompressor):
    """Orders documents by a reranker's scores and turns these into P(relevant), which means the same everywhere.

        rerank = CatenaRerank(reranker=CohereReranker(), calibration=COHERE, top_n=8)
        rerank = CatenaRerank(reranker=CrossEncoderReranker(model=encoder), calibration=Artefact.from_json(…))
        retriever = ContextualCompressionRetriever(base_compressor=rerank, base_retriever=…)

    `metadata["relevance_score"]` is the probability; `metadata["catena"]` has `scale` ("probability"), `raw_score`,
    `reranker`, `calibration`, and in `routes` the rank before each stage. All else of a document stays, its id too.
    What `CatenaRetriever(tell_unknown=True)` tells stays in front, besides `top_n`.

    Attributes:
        reranker: of the core (`CohereReranker`, `VoyageReranker`, `CrossEncoderReranker` of `catena.backends`, your
            own), or any of LangChain, see `LangChainReranker`.
        calibration: a preset (`COHERE`, `VOYAGE`), a fitted rule, `Constant()` to believe the order alone, or a saved
            fit, which is refused if it was fitted to another reranker.
        top_n: documents returned; None returns all.
        headed: whether the reranker reads title, headings and summaries from the metadata above each text.
        on_failure: "rank" keeps the old order where the reranker fails, and says so in the log and in
            `metadata["catena"]["degraded"]`; "raise" raises.
        services: journal, budget and limits of the calls.
    """

    reranker: InstanceOf[Reranker] | InstanceOf[BaseDocumentCompressor] | InstanceOf[BaseCrossEncoder] = Field(
        exclude=True
    )
    calibration: InstanceOf[Calibration] | InstanceOf[Artefact] | None = Field(default=None)
    top_n: int | None = Field(default=None, ge=0)
    headed: bool = False
    on_failure: OnFailure = "raise"
    services: InstanceOf[Services] | None = Field(default=None, exclude=True)
    _outside: Services = PrivateAttr(default_factory=Services)  # one, so that a dead reranker is remembered

    @model_validator(mode="after")
    def _of_this_reranker(self) -> Self:
        self._rule(to_reranker(self.reranker))
        return self

    def _prepared(self, documents: Sequence[Document], query: str) -> tuple[Step[Ranking], Services]:
        reranker = to_reranker(self.reranker)
        ranking, rule, text_of = (
            ranked(documents, to_chunk),
            self._rule(reranker),
            _headed if self.headed else chunk_text,
        )
        step = rerank(query, ranking, calibration=rule, text_of=text_of, k=self.top_n, on_failure=self.on_failure)
        return step, replace(self.services or self._outside, reranker=traced(reranker))

    def _documents(self, found: Ranking) -> list[Document]:
        warn(found.degraded)
        reranker = to_reranker(self.reranker)
        by = {"reranker": reranker.identity, "calibration": self._rule(reranker).identity}
        return [_scored(hit, found, by) for hit in found.hits]

    def _rule(self, reranker: Reranker) -> Calibration:
        rule: Calibration | Artefact = calibration_given(self.calibration)
        return rule.for_model(reranker.identity) if isinstance(rule, Artefact) else rule


def _headed(chunk: Chunk) -> str:
    """Return a document's text under title, headings and summaries, as its metadata say them."""
    original = original_of(chunk)
    if original is None:
        return chunk.text
    return headed_text(to_linked(original, PlaceKeys(), name=chunk.document_id).chunk)


def _scored(hit: Hit, ranking: Ranking, by: Mapping[str, str]) -> Document:
    document, original = to_document(hit, ranking), original_of(hit.chunk)
    told = {**({} if original is None else told_of(original)), **told_of(document)}
    raw = [way.score for way in hit.provenance if way.route == ROUTE]
    if raw:  # none where the reranker failed and the old order was kept
        told |= {"raw_score": raw[-1], **by}
    return with_told(document, **told)


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

    asked: ClassVar[tuple[str, ...]] = ("k", "budget_tokens", "where", "entities", "embedded_texts")
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

    def extraction(self, query: str, **asked: Any) -> Extraction:
        """Return the core's extraction: segments with values, what failed, and what `explain` needs."""
        found: Extraction = self._found(query, asked)
        return found

    async def aextraction(self, query: str, **asked: Any) -> Extraction:
        """As `extraction`, without blocking the event loop."""
        found: Extraction = await self._afound(query, asked)
        return found

    def children(self) -> Iterator[object]:
        yield from (self.retriever, self.llm)

    def _prepared(self, query: str, **asked: Any) -> tuple[Step[Extraction], Services]:
        passages = self._passages()
        return self._step(query, passages, **asked), self._services(passages)

    def _ranking_of(self, found: Extraction) -> Ranking:
        return found.ranking()

    def _passages(self) -> Passages:
        keys = PlaceKeys(document=self.document_key, position=self.position_key)
        return Passages(keys, positions_needed=self.neighbours is not None)

    def _services(self, passages: Passages) -> Services:
        services = self.services or self._outside if self.library is None else self.library.services
        if self.retriever is not None:
            beside = neighbour_handlers(self.neighbours, passages, key=self.neighbour_key)
            own = calling(f"langchain:{type(self.retriever).__name__}")
            services = replace(services, handlers={**own, **beside})
        if self.reranker is not None:
            services = replace(services, reranker=traced(to_reranker(self.reranker)))
        return services_with(services, llm=self.llm)

    def _step(
        self, query: str, passages: Passages, *, k: int | None = None, budget_tokens: int | None = None, **search: Any
    ) -> Step[Extraction]:
        most = self.k if k is None else k
        if most is not None and (type(most) is not int or most < 0):
            raise ParameterError("k", most, "an integer >= 0, or None")
        options = self.search_options(search)
        how = self._how(budget_tokens)

        if self.retriever is None:
            found = yield from boxed(segments_step(query, how, options))
        else:
            retriever = self.retriever

            def ranked(query: str) -> Step[Ranking]:
                return passages.ranking((yield from first_documents(retriever, query)))

            found = yield from boxed(segments_step(query, how, options, ranked=ranked, place=passages.place))
        if most is None:
            return found
        kept = {hit.chunk.id for hit in found.ranking().hits[:most]}
        return replace(found, segments=tuple(hit for hit in found.segments if hit.segment.id in kept))

    def _how(self, budget_tokens: int | None) -> SegmentSearch:
        how, budget = self.options, self.budget_tokens if budget_tokens is None else budget_tokens
        if budget is not None:
            given = how.extraction and replace(how.extraction, overall_max_tokens=budget)
            how = replace(how, extraction=given, budget_tokens=budget)
        if self.reranker is not None:
            how = replace(how, rerank=True)
        return how if self.llm is None else replace(how, queries_by="llm")

    def _documents(self, found: Extraction) -> list[Document]:
        return segment_documents(found, content=self.content, header=self.options.header)


class CatenaSegmentExtractor(CatenaBaseCompressor):
    """Makes segments, runs of adjacent chunks that answer together, out of the chunks that a retriever found.

        splits = with_links(splitter.split_documents(documents))
        store.add_documents(splits)
        extractor = CatenaSegmentExtractor(neighbours=store, calibration=Constant())
        retriever = ContextualCompressionRetriever(
            base_compressor=DocumentCompressorPipeline(transformers=[CatenaRerank(...), extractor]),
            base_retriever=store.as_retriever(search_kwargs={"k": 50}),
        )

    Chunks may come from any splitter, overlapping or not. They must say whose they are (`document_id` or `source`)
    and where they stand: `position` among the chunks of their document, which `with_links` and
    `CatenaDocumentTransformer` write. Without `neighbours`, `start_index` does as well: chunks that touch are then
    adjacent, and what nobody found is a wall that no segment crosses.

    A segment's document has the text as `page_content`, and in its metadata what all its chunks say, and
    `document_id`, `start_index`, `end_index` (where the chunks know theirs), `first_page`, `last_page`, `first_line`,
    `last_line`, `first_position`, `last_position`, `heading_path`, `citation`, `header`, `value`; `relevance_score`
    is that value, as `metadata["catena"]["scale"]` says ("value"), beside `chunk_ids` and `queries`.

    Attributes:
        params: what a segment is worth and how long it may be; or the name of a preset, "balanced", "precision" or
            "find_all". None takes what `budget_tokens` allows, as `catena.segments.search.SegmentSearch` does.
        budget_tokens: of all segments together, headers counted; not looked at where `params` are given.
        calibration: what `relevance_score` says of relevance. Not needed where `CatenaRerank` made it a probability,
            and where there is none: then the order counts. `Constant()` believes the order of any score.
        neighbours: where chunks beside those found come from: a vector store (`get_by_ids`) or a docstore (`mget`)
            along links, a function `(document_id, first, end) -> documents` (a coroutine function as well), or a
            `Library`. At most the gaps that a segment could cross are fetched.
        neighbour_key: the key of a chunk in the store, from document id and position, in place of links.
        document_key: metadata key of the id of the whole document; "document_id", or else "source", where None.
        position_key: metadata key of the position.
        never_empty: return the best segment, and say so, where none is worth `params.minimum_value`.
        content: "headed" puts the header (title and summary of the document) before the text; the exact text is then
            in `metadata["raw_text"]`. Only where there are offsets, or a library, is it a slice of the document;
            where splitters took white space away between chunks, so much white space stands there again.
        header: its words, counted where a budget is in tokens; None for no header.
    """

    params: InstanceOf[ExtractionParams] | Literal["balanced", "precision", "find_all"] | None = None
    budget_tokens: int = Field(default=SegmentSearch().budget_tokens, ge=1)
    calibration: InstanceOf[Calibration] | None = None
    neighbours: Any = Field(default=None, exclude=True)
    neighbour_key: NeighbourKey | None = Field(default=None, exclude=True)
    document_key: str | None = None
    position_key: str = POSITION
    never_empty: bool = True
    content: Literal["raw", "headed"] = "raw"
    header: InstanceOf[HeaderTemplate] | None = DSRAG

    @model_validator(mode="after")
    def _known_neighbours(self) -> Self:
        self._prepared((), "")
        return self

    def _prepared(self, documents: Sequence[Document], query: str) -> tuple[Step[Extraction], Services]:
        keys = PlaceKeys(document=self.document_key, position=self.position_key)
        passages = Passages(keys, positions_needed=self.neighbours is not None)
        params = preset(self.params) if isinstance(self.params, str) else self.params

        def given(_: str) -> Step[Ranking]:
            yield from ()  # nothing is asked
            ranking = passages.ranking(documents)
            calibration_for(ranking, self.calibration)  # raises where there is none and one is needed
            return ranking

        how = SegmentSearch(
            extraction=params,
            budget_tokens=self.budget_tokens,
            never_empty=self.never_empty,
            header=self.header,
            calibration=Constant() if self.calibration is None else self.calibration,
        )
        services = Services(handlers=neighbour_handlers(self.neighbours, passages, key=self.neighbour_key))
        return boxed(segments_step(query, how, ranked=given, place=passages.place)), services

    def _documents(self, found: Extraction) -> list[Document]:
        warn(found.degraded)
        return segment_documents(found, content=self.content, header=self.header)
