"""Measure the cost of fusion on top of its routes, per question: ours, and the frameworks' over the same chunks.

All times are milliseconds of processor time of this process: other work on the machine does not count as wait. The
documents are manuals grown from a seed, each titled with a product code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

from catena import Document, Entry, Library, Ranking, Services
from catena import run as run_step
from catena.effects import Embedder, FindNames, Search
from catena.enrichment import StaticEmbedder
from catena.library import prepare
from catena.retrieval import DEFAULT_ROUTES, retrieve
from catena_bench.collection import library_of
from catena_bench.figures import timed
from catena_bench.synthetic_manuals import PARTS, manual_markdown

CHUNKS = 10_000
QUESTIONS = 100
ROUNDS = 3
K = 10
DEPTH = 30  # hits per route, as `retrieve` asks for 10


@dataclass(slots=True)
class _Clocked:
    """A store and an embedder that tell how long they were at work since `reset`, in seconds of processor time."""

    library: Library
    embedder: Embedder
    in_routes: float = 0.0  # best hits, and the embedding of the question
    in_completion: float = 0.0  # what only other routes had found
    kept: dict[tuple[str, str], Ranking] = field(default_factory=dict)  # (question, route) -> its best hits

    def reset(self) -> None:
        """Begin to count anew."""
        self.in_routes = self.in_completion = 0.0

    def search(self, request: Search) -> Ranking:
        """Answer from the store."""
        taken, ranking = timed(partial(self.library.store.search, request))
        if request.among is None:
            self.in_routes += taken
            self.kept[request.query, request.route] = ranking
        else:
            self.in_completion += taken
        return ranking

    @property
    def routes(self) -> tuple[str, ...]:
        return self.library.store.routes

    @property
    def identity(self) -> str:
        return self.embedder.identity

    @property
    def dim(self) -> int:
        return self.embedder.dim

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """Embed texts."""
        return self.embedder.embed_documents(texts)

    def embed_query(self, text: str) -> Any:
        """Embed a question."""
        taken, vector = timed(partial(self.embedder.embed_query, text))
        self.in_routes += taken
        return vector


def run(
    data: Path | None = None,
    *,
    chunks: int = CHUNKS,
    questions: int = QUESTIONS,
    tell: Callable[[str], None] = lambda message: None,
) -> dict[str, float]:
    """Measure fusion over three routes with 30 hits each, for ten hits, every question three times.

    Args:
        data: not read; the documents are made here.
        chunks: how many to search, at least.
        questions: how many to ask.
        tell: is told how far the run is.

    Returns:
        Medians per question, with quartiles (`.q1`, `.q3`):
        `routes_ms`: the three routes and the embedding of the question; `entity_lookup_ms`: the keyword route alone,
        from the text of the question to ranked chunks; `names_ms`: which documents the question names;
        `search_by_name_ms`: a whole search, decomposed by these names; `completion_ms`: the second round, which asks
        each route for what only the others found; `overhead_ms.METHOD`: all that a method does on top of the routes.
        Methods: "catena", of `retrieve`, and "catena_with_completion"; where the peers are installed
        "ensemble_retriever" and "query_fusion_retriever", which are given the same rankings from memory, and
        "catena_langchain" and "catena_llama_index", our retrievers of these frameworks, which also make documents
        and nodes of the hits.
        `ratio.METHOD`: overhead of a peer to that of "catena_with_completion". `n_chunks`, `n_questions`.
    """
    tell(f"indexing {chunks} chunks")
    entries = list(_entries(chunks))
    with library_of(entries) as library:
        codes = [entry.document.id for entry in entries]
        draw = Random(1)
        asked = [
            f"How often must the {draw.choice(PARTS)} of the {draw.choice(codes)} be checked?"
            for _ in range(questions)
        ]
        clocked = _Clocked(library, StaticEmbedder())
        services = Services(store=clocked, embedder=clocked, max_concurrency=1)
        times: dict[str, list[float]] = {}

        def note(name: str, seconds: float) -> None:
            times.setdefault(name, []).append(seconds * 1_000)

        keyword = partial(Search, route="keyword", k=DEPTH)
        for question in (*asked[:5], *asked * ROUNDS):
            clocked.reset()
            step = retrieve(question, k=K, depth=DEPTH, by_name=False)
            total = timed(partial(run_step, step, services))[0]
            note("routes_ms", clocked.in_routes)
            note("completion_ms", clocked.in_completion)
            note("overhead_ms.catena", total - clocked.in_routes - clocked.in_completion)
            note("overhead_ms.catena_with_completion", total - clocked.in_routes)
            note("entity_lookup_ms", timed(partial(library.store.search, keyword(query=question)))[0])
            note("names_ms", timed(partial(library.store.names, FindNames(query=question)))[0])
            note("search_by_name_ms", timed(partial(library.search, question, k=K))[0])
        tell(f"{questions} questions asked {ROUNDS} times")
        for name, method in _others(clocked, services, tell).items():
            for question in (*asked[:5], *asked * ROUNDS):
                clocked.reset()
                note(f"overhead_ms.{name}", timed(partial(method, question))[0] - clocked.in_routes)
        held = library.stats().chunks
    figures: dict[str, float] = {"n_chunks": held, "n_questions": questions}
    for name, values in times.items():
        first, middle, third = quantiles(values[5:], n=4, method="inclusive")  # the first five warm up
        figures |= {name: middle, f"{name}.q1": first, f"{name}.q3": third}
    ours = figures["overhead_ms.catena_with_completion"]
    peers = [name for name in times if name.endswith("_retriever")]
    return figures | {f"ratio.{name.partition('.')[2]}": figures[name] / ours for name in peers}


def _others(clocked: _Clocked, services: Services, tell: Callable[[str], None]) -> dict[str, Callable[[str], object]]:
    """Return the peers over the rankings that were kept, and our own retrievers of the frameworks."""
    try:
        from catena_bench import peers
    except ImportError as error:
        tell(f"without LangChain's and LlamaIndex's retrievers ({error}). Try: pip install 'catena-bench[peers]'")
        return {}

    def route(name: str) -> peers.Ranked:
        return lambda question: clocked.kept[question, name]

    routes = [route(name) for name in DEFAULT_ROUTES]
    return {
        "ensemble_retriever": peers.ensemble(routes, K),
        "query_fusion_retriever": peers.query_fusion(routes, K),
        "catena_langchain": peers.catena_langchain(services, k=K, depth=DEPTH),
        "catena_llama_index": peers.catena_llama_index(services, k=K, depth=DEPTH),
    }


def _entries(chunks: int) -> Iterator[Entry]:
    """Yield manuals, each titled with a product code of its own, until they have so many chunks."""
    draw = Random(0)
    used: set[str] = set()
    number = held = 0
    while held < chunks:
        code = f"{''.join(draw.sample('ABDEHKLMRTX', 2))}-{draw.randrange(100, 10_000)}"
        if code not in used:
            used.add(code)
            number += 1
            text = f"# {code}\n\n{manual_markdown(number, numbered=True, levels=3, words=800)}"
            yield (entry := prepare(Document(id=code, text=text)))
            held += len(entry.chunks)
