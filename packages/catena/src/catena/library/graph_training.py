"""Training in one call: from questions with their supporting chunks to a scorer of hops, and to whether it paid.

trained = train_scorer(questions, library.services)
print(trained)  # recall@5 on questions that were held out: first ranking, untrained, shipped, trained
trained.scorer.save("ours.safetensors")
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Lt

from catena.effects import Cancel, Embed, Search, Services, run
from catena.graph.choices import TrainingOptions
from catena.graph.feature_scorer import FORMAT as OF_FEATURES
from catena.graph.feature_scorer import FeatureScorer
from catena.graph.feature_training import FeatureTraining, TrainingCase, train_features
from catena.graph.paper_scorer import PaperScorer, PathEncoding
from catena.graph.training import ListOptions, TrainingQuestion
from catena.graph.untrained import UntrainedScorer
from catena.graph.walk_lists import training_lists
from catena.graph.walk_options import WalkOptions
from catena.graph.weights_file import form_of
from catena.library.scorer_training import train_chain_scorer
from catena.library.training_cases import ALL, RECALL, FirstStage, Watch, cases_of, held_out, measured, tell
from catena.model.errors import MissingServiceError, ParameterError
from catena.model.options import check_options

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from catena.effects.ports import Embedder, Graph
    from catena.evaluation.evidence import EvidenceResult
    from catena.graph.choices import Epoch, TrainingReport
    from catena.graph.scoring import Scorer
    from catena.model import Ranking

ScorerKind: TypeAlias = Literal["features", "paper"]

UNTRAINED, SHIPPED, TRAINED = "untrained", "shipped", "trained"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerTraining:
    """What is trained, on which walks, and what is held out.

    Attributes:
        kind: "features", the small scorer over what any embedder and graph give: numpy alone, seconds. "paper", the
            paper's networks (extra `train`): over vectors of one embedder, with which alone it can be used.
        walk: on which scorers are measured, and for which the paper's scorer learns.
        validation: share of the questions that nothing is learned from, in [0, 1); 0 measures nothing.
        seed: of that draw.
        first: of the first rankings, where none are given.
        features: of "features": how it is trained, and on which walks.
        lists: of "paper": which choices it learns from; None: shortest paths for a walk of strategy "paper", else
            choices among the neighbours of all nodes and the first ranking.
        network: of "paper": epochs, rates, patience; its own validation is within the questions learned from.
        fine_tune: of "paper": whether the encoder is trained as well.
        path: of "paper": as `PaperScorer.path`; None for the usual.
    """

    kind: ScorerKind = "features"
    walk: WalkOptions = field(default_factory=WalkOptions)
    validation: Annotated[float, Ge(0), Lt(1)] = 0.2
    seed: int = 0
    first: FirstStage = field(default_factory=FirstStage)
    features: FeatureTraining = field(default_factory=FeatureTraining)
    lists: ListOptions | None = None
    network: TrainingOptions = field(default_factory=TrainingOptions)
    fine_tune: bool = False
    path: PathEncoding | None = None

    def __post_init__(self) -> None:
        check_options(self)
        of_paper = {"lists": self.lists, "fine_tune": self.fine_tune or None, "path": self.path}
        for name in (name for name, value in of_paper.items() if value is not None and self.kind != "paper"):
            raise ParameterError(name, of_paper[name], "given with kind='paper' alone")

    @property
    def drawn(self) -> ListOptions:
        """Which choices the paper's scorer learns from: as asked, or as fits the walk."""
        if self.lists is not None:
            return self.lists
        by_paper = self.walk.strategy == "paper"
        return ListOptions(kind="paths" if by_paper else "best_first", kinds=self.walk.follows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedGraphScorer:
    """A scorer, and what it is worth.

    Attributes:
        scorer: to be given to `GraphSearch(scorer=...)`, or saved; its record says what follows here, too.
        recall: recall@5 on the questions held out, by method: "first ranking" without a walk, then the walk with the
            "untrained", the "shipped" and the "trained" scorer; empty where none were held out. A fine-tuned encoder
            has no "trained" one: it moves the graph, which is to be made anew with `embedder` first.
        complete: as `recall`: on how many questions all of the evidence is among the first 5.
        learned, held_out: questions.
        left_out: questions without supporting chunks.
        losses: of each epoch, in nats; of "features" the mean over its networks.
        report: of "paper".
        embedder: of a fine-tuned encoder.
    """

    scorer: FeatureScorer | PaperScorer
    recall: Mapping[str, EvidenceResult]
    complete: Mapping[str, EvidenceResult]
    learned: int
    held_out: int
    left_out: int
    losses: tuple[float, ...]
    report: TrainingReport | None = None
    embedder: Embedder | None = None

    def __str__(self) -> str:
        told = ", ".join(f"{name} {result.mean}" for name, result in self.recall.items())
        return f"learned from {self.learned} questions; {RECALL} on {self.held_out} others: {told or 'not measured'}"


def train_scorer(
    questions: Sequence[TrainingQuestion],
    services: Services,
    how: ScorerTraining | None = None,
    *,
    rankings: Sequence[Ranking] | None = None,
    encoder: str | SentenceTransformer | None = None,
    folder: str | Path | None = None,
    watch: Watch | None = None,
    cancel: Cancel | None = None,
) -> TrainedGraphScorer:
    """Train a scorer of hops on questions with their supporting chunks, and measure it on those held out.

    Args:
        questions: those without supporting chunks are counted and left out.
        services: an embedder, a graph, and a store for the first rankings, as `Library.services` are; or
            `Services(embedder=..., graph=ChunkGraph...)`, with `rankings`.
        how: what is trained.
        rankings: the first one of each question, in order; None makes them as `how.first` says.
        encoder: of `fine_tune`: the sentence-transformers model that is trained, its name or path.
        folder: of "paper": keeps a checkpoint after each epoch, from which the same call goes on.
        watch: told how far it is.
        cancel: another thread may stop it.

    Raises:
        ParameterError: there are too few questions, a supporting chunk is not in the graph, or arguments do not fit
            together.
        MissingServiceError: there is no embedder or graph, or neither rankings nor a store.
        MissingExtraError: "paper" without torch.
        CancelledError: it was stopped; checkpoints are kept.
        CatenaError: whatever the graph, the embedder or torch fails with.
    """
    how = how or ScorerTraining()
    if not isinstance(how, ScorerTraining):
        raise ParameterError("how", how, "ScorerTraining(...) or None")
    _check(questions, how, rankings, encoder, folder)
    graph = services.graph
    if graph is None:
        raise MissingServiceError("Expand", ())
    for request in (Embed,) if rankings is not None else (Embed, Search):
        services.handler(request)  # said at once, not after hours
    services = replace(services, cancel=cancel or services.cancel)
    kept = [place for place, question in enumerate(questions) if question.supporting]
    named = [questions[place] for place in kept]
    aside = held_out([question.question for question in named], how.validation, how.seed)
    first = how.first if rankings is None else [rankings[place] for place in kept]
    sought = how.walk.needs_keywords or (how.kind == "features" and how.features.walk.needs_keywords)
    cases = run(cases_of(named, first, keywords=sought, watch=watch, cancel=cancel), services)
    learned = [place for place in range(len(named)) if place not in aside]
    to_learn = [cases[place] for place in learned]
    if how.kind == "features":
        made = _Made(run(train_features(to_learn, how.features, watch=watch, cancel=cancel), services))
    else:
        made = _of_paper(
            [named[place] for place in learned],
            to_learn,
            graph,
            how,
            encoder=encoder or services.embedder,
            folder=folder,
            watch=watch,
            cancel=cancel,
        )
    looked_at = [cases[place] for place in sorted(aside)]
    judged = run(measured(looked_at, _compared(made), how.walk, watch=watch, cancel=cancel), services)
    said = {"learned": len(learned), "held_out": len(aside), RECALL: _means(judged[RECALL]), ALL: _means(judged[ALL])}
    return TrainedGraphScorer(
        scorer=replace(made.scorer, record={**made.scorer.record, **said}),
        recall=judged[RECALL],
        complete=judged[ALL],
        learned=len(learned),
        held_out=len(aside),
        left_out=len(questions) - len(kept),
        losses=made.losses,
        report=made.report,
        embedder=made.embedder,
    )


def load_scorer(path: str | os.PathLike[str], *, encoder: str = "") -> FeatureScorer | PaperScorer:
    """Return the scorer in a file, of either kind.

    Args:
        path: of what `save` wrote.
        encoder: identity of the embedder whose vectors it will be given; "" checks nothing.

    Raises:
        ParameterError: the file cannot be read or holds no scorer, or one that was trained with another embedder.
    """
    if form_of(path) == OF_FEATURES:
        return FeatureScorer.load(path)
    scorer = PaperScorer.load(path)
    return scorer.for_encoder(encoder) if encoder else scorer


@dataclass(frozen=True, slots=True)
class _Made:
    """What came out of a training."""

    scorer: FeatureScorer | PaperScorer
    report: TrainingReport | None = None
    embedder: Embedder | None = None  # of a fine-tuned encoder

    @property
    def losses(self) -> tuple[float, ...]:
        if self.report is not None:
            return tuple(epoch.loss for epoch in self.report.epochs)
        return tuple(self.scorer.record["loss_per_epoch"])


def _of_paper(
    questions: Sequence[TrainingQuestion],
    cases: Sequence[TrainingCase],
    graph: Graph,
    how: ScorerTraining,
    *,
    encoder: Any,
    folder: str | Path | None,
    watch: Watch | None,
    cancel: Cancel | None,
) -> _Made:
    def progress(epoch: Epoch) -> None:
        tell(watch, "epochs", epoch.number, how.network.epochs)

    ranked = [[hit.chunk.id for hit in case.ranking.hits] for case in cases]
    lists = training_lists(questions, graph, how.drawn, rankings=ranked if how.drawn.kind == "best_first" else ())
    trained = train_chain_scorer(
        lists,
        graph,
        encoder,
        fine_tune=how.fine_tune,
        path=how.path,
        options=how.network,
        folder=folder,
        progress=progress,
        cancel=cancel,
    )
    return _Made(trained.scorer, trained.report, trained.embedder if how.fine_tune else None)


def _compared(made: _Made) -> dict[str, Scorer]:
    scorers: dict[str, Scorer] = {UNTRAINED: UntrainedScorer(), SHIPPED: FeatureScorer.shipped()}
    return {**scorers, **({TRAINED: made.scorer} if made.embedder is None else {})}


def _means(results: Mapping[str, EvidenceResult]) -> dict[str, float]:
    return {name: round(result.mean.value, 4) for name, result in results.items() if result.mean is not None}


def _check(
    questions: Sequence[TrainingQuestion],
    how: ScorerTraining,
    rankings: Sequence[Ranking] | None,
    encoder: object,
    folder: object,
) -> None:
    for question in questions:
        if not isinstance(question, TrainingQuestion):
            raise ParameterError("questions", question, "of TrainingQuestion(question=..., supporting=...)")
    if rankings is not None and len(rankings) != len(questions):
        raise ParameterError("rankings", len(rankings), f"one for each of {len(questions)} questions")
    if (encoder is not None) != how.fine_tune:
        raise ParameterError("encoder", encoder, "given with fine_tune, and with that alone")
    if folder is not None and how.kind != "paper":
        raise ParameterError("folder", str(folder), "None where features are trained: that takes seconds")
