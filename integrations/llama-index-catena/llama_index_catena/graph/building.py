"""Build the chunk-interaction graph of the nodes of any index, and keep it in step as nodes come and go."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, TypeAlias, TypedDict, Unpack

import numpy as np
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import BaseNode, ImageNode, MetadataMode
from llama_index.core.vector_stores import SimpleVectorStore
from numpy.typing import NDArray

from catena import Chunk, ParameterError, Services, arun, run
from catena.effects import Cancel, Embedder, Step, embed_texts, errors_of
from catena.graph import ChunkGraph, GraphOptions, Node, Progress, node_of
from catena.model import TITLE, ChunkKind
from catena.segments import Linked, links_between, placed_by_links
from catena.text import atx_title
from llama_index_catena.convert import to_chunk
from llama_index_catena.documents import document_of
from llama_index_catena.segment_nodes import POSITION
from llama_index_catena.services import core_embedder

Indexed: TypeAlias = Sequence[BaseNode] | VectorStoreIndex
Model: TypeAlias = BaseEmbedding | Embedder | None


class GraphWork(TypedDict, total=False):
    """Says how a graph is made.

    Attributes:
        reading: where titles and keywords are in the metadata, and which text is embedded.
        progress: told how far the edges are.
        cancel: stops it.
    """

    reading: NodeReading | None
    progress: Progress | None
    cancel: Cancel | None


def build_graph(
    nodes: Indexed, embed_model: Model = None, options: GraphOptions | None = None, **how: Unpack[GraphWork]
) -> ChunkGraph:
    """Return the chunk-interaction graph of nodes, which any retriever over these nodes can be widened by.

    Args:
        nodes: as they lie in an index, under their ids there, or the index, of which all nodes are taken. Nodes that
            have an embedding keep it; an index in memory (`SimpleVectorStore`) gives its vectors, too.
        embed_model: of the nodes' embeddings, and of those that have none; by default that of the index. Questions
            must be embedded by the same.
        options: which edges there are.
        **how: see `GraphWork`.

    Raises:
        ParameterError: two nodes of one id, embeddings of unlike lengths, or nodes without one and no model.
        ServiceError: the model, or the store of the index, failed.
        CancelledError: stopped.
    """
    work = _work("nodes", nodes, embed_model, how)
    given = indexed_nodes(nodes) if isinstance(nodes, VectorStoreIndex) else nodes
    return work.built(given, run(work.vectors(given), work.services), options)


async def abuild_graph(
    nodes: Indexed, embed_model: Model = None, options: GraphOptions | None = None, **how: Unpack[GraphWork]
) -> ChunkGraph:
    """As `build_graph`, without blocking the event loop."""
    work = _work("nodes", nodes, embed_model, how)
    given = await asyncio.to_thread(indexed_nodes, nodes) if isinstance(nodes, VectorStoreIndex) else nodes
    vectors = await arun(work.vectors(given), work.services)
    return await asyncio.to_thread(work.built, given, vectors, options)


def update_graph(
    graph: ChunkGraph,
    *,
    added: Sequence[BaseNode] = (),
    removed: Collection[str] = (),
    removed_documents: Collection[str] = (),
    embed_model: Model = None,
    **how: Unpack[GraphWork],
) -> ChunkGraph:
    """Return the graph with nodes more, and others less: with the edges of one that is built of what is left.

    The graph given stays as it is, and what stays in it keeps its place. A document's nodes come all at once, since
    its neighbours are known from them together; a node of an id that the graph has replaces it.

    Args:
        graph: as `build_graph` made it, with the same model and `reading`.
        added: nodes, as for `build_graph`.
        removed: ids of nodes that the graph has.
        removed_documents: ids of documents (`ref_doc_id`) of which all nodes go; unknown ones have none.
        embed_model: of added nodes without an embedding.
        **how: see `GraphWork`; the same `reading` as of `build_graph`.

    Raises:
        ParameterError: unknown ids in `removed`, a document of which some nodes stay while others are added without
            saying their `position`, or as of `build_graph`.
        ServiceError: the model failed.
        CancelledError: stopped.
    """
    work = _work("added", added, embed_model, how)
    gone = _gone(graph, added, removed, removed_documents)
    return work.updated(graph, added, run(work.vectors(added), work.services), gone)


async def aupdate_graph(
    graph: ChunkGraph,
    *,
    added: Sequence[BaseNode] = (),
    removed: Collection[str] = (),
    removed_documents: Collection[str] = (),
    embed_model: Model = None,
    **how: Unpack[GraphWork],
) -> ChunkGraph:
    """As `update_graph`, without blocking the event loop."""
    work = _work("added", added, embed_model, how)
    gone = await asyncio.to_thread(_gone, graph, added, removed, removed_documents)
    vectors = await arun(work.vectors(added), work.services)
    return await asyncio.to_thread(work.updated, graph, added, vectors, gone)


def indexed_nodes(index: VectorStoreIndex) -> list[BaseNode]:
    """Return all nodes of an index, with their embeddings where its store gives these.

    Raises:
        ServiceError: neither its docstore nor its vector store gives nodes.
    """
    store: Any = index.vector_store
    ids = sorted(set(index.index_struct.nodes_dict.values()))
    if not ids and not store.stores_text:
        return []
    with errors_of(type(store).__name__, store):
        held = index.docstore.get_nodes(ids) if ids else _all_of(store)
    if not isinstance(store, SimpleVectorStore):
        return list(held)
    vectors = store.data.embedding_dict
    return [node.model_copy(update={"embedding": vectors.get(node.node_id, node.embedding)}) for node in held]


def _all_of(store: Any) -> Sequence[BaseNode]:
    """Return all nodes of a vector store; those of Chroma and Postgres ask for ids, and take none for all."""
    try:
        found: Sequence[BaseNode] = store.get_nodes()
    except (TypeError, AssertionError):
        found = store.get_nodes(node_ids=[])
    return found


def _work(name: str, nodes: Indexed, embed_model: Model, how: GraphWork) -> _Work:
    if unknown := sorted(how.keys() - GraphWork.__annotations__.keys()):
        raise ParameterError("option", unknown[0], f"one of {', '.join(GraphWork.__annotations__)}")
    is_index = isinstance(nodes, VectorStoreIndex) and name == "nodes"
    odd = nodes if not isinstance(nodes, Sequence) else next((n for n in nodes if not isinstance(n, BaseNode)), None)
    if odd is not None and not is_index:
        or_index = ", or a VectorStoreIndex" if name == "nodes" else ""
        raise ParameterError(name, type(odd).__name__, f"a sequence of LlamaIndex nodes{or_index}")
    model = index_model(nodes) if embed_model is None and isinstance(nodes, VectorStoreIndex) else embed_model
    told: Any = {"progress": how.get("progress"), "cancel": how.get("cancel")}
    services = Services(embedder=None if model is None else core_embedder(model), cancel=how.get("cancel"))
    return _Work(services, how.get("reading") or NodeReading(), told)


@dataclass(frozen=True, slots=True)
class _Work:
    """The model and the settings by which nodes become a graph."""

    services: Services
    reading: NodeReading
    told: Any  # progress and cancel

    def vectors(self, nodes: Sequence[BaseNode]) -> Step[NDArray[np.float32]]:
        """Return a vector per node: its own, else that of its text, shape (nodes, dim)."""
        bare = ((place, node) for place, node in enumerate(nodes) if node.embedding is None)
        texts = {place: node.get_content(metadata_mode=self.reading.text) for place, node in bare}
        if texts and self.services.embedder is None:
            raise ParameterError("embed_model", None, f"given: {len(texts)} nodes have no embedding")
        rows: list[Any] = [node.embedding for node in nodes]
        for place, row in zip(texts, (yield from embed_texts(list(texts.values()), "graph")), strict=True):
            rows[place] = row
        lengths = sorted({len(row) for row in rows})
        if len(lengths) > 1:
            raise ParameterError("embeddings", lengths, "of one length: those of one model")
        return np.asarray(rows, dtype=np.float32).reshape(len(rows), *(lengths or [0]))

    def built(
        self, nodes: Sequence[BaseNode], vectors: NDArray[np.float32], options: GraphOptions | None
    ) -> ChunkGraph:
        return ChunkGraph.build(self.reading.nodes(nodes), vectors, options, **self.told)

    def updated(
        self, graph: ChunkGraph, added: Sequence[BaseNode], vectors: NDArray[np.float32], gone: set[str]
    ) -> ChunkGraph:
        return graph.updated(added=self.reading.nodes(added), vectors=vectors, removed=gone, **self.told)


def index_model(index: VectorStoreIndex) -> BaseEmbedding:
    """Return the embedding model of an index, for which LlamaIndex has no public name."""
    model: BaseEmbedding = index._embed_model
    return model


def _gone(
    graph: ChunkGraph, added: Sequence[BaseNode], removed: Collection[str], removed_documents: Collection[str]
) -> set[str]:
    """Return the ids of all nodes that go, those that are replaced among them."""
    for name, given in (("removed", removed), ("removed_documents", removed_documents)):
        if isinstance(given, str):
            raise ParameterError(name, given, "a collection of ids, also of one alone")
    gone = {*removed, *(node.node_id for node in added if node.node_id in graph)}
    come = {document_of(node) for node in added if not counts_position(node)}
    leave = set(removed_documents)
    if not (come or leave):
        return gone
    documents = {chunk_id: graph.chunk(chunk_id).document_id for chunk_id in graph.ids}
    gone |= {chunk_id for chunk_id, document_id in documents.items() if document_id in leave}
    parted = sorted({documents[chunk_id] for chunk_id in documents.keys() - gone} & come)
    if parted:
        allowed = "whole documents: all nodes of one, or its others removed, unless each says its `position`"
        raise ParameterError("added", f"nodes of {', '.join(parted[:3])}, of which others stay", allowed)
    return gone


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
    """Says which metadata of a node the graph is made of, besides its text and its links.

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
        return tuple(self._node(node, place) for node, place in zip(nodes, positions(nodes), strict=True))

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
    """Return True where a node's metadata say its place in its document."""
    return isinstance(node.metadata.get(POSITION), int)


def _positions_in(document: Sequence[BaseNode]) -> Iterable[tuple[BaseNode, int]]:
    if all(map(counts_position, document)):
        return [(node, node.metadata[POSITION]) for node in document]
    starts: list[Any] = [getattr(node, "start_char_idx", None) for node in document]
    known = None not in starts and len(set(starts)) == len(starts)
    order = [document[place] for place in sorted(range(len(starts)), key=starts.__getitem__)] if known else document
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
