"""Train the scorer of the walk that `catena` ships, on the train split of every collection in a folder.

    python scripts/train_walk_scorer.py --data DIR packages/catena/src/catena/data/walk_scorer/scorer.safetensors

Vectors are made by the shipped embedding and, where sentence-transformers and the package that brings it are
installed, by MiniLM too: a scorer that has seen both leans on neither. Equal collections, embedders and versions
give equal bytes. `--leave-out NAME` trains without a collection, and `catena-bench graph --data DIR/NAME --scorer
FILE` then says what that costs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # sums in one order, hence equal bytes

from catena import ParameterError, Services
from catena import run as run_step
from catena.effects import Embedder
from catena.graph import Choice, FeatureScorer, FeatureTraining, Scorer, TrainingCase, UntrainedScorer, fit, pose
from catena.graph.feature_training import choices_of
from catena.model import CatenaError, MissingExtraError
from catena_bench.graph_data import MINI, STATIC, TRAIN, KeptVectors, embedder_named, has_split, read_split
from catena_bench.graph_setting import HYBRID, Setting, setting_of


def main() -> None:
    """Train, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, help="the file of weights")
    parser.add_argument("--data", type=Path, required=True, help="a collection, or a folder of several")
    parser.add_argument(
        "--leave-out", action="append", default=[], metavar="NAME", help="of a collection; repeatable"
    )
    parser.add_argument(
        "--embedder",
        action="append",
        metavar="NAME",
        help="as of catena-bench graph; repeatable [static, and minilm]",
    )
    parser.add_argument("--cache", type=Path, help="a folder in which vectors are kept between runs")
    parser.add_argument("--networks", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--note", default="", help="is kept in the file, e.g. the licences of the collections")
    given = parser.parse_args()
    try:
        training = FeatureTraining(networks=given.networks, seed=given.seed)
        places = collections(given.data, given.leave_out)
        embedders = [embedder_named(name)[1] for name in given.embedder] if given.embedder else usual_embedders()
        lessons = [lesson(place, embedder, given.cache, tell) for embedder in embedders for place in places]
        scorer = trained(lessons, training, note=given.note, tell=tell)
        scorer.save(given.target)
    except CatenaError as error:
        sys.exit(f"error: {error}")
    print(f"{given.target}: {given.target.stat().st_size:,} bytes, {scorer.identity}")


def usual_embedders() -> list[Embedder]:
    """Return the shipped embedding, and MiniLM where it is installed."""
    found = [embedder_named(STATIC)[1]]
    try:
        found.append(embedder_named(MINI)[1])
    except (MissingExtraError, ParameterError) as error:
        tell(f"without {MINI}: {error}")
    return found


def tell(message: str) -> None:
    """Say how far it is."""
    print(message, file=sys.stderr, flush=True)


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
    """Return the cases of a collection: each question with its first ranking, "hybrid" of `catena-bench graph`."""
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


if __name__ == "__main__":
    main()
