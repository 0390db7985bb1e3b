"""Which settings of extraction work without a reranker: compared on the halves of the questions that may choose.

| setting | probabilities | parameters |
|---|---|---|
| PRESET.CALIBRATION | of the scores, by the calibration | the article's preset |
| fixed.CALIBRATION.PENALTY.DECAY | of the scores | one decay for every budget, no minimum, no length adjustment |
| budget.LENGTH.PENALTY | 0.8 | the decay set by the budget (`catena.segments.within_budget`) |
| lent.SHARE | 0.8, and a share of it for the neighbours of a hit | as `segments_systems.lent` |

Calibrations: "constant" (0.8), "identity", and "fitted", a Beta fitted to all scores of the run without labels.
Scores of a ranking in `Scale.RANK` say nothing: there every calibration is the constant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from catena.model import Ranking, Scale
from catena.segments import (
    BALANCED,
    PENALTY,
    PRESETS,
    Calibration,
    Constant,
    ExtractionParams,
    Identity,
    LengthAdjustment,
    by_rank,
    fit_beta,
)
from catena_bench.segments_data import Asked, LongDocuments
from catena_bench.segments_filling import Shelf, evidence
from catena_bench.segments_search import ROUTES, searching
from catena_bench.segments_systems import (
    BELIEVED,
    SYSTEMS,
    Reading,
    Runs,
    budgeted,
    lent,
    segments,
)

UNBOUNDED = replace(BALANCED, minimum_value=0.0, length_adjustment="off")  # the budget says where to stop
PENALTIES = (0.02, 0.05, 0.1, 0.2)
FIXED = ((0.1, 3.0), (0.2, 3.0), (0.1, 30.0), (0.3, 200.0))  # penalty and decay
SHARES = (0.3, 0.5)
RIVALS = ("topk", "window", "section")

Setting = Callable[[Reading], Runs]


def swept(documents: LongDocuments, questions: Sequence[Asked], budgets: Sequence[int]) -> dict[str, float]:
    """Return `sweep.recall.COLLECTION.ROUTE.SETTING` and `sweep.precision.…`: means over questions and budgets.

    Args:
        documents: the collection.
        questions: of the half that may choose.
        budgets: in tokens.
    """
    shelf = Shelf.of(documents.entries)
    figures: dict[str, float] = {}
    with searching(documents.entries, "headed") as searcher:
        services = searcher.library.services
        for route in ROUTES:
            rankings = [searcher(question, route) for question in questions]
            found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
            for name, setting in settings(calibrations(rankings)).items():
                for question, ranking in zip(questions, rankings, strict=True):
                    for budget in budgets:
                        reading = Reading(shelf=shelf, services=services, ranking=ranking, budget=budget)
                        found[name].append(evidence(shelf.spans(setting(reading)), question.gold))
            for name, values in found.items():
                recall, precision = (fmean(column) for column in zip(*values, strict=True))
                figures[f"sweep.recall.{documents.name}.{route}.{name}"] = recall
                figures[f"sweep.precision.{documents.name}.{route}.{name}"] = precision
    return figures


def calibrations(rankings: Sequence[Ranking]) -> dict[str, Calibration]:
    """Return the calibrations by name; "fitted" only where there are scores enough in [0, 1]."""
    rules: dict[str, Calibration] = {"constant": Constant(BELIEVED), "identity": Identity()}
    scores = [hit.score for each in rankings if each.scale is not Scale.RANK for hit in each.hits]
    inside = [score for score in scores if 0 < score < 1]
    if len(set(inside)) >= 20:  # fewer fit no curve
        rules["fitted"] = fit_beta(inside).calibration
    return rules


def calibrated(ranking: Ranking, rule: Calibration) -> Ranking:
    """Return a ranking in `Scale.PROBABILITY`; one whose scores are mere ranks gets the constant."""
    if ranking.scale is Scale.RANK or not ranking.hits:
        return by_rank(ranking, BELIEVED)
    numbers = rule([hit.score for hit in ranking.hits]).tolist()
    hits = tuple(replace(hit, score=number) for hit, number in zip(ranking.hits, numbers, strict=True))
    return replace(ranking, hits=hits, scale=Scale.PROBABILITY)


def settings(rules: Mapping[str, Calibration]) -> dict[str, Setting]:
    """Return all settings by name, and the systems without segments beside them."""
    named: dict[str, Setting] = {name: _rival(name) for name in RIVALS}
    for calibration, rule in rules.items():
        for preset, params in PRESETS.items():
            named[f"{preset}.{calibration}"] = _with(rule, params)
        for penalty, decay in FIXED:
            params = replace(UNBOUNDED, irrelevance_penalty=penalty, decay_rate=decay)
            named[f"fixed.{calibration}.{penalty:g}.{decay:g}"] = _with(rule, params)
    for penalty in PENALTIES:
        named[f"budget.off.{penalty:g}"] = _by_budget(penalty, "off")
    named[f"budget.scale.{PENALTY:g}"] = _by_budget(PENALTY, "scale")
    return named | {f"lent.{share:g}": _lent(share) for share in SHARES}


def _rival(name: str) -> Setting:
    return lambda reading: SYSTEMS[name](reading, None)


def _with(rule: Calibration, params: ExtractionParams) -> Setting:
    return lambda reading: segments(reading, calibrated(reading.ranking, rule), params, None)


def _by_budget(penalty: float, adjustment: LengthAdjustment) -> Setting:
    def setting(reading: Reading) -> Runs:
        params = replace(budgeted(reading, penalty=penalty), length_adjustment=adjustment)
        return segments(reading, by_rank(reading.ranking, BELIEVED), params, None)

    return setting


def _lent(share: float) -> Setting:
    return lambda reading: lent(reading, None, lending=share)
