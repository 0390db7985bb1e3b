"""What a server takes: to start, to take chunks in, and to answer, beside the frameworks' own hybrid retrieval."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import quantiles
from time import perf_counter, sleep
from typing import Any

from catena.effects import Handler, SearchFused, Services
from catena.effects import run as run_step
from catena.retrieval import ScoreFusion, retrieve
from catena.server import (
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
from catena_bench.server_material import Material, grown, material, some
from catena_bench.server_peers import Ask, peers
from catena_bench.servers import elasticsearch

NAME = "catena-bench-speed"
K = 10
ONE_REQUEST = "formula_one_request"
SIZES = (10_000, 100_000, 1_000_000)
PORTION = 5_000  # chunks made ready before the clock runs
WARM = 10  # questions before the clock runs
USUAL_BEST = 20.0  # BM25 that counts as 1, where one request is all there may be
SETTLED_SECONDS = 600.0  # that merging may take after writing, at most
Figures = dict[str, float]


def run(
    data: Path | None = None,
    *,
    chunks: int = 10_000,
    nodes: int = 1,
    shards: int = 1,
    questions: int = 100,
    seed: int = 0,
    tell: Callable[[str], None] = lambda message: None,
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
        `disk_bytes.FIELD` for what takes most. SYSTEM is "formula" (all it takes until the ranking is certified),
        "formula_one_request" (counts of words known, and a fixed BM25 that counts as 1: one request), "retrieve" (the
        default search), "langchain_hybrid" and "llamaindex_hybrid", where they are installed: a sum of vector search
        and match, by the server's analysis.
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
        number -= len(portion)
        start = perf_counter()
        run_step(send(portion, to, BulkOptions()), services).check("the benchmark's chunks")
        seconds += perf_counter() - start
    start = perf_counter()
    store.refresh()
    return seconds + perf_counter() - start


def _asked(
    transport: ElasticsearchTransport, store: ServerStore, held: Material, others: Mapping[str, Ask]
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
        cuts = quantiles(taken, n=20, method="inclusive")
        figures[f"query_ms_p50.{name}"], figures[f"query_ms_p95.{name}"] = cuts[9], cuts[18]
        if name not in others:
            figures[f"requests.{name}"] = calls[name] / len(taken)
    counted.restore()
    return figures | _disk(transport, store)


def _ours(transport: ElasticsearchTransport, layout: IndexLayout, held: Material) -> dict[str, Ask]:
    """Return our systems; but for the first, none keeps counts of words from one question to the next."""
    one_request = ServerStore(
        transport, layout, ServerOptions(facts_seconds=3_600.0, fused=FusedOptions(exact=False))
    )
    parts = ScoreFusion().parts
    weights = tuple(sorted((name, parts[name][0]) for name in ("dense", "keyword", "lexical")))

    def formula(store: ServerStore, question: str, k: int, best: float | None) -> list[str]:
        vector = held.embedder.embed_query(question)
        found = store.search_fused(SearchFused(query=question, k=k, weights=weights, vector=vector, best=best))
        if found is None:  # more critical terms than one request takes
            return []
        return [hit.chunk.id for hit in found.ranking.hits]

    def searched(question: str, k: int) -> list[str]:
        services = Services(store=ServerStore(transport, layout), embedder=held.embedder)
        return [hit.chunk.id for hit in run_step(retrieve(question, k=k), services).hits]

    return {
        "formula": lambda question, k: formula(ServerStore(transport, layout), question, k, None),
        ONE_REQUEST: lambda question, k: formula(one_request, question, k, USUAL_BEST),
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
