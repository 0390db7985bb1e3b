"""Measure a server: starting, taking chunks in, and answering, beside the frameworks' own hybrid retrieval.

Both can also fuse by rank inside the server, which needs a licence and a module that the free server has not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from logging import ERROR, getLogger
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

from catena import Ranking, ScoreFusion, Services
from catena import run as run_step
from catena.effects import Handler, SearchFused, Step
from catena.enrichment import StaticEmbedder
from catena.retrieval import DEFAULT_ROUTES, retrieve
from catena.store import LibraryStore
from catena_bench.figures import Figures, Tell, percentiles, silent
from catena_bench.server_material import ServerMaterial, grown, material, some
from catena_bench.servers import elasticsearch
from catena_server import (
    Action,
    BulkOptions,
    Call,
    ElasticsearchTransport,
    FusedOptions,
    IndexLayout,
    Pause,
    ServerOptions,
    ServerStore,
    send,
    targets,
)

Ask = Callable[[str, int], list[str]]
"""From a question and the number of hits to the ids of chunks, best first."""

CANDIDATES = 200  # of the vector search: as many as ours looks at
TEXT = "text"  # the field that a server's own analysis reads, beside our words


NAME = "catena-bench-speed"
K = 10
ONE_REQUEST = "formula_one_request"
SIZES = (10_000, 100_000, 1_000_000)
PORTION = 5_000  # chunks made ready before the clock runs
WARM = 10  # questions before the clock runs
SETTLED_SECONDS = 600.0  # that merging may take after writing, at most
FIRST = 20
CLOSE = 1e-4  # of a score: servers add in 32 bits
PARITY_NAME = "catena-bench-parity"


@contextmanager
def peers(url: str, layout: IndexLayout, embedder: StaticEmbedder) -> Iterator[dict[str, Ask]]:
    """Yield who of the two is installed, by name; their connections are closed afterwards."""
    makers = {"langchain_hybrid": _langchain, "llamaindex_hybrid": _llamaindex}
    found: dict[str, Ask] = {}
    with ExitStack() as closing:
        for name, make in makers.items():
            try:
                found[name] = make(url, layout, embedder, closing)
            except ImportError:
                continue
        yield found


def _langchain(url: str, layout: IndexLayout, embedder: StaticEmbedder, closing: ExitStack) -> Ask:
    from elasticsearch import Elasticsearch
    from langchain_core.embeddings import Embeddings
    from langchain_elasticsearch import DenseVectorStrategy, ElasticsearchStore

    class Ours(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            rows: list[list[float]] = embedder.embed_documents(texts).tolist()
            return rows

        def embed_query(self, text: str) -> list[float]:
            row: list[float] = embedder.embed_query(text).tolist()
            return row

    client = Elasticsearch(url)
    closing.callback(client.close)
    store = ElasticsearchStore(
        index_name=layout.alias("chunks"),
        embedding=Ours(),
        client=client,  # made from the address, it asks `GET /` first, which servers may deny
        query_field=TEXT,
        vector_query_field=layout.vector(),
        strategy=DenseVectorStrategy(hybrid=True, rrf=False),
    )

    def of(hit: dict[str, Any]) -> Any:
        from langchain_core.documents import Document

        return Document(page_content=hit["_source"].get(TEXT, ""), metadata={"id": hit["_id"]})

    def ask(question: str, k: int) -> list[str]:
        found = store.similarity_search(question, k=k, fetch_k=CANDIDATES, doc_builder=of)
        return [document.metadata["id"] for document in found]

    return ask


def _llamaindex(url: str, layout: IndexLayout, embedder: StaticEmbedder, closing: ExitStack) -> Ask:
    from elasticsearch import AsyncElasticsearch
    from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
    from llama_index.vector_stores.elasticsearch import AsyncDenseVectorStrategy, ElasticsearchStore

    getLogger("llama_index.vector_stores.elasticsearch").setLevel(ERROR)  # it warns of each hit that it did not write
    client, loop = AsyncElasticsearch(url), asyncio.new_event_loop()
    closing.callback(loop.close)
    closing.callback(lambda: loop.run_until_complete(client.close()))
    store = ElasticsearchStore(
        index_name=layout.alias("chunks"),
        es_client=client,
        text_field=TEXT,
        vector_field=layout.vector(),
        retrieval_strategy=AsyncDenseVectorStrategy(hybrid=True, rrf=False),
    )

    def ask(question: str, k: int) -> list[str]:
        query = VectorStoreQuery(
            query_str=question,
            query_embedding=embedder.embed_query(question).tolist(),
            similarity_top_k=k,
            mode=VectorStoreQueryMode.HYBRID,
        )
        found = loop.run_until_complete(store.aquery(query))
        return list(found.ids or ())

    return ask


def run(
    data: Path | None = None,
    *,
    chunks: int = 10_000,
    nodes: int = 1,
    shards: int = 1,
    questions: int = 100,
    seed: int = 0,
    tell: Tell = silent,
) -> Figures:
    """Start Elasticsearch, fill one index with more and more chunks, and ask it at each size.

    Chunks are those of the collection and look-alikes grown from them, see `catena_bench.server_material`; ready
    before the clock runs, so that what is measured is the server and its client. Every system asks the same index,
    the same vectors and ten hits, in turn for each question, on one connection, embedding included.

    Args:
        data: a directory of the layout that `catena_bench.collection` states; generated manuals where None.
        chunks: of the largest index; of 10,000, 100,000 and 1,000,000 those below it are asked, too.
        nodes: of the cluster, each a process on this machine.
        shards: of the index.
        questions: asked at each size.
        seed: of the look-alikes.
        tell: is told how far the run is.

    Returns:
        `start_seconds`; with `.N` behind, N the number of chunks: `indexed_per_second` since the size before,
        `settle_seconds` of merging after it, `query_ms_p50.SYSTEM`, `query_ms_p95.SYSTEM`, `requests.SYSTEM` (calls
        to the server for one question, on average, ours only), and `disk_bytes` (of the chunks' primaries) with
        `disk_bytes.FIELD` for what takes most. SYSTEM is "formula" (all it takes until the ranking is fused_hits),
        "formula_one_request" (counts of words and the best documents known: the best BM25, and one request),
        "retrieve" (the default search), "langchain_hybrid" and "llamaindex_hybrid", where they are installed: a sum
        of vector search and match, by the server's analysis.
        `characters`: of a chunk, on average.
    """
    held = material(data, questions=questions)
    with elasticsearch(nodes=nodes, heap="2g" if nodes == 1 else "1g") as cluster:
        tell(f"started in {cluster.started_in:.1f} s")
        transport = ElasticsearchTransport.connect(cluster.urls)
        embedder = held.embedder
        store = ServerStore.open(
            transport, NAME, embedder_identity=embedder.identity, dim=embedder.dim, shards=shards
        )
        figures = {"start_seconds": cluster.started_in, "characters": held.characters}
        try:
            store.put(held.entries[:1])  # makes the fields of its kinds of view
            store.delete(held.entries[0][0].document.id)
            _also_for_peers(transport, store)
            written, actions = 0, grown(held, store.layout, seed=seed)
            with peers(cluster.urls[0], store.layout, embedder) as others:
                for size in (*(size for size in SIZES if size < chunks), chunks):
                    seconds = _fill(transport, store, actions, size - written)
                    figures[f"indexed_per_second.{size}"] = (size - written) / seconds
                    written = size
                    tell(f"{size:,} chunks, {figures[f'indexed_per_second.{size}']:,.0f} a second")
                    asked = _asked(transport, store, held, others)
                    figures |= {f"{key}.{size}": value for key, value in asked.items()}
                    tell(f"{size:,} chunks: {_told(figures, size)}")
        finally:
            store.close()
    return figures


def _services(transport: Any) -> Services:
    return Services(
        handlers={
            Call: Handler(identity=transport.identity, call=transport.perform),
            Pause: Handler(identity="pause", call=lambda pause: sleep(pause.seconds)),
        }
    )


def _also_for_peers(transport: ElasticsearchTransport, store: ServerStore) -> None:
    """Let the server analyse the text as well: the frameworks match it there, where ours has its own words."""
    path = f"/{store.layout.alias('chunks')}/_mapping"
    transport.perform(Call(method="PUT", path=path, body={"properties": {"text": {"type": "text"}}}))


def _fill(transport: Any, store: ServerStore, actions: Iterator[Action], number: int) -> float:
    """Write the next chunks and return the seconds for which the server was asked to take them, refresh included."""
    services, to, seconds = _services(transport), targets(store.layout), 0.0
    while number > 0:
        portion = some(actions, min(PORTION, number))
        number -= sum(action.part == "chunks" for action in portion)
        start = perf_counter()
        run_step(send(portion, to, BulkOptions()), services).check("the benchmark's chunks")
        seconds += perf_counter() - start
    start = perf_counter()
    store.refresh()
    return seconds + perf_counter() - start


def _asked(
    transport: ElasticsearchTransport, store: ServerStore, held: ServerMaterial, others: Mapping[str, Ask]
) -> Figures:
    figures: Figures = {"settle_seconds": _settled(transport, store)}
    counted = _Counting(transport)
    asks = {**_ours(transport, store.layout, held), **others}
    times: dict[str, list[float]] = {name: [] for name in asks}
    calls: dict[str, int] = dict.fromkeys(asks, 0)
    for at, question in enumerate((*held.questions[:WARM], *held.questions)):
        for name, ask in asks.items():
            if name == ONE_REQUEST:
                ask(question, K)  # so that the counts of the question's words are known
            before = counted.calls
            start = perf_counter()
            ask(question, K)
            if at >= WARM:
                times[name].append((perf_counter() - start) * 1_000)
                calls[name] += counted.calls - before
    for name, taken in times.items():
        figures |= percentiles("query_ms", taken, of=name)
        if name not in others:
            figures[f"requests.{name}"] = calls[name] / len(taken)
    counted.restore()
    return figures | _disk(transport, store)


def _ours(transport: ElasticsearchTransport, layout: IndexLayout, held: ServerMaterial) -> dict[str, Ask]:
    """Return our systems; but for the first, none keeps counts of words from one question to the next."""
    one_request = ServerStore(
        transport, layout, ServerOptions(counts_seconds=3_600.0, fused=FusedOptions(exact=False))
    )
    parts = ScoreFusion.hiqa().parts()
    weights = tuple(sorted((name, parts[name][0]) for name in ("dense", "keyword", "lexical")))

    def formula(store: ServerStore, question: str, k: int) -> list[str]:
        vector = held.embedder.embed_query(question)
        found = store.search_fused(SearchFused(query=question, k=k, weights=weights, vector=vector))
        if found is None:  # more critical terms than one request takes
            return []
        return [hit.chunk.id for hit in found.ranking.hits]

    def searched(question: str, k: int) -> list[str]:
        services = Services(store=ServerStore(transport, layout), embedder=held.embedder)
        return [hit.chunk.id for hit in run_step(retrieve(question, k=k), services).hits]

    return {
        "formula": lambda question, k: formula(ServerStore(transport, layout), question, k),
        ONE_REQUEST: lambda question, k: formula(one_request, question, k),
        "retrieve": searched,
    }


class _Counting:
    """Counts the calls of a transport, whoever makes them."""

    def __init__(self, transport: ElasticsearchTransport) -> None:
        self.calls = 0
        self._transport, self._perform = transport, transport.perform

        def perform(call: Call) -> Any:
            self.calls += 1
            return self._perform(call)

        transport.perform = perform  # type: ignore[method-assign]

    def restore(self) -> None:
        """Stop counting."""
        self._transport.perform = self._perform  # type: ignore[method-assign]


def _settled(transport: ElasticsearchTransport, store: ServerStore) -> float:
    """Wait until the server merges nothing any more, and return the seconds."""
    start = perf_counter()
    path = f"/{store.layout.alias('chunks')}/_stats/merge"
    while perf_counter() - start < SETTLED_SECONDS:
        merges = transport.perform(Call(method="GET", path=path))["_all"]["total"]["merges"]
        if not merges["current"]:
            break
        sleep(0.5)
    return perf_counter() - start


def _disk(transport: ElasticsearchTransport, store: ServerStore) -> Figures:
    """Return the bytes of the chunks on disk: of all, and of each field that takes a hundredth or more."""
    alias = store.layout.alias("chunks")
    usage = transport.perform(
        Call(method="POST", path=f"/{alias}/_disk_usage", params={"run_expensive_tasks": True}, seconds=300.0)
    )
    # After it, as it flushes: before, what was merged away still lies there.
    stats = transport.perform(Call(method="GET", path=f"/{alias}/_stats/store"))
    total = float(stats["_all"]["primaries"]["store"]["size_in_bytes"])
    of_fields: Figures = {}
    for index, said in usage.items():
        if index == "_shards":
            continue
        for field, uses in said["fields"].items():
            of_fields[field] = of_fields.get(field, 0.0) + float(uses["total_in_bytes"])
    shown = {f"disk_bytes.{field}": size for field, size in of_fields.items() if size >= 0.01 * total}
    return {"disk_bytes": total, **shown}


def _told(figures: Figures, size: int) -> str:
    names = [key.split(".")[1] for key in figures if key.startswith("query_ms_p50.") and key.endswith(f".{size}")]
    return ", ".join(f"{name} {figures[f'query_ms_p50.{name}.{size}']:.1f} ms" for name in names)


def parity(
    data: Path | None = None, *, questions: int = 1_000_000, depth: int = 0, nodes: int = 1, tell: Tell = silent
) -> Figures:
    """Put a collection into the embedded library and on an Elasticsearch that is started here, and ask both.

    Args:
        data: a directory of the layout that `catena_bench.collection` states; generated manuals where None.
        questions: how many of its questions, at most.
        depth: hits per route of the embedded library, which looks no deeper; 0 for all of its chunks, so that both
            rank everything by the formula (seconds a question).
        nodes: of the server, each with a shard.
        tell: is told how far the run is.

    Returns:
        For SYSTEM "retrieve" (the default search, shares of names included), "formula" (HiQA's, without names: one
        request of the server), and each route: `same.SYSTEM`, the share of the questions whose first 20 are the same
        chunks in the same order; `same_set.SYSTEM`, whose first 20 are the same chunks; `close.SYSTEM`, whose scores
        at each rank differ by at most 1e-4; `largest.SYSTEM`, the largest difference at a rank. `n_questions`,
        `n_chunks`, `start_seconds`.
    """
    held = material(data, questions=questions)
    tell(f"{held.chunks:,} chunks, {len(held.questions):,} questions")
    with elasticsearch(nodes=nodes) as cluster, TemporaryDirectory(prefix="catena-bench-") as folder:
        with _embedded(held, Path(folder)) as library, _on_server(held, cluster.urls, nodes) as server:
            tell("both are filled")
            figures = compared(held, library, server, depth=depth or held.chunks, tell=tell)
        return figures | {"start_seconds": cluster.started_in, "n_shards": float(nodes)}


def compared(held: ServerMaterial, one: Services, other: Services, *, depth: int, tell: Tell = silent) -> Figures:
    """Return how often two stores of the same chunks rank the same; see `parity`."""
    systems: Mapping[str, Callable[[str], Step[Ranking]]] = {
        "retrieve": partial(retrieve, k=FIRST, depth=depth, on_route_error="raise"),
        "formula": partial(
            retrieve, k=FIRST, depth=depth, fusion=ScoreFusion.hiqa(), by_name=False, on_route_error="raise"
        ),
        **{route: partial(retrieve, k=FIRST, routes=(route,), on_route_error="raise") for route in DEFAULT_ROUTES},
    }
    figures = {"n_questions": float(len(held.questions)), "n_chunks": float(held.chunks)}
    for name, step in systems.items():
        pairs = [
            tuple(run_step(step(question), services) for services in (one, other)) for question in held.questions
        ]
        figures |= {f"{key}.{name}": value for key, value in _agreement(pairs).items()}
        tell(f"{name}: the same order for {figures[f'same.{name}']:.1%}")
    return figures


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
def _embedded(held: ServerMaterial, folder: Path) -> Iterator[Services]:
    embedder = held.embedder
    with LibraryStore.open(folder / "library", embedder_identity=embedder.identity, dim=embedder.dim) as store:
        store.add(held.entries)
        yield Services(store=store, embedder=embedder)


@contextmanager
def _on_server(held: ServerMaterial, urls: Sequence[str], shards: int) -> Iterator[Services]:
    embedder = held.embedder
    store = ServerStore.open(
        ElasticsearchTransport.connect(list(urls)),
        PARITY_NAME,
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
