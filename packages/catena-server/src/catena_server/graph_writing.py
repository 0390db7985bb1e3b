"""Build a graph of the chunks of a set, and write it beside the old one, which it replaces once it is complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from catena import run
from catena.effects import Cancel, Expand, FetchNodes, Step, ask
from catena.enrichment import KIND, keywords_of_view
from catena.graph import ChunkGraph, GraphOptions, Progress, node_of
from catena.model import DEFAULT, ParameterError, mean_direction
from catena.text import word_keys
from catena_server.actions import Action
from catena_server.bulk import BulkOptions, send
from catena_server.calls import Call, Transport, quoted, sorted_rows
from catena_server.graph import NODES_KEPT, ServerGraph
from catena_server.graph_nodes import (
    LISTED,
    GraphAbout,
    GraphNode,
    counting,
    index_body,
    index_of,
    is_graph_of,
    key_of,
    listing,
    source_of,
    writing_alias,
)
from catena_server.index_layout import check_name
from catena_server.restoring import StoredChunk
from catena_server.store import ServerOptions, calling

_PURPOSE = "graph writing"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphWritten:
    """The result of the writing of a graph.

    Attributes:
        index: that holds it.
        nodes: of the graph.
        sent: of these; the others were there already, from an earlier writing of the same graph.
    """

    index: str
    nodes: int
    sent: int


def put_graph(
    name: str,
    about: GraphAbout,
    nodes: Iterable[GraphNode],
    *,
    shards: int = 1,
    replicas: int = 0,
    options: BulkOptions | None = None,
) -> Step[GraphWritten]:
    """Write a graph, and let it take the place of the one that the set has.

    It is written to an index of its own, named after its identity; walks go on in the old one until all of it is
    there. Then the alias moves and the old index goes, in one request. When the writing stops half-way, the old graph
    stays; a second writing of the same graph sends only what is missing, and that of any graph clears up.

    A change of few chunks changes most nodes that share names or titles with others, as the weights of these edges
    depend on the number of nodes: so a changed graph is written anew, in whole.

    Args:
        name: of the index set.
        about: the graph.
        nodes: all of it, in any order, each once.
        shards: of its index.
        replicas: of its index.
        options: of the sending.

    Raises:
        ParameterError: a name that no index can have, metadata that no store can keep, or other nodes than `about`
            says; the old graph stays.
        ServerError: the server failed, refused a node, or another process wrote a graph of this set at the same time;
            the old graph stays.
    """
    check_name(name)
    index = index_of(name, about)
    found = yield from _graphs(name)
    if f"{name}-graph" in found.get(index, {}).get("aliases", {}):
        yield from _say(name, index, about)
        return GraphWritten(index=index, nodes=about.nodes, sent=0)
    there = (yield from _keys(index)) if index in found else frozenset()
    if index not in found:
        body = index_body(name, about, shards=shards, replicas=replicas)
        yield from _ask(Call(method="PUT", path=f"/{quoted(index)}", body=body, purpose=_PURPOSE))
    written = yield from send(node_actions(nodes, there), {"graph": writing_alias(name, about)}, options)
    written.check("writing the graph (the old one stays)")
    yield from _check_whole(index, about)
    yield from _say(name, index, about)
    settings = {"index": {"refresh_interval": None, "blocks.write": True}}
    yield from _ask(Call(method="PUT", path=f"/{quoted(index)}/_settings", body=settings, purpose=_PURPOSE))
    yield from _take_place(name, index, about)
    return GraphWritten(index=index, nodes=about.nodes, sent=written.done)


def drop_graph(name: str) -> Step[int]:
    """Remove the graph of a set, and what is left of others that were never whole; return how many indices went."""
    check_name(name)
    found = yield from _graphs(name)
    if found:
        yield from _aliases([{"remove_index": {"index": index}} for index in sorted(found)])
    return len(found)


def node_actions(nodes: Iterable[GraphNode], there: frozenset[str] = frozenset()) -> Iterator[Action]:
    """Yield the writing of each node whose key is not there."""
    for node in nodes:
        if (key := key_of(node.id)) not in there:
            yield Action(op="index", part="graph", id=key, source=source_of(node))


def _graphs(name: str) -> Step[dict[str, Any]]:
    """Return the indices of graphs of a set, those that are not whole among them, as `GET` answers of them."""
    path = f"/{quoted(name)}-graph-*"
    found = yield from _ask(Call(method="GET", path=path, missing_ok=True, purpose=_PURPOSE))
    return {index: body for index, body in (found or {}).items() if is_graph_of(name, body)}


def _keys(index: str) -> Step[frozenset[str]]:
    """Return the keys of the nodes that an index holds."""
    yield from _refresh(index)
    rows = yield from sorted_rows(index, listing(), size=LISTED, purpose=_PURPOSE)
    return frozenset(row["_id"] for row in rows)


def _check_whole(index: str, about: GraphAbout) -> Step[None]:
    yield from _refresh(index)
    path = f"/{quoted(index)}"
    answer = yield from _ask(Call(method="POST", path=f"{path}/_search", body=counting(()), purpose=_PURPOSE))
    nodes = answer["hits"]["total"]["value"]
    if nodes != about.nodes:
        raise ParameterError("nodes", f"{nodes} nodes", f"the {about.nodes} of the graph; the old graph stays")


def _say(name: str, index: str, about: GraphAbout) -> Step[None]:
    body = {"_meta": about.to_meta(name)}
    yield from _ask(Call(method="PUT", path=f"/{quoted(index)}/_mapping", body=body, purpose=_PURPOSE))


def _take_place(name: str, index: str, about: GraphAbout) -> Step[None]:
    """Point the alias to an index, and remove all others of the set's graphs, in one request."""
    alias = f"{name}-graph"
    before = yield from _graphs(name)
    if alias in before.get(index, {}).get("aliases", {}):  # another process has written the same graph
        return
    aliased = yield from _ask(Call(method="GET", path=f"/{quoted(alias)}", missing_ok=True, purpose=_PURPOSE))
    foreign = sorted(set(aliased or {}) - set(before))
    yield from _aliases(
        [
            *({"remove": {"index": each, "alias": alias}} for each in foreign),
            {"remove": {"index": index, "alias": writing_alias(name, about)}},
            {"add": {"index": index, "alias": alias}},
            *({"remove_index": {"index": each}} for each in sorted(before) if each != index),
        ]
    )


def _aliases(actions: list[dict[str, Any]]) -> Step[None]:
    yield from _ask(Call(method="POST", path="/_aliases", body={"actions": actions}, purpose=_PURPOSE))


def _refresh(index: str) -> Step[None]:
    yield from _ask(Call(method="POST", path=f"/{quoted(index)}/_refresh", purpose=_PURPOSE))


def _ask(call: Call) -> Step[Any]:
    (answer,) = yield from ask([call])
    return answer


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
            in_titles = [word for title in node.titles for word in word_keys(title)]
            yield GraphNode(
                chunk=node.chunk,
                vector=own.vectors[row],
                counts=Counter([*word_keys(node.chunk.text), *in_titles]),
                titled=frozenset(in_titles),
                length=int(own.lengths[row]),
                title_length=int(own.title_lengths[row]),
                neighbours=tuple(found.nodes.ids[place] for place in found.target[edges].tolist()),
                weights=found.weights[edges],
                terms=joined.terms,
                titles=tuple((f"{number:x}", printed) for number, printed in joined.titles),
                says=tuple(f"{number:x}" for number in joined.says),
            )


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
