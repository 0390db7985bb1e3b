"""The chunk-interaction graph of the nodes of any index: built, and kept in step as nodes come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores import SimpleVectorStore

from catena.effects import Embed, Embedder, Services, Step, arun, ask, run, service_error
from catena.graph import ChunkGraph, GraphOptions, Progress
from catena.model import ParameterError
from llama_index_catena.graph.node_reading import NodeReading, counts_position
from llama_index_catena.services import core_embedder
from llama_index_catena.view_nodes import document_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.effects import Cancel

_BATCH = 256  # texts in one request for vectors


def build_graph(
    nodes: Sequence[BaseNode] | VectorStoreIndex,
    embed_model: BaseEmbedding | Embedder | None = None,
    options: GraphOptions | None = None,
    *,
    reading: NodeReading | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> ChunkGraph:
    """Return the chunk-interaction graph of nodes, which any retriever over these nodes can be widened by.

    Args:
        nodes: as they lie in an index, under their ids there, or the index, of which all nodes are taken. Nodes that
            have an embedding keep it; an index in memory (`SimpleVectorStore`) gives its vectors, too.
        embed_model: of the nodes' embeddings, and of those that have none; by default that of the index. Questions
            must be embedded by the same.
        options: which edges there are.
        reading: where titles and keywords are in the metadata, and which text is embedded.
        progress: told how far the edges are.
        cancel: stops it.

    Raises:
        ParameterError: two nodes of one id, embeddings of unlike lengths, or nodes without one and no model.
        ServiceError: the model, or the store of the index, failed.
        CancelledError: stopped.
    """
    work = _Work.of(embed_model, reading, nodes)
    given = indexed_nodes(nodes) if isinstance(nodes, VectorStoreIndex) else nodes
    vectors = run(work.vectors(given), work.services(cancel))
    return ChunkGraph.build(work.reading.nodes(given), vectors, options, progress=progress, cancel=cancel)


async def abuild_graph(
    nodes: Sequence[BaseNode] | VectorStoreIndex,
    embed_model: BaseEmbedding | Embedder | None = None,
    options: GraphOptions | None = None,
    *,
    reading: NodeReading | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> ChunkGraph:
    """As `build_graph`, without blocking the event loop."""
    work = _Work.of(embed_model, reading, nodes)
    given = await asyncio.to_thread(indexed_nodes, nodes) if isinstance(nodes, VectorStoreIndex) else nodes
    vectors = await arun(work.vectors(given), work.services(cancel))

    def built() -> ChunkGraph:
        return ChunkGraph.build(work.reading.nodes(given), vectors, options, progress=progress, cancel=cancel)

    return await asyncio.to_thread(built)


def update_graph(
    graph: ChunkGraph,
    *,
    added: Sequence[BaseNode] = (),
    removed: Collection[str] = (),
    removed_documents: Collection[str] = (),
    embed_model: BaseEmbedding | Embedder | None = None,
    reading: NodeReading | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
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
        reading: as of `build_graph`.
        progress: told how far the edges are.
        cancel: stops it.

    Raises:
        ParameterError: unknown ids in `removed`, a document of which some nodes stay while others are added without
            saying their `position`, or as of `build_graph`.
        ServiceError: the model failed.
        CancelledError: stopped.
    """
    _check_nodes("added", added)
    work = _Work.of(embed_model, reading, added)
    gone = _gone(graph, added, removed, removed_documents)
    vectors = run(work.vectors(added), work.services(cancel))
    nodes = work.reading.nodes(added)
    return graph.updated(added=nodes, vectors=vectors, removed=gone, progress=progress, cancel=cancel)


