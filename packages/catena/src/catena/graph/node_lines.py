"""Nodes as lines of JSON, which a kept graph holds in memory and reads one by one, when it is asked for them."""

from __future__ import annotations

import json
from typing import Any

from catena.graph.node import Node
from catena.model import Chunk, FrozenMetadata, plain_metadata


def to_line(node: Node | bytes) -> bytes:
    """Return a node as one line, without its end; ASCII, so that broken characters survive.

    Raises:
        ParameterError: metadata that no store can keep.
    """
    if isinstance(node, bytes):
        return node
    c = node.chunk
    where = [c.id, c.document_id, c.position, c.start, c.end, c.kind, c.path, c.section, c.pages, c.lines]
    said = plain_metadata(c.metadata, f"chunk {c.id!r}")
    line = json.dumps([*where, c.text, said, node.titles, node.keywords, node.names, c.page_labels])
    return line.encode("ascii")


def to_node(line: Node | bytes) -> Node:
    """Return the node of a line."""
    if isinstance(line, Node):
        return line
    fields: list[Any] = json.loads(line)
    chunk_id, document_id, position, start, end, kind, path, section, pages, lines = fields[:10]
    text, metadata, titles, keywords, names, *labels = fields[10:]
    chunk = Chunk(
        id=chunk_id,
        document_id=document_id,
        position=position,
        start=start,
        end=end,
        text=text,
        kind=kind,
        path=tuple(path),
        section=section,
        pages=None if pages is None else tuple(pages),
        page_labels=(labels[0][0], labels[0][1]) if labels and labels[0] else None,
        lines=None if lines is None else tuple(lines),
        metadata=FrozenMetadata(metadata),
    )
    return Node(chunk=chunk, titles=tuple(titles), keywords=tuple(keywords), names=tuple(names))
