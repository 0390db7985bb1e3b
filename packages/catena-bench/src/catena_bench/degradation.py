"""Measure retrieval as the collection grows: the same questions over 1, 10, 100, … and all documents (Figure 2).

Each question has collections of its own: the documents that answer it, and others, of which every second is the next
look-alike by title and the rest are drawn by a seed; each larger collection holds the smaller ones. Where a question
has more gold documents than the collection's size, the collection is these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Group
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np

from catena import Chunk, Library, Ranking
from catena.effects import Search, Services
from catena.enrichment import StaticEmbedder
from catena.evaluation import Ranked, item_recall
from catena.store import LibraryStore
from catena_bench.collection import CollectionQuestion, Judge, SimilarDocuments, answered, chunks_in, read_collection
from catena_bench.figures import Figures, Tell, mean_figures, silent
from catena_bench.views_retrievers import PlainBm25, words_of

System = Callable[[CollectionQuestion, Group[str] | None], Ranked]
"""From a question and the documents to search (None: all) to a ranking."""


def run(data: Path, *, questions: int | None = None, seed: int = 0, tell: Tell = silent) -> Figures:
    """Ask every question in growing collections, by the whole system and by two without structure.

    Systems: "full", the library's search; "vector", the cosine of the texts of the chunks by the same embedding;
    "raw_bm25", plain BM25 over the same texts. A collection is a part of one index: the statistics of BM25 and the
    critical terms are those of the whole library at every size (of a few chunks, an idf says nothing).

    Args:
        data: a directory of the layout that `catena_bench.collection` states.
        questions: ask only so many of each kind.
        seed: of the documents that are drawn.
        tell: is told how far the run is.

    Returns:
        For each system and size, with 95% bootstrap intervals (`.low`, `.high`): `recall.SYSTEM.SIZE`, the share of a
        question's gold sections among the first max(5, gold) hits, and `accuracy.SYSTEM.SIZE`, that among the first
        `gold` hits: all of what a reader is given is right. `n_documents`, `n_chunks`, `n_judged`.

    Raises:
        ParameterError: no question has an answer.
    """
    collection = read_collection(data)
    judged = answered(collection, questions)
    sizes = sizes_for(len(collection.files))
    with TemporaryDirectory(prefix="catena-bench-") as folder, Library.open(Path(folder) / "library") as library:
        tell(f"indexing {len(collection.files)} documents")
        library.index(collection.files.values())
        chunks = chunks_in(library, collection)
        systems = _systems(library, chunks)
        judge = Judge.of(collection, chunks)
        titles = _titles(library, collection)
        found: defaultdict[str, list[float]] = defaultdict(list)
        for number, question in enumerate(judged, start=1):
            order = grown(question, collection, titles, Random(f"{seed} {question.id}"))
            for size in sizes:
                among = None if size == len(collection.files) else frozenset(order[:size])
                among = among and among | collection.documents_of(question)
                for name, system in systems.items():
                    ranked = system(question, among)
                    gold = {item: judge.items.get(item, frozenset()) for item in question.gold}
                    found[f"recall.{name}.{size}"].append(judge.recall(question, ranked))
                    found[f"accuracy.{name}.{size}"].append(item_recall(ranked, gold, len(gold)))
            if number % 100 == 0:
                tell(f"{number} questions asked in {len(sizes)} collections each")
    figures: dict[str, float] = {
        "n_documents": len(collection.files),
        "n_chunks": len(chunks),
        "n_judged": len(judged),
    }
    for key, values in found.items():
        figures |= mean_figures(key, values)
    return figures


def sizes_for(documents: int) -> list[int]:
    """Return 1, 10, 100, … up to half the number of documents, and that number."""
    sizes = [1]
    while sizes[-1] * 20 <= documents:
        sizes.append(sizes[-1] * 10)
    return sorted({*sizes, documents})


def grown(
    question: CollectionQuestion, collection: SimilarDocuments, titles: Mapping[str, frozenset[str]], draw: Random
) -> list[str]:
    """Return all documents in the order in which the collections of a question take them in."""
    gold = sorted(collection.documents_of(question))
    others = sorted(set(collection.files) - set(gold))
    named = frozenset().union(*(titles[document] for document in gold))
    alike = sorted(others, key=lambda document: (-_likeness(titles[document], named), document))
    draw.shuffle(others)
    mixed = chain.from_iterable(zip_longest(alike, others))
    return list(dict.fromkeys([*gold, *(document for document in mixed if document is not None)]))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of words that two titles have in common, of all their words."""
    return len(one & other) / len(one | other) if one or other else 0.0


def _titles(library: Library, collection: SimilarDocuments) -> dict[str, frozenset[str]]:
    held = {info.id: info.title for info in library.documents()}
    return {
        document: frozenset(words_of(held.get(library.document_id(path), "")))
        for document, path in collection.files.items()
    }


def _systems(library: Library, chunks: Sequence[Chunk]) -> dict[str, System]:
    embedder, of_document = StaticEmbedder(), {chunk.id: chunk.document_id for chunk in chunks}
    matrix = embedder.embed_documents([chunk.text for chunk in chunks])
    words = PlainBm25({chunk.id: chunk.text for chunk in chunks})

    def here(scores: Mapping[str, float], among: Group[str] | None) -> Ranked:
        return {chunk: score for chunk, score in scores.items() if among is None or of_document[chunk] in among}

    def full(question: CollectionQuestion, among: Group[str] | None) -> Ranked:
        some = tuple(chunk for chunk, document in of_document.items() if among is not None and document in among)
        store = library.store if among is None else _Part(library.store, some)
        part = Library(cast("LibraryStore", store), Services(embedder=embedder), library.preparation)
        return part.search(question.text, k=question.cutoff, on_route_error="raise")

    def vector(question: CollectionQuestion, among: Group[str] | None) -> Ranked:
        cosines = np.vecdot(matrix, embedder.embed_query(question.text))
        return here(dict(zip(of_document, cosines.tolist(), strict=True)), among)

    def raw_bm25(question: CollectionQuestion, among: Group[str] | None) -> Ranked:
        return here(words.scores(question.text), among)

    return {"full": full, "vector": vector, "raw_bm25": raw_bm25}


class _Part:
    """A store of which only some chunks are searched."""

    def __init__(self, store: LibraryStore, among: tuple[str, ...]) -> None:
        self._store, self._among = store, among

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def search(self, request: Search) -> Ranking:
        """Rank the chunks that are asked for, or all that are here."""
        return self._store.search(request if request.among is not None else replace(request, among=self._among))
