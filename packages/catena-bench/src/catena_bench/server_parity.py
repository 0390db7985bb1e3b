"""Does a server rank as the embedded library? The same chunks in both, the same questions, the first twenty."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from catena.effects import Services, Step
from catena.effects import run as run_step
from catena.model import Ranking
from catena.retrieval import DEFAULT_ROUTES, retrieve
from catena.server import ElasticsearchTransport, ServerStore
from catena.store import LibraryStore
from catena_bench.server_material import Material, material
from catena_bench.servers import elasticsearch

K = 20
CLOSE = 1e-4  # of a score: servers add in 32 bits
NAME = "catena-bench-parity"


def run(
    data: Path | None = None,
    *,
    questions: int = 1_000_000,
    depth: int = 0,
    nodes: int = 1,
    tell: Callable[[str], None] = lambda message: None,
) -> dict[str, float]:
    """Put a collection into the embedded library and on an Elasticsearch that is started here, and ask both.

    Args:
        data: a directory of the layout that `catena_bench.collection` states; generated manuals where None.
        questions: how many of its questions, at most.
        depth: hits per route of the embedded library, which looks no deeper; 0 for all of its chunks, so that both
            rank everything by the formula (seconds a question).
        nodes: of the server, each with a shard.
        tell: is told how far the run is.

    Returns:
        For SYSTEM "retrieve" (the default search, shares of names included), "formula" (without names), and each
        route: `same.SYSTEM`, the share of the questions whose first 20 are the same chunks in the same order;
        `same_set.SYSTEM`, whose first 20 are the same chunks; `close.SYSTEM`, whose scores at each rank differ by at
        most 1e-4; `largest.SYSTEM`, the largest difference at a rank. `n_questions`, `n_chunks`, `start_seconds`.
    """
    held = material(data, questions=questions)
    tell(f"{held.chunks:,} chunks, {len(held.questions):,} questions")
    with elasticsearch(nodes=nodes) as cluster, TemporaryDirectory(prefix="catena-bench-") as folder:
        with _embedded(held, Path(folder)) as library, _on_server(held, cluster.urls, nodes) as server:
            tell("both are filled")
            figures = compared(held, library, server, depth=depth or held.chunks, tell=tell)
        return figures | {"start_seconds": cluster.started_in, "n_shards": float(nodes)}


def compared(
    held: Material,
    one: Services,
    other: Services,
    *,
    depth: int,
    tell: Callable[[str], None] = lambda message: None,
) -> dict[str, float]:
    """Return how often two stores of the same chunks rank the same; see `run`."""
    systems: Mapping[str, Callable[[str], Step[Ranking]]] = {
        "retrieve": lambda question: retrieve(question, k=K, depth=depth, on_route_error="raise"),
        "formula": lambda question: retrieve(question, k=K, depth=depth, by_name=False, on_route_error="raise"),
        **{route: _route(route) for route in DEFAULT_ROUTES},
    }
    figures = {"n_questions": float(len(held.questions)), "n_chunks": float(held.chunks)}
    for name, step in systems.items():
        pairs = [
            tuple(run_step(step(question), services) for services in (one, other)) for question in held.questions
        ]
        figures |= {f"{key}.{name}": value for key, value in _agreement(pairs).items()}
        tell(f"{name}: the same order for {figures[f'same.{name}']:.1%}")
    return figures


def _route(route: str) -> Callable[[str], Step[Ranking]]:
    return lambda question: retrieve(question, k=K, routes=(route,), on_route_error="raise")


def _agreement(pairs: Sequence[tuple[Ranking, ...]]) -> dict[str, float]:
    same = same_set = close = 0
    largest = 0.0
    for one, other in pairs:
        mine, theirs = ([hit.chunk.id for hit in ranking.hits] for ranking in (one, other))
        apart = [abs(a.score - b.score) for a, b in zip(one.hits, other.hits, strict=False)]
        same += mine == theirs
        same_set += set(mine) == set(theirs)
        close += len(mine) == len(theirs) and max(apart, default=0.0) <= CLOSE
        largest = max(largest, *apart, 0.0)
    n = max(1, len(pairs))
    return {"same": same / n, "same_set": same_set / n, "close": close / n, "largest": largest}


@contextmanager
def _embedded(held: Material, folder: Path) -> Iterator[Services]:
    embedder = held.embedder
    with LibraryStore.open(folder / "library", embedder_identity=embedder.identity, dim=embedder.dim) as store:
        store.add(held.entries)
        yield Services(store=store, embedder=embedder)


@contextmanager
def _on_server(held: Material, urls: Sequence[str], shards: int) -> Iterator[Services]:
    embedder = held.embedder
    store = ServerStore.open(
        ElasticsearchTransport.connect(list(urls)),
        NAME,
        embedder_identity=embedder.identity,
        dim=embedder.dim,
        shards=shards,
    )
    try:
        store.put(held.entries)
        store.refresh()
        yield Services(store=store, embedder=embedder)
    finally:
        store.close()
