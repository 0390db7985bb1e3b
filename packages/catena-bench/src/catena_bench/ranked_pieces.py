"""Ask one library in each of its ways, and the usual pipelines over the same text, for what answers a question.

| method | what is ranked |
|---|---|
| default, default_minilm | the library's search without options, by the shipped embedding and by all-MiniLM-L6-v2 |
| lexical, dense | one route of the library alone |
| graph | the library's walk over its graph |
| passages, segments | what the library reads within a budget of tokens; at k, of the larger budget and the smaller |
| bm25s_headed, minilm_headed | the library's chunks under their headings, by words or by vectors |
| bm25s_200, minilm_200 | whole sentences up to 200 tokens |
| bm25s_1000, minilm_1000 | each page by `RecursiveCharacterTextSplitter`, 1,000 characters |
| langchain_ensemble | `RecursiveCharacterTextSplitter`; `EnsembleRetriever` of BM25 and MiniLM, .5 each |
| llamaindex_fusion | `SentenceSplitter`; `QueryFusionRetriever` of BM25 and MiniLM by reciprocal rank |

bm25s has English stop words and the Snowball stemmer, LangChain's BM25 lower-case words: by default its retriever
splits at white space, which finds less.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from catena import Chunk, Entry, Hit, Library, MissingExtraError, ParameterError, Ranking, Scale
from catena.evaluation import Span, read_within
from catena.model import pip_install
from catena.segments import SegmentSearch
from catena.structure import cut_fixed
from catena_bench.figures import Tell
from catena_bench.segments import tokens_of
from catena_bench.views import best_first, ranking
from catena_bench.views_retrievers import Dense, PlainBm25, ReferenceBm25

DEPTH = 30  # pieces of a ranking: more than 1,500 tokens, and what routes are asked for short rankings too
FIXED = 200  # tokens
Pieces = Sequence[Chunk]
Ranked = Callable[[str], Pieces]
Within = Callable[[str, int], Pieces]


@dataclass(frozen=True)
class Corpus:
    """The documents of a library by id, and their texts laid end to end: a span says of which document it is."""

    entries: Mapping[str, Entry]

    @cached_property
    def text(self) -> str:
        """All texts."""
        return "".join(entry.document.text for entry in self.entries.values())

    @cached_property
    def starts(self) -> Mapping[str, int]:
        """The start of each document in `text`."""
        lengths = accumulate((len(entry.document.text) for entry in self.entries.values()), initial=0)
        return dict(zip(self.entries, lengths, strict=False))

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of documents and chunks."""
        chunks = sum(len(entry.chunks) for entry in self.entries.values())
        return {"documents": len(self.entries), "chunks": chunks}

    def spans(self, pieces: Iterable[Chunk]) -> list[Span]:
        """Return where pieces stand in `text`."""
        return [(at + each.start, at + each.end) for each in pieces for at in [self.starts[each.document_id]]]

    def read(self, pieces: Iterable[Chunk], budget: int) -> tuple[Span, ...]:
        """Return what a reader with a budget of tokens reads of pieces in their order, the last one cut."""
        return read_within(self.spans(pieces), self.text, budget, lambda start, end: tokens_of(self.text[start:end]))


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way to answer a question.

    Attributes:
        ranked: the first `DEPTH` pieces, best first.
        first: what a user gets without options, where that is asked in another way.
        within: what is read within a budget of tokens, where that is asked too; else `ranked`, in its order.
    """

    ranked: Ranked
    first: Ranked | None = None
    within: Within | None = None

    @classmethod
    def budgeted(cls, within: Within, budget: int) -> Method:
        """Return a method that is asked by budget; its ranking is what it reads within this one."""
        return cls(ranked=lambda question: within(question, budget), within=within)

    def asked(self, question: str) -> tuple[Pieces, Callable[[int], Pieces]]:
        """Return what a user gets first, and what there is for a budget, best first."""
        ranked = self.ranked(question)
        first = ranked if self.first is None else self.first(question)
        return first, partial(self.within, question) if self.within else lambda budget: ranked


def hits(ranking: Ranking) -> Pieces:
    """Return the chunks of a ranking."""
    return [hit.chunk for hit in ranking.hits]


def as_ranking(pieces: Pieces) -> Ranking:
    """Return pieces as a ranking, best first."""
    return Ranking(tuple(Hit(each, 1 / rank) for rank, each in enumerate(pieces, start=1)), Scale.RANK)


@contextmanager
def asking(
    files: Sequence[Path], embedder: Dense | None, budget: int, tell: Tell
) -> Iterator[tuple[Corpus, dict[str, Method]]]:
    """Index files as a user does, in a folder that is gone afterwards, and give the library's own ways.

    Args:
        files: their names are the ids of the documents.
        embedder: of `default_minilm`, for which the documents are indexed once more, but not parsed.
        budget: of the segments whose order is ranked, in tokens.
        tell: is told how far the indexing is, and which file failed.
    """
    with TemporaryDirectory(prefix="catena-bench-") as home, ExitStack() as stack:
        library = stack.enter_context(Library.open(Path(home) / "library"))
        tell(f"indexing {len(files):,} documents")
        for outcome in library.index([Path(shutil.copy2(file, home)) for file in files]):
            if outcome.state != "indexed":
                tell(f"{outcome.document_id} {outcome.state}: {outcome.reason}")
        corpus = Corpus({info.id: library.get(info.id) for info in library.documents()})
        if not corpus.entries:
            raise ParameterError("data", f"{len(files)} files", "at least one that can be read")
        methods = of_library(library, budget)
        if embedder is not None:
            tell("indexing them by MiniLM")
            other = stack.enter_context(Library.open(Path(home) / "minilm", embedder=embedder))
            other.index([entry.document for entry in corpus.entries.values()])
            methods["default_minilm"] = default(other)
        yield corpus, methods


def of_library(library: Library, budget: int) -> dict[str, Method]:
    """Return the library's own ways; `budget` is that of the segments whose order is ranked."""

    def route(name: str) -> Method:
        return Method(ranked=lambda question: hits(library.search(question, k=DEPTH, routes=(name,))))

    def passages(question: str, tokens: int) -> Pieces:
        return hits(library.passages(question, budget_tokens=tokens))

    def segments(question: str, tokens: int) -> Pieces:
        return hits(library.segments(question, SegmentSearch(budget_tokens=tokens)).ranking())

    library.build_graph()
    return {
        "default": default(library),
        "lexical": route("lexical"),
        "dense": route("dense"),
        "passages": Method.budgeted(passages, 3 * budget),
        "segments": Method.budgeted(segments, budget),
        "graph": Method(
            ranked=lambda question: hits(library.search_graph(question, k=DEPTH).ranking),
            first=lambda question: hits(library.search_graph(question).ranking),
        ),
    }


