"""Chunks of a document as LlamaIndex nodes: where they come from, what is written of them, and their neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from llama_index.core.schema import DEFAULT_TEXT_NODE_TMPL, BaseNode, NodeRelationship, RelatedNodeInfo, TextNode

from catena import model
from catena.text import PAGE_LABEL
from llama_index_catena.convert import HEADINGS, chunk_metadata, headings_metadata, joined_keys, machine_keys
from llama_index_catena.documents import PAGE_LABELS, PAGE_STARTS


def origin_of(node: BaseNode) -> tuple[RelatedNodeInfo, int | None]:
    """Return what the chunks of a node come from, and where in it the node begins; None where it is unknown."""
    origin = node.source_node
    if origin is None:
        return node.as_related_node_info(), 0
    return origin, getattr(node, "start_char_idx", None)


def chunk_metadata_of(chunk: model.Chunk, document: model.Document, parent: BaseNode) -> dict[str, Any]:
    """Return what is known of a chunk of a node, as metadata of a node of its own."""
    if parent.source_node is not None:  # a part of a document: lines counted in the part would mislead
        chunk = replace(chunk, lines=None, pages=None, page_labels=None)
    metadata = {**chunk_metadata(chunk), **headings_metadata(chunk, document.title)}
    if chunk.pages is not None and document.page_labels:  # a reader's label stays, also where it is the number
        metadata[PAGE_LABEL] = document.page_labels[chunk.pages[0] - 1]
    return metadata


def presented(
    own: dict[str, Any], parent: BaseNode, *, inherits: bool = True, hidden: Iterable[str] = ()
) -> dict[str, Any]:
    """Return a chunk's metadata below its parent's, and how models see both, as fields of a node.

    Args:
        own: the chunk's.
        parent: of which it is a slice.
        inherits: whether the parent's metadata is kept.
        hidden: keys that no model reads, besides those that are for machines.
    """
    above = {k: v for k, v in parent.metadata.items() if k not in (PAGE_STARTS, PAGE_LABELS)}
    unread = [*machine_keys(own, shown=[HEADINGS]), *hidden]
    return {
        "metadata": {**above, **own} if inherits else own,
        "excluded_embed_metadata_keys": joined_keys(parent.excluded_embed_metadata_keys, unread),
        "excluded_llm_metadata_keys": joined_keys(parent.excluded_llm_metadata_keys, unread),
        "metadata_template": parent.metadata_template,
        "metadata_separator": parent.metadata_separator,
        "text_template": getattr(parent, "text_template", DEFAULT_TEXT_NODE_TMPL),
    }


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
