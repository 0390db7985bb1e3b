"""Run `catena graph`: build, show, export and drop the graph of a library, and train a scorer of hops on it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from catena.cli.console import out, picked, printable, tell_written, write_json
from catena.cli.failures import ProblemError, check_targets, refuse, stopped_with
from catena.cli.graph_search import Edges, built, check_graph
from catena.cli.library import stored
from catena.cli.options import AsJson, LibraryFolder, flag, grouped, option, picture
from catena.cli.progress import progress
from catena.effects.ports import Embedder
from catena.graph.options import GraphOptions, Strategy, WalkOptions
from catena.model.errors import needs
from catena.model.places import citation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from catena.graph.chunk_graph import ChunkGraph
    from catena.library.training import ScorerTraining, TrainedGraphScorer


_SURE = 0.05  # p below which a difference is believed

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The graph of a library: what joins its passages, and the walks that go over it.",
)


@app.command()
@grouped
def build(library: LibraryFolder, *, edges: Edges, as_json: AsJson = False) -> None:
    """Join the passages of a library: neighbours in the text, by meaning, by shared keywords and names, by mention.

    The graph is kept with the library, and follows it from then on: documents that come, change or go reach it at its
    next use. Building it again with other options replaces it.
    """
    began = time.monotonic()
    with stored(library) as opened:
        graph = built(opened, GraphOptions(**edges))
        seconds = time.monotonic() - began
        _show(library, graph, as_json=as_json, more={"seconds": round(seconds, 3)})


@app.command()
def show(
    library: LibraryFolder,
    *,
    hubs: Annotated[int, option("N", "Show so many passages with the most neighbours.", min=0)] = 5,
    picture: Annotated[Path | None, picture("Draw how many neighbours passages have")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a library's graph is made of: edges and neighbours by kind, and the passages with the most."""
    check_targets(pictures=[picture])
    with _graph_of(library) as graph:
        if picture is not None:
            with needs("catena-view"):
                from catena_view.plots.graph_studies import graph_degrees

            graph_degrees(graph, picture)
            tell_written(picture)
        _show(library, graph, as_json=as_json, hubs=hubs)


