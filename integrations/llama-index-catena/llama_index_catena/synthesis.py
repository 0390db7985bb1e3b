"""The core's answers as LlamaIndex response synthesizers: in any query engine, over any retriever."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core.base.response.schema import Response
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events.synthesis import SynthesizeEndEvent, SynthesizeStartEvent
from llama_index.core.llms import LLM
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType, TextNode

from catena.answering import AnswerOptions, ChainReading, ShortAnswer, chain_answer
from catena.effects import Services, Step, arun, ask, run
from llama_index_catena.answering import NO_ANSWER, answered, cited_response
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.graph.chains import chains_of
from llama_index_catena.segment_nodes import apart, unknown_in
from llama_index_catena.services import LlamaIndexLLM, llm_given

dispatcher = get_dispatcher(__name__)


class _CoreSynthesizer(BaseSynthesizer):
    """Has a step of the core write the response, and tells of start and end whatever happens."""

    def __init__(self, llm: LLM | None, callback_manager: CallbackManager | None) -> None:
        super().__init__(llm=llm_given(llm), callback_manager=callback_manager)
        self._services = Services(llm=LlamaIndexLLM(self._llm))

    @abstractmethod
    def _step(self, query: QueryBundle, nodes: Sequence[NodeWithScore]) -> Step[Response]: ...

    @dispatcher.span
    def synthesize(
        self,
        query: QueryType,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
        **response_kwargs: Any,
    ) -> Response:
        """Return an answer from nodes; further source nodes are added to the response as they are."""
        asked = _bundle(query)
        with self._told(asked) as told:
            told.append(_with_more(run(self._step(asked, nodes), self._services), additional_source_nodes))
        return told[0]

    @dispatcher.span
    async def asynthesize(
        self,
        query: QueryType,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
        **response_kwargs: Any,
    ) -> Response:
        """As `synthesize`, without blocking the event loop."""
        asked = _bundle(query)
        with self._told(asked) as told:
            told.append(_with_more(await arun(self._step(asked, nodes), self._services), additional_source_nodes))
        return told[0]

    def get_response(self, query_str: str, text_chunks: Sequence[str], **response_kwargs: Any) -> str:
        """Return the words of an answer from bare texts."""
        response = run(self._step(QueryBundle(query_str), _texts(text_chunks)), self._services)
        return response.response or NO_ANSWER

    async def aget_response(self, query_str: str, text_chunks: Sequence[str], **response_kwargs: Any) -> str:
        """As `get_response`, without blocking the event loop."""
        response = await arun(self._step(QueryBundle(query_str), _texts(text_chunks)), self._services)
        return response.response or NO_ANSWER

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """Leave the prompts as they are: they are the core's."""

    @contextmanager
    def _told(self, query: QueryBundle) -> Iterator[list[Response]]:
        told: list[Response] = []
        dispatcher.event(SynthesizeStartEvent(query=query))
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query.query_str}
        try:
            with self.callback_manager.event(CBEventType.SYNTHESIZE, payload=payload) as event:
                yield told
                event.on_end(payload={EventPayload.RESPONSE: told[0]})
        finally:
            dispatcher.event(SynthesizeEndEvent(query=query, response=told[0] if told else Response(response=None)))


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
        answer = yield from answered(query.query_str, nodes, self.options)
        return cited_response(answer, nodes, ())


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


def _bundle(query: QueryType) -> QueryBundle:
    return QueryBundle(query) if isinstance(query, str) else query


def _texts(chunks: Sequence[str]) -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(id_=f"text-{n}", text=text)) for n, text in enumerate(chunks, start=1)]


def _with_more(response: Response, more: Sequence[NodeWithScore] | None) -> Response:
    response.source_nodes = [*response.source_nodes, *(more or ())]
    return response
