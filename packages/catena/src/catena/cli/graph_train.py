"""`catena graph train`: a scorer of hops from questions with their evidence, and what it is worth on others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import err, out, write_json
from catena.cli.failures import INTERRUPTED, ProblemError, check_targets, say
from catena.cli.graph_options import WalkName
from catena.cli.options import AsJson
from catena.cli.progress import progress
from catena.cli.search_graph import check_graph
from catena.cli.segment_views import check_curve
from catena.cli.terminal import printable

if TYPE_CHECKING:
    from catena.effects.ports import Embedder
    from catena.graph.feature_training import FeatureProgress
    from catena.library.graph_training import ScorerTraining, TrainedGraphScorer


class ScorerName(StrEnum):
    """What is trained."""

    FEATURES = "features"
    PAPER = "paper"


def train(
    library: Annotated[Path, typer.Argument(metavar="LIBRARY", help="The library's folder.")],
    questions: Annotated[
        Path,
        typer.Argument(metavar="QUESTIONS.jsonl", help="Questions with their supporting passages."),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Keep the scorer for `catena search --scorer`.")
    ],
    scorer: Annotated[
        ScorerName, typer.Option("--scorer", help="Features, in seconds, or the paper's networks (extra train).")
    ] = ScorerName.FEATURES,
    walk: Annotated[
        WalkName, typer.Option("--walk", help="The walk that it is trained for and measured on.")
    ] = WalkName.BEST_FIRST,
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", min=1, metavar="N", help="Of features [10], of the paper's [20]."),
    ] = None,
    validation: Annotated[
        float, typer.Option("--validation", min=0.0, max=0.9, metavar="SHARE", help="Of the questions: hold out.")
    ] = 0.2,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Of all random choices.")] = 0,
    encoder: Annotated[
        str | None,
        typer.Option("--encoder", metavar="MODEL", help="Of --scorer paper: a sentence-transformers model."),
    ] = None,
    fine_tune: Annotated[
        bool, typer.Option("--fine-tune", help="Of --scorer paper: train the encoder, too.")
    ] = False,
    checkpoints: Annotated[
        Path | None,
        typer.Option("--checkpoints", metavar="DIR", help="Of --scorer paper: go on from there after a stop."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.png|html", help="Draw the loss by epoch.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a scorer of hops on your own questions, and say whether it pays.

    A line of QUESTIONS.jsonl is {"question": "…", "supporting": [{"document": "manual.pdf", "text": "a quote"}, …]};
    the id of a chunk will do instead of a quote. Some questions are held out: on these the new scorer is compared
    with the shipped and the untrained one, and with no walk at all.

    The paper's scorer learns from the vectors of the library's embedding model, or of --encoder, with which the
    library must have been made. With --fine-tune the encoder is trained as well, and kept in --checkpoints; embed the
    library with it before you use the scorer.
    """
    from catena.library import Library
    from catena.library.training import train_library_scorer

    _check(scorer, encoder=encoder, fine_tune=fine_tune, checkpoints=checkpoints)
    check_curve(picture)
    check_targets(output, picture, inputs=[questions])
    how = _training(scorer, walk, epochs=epochs, validation=validation, seed=seed, fine_tune=fine_tune)
    embedder = None if encoder is None else _embedder(encoder, library, fine_tune=fine_tune)
    with Library.open(library, create=False, embedder=embedder) as opened:
        check_graph(opened, library)
        with _stoppable(checkpoints), _bar() as watch:
            model = encoder if fine_tune else None
            trained = train_library_scorer(opened, questions, how, encoder=model, folder=checkpoints, watch=watch)
    trained.scorer.save(output)
    if picture is not None:
        _draw(trained, picture)
    for path in filter(None, (output, picture)):
        err().print(f"written: {printable(str(path), one_line=True)}", soft_wrap=True)
    if as_json:
        write_json(_as_json(trained, output))
    else:
        _show(trained)


def _check(scorer: ScorerName, *, encoder: str | None, fine_tune: bool, checkpoints: Path | None) -> None:
    of_paper = {"--encoder": encoder, "--fine-tune": fine_tune, "--checkpoints": checkpoints}
    for option in (name for name, value in of_paper.items() if value and scorer is not ScorerName.PAPER):
        raise ProblemError(f"{option} is of the paper's scorer", "--scorer paper with it")
    if fine_tune and encoder is None:
        raise ProblemError("--fine-tune needs the name of a model", "--encoder MODEL")
    if fine_tune and checkpoints is None:
        raise ProblemError("--fine-tune needs a folder for the encoder that it trains", "--checkpoints DIR")