@app.command()
def export(
    library: LibraryFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE.graphml", help="Where to write it.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Write a library's graph as GraphML, for Gephi, yEd, NetworkX and others (extra graph)."""
    if file.suffix.lower() != ".graphml":
        raise ProblemError(f"{file.name} does not end in .graphml", "a file name that does")
    check_targets(file)
    with _graph_of(library) as graph:
        graph.write_graphml(file)
        size = len(graph)
    if as_json:
        write_json({"library": library, "file": file, "nodes": size})
    else:
        out().print(f"written: {printable(str(file), one_line=True)}, {size:,} nodes", soft_wrap=True)


@app.command()
def drop(library: LibraryFolder, as_json: AsJson = False) -> None:
    """Remove the graph of a library; nothing else of it changes."""
    with stored(library) as opened:
        had = opened.has_graph
        opened.drop_graph()
    if as_json:
        write_json({"library": library, "dropped": had})
    else:
        out().print("dropped: the library has no graph any more" if had else "there was no graph")


@contextmanager
def _graph_of(library: Path) -> Iterator[ChunkGraph]:
    with stored(library) as opened:
        check_graph(opened, library)
        yield opened.graph


def _kind(name: str, degrees: NDArray[np.integer[Any]]) -> dict[str, Any]:
    """Return how many edges of a kind there are, and how many neighbours nodes have by it.

    An edge of two directions counts once, a mention at both of its ends.
    """
    if not len(degrees):
        return {"kind": name, "edges": 0, "mean": 0.0, "most": 0, "without": 0}
    edges, most, without = int(degrees.sum()) // 2, int(degrees.max()), int((degrees == 0).sum())
    return {"kind": name, "edges": edges, "mean": float(degrees.mean()), "most": most, "without": without}


def _show(
    library: Path, graph: ChunkGraph, *, as_json: bool, hubs: int = 0, more: dict[str, Any] | None = None
) -> None:
    import numpy as np

    from catena.graph.edges import kinds_in_order

    degrees = graph.degrees()
    first = np.lexsort((np.arange(len(degrees)), -degrees))[:hubs].tolist()
    chunks = [(graph.chunk(graph.ids[place]), int(degrees[place])) for place in first]
    kinds = [_kind(kind, graph.degrees(kind)) for kind in kinds_in_order(graph.kinds)]
    kinds.append(_kind("all kinds", degrees))
    if as_json:
        told = [{"chunk": chunk.id, "citation": citation(chunk), "neighbours": count} for chunk, count in chunks]
        write_json({"library": library, "nodes": len(graph), "kinds": kinds, "hubs": told, **(more or {})})
        return
    from catena.cli.rendering import cited_as, number, table

    listed = table("Kind", "Edges#", "Neighbours#", "Most#", "Without#")
    for each in kinds:
        edges, most, without = (f"{each[name]:,}" for name in ("edges", "most", "without"))
        listed.add_row(each["kind"], edges, f"{each['mean']:.1f}", most, without)
    out().print(listed)
    if chunks:
        ranked = table("Neighbours#", "Passage")
        for chunk, count in chunks:
            ranked.add_row(f"{count:,}", cited_as(chunk))
        out().print(ranked)
    took = f" in {more['seconds']:.1f} s" if more else ""
    where = printable(str(library), one_line=True)
    out().print(f"{number(len(graph), 'node')} joined{took}; {where}", soft_wrap=True)


ScorerKind: TypeAlias = Literal["features", "paper"]


@app.command()
def train(
    library: LibraryFolder,
    questions: Annotated[
        Path, typer.Argument(metavar="QUESTIONS.jsonl", help="Questions with their supporting passages.")
    ],
    *,
    output: Annotated[Path, option("FILE", "Keep the scorer for `catena search --scorer`.", "--output", "-o")],
    scorer: Annotated[
        ScorerKind, typer.Option(help="Train on features, in seconds, or the networks of the paper (extra train).")
    ] = "features",
    walk: Annotated[Strategy, typer.Option(help="The walk that it is trained for and measured on.")] = "best_first",
    epochs: Annotated[int | None, option("N", "How often it sees all the questions [20].", min=1)] = None,
    validation: Annotated[float, option("SHARE", "Share of the questions to hold out.", min=0.0, max=0.9)] = 0.2,
    seed: Annotated[int, option("N", "Seed of all random choices.", min=0)] = 0,
    encoder: Annotated[str | None, option("MODEL", "With --scorer paper: a sentence-transformers model.")] = None,
    fine_tune: Annotated[bool, flag("--fine-tune", "With --scorer paper: train the encoder, too.")] = False,
    checkpoints: Annotated[Path | None, option("DIR", "With --scorer paper: go on from there after a stop.")] = None,
    picture: Annotated[Path | None, picture("Draw the loss by epoch")] = None,
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

    _check_choices(scorer, encoder=encoder, fine_tune=fine_tune, checkpoints=checkpoints)
    check_targets(output, pictures=[picture], inputs=[questions])
    how = _training(scorer, walk, epochs=epochs, validation=validation, seed=seed, fine_tune=fine_tune)
    embedder = None if encoder is None else _embedder(encoder, library, fine_tune=fine_tune)
    kept = "nothing was written" if checkpoints is None else f"the last whole epoch is kept in {checkpoints}"
    with Library.open(library, create=False, embedder=embedder) as opened:
        check_graph(opened, library)
        with stopped_with(kept), progress("training") as show:
            trained = train_library_scorer(
                opened, questions, how, encoder=encoder if fine_tune else None, folder=checkpoints,
                watch=lambda step: show(completed=step.done, total=step.total, what=step.stage),
            )  # fmt: skip
    trained.scorer.save(output)
    if picture is not None:
        _draw_training(trained, picture)
    tell_written(output, picture)
    if as_json:
        write_json(_training_as_json(trained, output))
    else:
        _show_training(trained)


def _check_choices(scorer: ScorerKind, *, encoder: str | None, fine_tune: bool, checkpoints: Path | None) -> None:
    if scorer != "paper":
        of_paper = {"--encoder": encoder, "--fine-tune": fine_tune, "--checkpoints": checkpoints}
        refuse(of_paper, "{} is of the paper's scorer", "--scorer paper with it")
    if fine_tune and encoder is None:
        raise ProblemError("--fine-tune needs the name of a model", "--encoder MODEL")
    if fine_tune and checkpoints is None:
        raise ProblemError("--fine-tune needs a folder for the encoder that it trains", "--checkpoints DIR")


def _training(
    scorer: ScorerKind, walk: Strategy, *, epochs: int | None, validation: float, seed: int, fine_tune: bool
) -> ScorerTraining:
    from catena.graph.feature_training import FeatureTraining
    from catena.graph.training_data import TrainingOptions
    from catena.library.training import ScorerTraining

    options = WalkOptions(strategy=walk)
    said: dict[str, Any] = {"seed": seed, **({} if epochs is None else {"epochs": epochs})}
    return ScorerTraining(
        kind=scorer,
        walk=options,
        validation=validation,
        seed=seed,
        features=FeatureTraining(walk=options, **(said if scorer == "features" else {})),
        network=TrainingOptions(**(said if scorer == "paper" else {})),
        fine_tune=fine_tune,
    )


def _embedder(encoder: str, library: Path, *, fine_tune: bool) -> Embedder | None:
    """Return the encoder as the embedder of the library; None where another one is, and it is only to be trained."""
    from catena.backends.sentence_transformers import SentenceTransformerEmbedder

    embedder = SentenceTransformerEmbedder(encoder)
    with stored(library) as opened:
        is_its_own = opened.stats().embedder == embedder.identity
    return embedder if is_its_own or not fine_tune else None


def _draw_training(trained: TrainedGraphScorer, picture: Path) -> None:
    with needs("catena-view"):
        from catena_view.plots.graph_studies import EpochMeasured, training_history

    if trained.report is None:
        epochs = [EpochMeasured(epoch=at, loss=loss) for at, loss in enumerate(trained.losses, start=1)]
    else:
        epochs = [
            EpochMeasured(epoch=each.number, loss=each.loss, validation=each.mrr) for each in trained.report.epochs
        ]
    training_history(epochs, picture, measure="mean reciprocal rank")


def _training_as_json(trained: TrainedGraphScorer, output: Path) -> dict[str, Any]:
    by_method = {
        name: {each.measure: each.mean for each in (result, trained.complete[name])}
        for name, result in trained.recall.items()
    }
    told = picked(trained, "learned held_out left_out losses")
    return {"scorer": output, "identity": trained.scorer.identity, **told, "methods": by_method}


def _show_training(trained: TrainedGraphScorer) -> None:
    from catena.cli.rendering import number, table
    from catena.evaluation.significance import compare
    from catena.library.training import SHIPPED, TRAINED

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
