"""Give every method of `catena-bench graph` its inputs, build the graph once, walk it, train the paper's scorer.

| ranking | score |
|---|---|
| bm25 | the package bm25s with its defaults (Lucene, k1 = 1.5, b = 0.75), English stop words, the Snowball stemmer |
| dense | cosine of the question's and the passage's vector |
| hybrid | `sum 1 / (60 + rank)` over the first hundred of both |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena import Chunk, Hit, Provenance, Ranking, Scale, Services
from catena import graph as graphs
from catena import run as run_step
from catena.effects import Embedder, Graph
from catena.model import pip_install
from catena.retrieval import reciprocal_rank_fusion
from catena_bench.figures import Tell, silent, timed
from catena_bench.graph_data import TRAIN, HopQuestion, KeptVectors, Split, has_split, read_split
from catena_bench.views import DEPTH as RANKED
from catena_bench.views import best_first
from catena_bench.views_retrievers import ReferenceBm25, Scores

BM25, DENSE, HYBRID = "bm25", "dense", "hybrid"
_TOGETHER = 100  # questions: so many rows of scores of the whole corpus are held at a time

Rankings: TypeAlias = "tuple[Ranking, ...]"
"""One per question, in their order."""


DEPTH = 20  # hits of a ranking: the largest usual cutoff
NEGATIVES = graphs.ListOptions().negatives
TUNED = "paper_fine_tuned"
_NEGATIVES = 7  # of one list: every row is a text that the encoder reads in every epoch


def first_rankings(
    split: Split, vectors: NDArray[np.float32], asked: NDArray[np.float32], tell: Tell
) -> dict[str, Rankings]:
    """Return the three rankings of every question, at most a hundred chunks each, ties by chunk id.

    Hits say where the routes "lexical" (BM25) and "dense" had them, as those of a library do.

    Args:
        split: the corpus and the questions.
        vectors: of the chunks, shape (chunks, dim), of unit length.
        asked: of the questions, shape (questions, dim).
        tell: is told how far the ranking is.
    """
    tell("ranking by words")
    scored = ReferenceBm25().fitted([chunk.text for chunk in split.chunks])
    texts = [question.text for question in split.questions]
    starts = range(0, len(texts), _TOGETHER)
    words = _ranked("lexical", split.chunks, (scored(texts[at : at + _TOGETHER]) for at in starts))
    tell("ranking by vectors")
    cosines = ((asked[at : at + _TOGETHER] @ vectors.T).astype(np.float64) for at in starts)
    near = _ranked("dense", split.chunks, cosines)
    fused = (
        reciprocal_rank_fusion({"lexical": one, "dense": other}, top=RANKED)
        for one, other in zip(words, near, strict=True)
    )
    return {BM25: words, DENSE: near, HYBRID: tuple(fused)}


def _ranked(route: str, chunks: Sequence[Chunk], batches: Iterator[Scores]) -> Rankings:
    def hit(row: NDArray[np.float64], at: int, rank: int) -> Hit:
        score = float(row[at])
        return Hit(chunks[at], score, (Provenance(route=route, rank=rank, score=score),))

    return tuple(
        Ranking(tuple(hit(row, at, rank) for rank, at in enumerate(best_first(row), start=1)), Scale.SIMILARITY)
        for scores in batches
        for row in scores
    )


class MethodNotAvailable(Exception):
    """A method cannot run here; the message names what it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Options of fine-tuning an encoder, which takes a pass of the model per text, and so is bounded.

    Attributes:
        model: name or path of a sentence-transformers model.
        epochs: over the lists.
        questions: to learn from; None for all of the train split.
    """

    model: str
    epochs: int = 1
    questions: int | None = None


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The inputs of every method.

    Attributes:
        vectors: of the chunks, in their order, shape (chunks, dim).
        first: the rankings of `first_rankings`.
        trained_on: a folder with a train split, for scorers that are trained here.
        scorer: of the walk; the shipped one where None.
        tuning: of the encoder of the paper's scorer; None fine-tunes none.
        k: length of the rankings that are judged.
        tell: is told how far a method is.
        figures: what is measured besides the rankings; written as it is known.
        times: by method, milliseconds of each question; written by methods that are timed.
        trained: by name, scorers that were trained for this run.
    """

    split: Split
    embedder: KeptVectors
    vectors: NDArray[np.float32]
    first: Mapping[str, Rankings]
    trained_on: Path
    scorer: graphs.FeatureScorer | None = None
    tuning: Tuning | None = None
    k: int = DEPTH
    tell: Tell = silent
    figures: dict[str, float] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)
    trained: dict[str, graphs.PaperScorer] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> tuple[graphs.Node, ...]:
        """The chunks as nodes, made without a model; `node_seconds` says how long that took."""
        self.tell("finding keywords and names")
        start = perf_counter()
        nodes = tuple(graphs.node_of(chunk) for chunk in self.split.chunks)
        self.figures["node_seconds"] = perf_counter() - start
        return nodes

    @cached_property
    def graph(self) -> graphs.ChunkGraph:
        """The graph by the product's own options; `graph_seconds` says how long it took, nodes and vectors given."""
        nodes = self.nodes
        self.tell("building the graph")
        start = perf_counter()
        graph = graphs.ChunkGraph.build(nodes, self.vectors)
        self.figures["graph_seconds"] = perf_counter() - start
        self.figures["graph_mean_degree"] = float(graph.degrees().mean())
        return graph


