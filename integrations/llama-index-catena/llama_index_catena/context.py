"""What documents and sections are called and what they are about, as metadata of their nodes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, SerializeAsAny, field_serializer
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode

from catena.effects import Services, Step, arun, run
from catena.enrichment import ChunkContexts, ContextOptions, Guidance, context_of_chunks, versions
from catena.model import TITLE, Chunk, ParameterError
from catena.structure import DOCUMENT_SUMMARY, SECTION_SUMMARY, chunk_header
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.components import ExtractorComponent
from llama_index_catena.convert import joined_keys, to_chunk
from llama_index_catena.embedding import CatenaEmbedding
from llama_index_catena.services import ajournalled, journalled, model_services

SECTION_TITLE = "section_title"
"""Metadata key of a node: what the section that it stands in is called."""

CONTEXT_HEADER = "context"
"""Metadata key of a node: titles and summaries as one text, as `catena.structure.context_header.DSRAG` words it."""

SCHEMA_VERSION = 1  # grows when equal nodes and parameters give other metadata

_KEYS = (TITLE, DOCUMENT_SUMMARY, SECTION_TITLE, SECTION_SUMMARY)

dispatcher = get_dispatcher(__name__)
_log = logging.getLogger(__name__)


class ContextDegradedEvent(BaseEvent):
    """A title or a summary was asked for and not given: `what` names it, `why` says what happened."""

    what: str
    why: str

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "ContextDegradedEvent"


class CatenaContextExtractor(ExtractorComponent):
    """Writes into each node's metadata what its document and its section are called and what they are about.

    The keys are `title`, `document_summary`, `section_title`, `section_summary`. Nodes may be of any parser: a
    document is put together again from its nodes, given together and in reading order; its sections are those of
    `header_path`, else those of its text. Nodes given stay as they are, unless `in_place` says otherwise.

    Models that answer read what was written (`llm_text`). Embeddings do (`embed_text`) where `options.embed` says so;
    by default they do not, because headers outweigh the passages in the shipped embedding.

    Args:
        llm: any LlamaIndex language model; None makes titles and summaries offline, from headings and sentences.
        options: which titles and summaries, guidance, language, limits; `by` follows from `llm` where not given.
        embed_model: for offline summaries; by default the shipped one.
        show: what models read: the "keys" one by one, or one "header" under the key `context`, in dsRAG's words.
        journal: the file in which the model's replies are kept.
        fields: those of every LlamaIndex extractor; `num_workers` calls are in flight at once.

    Raises:
        ParameterError: the options ask for a model that is not given.
    """

    options: Any = Field(description="Which titles and summaries, and how.")
    llm: SerializeAsAny[LLM] | None = Field(default=None, description="Who writes titles and summaries.")
    embed_model: SerializeAsAny[BaseEmbedding] | None = Field(default=None, description="Finds central sentences.")
    show: Literal["keys", "header"] = Field(default="keys", description="What models read.")
    journal: str | None = Field(default=None, exclude=True, description="The file in which replies are kept.")
    prompt_version: str = Field(default="", description="Versions of the prompts; part of cache keys.")
    schema_version: int = Field(default=SCHEMA_VERSION, description="Version of the metadata; part of cache keys.")

    @checked_arguments
    def __init__(
        self,
        llm: LLM | None = None,
        *,
        options: ContextOptions | None = None,
        embed_model: BaseEmbedding | None = None,
        **fields: Any,
    ) -> None:
        how = _revived(options) or ContextOptions(by="offline" if llm is None else "llm")
        if how.asks_model and llm is None:
            raise ParameterError("llm", None, "given with ContextOptions(by='llm'); after from_dict, given again")
        usual = {"in_place": False, "disable_template_rewrite": True, "show_progress": False}
        own = {
            "options": how,
            "llm": llm,
            "embed_model": embed_model or (CatenaEmbedding() if how.by == "offline" else None),
            "prompt_version": " ".join(versions()) if how.asks_model else "",
            "schema_version": SCHEMA_VERSION,
        }
        super().__init__(**{**usual, **fields, **own})

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the extractor is serialised."""
        return "CatenaContextExtractor"

    @field_serializer("options")
    def _written(self, options: Any) -> dict[str, Any]:
        return asdict(options)

    def extract(self, nodes: Sequence[BaseNode]) -> list[dict[str, Any]]:
        """Return the titles and summaries of each node."""
        with journalled(self._services(), self.journal) as services:
            return self._metadata(nodes, run(self._step(nodes), services))

    @dispatcher.span
    async def aextract(self, nodes: Sequence[BaseNode]) -> list[dict[str, Any]]:
        """As `extract`, without blocking the event loop."""
        async with ajournalled(self._services(), self.journal) as services:
            return self._metadata(nodes, await arun(self._step(nodes), services))

    @dispatcher.span
    async def aprocess_nodes(
        self,
        nodes: Sequence[BaseNode],
        excluded_embed_metadata_keys: list[str] | None = None,
        excluded_llm_metadata_keys: list[str] | None = None,
        **kwargs: Any,
    ) -> list[BaseNode]:
        """Return the nodes with their metadata, of which models read what `show` and `options.embed` say."""
        told = await super().aprocess_nodes(nodes, excluded_embed_metadata_keys, excluded_llm_metadata_keys, **kwargs)
        unread = _KEYS if self.show == "header" else ()
        unembedded = unread if self.options.embed else (*_KEYS[1:], CONTEXT_HEADER, *unread)
        for node in told:
            node.excluded_llm_metadata_keys = joined_keys(node.excluded_llm_metadata_keys, unread)
            node.excluded_embed_metadata_keys = joined_keys(node.excluded_embed_metadata_keys, unembedded)
        return told

    def _services(self) -> Services:
        return model_services(self.llm, self.embed_model, max_concurrency=self.num_workers)

    def _step(self, nodes: Sequence[BaseNode]) -> Step[ChunkContexts]:
        return context_of_chunks([to_chunk(node) for node in nodes], self.options)

    def _metadata(self, nodes: Sequence[BaseNode], found: ChunkContexts) -> list[dict[str, Any]]:
        for part in found.degraded:
            _log.warning("%s: %s", part.what, part.why)
            dispatcher.event(ContextDegradedEvent(what=part.what, why=part.why))
        return [self._of_node(node, chunk) for node, chunk in zip(nodes, found.chunks, strict=True)]

    def _of_node(self, node: BaseNode, chunk: Chunk) -> dict[str, Any]:
        made = {
            key: chunk.metadata[key] for key in (TITLE, DOCUMENT_SUMMARY, SECTION_SUMMARY) if chunk.metadata.get(key)
        }
        if chunk.path:
            made[SECTION_TITLE] = chunk.path[-1]
        if self.show == "header" and (header := chunk_header(chunk)):
            made[CONTEXT_HEADER] = header
        return made


def _revived(written: Any) -> ContextOptions | None:
    """Return options as they are, or from their written form."""
    if written is None or isinstance(written, ContextOptions):
        return written
    if not isinstance(written, dict):
        raise ParameterError("options", written, "ContextOptions or None")
    return ContextOptions(**{**written, "guidance": Guidance(**written["guidance"])})
