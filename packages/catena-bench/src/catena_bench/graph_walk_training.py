"""Trains the small scorer of the walk on the train splits of all collections of a folder, by one embedder or more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from catena.effects import Embedder, Services
from catena.effects import run as run_step
from catena.graph import Choice, FeatureScorer, FeatureTraining, Scorer, TrainingCase, UntrainedScorer, fit, pose
from catena.graph.feature_training import choices_of
from catena.model import ParameterError
from catena_bench.graph_data import TRAIN, has_split, read_split
from catena_bench.graph_embedding import KeptVectors
from catena_bench.graph_rankings import HYBRID
from catena_bench.graph_setting import Setting, setting_of


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One collection by one embedder: the questions that walks are made for, over one graph."""

    setting: Setting
    cases: tuple[TrainingCase, ...]

    def choices(self, scorer: Scorer, training: FeatureTraining) -> list[Choice]:
        """Return the choices of the walks that this scorer leads."""
        return run_step(choices_of(self.cases, scorer, training), _services(self.setting))


def collections(data: Path, without: Collection[str] = ()) -> tuple[Path, ...]:
    """Return the folder itself, or those in it, that have a train split; by name.

    Args:
        data: a folder of the layout of `graph_data`, or of such folders.
        without: names of folders that are left out.

    Raises:
        ParameterError: there is none, or one that is to be left out is not there.
    """
    places = (data, *sorted(data.iterdir())) if data.is_dir() else ()
    found = {place.resolve().name: place for place in places if place.is_dir() and has_split(place, TRAIN)}
    for name in without:
        if name not in found:
            raise ParameterError("leave-out", name, f"of {', '.join(found) or 'collections with a train split'}")
    kept = tuple(place for name, place in found.items() if name not in without)
    if not kept:
        raise ParameterError("data", str(data), f"a folder with {TRAIN}_corpus and {TRAIN}_questions, or of such")
    return kept


def lesson(place: Path, embedder: Embedder, cache: Path | None, tell: Callable[[str], None]) -> Lesson:
    """Return the cases of a collection: each question with its first ranking, "hybrid" as of `graph_rankings`."""
    split = read_split(place, TRAIN)
    tell(f"{split.name} by {embedder.identity}: {len(split.questions):,} questions")
    setting = setting_of(split, KeptVectors(embedder, cache, tell), trained_on=place, tell=tell)
    cases = tuple(
        TrainingCase(
            question=run_step(pose(asked.text, setting.embedder.embed_query(asked.text)), _services(setting)),
            ranking=first,
            supporting=frozenset(asked.evidence),
        )
        for asked, first in zip(split.questions, setting.first[HYBRID], strict=True)
    )
    return Lesson(setting=setting, cases=cases)


def trained(
    lessons: Sequence[Lesson], training: FeatureTraining, *, note: str, tell: Callable[[str], None]
) -> FeatureScorer:
    """Return the scorer that is fitted to the choices of all lessons, round by round, as `train_features` does it.

    Args:
        lessons: in a fixed order: it is that of the choices.
        training: how.
        note: kept in the record, e.g. what licences the collections have.
        tell: is told how far the training is.

    Returns:
        The scorer, whose record says the collections and embedders, the number of choices, the options, the losses.
    """
    choices: list[Choice] = []
    scorer: Scorer = UntrainedScorer()
    fitted: FeatureScorer | None = None
    for number in range(training.rounds):
        for each in lessons:
            choices += each.choices(scorer, training)
        tell(f"round {number + 1} of {training.rounds}: fitting to {len(choices):,} choices")
        scorer = fitted = fit(choices, replace(training, seed=training.seed + number))
    assert fitted is not None  # there is a round at least
    return FeatureScorer(weights=fitted.weights, record={**fitted.record, **_record(lessons, training, note)})


def _record(lessons: Sequence[Lesson], training: FeatureTraining, note: str) -> dict[str, Any]:
    sizes = {
        each.setting.split.name: {"questions": len(each.cases), "passages": len(each.setting.split.chunks)}
        for each in lessons
    }
    embedders = dict.fromkeys(each.setting.embedder.identity for each in lessons)
    return {"collections": sizes, "embedders": list(embedders), "options": asdict(training), "note": note}


def _services(setting: Setting) -> Services:
    return Services(embedder=setting.embedder, graph=setting.graph, max_concurrency=1)
