"""Rerankers both ways: LlamaIndex's as the core's, and the core's, calibrated, as a node postprocessor."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from llama_index.core.bridge.pydantic import Field, PrivateAttr, field_serializer
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from catena.effects import Reranker, Services, Step, arun, run, service_error, turn_if_local
from catena.model import Chunk, InvalidReplyError, ParameterError, Ranking
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
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.components import Component, revived_options, written_options
from llama_index_catena.convert import to_node
from llama_index_catena.retrieval import tell
from llama_index_catena.segment_nodes import apart, carried_node, ranking_of

dispatcher = get_dispatcher(__name__)

CALIBRATIONS: dict[str, Any] = {
    rule.__name__: rule for rule in (BetaCDF, BetaCalibration, Composed, Constant, Identity, Linear, Logistic)
}
"""The rules that are read again from what was written of them, by name."""


class LlamaIndexReranker:
    """A LlamaIndex postprocessor that scores nodes, as the core's reranker: `CohereRerank`, `LLMRerank`, ….

    A model in this process is called by one thread at a time.

    Args:
        postprocessor: any; one that has a `top_n` is asked for all of the texts.
        left_out: the raw score of a text that it does not return, as `LLMRerank` does with what it finds irrelevant.
        identity: name of the model, to which a fitted calibration belongs; by default class and model.
    """

    def __init__(
        self, postprocessor: BaseNodePostprocessor, *, left_out: float = 0.0, identity: str | None = None
    ) -> None:
        if not isinstance(postprocessor, BaseNodePostprocessor):
            raise ParameterError("postprocessor", type(postprocessor).__name__, "a LlamaIndex node postprocessor")
        self._postprocessor, self._left_out = postprocessor, left_out
        self._turn = turn_if_local(postprocessor)
        self.identity = identity or f"llama-index:{postprocessor.class_name()}{_model_of(postprocessor)}"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one raw score per text, in order."""
        nodes = _nodes(texts)
        try:
            with self._turn:
                found = self._for(len(texts)).postprocess_nodes(nodes, query_bundle=QueryBundle(query))
        except Exception as error:
            raise service_error(error, self.identity, holder=self._postprocessor) from None
        return self._scores(found, len(texts))

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        """As `score`, without blocking the event loop."""
        if not isinstance(self._turn, nullcontext):
            return await asyncio.to_thread(self.score, query, texts)
        nodes = _nodes(texts)
        try:
            found = await self._for(len(texts)).apostprocess_nodes(nodes, query_bundle=QueryBundle(query))
        except Exception as error:
            raise service_error(error, self.identity, holder=self._postprocessor) from None
        return self._scores(found, len(texts))

    def _for(self, count: int) -> BaseNodePostprocessor:
        """Return the postprocessor as it scores so many texts; the user's own stays as it is."""
        if "top_n" not in type(self._postprocessor).model_fields:
            return self._postprocessor
        return self._postprocessor.model_copy(update={"top_n": count})

    def _scores(self, found: Sequence[NodeWithScore], count: int) -> list[float]:
        scores = [self._left_out] * count
        for each in found:
            if each.score is None or not each.node.node_id.isdecimal() or int(each.node.node_id) >= count:
                raise InvalidReplyError(self.identity, "a node without a score, or one that was not given")
            scores[int(each.node.node_id)] = float(each.score)
        return scores


def _nodes(texts: Sequence[str]) -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(id_=str(place), text=text)) for place, text in enumerate(texts)]


def _model_of(postprocessor: BaseNodePostprocessor) -> str:
    named = getattr(postprocessor, "model", None) or getattr(postprocessor, "model_name", None)
    if not isinstance(named, str):
        named = getattr(getattr(getattr(postprocessor, "llm", None), "metadata", None), "model_name", None)
    return f"/{named}" if isinstance(named, str) else ""


def core_reranker(reranker: Any) -> Reranker:
    """Return a reranker as the core's; a LlamaIndex postprocessor becomes one.

    Raises:
        ParameterError: it is neither.
    """
    if isinstance(reranker, BaseNodePostprocessor):
        return LlamaIndexReranker(reranker)
    if not (hasattr(reranker, "score") or hasattr(reranker, "ascore")):
        raise ParameterError("reranker", type(reranker).__name__, "a Catena reranker or a LlamaIndex postprocessor")
    return reranker  # type: ignore[no-any-return]


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


class CatenaRerank(Component, BaseNodePostprocessor):
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

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the postprocessor is serialised."""
        return "CatenaRerank"

    @field_serializer("reranker")
    def _identity(self, value: Any) -> str:
        return str(getattr(value, "identity", type(value).__name__))

    @field_serializer("calibration")
    def _rule(self, value: Any) -> Any:
        return written_options(value, CALIBRATIONS)

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = required(query_bundle)
        with self._told(query, nodes) as returned:
            passages, notices = apart(nodes)
            found = ranking_of(passages)
            ranking = run(self._step(query, found), self._services())
            returned += [*_scored(ranking, found), *notices]
        return returned

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = required(query_bundle)
        with self._told(query, nodes) as returned:
            passages, notices = apart(nodes)
            found = ranking_of(passages)
            ranking = await arun(self._step(query, found), self._services())
            returned += [*_scored(ranking, found), *notices]
        return returned

    def _services(self) -> Services:
        return replace(self._outside, reranker=self.reranker)

    def _step(self, query: str, found: Ranking) -> Step[Ranking]:
        return rerank(
            query,
            found,
            calibration=self.calibration,
            text_of=self._text,
            k=self.top_n,
            on_failure=self.on_failure,
        )

    def _text(self, chunk: Chunk) -> str:
        node = carried_node(chunk)
        return chunk.text if node is None else node.get_content(metadata_mode=self.metadata_mode)

    def _told(self, query: str, nodes: Sequence[NodeWithScore]) -> AbstractContextManager[list[NodeWithScore]]:
        count = len(nodes) if self.top_n is None else self.top_n
        return reranking_told(self.callback_manager, self.reranker.identity, query, nodes, count)


@contextmanager
def reranking_told(
    callback_manager: CallbackManager, model: str, query: str, nodes: Sequence[NodeWithScore], top_n: int
) -> Iterator[list[NodeWithScore]]:
    """Tell of the start, and whatever happens of the end, with what is returned; a failure returns nothing."""
    returned: list[NodeWithScore] = []
    dispatcher.event(ReRankStartEvent(query=query, nodes=list(nodes), top_n=top_n, model_name=model))
    payload: dict[str, Any] = {
        EventPayload.NODES: list(nodes),
        EventPayload.MODEL_NAME: model,
        EventPayload.QUERY_STR: query,
        EventPayload.TOP_K: top_n,
    }
    try:
        with callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            yield returned
            event.on_end(payload={EventPayload.NODES: returned})
    finally:
        dispatcher.event(ReRankEndEvent(nodes=returned))


def required(query_bundle: QueryBundle | None, who: str = "a reranker") -> str:
    """Return the query of a bundle.

    Raises:
        ParameterError: there is none; it is a ValueError too, as LlamaIndex's own rerankers raise.
    """
    if query_bundle is None:
        raise ParameterError("query_bundle", None, f"given: {who} needs the question")
    return query_bundle.query_str


def _scored(ranking: Ranking, found: Ranking) -> list[NodeWithScore]:
    """Return the nodes with their probabilities, and tell what failed just now."""
    tell(
        replace(ranking, degraded=tuple(part for part in ranking.degraded if part not in found.degraded), unknown=())
    )
    return [to_node(hit, ranking) for hit in ranking.hits]
