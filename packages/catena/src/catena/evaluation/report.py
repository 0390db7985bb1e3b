"""Score a retriever on a question bank: recall, Log-Rank Index, nDCG and MRR, by kind and with intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import stdev

from catena.evaluation.answers import MeanScore, mean_score
from catena.evaluation.curves import ranks_of
from catena.evaluation.evidence import item_recall
from catena.evaluation.judgements import Ranked, ranked_ids, scored_ids
from catena.evaluation.log_rank_measure import LogRankRules, MeanLogRankIndex, mean_log_rank_index
from catena.evaluation.question_bank import BankQuestion, DocumentNames, Gold, chunks_of_gold
from catena.evaluation.significance import LEVEL, detectable_difference
from catena.evaluation.standard import evaluate
from catena.model import Entry, EvaluationError, MissingExtraError, ParameterError, Ranking

Items = Mapping[str, frozenset[str]]  # gold name -> ids of the chunks that hold it

MEASURES = ("ndcg@10", "mrr@10")
NAMES: Mapping[str, str] = {"recall": "recall", "lri": "LRI", "ndcg@10": "nDCG@10", "mrr@10": "MRR@10"}
"""Measure -> its name above a column."""
FEWEST = 10  # hits of the search that a user would make, for nDCG and MRR at 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Relevant chunks of each question.

    Attributes:
        items: by question id, for each question with gold; an item that no chunk holds is an empty set.
        lost: gold places that are nowhere in the collection, as (question id, place); they count as not found.
    """

    items: Mapping[str, Items] = field(hash=False, repr=False)
    lost: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureValue:
    """One measure over the questions of a kind, or over all.

    Attributes:
        detectable: smallest difference that a comparison with another system on these questions would find (80%
            power, 5% level), if the other's values vary alike and correlate 0.5; None for fewer than 2 questions.
    """

    score: MeanScore
    detectable: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalReport:
    """Scores of a retriever by kind of question. Kinds are sorted; "" is all questions together.

    Attributes:
        k: recall is taken at max(k, number of gold places) of each question.
        n: ranked pieces, and gamma: the Log-Rank Index means nothing without them; ties by mid-rank, what the deep
            rankings do not hold stands last.
        measures: by kind, then by "recall", "lri" and, where ir_measures is installed, "ndcg@10" and "mrr@10".
        geometric_mean_rank: by kind, the readable form of the index.
        ranks: of the gold places of each question in the deep ranking, from 1; for curves.
        n_questions: all; n_judged: those with gold; n_lost: gold places that are nowhere in the collection.
        without: measures that could not be taken, and why; "" if none.
    """

    k: int
    n: int
    gamma: float
    measures: Mapping[str, Mapping[str, MeasureValue]] = field(hash=False)
    geometric_mean_rank: Mapping[str, float] = field(hash=False)
    ranks: Mapping[str, tuple[float, ...]] = field(hash=False, repr=False)
    n_questions: int
    n_judged: int
    n_lost: int
    without: str = ""


def judge(questions: Iterable[BankQuestion], document_ids: Iterable[str], get: Callable[[str], Entry]) -> Judgement:
    """Match the gold of questions to chunks.

    Args:
        questions: of a bank.
        document_ids: of the whole collection.
        get: returns a document's entry; called once for each document that is needed.

    Raises:
        EvaluationError: a document's name fits several, or no gold place at all is in the collection, which then is
            another one.
    """
    ids = sorted(document_ids)
    names = DocumentNames(ids)
    entries: dict[str, Entry] = {}
    known: dict[Gold, frozenset[str]] = {}  # sections are the gold of many questions

    def entry(document_id: str) -> Entry:
        return entries.get(document_id) or entries.setdefault(document_id, get(document_id))

    def chunks(gold: Gold) -> frozenset[str]:
        found = names.find(gold.document) if gold.document else None
        wanted = ids if not gold.document else [] if found is None else [found]
        return chunks_of_gold(gold, map(entry, wanted))

    items: dict[str, dict[str, frozenset[str]]] = {}
    lost: list[tuple[str, str]] = []
    for question in questions:
        for gold in question.gold:
            if gold not in known:
                known[gold] = chunks(gold)
            items.setdefault(question.id, {})[gold.name] = known[gold]
            if not known[gold]:
                lost.append((question.id, str(gold)))
    if items and not any(known.values()):
        raise EvaluationError(
            f"no gold place is in this collection, e.g. {lost[0][1]} of question {lost[0][0]!r}. "
            "Try: the collection that the questions were made for, and its file names"
        )
    return Judgement(items=items, lost=tuple(lost))


def ask_questions(
    questions: Iterable[BankQuestion],
    judgement: Judgement,
    search: Callable[..., Ranking],
    *,
    depth: int,
    k: int = 5,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, Ranking], dict[str, Ranking]]:
    """Ask every question with gold twice: as a user would, and as deep as the Log-Rank Index judges.

    Args:
        questions: of a bank; those without gold are left out.
        judgement: of these questions.
        search: called with a question and `k=`, and for deep rankings `depth=`, as `Library.search`.
        depth: length of the deep rankings.
        k: cutoff of recall.
        progress: told after each question how many were asked, and of how many.

    Returns:
        By question id the two rankings that `retrieval_report` takes as `top` and `deep`.
    """
    judged = [question for question in questions if judgement.items.get(question.id)]
    top: dict[str, Ranking] = {}
    deep: dict[str, Ranking] = {}
    for number, question in enumerate(judged, start=1):
        top[question.id] = search(question.text, k=max(k, FEWEST, len(judgement.items[question.id])))
        deep[question.id] = search(question.text, k=depth, depth=depth)
        if progress is not None:
            progress(number, len(judged))
    return top, deep