def _training(
    scorer: ScorerName, walk: WalkName, *, epochs: int | None, validation: float, seed: int, fine_tune: bool
) -> ScorerTraining:
    from catena.graph.choices import TrainingOptions
    from catena.graph.feature_training import FeatureTraining
    from catena.graph.walk_options import WalkOptions
    from catena.library.graph_training import ScorerTraining

    options = WalkOptions(strategy=walk.value)
    said: dict[str, Any] = {"seed": seed, **({} if epochs is None else {"epochs": epochs})}
    return ScorerTraining(
        kind=scorer.value,
        walk=options,
        validation=validation,
        seed=seed,
        features=FeatureTraining(walk=options, **(said if scorer is ScorerName.FEATURES else {})),
        network=TrainingOptions(**(said if scorer is ScorerName.PAPER else {})),
        fine_tune=fine_tune,
    )


def _embedder(encoder: str, library: Path, *, fine_tune: bool) -> Embedder | None:
    """Return the encoder as the embedder of the library; None where another one is, and it is only to be trained."""
    from catena.backends.sentence_transformers import SentenceTransformerEmbedder
    from catena.cli.library import stored

    embedder = SentenceTransformerEmbedder(encoder)
    with stored(library) as store:
        is_its_own = store.stats().embedder == embedder.identity
    return embedder if is_its_own or not fine_tune else None


@contextmanager
def _stoppable(checkpoints: Path | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        kept = "nothing was written" if checkpoints is None else f"the last whole epoch is kept in {checkpoints}"
        say(kept, "the same command again", label="Stopped")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _bar() -> Iterator[Callable[[FeatureProgress], None]]:
    with progress("training") as show:
        yield lambda step: show(completed=step.done, total=step.total, what=step.stage)


def _draw(trained: TrainedGraphScorer, picture: Path) -> None:
    from catena.plots.graph_studies import EpochMeasured, training_history

    if trained.report is None:
        epochs = [EpochMeasured(epoch=at, loss=loss) for at, loss in enumerate(trained.losses, start=1)]
    else:
        epochs = [
            EpochMeasured(epoch=each.number, loss=each.loss, validation=each.mrr) for each in trained.report.epochs
        ]
    training_history(epochs, picture, measure="mean reciprocal rank")


def _as_json(trained: TrainedGraphScorer, output: Path) -> dict[str, Any]:
    by_method = {
        name: {
            result.measure: result.mean,
            trained.complete[name].measure: trained.complete[name].mean,
        }
        for name, result in trained.recall.items()
    }
    return {
        "scorer": output,
        "identity": trained.scorer.identity,
        "learned": trained.learned,
        "held_out": trained.held_out,
        "left_out": trained.left_out,
        "losses": trained.losses,
        "methods": by_method,
    }


def _show(trained: TrainedGraphScorer) -> None:
    from catena.cli.views import number, table
    from catena.evaluation.significance import compare
    from catena.library.graph_training import SHIPPED, TRAINED

    left = f", {number(trained.left_out, 'question')} without evidence left out" if trained.left_out else ""
    out().print(f"learned from {number(trained.learned, 'question')}, {trained.held_out:,} held out{left}")
    if not trained.recall:
        return
    made = table("Hops by", "recall@5#", "Interval", "all@5#")
    for name, result in trained.recall.items():
        means = result.mean, trained.complete[name].mean
        if means[0] is not None and means[1] is not None:
            interval = means[0].interval
            around = "" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"
            made.add_row(name, f"{means[0].value:.3f}", around, f"{means[1].value:.3f}")
    out().print(made)
    if TRAINED not in trained.recall:
        out().print("The encoder was trained, too: embed the library with it and build the graph, then measure.")
        return
    found = compare(trained.recall[TRAINED].per_question, trained.recall[SHIPPED].per_question)
    verdict = "it pays" if found.difference > 0 and found.p < _SURE else "these questions do not show that it pays"
    out().print(f"against the shipped scorer: {found.difference:+.3f}, p = {found.p:.3f}: {verdict}")


_SURE = 0.05  # p below which a difference is believed
