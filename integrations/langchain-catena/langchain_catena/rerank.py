"""Reranking with calibrated probabilities: any reranker in LangChain's slot, and LangChain's in the core's."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Self

from langchain_core.callbacks import Callbacks
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import Runnable, RunnableLambda, run_in_executor
from pydantic import Field, InstanceOf, PrivateAttr, model_validator

from catena.effects import Reranker, Services, Step, turn_if_local
from catena.model import Chunk, Hit, ParameterError, Ranking, ServiceError
from catena.segments import (
    ROUTE,
    Artefact,
    Calibration,
    OnFailure,
    calibration_given,
    chunk_text,
    headed_text,
    rerank,
)
from langchain_catena.base import CatenaBaseCompressor
from langchain_catena.convert import PROVENANCE, SCORE, is_unknown, original_of, to_chunk, to_document
from langchain_catena.places import PlaceKeys, ranked, to_linked
from langchain_catena.running import arun_within, run_within
from langchain_catena.services import identity_of

_PLACE = "catena_place"  # metadata key by which a text is known again in what a compressor returns
_LIMITS = ("top_n", "top_k")  # fields by which compressors return only the best

_log = logging.getLogger(__name__)


class LangChainReranker:
    """Any LangChain reranker as the core's: `CohereRerank`, `VoyageAIRerank`, `FlashrankRerank`, cross encoders.

    A text's score is the `relevance_score` that the compressor writes; of a compressor around a cross encoder it is
    what that encoder gives, as `CrossEncoderReranker` writes none. Every text is scored: where the compressor has a
    `top_n` or `top_k`, a copy of it is asked for all. One that leaves texts out all the same (a threshold), or writes
    no score, is refused, as a text without a score has no probability. A model in this process is called by one
    thread at a time.

    Args:
        compressor: or a cross encoder itself.
        identity: names model and version; by default made from class and model.
    """

    def __init__(self, compressor: BaseDocumentCompressor | BaseCrossEncoder, *, identity: str | None = None) -> None:
        if not isinstance(compressor, BaseDocumentCompressor | BaseCrossEncoder):
            raise ParameterError("compressor", type(compressor).__name__, "a document compressor or a cross encoder")
        inner = getattr(compressor, "model", None)
        self.rater = inner if isinstance(inner, BaseCrossEncoder) else compressor
        self.identity = identity or identity_of(self.rater)
        self._turn = turn_if_local(self.rater)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        if not texts:
            return []
        with self._turn:
            if isinstance(self.rater, BaseCrossEncoder):
                return [float(score) for score in self.rater.score([(query, text) for text in texts])]
            found = _for_all(self.rater, texts).compress_documents(_documents(texts), query)
        return self._scores(found, len(texts))

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        if not texts or isinstance(self.rater, BaseCrossEncoder) or not isinstance(self._turn, nullcontext):
            return await run_in_executor(None, self.score, query, texts)
        found = await _for_all(self.rater, texts).acompress_documents(_documents(texts), query)
        return self._scores(found, len(texts))

    def _scores(self, documents: Sequence[Document], count: int) -> list[float]:
        scores: dict[int, float] = {}
        for document in documents:
            place, score = document.metadata.get(_PLACE), document.metadata.get(SCORE)
            if not isinstance(place, int) or score is None:
                what = f"metadata[{SCORE!r}]" if isinstance(place, int) else "the metadata of the texts it was given"
                raise ServiceError(self.identity, f"returned documents without {what}: it cannot score texts")
            scores[place] = float(score)
        if len(scores) < count:
            what = f"scored {len(scores)} of {count} texts; switch its threshold and its limit off: top_n cuts later"
            raise ServiceError(self.identity, what)
        return [scores[place] for place in range(count)]


def _for_all(compressor: BaseDocumentCompressor, texts: Sequence[str]) -> BaseDocumentCompressor:
    """Return the compressor, or a copy that returns all texts where it would return the best of them."""
    wider = {name: len(texts) for name in _LIMITS if name in type(compressor).model_fields}
    return compressor.model_copy(update=wider) if wider else compressor


def _documents(texts: Sequence[str]) -> list[Document]:
    return [Document(page_content=text, metadata={_PLACE: place}) for place, text in enumerate(texts)]


def to_reranker(given: Reranker | BaseDocumentCompressor | BaseCrossEncoder) -> Reranker:
    """Return a reranker of either kind as the core's."""
    return LangChainReranker(given) if isinstance(given, BaseDocumentCompressor | BaseCrossEncoder) else given


