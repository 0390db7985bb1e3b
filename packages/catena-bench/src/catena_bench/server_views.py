"""Compare three places for the views of a chunk on a server: its fields, nested documents, or a document each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from catena import ServerError, Services
from catena import run as run_step
from catena.enrichment import Keywords, Summaries, with_views
from catena.library import embed
from catena.model import DEFAULT, DEFAULT_VIEW
from catena_bench.figures import Figures, Tell, percentiles, silent
from catena_bench.server_material import ServerMaterial, grown, material
from catena_bench.servers import elasticsearch
from catena_server import Call, ElasticsearchTransport, IndexLayout, Transport, field_name, indexed_words

KINDS = (DEFAULT_VIEW, "keywords", "summary")
MAKERS = (Keywords(by="offline"), Summaries(by="offline", over_tokens=30, words=40))
K = 10
NEAREST = 100  # vectors of each kind that a search ranks
CANDIDATES = 200
PORTION = 1_000  # chunks written to one layout before the next one has its turn
IN_A_REQUEST = 250  # chunks
CLOSE = 1e-4  # of a score
WARM = 10  # questions before the clock runs
_WORDS = {"type": "text", "analyzer": "whitespace", "index_options": "freqs"}
_KEPT = {"type": "object", "enabled": False}
Query = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkViews:
    """A chunk with the words and the vector of each of its kinds of view."""

    id: str
    kept: Mapping[str, Any]  # what comes back with a hit
    words: Mapping[str, str]
    vectors: Mapping[str, Sequence[float]]


class Fields:
    """A field of words and one of vectors for each kind: at most one view of a kind."""

    def properties(self, vector: Query) -> Query:
        """Return the mapping of the fields, given that of a vector."""
        groups = {"words": _WORDS, "vectors": vector}
        return {name: {"properties": dict.fromkeys(KINDS, field)} for name, field in groups.items()}

    def documents(self, chunk: ChunkViews) -> Iterator[tuple[str, Query]]:
        """Yield the documents of a chunk, with their ids."""
        yield chunk.id, {"kept": chunk.kept, "words": chunk.words, "vectors": chunk.vectors}

    def nearest(self, vector: Sequence[float], kinds: Sequence[str]) -> Query:
        """Return the search for the chunks of which the nearest view is nearest (MaxP)."""
        return {"query": _best_of([_knn(f"vectors.{kind}", vector) for kind in kinds])}

    def matching(self, words: str, kinds: Sequence[str]) -> Query:
        """Return the search for the chunks of which the best view has the most telling words (MaxP)."""
        return {"query": _best_of([{"match": {f"words.{kind}": words}} for kind in kinds])}


class Nested:
    """Nested documents for each kind: any number of views of a kind."""

    def properties(self, vector: Query) -> Query:
        """Return the mapping of the fields, given that of a vector."""
        nested = {"type": "nested", "properties": {"words": _WORDS, "vector": vector}}
        return dict.fromkeys(KINDS, nested)

    def documents(self, chunk: ChunkViews) -> Iterator[tuple[str, Query]]:
        """Yield the documents of a chunk, with their ids."""
        views = {kind: [{"words": chunk.words[kind], "vector": chunk.vectors[kind]}] for kind in KINDS}
        yield chunk.id, {"kept": chunk.kept, **views}

    def nearest(self, vector: Sequence[float], kinds: Sequence[str]) -> Query:
        """Return the search for the chunks of which the nearest view is nearest (MaxP)."""
        return {"query": _best_of([_in_nested(kind, _knn(f"{kind}.vector", vector)) for kind in kinds])}

    def matching(self, words: str, kinds: Sequence[str]) -> Query:
        """Return the search for the chunks of which the best view has the most telling words (MaxP)."""
        return {"query": _best_of([_in_nested(kind, {"match": {f"{kind}.words": words}}) for kind in kinds])}


class Documents:
    """A document for each view, collapsed on the chunk; the chunk's own view holds what is kept of it."""

    def properties(self, vector: Query) -> Query:
        """Return the mapping of the fields, given that of a vector."""
        return {"chunk": {"type": "keyword"}, "kind": {"type": "keyword"}, "words": _WORDS, "vector": vector}

    def documents(self, chunk: ChunkViews) -> Iterator[tuple[str, Query]]:
        """Yield the documents of a chunk, with their ids."""
        for kind in KINDS:
            own = kind == DEFAULT_VIEW
            view = {"chunk": chunk.id, "kind": kind, "words": chunk.words[kind], "vector": chunk.vectors[kind]}
            yield (chunk.id, {**view, "kept": chunk.kept}) if own else (f"{chunk.id}-{kind}", view)

    def nearest(self, vector: Sequence[float], kinds: Sequence[str]) -> Query:
        """Return the search for the chunks of which the nearest view is nearest (MaxP)."""
        knn = _knn("vector", vector, times=len(kinds), only=_of_kinds(kinds))
        return {"query": knn, "collapse": {"field": "chunk"}}

    def matching(self, words: str, kinds: Sequence[str]) -> Query:
        """Return the search for the chunks of which the best view has the most telling words (MaxP)."""
        query = {"bool": {"must": [{"match": {"words": words}}], "filter": _of_kinds(kinds)}}
        return {"query": query, "collapse": {"field": "chunk"}}


