"""Look-alike documents: is the right one's section found, by each route alone and by all together?

Reads any directory of the layout `similar_docs`: `documents.json`, `sections.jsonl`, `questions.jsonl` and the
Markdown files that they name. Gold is a section's character span, so any chunker can be judged; the same text in
another document is a miss, because its citation would be wrong.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from catena.errors import ParameterError
from catena.evaluation.log_rank_index import log_rank_index
from catena.evaluation.spans import GoldSpan, chunks_of_items, item_recall
from catena.library import Library
from catena.model import Chunk, Ranking
from catena.retrieval.fusion import RankFusion
from catena.retrieval.multi_route import Fusion

METHODS: Mapping[str, tuple[str, ...]] = {
    "lexical": ("lexical",),
    "dense": ("dense",),
    "keyword": ("keyword",),
    "fused": ("lexical", "dense", "keyword"),
    "rank_fused": ("lexical", "dense", "keyword"),
}
MIN_CUTOFF = 5  # recall is taken at max(5, number of gold sections)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the sections that answer it (none: it has no answer in the collection)."""

    id: str
    text: str
    kind: str
    gold: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Files by document id, gold sections as spans, and the questions."""

    files: Mapping[str, Path]
    sections: Mapping[str, GoldSpan]
    questions: tuple[Question, ...]


def read_collection(data: Path) -> Collection:
    """Read a directory of the layout.

    Raises:
        ParameterError: a file of the layout is missing, or a row lacks a field.
    """
    try:
        documents = json.loads((data / "documents.json").read_text(encoding="utf-8"))
        sections, questions = (_rows(data / name) for name in ("sections.jsonl", "questions.jsonl"))
        return Collection(
            files={row["doc_id"]: data / row["path"] for row in documents},
            sections={
                row["section_id"]: GoldSpan(
                    item=row["section_id"], document_id=row["doc_id"], start=row["start"], end=row["end"]
                )
                for row in sections
            },
            questions=tuple(
                Question(
                    id=row["qid"], text=row["question"], kind=row.get("kind") or "other", gold=tuple(row["gold"])
                )
                for row in questions
            ),
        )
    except (OSError, ValueError, KeyError) as error:
        what = (
            f"a directory with documents.json, sections.jsonl and questions.jsonl ({type(error).__name__}: {error})"
        )
        raise ParameterError("data", str(data), what) from None


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def run(
    data: Path,
    *,
    fusion: Fusion | None = None,
    depth: int = 1_000,
    questions: int | None = None,
    tell: Callable[[str], None] = lambda message: None,
) -> dict[str, float]:
    """Index the collection, ask every question by every method, and return the figures.

    Args:
        data: a directory of the layout.
        fusion: for the method "fused"; the library's default otherwise.
        depth: length of the rankings that the Log-Rank Index judges; what lies deeper counts as last.
        questions: ask only so many of each kind.
        tell: is told how far the run is.

    Returns:
        `recall.METHOD[.KIND]` at max(5, gold sections), of a search with the default depth, and
        `lri.METHOD[.KIND]` (Log-Rank Index, gamma 1, N = the chunks, ties by mid-rank, a section at the rank of
        its first chunk), both in [0, 1];
        `index_seconds`; `query_ms_p50` and `query_ms_p95` of a fused search for ten hits; `n_questions`,
        `n_judged` (those with gold), `n_documents`, `n_chunks`.
    """
    collection = read_collection(data)
    asked = _some(collection.questions, questions)
    with TemporaryDirectory(prefix="catena-bench-") as folder, Library.open(Path(folder) / "library") as library:
        tell(f"indexing {len(collection.files)} documents")
        start = perf_counter()
        library.index(collection.files.values())
        library.search(asked[0].text if asked else "warm-up", k=1)  # the derived indexes are part of the price
        index_seconds = perf_counter() - start
        chunks = _chunks(library, collection)
        items = chunks_of_items(chunks, collection.sections.values())
        judged = [question for question in asked if question.gold]
        figures: dict[str, float] = {
            "index_seconds": index_seconds,
            "n_documents": len(library.documents()),
            "n_chunks": len(chunks),
            "n_questions": len(asked),
            "n_judged": len(judged),
            **_query_times(library, asked, fusion),
        }
        for method in METHODS:
            tell(f"{method}: {len(judged)} questions")
            search = _searcher(library, method, fusion)
            figures.update(_quality(method, judged, items, search, depth=min(depth, len(chunks)), n=len(chunks)))
    return figures


def _some(questions: Iterable[Question], most: int | None) -> list[Question]:
    taken: defaultdict[str, list[Question]] = defaultdict(list)
    for question in questions:
        taken[question.kind].append(question)
    return [question for group in taken.values() for question in group[:most]]


def _chunks(library: Library, collection: Collection) -> list[Chunk]:
    """Return all chunks under the collection's own document ids."""
    return [
        replace(chunk, document_id=document_id)
        for document_id, path in collection.files.items()
        for chunk in library.get(library.document_id(path)).chunks
    ]


def _searcher(library: Library, method: str, fusion: Fusion | None) -> Callable[..., Ranking]:
    how = RankFusion() if method == "rank_fused" else fusion

    def search(question: str, k: int, depth: int | None) -> Ranking:
        return library.search(question, k=k, depth=depth, routes=METHODS[method], fusion=how, on_route_error="raise")

    return search


def _query_times(library: Library, questions: Sequence[Question], fusion: Fusion | None) -> dict[str, float]:
    """Return the median and the 95th percentile of a fused search for ten hits, in milliseconds."""
    times = []
    for question in questions:
        start = perf_counter()
        library.search(question.text, k=10, fusion=fusion, on_route_error="raise")
        times.append((perf_counter() - start) * 1_000)
    cuts = quantiles(times, n=20, method="inclusive") if len(times) > 1 else [*times] * 19
    return {"query_ms_p50": cuts[9], "query_ms_p95": cuts[18]} if times else {}


def _quality(
    method: str,
    questions: Sequence[Question],
    items: Mapping[str, frozenset[str]],
    search: Callable[[str, int, int | None], Ranking],
    *,
    depth: int,
    n: int,
) -> dict[str, float]:
    recall: defaultdict[str, list[float]] = defaultdict(list)
    index: defaultdict[str, list[float]] = defaultdict(list)
    for question in questions:
        gold = {name: items.get(name, frozenset()) for name in question.gold}
        cutoff = max(MIN_CUTOFF, len(gold))
        found = item_recall(search(question.text, cutoff, None), gold, cutoff)
        ranking = search(question.text, depth, depth)
        value = log_rank_index(_first_chunks(ranking, gold), ranking, n=n).value or 0.0
        for key in (method, f"{method}.{question.kind}"):
            recall[key].append(found)
            index[key].append(value)
    return {
        **{f"recall.{key}": fmean(values) for key, values in recall.items()},
        **{f"lri.{key}": fmean(values) for key, values in index.items()},
    }


def _first_chunks(ranking: Ranking, gold: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return for each gold section the chunk by which it was found first; any of its chunks when none was."""
    place = {hit.chunk.id: number for number, hit in enumerate(ranking.hits)}
    last = len(place)
    return frozenset(
        min(ids, key=lambda chunk_id: (place.get(chunk_id, last), chunk_id)) if ids else f"lost:{name}"
        for name, ids in gold.items()
    )
