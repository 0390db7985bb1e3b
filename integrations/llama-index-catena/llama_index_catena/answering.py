"""The whole way from a question to a cited answer, as a LlamaIndex query engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import Response
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events.synthesis import SynthesizeEndEvent, SynthesizeStartEvent
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from catena.answering import AnswerOptions, Citation, CitedAnswer, Conflict, SegmentAnswer
from catena.effects import Services, Step, arun, run
from catena.library import answer_from_step
from catena.model import Segment
from catena.segments import SegmentHit
from llama_index_catena.arguments import Remade, checked_arguments
from llama_index_catena.libraries import AnyLibrary
from llama_index_catena.segment_nodes import apart, passage_node, to_segment, unknown_in
from llama_index_catena.segments import CatenaSegmentRetriever
from llama_index_catena.services import LlamaIndexLLM, language_model

dispatcher = get_dispatcher(__name__)

NO_ANSWER = "Empty Response"
"""What LlamaIndex's query engines say where nothing was found."""


class CatenaQueryEngine(Remade, BaseQueryEngine):
    """Answers from segments of any number of documents, and looks every quote of the answer up in its source.

    The response's `source_nodes` are the passages that the model read: node n - 1 is the answer's [n]. Its `metadata`
    say what holds, in values that can be written as JSON: `citations` (per quote its `number`, `quote`, `verified`,
    `state`, `citation`, `document_id`, `start_char_idx`, `end_char_idx`, `pages`, `page_labels`,
    `lines`), `unsupported` (statements without a verified quote), `coverage` (the share of those with one),
    `conflicts` (fields for which passages print different values) and `unknown` (names that stand nowhere). Where
    there is no passage no model is asked, and the answer says which names stand nowhere, or
    "Empty Response" as LlamaIndex does.

    Args:
        retriever: `CatenaSegmentRetriever`, or any other; of a library, one that finds its segments.
        llm: any LlamaIndex language model; by default that of `Settings`.
        options: what the model is given, and how much it may write.
        node_postprocessors: applied to what the retriever found, in order, e.g. `CatenaRerank` and
            `CatenaSegmentPostprocessor`.
        library: gives the documents, so that the pages of a quote are its own; by default that of the retriever.
        callback_manager: told of queries and synthesis.
    """

    @checked_arguments
    def __init__(
        self,
        retriever: BaseRetriever | AnyLibrary,
        llm: LLM | LlamaIndexLLM | None = None,
        *,
        options: AnswerOptions | None = None,
        node_postprocessors: Sequence[BaseNodePostprocessor] = (),
        library: AnyLibrary | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        if not isinstance(retriever, BaseRetriever):
            retriever = CatenaSegmentRetriever(retriever, callback_manager=callback_manager)
        super().__init__(callback_manager=callback_manager or retriever.callback_manager)
        self.options = options or AnswerOptions()
        self.retriever, self.node_postprocessors = retriever, tuple(node_postprocessors)
        own = retriever.library if isinstance(retriever, CatenaSegmentRetriever) else None
        holder = own if library is None else library
        self._services = Services(llm=language_model(llm), store=None if holder is None else holder.store)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return what the answer will be made of."""
        nodes = self.retriever.retrieve(query_bundle)
        for postprocessor in self.node_postprocessors:
            nodes = postprocessor.postprocess_nodes(nodes, query_bundle=query_bundle)
        return nodes

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """As `retrieve`, without blocking the event loop."""
        nodes = await self.retriever.aretrieve(query_bundle)
        for postprocessor in self.node_postprocessors:
            nodes = await postprocessor.apostprocess_nodes(nodes, query_bundle=query_bundle)
        return nodes

    @dispatcher.span
    def synthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> Response:
        """Return an answer from nodes; further source nodes are added to the response as they are."""
        with self._synthesis(query_bundle) as told:
            answer = run(answered(query_bundle.query_str, nodes, self.options), self._services)
            response = cited_response(answer, nodes, additional_source_nodes or ())
            told.append(response)
        return response

    @dispatcher.span
    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> Response:
        """As `synthesize`, without blocking the event loop."""
        with self._synthesis(query_bundle) as told:
            answer = await arun(answered(query_bundle.query_str, nodes, self.options), self._services)
            response = cited_response(answer, nodes, additional_source_nodes or ())
            told.append(response)
        return response

    @dispatcher.span
    def _query(self, query_bundle: QueryBundle) -> Response:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            response = self.synthesize(query_bundle, self.retrieve(query_bundle))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    @dispatcher.span
    async def _aquery(self, query_bundle: QueryBundle) -> Response:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            response = await self.asynthesize(query_bundle, await self.aretrieve(query_bundle))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    @contextmanager
    def _synthesis(self, query_bundle: QueryBundle) -> Iterator[list[Response]]:
        """Tell of the start and the end of an answer, and of what it is."""
        dispatcher.event(SynthesizeStartEvent(query=query_bundle))
        told: list[Response] = []
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        try:
            with self.callback_manager.event(CBEventType.SYNTHESIZE, payload=payload) as event:
                yield told
                event.on_end(payload={EventPayload.RESPONSE: told[-1]})
        finally:
            dispatcher.event(
                SynthesizeEndEvent(query=query_bundle, response=told[-1] if told else Response(response=None))
            )


def answered(question: str, nodes: Sequence[NodeWithScore], options: AnswerOptions) -> Step[SegmentAnswer]:
    """Answer a question from nodes, as a step of the core; a store among the services gives the pages of quotes."""
    passages, _ = apart(nodes)
    return answer_from_step(question, _segments(passages), options, nowhere=unknown_in(nodes))


def _segments(passages: Sequence[NodeWithScore]) -> list[SegmentHit] | list[Segment]:
    """Return nodes as segments with their values; where one has no score, as bare ones, the best first."""
    if any(found.score is None for found in passages):
        return [to_segment(found.node) for found in passages]
    return [SegmentHit(to_segment(found.node), float(found.score or 0.0), ()) for found in passages]


def cited_response(made: SegmentAnswer, nodes: Sequence[NodeWithScore], more: Sequence[NodeWithScore]) -> Response:
    """Return an answer as a response: node n - 1 is its [n], and the metadata say what holds."""
    unknown = unknown_in(nodes)
    by_id = {found.node.node_id: found for found in nodes}
    sources = [passage_node(passage, by_id) for passage in made.context.passages]
    notices = [] if sources else apart(nodes)[1]
    said = ". ".join(map(str, unknown)) + "." if unknown else NO_ANSWER
    return Response(
        response=said if made.answer is None else made.answer.text,
        source_nodes=[*sources, *notices, *more],
        metadata={
            **_checked(made.answer),
            "conflicts": [_conflict(each) for each in made.conflicts],
            "unknown": [str(name) for name in unknown],
        },
    )


def _conflict(conflict: Conflict) -> dict[str, Any]:
    return {
        "label": conflict.label,
        "note": conflict.note,
        "kind": conflict.kind,
        "expected": conflict.expected,
        "passages": list(conflict.numbers),
    }


def _checked(answer: CitedAnswer | None) -> dict[str, Any]:
    """Return what holds of an answer, in values that can be written as JSON."""
    return {
        "citations": [] if answer is None else [_citation(each) for each in answer.citations],
        "unsupported": [] if answer is None else [statement.text for statement in answer.unsupported],
        "coverage": 0.0 if answer is None else answer.coverage,
    }


def _citation(citation: Citation) -> dict[str, Any]:
    quote = citation.quote
    return {
        "number": quote.number,
        "quote": quote.text,
        "verified": quote.verified,
        "state": quote.state,
        "citation": citation.source,
        "document_id": quote.document_id,
        "start_char_idx": quote.start,
        "end_char_idx": quote.end,
        "pages": None if quote.pages is None else list(quote.pages),
        "page_labels": None if quote.page_labels is None else list(quote.page_labels),
        "lines": None if quote.lines is None else list(quote.lines),
    }
