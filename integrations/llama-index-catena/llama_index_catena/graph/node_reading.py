"""Nodes as they lie in an index, read as nodes of the chunk-interaction graph: titles, keywords, kinds and places."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from llama_index.core.schema import BaseNode, ImageNode, MetadataMode

from catena.graph import Node, node_of
from catena.model import TITLE, Chunk, ChunkKind, ParameterError
from catena.segments import Linked, links_between, placed_by_links
from catena.text import atx_title
from llama_index_catena.convert import to_chunk
from llama_index_catena.segment_nodes import POSITION
from llama_index_catena.view_nodes import document_of

FILE_NAME = "file_name"
TITLE_KEYS = (TITLE, "document_title", FILE_NAME)
"""Metadata keys of a document's title: Catena's, that of LlamaIndex's `TitleExtractor`, and that of its readers."""

KEYWORD_KEYS = ("excerpt_keywords",)
"""Metadata keys of a node's keywords: that of LlamaIndex's `KeywordExtractor`."""

_TABLE = "table_df"  # metadata of tables that LlamaIndex's element parsers cut
_HEADING = re.compile(r"#{1,6}[ \t](.+)")
_SAID = re.compile(r"^\s*keywords?\s*:", re.IGNORECASE)  # as models begin the list that they are asked for
_BETWEEN = re.compile(r"[,;\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """What of a node the graph is made of, besides its text and its links.

    Attributes:
        title_keys: metadata keys of the document's title, the first that says something; of `file_name` without its
            ending. Other texts that say the title are joined with the node.
        keyword_keys: metadata keys of keywords, lists or texts with commas between; where a node has none of them,
            its keywords are found in its text, offline.
        text: with which of its metadata a node is embedded, where it has no embedding yet; as indices do by default.
    """

    title_keys: Sequence[str] = TITLE_KEYS
    keyword_keys: Sequence[str] = KEYWORD_KEYS
    text: MetadataMode = MetadataMode.EMBED

    def __post_init__(self) -> None:
        for name in ("title_keys", "keyword_keys"):
            keys = getattr(self, name)
            if isinstance(keys, str) or not all(isinstance(key, str) for key in keys):
                raise ParameterError(name, keys, "a sequence of metadata keys")
            object.__setattr__(self, name, tuple(keys))

    def nodes(self, nodes: Sequence[BaseNode]) -> tuple[Node, ...]:
        """Return nodes of an index as nodes of the graph, under their ids, in the order given.

        Neighbours are those that the nodes' links name; without links, nodes of one document stand in the order of
        their offsets, and without those in the order given. Nodes whose metadata count their `position` keep it.
        """
        places = positions(nodes)
        return tuple(self._node(node, place) for node, place in zip(nodes, places, strict=True))

    def _node(self, node: BaseNode, position: int) -> Node:
        plain = to_chunk(node)
        title, heading = self._title(node.metadata), _own_heading(node, plain)
        chunk = replace(
            plain,
            position=position,
            kind=_kind(node, plain),
            path=plain.path if heading in ("", *plain.path[-1:]) else (*plain.path, heading),
            metadata={**plain.metadata, TITLE: title} if title else plain.metadata,
        )
        return node_of(chunk, keywords=self._keywords(node.metadata), titles=(title, heading))

    def _title(self, metadata: Mapping[str, Any]) -> str:
        for key in self.title_keys:
            if said := str(metadata.get(key) or "").strip():
                return PurePath(said).stem if key == FILE_NAME else said
        return ""

    def _keywords(self, metadata: Mapping[str, Any]) -> list[str] | None:
        for key in self.keyword_keys:
            said = metadata.get(key)
            items = _BETWEEN.split(_SAID.sub("", said)) if isinstance(said, str) else said
            if isinstance(items, Sequence) and (words := [str(item).strip() for item in items if str(item).strip()]):
                return words
        return None


def positions(nodes: Sequence[BaseNode]) -> list[int]:
    """Return the place of each node in its document: that counted, else by links, by offsets, by the order given."""
    documents: dict[str, list[BaseNode]] = defaultdict(list)
    for node in nodes:
        documents[document_of(node)].append(node)
    placed = {id(node): at for each in documents.values() for node, at in _positions_in(each)}
    return [placed[id(node)] for node in nodes]


def counts_position(node: BaseNode) -> bool:
    """Whether a node's metadata say its place in its document."""
    return isinstance(node.metadata.get(POSITION), int)


def _positions_in(document: Sequence[BaseNode]) -> Iterable[tuple[BaseNode, int]]:
    if all(map(counts_position, document)):
        return [(node, node.metadata[POSITION]) for node in document]
    starts: list[Any] = [getattr(node, "start_char_idx", None) for node in document]
    known = None not in starts and len(set(starts)) == len(starts)
    order = (
        [document[place] for place in sorted(range(len(starts)), key=lambda at: starts[at])] if known else document
    )
    linked = [_stand_in(node, place) for place, node in enumerate(order)]
    placed = placed_by_links([each.chunk for each in linked], links_between(linked))
    at = {chunk.id: chunk.position for chunk in placed}
    return [(node, at[node.node_id]) for node in document]


def _stand_in(node: BaseNode, place: int) -> Linked:
    """Return a chunk of which nothing is known but its order and its links."""
    chunk = Chunk(id=node.node_id, document_id=document_of(node), position=0, start=place, end=place, text="")
    before, after = node.prev_node, node.next_node
    return Linked(chunk, None if before is None else before.node_id, None if after is None else after.node_id)


def _kind(node: BaseNode, chunk: Chunk) -> ChunkKind:
    if chunk.kind != "text":
        return chunk.kind
    if isinstance(node, ImageNode):
        return "figure"
    return "table" if _TABLE in node.metadata else "text"


def _own_heading(node: BaseNode, chunk: Chunk) -> str:
    """Return a node's own heading: the last of its path, or that of its first line where the path ends above it."""
    if counts_position(node):  # of Catena: the path ends with it
        return chunk.path[-1] if chunk.path else ""
    printed = _HEADING.match(chunk.text.lstrip())
    return atx_title(printed[1]) if printed else ""
