"""Score retrieval by the pieces of evidence that questions of several hops need: recall, all found, match rate.

gold = {"q1": ["chunk of the first hop", "chunk of the second"]}  # or evidence_in(chunks, spans)
results = evaluate_evidence(gold, {"q1": ranking}, ("recall@5", "all@5"))
compare(results["all@5"].per_question, others["all@5"].per_question)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeGuard, TypeVar

from catena.evaluation.answers import MeanScore, mean_score
from catena.evaluation.judgements import QuerySet, Ranked, check_ids, match_queries, named, ranked_ids
from catena.evaluation.significance import LEVEL, ROUNDS, SEED
from catena.model import Chain, Chunk, EvaluationError, ParameterError

T = TypeVar("T")
Evidence: TypeAlias = Collection[str] | Mapping[str, Collection[str]]
"""Of one question: ids of chunks, all of them needed; or by piece of evidence the chunks of which any will do."""
Retrieved: TypeAlias = Ranked | Sequence[Chain]
"""Of one question; of chains the order is path after path, each chunk at its first place."""
DEFAULT_MEASURES = ("recall@2", "recall@5", "recall@10", "recall@20", "all@5")
MIN_OVERLAP = 0.5  # of chunk and span
_MEASURE = re.compile(r"(recall|all)@([1-9]\d*)|match_rate|chain_order")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldSpan:
    """A stretch of a document that holds (a part of) an answer.

    Attributes:
        item: what a reader must find; several spans may belong to one item, and any of them will do.
        start: 0-based code point into the document's text; the span is half-open, [start, end).
    """

    item: str
    document_id: str
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ParameterError("gold span", (self.start, self.end), "offsets with 0 <= start < end")


def chunks_of_items(
    chunks: Iterable[Chunk], gold_spans: Iterable[GoldSpan], *, min_overlap: float = MIN_OVERLAP
) -> dict[str, frozenset[str]]:
    """Return the ids of the chunks that are relevant to each gold item.

    A chunk is relevant to a span of its own document if at least `min_overlap` of the chunk's visible (non-space)
    characters lie in the span, or if the chunk holds at least `min_overlap` of the span's characters and any visible
    one among them. Equal text in another document is a miss: its citation would be wrong.

    Args:
        chunks: all chunks that were ranked, in any order.
        gold_spans: spans of one question or of many: items that many questions share are judged once.
        min_overlap: share in (0, 1].

    Returns:
        Every item of `gold_spans`; the set is empty when the chunks are so cut that none covers it.

    Raises:
        ParameterError: min_overlap is not in (0, 1].
    """
    if not 0 < min_overlap <= 1:
        raise ParameterError("min_overlap", min_overlap, "a share in (0, 1]")
    of_document: defaultdict[str, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        of_document[chunk.document_id].append(chunk)
    relevant: defaultdict[str, set[str]] = defaultdict(set)
    for span in gold_spans:
        relevant[span.item].update(
            chunk.id for chunk in of_document.get(span.document_id, ()) if _covers(chunk, span, min_overlap)
        )
    return {item: frozenset(ids) for item, ids in relevant.items()}


def relevant_chunks(
    chunks: Iterable[Chunk], gold_spans: Iterable[GoldSpan], *, min_overlap: float = MIN_OVERLAP
) -> frozenset[str]:
    """Return the ids of the chunks that are relevant to any of the gold spans, as `chunks_of_items` judges them."""
    return frozenset().union(*chunks_of_items(chunks, gold_spans, min_overlap=min_overlap).values())


def items_found(ranked: Ranked, items: Mapping[str, Collection[str]], k: int) -> frozenset[str]:
    """Return the gold items of which at least one chunk is among the first k ranked.

    Args:
        ranked: as in `judgements.scored_ids`.
        items: relevant chunk ids of each item, from `chunks_of_items`.
        k: cutoff, at least 1.

    Raises:
        ParameterError: k is below 1.
        EvaluationError: the ranking is malformed.
    """
    if k < 1:
        raise ParameterError("k", k, "a cutoff of 1 or more")
    top = set(ranked_ids(ranked)[:k])
    for item, ids in items.items():
        check_ids(ids, f"chunks of item {item!r}")
    return frozenset(item for item, ids in items.items() if not top.isdisjoint(ids))


def item_recall(ranked: Ranked, items: Mapping[str, Collection[str]], k: int) -> float:
    """Return `|items found in the first k| / |items|`.

    Unlike recall over chunks it does not depend on how many chunks an item was cut into. An item that no chunk
    covers counts as not found: the chunker lost it.

    Raises:
        ParameterError: k is below 1.
        EvaluationError: there are no items (the recall is undefined), or the ranking is malformed.
    """
    if not items:
        raise EvaluationError("item recall is undefined without gold items. Try: leave the query out, and count it")
    return len(items_found(ranked, items, k)) / len(items)


def _covers(chunk: Chunk, span: GoldSpan, min_overlap: float) -> bool:
    start, end = max(chunk.start, span.start), min(chunk.end, span.end)
    shared = _visible(chunk.text[start - chunk.start : end - chunk.start]) if start < end else 0
    if not shared:
        return False
    return shared >= min_overlap * _visible(chunk.text) or end - start >= min_overlap * (span.end - span.start)


def _visible(text: str) -> int:
    return sum(map(len, text.split()))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceResult:
    """One measure over a fixed set of questions.

    Attributes:
        measure: its name, e.g. "all@5".
        mean: with its bootstrap interval; None if no question has evidence.
        questions: which were defined, undefined (no evidence: left out), missing (counted 0), unjudged (ignored).
        per_question: the value of each defined question, as `significance.compare` takes them.
    """

    measure: str
    mean: MeanScore | None
    questions: QuerySet
    per_question: Mapping[str, float] = field(hash=False, repr=False)

    def __str__(self) -> str:
        return f"{self.measure} {'undefined' if self.mean is None else self.mean}; {self.questions}"


def evidence_in(
    chunks: Iterable[Chunk], gold_spans: Mapping[str, Sequence[GoldSpan]], *, min_overlap: float = MIN_OVERLAP
) -> dict[str, dict[str, frozenset[str]]]:
    """Return the evidence of each question, from spans of documents: so the chunks of any chunker can be judged.

    Args:
        chunks: all chunks that were ranked.
        gold_spans: by question id, in the order of the hops. Spans of one item are alternatives.
        min_overlap: as in `chunks_of_items`.

    Returns:
        By question and item the chunks of which any will do; none where the chunks are so cut that none covers the
        item, which then counts as not found.

    Raises:
        ParameterError: min_overlap is not in (0, 1].
    """
    pieces = tuple(chunks)
    return {name: chunks_of_items(pieces, spans, min_overlap=min_overlap) for name, spans in gold_spans.items()}


def recall_at(retrieved: Retrieved, evidence: Evidence, k: int) -> float:
    """Return `|pieces of evidence among the first k| / |pieces of evidence|` of one question.

    Raises:
        ParameterError: k is below 1.
        EvaluationError: there is no evidence (the recall is undefined), or what was retrieved is malformed.
    """
    return item_recall(_in_order(retrieved), _pieces(evidence), k)


def all_at(retrieved: Retrieved, evidence: Evidence, k: int) -> float:
    """Return 1 if every piece of evidence is among the first k, else 0.

    Raises:
        ParameterError: k is below 1.
        EvaluationError: there is no evidence, or what was retrieved is malformed.
    """
    return float(recall_at(retrieved, evidence, k) == 1.0)


def match_rate(retrieved: Retrieved, evidence: Evidence) -> float:
    """Return the share of the evidence that is in what was retrieved, whatever the number of that.

    `|pieces of evidence retrieved| / |pieces of evidence|`. IIER draws a "match rate of supporting evidence" over the
    density of the graph and the length of the paths (Figure 3, Table 3) without a definition; this one is ours. It
    grows with the number of chunks: compare it at equal numbers, or give these beside it.

    Raises:
        EvaluationError: there is no evidence, or what was retrieved is malformed.
    """
    ids = _in_order(retrieved)
    return item_recall(ids, _pieces(evidence), max(1, len(ids)))


def chain_order(chains: Sequence[Chain], evidence: Evidence) -> float:
    """Return 1 if one chain holds every piece of evidence in the order of the hops, else 0; others may lie between.

    Args:
        chains: of one question.
        evidence: in the order of the hops, as a list or a mapping; a set has no order.

    Raises:
        EvaluationError: there is no evidence, it has no order, or there are no chains but something else.
    """
    if not isinstance(evidence, Sequence | Mapping):
        raise EvaluationError(f"evidence in the order of the hops is needed, got a {type(evidence).__name__}")
    wanted = list(_pieces(evidence).values())
    if not wanted:
        raise EvaluationError("the order of evidence is undefined without evidence. Try: leave the question out")
    if not _are_chains(chains):
        raise EvaluationError("chain_order needs chains; of a ranking nobody knows what led to what")
    return float(any(_holds_in_order(chain, wanted) for chain in chains))


def evaluate_evidence(
    gold: Mapping[str, Evidence],
    run: Mapping[str, Retrieved],
    measures: Sequence[str] = DEFAULT_MEASURES,
    *,
    level: float = LEVEL,
    rounds: int = ROUNDS,
    seed: int = SEED,
) -> dict[str, EvidenceResult]:
    """Return measures of evidence over questions, with bootstrap intervals.

    Args:
        gold: the evidence by question id; a question without any is left out, and counted.
        run: what was retrieved, by question id; a question that is missing counts 0. Nothing retrieved is an empty
            list.
        measures: "recall@k", "all@k", "match_rate", "chain_order" (of chains alone), as the functions of these names.
        level: of the intervals, in (0, 1).
        rounds: bootstrap samples.
        seed: of the samples.

    Returns:
        A result for each measure, by name, in the order given.

    Raises:
        ParameterError: a measure is not known; level or rounds is outside its domain.
        EvaluationError: gold and run do not match, or what was retrieved is malformed; the question is named.
    """
    scorers = {name: _scorer(name) for name in measures}
    check_ids(gold, "questions of the gold")
    grades = {question: dict.fromkeys(_named(question, _pieces, gold[question]), 1) for question in gold}
    questions = match_queries(grades, dict.fromkeys(run, ()))

    def result(name: str) -> EvidenceResult:
        values = {
            question: _named(question, scorers[name], run[question], gold[question]) if question in run else 0.0
            for question in questions.defined
        }
        mean = mean_score(list(values.values()), level=level, rounds=rounds, seed=seed) if values else None
        return EvidenceResult(measure=name, mean=mean, questions=questions, per_question=values)

    return {name: result(name) for name in measures}


def _scorer(name: str) -> Callable[[Any, Evidence], float]:
    match = _MEASURE.fullmatch(name)
    if match is None:
        raise ParameterError("measure", name, "recall@k, all@k, match_rate or chain_order")
    if match[1]:
        return partial(recall_at if match[1] == "recall" else all_at, k=int(match[2]))
    return match_rate if name == "match_rate" else chain_order


def _named(question: str, function: Callable[..., T], *arguments: Any) -> T:
    with named(f"question {question!r}"):
        return function(*arguments)


def _pieces(evidence: Evidence) -> dict[str, frozenset[str]]:
    """Return the chunks of each piece of evidence, in the order given."""
    check_ids(evidence, "evidence")
    if not isinstance(evidence, Mapping):
        return {chunk_id: frozenset((chunk_id,)) for chunk_id in evidence}
    for piece, ids in evidence.items():
        check_ids(ids, f"chunks of the evidence {piece!r}")
    return {piece: frozenset(ids) for piece, ids in evidence.items()}


def _in_order(retrieved: Any) -> tuple[str, ...]:
    """Return the ids of what was retrieved, each once, best first."""
    if _are_chains(retrieved):
        return tuple(dict.fromkeys(chunk.id for chain in retrieved for chunk in chain.chunks))
    return ranked_ids(retrieved, "retrieved")


def _are_chains(retrieved: object) -> TypeGuard[Sequence[Chain]]:
    return isinstance(retrieved, Sequence) and all(isinstance(each, Chain) for each in retrieved)


def _holds_in_order(chain: Chain, wanted: Sequence[frozenset[str]]) -> bool:
    found = 0
    for chunk in chain.chunks:
        while found < len(wanted) and chunk.id in wanted[found]:  # a chunk may hold several pieces
            found += 1
    return found == len(wanted)
