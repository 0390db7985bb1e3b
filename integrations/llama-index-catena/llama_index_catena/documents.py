"""Convert LlamaIndex documents to core documents and back, and join the pages of one file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from llama_index.core.schema import BaseNode, Document, MediaResource, MetadataMode, TextNode

from catena import model
from catena.model import SOURCE, TITLE
from catena.text import MARKDOWN, MEDIA_TYPE, JoinedPages, joined_pages, media_type_of, source_of

PAGE_STARTS, PAGE_LABELS = "catena_page_starts", "catena_page_labels"
"""Metadata keys of a document with pages: JSON lists, as the core's `Document` has them."""

DOCUMENT_KEYS = (TITLE, SOURCE, MEDIA_TYPE, PAGE_STARTS, PAGE_LABELS)
"""Metadata keys that are fields of a core document."""


def to_core_document(node: BaseNode, *, media_type: str | None = None) -> model.Document:
    """Return a document or node as a core document of the same id.

    The title is the metadata's `title`, or else the file's name. A store keeps the metadata as
    `catena.model.plain_metadata` says, and hits give them back.

    Args:
        node: anything with text.
        media_type: "text/markdown" or "text/plain"; None takes what the document or its metadata say, see
            `catena.text.loaded.media_type_of`.

    Raises:
        ParameterError: the media type is another.
    """
    metadata = node.metadata
    title = metadata.get(TITLE)
    return model.Document(
        id=node.node_id,
        text=text_of(node),
        title=str(title) if title is not None else PurePath(str(metadata.get("file_name") or "")).stem,
        source=source_of(metadata),
        media_type=media_type_of(metadata, given=media_type, stated=_stated(node)),
        page_starts=tuple(json.loads(metadata.get(PAGE_STARTS, "[]"))),
        page_labels=tuple(json.loads(metadata.get(PAGE_LABELS, "[]"))),
        metadata={key: value for key, value in metadata.items() if key not in DOCUMENT_KEYS},
    )


def _stated(node: BaseNode) -> str | None:
    """Return the media type that a document or node says of its text; "text/plain" is a text node's default."""
    if isinstance(node, TextNode):
        return node.mimetype if node.mimetype == MARKDOWN else None
    return getattr(getattr(node, "text_resource", None), "mimetype", None)


def from_core_document(document: model.Document) -> Document:
    """Return a core document as one of LlamaIndex, from which `to_core_document` makes the same again."""
    # the media type stands in the metadata, too: `set_content` of LlamaIndex drops that of the text
    hidden: dict[str, Any] = {SOURCE: document.source, MEDIA_TYPE: document.media_type}
    if document.page_starts:
        hidden[PAGE_STARTS] = json.dumps(document.page_starts)
    if document.page_labels:
        hidden[PAGE_LABELS] = json.dumps(document.page_labels)
    return Document(
        id_=document.id,
        text_resource=MediaResource(text=document.text, mimetype=document.media_type),
        metadata={**document.metadata, TITLE: document.title, **hidden},
        excluded_embed_metadata_keys=list(hidden),
        excluded_llm_metadata_keys=list(hidden),
    )


def join_pages(documents: Sequence[Document]) -> list[Document]:
    """Return one document per file where a reader gave one per page (as LlamaIndex's PDF readers do).

    Chunks then reach over pages, and say on which pages they stand. A page has a `page_label` (or a number `page`)
    and a `file_path` (or `file_name`). The id is derived from that name, the metadata is what all pages share. Other
    documents are returned as they are.

    Raises:
        ParameterError: a page comes twice, as after a splitter.
    """
    texts, metadata = [text_of(each) for each in documents], [each.metadata for each in documents]
    return [
        documents[each] if isinstance(each, int) else _joined(each, documents[each.members[0]])
        for each in joined_pages(texts, metadata)
    ]


def _joined(pages: JoinedPages, first: Document) -> Document:
    ours = {PAGE_STARTS: json.dumps(pages.starts), PAGE_LABELS: json.dumps(pages.labels)}
    return Document(
        id_=pages.id,
        text_resource=MediaResource(text=pages.text, mimetype=_stated(first)),
        metadata={**pages.metadata, **ours},
        excluded_embed_metadata_keys=[*first.excluded_embed_metadata_keys, *ours],
        excluded_llm_metadata_keys=[*first.excluded_llm_metadata_keys, *ours],
    )


def text_of(node: BaseNode) -> str:
    """Return the node's text alone, without metadata."""
    return node.get_content(metadata_mode=MetadataMode.NONE)


def scalars(metadata: Mapping[str, Any], *, without: Iterable[str]) -> dict[str, model.Scalar]:
    """Return the items that the core's flat metadata can hold."""
    left_out = set(without)
    return {k: v for k, v in metadata.items() if k not in left_out and isinstance(v, str | int | float | bool)}


def document_of(node: BaseNode) -> str:
    """Return the id of the whole document; a node that names none is one itself."""
    return node.ref_doc_id or node.node_id


def title_of(nodes: Iterable[BaseNode]) -> str:
    """Return the title of the document that nodes are of: that of their metadata, or else the file's name."""
    metadata = [node.metadata for node in nodes]
    named = next((str(each[TITLE]) for each in metadata if each.get(TITLE)), "")
    return named or next((PurePath(str(each["file_name"])).stem for each in metadata if each.get("file_name")), "")
