"""Answer walks from a chunk-interaction graph on a search server, as one in memory does."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from catena import ParameterError, arun, run
from catena.effects import Retry, Step, ask
from catena.model import MENTION, MENTIONED, Edge, LibraryError, Neighbourhood, Nodes, ServerError, WordCounts
from catena.text import word_keys
from catena_server.calls import Call, Transport, kept_by_id, quoted
from catena_server.graph_nodes import (
    PAGE,
    GraphAbout,
    GraphNode,
    counting,
    covering_most,
    is_graph_of,
    key_of,
    node_of,
    vector_of,
)
from catena_server.index_layout import check_name
from catena_server.store import ServerOptions, calling

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena import Chunk
    from catena.effects import CheckGraph, CountWords, DescribeEdges, Expand, FetchById, FetchNodes, FindCovering
    from catena.model import Edge
    from catena_server.graph_nodes import GraphNode


NODES_KEPT = 4_096
_TRIES = 3  # readings that another graph may interrupt by taking this one's place

T = TypeVar("T")


class ServerGraph:
    """The graph behind the alias `NAME-graph`, for all threads; implements `catena.effects.Graph`, sync and async.

    It answers as the `ChunkGraph` that was written there does, array by array. (Words are compared as such, where
    that one compares 32-bit numbers of them.) A graph that is written anew takes the old one's place between two
    requests: no reply mixes the two, and each question notices, since it begins by `count_words`.

    Args:
        transport: to the server.
        name: of the index set.
        nodes_kept: nodes of the present graph that stay in memory once they were read, at most.

    Raises:
        ParameterError: a name that no index can have, or `nodes_kept` is no whole number >= 0.
    """

    def __init__(self, transport: Transport, name: str, *, nodes_kept: int = NODES_KEPT) -> None:
        check_name(name)
        if not isinstance(nodes_kept, int) or isinstance(nodes_kept, bool) or nodes_kept < 0:
            raise ParameterError("nodes_kept", nodes_kept, "a whole number >= 0")
        self.identity = f"graph {name} on {transport.identity}"
        self._name = name
        self._services = calling(transport, ServerOptions(retry=Retry(attempts=1)))  # the run that asks tries again
        self._kept = nodes_kept
        self._cache: NodeCache | None = None

    def about(self) -> GraphAbout:
        """Return what the graph says of itself, asked of the server anew.

        Raises:
            LibraryError: there is none, or one of another format.
            ServerError: the server failed.
        """
        return run(self._opened(), self._services).about

    async def aabout(self) -> GraphAbout:
        """As `about`."""
        return (await arun(self._opened(), self._services)).about

    def check(self, _: CheckGraph) -> None:
        """As `about`, for steps that a graph must be there for."""
        self.about()

    async def acheck(self, _: CheckGraph) -> None:
        """As `check`."""
        await self.aabout()

    def expand(self, request: Expand) -> Neighbourhood:
        """Return the neighbours of nodes, and the edges by which they are.

        Raises:
            ParameterError: a kind of edge that the graph does not have.
            LibraryError: there is no graph.
            ServerError: the server failed.
        """
        return self._run(lambda cache: expand(cache, request))

    async def aexpand(self, request: Expand) -> Neighbourhood:
        """As `expand`."""
        return await self._arun(lambda cache: expand(cache, request))

    def nodes(self, request: FetchNodes) -> Nodes:
        """Return nodes by id, in the order asked for, without those that it does not have."""
        return self._run(lambda cache: nodes_by_id(cache, request))

    async def anodes(self, request: FetchNodes) -> Nodes:
        """As `nodes`."""
        return await self._arun(lambda cache: nodes_by_id(cache, request))

    def count_words(self, request: CountWords) -> WordCounts:
        """Return in how many nodes each word is."""
        return self._run(lambda cache: count_words(cache, request))

    async def acount_words(self, request: CountWords) -> WordCounts:
        """As `count_words`."""
        return await self._arun(lambda cache: count_words(cache, request))

    def chunks_by_id(self, request: FetchById) -> tuple[Chunk | None, ...]:
        """Return the chunk of each id, None where there is none."""
        return self._run(lambda cache: chunks_by_id(cache, request))

    async def achunks_by_id(self, request: FetchById) -> tuple[Chunk | None, ...]:
        """As `chunks_by_id`."""
        return await self._arun(lambda cache: chunks_by_id(cache, request))

    def covering(self, request: FindCovering) -> Nodes:
        """Return the nodes that cover most of some terms, best first, `k` at most.

        All nodes that cover as many terms as the k-th are compared with the question: a term that very many nodes
        hold costs the transfer of their vectors.

        Raises:
            ParameterError: the vector of the question is of another length than the nodes'.
        """
        return self._run(lambda cache: most_covering(cache, request))

    async def acovering(self, request: FindCovering) -> Nodes:
        """As `covering`."""
        return await self._arun(lambda cache: most_covering(cache, request))

    def describe_edges(self, request: DescribeEdges) -> tuple[Edge | None, ...]:
        """Return what joins pairs of chunks, each seen from its first; None where nothing does."""
        return self._run(lambda cache: describe_edges(cache, request))

    async def adescribe_edges(self, request: DescribeEdges) -> tuple[Edge | None, ...]:
        """As `describe_edges`."""
        return await self._arun(lambda cache: describe_edges(cache, request))

    def _run(self, work: Callable[[NodeCache], Step[T]]) -> T:
        return run(self._of_one_graph(work), self._services)

    async def _arun(self, work: Callable[[NodeCache], Step[T]]) -> T:
        return await arun(self._of_one_graph(work), self._services)

    def _of_one_graph(self, work: Callable[[NodeCache], Step[T]]) -> Step[T]:
        """Return what is read of the graph; once more where another one took its place meanwhile."""
        for _ in range(_TRIES):
            cache = self._cache or (yield from self._opened())
            try:
                return (yield from work(cache))
            except ReplacedError:
                self._cache = None
        what = f"the graph was replaced {_TRIES} times while it was read; nothing was changed"
        raise ServerError(self.identity, what, retry=True)

    def _opened(self) -> Step[NodeCache]:
        """Return the cache of the index that the alias points to now."""
        index, about = yield from present(self._name)
        cache = self._cache
        if cache is None or cache.index != index:
            cache = self._cache = NodeCache(index, about, self._kept)
        return cache


class NodeCache:
    """The nodes of one index, those last asked for; for all threads.

    An index is never changed once it can be found, so that what is on the cache stays right; what the graph does not
    have is kept as None.

    Args:
        index: that holds the graph.
        about: what it says of itself.
        size: nodes kept at most; one of 384 dimensions and a page of text takes some ten kilobytes.
    """

    def __init__(self, index: str, about: GraphAbout, size: int) -> None:
        self.index = index
        self.about = about
        self._size = size
        self._nodes: OrderedDict[str, GraphNode | None] = OrderedDict()
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._nodes)

    def known(self, chunk_ids: Iterable[str]) -> dict[str, GraphNode | None]:
        """Return what is known of some ids; the others are missing."""
        found = {}
        with self._guard:
            for chunk_id in chunk_ids:
                if chunk_id in self._nodes:
                    self._nodes.move_to_end(chunk_id)
                    found[chunk_id] = self._nodes[chunk_id]
        return found

    def keep(self, nodes: Mapping[str, GraphNode | None]) -> None:
        """Put nodes on the cache; those that were asked for longest ago make room."""
        with self._guard:
            self._nodes.update(nodes)
            while len(self._nodes) > self._size:
                self._nodes.popitem(last=False)


_AT_ONCE = 500  # nodes of one look-up; more are looked up side by side


class ReplacedError(Exception):
    """The index that is read is gone, as another graph took its place: a signal to open it, met by no caller."""


def present(name: str) -> Step[tuple[str, GraphAbout]]:
    """Return the index that holds the graph of a set, and what it says of itself.

    Raises:
        LibraryError: the set has no graph, or one of another format.
    """
    alias = f"{name}-graph"
    (found,) = yield from ask([Call(method="GET", path=f"/{quoted(alias)}", missing_ok=True, purpose="graph")])
    graphs = [index for index, body in (found or {}).items() if is_graph_of(name, body)]
    if not graphs:
        raise LibraryError(alias, "the server has no graph of this name", "`upload_graph`")
    if len(graphs) > 1:
        what = f"its alias leads to {len(graphs)} graphs ({', '.join(sorted(graphs))}); nothing was changed"
        raise LibraryError(alias, what, "leave the alias on one of them")
    return graphs[0], GraphAbout.from_index(graphs[0], found[graphs[0]])


def expand(cache: NodeCache, request: Expand) -> Step[Neighbourhood]:
    """Return the neighbours of nodes, and the edges by which they are: two look-ups at most."""
    known = cache.about.kinds
    kinds = asked_kinds(request.kinds, known)
    sources = [node for node in (yield from _nodes_read(cache, dict.fromkeys(request.chunk_ids))) if node is not None]
    edges = [followed(node, kinds, known) for node in sources]
    ids = sorted({chunk_id for leads, _ in edges for chunk_id in leads})
    nodes = yield from _whole(cache, ids)
    found = nodes_of(nodes, request.words, cache.about.dim)
    return neighbourhood([node.id for node in sources], edges, found, kinds)


def nodes_by_id(cache: NodeCache, request: FetchNodes) -> Step[Nodes]:
    """Return nodes by id, in the order asked for, without those that the graph does not have."""
    found = yield from _nodes_read(cache, request.chunk_ids)
    return nodes_of([node for node in found if node is not None], request.words, cache.about.dim)


def count_words(cache: NodeCache, request: CountWords) -> Step[WordCounts]:
    """Return in how many nodes each word is."""
    answer = yield from _searched(cache, counting(request.words))
    nodes, found = answer["hits"]["total"]["value"], answer["aggregations"]
    holding = [bucket["doc_count"] for bucket in found["words"]["buckets"]] if request.words else []
    mean_length = found["length"]["value"] / nodes if nodes else 0.0
    return WordCounts(nodes=nodes, mean_length=mean_length, holding=tuple(holding))


def chunks_by_id(cache: NodeCache, request: FetchById) -> Step[tuple[Chunk | None, ...]]:
    """Return the chunk of each id, None where there is none."""
    found = yield from _nodes_read(cache, request.chunk_ids)
    return tuple(None if node is None else node.chunk for node in found)


def most_covering(cache: NodeCache, request: FindCovering) -> Step[Nodes]:
    """Return the nodes that cover most of some terms, best first."""
    about = cache.about
    question = np.asarray(request.vector, np.float32)
    if about.nodes and question.shape != (about.dim,):
        allowed = f"of shape ({about.dim},): by the embedder of the graph's nodes"
        raise ParameterError("vector of the question", question.shape, allowed)
    terms = [words for term in request.terms if (words := sorted(set(word_keys(term))))]
    ids = (yield from _best(cache, terms, question, request.k)) if terms and request.k > 0 else []
    return nodes_of((yield from _whole(cache, ids)), request.words, about.dim)


def _best(cache: NodeCache, terms: Sequence[Sequence[str]], question: NDArray[np.float32], k: int) -> Step[list[str]]:
    """Return the k nodes that cover most terms; all are read that may be among them."""
    hits: list[Any] = []
    while True:
        after = hits[-1]["sort"] if hits else None
        answer = yield from _searched(cache, covering_most(terms, after))
        page = answer["hits"]["hits"]
        hits += page
        if len(page) < PAGE or (len(hits) >= k and hits[-1]["_score"] < hits[k - 1]["_score"]):
            break
    least = hits[min(k, len(hits)) - 1]["_score"] if hits else 0.0
    among = [hit for hit in hits if hit["_score"] >= least]
    covered = {hit["_source"]["id"]: hit["_score"] for hit in among}
    vectors = {hit["_source"]["id"]: vector_of(hit["_source"]) for hit in among}
    return best_covering(covered, vectors, question, k)


def describe_edges(cache: NodeCache, request: DescribeEdges) -> Step[tuple[Edge | None, ...]]:
    """Return what joins pairs of nodes, None where nothing does."""
    flat = yield from _nodes_read(cache, [chunk_id for pair in request.pairs for chunk_id in pair])
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return tuple(edge_between(one, other, cache.about.kinds) for one, other in pairs)


def _whole(cache: NodeCache, chunk_ids: Sequence[str]) -> Step[list[GraphNode]]:
    """Return nodes that the graph itself has named."""
    found = yield from _nodes_read(cache, chunk_ids)
    nodes = [node for node in found if node is not None]
    if len(nodes) < len(chunk_ids):
        what = f"{len(chunk_ids) - len(nodes)} nodes to which edges lead are not there; nothing was changed"
        raise LibraryError(cache.index, what, "the graph written again, by `upload_graph`")
    return nodes


def _nodes_read(cache: NodeCache, chunk_ids: Iterable[str]) -> Step[list[GraphNode | None]]:
    """Return the node of each id, None where the graph has none; only those that are not on the cache are read."""
    wanted = list(chunk_ids)
    found = cache.known(wanted)
    missing = {key_of(chunk_id): chunk_id for chunk_id in wanted if chunk_id not in found}
    try:
        sources = yield from kept_by_id(cache.index, missing, {}, purpose="graph", at_once=_AT_ONCE)
    except ServerError as error:
        if error.kind == "index_not_found_exception":
            raise ReplacedError from None
        raise
    kinds = len(cache.about.kinds)
    read = {at: node_of(sources[key], kinds) if key in sources else None for key, at in missing.items()}
    cache.keep(read)
    found |= read
    return [found[chunk_id] for chunk_id in wanted]


def _searched(cache: NodeCache, body: dict[str, Any]) -> Step[Any]:
    call = Call(method="POST", path=f"/{quoted(cache.index)}/_search", body=body, missing_ok=True, purpose="graph")
    (answer,) = yield from ask([call])
    if answer is None:
        raise ReplacedError
    if answer.get("timed_out") or answer.get("_shards", {}).get("failed"):
        raise ServerError(cache.index, "not all shards answered; nothing was changed", retry=True)
    return answer


def nodes_of(found: Sequence[GraphNode], words: Sequence[str], dim: int) -> Nodes:
    """Return nodes as arrays, in this order, with how often each word is in each."""
    shape = (len(found), len(words))
    return Nodes(
        ids=tuple(node.id for node in found),
        vectors=np.array([node.vector for node in found], np.float32).reshape(len(found), dim),
        counts=np.array([[node.counts.get(word, 0) for word in words] for node in found], np.int32).reshape(shape),
        in_title=np.array([[word in node.titled for word in words] for node in found], np.bool_).reshape(shape),
        lengths=np.array([node.length for node in found], np.int32),
        title_lengths=np.array([node.title_length for node in found], np.int32),
    )


def asked_kinds(kinds: Sequence[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds of edge to follow, sorted.

    Raises:
        ParameterError: a kind that the graph does not have.
    """
    asked = known if kinds is None else tuple(sorted(set(kinds)))
    if unknown := [kind for kind in asked if kind not in known]:
        raise ParameterError("kind of edge", unknown[0], f"one of {', '.join(known)}")
    return asked


