"""Measure the speed of two parts of a search: fusion on top of its routes, and finding critical terms in texts.

Each beside other tools: the frameworks' fusion over the same chunks, and other finders of many terms. Times are of
the processor, of this process: other work on the machine does not count as wait. What is searched grows from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import TYPE_CHECKING, Any, TypeAlias

from catena import Document, Entry, Library, ParameterError, Ranking, Services
from catena import run as run_step
from catena.effects import Embedder, FindNames, Search
from catena.enrichment import StaticEmbedder
from catena.library import prepare
from catena.model import EvaluationError
from catena.retrieval import DEFAULT_ROUTES, retrieve
from catena.text import TermMatcher, is_border, normalise_query, normalise_term
from catena_bench.collection import library_of
from catena_bench.figures import Figures, Tell, silent, timed
from catena_bench.ranked_pieces import frameworks
from catena_bench.synthetic_manuals import PARTS, manual_markdown

if TYPE_CHECKING:
    from catena_bench.peers import Ranked

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


def fusion(
    data: Path | None = None, *, chunks: int = CHUNKS, questions: int = QUESTIONS, tell: Tell = silent
) -> Figures:
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


def _others(clocked: _Clocked, services: Services, tell: Tell) -> dict[str, Callable[[str], object]]:
    """Return the peers over the rankings that were kept, and our own retrievers of the frameworks."""
    peers = frameworks(tell)
    if peers is None:
        return {}

    def route(name: str) -> Ranked:
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


# Finding critical terms.

Spans: TypeAlias = Iterable[tuple[int, int]]
Finder: TypeAlias = Callable[[str], Spans]
"""A normalised text -> all places of all terms, borders not yet looked at."""

WORDS = 20_000  # different words that chunks are made of
WORDS_PER_CHUNK = 120
TERMS_PER_CHUNK = 4
CHECKED_CHUNKS = 40  # these are searched for every term, one by one
PEER_CHUNKS = 20_000
SEED = 20_240_201


def finding(data: Path | None = None, *, terms: int = 100_000, chunks: int = 100_000, tell: Tell = silent) -> Figures:
    """Measure `TermMatcher` on generated product codes and names of two words, and on chunks of 120 words.

    All times are seconds of processor time, of one run in one thread: other work on the machine makes caches
    colder, but is not counted. They hold all that it takes from raw text to terms: normalising, matching, and
    looking at the borders. Peers get the same normalising and the same look at borders. Every engine must find
    the same, and on a sample what trying each term finds.

    Args:
        data: not used; all is generated, the same in every run.
        terms: how many different terms.
        chunks: how many chunks.
        tell: is told of each step.

    Returns:
        `terms`, `chunks`, `characters`; `build_seconds`, `match_seconds`, `matches`, `matches_per_second`,
        `chunks_per_second`; and for each peer that is installed, on the first `peer_chunks`: its
        `build_seconds` and `match_seconds`, and `ratio_to_ours`, its match time over ours on the same chunks
        (above 1 we are faster). `one_by_one`, the search for each term in turn, is timed on `checked_chunks`.

    Raises:
        ParameterError: a size is below 1.
        EvaluationError: two engines do not find the same.
    """
    if min(terms, chunks) < 1:
        raise ParameterError("sizes", (terms, chunks), "integers >= 1")
    names, texts = generated(terms, chunks)
    tell(f"{terms} terms, {chunks} chunks generated")
    build_seconds, matcher = timed(lambda: TermMatcher(names))
    match_seconds, found = timed(lambda: [matcher.all_in(text) for text in texts])
    matches = sum(map(len, found))
    tell(f"built in {build_seconds:.2f} s, matched in {match_seconds:.2f} s")
    figures: dict[str, float] = {
        "terms": len(matcher.terms),
        "chunks": chunks,
        "characters": sum(map(len, texts)),
        "build_seconds": build_seconds,
        "match_seconds": match_seconds,
        "matches": matches,
        "matches_per_second": matches / match_seconds,
        "chunks_per_second": chunks / match_seconds,
    }
    checked = texts[:CHECKED_CHUNKS]
    figures |= _compared("one_by_one", _one_by_one, matcher, checked, found)
    figures["checked_chunks"] = len(checked)
    shared = texts[:PEER_CHUNKS]
    figures["peer_chunks"] = len(shared)
    for peer, module, made in PEERS:
        if find_spec(module) is not None:
            figures |= _compared(peer, made, matcher, shared, found)
            tell(f"{peer}: ratio {figures[f'{peer}.ratio_to_ours']:.2f}")
    return figures


def generated(n_terms: int, n_chunks: int) -> tuple[list[str], list[str]]:
    """Return different terms (six codes to four names of two words), and chunks that hold four of them each."""
    draw = random.Random(SEED)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9))) for _ in range(WORDS)]
    names: dict[str, str] = {}
    for kind in cycle("codecodeco" if n_terms > 1 else "c"):
        name = (
            f"{''.join(draw.choices('ABHSTX', k=2))}-{draw.randint(10, 999_999)}{draw.choice(('', 'A', 'B', '/C'))}"
            if kind in "co"
            else f"{draw.choice(words)} {draw.choice(words)}".title()
        )
        names.setdefault(normalise_term(name), name)
        if len(names) == n_terms:
            break
    terms = list(names.values())
    chunks = []
    for _ in range(n_chunks):
        body = draw.choices(words, k=WORDS_PER_CHUNK)
        for place in draw.sample(range(WORDS_PER_CHUNK), TERMS_PER_CHUNK):
            body[place] = draw.choice(terms)
        chunks.append(" ".join(body))
    return terms, chunks


def _compared(
    peer: str,
    made: Callable[[Sequence[str]], Finder],
    matcher: TermMatcher,
    texts: Sequence[str],
    found: Sequence[tuple[str, ...]],
) -> dict[str, float]:
    """Time a peer and us on the same chunks, and check that both find the same."""
    build_seconds, find = timed(lambda: made(matcher.terms))
    peer_seconds, theirs = timed(lambda: [_between_borders(find, text) for text in texts])
    our_seconds, _ = timed(lambda: [matcher.all_in(text) for text in texts])
    for place, (one, other) in enumerate(zip(theirs, found, strict=False)):
        if one != set(other):
            raise EvaluationError(f"{peer} and ours differ at chunk {place}: {sorted(one ^ set(other))[:5]}")
    return {
        f"{peer}.build_seconds": build_seconds,
        f"{peer}.match_seconds": peer_seconds,
        f"{peer}.ratio_to_ours": peer_seconds / our_seconds,
    }


def _between_borders(find: Finder, text: str) -> set[str]:
    normal = normalise_query(text)
    return {normal[a:b] for a, b in find(normal) if is_border(normal, a) and is_border(normal, b)}


def _one_by_one(terms: Sequence[str]) -> Finder:
    def find(normal: str) -> Spans:
        for term in terms:
            at = normal.find(term)
            while at >= 0:
                yield at, at + len(term)
                at = normal.find(term, at + 1)

    return find


def _ahocorasick_rs(terms: Sequence[str]) -> Finder:
    import ahocorasick_rs

    automaton = ahocorasick_rs.AhoCorasick(terms)
    return lambda normal: (
        (start, end) for _, start, end in automaton.find_matches_as_indexes(normal, overlapping=True)
    )


def _pyahocorasick(terms: Sequence[str]) -> Finder:
    import ahocorasick

    automaton = ahocorasick.Automaton()
    for term in terms:
        automaton.add_word(term, len(term))
    automaton.make_automaton()
    return lambda normal: ((last + 1 - length, last + 1) for last, length in automaton.iter(normal))


PEERS: tuple[tuple[str, str, Callable[[Sequence[str]], Finder]], ...] = (
    ("ahocorasick_rs", "ahocorasick_rs", _ahocorasick_rs),
    ("pyahocorasick", "ahocorasick", _pyahocorasick),
)
