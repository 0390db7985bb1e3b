"""Training a scorer of hops on questions about a library: questions or a file of them in, a measured scorer out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from catena.library.graph_training import ScorerTraining, TrainedGraphScorer, train_scorer
from catena.library.training_questions import read_supported_questions

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from catena.effects import Cancel
    from catena.graph.feature_training import FeatureProgress
    from catena.graph.training import TrainingQuestion
    from catena.library import Library


def train_library_scorer(
    library: Library,
    questions: Sequence[TrainingQuestion] | str | Path,
    how: ScorerTraining | None = None,
    *,
    encoder: str | SentenceTransformer | None = None,
    folder: str | Path | None = None,
    watch: Callable[[FeatureProgress], None] | None = None,
    cancel: Cancel | None = None,
) -> TrainedGraphScorer:
    """Train a scorer of hops on questions about a library, and measure it on some that are held out.

    Args:
        library: with a graph.
        questions: with the ids of the chunks that support their answers; or a file of JSON lines, which may quote the
            evidence instead, see `catena.library.training_questions`.
        how: what is trained; see `catena.library.graph_training` for this and the rest.
        encoder: of a fine-tuned encoder: the model that is trained.
        folder: of the paper's scorer: for checkpoints.
        watch: told how far it is.
        cancel: another thread may stop it.

    Raises:
        LibraryError: the library has no graph.
        EvaluationError: the file cannot be read, or evidence is found nowhere; the line is named.
        CatenaError: as of `catena.library.graph_training.train_scorer`.
    """
    graph = library.graph
    if isinstance(questions, str | Path):
        ids = [info.id for info in library.documents()]
        questions = read_supported_questions(questions, ids, library.get, graph)
    return train_scorer(questions, library.services, how, encoder=encoder, folder=folder, watch=watch, cancel=cancel)
