"""Content-aware chunks as LlamaIndex nodes: cut by the core, exact by construction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, SerializeAsAny, field_serializer, field_validator
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.llms import LLM
from llama_index.core.node_parser import NodeParser
from llama_index.core.node_parser.node_utils import default_id_func
from llama_index.core.schema import (
    BaseNode,
    Document,
    MetadataMode,
    NodeRelationship,
    TextNode,
)
from llama_index.core.utils import get_tqdm_iterable

from catena import model, prompts
from catena.effects import arun, run
from catena.model import ParameterError
from catena.structure import (
    DEFAULT_OPTIONS,
    SEPARATOR,
    ChunkOptions,
    EmbeddingOptions,
    Segmentation,
    SegmentOptions,
    mark_generated,
    outline,
    searchable,
    table_views,
    titles_above,
)
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.chunk_nodes import chunk_metadata_of, linked, origin_of, presented
from llama_index_catena.components import Component
from llama_index_catena.dividing import (
    By,
    Chunking,
    chunked,
    divided,
    revived,
    revived_chunking,
    sections_of,
    written,
)
from llama_index_catena.documents import to_core_document
from llama_index_catena.embedding import CatenaEmbedding
from llama_index_catena.services import ajournalled, journalled, model_services

dispatcher = get_dispatcher(__name__)

SCHEMA_VERSION = 3  # grows when equal inputs and parameters give other nodes

DEFINITION = "definition"
"""Metadata key of what a table is embedded by: description, column names and row labels, without its data."""


class TableNode(TextNode):
    """A table that is embedded by its definition, below the metadata, while models read it whole.

    Stores and caches that write nodes as JSON give back a plain TextNode with the definition in its metadata and
    its vector as it was: what is then embedded anew is embedded whole.
    """

    def get_content(self, metadata_mode: MetadataMode = MetadataMode.NONE) -> str:
        """Return the table whole, or for an embedding its definition; with the metadata of this mode."""
        definition = self.metadata.get(DEFINITION)
        if metadata_mode != MetadataMode.EMBED or not definition:
            return super().get_content(metadata_mode)
        return self.text_template.format(
            content=definition, metadata_str=self.get_metadata_str(mode=metadata_mode).strip()
        ).strip()


class CatenaNodeParser(Component, NodeParser):
    """Cuts documents into chunks that follow their headings, tables and figures.

    A node's text is the exact slice `[start_char_idx, end_char_idx)` of its source. The titles above it stand in
    the metadata `headings`, which models read with the text; see `llama_index_catena.convert` for the other keys.
    Node ids are derived from the id of the parsed document and the slice, so equal documents of equal ids give
    equal nodes; an `id_func` of your own is called instead, but LlamaIndex's default (random ids) never is.

    Documents of one page each are parsed page by page; `documents.join_pages` makes one document per file of them.

    Args:
        max_tokens: hard cap of a chunk, in the core's tokens, >= 1.
        min_tokens: shorter text joins a neighbour in its section; 0 joins nothing.
        chunks: what a chunk is, in place of these two: a short piece (`ChunkOptions`), a whole smallest division, as
            in MC-indexing (`SectionChunkOptions`), or a fixed length (`FixedLength`). What is longer than a vector
            can say is found by its views: see `CatenaViewExtractor`.
        media_type: how to read the texts; None goes by the document and its metadata, see
            `catena.text.loaded.media_type_of`: what a reader made of a PDF, a web page or a text file is plain.
        segmentation: divide documents by meaning instead of by printed headings: `SegmentOptions` asks `llm`,
            `EmbeddingOptions` asks `embed_model`; with `under="headings"` they divide what is long below headings.
            What a model fails at is divided at headings and paragraphs, told in the log and as a
            `SegmentationDegradedEvent`. A title that was made, and is not printed, has `generated_title` beside it.
        llm: any LlamaIndex language model.
        embed_model: any LlamaIndex embedding model; by default the shipped one.
        journal: the file in which replies are kept, so that a run that was stopped goes on.
        embed_tables: "definition" makes tables `TableNode`s, whose data no embedding sees; "whole" does not.
        fields: those of every LlamaIndex node parser, e.g. `include_metadata`, `include_prev_next_rel`, `id_func`.

    Raises:
        ParameterError: the lengths are out of range, or a model is asked for that is not given.
    """

    max_tokens: int = Field(description="Hard cap of a chunk, in tokens.")
    min_tokens: int = Field(description="Shorter text joins a neighbour in its section.")
    media_type: Literal["text/markdown", "text/plain"] | None = Field(
        description="How to read the texts; by default as each document and its metadata say."
    )
    embed_tables: Literal["definition", "whole"] = Field(
        default="whole", description="What an embedding is given of a table."
    )
    chunks: Any = Field(default=None, description="What a chunk is, where it is no short piece.")
    segmentation: Any = Field(default=None, description="How documents are divided by meaning.")
    llm: SerializeAsAny[LLM] | None = Field(default=None, description="The model that divides documents.")
    embed_model: SerializeAsAny[BaseEmbedding] | None = Field(
        default=None, description="The embedding by which documents are divided."
    )
    journal: str | None = Field(default=None, exclude=True, description="The file in which replies are kept.")
    prompt_version: str = Field(default="", description="Version of the prompt; part of cache keys.")
    schema_version: int = Field(default=SCHEMA_VERSION, description="Version of the nodes made; part of cache keys.")

    @checked_arguments
    def __init__(
        self,
        *,
        max_tokens: int = DEFAULT_OPTIONS.max_tokens,
        min_tokens: int = DEFAULT_OPTIONS.min_tokens,
        chunks: Chunking | None = None,
        media_type: Literal["text/markdown", "text/plain"] | None = None,
        embed_tables: Literal["definition", "whole"] = "whole",
        segmentation: By | None = None,
        llm: LLM | None = None,
        embed_model: BaseEmbedding | None = None,
        **fields: Any,
    ) -> None:
        fields = {**fields, "id_func": fields.get("id_func") or default_id_func}  # None in early 0.14
        how = revived(segmentation)
        if isinstance(how, SegmentOptions) and llm is None:
            raise ParameterError("llm", None, "given with SegmentOptions; after from_dict, given again")
        if isinstance(how, EmbeddingOptions) and embed_model is None:
            embed_model = CatenaEmbedding()
        version = prompts.load("segment_lines").version if isinstance(how, SegmentOptions) else ""
        fields = {**fields, "segmentation": how, "llm": llm, "embed_model": embed_model, "prompt_version": version}
        chunking = revived_chunking(chunks)
        if isinstance(chunking, ChunkOptions):
            max_tokens, min_tokens, chunking = chunking.max_tokens, chunking.min_tokens, None
        own = {"max_tokens": max_tokens, "min_tokens": min_tokens, "media_type": media_type, "chunks": chunking}
        super().__init__(**{**fields, **own, "embed_tables": embed_tables})
        self._options()  # refuses lengths that contradict each other now, not at the first document

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the parser is serialised."""
        return "CatenaNodeParser"

    @field_validator("id_func", mode="before")
    @classmethod
    def _revive(cls, value: Any) -> Any:
        """Take the default back from its written form; any other function has to be given again."""
        if isinstance(value, dict):
            if value.get("id_func_name") != default_id_func.__name__:
                raise ParameterError("id_func", value.get("id_func_name"), "given again as a function")
            return default_id_func
        return value

    @field_serializer("segmentation", "chunks")
    def _written(self, options: Any) -> dict[str, Any] | None:
        return written(options)

    def _parse_nodes(self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any) -> list[BaseNode]:
        shown = get_tqdm_iterable(nodes, show_progress, "Parsing nodes")
        found: list[Segmentation | None] = [None] * len(nodes)
        if self.segmentation is not None:
            step = divided(nodes, self.segmentation, media_type=self.media_type)
            with journalled(model_services(self.llm, self.embed_model), self.journal) as services:
                found = sections_of(run(step, services))
        return linked(
            [chunk for node, sections in zip(shown, found, strict=True) for chunk in self._chunks(node, sections)],
            neighbours=self.include_prev_next_rel,
        )

    @dispatcher.span
    async def _aparse_nodes(
        self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any
    ) -> list[BaseNode]:
        shown = get_tqdm_iterable(nodes, show_progress, "Parsing nodes")
        found: list[Segmentation | None] = [None] * len(nodes)
        if self.segmentation is not None:
            step = divided(nodes, self.segmentation, media_type=self.media_type)
            async with ajournalled(model_services(self.llm, self.embed_model), self.journal) as services:
                found = sections_of(await arun(step, services))
        return linked(
            [
                chunk
                for node, sections in zip(shown, found, strict=True)
                for chunk in await asyncio.to_thread(self._chunks, node, sections)
            ],
            neighbours=self.include_prev_next_rel,
        )

    def _postprocess_parsed_nodes(self, nodes: list[BaseNode], parent_doc_map: dict[str, Document]) -> list[BaseNode]:
        """Leave the nodes as they are: the inherited method would search for each text to guess its offsets."""
        return nodes

    def _options(self) -> Chunking:
        if self.chunks is not None:
            return self.chunks  # type: ignore[no-any-return]
        return ChunkOptions(max_tokens=self.max_tokens, min_tokens=self.min_tokens)

    def _chunks(self, node: BaseNode, segmentation: Segmentation | None) -> list[TextNode]:
        document = to_core_document(node, media_type=self.media_type)
        by = segmentation or Segmentation(sections=outline(document))
        found = searchable(chunked(document, by.sections, self._options()))
        chunks = mark_generated(found, by.generated)
        definitions = _definitions(document, chunks) if self.embed_tables == "definition" else {}
        source, shift = origin_of(node)
        ids = [
            chunk.id if self.id_func is default_id_func else self.id_func(index, node)
            for index, chunk in enumerate(chunks)
        ]
        return [
            (TableNode if chunk.id in definitions else TextNode)(
                id_=id_,
                text=chunk.text,
                mimetype=document.media_type,
                start_char_idx=None if shift is None else shift + chunk.start,
                end_char_idx=None if shift is None else shift + chunk.end,
                relationships={NodeRelationship.SOURCE: source},
                **presented(
                    {**chunk_metadata_of(chunk, document, node), **definitions.get(chunk.id, {})},
                    node,
                    inherits=self.include_metadata,
                    hidden=definitions.get(chunk.id, {}),
                ),
            )
            for id_, chunk in zip(ids, chunks, strict=True)
        ]


def _definitions(document: model.Document, chunks: Sequence[model.Chunk]) -> dict[str, dict[str, str]]:
    """Return the definition of each table by chunk id, without the titles: they stand in the metadata."""
    found: dict[str, dict[str, str]] = {}
    by_id = {chunk.id: chunk for chunk in chunks}
    for view in table_views(document, chunks):
        titles = SEPARATOR.join(titles_above(document, by_id[view.chunk_id]))
        if definition := view.text.removeprefix(titles).lstrip("\n"):
            found[view.chunk_id] = {DEFINITION: definition}
    return found
