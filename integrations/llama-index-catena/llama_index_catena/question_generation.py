"""The searches that a question needs, as sub-questions of LlamaIndex's `SubQuestionQueryEngine`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.llms import LLM
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.schema import QueryBundle
from llama_index.core.tools.types import ToolMetadata

from catena.effects import Services, arun, run
from catena.model import ParameterError
from catena.retrieval import Queries, decompose, generate_queries
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.retrieval import RouteDegradedEvent
from llama_index_catena.services import LlamaIndexLLM, language_model

dispatcher = get_dispatcher(__name__)
_log = logging.getLogger(__name__)


class CatenaQuestionGenerator(BaseQuestionGenerator):
    """Takes a compound question apart, and asks each part of each tool: offline, or by any model.

        SubQuestionQueryEngine.from_defaults(query_engine_tools=tools, question_gen=CatenaQuestionGenerator())

    Where the model fails, the question is taken apart offline, which the log and a `RouteDegradedEvent` tell.

    Args:
        llm: any LlamaIndex language model; None takes questions apart by their small words (English and German).
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
        if self._llm is None:
            return _asked(tools, decompose(query.query_str, self.n))
        return self._told(tools, run(self._step(query), Services(llm=self._llm)))

    @dispatcher.span
    async def agenerate(self, tools: Sequence[ToolMetadata], query: QueryBundle) -> list[SubQuestion]:
        """As `generate`, without blocking the event loop."""
        if self._llm is None:
            return _asked(tools, decompose(query.query_str, self.n))
        return self._told(tools, await arun(self._step(query), Services(llm=self._llm)))

    def _step(self, query: QueryBundle) -> Any:
        return generate_queries(
            query.query_str, n=self.n, guidance=self.guidance, keep_question=False, on_error="degrade"
        )

    def _told(self, tools: Sequence[ToolMetadata], found: Queries) -> list[SubQuestion]:
        for part in found.degraded:
            _log.warning("%s: %s", part.what, part.why)
            dispatcher.event(RouteDegradedEvent(what=part.what, why=part.why))
        return _asked(tools, found.queries)

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """Leave the prompts as they are: they are the core's."""


def _asked(tools: Sequence[ToolMetadata], queries: Sequence[str]) -> list[SubQuestion]:
    return [SubQuestion(sub_question=query, tool_name=tool.get_name()) for query in queries for tool in tools]
