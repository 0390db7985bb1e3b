"""Cut documents into content-aware chunks as LlamaIndex nodes, exact by construction."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, SerializeAsAny, field_serializer, field_validator
from llama_index.core.llms import LLM
from llama_index.core.node_parser import NodeParser
from llama_index.core.node_parser.node_utils import default_id_func
from llama_index.core.schema import (
    DEFAULT_TEXT_NODE_TMPL,
    BaseNode,
    Document,
    MetadataMode,
    NodeRelationship,
    TextNode,
)
from llama_index.core.utils import get_tqdm_iterable

from catena import ParameterError, Services, model, prompts
from catena.effects import Step, all_together
from catena.library import Chunking, FixedLength, Preparation, chunked, divide
from catena.model import BOXES, SEPARATOR, citation
from catena.structure import (
    DEFAULT_OPTIONS,
    ChunkOptions,
    EmbeddingOptions,
    SectionChunkOptions,
    Segmentation,
    SegmentOptions,
    mark_generated,
    outline,
    searchable,
    table_views,
    titles_above,
)
from catena.text import PAGE_LABEL
from llama_index_catena.components import (
    DegradedEvent,
    JournalledComponent,
    checked_arguments,
    dispatcher,
    given_options,
    tell_degraded,
    written_options,
)
from llama_index_catena.convert import (
    CITATION,
    HEADINGS,
    chunk_metadata,
    headings_metadata,
    joined_keys,
    machine_keys,
)
from llama_index_catena.documents import PAGE_LABELS, PAGE_STARTS, to_core_document
from llama_index_catena.services import CatenaEmbedding, model_services

SCHEMA_VERSION = 3  # grows when equal inputs and parameters give other nodes

DEFINITION = "definition"
"""Metadata key of what a table is embedded by: description, column names and row labels, without its data."""

By: TypeAlias = SegmentOptions | EmbeddingOptions
"""The divider: a language model or the embedding, with its options."""

_KNOWN: dict[Any, type[Any]] = {kind.__name__: kind for kind in (SegmentOptions, EmbeddingOptions)}

_KINDS: dict[Any, type[Any]] = {kind.__name__: kind for kind in (ChunkOptions, SectionChunkOptions, FixedLength)}


class SegmentationDegradedEvent(DegradedEvent):
    """Part of a document was divided at headings and paragraphs, because no answer of the model was of use."""


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


class CatenaNodeParser(JournalledComponent, NodeParser):
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
        how = given_options("segmentation", segmentation, _KNOWN, key="by")
        if isinstance(how, SegmentOptions) and llm is None:
            raise ParameterError("llm", None, "given with SegmentOptions; after from_dict, given again")
        if isinstance(how, EmbeddingOptions) and embed_model is None:
            embed_model = CatenaEmbedding()
        version = prompts.load("segment_lines").version if isinstance(how, SegmentOptions) else ""
        fields = {**fields, "segmentation": how, "llm": llm, "embed_model": embed_model, "prompt_version": version}
        chunking = given_options("chunks", chunks, _KINDS, key="by")
        if isinstance(chunking, ChunkOptions):
            max_tokens, min_tokens, chunking = chunking.max_tokens, chunking.min_tokens, None
        own = {"max_tokens": max_tokens, "min_tokens": min_tokens, "media_type": media_type, "chunks": chunking}
        super().__init__(**{**fields, **own, "embed_tables": embed_tables})
        self._options()  # refuses lengths that contradict each other now, not at the first document

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
    def _written(self, options: Any) -> Any:
        return written_options(options, {**_KNOWN, **_KINDS}, key="by")

    def _parse_nodes(self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any) -> list[BaseNode]:
        found = None if self.segmentation is None else self._run(self._divided(nodes))
        return self._cut(nodes, found, show_progress)

    @dispatcher.span
    async def _aparse_nodes(
        self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any
    ) -> list[BaseNode]:
        found = None if self.segmentation is None else await self._arun(self._divided(nodes))
        return await asyncio.to_thread(self._cut, nodes, found, show_progress)

    def _services(self) -> Services:
        return model_services(self.llm, self.embed_model)

    def _divided(self, nodes: Sequence[BaseNode]) -> Step[list[Segmentation | None]]:
        """Divide all documents side by side."""
        how = Preparation(segmentation=self.segmentation)
        return all_together([divide(to_core_document(node, media_type=self.media_type), how) for node in nodes])

    def _cut(
        self, nodes: Sequence[BaseNode], found: Sequence[Segmentation | None] | None, show_progress: bool
    ) -> list[BaseNode]:
        """Return the chunks of all documents, divided as a model said, and tell where its answers were of no use."""
        parts = found or [None] * len(nodes)
        tell_degraded((part for by in parts if by is not None for part in by.degraded), SegmentationDegradedEvent)
        shown = get_tqdm_iterable(nodes, show_progress, "Parsing nodes")
        chunks = [chunk for node, by in zip(shown, parts, strict=True) for chunk in self._chunks(node, by)]
        return linked(chunks, neighbours=self.include_prev_next_rel)

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
        chunks = mark_generated(searchable(chunked(document, by.sections, self._options())), by.generated)
        definitions = _definitions(document, chunks) if self.embed_tables == "definition" else {}
        return [
            slice_node(
                chunk,
                document,
                node,
                id_=None if self.id_func is default_id_func else self.id_func(index, node),
                kind=TableNode if chunk.id in definitions else TextNode,
                hidden=definitions.get(chunk.id, {}),
                inherits=self.include_metadata,
            )
            for index, chunk in enumerate(chunks)
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


def slice_node(
    chunk: model.Chunk,
    document: model.Document,
    parent: BaseNode,
    *,
    id_: str | None = None,
    kind: type[TextNode] = TextNode,
    hidden: Mapping[str, str] | None = None,
    inherits: bool = True,
) -> TextNode:
    """Return a chunk of a node as a node of its own, with its metadata below its parent's, and as models see both.

    Args:
        chunk: of the document.
        document: made of the parent.
        parent: the node that is parsed; of a part of a document, the node's offsets are those in the whole.
        id_: by default the chunk's.
        kind: class of the node.
        hidden: metadata that no model reads, besides that for machines.
        inherits: whether the parent's metadata is kept.
    """
    whole, offset = parent.source_node, getattr(parent, "start_char_idx", None)
    shift = 0 if whole is None else offset  # None where it is unknown
    if whole is not None:  # a part of a document: lines counted in the part would mislead
        chunk = replace(chunk, lines=None, pages=None, page_labels=None)
    cited = citation(chunk, title=document.title)
    own = {**chunk_metadata(chunk), **headings_metadata(chunk, document.title), CITATION: cited}
    if chunk.pages is not None and document.page_labels:  # a reader's label stays, also where it is the number
        own[PAGE_LABEL] = document.page_labels[chunk.pages[0] - 1]
    own |= hidden or {}
    above = {k: v for k, v in parent.metadata.items() if inherits and k not in (PAGE_STARTS, PAGE_LABELS, BOXES)}
    unread = [*machine_keys(own, shown=[HEADINGS]), *(hidden or {})]
    return kind(
        id_=id_ or chunk.id,
        text=chunk.text,
        mimetype=document.media_type,
        start_char_idx=None if shift is None else shift + chunk.start,
        end_char_idx=None if shift is None else shift + chunk.end,
        relationships={NodeRelationship.SOURCE: whole or parent.as_related_node_info()},
        metadata={**above, **own},
        excluded_embed_metadata_keys=joined_keys(parent.excluded_embed_metadata_keys, unread),
        excluded_llm_metadata_keys=joined_keys(parent.excluded_llm_metadata_keys, unread),
        metadata_template=parent.metadata_template,
        metadata_separator=parent.metadata_separator,
        text_template=getattr(parent, "text_template", DEFAULT_TEXT_NODE_TMPL),
    )


def linked(nodes: Sequence[TextNode], *, neighbours: bool = True) -> list[BaseNode]:
    """Return the nodes, counted in their source; `neighbours` of one source are joined by PREVIOUS and NEXT."""
    counted = Counter[str | None]()
    for node in nodes:
        node.metadata["position"] = counted[node.ref_doc_id]
        counted[node.ref_doc_id] += 1
    if neighbours:
        infos = [node.as_related_node_info() for node in nodes]
        for before, (left, right) in enumerate(pairwise(nodes)):
            if left.ref_doc_id == right.ref_doc_id:
                left.relationships[NodeRelationship.NEXT] = infos[before + 1]
                right.relationships[NodeRelationship.PREVIOUS] = infos[before]
    return list(nodes)
