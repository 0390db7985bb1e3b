"""LlamaIndex documents to core documents at entry, and back; pages of one file joined."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import Any

from llama_index.core.schema import BaseNode, Document, MediaResource, MetadataMode

from catena import model
from catena.citation import SOURCE, TITLE
from catena.ids import digest

PAGE_STARTS, PAGE_LABELS = "catena_page_starts", "catena_page_labels"
"""Metadata keys of a document with pages: JSON lists, as the core's `Document` has them."""

PAGE_LABEL = "page_label"  # as LlamaIndex's readers name what a file prints on a page

DOCUMENT_KEYS = (TITLE, SOURCE, PAGE_STARTS, PAGE_LABELS)
"""Metadata keys that are fields of a core document."""

_MEDIA_TYPES = ("text/markdown", "text/plain")
_PAGE_BREAK = "\n\n"  # between the texts of two pages, as the core's own PDF reader sets it


def to_core_document(node: BaseNode, *, media_type: str | None = None) -> model.Document:
    """Return a document or node as a core document of the same id.

    The title is the metadata's `title`, or else the file's name; nested metadata is left out, as the core's is
    flat: who makes nodes puts it back.

    Args:
        node: anything with text.
        media_type: "text/markdown" or "text/plain"; None takes what a `Document` says, else Markdown.
    """
    metadata = node.metadata
    stated = getattr(getattr(node, "text_resource", None), "mimetype", None)
    source = str(metadata.get(SOURCE) or metadata.get("file_path") or metadata.get("file_name") or "")
    title = metadata.get(TITLE)
    return model.Document(
        id=node.node_id,
        text=text_of(node),
        title=str(title) if title is not None else PurePath(str(metadata.get("file_name") or "")).stem,
        source=source,
        media_type=media_type or (stated if stated in _MEDIA_TYPES else "text/markdown"),
        page_starts=tuple(json.loads(metadata.get(PAGE_STARTS, "[]"))),
        page_labels=tuple(json.loads(metadata.get(PAGE_LABELS, "[]"))),
        metadata=scalars(metadata, without=DOCUMENT_KEYS),
    )


def from_core_document(document: model.Document) -> Document:
    """Return a core document as one of LlamaIndex, from which `to_core_document` makes the same again."""
    pages: dict[str, Any] = {}
    if document.page_starts:
        pages[PAGE_STARTS] = json.dumps(document.page_starts)
    if document.page_labels:
        pages[PAGE_LABELS] = json.dumps(document.page_labels)
    return Document(
        id_=document.id,
        text_resource=MediaResource(text=document.text, mimetype=document.media_type),
        metadata={**document.metadata, TITLE: document.title, SOURCE: document.source, **pages},
        excluded_embed_metadata_keys=[SOURCE, PAGE_STARTS, PAGE_LABELS],
        excluded_llm_metadata_keys=[SOURCE, PAGE_STARTS, PAGE_LABELS],
    )


def join_pages(documents: Sequence[Document]) -> list[Document]:
    """Return one document per file where a reader gave one per page (as LlamaIndex's PDF readers do).

    Headings then reach over pages, and chunks say on which pages they stand. Neighbours with a `page_label`
    and the same `file_path` (or `file_name`) are joined, in their order; the id is derived from that name,
    the metadata is what all pages share. Other documents are returned as they are.
    """
    joined: list[Document] = []
    for name, run in groupby(documents, key=_file_of_page):
        pages = list(run)
        joined.extend(pages if name is None else [_joined(name, pages)])
    return joined


def _file_of_page(document: Document) -> str | None:
    metadata = document.metadata
    name = metadata.get("file_path") or metadata.get("file_name")
    return str(name) if name and PAGE_LABEL in metadata else None


def _joined(name: str, pages: Sequence[Document]) -> Document:
    texts = [text_of(page) for page in pages]
    starts = [0]
    for text in texts[:-1]:
        starts.append(starts[-1] + len(text) + len(_PAGE_BREAK))
    first = pages[0]
    shared = {k: v for k, v in first.metadata.items() if all(k in p.metadata and p.metadata[k] == v for p in pages)}
    shared.pop(PAGE_LABEL, None)
    labels = [str(page.metadata[PAGE_LABEL]) for page in pages]
    ours = [PAGE_STARTS, PAGE_LABELS]
    return Document(
        id_=digest("pages", name),
        text_resource=MediaResource(text=_PAGE_BREAK.join(texts)),
        metadata={**shared, PAGE_STARTS: json.dumps(starts), PAGE_LABELS: json.dumps(labels)},
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
