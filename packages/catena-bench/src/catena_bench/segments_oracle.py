"""Compare segment extraction with reference numbers of dsRAG: values, lengths, Beta curves, segments and scores.

Any JSON file of the layout will do, and any part of it may be missing. Segments must be equal (their sums where a
case says that it has ties); numbers are reported as the largest absolute difference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from catena import Chunk, Hit, Ranking, Scale, Services, segments
from catena import run as run_step
from catena.effects import FetchChunks, FetchText, Handler
from catena.model import EvaluationError
from catena_bench.figures import Figures, Tell, silent

FILE = "segments_oracle.json"  # looked for where a folder is given
CLOSE = 1e-9  # scores that differ by less are equal
SEED_ERA = "expected_seed_era_unbounded_length"
_NAMES = {  # theirs -> ours
    "max_length": "max_chunks",
    "overall_max_length": "overall_max_chunks",
    "overall_max_length_extension": "extension",
    "minimum_value": "minimum_value",
    "irrelevant_chunk_penalty": "irrelevance_penalty",
    "decay_rate": "decay_rate",
    "top_k_for_document_selection": "top_k",
}
_COLUMNS: dict[str, segments.LengthAdjustment] = {"v0.5.6": "boost_only", "seed_era": "scale"}
_STRIDE = 1_000_000  # characters from one chunk's start to the next: longer than any chunk

Case = Mapping[str, Any]


def run(data: Path, *, tell: Tell = silent) -> Figures:
    """Compare with a file of reference numbers.

    Args:
        data: the file, or a folder that has a `segments_oracle.json`.
        tell: is told of each case that differs, and how much the optimal selection gains.

    Returns:
        `cases`: pipeline and direct cases; `comparisons`: lists of segments compared (a pipeline case is compared
        in both length rules of its file, and through the extraction step); `mismatches`: those that differ;
        `max_score_error`, `max_value_error` (chunk values, in the cases and in the grids), `max_length_error`,
        `max_beta_error`; `optimal.mean_gain`: by how much the optimal selection is worth more than greedy's, as a
        share of it, on average over the cases where greedy finds something; `optimal.worse`: cases where it is worth
        less. Per case `case.NAME.mismatches`, `.score_error`, `.value_error`, `.greedy`, `.optimal`.

    Raises:
        EvaluationError: the file is not there, or not of the layout.
    """
    try:
        return _compared(_read(data), tell)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise EvaluationError(f"{data}: not of the layout of {FILE}: {type(error).__name__} {error}") from None


def _read(data: Path) -> Case:
    path = data / FILE if data.is_dir() else data
    if not path.is_file():
        raise EvaluationError(f"no file of reference numbers at {path}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EvaluationError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise EvaluationError(f"{path} holds no JSON object")
    return content


def _compared(oracle: Case, tell: Tell) -> Figures:
    presets = oracle.get("presets", {})
    pipeline = [_pipeline_case(case, presets) for case in oracle.get("cases", ())]
    direct = [_direct_case(case) for case in oracle.get("direct_best_segments", ())]
    names = [case["name"] for case in (*oracle.get("cases", ()), *oracle.get("direct_best_segments", ()))]
    results = pipeline + direct
    for name, result in zip(names, results, strict=True):
        if result["mismatches"]:
            tell(f"{name}: {result['mismatches']:g} of {result['comparisons']:g} lists of segments differ")
    gains = [result["optimal"] / result["greedy"] - 1 for result in results if result["greedy"] > 0]
    figures: Figures = {
        "cases": len(results),
        "comparisons": sum(result["comparisons"] for result in results),
        "mismatches": sum(result["mismatches"] for result in results),
        "max_score_error": max((result["score_error"] for result in results), default=0.0),
        "max_value_error": max([_value_error(oracle), *(result["value_error"] for result in results)]),
        "max_length_error": _length_error(oracle),
        "max_beta_error": _beta_error(oracle.get("beta_transform", {})),
        "optimal.mean_gain": fmean(gains) if gains else 0.0,
        "optimal.worse": sum(result["optimal"] < result["greedy"] for result in results),
    }
    tell(f"optimal is worth {figures['optimal.mean_gain']:.1%} more than greedy, on average over {len(gains)} cases")
    for name, result in zip(names, results, strict=True):
        figures |= {f"case.{name}.{key}": value for key, value in result.items() if key != "comparisons"}
    return figures


def _pipeline_case(case: Case, presets: Mapping[str, Any]) -> Figures:
    """Compare a whole case: values over the meta-document, segments, and the step on rankings of the same hits."""
    given = presets.get(case.get("preset", ""), {}) | case.get("params", {})
    adjustment: segments.LengthAdjustment = "boost_only" if given.get("chunk_length_adjustment", True) else "off"
    chosen = {ours: given[theirs] for theirs, ours in _NAMES.items() if theirs in given}
    params = replace(segments.dsrag_compatible(replace(segments.BALANCED, **chosen)), length_adjustment=adjustment)
    rankings = [_ranking(ranked) for ranked in case["ranked_results"]]
    expected = case["expected"]
    ours = segments.documents_considered(rankings, params.top_k)
    documents = [_id(number) for number in expected.get("document_order", ours)]
    budget = params.budget_in_chunks(len(rankings))
    limits = segments.SelectionBounds(max_chunks=params.max_chunks, budget=budget, minimum_value=params.minimum_value)
    track, starts = _meta_document(rankings, documents, params)
    picks = segments.greedy(track, limits)
    wrong = [_differs(picks, expected) or sorted(documents) != sorted(ours)]
    scores = [_score_error(picks, expected)]
    values = [_largest(track.values, expected.get("relevance_values"))]
    if "document_splits" in expected:
        wrong[0] |= track.ends.tolist() != expected["document_splits"]
    if SEED_ERA in case:
        early, _ = _meta_document(rankings, documents, params, seed_era=True)
        found = segments.greedy(early, limits)
        wrong.append(_differs(found, case[SEED_ERA]))
        scores.append(_score_error(found, case[SEED_ERA]))
        values.append(_largest(early.values, case[SEED_ERA].get("relevance_values")))
    if params.irrelevance_penalty > 0 and all(0 <= hit.score <= 1 for ranking in rankings for hit in ranking.hits):
        wrong.append(_step_differs(rankings, params, _mapped(expected, documents, starts), picks))
    return {
        "comparisons": len(wrong),
        "mismatches": sum(wrong),
        "score_error": max(scores),
        "value_error": max(values),
        **_gain(track, limits, picks),
    }


def _step_differs(
    rankings: Sequence[Ranking],
    params: segments.ExtractionParams,
    theirs: list[tuple[str, int, int]],
    picks: Sequence[segments.SelectedSegment],
) -> bool:
    """Return whether the step finds other segments, and not such as are worth the same.

    It is for probabilities, and does not look beyond the chunks found: where gaps cost nothing, dsRAG does.
    """
    extraction = run_step(segments.extract(rankings, params=params), _GAPS)
    through = [(hit.segment.document_id, *(hit.segment.positions or ()), hit.value) for hit in extraction.segments]
    same = [(document, first, last + 1) for document, first, last, _ in through] == theirs
    return not same and not _equal_worth([value for *_, value in through], [pick.value for pick in picks])


def _direct_case(case: Case) -> Figures:
    """Compare selection alone, on the values that the case gives."""
    rows = case["relevance_values"]
    ends = np.array(case["document_splits"], np.int64)
    chunks = len(rows[0]) if rows else int(max(ends, default=0))
    values = np.array(rows, np.float64).reshape(len(rows), chunks)
    track = segments.ChunkSequence(values=values, ends=ends)
    limits = segments.SelectionBounds(
        max_chunks=case["max_length"], budget=case["overall_max_length"], minimum_value=case["minimum_value"]
    )
    picks = segments.greedy(track, limits)
    wrong = _differs(picks, case)
    if wrong and case.get("has_ties"):
        wrong = not _equal_worth([pick.value for pick in picks], case["scores"])
    return {
        "comparisons": 1,
        "mismatches": int(wrong),
        "score_error": 0.0 if wrong else _score_error(picks, case),
        "value_error": 0.0,
        **_gain(track, limits, picks),
    }


def _meta_document(
    rankings: Sequence[Ranking],
    documents: Sequence[str],
    params: segments.ExtractionParams,
    *,
    seed_era: bool = False,
) -> tuple[segments.ChunkSequence, dict[str, int]]:
    """Return dsRAG's meta-document, each document as long as its last found chunk tells, and where each begins.

    In the seed era a chunk that a query did not find had no length, and a length was not bounded from below.
    """
    sizes = dict.fromkeys(documents, 0)
    for ranking in rankings:
        for hit in ranking.hits:
            if hit.chunk.document_id in sizes:
                sizes[hit.chunk.document_id] = max(sizes[hit.chunk.document_id], hit.chunk.position + 1)
    ends = np.cumsum([sizes[document] for document in documents], dtype=np.int64)
    starts = {document: int(end) - sizes[document] for document, end in zip(documents, ends, strict=True)}
    ranks = np.full((len(rankings), int(ends[-1]) if len(ends) else 0), -1, np.int64)
    probabilities, lengths = np.zeros(ranks.shape), np.zeros(ranks.shape, np.int64)
    for query, ranking in enumerate(rankings):
        for rank, hit in enumerate(ranking.hits):
            if hit.chunk.document_id in starts:
                place = starts[hit.chunk.document_id] + hit.chunk.position
                ranks[query, place], probabilities[query, place] = rank, hit.score
                lengths[query, place] = len(hit.chunk.text)
    used = replace(params, length_adjustment="scale") if seed_era else params
    weights = segments.weighted_values(ranks, probabilities, lengths, params=used, ends=ends)
    return segments.ChunkSequence(values=weights.values, ends=ends), starts


def _id(number: object) -> str:
    return f"{number:09d}" if isinstance(number, int) else str(number)


def _ranking(ranked: Sequence[Case]) -> Ranking:
    """Return one query's results as they are ranked in the file."""
    return Ranking(
        tuple(Hit(_chunk(_id(row["doc"]), row["chunk"], row["length"]), row["similarity"]) for row in ranked),
        Scale.PROBABILITY,
    )


