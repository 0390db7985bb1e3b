"""Answer questions with looked-up quotes, as a LlamaIndex query engine, synthesizers and a question generator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import Response
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation.events.synthesis import SynthesizeEndEvent, SynthesizeStartEvent
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType, TextNode
from llama_index.core.tools.types import ToolMetadata

from catena import ParameterError, Segment, Services, arun, run
from catena.answering import AnswerOptions, ChainReading, SegmentAnswer, ShortAnswer, chain_answer
from catena.effects import Step, ask
from catena.library import BaseLibrary, answer_from_step
from catena.retrieval import Queries, decompose, generate_queries
from catena.segments import SegmentHit
from llama_index_catena.components import CorePrompts, Remade, bundle_of, checked_arguments, dispatcher, tell_degraded
from llama_index_catena.graph.retrieval import chains_of
from llama_index_catena.retrieval import RouteDegradedEvent
from llama_index_catena.segment_nodes import apart, passage_node, to_segment, unknown_in
from llama_index_catena.segments import CatenaSegmentRetriever
from llama_index_catena.services import LlamaIndexLLM, language_model, llm_given

NO_ANSWER = "Empty Response"
"""The answer of LlamaIndex's query engines where nothing was found."""


class _Answers:
    """Has a step of the core write the response, and tells of start and end whatever happens."""

    callback_manager: CallbackManager
    _services: Services

    def _step(self, query: QueryBundle, nodes: Sequence[NodeWithScore]) -> Step[Response]:
        raise NotImplementedError

    def _answered(
        self, query: QueryBundle, nodes: Sequence[NodeWithScore], more: Sequence[NodeWithScore] | None
    ) -> Response:
        with self._synthesis(query, more) as told:
            told.append(run(self._step(query, nodes), self._services))
        return told[0]

    async def _aanswered(
        self, query: QueryBundle, nodes: Sequence[NodeWithScore], more: Sequence[NodeWithScore] | None
    ) -> Response:
        with self._synthesis(query, more) as told:
            told.append(await arun(self._step(query, nodes), self._services))
        return told[0]

    @contextmanager
    def _synthesis(self, query: QueryBundle, more: Sequence[NodeWithScore] | None) -> Iterator[list[Response]]:
        dispatcher.event(SynthesizeStartEvent(query=query))
        told: list[Response] = []
        try:
            with _event(self.callback_manager, CBEventType.SYNTHESIZE, query, told):
                yield told
                told[0].source_nodes += more or ()
        finally:
            dispatcher.event(SynthesizeEndEvent(query=query, response=told[0] if told else Response(response=None)))


@contextmanager
def _event(
    callback_manager: CallbackManager, kind: CBEventType, query: QueryBundle, told: list[Response] | None = None
) -> Iterator[list[Response]]:
    """Tell callbacks of the start and the end of something that gives a response."""
    told = [] if told is None else told
    with callback_manager.event(kind, payload={EventPayload.QUERY_STR: query.query_str}) as event:
        yield told
        event.on_end(payload={EventPayload.RESPONSE: told[0]})