async def aupdate_graph(
    graph: ChunkGraph,
    *,
    added: Sequence[BaseNode] = (),
    removed: Collection[str] = (),
    removed_documents: Collection[str] = (),
    embed_model: BaseEmbedding | Embedder | None = None,
    reading: NodeReading | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> ChunkGraph:
    """As `update_graph`, without blocking the event loop."""
    _check_nodes("added", added)
    work = _Work.of(embed_model, reading, added)
    gone = await asyncio.to_thread(_gone, graph, added, removed, removed_documents)
    vectors = await arun(work.vectors(added), work.services(cancel))

    def updated() -> ChunkGraph:
        nodes = work.reading.nodes(added)
        return graph.updated(added=nodes, vectors=vectors, removed=gone, progress=progress, cancel=cancel)

    return await asyncio.to_thread(updated)


def indexed_nodes(index: VectorStoreIndex) -> list[BaseNode]:
    """Return all nodes of an index, with their embeddings where its store gives these.

    Raises:
        ServiceError: neither its docstore nor its vector store gives nodes.
    """
    store: Any = index.vector_store
    ids = sorted(set(index.index_struct.nodes_dict.values()))
    if not ids and not store.stores_text:
        return []
    try:
        held = index.docstore.get_nodes(ids) if ids else _all_of(store)
    except Exception as error:
        raise service_error(error, type(store).__name__, holder=store) from None
    if not isinstance(store, SimpleVectorStore):
        return list(held)
    return [
        node.model_copy(update={"embedding": store.data.embedding_dict.get(node.node_id, node.embedding)})
        for node in held
    ]


def _all_of(store: Any) -> Sequence[BaseNode]:
    """Return all nodes of a vector store; those of Chroma and Postgres ask for ids, and take none for all."""
    try:
        found: Sequence[BaseNode] = store.get_nodes()
    except (TypeError, AssertionError):
        found = store.get_nodes(node_ids=[])
    return found


@dataclass(frozen=True, slots=True)
class _Work:
    """With what nodes are read."""

    embedder: Embedder | None
    reading: NodeReading

    @classmethod
    def of(
        cls,
        embed_model: BaseEmbedding | Embedder | None,
        reading: NodeReading | None,
        nodes: Sequence[BaseNode] | VectorStoreIndex,
    ) -> _Work:
        if not isinstance(nodes, VectorStoreIndex):
            _check_nodes("nodes", nodes)
        model = index_model(nodes) if embed_model is None and isinstance(nodes, VectorStoreIndex) else embed_model
        return cls(None if model is None else core_embedder(model), reading or NodeReading())

    def vectors(self, nodes: Sequence[BaseNode]) -> Step[NDArray[np.float32]]:
        """Return a vector per node: its own, else that of its text, shape (nodes, dim)."""
        texts = {
            place: node.get_content(metadata_mode=self.reading.text)
            for place, node in enumerate(nodes)
            if node.embedding is None
        }
        if texts and self.embedder is None:
            raise ParameterError("embed_model", None, f"given: {len(texts)} nodes have no embedding")
        rows: list[Any] = [node.embedding for node in nodes]
        for place, row in zip(texts, (yield from _embedded(tuple(texts.values()))), strict=True):
            rows[place] = row
        lengths = sorted({len(row) for row in rows})
        if len(lengths) > 1:
            raise ParameterError("embeddings", lengths, "of one length: those of one model")
        return np.asarray(rows, dtype=np.float32).reshape(len(rows), *(lengths or [0]))

    def services(self, cancel: Cancel | None) -> Services:
        return Services(embedder=self.embedder, cancel=cancel)


def _check_nodes(name: str, nodes: Sequence[BaseNode]) -> None:
    odd = nodes if not isinstance(nodes, Sequence) else next((n for n in nodes if not isinstance(n, BaseNode)), None)
    if odd is not None:
        or_index = ", or a VectorStoreIndex" if name == "nodes" else ""
        raise ParameterError(name, type(odd).__name__, f"a sequence of LlamaIndex nodes{or_index}")


def index_model(index: VectorStoreIndex) -> BaseEmbedding:
    """Return the embedding model of an index, for which LlamaIndex has no public name."""
    model: BaseEmbedding = index._embed_model
    return model


def _embedded(texts: tuple[str, ...]) -> Step[list[Any]]:
    starts = range(0, len(texts), _BATCH)
    replies = yield from ask([Embed(texts=texts[at : at + _BATCH], purpose="graph") for at in starts])
    return [row for reply in replies for row in reply]


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
