"""Measure a graph of many chunks: seconds and memory to build, to add a document, to expand a node, to walk."""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

from catena import Chunk, Hit, ParameterError, Ranking, Scale, Services
from catena import run as run_step
from catena.effects import Expand
from catena.graph import KEYWORDS, ChunkGraph, GraphOptions, GraphSearch, Node, TermEdges, widen
from catena.model import KEYWORD, SEMANTIC, TITLE, span_id
from catena_bench.figures import Figures, Tell, percentiles, seconds_of, silent

DIM = 256
CHUNKS = 10  # of a document
WORDS = 100  # of a chunk
_KEYWORDS, _NAMES = 5, 3  # of a chunk
_VOCABULARY = {"words": 50_000, "keywords": 20_000, "names": 100_000}  # drawn with p(rank) ~ 1 / rank
_CLUSTER = 50  # chunks about one centre
_SUBJECT = 10  # chunks of one subject, on average
_ON_SUBJECT = 0.7  # the share of keywords that are those of the subject
_SPREAD = 0.8  # length of what parts a chunk from its centre; the centre's is 1
_SAYING = 0.5  # of the chunks, the share that says the title of another document
_SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnpqrstvwxz" for vowel in "aeiou"]


Edges = set[tuple[int, int]]
"""Places of nodes, the lower first."""
PEERS_UP_TO = 10_000  # chunks: beyond, they take minutes
SAMPLE = 500  # nodes whose neighbours are sought anew, and expansions that are timed
QUESTIONS = 200
_FIRST = 50  # hits of a first ranking
_OPTIONS = GraphOptions()
_MB = 1e6
SIZES = (10_000, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """Nodes and their vectors, of unit length, shape (nodes, 256)."""

    nodes: tuple[Node, ...]
    vectors: NDArray[np.float32]


def grown(chunks: int, seed: int = 0, *, first: int = 0) -> Grown:
    """Return so many chunks, ten to a document.

    Keywords and names are drawn, not found in the texts: finding them is not building the graph.

    Args:
        chunks: how many.
        seed: equal seeds give equal chunks.
        first: number of the first document, so that chunks can be grown beside others.
    """
    draw = np.random.default_rng((seed, first))
    documents = -(-chunks // CHUNKS)
    titles = [
        f"{_word(number).title()} {_word(number * 7 + 3).title()}" for number in range(first, first + documents)
    ]
    words, keywords, names = (
        _zipf(draw, _VOCABULARY[kind], (chunks, width))
        for kind, width in (("words", WORDS), ("keywords", _KEYWORDS), ("names", _NAMES))
    )
    keywords = _on_subjects(draw, keywords)
    spelled = _spelled()
    says = np.where(draw.random(chunks) < _SAYING, draw.integers(0, documents, chunks), -1)
    nodes = [
        Node(
            chunk=_chunk(first + at // CHUNKS, at % CHUNKS, titles[at // CHUNKS], spelled[words[at]], said),
            titles=(titles[at // CHUNKS],),
            keywords=tuple(dict.fromkeys(f"{word} matter" for word in spelled[keywords[at]])),
            names=tuple(dict.fromkeys(f"{word} name" for word in spelled[names[at]])),
        )
        for at, said in enumerate("" if other < 0 else titles[other] for other in says.tolist())
    ]
    return Grown(tuple(nodes), _vectors(draw, chunks))


def _chunk(document: int, position: int, title: str, words: Sequence[str], said: str) -> Chunk:
    text = " ".join((*words, said)) if said else " ".join(words)
    start = position * 10_000  # the documents have no other text: no chunk is that long
    name = f"document-{document:07d}"
    return Chunk(
        id=span_id(name, "chunk", start, start + len(text)),
        document_id=name,
        position=position,
        start=start,
        end=start + len(text),
        text=text,
        path=(title,),
        metadata={TITLE: title},
    )


def _vectors(draw: np.random.Generator, chunks: int) -> NDArray[np.float32]:
    centres = _unit(draw.standard_normal((-(-chunks // _CLUSTER), DIM), dtype=np.float32))
    apart = _unit(draw.standard_normal((chunks, DIM), dtype=np.float32))
    return _unit(centres[draw.integers(0, len(centres), chunks)] + np.float32(_SPREAD) * apart)


def _on_subjects(draw: np.random.Generator, keywords: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return keywords of which most are those of a chunk's subject, which ten chunks share, of any documents."""
    size = _VOCABULARY["keywords"]
    subjects = draw.integers(0, size, (-(-len(keywords) // _SUBJECT), _KEYWORDS))
    of_subject = subjects[draw.integers(0, len(subjects), len(keywords))]
    return np.where(draw.random(keywords.shape) < _ON_SUBJECT, of_subject, keywords)


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _zipf(draw: np.random.Generator, size: int, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Return numbers below `size`, number r drawn with a chance proportional to 1 / (r + 1)."""
    until = np.cumsum(1.0 / np.arange(1, size + 1))
    numbers: NDArray[np.int64] = np.searchsorted(until, draw.random(shape) * until[-1], side="right")
    return np.minimum(numbers, size - 1)


@cache
def _spelled() -> NDArray[np.str_]:
    """Return the words by their numbers."""
    return np.array([_word(number) for number in range(max(_VOCABULARY.values()))])


def _word(number: int) -> str:
    """Return a word of six letters, another one for each number below a million."""
    return "".join(_SYLLABLES[number // 100**place % 100] for place in range(3))


def faiss_neighbours(vectors: NDArray[np.float32], k: int) -> object:
    """Find the k nearest of all rows with faiss, exactly.

    Raises:
        ImportError: faiss is not installed.
    """
    index = import_module("faiss").IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index.search(vectors, k + 1)


def plain_pairs(nodes: Sequence[Node], kind: TermEdges) -> Edges:
    """Return the pairs of nodes with enough shared terms, counted pair by pair, in Python."""
    counts = Counter(pair for held in _holders(nodes, kind).values() for pair in combinations(held, 2))
    return {pair for pair, shared in counts.items() if shared > kind.more_than}


def sparse_pairs(nodes: Sequence[Node], kind: TermEdges) -> Edges:
    """Return the same by one product of sparse matrices."""
    sparse = import_module("scipy.sparse")
    held = list(_holders(nodes, kind).values())
    rows = np.concatenate([np.array(places, np.int64) for places in held])
    columns = np.repeat(np.arange(len(held)), [len(places) for places in held])
    matrix = sparse.csr_matrix((np.ones(len(rows), np.int32), (rows, columns)), shape=(len(nodes), len(held)))
    product = sparse.triu(matrix @ matrix.T, k=1).tocoo()
    enough = product.data > kind.more_than
    return set(zip(product.row[enough].tolist(), product.col[enough].tolist(), strict=True))


def networkx_edges(graph: ChunkGraph) -> object:
    """Return the edges of a graph as one of NetworkX, with a weight for each kind; neither chunks nor words.

    Raises:
        ImportError: networkx is not installed.
    """
    network = import_module("networkx").DiGraph()  # weights of mentions differ by direction
    network.add_nodes_from(range(len(graph)))
    for kind in graph.kinds:
        links = graph.links(kind)
        pairs = zip(links.sources.tolist(), links.targets.tolist(), links.weights.tolist(), strict=True)
        network.add_weighted_edges_from(pairs, weight=kind)
    return network


def bytes_of(make: Callable[[], object]) -> int:
    """Return the bytes that Python holds for what is made, as long as it is held."""
    tracemalloc.start()
    try:
        made = make()
        held, _ = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return held


def link_bytes(graph: ChunkGraph) -> int:
    """Return the bytes of the edges of a graph as it holds them: rows, targets and weights of all kinds."""
    return sum(
        array.nbytes
        for kind in graph.kinds
        for array in (graph.links(kind).starts, graph.links(kind).targets, graph.links(kind).weights)
    )


def _holders(nodes: Sequence[Node], kind: TermEdges) -> Mapping[str, list[int]]:
    """Return the nodes that hold each term which is not too common."""
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for place, node in enumerate(nodes):
        for term in dict.fromkeys(kind.of(node)):
            holders[term].append(place)
    limit = kind.limit(len(nodes))
    return {term: places for term, places in holders.items() if len(places) <= limit}


def measured(chunks: int, seed: int) -> Figures:
    """Build a graph of so many chunks, use it, and return the figures of `graph_speed.run`, without the number."""
    given = grown(chunks, seed)
    figures: Figures = {}
    if (peak := peak_mb()) is not None:
        figures["input_mb"] = peak
    wall, cpu = perf_counter(), process_time()
    graph = ChunkGraph.build(given.nodes, given.vectors, _OPTIONS)
    figures |= {"build_seconds": perf_counter() - wall, "build_cpu_seconds": process_time() - cpu}
    figures["keyword_seconds"] = seconds_of(lambda: graph.links(KEYWORD))
    figures |= {f"edges_{kind}": float(len(graph.links(kind).targets)) for kind in graph.kinds}
    figures["semantic_recall"] = semantic_recall(graph, given, seed)
    if (peak := peak_mb()) is not None:
        figures["peak_mb"] = peak
    figures |= _expanded(graph, seed) | _walked(graph, given, seed) | _added(graph, given, seed)
    return figures | (_peers(graph, given, figures) if chunks <= PEERS_UP_TO else {})


def peak_mb() -> float | None:
    """Return the most memory that this process ever had, in megabytes (10^6 bytes); None where it is not counted."""
    if find_spec("resource") is None:
        return None
    resource = import_module("resource")
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1_024) / _MB


def semantic_recall(graph: ChunkGraph, given: Grown, seed: int) -> float:
    """Return the share of the nearest of some nodes, sought anew, that the graph joins them with."""
    places = {chunk_id: place for place, chunk_id in enumerate(graph.ids)}
    order = np.array([places[node.id] for node in given.nodes])  # place in the graph of each row
    links = graph.links(SEMANTIC)
    rows = np.random.default_rng(seed).permutation(len(order))[:SAMPLE]
    products = given.vectors[rows] @ given.vectors.T
    products[np.arange(len(rows)), rows] = -np.inf
    k = min(_OPTIONS.neighbours, len(order) - 1)
    nearest = np.argpartition(products, -k, axis=1)[:, -k:]
    found = [
        len(np.intersect1d(order[near], links.targets[slice(*links.starts[order[row] : order[row] + 2])]))
        for row, near in zip(rows, nearest, strict=True)
    ]
    return sum(found) / (k * len(rows))


def _expanded(graph: ChunkGraph, seed: int) -> Figures:
    """Return the milliseconds of one expansion, after the first, which makes what all need."""
    draw = np.random.default_rng(seed)
    words = tuple(graph.chunk(graph.ids[0]).text.split()[:8])
    requests = [Expand(chunk_ids=(graph.ids[place],), words=words) for place in draw.integers(0, len(graph), SAMPLE)]
    first = seconds_of(lambda: graph.expand(requests[0]))
    times = [1_000 * seconds_of(lambda request=request: graph.expand(request)) for request in requests]  # type: ignore[misc]
    return {"first_expand_ms": 1_000 * first, "expand_ms_p50": median(times)}


@dataclass(frozen=True, slots=True)
class _Known:
    """An embedder of texts that are places of rows."""

    rows: NDArray[np.float32]
    identity: str = "places"

    @property
    def dim(self) -> int:
        return int(self.rows.shape[1])

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return rows."""
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the row whose place comes first in the text."""
        row: NDArray[np.float32] = self.rows[int(text.split(maxsplit=1)[0])]
        return row


def _walked(graph: ChunkGraph, given: Grown, seed: int) -> Figures:
    """Return the milliseconds of processor time of the default walk, first ranking and vector given."""
    draw = np.random.default_rng(seed + 1)
    services = Services(embedder=_Known(given.vectors), graph=graph, max_concurrency=1)
    times = []
    for row in draw.integers(0, len(given.nodes), QUESTIONS + 1).tolist():
        products = given.vectors @ given.vectors[row]
        best = np.argsort(-products, kind="stable")[1 : _FIRST + 1]
        hits = tuple(Hit(given.nodes[place].chunk, float(products[place])) for place in best)
        question = f"{row} {' '.join(given.nodes[row].chunk.text.split()[:10])}"
        start = process_time()
        run_step(widen(question, Ranking(hits, Scale.SIMILARITY), GraphSearch(on_graph_error="raise")), services)
        times.append(1_000 * (process_time() - start))
    return percentiles("walk_ms", times[1:])


def _added(graph: ChunkGraph, given: Grown, seed: int) -> Figures:
    """Return the seconds of adding one document, with and without the first use of what comes out."""
    more = grown(CHUNKS, seed, first=len(given.nodes))
    request = Expand(chunk_ids=(more.nodes[0].id,))
    alone, used = [], []
    for _ in range(3):
        start = perf_counter()
        updated = graph.updated(added=more.nodes, vectors=more.vectors)
        alone.append(perf_counter() - start)
        updated.expand(request)
        used.append(perf_counter() - start)
    figures = {"add_seconds": median(alone), "add_and_expand_seconds": median(used)}
    if len(graph) > PEERS_UP_TO:
        return figures
    rebuilt = ChunkGraph.build((*given.nodes, *more.nodes), np.concatenate([given.vectors, more.vectors]), _OPTIONS)
    return figures | {"add_equals_rebuild": float(equal(updated, rebuilt))}


def equal(one: ChunkGraph, other: ChunkGraph) -> bool:
    """Return whether two graphs have the same nodes and the same edges with the same weights."""
    return one.ids == other.ids and all(
        np.array_equal(getattr(one.links(kind), part), getattr(other.links(kind), part))
        for kind in one.kinds
        for part in ("starts", "targets", "weights")
    )


def _peers(graph: ChunkGraph, given: Grown, figures: Figures) -> Figures:
    """Return the seconds of others by their times over ours, on parts of the work; and whether they find the same."""
    links = graph.links(KEYWORD)
    nodes = [graph.node(chunk_id) for chunk_id in graph.ids]
    ours = {(a, b) for a, b in zip(links.sources.tolist(), links.targets.tolist(), strict=True) if a < b}
    found: Figures = {"keyword_pairs_agree": 1.0}
    for name, pairs in (("plain_python", plain_pairs), ("scipy", sparse_pairs)):
        start = perf_counter()
        theirs = pairs(nodes, KEYWORDS)
        found[f"ratio.keyword.{name}"] = (perf_counter() - start) / figures["keyword_seconds"]
        found["keyword_pairs_agree"] *= float(theirs == ours)
    if find_spec("faiss"):
        seconds = seconds_of(lambda: faiss_neighbours(given.vectors, _OPTIONS.neighbours))
        found["ratio.whole_build.faiss_neighbours"] = seconds / figures["build_seconds"]
    if find_spec("networkx"):
        seconds = seconds_of(lambda: networkx_edges(graph))
        found["ratio.whole_build.networkx_edges"] = seconds / figures["build_seconds"]
        found["ratio.edges_held.networkx"] = bytes_of(lambda: networkx_edges(graph)) / link_bytes(graph)
    return found


def run(data: Path | None = None, *, chunks: int = 100_000, seed: int = 0, tell: Tell = silent) -> Figures:
    """Build graphs of chunks that are grown from a seed, each in a process of its own.

    Chunks are of 100 words, ten to a document, with five keywords and three names; words are as frequent as 1 / rank.
    Ten chunks are of one subject, with which each shares most of its keywords: about five keyword edges a chunk.
    Vectors of 256 numbers lie about centres, 50 to each; half of the chunks say the title of another document.

    Args:
        data: not read; the chunks are made here.
        chunks: of the largest graph, at least 1,000; of 10,000, 100,000 and 1,000,000 those below it are built, too.
        seed: of the chunks.
        tell: is told how far the run is.

    Returns:
        With `.N` behind, N the number of chunks: `build_seconds` (wall) and `build_cpu_seconds`; `peak_mb`, the most
        memory (10^6 bytes) of the process until then, its input included, and `input_mb`, the same before;
        `keyword_seconds`, to find all edges by shared keywords; `edges_KIND`; `semantic_recall`: of the five nearest
        of 500 nodes, those that are joined; `first_expand_ms`, `expand_ms_p50`, of one node; `walk_ms_p50`,
        `walk_ms_p95`: the default walk, first ranking and vector given, in milliseconds of processor time;
        `add_seconds`: one document of ten chunks, `add_and_expand_seconds` with the first expansion after it.
        Up to 10,000 chunks also `add_equals_rebuild` (1 or 0); `ratio.keyword.plain_python` and
        `ratio.keyword.scipy`, their seconds for the same pairs by ours, with `keyword_pairs_agree`; and
        `ratio.whole_build.faiss_neighbours`, the seconds of faiss for the exact neighbours alone by those of our
        whole graph; `ratio.whole_build.networkx_edges`, the seconds of NetworkX to take in the edges that we found,
        by the same, and `ratio.edges_held.networkx`, the bytes that it holds them in by ours. A peer that is not
        installed has no figure.

    Raises:
        ParameterError: `chunks` is below 1,000.
    """
    if chunks < 1_000:
        raise ParameterError("chunks", chunks, "1,000 or more")
    figures: Figures = {}
    for size in (*(size for size in SIZES if size < chunks), chunks):
        tell(f"{size:,} chunks")
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            found = process.submit(measured, size, seed).result()
        tell(f"{size:,} chunks: built in {found['build_seconds']:.1f} s")
        figures |= {f"{key}.{size}": value for key, value in found.items()}
    return figures