class CatenaQueryEngine(_Answers, Remade, BaseQueryEngine):
    """Answers from segments of any number of documents, and looks every quote of the answer up in its source.

    The response's `source_nodes` are the passages that the model read: node n - 1 is the answer's [n]. Its `metadata`
    say what holds, in values that can be written as JSON: `citations` (per quote its `number`, `quote`, `verified`,
    `state`, `citation`, `document_id`, `start_char_idx`, `end_char_idx`, `pages`, `page_labels`,
    `lines`, `boxes`: page, left, top, right and bottom of each printed line), `unsupported`
    (statements without a verified quote), `coverage` (the share of those with one), `figures` (those that it shows:
    `id`, `name`, `title`, `passage`, `document_id`),
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
        retriever: BaseRetriever | BaseLibrary,
        llm: LLM | LlamaIndexLLM | None = None,
        *,
        options: AnswerOptions | None = None,
        node_postprocessors: Sequence[BaseNodePostprocessor] = (),
        library: BaseLibrary | None = None,
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
        return self._answered(query_bundle, nodes, additional_source_nodes)

    @dispatcher.span
    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> Response:
        """As `synthesize`, without blocking the event loop."""
        return await self._aanswered(query_bundle, nodes, additional_source_nodes)

    def _step(self, query: QueryBundle, nodes: Sequence[NodeWithScore]) -> Step[Response]:
        return responded(query, nodes, self.options)

    @dispatcher.span
    def _query(self, query_bundle: QueryBundle) -> Response:
        with _event(self.callback_manager, CBEventType.QUERY, query_bundle) as told:
            told.append(self.synthesize(query_bundle, self.retrieve(query_bundle)))
        return told[0]

    @dispatcher.span
    async def _aquery(self, query_bundle: QueryBundle) -> Response:
        with _event(self.callback_manager, CBEventType.QUERY, query_bundle) as told:
            told.append(await self.asynthesize(query_bundle, await self.aretrieve(query_bundle)))
        return told[0]


def responded(query: QueryBundle, nodes: Sequence[NodeWithScore], options: AnswerOptions) -> Step[Response]:
    """Answer a question from nodes, as a step of the core; a store among the services gives the pages of quotes."""
    passages, _ = apart(nodes)
    answer = yield from answer_from_step(query.query_str, _segments(passages), options, nowhere=unknown_in(nodes))
    return cited_response(answer, nodes)


def _segments(passages: Sequence[NodeWithScore]) -> list[SegmentHit] | list[Segment]:
    """Return nodes as segments with their values; where one has no score, as bare ones, the best first."""
    if any(found.score is None for found in passages):
        return [to_segment(found.node) for found in passages]
    return [SegmentHit(to_segment(found.node), float(found.score or 0.0), ()) for found in passages]


def cited_response(made: SegmentAnswer, nodes: Sequence[NodeWithScore]) -> Response:
    """Return an answer as a response: node n - 1 is its [n], and the metadata say what holds."""
    unknown = unknown_in(nodes)
    by_id = {found.node.node_id: found for found in nodes}
    sources = [passage_node(passage, by_id) for passage in made.context.passages]
    notices = [] if sources else apart(nodes)[1]
    said = ". ".join(map(str, unknown)) + "." if unknown else NO_ANSWER
    return Response(
        response=said if made.answer is None else made.answer.text,
        source_nodes=[*sources, *notices],
        metadata={**made.as_json("start_char_idx", "end_char_idx"), "unknown": [str(name) for name in unknown]},
    )


class _CoreSynthesizer(_Answers, CorePrompts, BaseSynthesizer):
    def __init__(self, llm: LLM | None, callback_manager: CallbackManager | None) -> None:
        super().__init__(llm=llm_given(llm), callback_manager=callback_manager)
        self._services = Services(llm=LlamaIndexLLM(self._llm))

    @dispatcher.span
    def synthesize(
        self,
        query: QueryType,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
        **response_kwargs: Any,
    ) -> Response:
        """Return an answer from nodes; further source nodes are added to the response as they are."""
        return self._answered(bundle_of(query), nodes, additional_source_nodes)

    @dispatcher.span
    async def asynthesize(
        self,
        query: QueryType,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
        **response_kwargs: Any,
    ) -> Response:
        """As `synthesize`, without blocking the event loop."""
        return await self._aanswered(bundle_of(query), nodes, additional_source_nodes)

    def get_response(self, query_str: str, text_chunks: Sequence[str], **response_kwargs: Any) -> str:
        """Return the words of an answer from bare texts."""
        response = run(self._step(QueryBundle(query_str), _texts(text_chunks)), self._services)
        return response.response or NO_ANSWER

    async def aget_response(self, query_str: str, text_chunks: Sequence[str], **response_kwargs: Any) -> str:
        """As `get_response`, without blocking the event loop."""
        response = await arun(self._step(QueryBundle(query_str), _texts(text_chunks)), self._services)
        return response.response or NO_ANSWER


class CatenaSynthesizer(_CoreSynthesizer):
    """Writes answers whose every quote is looked up, as `CatenaQueryEngine` does, in a query engine of your own.

        RetrieverQueryEngine(retriever, CatenaSynthesizer(llm), node_postprocessors=[...])

    The response has the metadata and source nodes that `CatenaQueryEngine` describes. Answers are checked as a whole,
    and so not streamed.

    Args:
        llm: any LlamaIndex language model; by default that of `Settings`.
        options: what the model is given, and how much it may write.
        callback_manager: told of synthesis.
    """

    @checked_arguments
    def __init__(
        self,
        llm: LLM | None = None,
        *,
        options: AnswerOptions | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(llm, callback_manager)
        self.options = options or AnswerOptions()

    def _step(self, query: QueryBundle, nodes: Sequence[NodeWithScore]) -> Step[Response]:
        return responded(query, nodes, self.options)


class CatenaChainSynthesizer(_CoreSynthesizer):
    """Answers in a few words from chains of evidence, and from nothing else; or says that they do not answer it.

        RetrieverQueryEngine(CatenaGraphRetriever(...), CatenaChainSynthesizer(llm))

    Takes nodes of `CatenaGraphRetriever` and `CatenaChainPostprocessor`, chains first; any other node is a chain of
    itself alone. The response's metadata say whether it is `answerable`.

    Args:
        llm: any LlamaIndex language model; by default that of `Settings`.
        reading: order, budget and headers of the chains.
        max_tokens: of the reply.
        callback_manager: told of synthesis.
    """

    @checked_arguments
    def __init__(
        self,
        llm: LLM | None = None,
        *,
        reading: ChainReading | None = None,
        max_tokens: int = 512,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(llm, callback_manager)
        self.reading, self.max_tokens = reading or ChainReading(), max_tokens

    def _step(self, query: QueryBundle, nodes: Sequence[NodeWithScore]) -> Step[Response]:
        passages, notices = apart(nodes)
        if not passages:
            yield from ask([])
            said = ". ".join(map(str, unknown_in(nodes)))
            return Response(response=f"{said}." if said else NO_ANSWER, source_nodes=notices)
        answer: ShortAnswer = yield from chain_answer(
            query.query_str, chains_of(nodes), self.reading, max_tokens=self.max_tokens
        )
        return Response(response=answer.text, source_nodes=list(nodes), metadata={"answerable": answer.answerable})


def _texts(chunks: Sequence[str]) -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(id_=f"text-{n}", text=text)) for n, text in enumerate(chunks, start=1)]


class CatenaQuestionGenerator(CorePrompts, BaseQuestionGenerator):
    """Finds the searches that a question needs, and asks each of each tool: by any model, or offline.

        SubQuestionQueryEngine.from_defaults(query_engine_tools=tools, question_gen=CatenaQuestionGenerator())

    Where the model fails, the questions of the text are asked one by one; the log and a `RouteDegradedEvent` tell it.

    Args:
        llm: any LlamaIndex language model; None asks the questions of a text one by one.
        n: the most parts, >= 1.
        guidance: what the model should know about the collection.

    Raises:
        ParameterError: n is below 1.
    """

    @checked_arguments
    def __init__(self, llm: LLM | LlamaIndexLLM | None = None, *, n: int = 6, guidance: str = "") -> None:
        if n < 1:
            raise ParameterError("n", n, "an integer >= 1")
        self._llm = None if llm is None else language_model(llm)
        self.n, self.guidance = n, guidance

    @dispatcher.span
    def generate(self, tools: Sequence[ToolMetadata], query: QueryBundle) -> list[SubQuestion]:
        """Return each part of the question for each tool."""
        return self._asked(tools, run(self._step(query), Services(llm=self._llm)))

    @dispatcher.span
    async def agenerate(self, tools: Sequence[ToolMetadata], query: QueryBundle) -> list[SubQuestion]:
        """As `generate`, without blocking the event loop."""
        return self._asked(tools, await arun(self._step(query), Services(llm=self._llm)))

    def _step(self, query: QueryBundle) -> Step[Queries]:
        if self._llm is None:
            yield from ask([])
            return Queries(question=query.query_str, queries=decompose(query.query_str, self.n))
        return (
            yield from generate_queries(
                query.query_str, n=self.n, guidance=self.guidance, keep_question=False, on_error="degrade"
            )
        )

    def _asked(self, tools: Sequence[ToolMetadata], found: Queries) -> list[SubQuestion]:
        tell_degraded(found.degraded, RouteDegradedEvent)
        return [SubQuestion(sub_question=each, tool_name=tool.get_name()) for each in found.queries for tool in tools]
