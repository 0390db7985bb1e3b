"""Order nodes by any reranker, and give each the probability that it is relevant."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from llama_index.core.bridge.pydantic import Field, PrivateAttr, field_serializer
from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from catena import Chunk, ParameterError, Ranking, Services, arun, run
from catena.effects import Step
from catena.segments import (
    Artefact,
    BetaCalibration,
    BetaCDF,
    Calibration,
    Composed,
    Constant,
    Identity,
    Linear,
    Logistic,
    OnFailure,
    calibration_given,
    rerank,
)
from llama_index_catena.components import (
    Component,
    checked_arguments,
    dispatcher,
    revived_options,
    tell_degraded,
    written_options,
)
from llama_index_catena.convert import to_node
from llama_index_catena.retrieval import RouteDegradedEvent
from llama_index_catena.segment_nodes import apart, carried_node, ranking_of
from llama_index_catena.services import core_reranker

CALIBRATIONS: dict[str, Any] = {
    rule.__name__: rule for rule in (BetaCDF, BetaCalibration, Composed, Constant, Identity, Linear, Logistic)
}
"""The rules that are read again from what was written of them, by name."""


def rule_for(calibration: Any, model: str) -> Calibration:
    """Return a calibration as a rule; a saved fit only where it is of this model.

    Raises:
        ParameterError: it is neither.
        CalibrationError: it was fitted to scores of another model.
    """
    if isinstance(calibration, Artefact):
        return calibration.for_model(model)
    if not callable(calibration):
        raise ParameterError("calibration", calibration, "a rule or a saved fit; after from_dict, given again")
    return calibration  # type: ignore[no-any-return]


class CorePostprocessor(Component, BaseNodePostprocessor):
    """A node postprocessor that has a step of the core make something of the passages; notices stay, last."""

    _who: ClassVar[str] = ""  # needs the question, in words

    def _question(self, passages: Sequence[NodeWithScore], asked: QueryBundle) -> tuple[Step[Any], Services]:
        """Return the step over the passages found, and the services that it asks."""
        raise NotImplementedError

    def _nodes(self, passages: Sequence[NodeWithScore], found: Any) -> list[NodeWithScore]:
        """Return what the step found as nodes, and tell what failed just now."""
        raise NotImplementedError

    def _named(self, count: int) -> tuple[str, int]:
        """Return the name that events have, and how many of so many nodes are returned at most."""
        raise NotImplementedError

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        with self._told(nodes, query_bundle) as returned:
            passages, notices = apart(nodes)
            found = run(*self._question(passages, query_bundle or QueryBundle("")))
            returned += [*self._nodes(passages, found), *notices]
        return returned

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        with self._told(nodes, query_bundle) as returned:
            passages, notices = apart(nodes)  # the step reads what the nodes say of themselves
            step, services = await asyncio.to_thread(self._question, passages, query_bundle or QueryBundle(""))
            returned += [*self._nodes(passages, await arun(step, services)), *notices]
        return returned

    @contextmanager
    def _told(self, nodes: Sequence[NodeWithScore], asked: QueryBundle | None) -> Iterator[list[NodeWithScore]]:
        """Tell of the start, and whatever happens of the end, with what is returned; a failure returns nothing.

        Raises:
            ParameterError: there is no question where one is needed; a ValueError, as LlamaIndex's rerankers raise.
        """
        if asked is None and self._who:
            raise ParameterError("query_bundle", None, f"given: {self._who} needs the question")
        query = "" if asked is None else asked.query_str
        model, top_n = self._named(len(nodes))
        returned: list[NodeWithScore] = []
        dispatcher.event(ReRankStartEvent(query=query, nodes=list(nodes), top_n=top_n, model_name=model))
        payload: dict[str, Any] = {EventPayload.NODES: list(nodes), EventPayload.MODEL_NAME: model}
        payload |= {EventPayload.QUERY_STR: query, EventPayload.TOP_K: top_n}
        try:
            with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
                yield returned
                event.on_end(payload={EventPayload.NODES: returned})
        finally:
            dispatcher.event(ReRankEndEvent(nodes=returned))


class CatenaRerank(CorePostprocessor):
    """Orders nodes by any reranker, and gives each the probability that it is relevant as its score.

    What `CatenaSegmentPostprocessor` takes. Nodes given stay as they are; those returned are copies that say in their
    provenance which rank and raw score they got. Notices stay last.

    Args:
        reranker: the core's (`CohereReranker`, `VoyageReranker`, …) or any LlamaIndex postprocessor that scores.
        calibration: from its raw scores to probabilities: a preset (`COHERE`, `VOYAGE`), a fitted rule, `Constant()`
            to believe the order alone, or a saved fit, which is refused if it was fitted to another reranker.
        top_n: most nodes to return; None returns all.
        metadata_mode: with which of their metadata nodes are read.
        on_failure: "raise", or "rank" to go on in the old order, which the log and a `RouteDegradedEvent` tell.
        fields: those of every LlamaIndex postprocessor. With `from_dict`, the reranker is given again, and so is
            a rule of your own.

    Raises:
        ParameterError: the reranker or the calibration is none.
        CalibrationError: the calibration was fitted to another reranker.
    """

    reranker: Any = Field(description="Who scores question and text together.")
    calibration: Any = Field(description="From raw scores to probabilities.")
    top_n: int | None = Field(default=None, ge=0, description="Most nodes to return.")
    metadata_mode: MetadataMode = Field(default=MetadataMode.EMBED, description="With which metadata nodes are read.")
    on_failure: OnFailure = Field(default="raise", description="What a failing reranker means.")
    _outside: Services = PrivateAttr(default_factory=Services)  # one, so that a dead reranker is remembered

    @checked_arguments
    def __init__(self, reranker: Any, *, calibration: Calibration | Artefact | None = None, **fields: Any) -> None:
        if isinstance(reranker, str):
            raise ParameterError("reranker", reranker, "given again: from_dict(data, reranker=...)")
        own = core_reranker(reranker)
        rule = rule_for(revived_options(calibration_given(calibration), CALIBRATIONS), own.identity)
        super().__init__(**{**fields, "reranker": own, "calibration": rule})

    @field_serializer("reranker")
    def _identity(self, value: Any) -> str:
        return str(getattr(value, "identity", type(value).__name__))

    @field_serializer("calibration")
    def _rule(self, value: Any) -> Any:
        return written_options(value, CALIBRATIONS)

    _who: ClassVar[str] = "a reranker"

    def _question(self, passages: Sequence[NodeWithScore], asked: QueryBundle) -> tuple[Step[Ranking], Services]:
        ranking, rule, k = ranking_of(passages), self.calibration, self.top_n
        step = rerank(asked.query_str, ranking, calibration=rule, text_of=self._text, k=k, on_failure=self.on_failure)
        return step, replace(self._outside, reranker=self.reranker)

    def _nodes(self, passages: Sequence[NodeWithScore], found: Ranking) -> list[NodeWithScore]:
        known = ranking_of(passages).degraded
        tell_degraded((part for part in found.degraded if part not in known), RouteDegradedEvent)
        return [to_node(hit, found) for hit in found.hits]

    def _named(self, count: int) -> tuple[str, int]:
        return self.reranker.identity, count if self.top_n is None else self.top_n

    def _text(self, chunk: Chunk) -> str:
        node = carried_node(chunk)
        return chunk.text if node is None else node.get_content(metadata_mode=self.metadata_mode)