def setting_of(split: Split, embedder: KeptVectors, *, tell: Tell = silent, **how: Any) -> Setting:
    """Embed a split and rank it for the first time; the arguments are the attributes of `Setting`."""
    vectors = embedder.embed_documents([chunk.text for chunk in split.chunks])
    asked = embedder.embed_queries([question.text for question in split.questions])
    first = first_rankings(split, vectors, asked, tell)
    return Setting(split=split, embedder=embedder, vectors=vectors, first=first, tell=tell, **how)


Method: TypeAlias = Callable[[Setting], Rankings]
"""Returns one ranking per question, of at most `k` chunks."""


MAKES = Callable[[Setting], graphs.Scorer]
"""Makes a scorer for a setting, or raises `CatenaError` where it cannot be had."""


def walking(name: str, walk: graphs.WalkOptions, scorer: MAKES) -> Method:
    """Return the method that widens the hybrid ranking by a walk.

    Args:
        name: under which the milliseconds of each question are noted: processor time of this process, the first
            ranking and the question's vector given.
        walk: how.
        scorer: of its hops.
    """

    def ranked(setting: Setting) -> Rankings:
        how = graphs.GraphSearch(walk=walk, scorer=scorer(setting), on_graph_error="raise")
        return _widened(setting, name, how, embedder=setting.embedder, graph=setting.graph)

    return ranked


def _widened(
    setting: Setting, name: str, how: graphs.GraphSearch, *, embedder: KeptVectors, graph: graphs.ChunkGraph
) -> Rankings:
    asked = tuple(zip(setting.split.questions, setting.first[HYBRID], strict=True))
    results, setting.times[name] = walked(asked, how, embedder, graph, setting.k)
    return tuple(result.ranking for result in results)


def walked(
    asked: Sequence[tuple[HopQuestion, Ranking]], how: graphs.GraphSearch, embedder: Embedder, graph: Graph, k: int
) -> tuple[list[graphs.GraphResult], list[float]]:
    """Return what the walk from each question's first ranking found, and the milliseconds that it took."""
    services = Services(embedder=embedder, graph=graph, max_concurrency=1)
    results: list[graphs.GraphResult] = []
    times: list[float] = []
    for question, first in asked:
        seconds, result = timed(partial(run_step, graphs.widen(question.text, first, how, k=k), services))
        results.append(result)
        times.append(1_000 * seconds)
    return results, times


def paper_scorer(setting: Setting) -> graphs.PaperScorer:
    """Return the paper's scorer with the encoder frozen, trained on shortest paths between pieces of evidence.

    It is trained once, on the whole train split of `setting.trained_on`; `training_seconds` says how long it took,
    its graph and its lists given.

    Raises:
        MethodNotAvailable: there is no train split, or no torch.
        CatenaError: training failed.
    """
    kept = setting.trained.get("paper")
    if kept is None:
        kept = setting.trained["paper"] = _trained(setting)
    return kept


