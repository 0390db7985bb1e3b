"""Segments instead of chunks, out of what any retriever found and the user's own store holds beside it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal, Self

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from pydantic import Field, InstanceOf, model_validator

from catena.effects import Services, Step
from catena.library import segments_step
from catena.model import ParameterError, Ranking, Scale
from catena.segments import Calibration, Constant, Extraction, ExtractionParams, SegmentSearch, preset
from catena.structure import DSRAG, HeaderTemplate
from langchain_catena.base import CatenaBaseCompressor
from langchain_catena.convert import POSITION, is_unknown, segment_documents
from langchain_catena.neighbours import NeighbourKey, neighbour_handlers
from langchain_catena.places import Passages, PlaceKeys
from langchain_catena.running import arun_within, run_within

_log = logging.getLogger(__name__)


class CatenaSegmentExtractor(CatenaBaseCompressor):
    """Makes segments, runs of adjacent chunks that answer together, out of the chunks that a retriever found.

        splits = with_links(splitter.split_documents(documents))
        store.add_documents(splits)
        extractor = CatenaSegmentExtractor(neighbours=store, calibration=Constant())
        retriever = ContextualCompressionRetriever(
            base_compressor=DocumentCompressorPipeline(transformers=[CatenaRerank(...), extractor]),
            base_retriever=store.as_retriever(search_kwargs={"k": 50}),
        )

    Chunks may come from any splitter, overlapping or not. They must say whose they are (`document_id` or `source`)
    and where they stand: `position` among the chunks of their document, which `with_links` and
    `CatenaDocumentTransformer` write. Without `neighbours`, `start_index` does as well: chunks that touch are then
    adjacent, and what nobody found is a wall that no segment crosses.

    A segment's document has the text as `page_content`, and in its metadata what all its chunks say, and
    `document_id`, `start_index`, `end_index` (where the chunks know theirs), `first_page`, `last_page`, `first_line`,
    `last_line`, `first_position`, `last_position`, `heading_path`, `citation`, `header`, `value`; `relevance_score`
    is that value, as `metadata["catena"]["scale"]` says ("value"), beside `chunk_ids` and `queries`.

    Attributes:
        params: what a segment is worth and how long it may be; or the name of a preset, "balanced", "precision" or
            "find_all". None takes what `budget_tokens` allows, as `catena.segments.search.SegmentSearch` does.
        budget_tokens: of all segments together, headers counted; not looked at where `params` are given.
        calibration: what `relevance_score` says of relevance. Not needed where `CatenaRerank` made it a probability,
            and where there is none: then the order counts. `Constant()` believes the order of any score.
        neighbours: where chunks beside those found come from: a vector store (`get_by_ids`) or a docstore (`mget`)
            along links, a function `(document_id, first, end) -> documents` (a coroutine function as well), or a
            `Library`. At most the gaps that a segment could cross are fetched.
        neighbour_key: the key of a chunk in the store, from document id and position, in place of links.
        document_key: metadata key of the id of the whole document; "document_id", or else "source", where None.
        position_key: metadata key of the position.
        never_empty: return the best segment, and say so, where none is worth `params.minimum_value`.
        content: "headed" puts the header (title and summary of the document) before the text; the exact text is then
            in `metadata["raw_text"]`. Only where there are offsets, or a library, is it a slice of the document;
            where splitters took white space away between chunks, so much white space stands there again.
        header: its words, counted where a budget is in tokens; None for no header.
    """

    params: InstanceOf[ExtractionParams] | Literal["balanced", "precision", "find_all"] | None = None
    budget_tokens: int = Field(default=2_000, ge=1)
    calibration: InstanceOf[Calibration] | None = None
    neighbours: Any = Field(default=None, exclude=True)
    neighbour_key: NeighbourKey | None = Field(default=None, exclude=True)
    document_key: str | None = None
    position_key: str = POSITION
    never_empty: bool = True
    content: Literal["raw", "headed"] = "raw"
    header: InstanceOf[HeaderTemplate] | None = DSRAG

    @model_validator(mode="after")
    def _known_neighbours(self) -> Self:
        neighbour_handlers(self.neighbours, self._passages(), key=self.neighbour_key)
        return self

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        passages = self._passages()
        step = self._step(documents, query, passages)
        return self._documents(documents, run_within(callbacks, step, self._services(passages)))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        passages = self._passages()
        step = self._step(documents, query, passages)
        return self._documents(documents, await arun_within(callbacks, step, self._services(passages)))

    def _step(self, documents: Sequence[Document], query: str, passages: Passages) -> Step[Extraction]:
        params = preset(self.params) if isinstance(self.params, str) else self.params

        def given(_: str) -> Step[Ranking]:
            yield from ()  # nothing is asked
            return self._checked(passages.ranking(documents))

        how = SegmentSearch(
            extraction=params,
            budget_tokens=self.budget_tokens,
            never_empty=self.never_empty,
            header=self.header,
            calibration=Constant() if self.calibration is None else self.calibration,
        )
        return segments_step(query, how, ranked=given, place=passages.place)

    def _checked(self, ranking: Ranking) -> Ranking:
        """Return a ranking of which it is known what its scores say of relevance."""
        if self.calibration is None and ranking.scale not in (Scale.PROBABILITY, Scale.RANK):
            allowed = (
                "given, because the documents' relevance_score is no probability: a rule for such scores, as COHERE "
                "or a fitted one, or Constant() to believe their order alone; or let CatenaRerank make it one"
            )
            raise ParameterError("calibration", None, allowed)
        return ranking

    def _passages(self) -> Passages:
        keys = PlaceKeys(document=self.document_key, position=self.position_key)
        return Passages(keys, positions_needed=self.neighbours is not None)

    def _services(self, passages: Passages) -> Services:
        return Services(handlers=neighbour_handlers(self.neighbours, passages, key=self.neighbour_key))

    def _documents(self, given: Sequence[Document], extraction: Extraction) -> list[Document]:
        for part in extraction.degraded:
            _log.warning("%s: %s", part.what, part.why)
        told = [document for document in given if is_unknown(document)]
        return [*told, *segment_documents(extraction, content=self.content, header=self.header)]