def followed(
    node: GraphNode, kinds: tuple[str, ...], known: tuple[str, ...]
) -> tuple[list[str], NDArray[np.float32]]:
    """Return the neighbours to which some kinds of edge lead, ascending, and the weights, a row for each of them."""
    if kinds == known:
        return list(node.neighbours), node.weights
    weights = node.weights[:, [known.index(kind) for kind in kinds]]
    joined = weights.any(axis=1)
    return [node.neighbours[row] for row in np.flatnonzero(joined).tolist()], weights[joined]


def neighbourhood(
    sources: Sequence[str],
    edges: Sequence[tuple[list[str], NDArray[np.float32]]],
    nodes: Nodes,
    kinds: tuple[str, ...],
) -> Neighbourhood:
    """Return the neighbours of some nodes.

    Args:
        sources: ids of these, distinct.
        edges: of each, as `followed` gives them.
        nodes: all to which an edge leads, by ascending id.
        kinds: of edges that were followed.
    """
    places = {chunk_id: place for place, chunk_id in enumerate(nodes.ids)}
    target = [places[chunk_id] for ids, _ in edges for chunk_id in ids]
    weights = [rows for _, rows in edges]
    return Neighbourhood(
        sources=tuple(sources),
        nodes=nodes,
        source=np.repeat(np.arange(len(edges), dtype=np.int32), [len(ids) for ids, _ in edges]),
        target=np.array(target, np.int32),
        kinds=kinds,
        weights=np.concatenate([np.empty((0, len(kinds)), np.float32), *weights]),
    )