def retrieval_report(
    questions: Sequence[BankQuestion],
    judgement: Judgement,
    *,
    top: Mapping[str, Ranked],
    deep: Mapping[str, Ranked],
    n: int,
    k: int = 5,
    gamma: float = 1.0,
    level: float = LEVEL,
) -> RetrievalReport:
    """Return what was found, over all questions with gold and by kind.

    A gold place counts once, at the rank of the first chunk that holds it.

    Args:
        questions: all that were asked; those without gold are counted and left out.
        judgement: of these questions.
        top: what a user would get for each, at least max(k, gold places, 10) hits if there are so many.
        deep: rankings as long as can be had, for the Log-Rank Index.
        n: number of pieces that were ranked.
        k: cutoff of recall, 1 or more.
        gamma: of the Log-Rank Index.
        level: of the confidence intervals.

    Raises:
        EvaluationError: no question has gold, or a ranking is malformed.
        ParameterError: a parameter is outside its domain.
    """
    LogRankRules(n=n, gamma=gamma)
    if k < 1:
        raise ParameterError("k", k, "a cutoff of 1 or more")
    judged = [question for question in questions if judgement.items.get(question.id)]
    if not judged:
        raise EvaluationError("no question has gold, so nothing can be measured")
    values, index, ranks, without = _values(judged, judgement, top, deep, n=n, k=k, gamma=gamma)
    groups: dict[str, list[str]] = {"": [question.id for question in judged]}
    for kind in sorted({question.kind for question in judged}):
        groups[kind] = [question.id for question in judged if question.kind == kind]
    return RetrievalReport(
        k=k,
        n=n,
        gamma=gamma,
        measures={
            kind: {name: _measured([found[q] for q in ids], level) for name, found in values.items()}
            for kind, ids in groups.items()
        },
        geometric_mean_rank={kind: index[kind].geometric_mean_rank or 1.0 for kind in groups},
        ranks=ranks,
        n_questions=len(questions),
        n_judged=len(judged),
        n_lost=len(judgement.lost),
        without=without,
    )


def _values(
    judged: Sequence[BankQuestion],
    judgement: Judgement,
    top: Mapping[str, Ranked],
    deep: Mapping[str, Ranked],
    *,
    n: int,
    k: int,
    gamma: float,
) -> tuple[dict[str, Mapping[str, float]], dict[str, MeanLogRankIndex], dict[str, tuple[float, ...]], str]:
    """Return values by measure and question, the index by kind, the ranks by question, and what is missing."""
    items = {question.id: judgement.items[question.id] for question in judged}
    first_top, first_deep = (
        {query: dict.fromkeys(_first_chunks(run.get(query, ()), gold), 1) for query, gold in items.items()}
        for run in (top, deep)
    )
    # cut so that gold that no chunk holds has ranks to stand on: those at the end earn 0
    room = {query: max(0, n - sum(not ids for ids in gold.values())) for query, gold in items.items()}
    deep = {query: dict(scored_ids(deep.get(query, ()))[: room[query]]) for query in items}
    by_kind: defaultdict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for question in judged:
        by_kind[""][question.id] = by_kind[question.kind][question.id] = first_deep[question.id]
    index = {
        kind: mean_log_rank_index(qrels, {query: deep[query] for query in qrels}, n=n, gamma=gamma)
        for kind, qrels in by_kind.items()
    }
    values: dict[str, Mapping[str, float]] = {
        "recall": {query: item_recall(top.get(query, ()), gold, max(k, len(gold))) for query, gold in items.items()},
        "lri": {query: found.value or 0.0 for query, found in index[""].per_query.items()},
    }
    try:
        standard = evaluate(first_top, {query: top.get(query, ()) for query in items}, MEASURES)
        values |= {name: found.per_query for name, found in standard.items()}
        without = ""
    except MissingExtraError as error:
        without = f"{' and '.join(MEASURES)}: {error}"
    ranks = {query: ranks_of(frozenset(gold), deep[query], n=n) for query, gold in first_deep.items()}
    return values, index, ranks, without


def _first_chunks(ranked: Ranked, gold: Items) -> list[str]:
    """Return for each gold place the chunk by which it was found first; any of its chunks when none was."""
    place = {piece: number for number, piece in enumerate(ranked_ids(ranked))}
    last = len(place)
    return [
        min(ids, key=lambda piece: (place.get(piece, last), piece)) if ids else f"lost:{name}"
        for name, ids in gold.items()
    ]


def _measured(values: Sequence[float], level: float) -> MeasureValue:
    score = mean_score(values, level=level)
    detectable = detectable_difference(len(values), deviation=stdev(values)) if len(values) > 1 else None
    return MeasureValue(score=score, detectable=detectable)
