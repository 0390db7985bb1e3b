"""Trains the paper's scorer in one call: from lists, a graph and an encoder to a scorer that a walk can use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from catena.backends.chain_training import ENCODER, train_network
from catena.backends.sentence_transformers import SentenceTransformerEmbedder
from catena.effects import Services, run
from catena.graph.choices import TrainingOptions
from catena.graph.paper_scorer import PaperScorer, PathEncoding
from catena.graph.training_data import choices_of, texts_of, vectors_of
from catena.model.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sentence_transformers import SentenceTransformer

    from catena.effects import Cancel
    from catena.effects.ports import Embedder, Graph
    from catena.graph.choices import Epoch, TrainingReport
    from catena.graph.training import TrainingLists


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedScorer:
    """A trained scorer.

    Attributes:
        scorer: to be given to a walk, or saved.
        report: how its training went.
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
        lists: choices, as `catena.graph.walk_lists` draws them from this graph.
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
        record: what to keep beside the weights: data, licence, whatever JSON can say.
        progress: told of each epoch.
        cancel: stops the training between two batches.

    Returns:
        The scorer with the best weights on questions that were held out.

    Raises:
        MissingExtraError: torch, or sentence-transformers for its models, is not installed.
        ParameterError: arguments do not fit together, or as `train_network` has it.
        CancelledError: the caller stopped it.
        CatenaError: whatever the graph, the embedder or torch fails with.

    Source: IIER (arXiv 2408.02907), section 3.2; loss, optimiser and rates are ours, the paper gives none.
    """
    taken: PathEncoding = path or ("texts" if fine_tune else "vectors")
    if fine_tune and taken != "texts":
        raise ParameterError("path", path, "'texts' for an encoder that is fine-tuned")
    choices, encoded = choices_of(lists, graph)
    train = partial(train_network, choices, options=options, folder=folder, progress=progress, cancel=cancel)
    if fine_tune:
        if hasattr(encoder, "embed_documents"):
            raise ParameterError("encoder", type(encoder).__name__, "a sentence-transformers model, its name or path")
        texts = run(texts_of(encoded), Services(graph=graph, cancel=cancel))
        trained = train(texts, encoder=encoder)
        kept: Any = trained.encoder if folder is None else str(Path(folder) / ENCODER)
        embedder: Embedder = SentenceTransformerEmbedder(kept)
    else:
        embedder = _embedder(encoder)
        vectors = run(vectors_of(encoded, path=taken), Services(graph=graph, embedder=embedder, cancel=cancel))
        trained = train(vectors)
    told = {**(record or {}), "lists": str(lists), "fine_tuned": fine_tune, "training": trained.report.record()}
    scorer = PaperScorer(weights=trained.weights, encoder=embedder.identity, path=taken, record=told)
    return TrainedScorer(scorer=scorer, report=trained.report, embedder=embedder)


def _embedder(encoder: Embedder | str | SentenceTransformer) -> Embedder:
    if hasattr(encoder, "embed_documents"):
        return cast("Embedder", encoder)
    return SentenceTransformerEmbedder(encoder)
