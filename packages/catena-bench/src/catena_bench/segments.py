"""What segments and headers add where a reader has a fixed number of tokens: evidence recalled, and how purely.

No language model and no reranker: rankings come from the library (`segments_search`), passages are made of them in
several ways (`segments_systems`), and what of the evidence lies in them is counted in characters
(`segments_filling`). "Headers" means two things, measured apart: what a chunk is *found* under (the index), and what
the *reader* gets above a passage and pays for in tokens (systems with "_headers").

Half of the questions of each collection (by a hash of their ids) are only for choosing parameters. What is returned
is of the other half.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from catena.evaluation import bootstrap_interval
from catena.model import ParameterError
from catena.structure import segment_header
from catena_bench.segments_data import Asked, LongDocuments, find_collections, read_long_documents
from catena_bench.segments_filling import Shelf, evidence, tokens_of
from catena_bench.segments_search import INDEXES, ROUTES, Searcher, searching
from catena_bench.segments_sweep import swept
from catena_bench.segments_systems import HEADERS, SYSTEMS, Reading

BUDGETS = (250, 500, 1_000, 2_000, 4_000)  # tokens
USUAL = "headed"  # the index that the library makes; the others are asked for FEW systems
FEW = ("topk", "lent")
MEAN = "mean"  # over the budgets, in the place of one
MEASURES = ("recall", "precision")

_ROUNDS = 2_000  # bootstrap samples

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


@dataclass(frozen=True)
class Values:
    """What each question got, in the order of the questions.

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
    sweep: int = 0,
    tell: Callable[[str], None] = lambda message: None,
) -> dict[str, float]:
    """Ask every collection at or below a folder, by every system at every budget.

    Args:
        data: one collection of a layout of `catena_bench.segments_data`, or a folder above several.
        collection: names of those to ask; all that are found by default. One that is not there is told and left out.
        questions: asked of each collection at most: the first of the half that reports, in the order of their hashes.
        sweep: above 0, settings of extraction are compared instead, on so many questions of each choosing half; what
            is returned then is said at `catena_bench.segments_sweep.swept`.
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
        if sweep:
            choosing = sorted((each for each in documents.questions if each.tunes), key=lambda each: each.place)
            tell(f"{name}: settings on {len(choosing[:sweep])} questions")
            figures |= swept(documents, choosing[:sweep], BUDGETS)
            continue
        asked = reported(documents.questions, questions)
        tell(f"{name}: {len(documents.entries)} documents, {len(asked)} questions")
        values = measured(documents, asked, tell)
        figures |= _sizes(documents, asked) | summed(name, values)
        for cell, each in values.items():
            for measure in (*MEASURES, "tokens"):
                cells[f"{measure}.all.{'.'.join(cell)}"].append(fmean(getattr(each, measure)))
    return figures | {key: fmean(means) for key, means in cells.items()}


def reported(questions: Sequence[Asked], most: int) -> list[Asked]:
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
    documents: LongDocuments, questions: Sequence[Asked], tell: Callable[[str], None] = lambda message: None
) -> dict[Cell, Values]:
    """Return what every question got from every index, route, system and budget."""
    shelf = Shelf.of(documents.entries)
    values: defaultdict[Cell, Values] = defaultdict(Values)
    for index in INDEXES:
        systems = [name + tail for name in SYSTEMS for tail in ("", HEADERS)] if index == USUAL else FEW
        tell(f"{documents.name}: index {index}, {len(systems)} systems")
        with searching(documents.entries, index) as searcher:
            for question in questions:
                for route in ROUTES:
                    for system, got in _asked(searcher, shelf, question, route, systems).items():
                        for budget, each in zip((*map(str, BUDGETS), MEAN), got, strict=True):
                            values[route, index, system, budget].add(*each)
    return dict(values)


def _asked(
    searcher: Searcher, shelf: Shelf, question: Asked, route: str, systems: Sequence[str]
) -> dict[str, list[tuple[float, float, float]]]:
    """Return recall, precision and tokens of each system at each budget, and their means last."""
    ranking = searcher(question, route)
    got: dict[str, list[tuple[float, float, float]]] = {}
    for system in systems:
        header = segment_header if system.endswith(HEADERS) else None
        choose = SYSTEMS[system.removesuffix(HEADERS)]
        each = []
        for budget in BUDGETS:
            reading = Reading(shelf=shelf, services=searcher.library.services, ranking=ranking, budget=budget)
            runs = choose(reading, header)
            each.append((*evidence(shelf.spans(runs), question.gold), float(shelf.tokens(runs, header))))
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
            figures |= _with_interval(measure, key, getattr(each, measure))
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
                figures |= _with_interval(f"difference.{measure}", key, [one - two for one, two in pairs])
    return figures


def _with_interval(measure: str, key: str, values: Sequence[float]) -> dict[str, float]:
    low, high = bootstrap_interval(values, rounds=_ROUNDS)
    return {f"{measure}.{key}": fmean(values), f"{measure}.low.{key}": low, f"{measure}.high.{key}": high}


def _sizes(documents: LongDocuments, asked: Sequence[Asked]) -> dict[str, float]:
    lengths = [tokens_of(chunk.text) for entry in documents.entries for chunk in entry.chunks]
    name = documents.name
    return {
        f"n.{name}": len(asked),
        f"n_documents.{name}": len(documents.entries),
        f"n_chunks.{name}": len(lengths),
        f"chunk_tokens.{name}": fmean(lengths),
    }
