"""Retrieve the chunks, the sections or the figures of a library, or what any mix of retrievers finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from pydantic import BaseModel, Field, InstanceOf, StrictBool, model_validator

from catena import ParameterError, RankFusion, Ranking, ScoreFusion, Services
from catena.effects import Step
from catena.enrichment import Detector, LLMDetector
from catena.library import (
    SearchOptions,
    SegmentSearchOptions,
    boxed,
    figures_step,
    read_step,
    search_step,
    views_step,
)
from catena.retrieval import (
    OnRouteError,
    OnUnknown,
    QuestionLimits,
    ReadingOptions,
    Route,
    Tuned,
    ViewSearch,
    named,
    stored,
)
from langchain_catena.base import CatenaBaseRetriever, LibraryField
from langchain_catena.convert import figure_document, section_document, to_document, view_documents
from langchain_catena.retriever_routes import RetrieverStore
from langchain_catena.services import services_with


class SearchFields(BaseModel):
    """The options of the core's `SegmentSearchOptions` as fields; None stands for the default of each.

    Attributes:
        routes: the routes asked side by side: their names, or name -> step as in `catena.retrieval.routes`. None asks
            as `Library.search` does: for the best passages of whole sections, too, where the library holds them.
        where: a filter that every route obeys, e.g. `{"document_id": "manuals/hx210.pdf"}`.
        fusion: by score (`ScoreFusion`, the default; `adapted(...)` gives one), by score with weights that were tuned
            on questions (`Tuned`, refused with another embedding model than theirs), or by rank (`RankFusion`).
        on_route_error: "degrade" ranks by the other routes, says so in each document's metadata, in the log
            and in a custom event; "raise" raises.
        by_name: each name of documents that a question says gets its share of the ranking.
        entities: names to be taken as such, besides those found without a model; meant for `invoke`.
        on_unknown: "empty" returns no hits where the question says no known name but one that is like a known one
            and stands nowhere; "keep" returns its neighbours.
        limits: of the question's length and of the filter's width.
        embedded_texts: embedded in place of the question (HyDE); meant for `invoke`.
        tell_unknown: the first document names what stands nowhere and what is like it; its metadata has
            `kind="unknown"`. It comes on top of k.
    """

    routes: tuple[str, ...] | dict[str, Route] | None = None
    where: dict[str, Any] | None = None
    fusion: InstanceOf[ScoreFusion] | InstanceOf[RankFusion] | InstanceOf[Tuned] | None = None
    on_route_error: OnRouteError | None = None
    by_name: StrictBool | None = None
    entities: tuple[str, ...] | None = None
    on_unknown: OnUnknown | None = None
    limits: InstanceOf[QuestionLimits] | None = None
    embedded_texts: tuple[str, ...] | None = None
    tell_unknown: bool = False

    def given_options(self, *, without: str) -> list[str]:
        """Return the names of the options that are given, but for one."""
        given = (name for name in SegmentSearchOptions.__annotations__ if getattr(self, name) is not None)
        return [name for name in given if name != without]

    def search_options(self, asked: Mapping[str, Any]) -> SearchOptions:
        """Return the options of one search: what `invoke` was given goes before the fields."""
        own = {name: getattr(self, name) for name in SegmentSearchOptions.__annotations__}
        given = {name: value for name, value in asked.items() if value is not None}
        return {**own, **given}  # type: ignore[typeddict-item]


class CatenaRetriever(SearchFields, CatenaBaseRetriever):
    """Ranks the chunks of a library over several routes, each hit scored, cited and explained.

    Give either `library`, or `services` that answer the routes; `CatenaRetriever.over({...})` fuses LangChain
    retrievers. `invoke` takes `k`, `where`, `entities` and `embedded_texts` too. `ranking` and `aranking` return the
    core's `Ranking`. Fields that are not described here are those of `SearchFields`.

    A question about a name that stands nowhere ("HX999") returns no documents instead of another product's. Why is
    said by `ranking(question).unknown`, by the log and a custom event, by `metadata["catena"]["unknown"]` of what is
    returned, and, with `tell_unknown=True`, by a first document, for chains that see nothing else.

    Attributes:
        k: documents returned; None: as many as `Library.search` returns.
        depth: hits asked of each route; the core's default where None.
        graph: whether a walk over the library's graph adds what the first ranking is not sure of; None: where there
            is one.
        llm: finds names in the question, one call each; those that the question does not print are refused.
        detectors: who else finds names in the question.
        whole_sections: return the section that each hit was cut from, each section once (library only).
    """

    asked: ClassVar[tuple[str, ...]] = ("k", "where", "entities", "embedded_texts")

    library: LibraryField | None = Field(default=None, exclude=True)
    services: InstanceOf[Services] | None = Field(default=None, exclude=True)
    k: int | None = 4
    depth: int | None = None
    graph: StrictBool | None = None
    llm: InstanceOf[BaseLanguageModel[Any]] | None = Field(default=None, exclude=True)
    detectors: tuple[InstanceOf[Detector], ...] = ()
    whole_sections: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.library is None) == (self.services is None):
            raise ValueError("give either library=… or services=…")
        if self.whole_sections and self.library is None:
            raise ValueError("whole_sections=True needs library=…: only a library knows the sections")
        if isinstance(self.fusion, Tuned) and (embedder := self._services().embedder) is not None:
            self.fusion.fusion_for(embedder.identity)  # said now, not at the first question
        return self

    @classmethod
    def over(
        cls,
        retrievers: Mapping[str, Runnable[str, list[Document]]] | Sequence[Runnable[str, list[Document]]],
        *,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        **options: Any,
    ) -> Self:
        """Return a retriever that fuses LangChain retrievers by rank, weights obeyed, equal texts kept apart.

        Retrievers and weights go by name, or are lists of the same order, as `EnsembleRetriever` takes them.
        """
        by_name, fusion = named(retrievers, weights)
        routes = {name: stored(name) for name in by_name}  # whatever its name: one called "dense" embeds itself
        return cls(services=Services(store=RetrieverStore(by_name)), routes=routes, fusion=fusion, **options)

    def children(self) -> Iterator[object]:
        yield self.llm
        store = None if self.services is None else self.services.store
        if isinstance(store, RetrieverStore):
            yield from store.retrievers.values()

    def _services(self) -> Services:
        return services_with(self.services if self.library is None else self.library.services, llm=self.llm)

    def _prepared(self, query: str, **asked: Any) -> tuple[Step[Ranking], Services]:
        options: SearchOptions = {"k": self.k, "depth": self.depth, "graph": self.graph, **self.search_options(asked)}
        detectors = self.detectors if self.llm is None else (*self.detectors, LLMDetector())
        return boxed(search_step(query, options, detectors=detectors)), self._services()

    def _documents(self, found: Ranking) -> list[Document]:
        if not self.whole_sections or self.library is None:
            return [to_document(hit, found) for hit in found.hits]
        return [section_document(segment, hit, found) for segment, hit in self.library.sections(found)]


class CatenaSectionRetriever(SearchFields, CatenaBaseRetriever):
    """Returns whole sections of a library, or, within a budget of tokens, what in them says most about a question.

        sections = Preparation(chunks=SectionChunkOptions(), views=(Keywords(), Summaries()))
        library = Library.open("manuals.catena", preparation=sections, llm=LangChainLLM(model))
        CatenaSectionRetriever(library=library, k=3)                        # by the best passage of each section
        CatenaSectionRetriever(library=library, k=3, views=ViewSearch())    # own text, keywords and summary in turn
        CatenaSectionRetriever(library=library, budget_tokens=1_000)        # what says most in the best sections

    Metadata are those of `CatenaRetriever`; `metadata["catena"]["views"]` says which views found a section, at which
    rank. `ranking` and `aranking` return the core's `Ranking`. Fields that are not described here are those of
    `SearchFields`; `views` goes with `where` and `tell_unknown` alone of them.

    Attributes:
        library: best one whose chunks are sections or fixed lengths; short pieces are found as well.
        k: sections returned; with `views` the paper's rule takes 1.5, and returns as many as its views differ. With
            `budget_tokens` the budget says how much is returned.
        views: search several views of the library, as `Library.search_views`; None ranks as `Library.search`.
        budget_tokens: of all text together, in place of sections, as `Library.read`.
        reading: with `budget_tokens`, how many sections are looked into, and how what they say is ranked.
    """

    asked: ClassVar[tuple[str, ...]] = ("k", "budget_tokens", "where", "entities", "embedded_texts")
    provider: ClassVar[str] = "catena-sections"

    library: LibraryField = Field(exclude=True)
    k: int | float = 3
    views: InstanceOf[ViewSearch] | None = None
    budget_tokens: int | None = Field(default=None, ge=1)
    reading: InstanceOf[ReadingOptions] | None = None

    @model_validator(mode="after")
    def _reads(self) -> Self:
        if self.reading is not None and self.budget_tokens is None:
            raise ValueError("reading=… says how passages are read: give budget_tokens=…, too")
        unheard = self.given_options(without="where")
        if self.views is not None and unheard:
            raise ValueError(f"{unheard[0]}=… does nothing with views=…: ViewSearch says how each is searched")
        return self

    def _prepared(self, query: str, **asked: Any) -> tuple[Step[Ranking], Services]:
        return boxed(self._step(query, **asked)), self.library.services

    def _step(
        self, query: str, *, k: float | None = None, budget_tokens: int | None = None, **search: Any
    ) -> Step[Ranking]:
        budget, how = self.budget_tokens if budget_tokens is None else budget_tokens, self.library.preparation
        options = self.search_options(search)
        if budget is not None:  # then k is the number of sections to look into
            looked_into: SearchOptions = {**options, "k": None if k is None else _whole(k)}
            return read_step(
                query, looked_into, budget_tokens=budget, reading=self.reading, views=self.views, preparation=how
            )
        k = self.k if k is None else k
        if self.views is not None:
            return views_step(query, self.views, k=k, where=options["where"], preparation=how)
        return search_step(query, {**options, "k": _whole(k)})

    def _documents(self, found: Ranking) -> list[Document]:
        return view_documents(found)


def _whole(k: float) -> int:
    if k != int(k):
        raise ParameterError("k", k, "a whole number >= 0; only views take others")
    return int(k)


class CatenaFigureRetriever(CatenaBaseRetriever):
    """Ranks the figures of a library by their titles, the text around them, the words inside and their captions.

    `page_content` is the figure as its document shows it (link, title, words inside), with the caption that a model
    gave it, so that a reader of text can answer from it and refer to it. The metadata is that of any chunk, and
    `figure` (its name), `caption` (where a model gave one), `figure_file` (the picture, PNG; absent where no file
    can be written), `figure_page` (from 1), `figure_title`, `figure_kind` ("bitmap" or "drawing"), `figure_width`
    and `figure_height` (pixels).

        figures = Preparation(engine="pypdfium2", figures=True)
        services = Services(captioner=LangChainCaptioner(model))
        library = Library.open("manuals.catena", preparation=figures, services=services)
        library.index(["manuals"])
        (found, *_) = CatenaFigureRetriever(library=library).invoke("exploded view of the pump")

    Attributes:
        library: indexed with `Preparation(figures=True)`.
        k: figures returned; `invoke` takes it, too.
        fusion: as of `CatenaRetriever`.
        where: a filter; `invoke` takes it, too.
    """

    asked: ClassVar[tuple[str, ...]] = ("k", "where")
    provider: ClassVar[str] = "catena-figures"

    library: LibraryField = Field(exclude=True)
    k: int | None = 4
    where: dict[str, Any] | None = None
    fusion: InstanceOf[ScoreFusion] | InstanceOf[RankFusion] | InstanceOf[Tuned] | None = None

    def _prepared(self, query: str, **asked: Any) -> tuple[Step[Ranking], Services]:
        k = self.k if asked.get("k") is None else asked["k"]
        where = self.where if asked.get("where") is None else asked["where"]
        return boxed(figures_step(query, k=k, where=where, fusion=self.fusion)), self.library.services

    def _documents(self, found: Ranking) -> list[Document]:
        figures = self.library.figures(found)
        return [figure_document(figure, self.library.figure_path(hit), hit, found) for figure, hit in figures]