def _trained(setting: Setting) -> graphs.PaperScorer:
    lists, graph = lists_of(setting)
    from catena.library import train_chain_scorer

    start = perf_counter()
    trained = train_chain_scorer(lists, graph, setting.embedder)
    setting.figures["training_seconds"] = perf_counter() - start
    return trained.scorer


def lists_of(
    setting: Setting, *, most: int | None = None, negatives: int = NEGATIVES
) -> tuple[graphs.TrainingLists, graphs.ChunkGraph]:
    """Return the choices on shortest paths of the train split, and its graph, by the setting's embedder.

    Args:
        setting: says where the split is.
        most: learn from only so many questions.
        negatives: of one list, at most.

    Raises:
        MethodNotAvailable: there is no train split, or no torch.
        CatenaError: the split is not of the layout, or has no path.
    """
    if not has_split(setting.trained_on, TRAIN):
        raise MethodNotAvailable(f"needs {TRAIN}_corpus and {TRAIN}_questions in {setting.trained_on}")
    if find_spec("torch") is None:
        raise MethodNotAvailable(f"needs torch: {pip_install('catena-core[train]')}, or nox -s torch")
    split = read_split(setting.trained_on, TRAIN, most)
    setting.tell(f"training on {split.name}: {len(split.questions):,} questions over {len(split.chunks):,} passages")
    vectors = setting.embedder.embed_documents([chunk.text for chunk in split.chunks])
    graph = graphs.ChunkGraph.build([graphs.node_of(chunk) for chunk in split.chunks], vectors)
    questions = [
        graphs.TrainingQuestion(question=question.text, supporting=question.evidence) for question in split.questions
    ]
    lists = graphs.training_lists(
        questions, graph, graphs.ListOptions(kinds=graphs.PAPER_KINDS, missing="skip", negatives=negatives)
    )
    setting.tell(f"learning from {lists}")
    return lists, graph


def paper_fine_tuned(setting: Setting) -> Rankings:
    """Fine-tune the encoder with the paper's networks, and walk as "paper_trained" does, over a graph of its vectors.

    The walk begins with the same "hybrid" ranking as all others, so that what differs is the scorer and its graph.
    `fine_tuning_seconds` and `fine_tuning_lists` say what it took, and `fine_tuning_mrr` how well the best epoch
    ranked the choices that were held out.

    Raises:
        MethodNotAvailable: nothing was said about fine-tuning, there is no train split, or no torch.
        CatenaError: training failed.
    """
    tuning = setting.tuning
    if tuning is None:
        raise MethodNotAvailable("needs --fine-tune")
    lists, graph = lists_of(setting, most=tuning.questions, negatives=_NEGATIVES)
    from catena.library import train_chain_scorer

    start = perf_counter()
    trained = train_chain_scorer(
        lists,
        graph,
        tuning.model,
        fine_tune=True,
        options=graphs.TrainingOptions(epochs=tuning.epochs),
        progress=lambda epoch: setting.tell(f"epoch {epoch.number} of {tuning.epochs}: loss {epoch.loss:.3f}"),
    )
    report = trained.report
    setting.figures["fine_tuning_seconds"] = perf_counter() - start
    setting.figures["fine_tuning_lists"] = report.training_lists
    best = report.epochs[report.best_epoch - 1].mrr
    if best is not None:
        setting.figures["fine_tuning_mrr"] = best
    embedder = KeptVectors(trained.embedder, None, setting.tell)
    vectors = embedder.embed_documents([chunk.text for chunk in setting.split.chunks])
    tuned = graphs.ChunkGraph.build(setting.nodes, vectors)
    how = graphs.GraphSearch(walk=graphs.PAPER, scorer=trained.scorer, on_graph_error="raise")
    return _widened(setting, TUNED, how, embedder=embedder, graph=tuned)
