"""Writing a graph to a server: beside the one that is walked, whose place it takes once it is whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from catena.effects import Step, ask
from catena.model.errors import ParameterError
from catena.server.bulk import BulkOptions, send
from catena.server.call import Call
from catena.server.graph_index import (
    LISTED,
    GraphAbout,
    counting,
    index_body,
    index_of,
    is_graph_of,
    listing,
    writing_alias,
)
from catena.server.graph_node import GraphNode, key_of, source_of
from catena.server.layout import check_name, quoted
from catena.server.records import Action

_PURPOSE = "graph writing"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphWritten:
    """What the writing of a graph did.

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
    keys: list[str] = []
    after = None
    while True:
        path = f"/{quoted(index)}/_search"
        answer = yield from _ask(Call(method="POST", path=path, body=listing(after), purpose=_PURPOSE))
        hits = answer["hits"]["hits"]
        keys += [hit["_id"] for hit in hits]
        if len(hits) < LISTED:
            return frozenset(keys)
        after = hits[-1]["sort"]


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
    held = yield from _ask(Call(method="GET", path=f"/{quoted(alias)}", missing_ok=True, purpose=_PURPOSE))
    foreign = sorted(set(held or {}) - set(before))
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