def _chunk(document: str, position: int, length: int) -> Chunk:
    start = position * _STRIDE
    return Chunk(
        id=f"{document}:{position}",
        document_id=document,
        position=position,
        start=start,
        end=start + length,
        text="x" * length,
    )


def _neighbours(request: FetchChunks) -> tuple[tuple[Chunk, ...], ...]:
    return tuple(
        tuple(_chunk(document, position, 0) for position in range(first, end))
        for document, first, end in request.spans
    )


_GAPS = Services(
    handlers={
        FetchChunks: Handler(identity="chunks of no length", call=_neighbours),
        FetchText: Handler(identity="no texts", call=lambda request: (None,) * len(request.spans)),
    }
)


def _mapped(expected: Case, documents: Sequence[str], starts: Mapping[str, int]) -> list[tuple[str, int, int]]:
    """Return the expected segments as (document, first chunk, end chunk)."""
    if "mapped" in expected:
        return [(_id(document), first, end) for document, first, end in expected["mapped"]]
    begins = np.array([starts[document] for document in documents], np.int64)
    found = []
    for first, end in expected["segments"]:
        owner = int(np.searchsorted(begins, first, side="right")) - 1
        found.append((documents[owner], first - int(begins[owner]), end - int(begins[owner])))
    return found


def _differs(picks: Sequence[segments.SelectedSegment], expected: Case) -> bool:
    return [[pick.start, pick.end] for pick in picks] != [list(span) for span in expected["segments"]]


