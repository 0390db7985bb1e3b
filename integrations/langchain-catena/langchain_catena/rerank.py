"""Rerank documents by calibrated probabilities, with any reranker of the core or of LangChain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import Field, InstanceOf, PrivateAttr, model_validator

from catena import Chunk, Hit, Ranking, Services
from catena.effects import Reranker, Step
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
from langchain_catena.base import CatenaBaseCompressor, warn
from langchain_catena.convert import PROVENANCE, original_of, to_chunk, to_document, told_of
from langchain_catena.places import PlaceKeys, ranked, to_linked
from langchain_catena.services import to_reranker, traced


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
        step = rerank(
            query,
            ranked(documents, to_chunk),
            calibration=self._rule(reranker),
            text_of=_headed if self.headed else chunk_text,
            k=self.top_n,
            on_failure=self.on_failure,
        )
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
    found = {**({} if original is None else told_of(original)), **document.metadata[PROVENANCE]}
    raw = [way.score for way in hit.provenance if way.route == ROUTE]
    if raw:  # none where the reranker failed and the old order was kept
        found |= {"raw_score": raw[-1], **by}
    return document.model_copy(update={"metadata": {**document.metadata, PROVENANCE: found}})
