"""The questions of a training: told to walks, divided into those learned from and those held out, and measured on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

from annotated_types import Ge

from catena.effects import Cancel, Embed, FetchById, Step, ask
from catena.evaluation.evidence import EvidenceResult, evaluate_evidence
from catena.graph.feature_training import FeatureProgress, TrainingCase
from catena.graph.keyword_seeds import question_keywords
from catena.graph.scoring import Scorer, pose
from catena.graph.walking import walk
from catena.model.errors import CancelledError, ParameterError
from catena.model.ids import digest
from catena.model.options import check_options
from catena.retrieval.multi_route import DEFAULT_ROUTES, Fusion, retrieve
from catena.retrieval.routes import Route

if TYPE_CHECKING:
    from catena.graph.training import TrainingQuestion
    from catena.graph.walk_options import WalkOptions
    from catena.model import Ranking

Watch: TypeAlias = Callable[[FeatureProgress], None]

FIRST = "first ranking"
"""The method that does not walk."""

_LOOKED_AT = 5  # chunks, as the measures say
RECALL, ALL = f"recall@{_LOOKED_AT}", f"all@{_LOOKED_AT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStage:
    """How the first ranking of a question is made: as of `catena.graph.search.GraphSearch`."""

    routes: Sequence[str] | Mapping[str, Route] = DEFAULT_ROUTES
    fusion: Fusion | None = None
    depth: Annotated[int, Ge(1)] = 50

    def __post_init__(self) -> None:
        check_options(self)


def held_out(questions: Sequence[str], share: float, seed: int) -> frozenset[int]:
    """Return the places of the questions that nothing is to be learned from: a seeded draw by their texts.

    Equal questions are on one side; the share is of distinct ones, and at least one of them, unless it is 0.

    Raises:
        ParameterError: no question is left to learn from.
    """
    distinct = sorted(set(questions), key=lambda text: (digest(str(seed), text), text))
    count = 0 if share == 0 else max(1, round(share * len(distinct)))
    if count >= len(distinct):
        raise ParameterError("questions with supporting chunks", len(distinct), f"more than {count}, to learn from")
    drawn = frozenset(distinct[:count])
    return frozenset(place for place, text in enumerate(questions) if text in drawn)


def cases_of(
    questions: Sequence[TrainingQuestion],
    first: FirstStage | Sequence[Ranking],
    *,
    keywords: bool = False,
    watch: Watch | None = None,
    cancel: Cancel | None = None,
) -> Step[tuple[TrainingCase, ...]]:
    """Return each question as a walk is told it, with its first ranking and its supporting chunks.

    Args:
        questions: with supporting chunks.
        first: how the first rankings are made, or these, in order.
        keywords: whether the questions' keywords are sought, for walks whose seeds cover them.
        watch: told of each question.
        cancel: another thread may stop it.

    Raises:
        ParameterError: a supporting chunk is not in the graph.
        CancelledError: it was stopped.
        CatenaError: whatever the embedder, the store or the graph fails with.
    """
    yield from _check_known(questions)
    found = []
    for place, each in enumerate(questions):
        go_on(cancel)
        text = each.question
        (vectors,) = yield from ask([Embed(texts=(text,), kind="query", purpose="query embedding")])
        if isinstance(first, FirstStage):
            ranking = yield from retrieve(text, k=first.depth, routes=first.routes, fusion=first.fusion)
        else:
            ranking = first[place]
        sought = (yield from question_keywords(text)) if keywords else ()
        question = yield from pose(text, vectors[0], keywords=sought)
        found.append(TrainingCase(question=question, ranking=ranking, supporting=frozenset(each.supporting)))
        tell(watch, "questions", place + 1, len(questions))
    return tuple(found)


def measured(
    cases: Sequence[TrainingCase],
    scorers: Mapping[str, Scorer],
    options: WalkOptions,
    *,
    watch: Watch | None = None,
    cancel: Cancel | None = None,
) -> Step[dict[str, Mapping[str, EvidenceResult]]]:
    """Return how much of their evidence walks find with each scorer, and the first ranking without a walk.

    Args:
        cases: of one graph; without any nothing is measured.
        scorers: by name.
        options: of the walks.
        watch: told of each walk.
        cancel: another thread may stop it.

    Returns:
        By measure, `RECALL` and `ALL`, and then by name, `FIRST` first, the results over these questions.

    Raises:
        CancelledError: it was stopped.
        CatenaError: whatever the graph or a scorer fails with.
    """
    results: dict[str, dict[str, EvidenceResult]] = {RECALL: {}, ALL: {}}
    found = {FIRST: {str(place): case.ranking for place, case in enumerate(cases)}} if cases else {}
    for done, (name, scorer) in enumerate(scorers.items() if cases else ()):
        found[name] = {}
        for place, case in enumerate(cases):
            go_on(cancel)
            walked = yield from walk(case.question, case.ranking, options, scorer, k=_LOOKED_AT)
            found[name][str(place)] = walked.ranking
            tell(watch, "validation", done * len(cases) + place + 1, len(scorers) * len(cases))
    gold = {str(place): case.supporting for place, case in enumerate(cases)}
    for name, rankings in found.items():
        for measure, result in evaluate_evidence(gold, rankings, (RECALL, ALL)).items():
            results[measure][name] = result
    return {**results}


def tell(watch: Watch | None, stage: str, done: int, total: int) -> None:
    """Tell how far a stage is, where somebody listens."""
    if watch is not None:
        watch(FeatureProgress(stage=stage, done=done, total=total))


def go_on(cancel: Cancel | None) -> None:
    """Raise `CancelledError` where the caller wants to stop."""
    if cancel is not None and cancel.is_set:
        raise CancelledError


def _check_known(questions: Sequence[TrainingQuestion]) -> Step[None]:
    named = tuple(dict.fromkeys(chunk for question in questions for chunk in question.supporting))
    (chunks,) = yield from ask([FetchById(chunk_ids=named)])
    missing = [name for name, chunk in zip(named, chunks, strict=True) if chunk is None]
    if missing:
        some = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        what = f"{len(named)}, of which {len(missing)} are not: {some}"
        raise ParameterError("supporting chunks", what, "in the graph")
