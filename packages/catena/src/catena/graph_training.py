"""Training in one call: from questions with their supporting chunks to a scorer of hops, and to whether it paid.

trained = train_scorer(questions, library.services)
print(trained)  # recall@5 on questions that were held out: first ranking, untrained, shipped, trained
trained.scorer.save("ours.safetensors")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from catena.choices import TrainingOptions
from catena.effects import Cancel, Embed, FetchById, Services, Step, ask, run
from catena.errors import CancelledError, MissingServiceError, ParameterError
from catena.evaluation.evidence import EvidenceResult, evaluate_evidence
from catena.graph.feature_scorer import FORMAT as OF_FEATURES
from catena.graph.feature_scorer import FeatureScorer
from catena.graph.feature_training import FeatureProgress, FeatureTraining, TrainingCase, train_features
from catena.graph.paper_scorer import PaperScorer, PathEncoding
from catena.graph.question_keywords import question_keywords
from catena.graph.scoring import Scorer, pose
from catena.graph.training import ListOptions, TrainingQuestion
from catena.graph.training_lists import training_lists
from catena.graph.untrained import UntrainedScorer
from catena.graph.walk import walk
from catena.graph.walk_options import WalkOptions
from catena.ids import digest
from catena.retrieval.multi_route import DEFAULT_ROUTES, Fusion, retrieve
from catena.scorer_training import train_chain_scorer
from catena.weights_file import form_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from catena.choices import Epoch, TrainingReport
    from catena.model import Ranking
    from catena.ports import Embedder, Graph
    from catena.retrieval.routes import Route

ScorerKind: TypeAlias = Literal["features", "paper"]
Watch: TypeAlias = Callable[[FeatureProgress], None]

MEASURE, ALSO = "recall@5", "all@5"
FIRST, UNTRAINED, SHIPPED, TRAINED = "first ranking", "untrained", "shipped", "trained"
_LOOKED_AT = 5  # chunks, as MEASURE says


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerTraining:
    """What is trained, on which walks, and what is held out.

    Attributes:
        kind: "features", the small scorer over what any embedder and graph give: numpy alone, seconds. "paper", the
            paper's networks (extra `train`): vectors of one embedder, with which alone it can be used.
        walk: on which scorers are judged, and for which the paper's scorer learns.
        validation: share of the questions that nothing is learned from, in [0, 1); 0 measures nothing.
        seed: of that choice.
        features: of "features": how it is trained, and on which walks.
        lists: of "paper": which choices it learns from; None: shortest paths for a walk of strategy "paper", else
            choices among the neighbours of all nodes and the first ranking.
        network: of "paper": epochs, rates, patience; its own validation is within the questions learned from.
        fine_tune: of "paper": whether the encoder is trained as well.
        path: of "paper": as `PaperScorer.path`; None for the usual.
        routes, fusion, depth: of the first ranking, as of `catena.graph_search.GraphSearch`.
    """

    kind: ScorerKind = "features"
    walk: WalkOptions = field(default_factory=WalkOptions)
    validation: float = 0.2
    seed: int = 0
    features: FeatureTraining = field(default_factory=FeatureTraining)
    lists: ListOptions | None = None
    network: TrainingOptions = field(default_factory=TrainingOptions)
    fine_tune: bool = False
    path: PathEncoding | None = None
    routes: Sequence[str] | Mapping[str, Route] = DEFAULT_ROUTES
    fusion: Fusion | None = None
    depth: int = 50

    def __post_init__(self) -> None:
        if self.kind not in ("features", "paper"):
            raise ParameterError("kind", self.kind, "'features' or 'paper'")
        if not 0.0 <= self.validation < 1.0:
            raise ParameterError("validation", self.validation, "a share in [0, 1)")
        if not isinstance(self.depth, int) or isinstance(self.depth, bool) or self.depth < 1:
            raise ParameterError("depth", self.depth, "an integer >= 1")
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
        measured: recall@5 on the questions held out, by method: "first ranking" without a walk, then the walk with
            the "untrained", the "shipped" and the "trained" scorer; empty where none were held out. A fine-tuned
            encoder has no "trained" one: it moves the graph, which is to be made anew with `embedder` first.
        all_measured: as `measured`, of questions all of whose chunks are among the first 5.
        learned, held_out: questions.
        left_out: questions without supporting chunks.
        losses: of each epoch, mean over the networks.
        report: of "paper".
        embedder: of a fine-tuned encoder.
    """

    scorer: FeatureScorer | PaperScorer
    measured: Mapping[str, EvidenceResult]
    all_measured: Mapping[str, EvidenceResult]
    learned: int
    held_out: int
    left_out: int
    losses: tuple[float, ...]
    report: TrainingReport | None = None
    embedder: Embedder | None = None

    def __str__(self) -> str:
        told = ", ".join(f"{name} {result.mean}" for name, result in self.measured.items())
        return f"learned from {self.learned} questions; {MEASURE} on {self.held_out} others: {told or 'not measured'}"


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
        services: an embedder, a graph, and a store for the first rankings: `Library.services` are; or of your own
            `Services(embedder=..., graph=ChunkGraph...)` with `rankings`.
        how: what is trained.
        rankings: the first one of each question, in order; by `retrieve` where None.
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
    _check(questions, how, rankings, encoder, folder)
    graph = _graph(services)
    services = replace(services, cancel=cancel or services.cancel)
    kept = [place for place, question in enumerate(questions) if question.supporting]
    held = held_out([questions[place].question for place in kept], how)
    first = None if rankings is None else [rankings[place] for place in kept]
    named = [questions[place] for place in kept]
    cases = run(cases_of(named, how, rankings=first, watch=watch, cancel=cancel), services)
    learned = [place for place in range(len(named)) if place not in held]
    if how.kind == "features":
        step = train_features([cases[place] for place in learned], how.features, watch=watch, cancel=cancel)
        made = _Made(run(step, services))
    else:
        made = _of_paper([named[place] for place in learned], [cases[place] for place in learned], graph, how,
                         encoder=encoder or services.embedder, folder=folder, watch=watch, cancel=cancel)  # fmt: skip
    judged = run(_judged([cases[place] for place in sorted(held)], made, how, watch, cancel), services)
    told = {MEASURE: _means(judged[MEASURE]), ALSO: _means(judged[ALSO])} if held else {}
    record = {**made.scorer.record, "learned": len(learned), "held_out": len(held), **told}
    return TrainedGraphScorer(
        scorer=replace(made.scorer, record=record),
        measured=judged[MEASURE],
        all_measured=judged[ALSO],
        learned=len(learned),
        held_out=len(held),
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


def held_out(questions: Sequence[str], how: ScorerTraining) -> frozenset[int]:
    """Return the places of the questions that nothing is learned from: a seeded draw by their texts.

    Equal questions are on one side, so the share is met within the number of their copies.

    Raises:
        ParameterError: no question is left to learn from.
    """
    distinct = sorted(set(questions), key=lambda text: (digest(str(how.seed), text), text))
    count = 0 if how.validation == 0 else max(1, round(how.validation * len(distinct)))
    if count >= len(distinct):
        raise ParameterError("questions with supporting chunks", len(distinct), f"more than {count}")
    drawn = frozenset(distinct[:count])
    return frozenset(place for place, text in enumerate(questions) if text in drawn)


def cases_of(
    questions: Sequence[TrainingQuestion],
    how: ScorerTraining,
    *,
    rankings: Sequence[Ranking] | None = None,
    watch: Watch | None = None,
    cancel: Cancel | None = None,
) -> Step[tuple[TrainingCase, ...]]:
    """Return each question as a walk is told it, with its first ranking and its supporting chunks.

    Raises:
        ParameterError: a supporting chunk is not in the graph.
        CancelledError: it was stopped.
        CatenaError: whatever the embedder, the store or the graph fails with.
    """
    yield from _check_known(questions)
    keywords_wanted = how.walk.needs_keywords or how.features.walk.needs_keywords
    found = []
    for place, each in enumerate(questions):
        _go_on(cancel)
        text = each.question
        (vectors,) = yield from ask([Embed(texts=(text,), kind="query", purpose="query embedding")])
        if rankings is None:
            first = yield from retrieve(text, k=how.depth, routes=how.routes, fusion=how.fusion)
        else:
            first = rankings[place]
        keywords = (yield from question_keywords(text)) if keywords_wanted else ()
        question = yield from pose(text, vectors[0], keywords=keywords)
        found.append(TrainingCase(question=question, ranking=first, supporting=frozenset(each.supporting)))
        _tell(watch, "questions", place + 1, len(questions))
    return tuple(found)


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
        return tuple(self.scorer.record.get("loss_per_epoch", ()))


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
    def tell(epoch: Epoch) -> None:
        _tell(watch, "epochs", epoch.number, how.network.epochs)

    ids = [[hit.chunk.id for hit in case.ranking.hits] for case in cases] if how.drawn.kind == "best_first" else ()
    lists = training_lists(questions, graph, how.drawn, rankings=ids)
    trained = train_chain_scorer(
        lists,
        graph,
        encoder,
        fine_tune=how.fine_tune,
        path=how.path,
        options=how.network,
        folder=folder,
        progress=tell,
        cancel=cancel,
    )
    return _Made(trained.scorer, trained.report, trained.embedder if how.fine_tune else None)


def _judged(
    cases: Sequence[TrainingCase], made: _Made, how: ScorerTraining, watch: Watch | None, cancel: Cancel | None
) -> Step[dict[str, dict[str, EvidenceResult]]]:
    """Return by measure and method what was reached on these questions."""
    results: dict[str, dict[str, EvidenceResult]] = {MEASURE: {}, ALSO: {}}
    if not cases:
        return results
    scorers: dict[str, Scorer] = {UNTRAINED: UntrainedScorer(), SHIPPED: FeatureScorer.shipped()}
    if made.embedder is None:
        scorers[TRAINED] = made.scorer
    gold = {str(place): case.supporting for place, case in enumerate(cases)}
    found = {FIRST: {str(place): case.ranking for place, case in enumerate(cases)}}
    for done, (name, scorer) in enumerate(scorers.items()):
        found[name] = {}
        for place, case in enumerate(cases):
            _go_on(cancel)
            walked = yield from walk(case.question, case.ranking, how.walk, scorer, k=_LOOKED_AT)
            found[name][str(place)] = walked.ranking
            _tell(watch, "validation", done * len(cases) + place + 1, len(scorers) * len(cases))
    for name, rankings in found.items():
        for measure, result in evaluate_evidence(gold, rankings, (MEASURE, ALSO)).items():
            results[measure][name] = result
    return results


def _means(results: Mapping[str, EvidenceResult]) -> dict[str, float]:
    return {name: round(result.mean.value, 4) for name, result in results.items() if result.mean is not None}


def _check(
    questions: Sequence[TrainingQuestion],
    how: ScorerTraining,
    rankings: Sequence[Ranking] | None,
    encoder: object,
    folder: object,
) -> None:
    if not questions:
        raise ParameterError("questions", 0, "at least two, with supporting chunks")
    if rankings is not None and len(rankings) != len(questions):
        raise ParameterError("rankings", len(rankings), f"one for each of {len(questions)} questions")
    if (encoder is not None) != how.fine_tune:
        raise ParameterError("encoder", encoder, "given with fine_tune, and with that alone")
    if folder is not None and how.kind != "paper":
        raise ParameterError("folder", str(folder), "None where features are trained: that takes seconds")


def _graph(services: Services) -> Graph:
    if services.graph is None:
        raise MissingServiceError("Expand", ())
    return services.graph


def _check_known(questions: Sequence[TrainingQuestion]) -> Step[None]:
    named = tuple(dict.fromkeys(chunk for question in questions for chunk in question.supporting))
    (chunks,) = yield from ask([FetchById(chunk_ids=named)])
    missing = [name for name, chunk in zip(named, chunks, strict=True) if chunk is None]
    if missing:
        some = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        what = f"{len(named)}, of which {len(missing)} are not: {some}"
        raise ParameterError("supporting chunks", what, "in the graph")


def _tell(watch: Watch | None, stage: str, done: int, total: int) -> None:
    if watch is not None:
        watch(FeatureProgress(stage=stage, done=done, total=total))


def _go_on(cancel: Cancel | None) -> None:
    if cancel is not None and cancel.is_set:
        raise CancelledError
