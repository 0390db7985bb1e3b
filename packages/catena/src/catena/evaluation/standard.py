"""Recall, precision, nDCG, MRR and MAP through ir_measures (trec_eval's definitions), without trec_eval's traps."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from types import ModuleType
from typing import Any

from catena.evaluation.judgements import Qrels, QuerySet, Ranked, Run, as_relevant, match_queries, ranked_ids
from catena.model.errors import EvaluationError, MissingExtraError, ParameterError

DEFAULT_MEASURES = ("recall@10", "ndcg@10", "mrr@10", "map")

_OURS = re.compile(r"(recall|precision)@([1-9]\d*)|(ndcg|mrr|map)(?:@([1-9]\d*))?")
_THEIRS = {"recall": "R", "precision": "P", "ndcg": "nDCG", "mrr": "RR", "map": "AP"}  # names in ir_measures


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureResult:
    """One measure over a fixed set of queries.

    Attributes:
        measure: its name, e.g. "ndcg@10".
        value: the mean over the defined queries, or None if there are none; a missing query counts 0.
        queries: which queries were defined, undefined (left out), missing (counted 0), unjudged (ignored).
        per_query: the value of each defined query.
    """

    measure: str
    value: float | None
    queries: QuerySet
    per_query: Mapping[str, float] = field(hash=False, repr=False)

    def __str__(self) -> str:
        value = "undefined" if self.value is None else f"{self.value:.3f}"
        return f"{self.measure} {value}; {self.queries}"


def evaluate(qrels: Qrels, run: Run, measures: Sequence[str] = DEFAULT_MEASURES) -> dict[str, MeasureResult]:
    """Return standard measures of a run.

    With rank r from 1, grade g(r) (0 if unjudged), R relevant pieces (grade 1 and above):

    - `recall@k`: relevant pieces in the first k, by R; `precision@k`: the same by k, even if fewer were returned.
    - `mrr`: 1 / rank of the first relevant piece. `map`: mean over the R pieces of the precision at their ranks.
    - `ndcg`: `DCG = sum g(r) / log2(r + 1)`, by the DCG of the best order of all judged pieces.
    - `@k` counts the first k ranks only; a piece that was not returned earns 0.

    trec_eval sorts by score, breaks ties by id from the highest down and ignores the order that it is given. Here the
    order of `judgements.scored_ids` counts: strictly falling scores are passed on.

    Args:
        qrels: grades by query and piece; negative grades count as 0.
        run: what was returned for each query, as ids best first, scores by id, or a `Ranking`.
        measures: names as above; recall and precision need their @k.

    Returns:
        A result for each measure, by name, in the order given.

    Raises:
        ParameterError: a measure is not known.
        MissingExtraError: ir_measures is not installed.
        EvaluationError: judgements and run do not match, or a ranking is malformed.

    Source: ir_measures (MacAvaney et al., ECIR 2022), pytrec_eval; Järvelin and Kekäläinen 2002 for nDCG.
    """
    cutoffs = {name: _cutoff(name) for name in measures}
    queries = match_queries(qrels, run)
    ranked = {query: ranked_ids(run[query], f"query {query!r}") if query in run else () for query in queries.defined}
    judged = {query: {piece: max(0, int(g)) for piece, g in qrels[query].items()} for query in queries.defined}
    return {name: _measure(name, cutoff, judged, ranked, queries) for name, cutoff in cutoffs.items()}


def recall_at(ranked: Ranked, relevant: Collection[str], k: int) -> float:
    """Return `|relevant among the first k| / |relevant|`, without ir_measures.

    Raises:
        ParameterError: k is below 1.
        EvaluationError: nothing is relevant (the recall is undefined), or the ranking is malformed.
    """
    if k < 1:
        raise ParameterError("k", k, "a cutoff of 1 or more")
    wanted = as_relevant(relevant)
    if not wanted:
        raise EvaluationError("recall is undefined without relevant pieces. Try: leave the query out, and count it")
    return len(wanted.intersection(ranked_ids(ranked)[:k])) / len(wanted)


def _cutoff(name: str) -> int | None:
    match = _OURS.fullmatch(name)
    if match is None:
        allowed = "recall@k, precision@k, ndcg, mrr or map, the last three with or without @k"
        raise ParameterError("measure", name, allowed)
    digits = match[2] or match[4]
    return int(digits) if digits else None


def _measure(
    name: str,
    cutoff: int | None,
    judged: Mapping[str, Mapping[str, int]],
    ranked: Mapping[str, tuple[str, ...]],
    queries: QuerySet,
) -> MeasureResult:
    """Compute one measure over the defined queries.

    The run is cut to the first k beforehand: with a cutoff of its own, reciprocal rank is computed by whichever
    package ir_measures finds installed, with other ties; without, by pytrec_eval as all the others are.
    """
    library = _ir_measures()
    base = name.partition("@")[0]
    theirs: Any = getattr(library, _THEIRS[base])
    if cutoff is not None and base != "mrr":
        theirs = theirs @ cutoff
    tops = {query: ids[:cutoff] for query, ids in ranked.items()}
    # strictly falling scores; whole numbers stay distinct even in trec_eval's single precision
    run = {query: {piece: float(len(ids) - at) for at, piece in enumerate(ids)} for query, ids in tops.items()}
    values = dict.fromkeys(queries.defined, 0.0)
    if values:
        found: Iterable[Any] = library.pytrec_eval.iter_calc([theirs], judged, run)
        values |= {metric.query_id: float(metric.value) for metric in found}
    mean = fsum(values.values()) / len(values) if values else None
    return MeasureResult(measure=name, value=mean, queries=queries, per_query=values)


def _ir_measures() -> ModuleType:
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtraError("ir_measures", "catena-core[eval]") from error
    return ir_measures
