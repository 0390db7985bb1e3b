"""Train a scorer of hops from questions with their supporting chunks, and measure it on some that are held out.

trained = train_scorer(questions, library.services)
print(trained)  # recall@5 on questions that were held out: first ranking, untrained, shipped, trained
trained.scorer.save("ours.safetensors")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Lt

from catena.backends import ENCODER, SentenceTransformerEmbedder, train_network
from catena.effects import Cancel, Embed, Embedder, Graph, Search, Services, run
from catena.evaluation.evidence import EvidenceResult
from catena.graph import Epoch, ListOptions, TrainingOptions, TrainingQuestion, WalkOptions, texts_of
from catena.graph.feature_training import FeatureTraining, Watch, tell, train_features
from catena.graph.paper_scorer import PaperScorer, PathEncoding
from catena.graph.scoring import FEATURE_FORMAT, FeatureScorer, Scorer, UntrainedScorer, form_of
from catena.graph.training_data import TrainingLists, TrainingReport, training_arrays, training_lists, vectors_of
from catena.library.training_questions import (
    ALL,
    RECALL,
    FirstStage,
    cases_of,
    held_out,
    measured,
    read_supported_questions,
)
from catena.model import MissingServiceError, ParameterError, Ranking, check_options

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from catena.library import Library


ScorerKind: TypeAlias = Literal["features", "paper"]

UNTRAINED, SHIPPED, TRAINED = "untrained", "shipped", "trained"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerTraining:
    """Options of the training of a scorer: its kind, its walks, the questions held out.

    Attributes:
        kind: "features", the small scorer for any embedder and graph: numpy alone, seconds. "paper", the
            paper's networks (extra `train`): over vectors of one embedder, with which alone it can be used.
        walk: on which scorers are measured, and for which the paper's scorer learns.
        validation: share of the questions that are held out and measured on, in [0, 1); 0 measures nothing.
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
        """The choices from which the paper's scorer learns: as asked, or as fits the walk."""
        if self.lists is not None:
            return self.lists
        by_paper = self.walk.strategy == "paper"
        return ListOptions(kind="paths" if by_paper else "best_first", kinds=self.walk.follows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedGraphScorer:
    """A trained scorer, and its measures.

    Attributes:
        scorer: to be given to `GraphSearch(scorer=...)`, or saved; its record holds the following figures, too.
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
        CatenaError: the error of the graph, the embedder or torch.
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
    paper: TrainedScorer | None = None
    if how.kind == "features":
        scorer: FeatureScorer | PaperScorer = run(
            train_features(to_learn, how.features, watch=watch, cancel=cancel), services
        )
        losses = tuple(scorer.record["loss_per_epoch"])
    else:
        ranked = [[hit.chunk.id for hit in case.ranking.hits] for case in to_learn]
        first_of = ranked if how.drawn.kind == "best_first" else ()
        paper = train_chain_scorer(
            training_lists([named[place] for place in learned], graph, how.drawn, rankings=first_of),
            graph,
            encoder or services.embedder,
            fine_tune=how.fine_tune,
            path=how.path,
            options=how.network,
            folder=folder,
            progress=lambda epoch: tell(watch, "epochs", epoch.number, how.network.epochs),
            cancel=cancel,
        )
        scorer, losses = paper.scorer, tuple(epoch.loss for epoch in paper.report.epochs)
    compared: dict[str, Scorer] = {UNTRAINED: UntrainedScorer(), SHIPPED: FeatureScorer.shipped()}
    if not how.fine_tune:
        compared[TRAINED] = scorer
    looked_at = [cases[place] for place in sorted(aside)]
    judged = run(measured(looked_at, compared, how.walk, watch=watch, cancel=cancel), services)
    said = {"learned": len(learned), "held_out": len(aside), RECALL: _means(judged[RECALL]), ALL: _means(judged[ALL])}
    return TrainedGraphScorer(
        scorer=replace(scorer, record={**scorer.record, **said}),
        recall=judged[RECALL],
        complete=judged[ALL],
        learned=len(learned),
        held_out=len(aside),
        left_out=len(questions) - len(kept),
        losses=losses,
        report=paper.report if paper else None,
        embedder=paper.embedder if paper and how.fine_tune else None,
    )


def load_scorer(path: str | os.PathLike[str], *, encoder: str = "") -> FeatureScorer | PaperScorer:
    """Return the scorer in a file, of either kind.

    Args:
        path: of what `save` wrote.
        encoder: identity of the embedder whose vectors it will be given; "" checks nothing.

    Raises:
        ParameterError: the file cannot be read or holds no scorer, or one that was trained with another embedder.
    """
    if form_of(path) == FEATURE_FORMAT:
        return FeatureScorer.load(path)
    scorer = PaperScorer.load(path)
    return scorer.for_encoder(encoder) if encoder else scorer


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedScorer:
    """A trained scorer.

    Attributes:
        scorer: to be given to a walk, or saved.
        report: of its training.
        embedder: whose vectors the scorer must be given: the frozen one, or the one that was fine-tuned, with which a
            library and its graph are to be made anew.
    """

    scorer: PaperScorer
    report: TrainingReport
    embedder: Embedder


def train_chain_scorer(
    lists: TrainingLists,
    graph: Graph,
    encoder: Embedder | str | SentenceTransformer,
    *,
    fine_tune: bool = False,
    path: PathEncoding | None = None,
    options: TrainingOptions = TrainingOptions(),  # noqa: B008 - frozen
    folder: str | Path | None = None,
    record: Mapping[str, Any] | None = None,
    progress: Callable[[Epoch], None] | None = None,
    cancel: Cancel | None = None,
) -> TrainedScorer:
    """Train the networks of the paper's scorer, and with `fine_tune` its encoder.

    A fine-tuned encoder moves the graph as well: similarities are those of its vectors. Where that matters, make the
    graph anew with `TrainedScorer.embedder`, and train once more on it, frozen, which takes seconds.

    Args:
        lists: choices, as `catena.graph.training_data` draws them from this graph.
        graph: with the vectors of the encoder.
        encoder: an embedder, or a sentence-transformers model, its name or path; to be fine-tuned it must be one of
            the last three, and is copied.
        fine_tune: whether the encoder is trained too. That takes a forward pass per text and epoch: draw the lists
            with fewer `negatives`, and expect hours on a CPU where a frozen encoder takes a minute.
        path: as of `PaperScorer`; None is "texts" for an encoder that is fine-tuned, which knows no other way, and
            "vectors" for a frozen one.
        options: of the training.
        folder: for the checkpoint after each epoch, from which the same call goes on, and for the fine-tuned
            encoder; None keeps neither.
        record: to keep beside the weights: data, licence, any JSON object.
        progress: told of each epoch.
        cancel: stops the training between two batches.

    Returns:
        The scorer with the best weights on questions that were held out.

    Raises:
        MissingExtraError: torch, or sentence-transformers for its models, is not installed.
        ParameterError: arguments do not fit together, or as `train_network` has it.
        CancelledError: the caller stopped it.
        CatenaError: the error of the graph, the embedder or torch.

    Source: IIER (arXiv 2408.02907), section 3.2; loss, optimiser and rates are ours, the paper gives none.
    """
    taken: PathEncoding = path or ("texts" if fine_tune else "vectors")
    if fine_tune and taken != "texts":
        raise ParameterError("path", path, "'texts' for an encoder that is fine-tuned")
    choices, encoded = training_arrays(lists, graph)
    train = partial(train_network, choices, options=options, folder=folder, progress=progress, cancel=cancel)
    if fine_tune:
        if hasattr(encoder, "embed_documents"):
            raise ParameterError("encoder", type(encoder).__name__, "a sentence-transformers model, its name or path")
        trained = train(run(texts_of(encoded), Services(graph=graph, cancel=cancel)), encoder=encoder)
        kept: Any = trained.encoder if folder is None else str(Path(folder) / ENCODER)
        embedder: Embedder = SentenceTransformerEmbedder(kept)
    else:
        given: Any = encoder
        embedder = given if hasattr(given, "embed_documents") else SentenceTransformerEmbedder(given)
        vectors = run(vectors_of(encoded, path=taken), Services(graph=graph, embedder=embedder, cancel=cancel))
        trained = train(vectors)
    told = {**(record or {}), "lists": str(lists), "fine_tuned": fine_tune, "training": trained.report.record()}
    scorer = PaperScorer(weights=trained.weights, encoder=embedder.identity, path=taken, record=told)
    return TrainedScorer(scorer=scorer, report=trained.report, embedder=embedder)


def train_library_scorer(
    library: Library,
    questions: Sequence[TrainingQuestion] | str | Path,
    how: ScorerTraining | None = None,
    *,
    encoder: str | SentenceTransformer | None = None,
    folder: str | Path | None = None,
    watch: Watch | None = None,
    cancel: Cancel | None = None,
) -> TrainedGraphScorer:
    """Train a scorer of hops on questions about a library, and measure it on some that are held out.

    Args:
        library: with a graph.
        questions: with the ids of the chunks that support their answers; or a file of JSON lines, which may quote the
            evidence instead, see `catena.library.training_questions`.
        how: what is trained; see `catena.library.training` for this and the rest.
        encoder: of a fine-tuned encoder: the model that is trained.
        folder: of the paper's scorer: for checkpoints.
        watch: told how far it is.
        cancel: another thread may stop it.

    Raises:
        LibraryError: the library has no graph.
        EvaluationError: the file cannot be read, or evidence is found nowhere; the line is named.
        CatenaError: as of `catena.library.training.train_scorer`.
    """
    graph = library.graph
    if isinstance(questions, str | Path):
        ids = [info.id for info in library.documents()]
        questions = read_supported_questions(questions, ids, library.get, graph)
    return train_scorer(questions, library.services, how, encoder=encoder, folder=folder, watch=watch, cancel=cancel)