def default(library: Library) -> Method:
    """Return the search of a library that has no graph, as an index comes, and what it reads within a budget."""
    return Method(
        ranked=lambda question: hits(library.search(question, k=DEPTH, graph=False)),
        first=lambda question: hits(library.search(question, graph=False)),
        within=lambda question, budget: hits(library.read(question, budget_tokens=budget)),
    )


def minilm() -> Dense:
    """Return all-MiniLM-L6-v2; what it embedded once in a run is kept.

    Raises:
        MissingExtraError: its package is not installed.
    """
    if find_spec("catena_minilm") is None:
        raise MissingExtraError("--minilm", "catena-minilm")
    return Dense("minilm", import_module("catena_minilm").MiniLMEmbedder())


def frameworks(tell: Tell) -> ModuleType | None:
    """Return `catena_bench.peers`; None, which is told, where LangChain or LlamaIndex is not installed."""
    try:
        from catena_bench import peers
    except ImportError as error:
        tell(f"without LangChain's and LlamaIndex's retrievers ({error}). Try: {pip_install('catena-bench[peers]')}")
        return None
    return peers


Score = Callable[[str], Any]  # from a question to one score per chunk


def by_words(texts: Sequence[str]) -> Score:
    """Return the scores of bm25s with English stop words and the Snowball stemmer."""
    scores = ReferenceBm25().fitted(texts)
    return lambda question: scores([question])[0]


def by_vectors(texts: Sequence[str], embedder: Dense) -> Score:
    """Return cosines."""
    rows = embedder.embed_documents(texts)
    return lambda question: rows @ embedder.embed_query(question)


def over(chunks: Pieces, score: Score) -> Method:
    """Return the ranking of chunks by a score."""
    return Method(ranked=lambda question: [chunks[at] for at in best_first(score(question), DEPTH)])


def alone(name: str, chunks: Pieces, texts: Sequence[str], embedder: Dense | None) -> dict[str, Method]:
    """Return `bm25s_NAME`, and with an embedder `minilm_NAME`, over the texts of chunks."""
    found = {f"bm25s_{name}": over(chunks, by_words(texts))}
    return found if embedder is None else {**found, f"minilm_{name}": over(chunks, by_vectors(texts, embedder))}


def usual_pipelines(corpus: Corpus, embedder: Dense | None, tell: Tell) -> dict[str, Method]:
    """Return what a user would take instead; what needs vectors of MiniLM only with that embedder."""
    entries = corpus.entries.values()
    chunks = {chunk.id: chunk for entry in entries for chunk in entry.chunks}
    headed = {view.chunk_id: view.text for entry in entries for view in entry.views if view.kind == "headed"}
    cut = [chunk for entry in entries for chunk in cut_fixed(entry.document, tokens=FIXED)]
    found = alone("headed", [chunks[each] for each in headed], list(headed.values()), embedder)
    found |= alone(str(FIXED), cut, [chunk.text for chunk in cut], embedder)
    peers = frameworks(tell) if embedder is not None else None
    if peers is None or embedder is None:
        return found

    def route(pieces: Pieces, score: Score) -> Callable[[str], Ranking]:
        return lambda question: ranking(score(question), pieces).top(DEPTH)

    def of_ids(pieces: Pieces, fused: Callable[[str], list[str]]) -> Method:
        by_id = {each.id: each for each in pieces}
        return Method(ranked=lambda question: [by_id[each] for each in fused(question)])

    documents = [entry.document for entry in entries]
    pieces = [chunk for document in documents for chunk in peers.recursive_chunks(document)]
    plain = PlainBm25({each.id: each.text for each in pieces})

    def by_plain_words(question: str) -> Ranking:
        by_id = plain.scores(question)
        return Ranking.of((Hit(each, by_id[each.id]) for each in pieces if each.id in by_id), Scale.SIMILARITY)

    near = by_vectors([each.text for each in pieces], embedder)
    ensemble = peers.ensemble([lambda q: by_plain_words(q).top(DEPTH), route(pieces, near)], DEPTH)
    found["langchain_ensemble"] = of_ids(pieces, ensemble)
    nodes = [chunk for document in documents for chunk in peers.sentence_chunks(document)]
    texts = [each.text for each in nodes]
    routes = [route(nodes, by_words(texts)), route(nodes, by_vectors(texts, embedder))]
    found["llamaindex_fusion"] = of_ids(nodes, peers.query_fusion(routes, DEPTH, mode="reciprocal_rerank"))
    return found