ViewLayout = Fields | Nested | Documents
WAYS: Mapping[str, ViewLayout] = {"fields": Fields(), "nested": Nested(), "documents": Documents()}


def run(
    data: Path | None = None, *, chunks: int = 10_000, questions: int = 100, seed: int = 0, tell: Tell = silent
) -> Figures:
    """Start Elasticsearch, write the same chunks with three kinds of view in three layouts, and ask each.

    The views are made offline: the text under its headings, keywords, a summary. Writing goes round the layouts by
    portions, asking by questions, so that all see the same load; before it is asked, each index is merged into one
    segment. A search returns ten chunks with their text.

    Args:
        data: a directory of the layout that `catena_bench.collection` states; generated manuals where None.
        chunks: how many: those of the collection, then look-alikes grown from them.
        questions: of the collection, at most.
        seed: of the look-alikes.
        tell: is told how far the run is.

    Returns:
        With WAY "fields", "nested" and "documents" behind: `indexed_per_second` (chunks, refresh included),
        `disk_bytes`, `lucene_documents`; `query_ms_p50.SEARCH` and `query_ms_p95.SEARCH`, of SEARCH "dense_max" and
        "lexical_max" (the best of three kinds counts) and "dense_one" and "lexical_one" (summaries alone);
        `same.SEARCH`, the share of the questions whose first ten have the scores of those that "fields" finds.
        `n_chunks`, `n_questions`, `start_seconds`.
    """
    held = material(data, questions=questions)
    services = Services(embedder=held.embedder)
    entries = [run_step(with_views(entry, MAKERS), services)[0] for entry, _ in held.entries]
    held = replace(held, entries=tuple((entry, run_step(embed(entry), services)) for entry in entries))
    tell(f"{held.chunks:,} chunks of the collection have their views")
    rows = [*islice(_rows(held, seed), chunks)]
    with elasticsearch(heap="2g") as cluster:
        tell(f"started in {cluster.started_in:.1f} s")
        transport = ElasticsearchTransport.connect(cluster.urls)
        try:
            figures = measured(transport, rows, held, tell=tell)
        finally:
            transport.close()
    return figures | {"start_seconds": cluster.started_in}


def measured(transport: Transport, rows: Sequence[ChunkViews], held: ServerMaterial, *, tell: Tell) -> Figures:
    """Return the figures of one server; its indices are gone afterwards."""
    figures = {"n_chunks": float(len(rows)), "n_questions": float(len(held.questions))}
    try:
        figures |= _filled(transport, rows, held.embedder.dim)
        tell(", ".join(f"{way} {figures[f'indexed_per_second.{way}']:,.0f} chunks/s" for way in WAYS))
        figures |= _asked(transport, held)
    finally:
        for way in WAYS:
            _sent(transport, "DELETE", way, missing_ok=True)
    return figures


def _rows(held: ServerMaterial, seed: int) -> Iterator[ChunkViews]:
    """Yield chunks without an end that have every kind of view; a chunk without keywords has none, say."""
    layout = IndexLayout(name="views", dim=held.embedder.dim, embedder=held.embedder.identity)
    for action in grown(held, layout, seed=seed):
        if action.part != "chunks":
            continue
        source = action.source or {}
        words = {kind: source["words"].get(field_name(kind), "") for kind in KINDS}
        fields = {kind: field_name(DEFAULT if kind == DEFAULT_VIEW else kind) for kind in KINDS}
        vectors = {kind: source["vectors"].get(field) for kind, field in fields.items()}
        if all(words.values()) and all(vectors.values()):
            yield ChunkViews(id=action.id, kept={"text": source["text"]}, words=words, vectors=vectors)


