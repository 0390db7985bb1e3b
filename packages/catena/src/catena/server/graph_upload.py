"""A chunk-interaction graph of what a search server holds, built in memory and brought there, for many to walk it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from catena.effects import Expand, FetchNodes, run
from catena.enrichment.graph_keywords import KIND, keywords_of_view
from catena.graph.chunk_graph import ChunkGraph
from catena.graph.node import node_of
from catena.model.vectors import DEFAULT, mean_direction
from catena.server.graph import NODES_KEPT, ServerGraph
from catena.server.graph_index import GraphAbout
from catena.server.graph_node import GraphNode
from catena.server.graph_writing import put_graph
from catena.server.store import ServerOptions, calling
from catena.text.words import word_keys

if TYPE_CHECKING:
    from catena.effects import Cancel
    from catena.graph.chunk_graph import Progress
    from catena.graph.node import Node
    from catena.graph.options import GraphOptions
    from catena.server.call import Transport
    from catena.server.restoring import StoredChunk

_AT_ONCE = 256  # nodes


def graph_of(
    stored: Iterable[StoredChunk],
    options: GraphOptions | None = None,
    *,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> ChunkGraph:
    """Return the graph of chunks as a server holds them, as the embedded library builds it of the same chunks.

    A node's vector is the mean of the chunk's default vectors, brought to unit length; its keywords are those of its
    views of kind "graph_keywords", where it has such.

    Args:
        stored: as `ServerStore.export` yields them.
        options: which edges there are.
        progress: told how far it is.
        cancel: stops it.

    Raises:
        ParameterError, CancelledError: as `ChunkGraph.build`.
    """
    nodes, vectors = [], []
    for each in stored:
        given = [keywords_of_view(view.text) for view in each.views if view.kind == KIND]
        nodes.append(node_of(each.chunk, keywords=tuple(chain.from_iterable(given)) if given else None))
        rows = each.rows[[kind == DEFAULT for kind in each.kinds]]
        vectors.append(rows[0] if len(rows) == 1 else mean_direction(rows))
    return ChunkGraph.build(nodes, np.asarray(vectors, np.float32), options, progress=progress, cancel=cancel)


def about_of(graph: ChunkGraph, *, made_of: str = "") -> GraphAbout:
    """Return what a graph says of itself on a server; equal graphs say equal things.

    Args:
        graph: in memory.
        made_of: see `GraphAbout`.
    """
    return GraphAbout(identity=graph.identity, nodes=len(graph), dim=graph.dim, kinds=graph.kinds, made_of=made_of)


def server_nodes(graph: ChunkGraph) -> Iterator[GraphNode]:
    """Yield the nodes of a graph, by ascending id, with all that a server has to know of each."""
    for start in range(0, len(graph), _AT_ONCE):
        ids = graph.ids[start : start + _AT_ONCE]
        found, own = graph.expand(Expand(chunk_ids=ids)), graph.nodes(FetchNodes(chunk_ids=ids))
        bounds = np.searchsorted(found.source, np.arange(len(ids) + 1)).tolist()
        for row, chunk_id in enumerate(ids):
            node, joined = graph.node(chunk_id), graph.joined_by(chunk_id)
            edges = slice(bounds[row], bounds[row + 1])
            counts, titled = _words_of(node)
            yield GraphNode(
                chunk=node.chunk,
                vector=own.vectors[row],
                counts=counts,
                titled=titled,
                length=int(own.lengths[row]),
                title_length=int(own.title_lengths[row]),
                neighbours=tuple(found.nodes.ids[place] for place in found.target[edges].tolist()),
                weights=found.weights[edges],
                terms=joined.terms,
                titles=tuple((f"{number:x}", printed) for number, printed in joined.titles),
                says=tuple(f"{number:x}" for number in joined.says),
            )


def _words_of(node: Node) -> tuple[Counter[str], frozenset[str]]:
    """Return how often each word is in the text and the titles of a node, and those that are in a title."""
    titled = [word for title in node.titles for word in word_keys(title)]
    return Counter([*word_keys(node.chunk.text), *titled]), frozenset(titled)


def upload_graph(
    transport: Transport,
    name: str,
    graph: ChunkGraph,
    *,
    made_of: str = "",
    shards: int = 1,
    replicas: int = 0,
    nodes_kept: int = NODES_KEPT,
    options: ServerOptions | None = None,
) -> ServerGraph:
    """Write a graph to a server, where it takes the place of the one that the set has, and return it to be walked.

    Walks over the old one go on until the new one is whole. A graph that is there already is not sent again, and of
    one of which a part is there, only the rest. Whether the server's graph is behind is told by `ServerGraph.about`:
    its `identity` is that of another graph, or `made_of` is not what the graph would be made of now.

    Args:
        transport: to the server.
        name: of the index set.
        graph: in memory.
        made_of: what it was built from, as the generation of a library.
        shards: of its index.
        replicas: of its index.
        nodes_kept: see `ServerGraph`.
        options: how the server is asked and written.

    Raises:
        ParameterError: an argument is out of its domain, or metadata of a chunk have no form in JSON.
        ServerError: the server failed, refused a node, or another process wrote a graph of this set at the same time;
            the old graph stays.
    """
    options = options or ServerOptions()
    walked = ServerGraph(transport, name, nodes_kept=nodes_kept)
    about = about_of(graph, made_of=made_of)
    step = put_graph(name, about, server_nodes(graph), shards=shards, replicas=replicas, options=options.bulk)
    run(step, calling(transport, options))
    return walked
