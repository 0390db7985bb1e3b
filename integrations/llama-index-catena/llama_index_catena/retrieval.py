"""Find chunks and figures of a library, over several routes, as LlamaIndex retrievers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, Self

from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType

from catena import ParameterError, Ranking, Services, arun, run
from catena.effects import Step
from catena.enrichment import Detector, LLMDetector
from catena.library import BaseLibrary, SearchOptions, boxed, figures_step, read_step, search_step, views_step
from catena.retrieval import (
    Fusion,
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
from llama_index_catena.components import (
    CoreRetriever,
    DegradedEvent,
    NamedEvent,
    bundle_of,
    checked_arguments,
    dispatcher,
    tell_degraded,
)
from llama_index_catena.convert import figure_node, notice_node, section_node, to_node
from llama_index_catena.filters import Filters, where_of
from llama_index_catena.services import LlamaIndexLLM, language_model
from llama_index_catena.stores import RetrieverStore


class RouteDegradedEvent(DegradedEvent):
    """A part of a retrieval failed while the rest went on: `what` names it, `why` says what happened."""


class UnknownNameEvent(NamedEvent):
    """The question says a name that stands nowhere in what was searched; `near` are names like it that do."""

    text: str
    near: list[str]


class CatenaRetriever(CoreRetriever[Ranking]):
    """Finds the best chunks of a library, or of any services, over several routes.

    A question about a name that stands nowhere ("HX999") gives no passages instead of another product's. It is never
    lost why: the log and an `UnknownNameEvent` say it, so does `ranking(question).unknown`; nodes that are returned
    all the same have it in their metadata `unknown_names`, which models that answer read; and a first node of the
    `kind` "notice" says it, on top of `similarity_top_k`, so that a query engine has something to answer from.

    Of a query bundle, the dense route takes `custom_embedding_strs` (HyDE), as LlamaIndex's own retrievers do:
    the mean of their vectors. A vector in the bundle is not used: nothing says which model made it.

    Args:
        source: an open library, or services that answer `Search` (and `Embed`, for the dense route).
        similarity_top_k: how many chunks, >= 0, with views also 1.5; by default as many as the library's own method
            returns: 10, 3 with views, and with `budget_tokens` it looks into 30.
        routes, depth, on_route_error, by_name, on_unknown, limits: as `catena.retrieval.multi_route.retrieve` takes
            them; by default the routes of `Library.search`, which finds long chunks by their passages, too.
        where, filters: Catena's filter, or LlamaIndex's `MetadataFilters`; where both are given, both hold.
        graph: whether a walk over the library's graph adds what the first ranking is not sure of; None: where there
            is one.
        fusion: as it takes it (`adapted(...)` gives one), or weights that were tuned on questions, `Tuned`.
        views: search under several views, as `Library.search_views` does, in place of routes and names; for a library
            whose preparation makes them.
        budget_tokens: return what says most about the question in those chunks, as much as fits, as `Library.read`
            does.
        reading: how passages are ranked then, as `Library.read` takes it.
        detectors: who else finds names in a question, e.g. `ExpertDetector` those of a list; one that asks a
            recogniser needs services that have it.
        llm: finds names in the question, one call each; those that the question does not print are refused.
        notice: False leaves that first node out.
        expand_to: "section" returns the whole section of each of those chunks, each section once, with the
            score of its best chunk; needs a library.
        callback_manager: told of each retrieval, as by every LlamaIndex retriever.
        verbose: as LlamaIndex has it.

    Raises:
        ParameterError: sections or views are asked for of something that is no library, options contradict each
            other, or weights were tuned with another embedding model than the source has.
    """

    @checked_arguments
    def __init__(
        self,
        source: BaseLibrary | Services,
        *,
        similarity_top_k: float | None = None,
        routes: Sequence[str] | Mapping[str, Route] | None = None,
        where: Filters | None = None,
        filters: Filters | None = None,
        fusion: Fusion | Tuned | None = None,
        depth: int | None = None,
        on_route_error: OnRouteError = "degrade",
        by_name: bool = True,
        on_unknown: OnUnknown = "empty",
        limits: QuestionLimits | None = None,
        graph: bool | None = None,
        detectors: Sequence[Detector] = (),
        llm: LLM | LlamaIndexLLM | None = None,
        notice: bool = True,
        expand_to: Literal["section"] | None = None,
        views: ViewSearch | None = None,
        budget_tokens: int | None = None,
        reading: ReadingOptions | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        check_source("source", source, Services)
        if expand_to not in (None, "section"):
            raise ParameterError("expand_to", expand_to, "'section' or None")
        if expand_to and not isinstance(source, BaseLibrary):
            raise ParameterError("expand_to", expand_to, "None where the source is no Library")
        if views is not None and not isinstance(source, BaseLibrary):
            raise ParameterError("views", views, "None where the source is no Library")
        told: dict[str, object] = {"routes": routes, "fusion": fusion, "depth": depth, "graph": graph}
        told |= {"detectors": detectors or None, "llm": llm}
        if views is not None and (given := [name for name, value in told.items() if value is not None]):
            allowed = "not given with views: ViewSearch says how each is searched"
            raise ParameterError(given[0], told[given[0]], allowed)
        if budget_tokens is not None and expand_to:
            raise ParameterError("budget_tokens", budget_tokens, "None with expand_to='section'")
        if reading is not None and budget_tokens is None:
            raise ParameterError("reading", reading, "given with budget_tokens")
        self.similarity_top_k: Any = similarity_top_k
        self.views, self.budget_tokens, self.reading = views, budget_tokens, reading
        self.routes, self.where, self.fusion = routes, where_of(where, filters), fusion
        self.depth, self.on_route_error, self.expand_to = depth, on_route_error, expand_to
        self.by_name, self.on_unknown, self.notice, self.limits = by_name, on_unknown, notice, limits
        self.graph = graph
        self.detectors = tuple(detectors) if llm is None else (*detectors, LLMDetector())
        self._library = source if isinstance(source, BaseLibrary) else None
        services = source.services if isinstance(source, BaseLibrary) else source
        self._services = services if llm is None else replace(services, llm=language_model(llm))
        if isinstance(fusion, Tuned) and services.embedder is not None:
            fusion.fusion_for(services.embedder.identity)  # said now, not at the first question

    @classmethod
    def over(
        cls,
        retrievers: Mapping[str, BaseRetriever] | Sequence[BaseRetriever],
        *,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        **options: Any,
    ) -> Self:
        """Return a retriever that fuses LlamaIndex retrievers by rank, weights obeyed, equal texts kept apart.

            CatenaRetriever.over({"words": bm25, "vectors": index.as_retriever()}, weights={"words": 0.3})

        No model is asked, the nodes given stay as they are, and one failing retriever does not fail the question.

        Args:
            retrievers: name of the route -> retriever, or a list of them; how many nodes each finds is set there.
            weights: by name, or in the same order; equal ones by default.
            options: as of `CatenaRetriever`, but for routes and fusion.
        """
        by_name, fusion = named(retrievers, weights)
        routes = {name: stored(name) for name in by_name}  # whatever its name: one called "dense" embeds itself
        return cls(Services(store=RetrieverStore(by_name)), routes=routes, fusion=fusion, **options)

    def ranking(self, query: QueryType, *, entities: Sequence[str] = ()) -> Ranking:
        """Return the core's ranking: chunks with provenance, what failed, and the names that stand nowhere.

        Args:
            query: a question, or a bundle of it.
            entities: names in the question, besides those that are found.
        """
        return run(self._step(bundle_of(query), entities), self._services)

    async def aranking(self, query: QueryType, *, entities: Sequence[str] = ()) -> Ranking:
        """As `ranking`, without blocking the event loop."""
        return await arun(self._step(bundle_of(query), entities), self._services)

    def _question(self, asked: QueryBundle) -> tuple[Step[Ranking], Services]:
        return boxed(self._step(asked, ())), self._services

    def _step(self, asked: QueryBundle, entities: Sequence[str]) -> Step[Ranking]:
        question, how = asked.query_str, None if self._library is None else self._library.preparation
        options: SearchOptions = {
            "k": self.similarity_top_k,
            "routes": self.routes,
            "where": self.where,
            "fusion": self.fusion,
            "depth": self.depth,
            "graph": self.graph,
            "on_route_error": self.on_route_error,
            "by_name": self.by_name,
            "entities": entities,
            "on_unknown": self.on_unknown,
            "limits": self.limits,
            "embedded_texts": asked.custom_embedding_strs,
        }
        if self.budget_tokens is not None:
            return read_step(
                question, options, budget_tokens=self.budget_tokens, reading=self.reading, views=self.views,
                detectors=self.detectors, preparation=how,
            )  # fmt: skip
        if self.views is not None:
            return views_step(question, self.views, k=self.similarity_top_k, where=self.where, preparation=how)
        return search_step(question, options, detectors=self.detectors)

    def _nodes(self, asked: QueryBundle, ranking: Ranking) -> list[NodeWithScore]:
        tell(ranking)
        told = [notice_node(asked.query_str, ranking)] if ranking.unknown and self.notice else []
        if self.expand_to is None or self._library is None:
            return [*told, *(to_node(hit, ranking) for hit in ranking.hits)]
        return [*told, *(section_node(segment, hit, ranking) for segment, hit in self._library.sections(ranking))]


class CatenaFigureRetriever(CoreRetriever[Ranking]):
    """Finds the figures of a library by their titles, the text around them, the words inside and their captions.

    Its nodes are `ImageNode`s with the file of the picture (`image_path`, in the library's own folder; where it
    cannot be written there, the picture itself). Documents have figures when they were indexed with
    `Preparation(engine="pypdfium2", figures=True)`. See `llama_index_catena.convert.figure_node` for the metadata.

    Args:
        library: an open library.
        similarity_top_k: how many figures, >= 0.
        where, filters: a further filter, e.g. `{"document_id": "manual.pdf"}`, or LlamaIndex's `MetadataFilters`.
        fusion: as `catena.retrieval.multi_route.retrieve` takes it.
        callback_manager: told of each retrieval, as by every LlamaIndex retriever.
        verbose: as LlamaIndex has it.
    """

    @checked_arguments
    def __init__(
        self,
        library: BaseLibrary,
        *,
        similarity_top_k: int = 4,
        where: Filters | None = None,
        filters: Filters | None = None,
        fusion: Fusion | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        check_source("library", library)
        self.similarity_top_k, self.where, self.fusion = similarity_top_k, where_of(where, filters), fusion
        self._library = library

    def _question(self, asked: QueryBundle) -> tuple[Step[Ranking], Services]:
        step = boxed(figures_step(asked.query_str, k=self.similarity_top_k, where=self.where, fusion=self.fusion))
        return step, self._library.services

    def _nodes(self, asked: QueryBundle, ranking: Ranking) -> list[NodeWithScore]:
        tell(ranking)
        found = self._library.figures(ranking)
        return [figure_node(hit, ranking, figure, self._library.figure_path(hit)) for figure, hit in found]


def tell(ranking: Ranking) -> None:
    """Write to the log, and tell as events, what failed and what stands nowhere."""
    tell_degraded(ranking.degraded, RouteDegradedEvent)
    for name in ranking.unknown:
        logging.getLogger(__name__).warning("%s", name)
        dispatcher.event(UnknownNameEvent(text=name.text, near=list(name.near)))


def check_source(name: str, given: object, *others: type) -> None:
    """Raise `ParameterError` where something is neither an open library nor one of the other kinds.

    Args:
        name: of the argument.
        given: for it.
        others: kinds that are taken, too.
    """
    if isinstance(given, (BaseLibrary, *others)):
        return
    kinds = ["an open Library", *(f"a {kind.__name__}" for kind in others)]
    shown: object = type(given).__name__
    if isinstance(given, str | PathLike):
        shown, kinds[0] = given, f"an open Library, as catena.Library.open({str(given)!r}) gives it"
    raise ParameterError(name, shown, ", or ".join(kinds))