def _filled(transport: Transport, rows: Sequence[ChunkViews], dim: int) -> dict[str, float]:
    seconds = dict.fromkeys(WAYS, 0.0)
    vector = {"type": "dense_vector", "dims": dim, "similarity": "cosine", "index_options": {"type": "int8_hnsw"}}
    for name, way in WAYS.items():
        _sent(transport, "DELETE", name, missing_ok=True)
        properties = {"kept": _KEPT, **way.properties(vector)}
        settings = {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"}
        body = {"settings": settings, "mappings": {"dynamic": False, "properties": properties}}
        _sent(transport, "PUT", name, body=body)
    for turn, at in enumerate(range(0, len(rows), PORTION)):
        names = list(WAYS)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            seconds[name] += _written(transport, name, rows[at : at + PORTION])
    figures: dict[str, float] = {}
    for name in WAYS:
        start = perf_counter()
        _sent(transport, "POST", name, "/_refresh", seconds=300.0)
        figures[f"indexed_per_second.{name}"] = len(rows) / (seconds[name] + perf_counter() - start)
        _sent(transport, "POST", name, "/_forcemerge", params={"max_num_segments": 1}, seconds=600.0)
        _sent(transport, "POST", name, "/_flush", seconds=300.0)
        total = _sent(transport, "GET", name, "/_stats/docs")["_all"]["primaries"]
        figures[f"lucene_documents.{name}"] = float(total["docs"]["count"])
        # not the size of the store, in which segments stay for a while that were merged into others
        usage = _sent(transport, "POST", name, "/_disk_usage", params={"run_expensive_tasks": True}, seconds=300.0)
        figures[f"disk_bytes.{name}"] = float(usage[_index(name)]["all_fields"]["total_in_bytes"])
    return figures


def _written(transport: Transport, name: str, rows: Sequence[ChunkViews]) -> float:
    """Write some chunks and return the seconds for which the server was asked to take them."""
    seconds = 0.0
    for at in range(0, len(rows), IN_A_REQUEST):
        lines: list[Query] = []
        for chunk in rows[at : at + IN_A_REQUEST]:
            for own_id, source in WAYS[name].documents(chunk):
                lines += [{"index": {"_id": own_id}}, source]
        start = perf_counter()
        reply = _sent(transport, "POST", name, "/_bulk", lines=lines, seconds=300.0)
        seconds += perf_counter() - start
        if reply["errors"]:
            refused = next(item["index"]["error"] for item in reply["items"] if "error" in item["index"])
            raise ServerError(_index(name), f"a view was refused: {refused.get('reason', refused)}")
    return seconds


def _asked(transport: Transport, held: ServerMaterial) -> dict[str, float]:
    times: dict[str, list[float]] = {}
    found: dict[str, list[list[float]]] = {}
    for at, question in enumerate((*held.questions[:WARM], *held.questions)):
        vector, words = held.embedder.embed_query(question).tolist(), indexed_words(question, "english")[1]
        for name, way in WAYS.items():
            bodies = {
                "dense_max": way.nearest(vector, KINDS),
                "lexical_max": way.matching(words, KINDS),
                "dense_one": way.nearest(vector, KINDS[2:]),
                "lexical_one": way.matching(words, KINDS[2:]),
            }
            for search, body in bodies.items():
                start = perf_counter()
                scores = _scores(transport, name, body)
                if at >= WARM:
                    times.setdefault(f"{search}.{name}", []).append((perf_counter() - start) * 1_000)
                    found.setdefault(f"{search}.{name}", []).append(scores)
    figures: dict[str, float] = {}
    for key, taken in times.items():
        figures |= percentiles("query_ms", taken, of=key)
        pairs = zip(found[key], found[f"{key.split('.')[0]}.fields"], strict=True)
        figures[f"same.{key}"] = sum(_close(scores, wanted) for scores, wanted in pairs) / len(taken)
    return figures


def _scores(transport: Transport, name: str, body: Query) -> list[float]:
    """Return the scores of the chunks that a search finds, each with its text read."""
    apart = name == "documents"  # what is kept of a chunk stands beside one of its views
    asked = {"size": K, "track_total_hits": False, "_source": False if apart else ["kept"], **body}
    hits = _sent(transport, "POST", name, "/_search", body=asked)["hits"]["hits"]
    if apart and hits:
        docs = {"docs": [{"_id": hit["fields"]["chunk"][0], "_source": ["kept"]} for hit in hits]}
        _sent(transport, "POST", name, "/_mget", body=docs)
    return [hit["_score"] for hit in hits]


def _close(scores: Sequence[float], wanted: Sequence[float]) -> bool:
    """Return whether two searches found chunks of the same scores: which of equal chunks come first is chance."""
    return len(scores) == len(wanted) and all(
        abs(one - other) <= CLOSE for one, other in zip(scores, wanted, strict=True)
    )


def _index(name: str) -> str:
    return f"w-catena-bench-views-{name}"


def _sent(transport: Transport, method: Any, name: str, action: str = "", **more: Any) -> Any:
    return transport.perform(Call(method=method, path=f"/{_index(name)}{action}", **more))


def _best_of(queries: list[Query]) -> Query:
    return queries[0] if len(queries) == 1 else {"dis_max": {"queries": queries}}


def _in_nested(path: str, query: Query) -> Query:
    return {"nested": {"path": path, "score_mode": "max", "query": query}}


def _of_kinds(kinds: Sequence[str]) -> list[Query]:
    return [] if len(kinds) == len(KINDS) else [{"terms": {"kind": list(kinds)}}]


def _knn(field: str, vector: Sequence[float], *, times: int = 1, only: Sequence[Query] = ()) -> Query:
    asked = {
        "field": field,
        "query_vector": vector,
        "k": times * NEAREST,
        "num_candidates": times * CANDIDATES,
        "rescore_vector": {"oversample": 2.0},
    }
    return {"knn": {**asked, **({"filter": list(only)} if only else {})}}
