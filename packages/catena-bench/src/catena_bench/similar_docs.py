"""Search look-alike documents for the right one's section: by each route alone, by all together, and by others.

Reads any directory of the layout that `catena_bench.collection` states.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import perf_counter

from catena import Library, RankFusion, Ranking
from catena import run as run_step
from catena.evaluation import Ranked
from catena.retrieval import DEFAULT_ROUTES, retrieve
from catena_bench.collection import (
    CollectionQuestion,
    Judge,
    SimilarDocuments,
    chunks_in,
    read_collection,
    some_of_each_kind,
)
from catena_bench.figures import Figures, Tell, percentiles, silent
from catena_bench.ranked_pieces import frameworks
from catena_bench.views_retrievers import PlainBm25

METHODS: Mapping[str, tuple[str, ...]] = {
    "lexical": ("lexical",),
    "dense": ("dense",),
    "keyword": ("keyword",),
    "fused": DEFAULT_ROUTES,
    "rank_fused": DEFAULT_ROUTES,
}
TWO_ROUTES, TWO = ("lexical", "dense"), "_two_routes"
USUAL_DEPTH = 30  # hits per route, as `retrieve` asks for short rankings

System = Callable[[str, int, int | None], Ranked]
"""From a question, the length of the ranking and the hits per route (None: as usual) to a ranking."""


def run(data: Path, *, depth: int = 300, questions: int | None = None, tell: Tell = silent) -> Figures:
    """Index the collection, ask every question by every method, and return the figures.

    Methods: each route alone; "fused" and "rank_fused", the library's search by score and by rank; and over the same
    chunks "raw_bm25", plain BM25 over their text, "cascade_bm25", the same over their headed views. Where the peers
    are installed, "ensemble_retriever" and "query_fusion_retriever" are LangChain's and LlamaIndex's fusion over the
    same three routes; with "_two_routes" without the keyword route, which neither framework has (recall only).

    Args:
        data: a directory of the layout.
        depth: length of the rankings that the Log-Rank Index judges; what lies deeper counts as last.
        questions: ask only so many of each kind.
        tell: is told how far the run is.

    Returns:
        `recall.METHOD[.KIND]` at max(5, gold sections), of a search with the default depth, and
        `lri.METHOD[.KIND]` (Log-Rank Index, gamma 1, N = the chunks, ties by mid-rank, a section at the rank of
        its first chunk), both in [0, 1];
        `unanswerable.recognised` and `unanswerable.false_alarms`: the shares of the questions without and with gold
        in which the search named something that is nowhere in the library;
        `index_seconds`; `query_ms_p50` and `query_ms_p95` of a fused search for ten hits; `n_questions`,
        `n_judged` (those with gold), `n_documents`, `n_chunks`.
    """
    collection = read_collection(data)
    asked = some_of_each_kind(collection.questions, questions)
    with TemporaryDirectory(prefix="catena-bench-") as folder, Library.open(Path(folder) / "library") as library:
        tell(f"indexing {len(collection.files)} documents")
        start = perf_counter()
        library.index(collection.files.values())
        library.search(asked[0].text if asked else "warm-up", k=1)  # the derived indexes are part of the price
        index_seconds = perf_counter() - start
        chunks = chunks_in(library, collection)
        judge = Judge.of(collection, chunks)
        depth = min(depth, len(chunks))
        judged = [question for question in asked if question.gold]
        systems = {**_methods(library), **_plain(library, collection), **_peers(library, depth, tell)}
        tell(f"{len(judged)} questions with an answer, by {len(systems)} methods")
        return {
            "index_seconds": index_seconds,
            "n_documents": len(library.documents()),
            "n_chunks": len(chunks),
            "n_questions": len(asked),
            "n_judged": len(judged),
            **_query_times(library, asked),
            **_unanswerable(library, asked),
            **_quality(systems, judged, judge, depth, tell),
        }


def _methods(library: Library) -> dict[str, System]:
    def searcher(method: str) -> System:
        how = RankFusion() if method == "rank_fused" else None

        def search(question: str, k: int, depth: int | None) -> Ranking:
            routes = METHODS[method]
            return library.search(question, k=k, depth=depth, routes=routes, fusion=how, on_route_error="raise")

        return search

    return {method: searcher(method) for method in METHODS}


def _plain(library: Library, collection: SimilarDocuments) -> dict[str, System]:
    """Return plain BM25 over the texts of the chunks, and over their headed views."""
    entries = [library.get(library.document_id(path)) for path in collection.files.values()]
    texts = {
        "raw_bm25": {chunk.id: chunk.text for entry in entries for chunk in entry.chunks},
        "cascade_bm25": {
            view.chunk_id: view.text for entry in entries for view in entry.views if view.kind == "headed"
        },
    }

    def searcher(index: PlainBm25) -> System:
        return lambda question, k, depth: index.scores(question, k)

    return {name: searcher(PlainBm25(of_chunks)) for name, of_chunks in texts.items()}


def _peers(library: Library, depth: int, tell: Tell) -> dict[str, System]:
    """Return the frameworks' fusion retrievers over the library's routes, each asked once per question."""
    peers = frameworks(tell)
    if peers is None:
        return {}

    @lru_cache(maxsize=64)
    def ranked(question: str, route: str, hits: int) -> Ranking:
        return run_step(
            retrieve(question, k=hits, depth=hits, routes=(route,), on_route_error="raise"), library.services
        )

    def over(build: Callable[..., Callable[[str], list[str]]], *names: str) -> System:
        def route(name: str, hits: int) -> Callable[[str], Ranking]:
            return lambda question: ranked(question, name, hits)

        usual, deep = (build([route(name, hits) for name in names], hits) for hits in (USUAL_DEPTH, depth))
        return lambda question, k, hits: (usual if hits is None else deep)(question)

    builders = {"ensemble_retriever": peers.ensemble, "query_fusion_retriever": peers.query_fusion}
    return {
        **{name: over(build, *DEFAULT_ROUTES) for name, build in builders.items()},
        **{f"{name}{TWO}": over(build, *TWO_ROUTES) for name, build in builders.items()},
    }


def _query_times(library: Library, questions: Sequence[CollectionQuestion]) -> dict[str, float]:
    """Return the median and the 95th percentile of a fused search for ten hits, in milliseconds."""
    times = []
    for question in questions:
        start = perf_counter()
        library.search(question.text, k=10, on_route_error="raise")
        times.append((perf_counter() - start) * 1_000)
    return percentiles("query_ms", times) if times else {}


def _quality(
    systems: Mapping[str, System], questions: Sequence[CollectionQuestion], judge: Judge, depth: int, tell: Tell
) -> Figures:
    """Ask every question by every system; a question's rankings are not kept."""
    recall: defaultdict[str, list[float]] = defaultdict(list)
    index: defaultdict[str, list[float]] = defaultdict(list)
    for number, question in enumerate(questions, start=1):
        for name, system in systems.items():
            keys = (name, f"{name}.{question.kind}")
            found = judge.recall(question, system(question.text, question.cutoff, None))
            for key in keys:
                recall[key].append(found)
            if name.endswith(TWO):
                continue
            value = judge.log_rank(question, system(question.text, depth, depth))
            for key in keys:
                index[key].append(value)
        if number % 100 == 0:
            tell(f"{number} questions asked")
    return {
        **{f"recall.{key}": fmean(values) for key, values in recall.items()},
        **{f"lri.{key}": fmean(values) for key, values in index.items()},
    }


def _unanswerable(library: Library, questions: Sequence[CollectionQuestion]) -> dict[str, float]:
    """Return how many questions without and with an answer the search says to name something unknown."""
    said: dict[bool, list[bool]] = {True: [], False: []}  # by whether there is an answer
    for question in questions:
        ranking = library.search(question.text, k=question.cutoff, on_route_error="raise")
        said[bool(question.gold)].append(bool(ranking.unknown))
    shares = {"unanswerable.recognised": said[False], "unanswerable.false_alarms": said[True]}
    return {key: fmean(values) for key, values in shares.items() if values}