def _score_error(picks: Sequence[segments.SelectedSegment], expected: Case) -> float:
    return _largest([pick.value for pick in picks], expected.get("scores"))


def _largest(ours: Any, theirs: Any) -> float:
    """Return the largest difference; what only one has counts as it is. 0 where nothing is given."""
    if theirs is None:
        return 0.0
    mine, other = np.asarray(ours, np.float64).ravel(), np.asarray(theirs, np.float64).ravel()
    size = max(mine.size, other.size)
    both = [np.pad(numbers, (0, size - numbers.size)) for numbers in (mine, other)]
    return float(np.abs(both[0] - both[1]).max(initial=0.0))


def _equal_worth(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    return abs(fsum(ours) - fsum(theirs)) <= CLOSE


def _gain(
    track: segments.ChunkSequence, limits: segments.SelectionBounds, picks: Sequence[segments.SelectedSegment]
) -> Figures:
    return {
        "greedy": fsum(pick.value for pick in picks),
        "optimal": fsum(pick.value for pick in segments.optimal(track, limits)),
    }


def _value_error(oracle: Case) -> float:
    """Return the largest difference in the grids of chunk values."""
    errors = [0.0]
    for rank, similarity, penalty, decay, value in oracle.get("chunk_value_grid", ()):
        errors.append(abs(float(segments.chunk_values(rank, similarity, penalty=penalty, decay_rate=decay)) - value))
    for penalty, decay, value in oracle.get("chunk_value_missing", ()):
        errors.append(abs(float(segments.chunk_values(0, 0.0, penalty=penalty, decay_rate=decay)) - value))
    return max(errors)


def _length_error(oracle: Case) -> float:
    """Return the largest difference in the grid of length adjustments, for the columns that it has."""
    columns = oracle.get("length_adjust_columns", ["value", "length", "v0.5.6", "seed_era"])
    errors = [0.0]
    for row in oracle.get("length_adjust_grid", ()):
        named = dict(zip(columns, row, strict=True))
        for column, adjustment in _COLUMNS.items():
            if column in named:
                adjusted = named["value"] * float(segments.length_factors(named["length"], adjustment))
                errors.append(abs(adjusted - named[column]))
    return max(errors)


def _beta_error(transform: Case) -> float:
    """Return the largest difference of the Beta curves, inside and outside [0, 1]."""
    curves = {name: curve for name, curve in transform.items() if name != "out_of_range"}
    errors = [0.0]
    for curve in curves.values():
        xs, theirs = zip(*curve["grid"], strict=True)
        errors.append(_largest(segments.BetaCDF(curve["a"], curve["b"])(xs), theirs))
    for x, *theirs in transform.get("out_of_range", ()):
        for curve, value in zip(curves.values(), theirs, strict=False):
            errors.append(_largest(segments.BetaCDF(curve["a"], curve["b"])([x]), [value]))
    return max(errors)
