"""A chunk-interaction graph on a search server, walked as one in memory is: a hop takes two look-ups at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from catena.effects import Retry, Step, arun, run
from catena.model.errors import ParameterError, ServerError
from catena.model.neighbourhood import Neighbourhood, Nodes, WordCounts
from catena.server import graph_reading as reading
from catena.server.call import Transport
from catena.server.graph_index import GraphAbout
from catena.server.graph_shelf import Shelf
from catena.server.layout import check_name
from catena.server.store import ServerOptions, calling

if TYPE_CHECKING:
    from catena.effects import (
        CheckGraph,
        CountEdges,
        CountWords,
        DescribeEdges,
        Expand,
        FetchById,
        FetchNodes,
        FindCovering,
    )
    from catena.model import Chunk, Edge

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
        self._shelf: Shelf | None = None

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
        return self._run(lambda shelf: reading.expand(shelf, request))

    async def aexpand(self, request: Expand) -> Neighbourhood:
        """As `expand`."""
        return await self._arun(lambda shelf: reading.expand(shelf, request))

    def nodes(self, request: FetchNodes) -> Nodes:
        """Return nodes by id, in the order asked for, without those that it does not have."""
        return self._run(lambda shelf: reading.nodes_by_id(shelf, request))

    async def anodes(self, request: FetchNodes) -> Nodes:
        """As `nodes`."""
        return await self._arun(lambda shelf: reading.nodes_by_id(shelf, request))

    def count_words(self, request: CountWords) -> WordCounts:
        """Return in how many nodes each word is."""
        return self._run(lambda shelf: reading.count_words(shelf, request))

    async def acount_words(self, request: CountWords) -> WordCounts:
        """As `count_words`."""
        return await self._arun(lambda shelf: reading.count_words(shelf, request))

    def chunks_by_id(self, request: FetchById) -> tuple[Chunk | None, ...]:
        """Return the chunk of each id, None where there is none."""
        return self._run(lambda shelf: reading.chunks_by_id(shelf, request))

    async def achunks_by_id(self, request: FetchById) -> tuple[Chunk | None, ...]:
        """As `chunks_by_id`."""
        return await self._arun(lambda shelf: reading.chunks_by_id(shelf, request))

    def covering(self, request: FindCovering) -> Nodes:
        """Return the nodes that cover most of some terms, best first, `k` at most.

        All nodes that cover as many terms as the k-th are compared with the question: a term that very many nodes
        hold costs the transfer of their vectors.

        Raises:
            ParameterError: the vector of the question is of another length than the nodes'.
        """
        return self._run(lambda shelf: reading.most_covering(shelf, request))

    async def acovering(self, request: FindCovering) -> Nodes:
        """As `covering`."""
        return await self._arun(lambda shelf: reading.most_covering(shelf, request))

    def describe_edges(self, request: DescribeEdges) -> tuple[Edge | None, ...]:
        """Return what joins pairs of chunks, each seen from its first; None where nothing does."""
        return self._run(lambda shelf: reading.describe_edges(shelf, request))

    async def adescribe_edges(self, request: DescribeEdges) -> tuple[Edge | None, ...]:
        """As `describe_edges`."""
        return await self._arun(lambda shelf: reading.describe_edges(shelf, request))

    def count_edges(self, request: CountEdges) -> tuple[int, ...]:
        """Return how many neighbours nodes have, by whatever kinds; 0 for what it does not have."""
        return self._run(lambda shelf: reading.count_edges(shelf, request))

    async def acount_edges(self, request: CountEdges) -> tuple[int, ...]:
        """As `count_edges`."""
        return await self._arun(lambda shelf: reading.count_edges(shelf, request))

    def _run(self, work: Callable[[Shelf], Step[T]]) -> T:
        return run(self._of_one_graph(work), self._services)

    async def _arun(self, work: Callable[[Shelf], Step[T]]) -> T:
        return await arun(self._of_one_graph(work), self._services)

    def _of_one_graph(self, work: Callable[[Shelf], Step[T]]) -> Step[T]:
        """Return what is read of the graph; once more where another one took its place meanwhile."""
        for _ in range(_TRIES):
            shelf = self._shelf or (yield from self._opened())
            try:
                return (yield from work(shelf))
            except reading.ReplacedError:
                self._shelf = None
        what = f"the graph was replaced {_TRIES} times while it was read; nothing was changed"
        raise ServerError(self.identity, what, retry=True)

    def _opened(self) -> Step[Shelf]:
        """Return the shelf of the index that the alias points to now."""
        index, about = yield from reading.present(self._name)
        shelf = self._shelf
        if shelf is None or shelf.index != index:
            shelf = self._shelf = Shelf(index, about, self._kept)
        return shelf
