"""Measure segments and headers where a reader has a fixed number of tokens: evidence recalled, and how purely.

No language model and no reranker: rankings come from the library, passages are made of them in several ways
(`segments_systems`), and what of the evidence lies in them is counted in characters. "Headers" means two things,
measured apart: what a chunk is *found* under (the index), and what the *reader* gets above a passage and pays for in
tokens (systems with "_headers").

Half of the questions of each collection (by a hash of their ids) are only for choosing parameters. What is returned
is of the other half.

| index | a chunk is found under |
|---|---|
| raw | its text |
| headed | the titles above it, and its text: what the library makes |
| context | the header of dsRAG with the same titles, and its text |

| route | ranking |
|---|---|
| dense | cosine alone, as in dsRAG |
| fused | the library's search: dense, lexical and by critical terms |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from catena import Entry, Library, ParameterError, Ranking, View
from catena.enrichment import critical_terms
from catena.retrieval import DEFAULT_ROUTES
from catena.structure import context_views, raw_views, segment_header
from catena_bench.collection import library_of
from catena_bench.figures import ROUNDS, mean_figures
from catena_bench.segments_data import EvidenceQuestion, LongDocuments, find_collections, read_long_documents
from catena_bench.segments_systems import HEADERS, SYSTEMS, MeasuredDocuments, Reading, evidence, tokens_of

DEPTH = 200  # hits of a ranking, as dsRAG asks for

ROUTES: Mapping[str, tuple[str, ...]] = {"dense": ("dense",), "fused": DEFAULT_ROUTES}


BUDGETS = (250, 500, 1_000, 2_000, 4_000)  # tokens
USUAL = "headed"  # the index that the library makes; the others are asked for FEW systems
FEW = ("topk", "lent")
MEAN = "mean"  # over the budgets, in the place of one
MEASURES = ("recall", "precision")
PAIRS = (
    ("topk_headers", "topk"), ("window", "topk"), ("section", "topk"), ("article", "topk"), ("greedy", "topk"),
    ("lent", "topk"), ("optimal", "greedy"), ("lent", "greedy"), ("lent", "window"), ("lent", "section"),
    ("lent_headers", "lent"), ("article_headers", "topk_headers"), ("greedy_headers", "topk_headers"),
    ("optimal_headers", "topk_headers"), ("lent_headers", "topk_headers"), ("lent_headers", "window_headers"),
    ("lent_headers", "section_headers"),
)  # fmt: skip
INDEX_PAIRS = (("headed", "raw"), ("context", "raw"), ("context", "headed"))
Cell = tuple[str, str, str, str]
"""Route, index, system, budget or `MEAN`."""


def raw(entry: Entry) -> Entry:
    """Return the entry with each chunk under its text; no title is a critical term of it."""
    untitled = replace(entry.document, title="")
    bare = tuple(replace(chunk, path=()) for chunk in entry.chunks)
    return replace(_under(entry, raw_views(entry.chunks)), terms=critical_terms(untitled, bare))


def headed(entry: Entry) -> Entry:
    """Return the entry as the library makes it."""
    return entry


def context(entry: Entry) -> Entry:
    """Return the entry with each chunk under the header of its document and section, and its text."""
    return _under(entry, context_views(entry.chunks))


INDEXES: Mapping[str, Callable[[Entry], Entry]] = {"raw": raw, "headed": headed, "context": context}


def _under(entry: Entry, views: Sequence[View]) -> Entry:
    return replace(entry, views=tuple(replace(view, kind="headed") for view in views))  # the kind that routes search


@dataclass(frozen=True, slots=True)
class Searcher:
    """One index, searched by each route."""

    library: Library

    def __call__(self, question: EvidenceQuestion, route: str) -> Ranking:
        """Return the ranking of a question within the document it is asked of."""
        return self.library.search(
            question.text,
            k=DEPTH,
            depth=DEPTH,
            routes=ROUTES[route],
            where={"document_id": question.within} if question.within is not None else None,
            on_route_error="raise",
            on_unknown="keep",
        )


@dataclass(frozen=True)
class Values:
    """Recall, precision and tokens of each question, in the order of the questions.

    Attributes:
        recall, precision: in characters of evidence.
        tokens: that the reader was given.
    """

    recall: list[float] = field(default_factory=list)
    precision: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)

    def add(self, recall: float, precision: float, tokens: float) -> None:
        """Take in one question."""
        self.recall.append(recall)
        self.precision.append(precision)
        self.tokens.append(tokens)


def run(
    data: Path,
    *,
    collection: Sequence[str] = (),
    questions: int = 100,
    tell: Callable[[str], None] = lambda message: None,
) -> dict[str, float]:
    """Ask every collection at or below a folder, by every system at every budget.

    Args:
        data: one collection of a layout of `catena_bench.segments_data`, or a folder above several.
        collection: names of those to ask; all that are found by default. One that is not there is told and left out.
        questions: asked of each collection at most: the first of the half that reports, in the order of their hashes.
        tell: is told how far the run is.

    Returns:
        By `COLLECTION.ROUTE.INDEX.SYSTEM.BUDGET`, where the budget is in tokens or "mean" over all of them:
        `recall.…` and `precision.…` (means over the questions; nothing returned counts 0), with the ends of their
        95% bootstrap intervals `recall.low.…`, `recall.high.…` (and so on), and `tokens.…`, what was given;
        `difference.recall.COLLECTION.ROUTE.INDEX.A-B.BUDGET` of A less B for the `PAIRS` of systems, and
        `difference.recall.COLLECTION.ROUTE.SYSTEM.A-B.BUDGET` for pairs of indexes, with `low` and `high`; the same
        of precision;
        with the collection "all", the unweighted mean of the collections (without intervals);
        `n.COLLECTION`, `n_documents.COLLECTION`, `n_chunks.COLLECTION`, `chunk_tokens.COLLECTION` (mean).

    Raises:
        ParameterError: there is no collection, or one is malformed.
    """
    found = find_collections(data)
    chosen = [name for name in (collection or found) if name in found]
    for name in collection:
        if name not in found:
            tell(f"without {name}: needs data")
    if any(data.rglob("*_corpus.jsonl*")):
        tell("without collections of paragraphs: no document there is long enough for a segment")
    if not chosen:
        raise ParameterError("data", str(data), "a folder with a collection of long documents at or below it")
    figures: dict[str, float] = {}
    cells: defaultdict[str, list[float]] = defaultdict(list)
    for name in chosen:
        documents = read_long_documents(found[name])
        asked = reported(documents.questions, questions)
        tell(f"{name}: {len(documents.entries)} documents, {len(asked)} questions")
        values = measured(documents, asked, tell)
        figures |= _sizes(documents, asked) | summed(name, values)
        for cell, each in values.items():
            for measure in (*MEASURES, "tokens"):
                cells[f"{measure}.all.{'.'.join(cell)}"].append(fmean(getattr(each, measure)))
    return figures | {key: fmean(means) for key, means in cells.items()}


def reported(questions: Sequence[EvidenceQuestion], most: int) -> list[EvidenceQuestion]:
    """Return the first `most` questions of the half that reports.

    Raises:
        ParameterError: there are none.
    """
    half = [question for question in questions if not question.tunes]
    if not half[:most]:
        allowed = f"1 or more of the {len(half)} that report, of {len(questions)} with evidence"
        raise ParameterError("questions", most, allowed)
    return sorted(half, key=lambda question: question.place)[:most]


def measured(
    documents: LongDocuments,
    questions: Sequence[EvidenceQuestion],
    tell: Callable[[str], None] = lambda message: None,
) -> dict[Cell, Values]:
    """Return the values of every question by every index, route, system and budget."""
    known = MeasuredDocuments.of(documents.entries)
    values: defaultdict[Cell, Values] = defaultdict(Values)
    for index in INDEXES:
        systems = [name + tail for name in SYSTEMS for tail in ("", HEADERS)] if index == USUAL else FEW
        tell(f"{documents.name}: index {index}, {len(systems)} systems")
        with library_of(map(INDEXES[index], documents.entries)) as library:
            searcher = Searcher(library)
            for question in questions:
                for route in ROUTES:
                    for system, got in _asked(searcher, known, question, route, systems).items():
                        for budget, each in zip((*map(str, BUDGETS), MEAN), got, strict=True):
                            values[route, index, system, budget].add(*each)
    return dict(values)


def _asked(
    searcher: Searcher, known: MeasuredDocuments, question: EvidenceQuestion, route: str, systems: Sequence[str]
) -> dict[str, list[tuple[float, float, float]]]:
    """Return recall, precision and tokens of each system at each budget, and their means last."""
    ranking = searcher(question, route)
    got: dict[str, list[tuple[float, float, float]]] = {}
    for system in systems:
        header = segment_header if system.endswith(HEADERS) else None
        choose = SYSTEMS[system.removesuffix(HEADERS)]
        each = []
        for budget in BUDGETS:
            reading = Reading(known=known, services=searcher.library.services, ranking=ranking, budget=budget)
            runs = choose(reading, header)
            each.append((*evidence(known.spans(runs), question.gold), float(known.tokens(runs, header))))
        recall, precision, tokens = (fmean(column) for column in zip(*each, strict=True))
        got[system] = [*each, (recall, precision, tokens)]
    return got


def summed(name: str, values: Mapping[Cell, Values]) -> dict[str, float]:
    """Return the means of one collection and the differences between its systems, with their intervals."""
    figures: dict[str, float] = {}
    for cell, each in values.items():
        key = f"{name}.{'.'.join(cell)}"
        figures[f"tokens.{key}"] = fmean(each.tokens)
        for measure in MEASURES:
            figures |= mean_figures(measure, getattr(each, measure), of=key, rounds=ROUNDS)
    for (route, index, system, budget), mine in values.items():
        rivals = {
            f"{name}.{route}.{index}.{a}-{b}.{budget}": values.get((route, index, b, budget))
            for a, b in PAIRS
            if a == system
        } | {
            f"{name}.{route}.{system}.{a}-{b}.{budget}": values.get((route, b, system, budget))
            for a, b in INDEX_PAIRS
            if a == index
        }
        for key, other in rivals.items():
            for measure in MEASURES if other is not None else ():
                pairs = zip(getattr(mine, measure), getattr(other, measure), strict=True)
                gains = [one - two for one, two in pairs]
                figures |= mean_figures(f"difference.{measure}", gains, of=key, rounds=ROUNDS)
    return figures


def _sizes(documents: LongDocuments, asked: Sequence[EvidenceQuestion]) -> dict[str, float]:
    lengths = [tokens_of(chunk.text) for entry in documents.entries for chunk in entry.chunks]
    name = documents.name
    return {
        f"n.{name}": len(asked),
        f"n_documents.{name}": len(documents.entries),
        f"n_chunks.{name}": len(lengths),
        f"chunk_tokens.{name}": fmean(lengths),
    }