def traced(reranker: Reranker) -> Reranker:
    """Return a reranker whose every call is a run in the trace of whoever asks, named by the reranker."""
    return _TracedAsync(reranker) if hasattr(reranker, "ascore") else _Traced(reranker)


class _Traced:
    def __init__(self, reranker: Reranker) -> None:
        self.reranker, self.identity = reranker, reranker.identity

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        return self._run().invoke({"query": query, "texts": list(texts)})

    def _run(self) -> Runnable[dict[str, Any], Sequence[float]]:
        return RunnableLambda(lambda given: self.reranker.score(given["query"], given["texts"]), name=self.identity)


class _TracedAsync(_Traced):
    async def ascore(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        return await self._run().ainvoke({"query": query, "texts": list(texts)})

    def _run(self) -> Runnable[dict[str, Any], Sequence[float]]:
        reranker: Any = self.reranker  # has `ascore`, which the port leaves open

        async def ascore(given: dict[str, Any]) -> Sequence[float]:
            scores: Sequence[float] = await reranker.ascore(given["query"], given["texts"])
            return scores

        def score(given: dict[str, Any]) -> Sequence[float]:
            return self.reranker.score(given["query"], given["texts"])

        return RunnableLambda(score, ascore, name=self.identity)


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

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        reranker = to_reranker(self.reranker)
        ranking = run_within(callbacks, self._step(documents, query), self._services(reranker))
        return self._documents(documents, ranking)

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        reranker = to_reranker(self.reranker)
        ranking = await arun_within(callbacks, self._step(documents, query), self._services(reranker))
        return self._documents(documents, ranking)

    def _step(self, documents: Sequence[Document], query: str) -> Step[Ranking]:
        ranking = ranked(documents, to_chunk)
        return rerank(
            query,
            ranking,
            calibration=self._rule(to_reranker(self.reranker)),
            text_of=_headed if self.headed else chunk_text,
            k=self.top_n,
            on_failure=self.on_failure,
        )

    def _documents(self, given: Sequence[Document], ranking: Ranking) -> list[Document]:
        for part in ranking.degraded:
            _log.warning("%s: %s", part.what, part.why)
        reranker = to_reranker(self.reranker)
        by = {"reranker": reranker.identity, "calibration": self._rule(reranker).identity}
        told = [document for document in given if is_unknown(document)]
        return [*told, *(_scored(hit, ranking, by) for hit in ranking.hits)]

    def _rule(self, reranker: Reranker) -> Calibration:
        rule: Calibration | Artefact = calibration_given(self.calibration)
        return rule.for_model(reranker.identity) if isinstance(rule, Artefact) else rule

    def _services(self, reranker: Reranker) -> Services:
        return replace(self.services or self._outside, reranker=traced(reranker))


def _headed(chunk: Chunk) -> str:
    """Return a document's text under title, headings and summaries, as its metadata say them."""
    original = original_of(chunk)
    if original is None:
        return chunk.text
    return headed_text(to_linked(original, PlaceKeys(), name=chunk.document_id).chunk)


def _scored(hit: Hit, ranking: Ranking, by: Mapping[str, str]) -> Document:
    document, original = to_document(hit, ranking), original_of(hit.chunk)
    before = original.metadata.get(PROVENANCE) if original is not None else None
    found = {**(before if isinstance(before, Mapping) else {}), **document.metadata[PROVENANCE]}
    raw = [way.score for way in hit.provenance if way.route == ROUTE]
    if raw:  # none where the reranker failed and the old order was kept
        found |= {"raw_score": raw[-1], **by}
    return document.model_copy(update={"metadata": {**document.metadata, PROVENANCE: found}})