def edge_between(one: GraphNode | None, other: GraphNode | None, kinds: tuple[str, ...]) -> Edge | None:
    """Return what joins two nodes, seen from the first, with the words that they share; None where nothing does."""
    if one is None or other is None or other.id not in one.neighbours:
        return None
    weights = one.weights[one.neighbours.index(other.id)].tolist()
    by_kind = {kind: weight for kind, weight in zip(kinds, weights, strict=True) if weight}
    words = {kind: _shared(one, other, kind) for kind in by_kind}
    return Edge(weights=by_kind, words={kind: shared for kind, shared in words.items() if shared})


def _shared(one: GraphNode, other: GraphNode, kind: str) -> tuple[str, ...]:
    if kind == MENTION:
        return tuple(printed for title, printed in other.titles if title in one.says)
    if kind == MENTIONED:
        return tuple(printed for title, printed in one.titles if title in other.says)
    found = frozenset(other.terms.get(kind, ()))
    return tuple(term for term in one.terms.get(kind, ()) if term in found)


def best_covering(
    covered: Mapping[str, float], vectors: Mapping[str, NDArray[np.float32]], question: NDArray[np.float32], k: int
) -> list[str]:
    """Return the ids of the k nodes that cover most terms; ties by the dot product with the question, then by id.

    Args:
        covered: by id, the number of terms that a node covers.
        vectors: of these nodes.
        question: its vector.
        k: >= 0.
    """
    ids = sorted(covered)
    if not ids:
        return []
    near = np.array([vectors[each] for each in ids], np.float32) @ question
    order = np.lexsort((np.arange(len(ids)), -near, np.array([-covered[each] for each in ids])))
    return [ids[place] for place in order[:k].tolist()]
