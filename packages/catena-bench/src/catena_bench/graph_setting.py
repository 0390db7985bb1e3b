"""What every method of `catena-bench graph` is given, and the graph that is built once, when one asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.graph import ChunkGraph, FeatureScorer, Node, PaperScorer, node_of
from catena_bench.graph_data import Split
from catena_bench.graph_embedding import KeptVectors
from catena_bench.graph_rankings import Rankings, first_rankings

DEPTH = 20  # hits of a ranking: the largest usual cutoff


class LeftOut(Exception):
    """What a method cannot do without is not here; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How an encoder is fine-tuned, which takes a pass of the model per text, and so is bounded.

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
    """What every method is given.

    Attributes:
        vectors: of the chunks, in their order, shape (chunks, dim).
        first: the rankings of `graph_rankings`.
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
    scorer: FeatureScorer | None = None
    tuning: Tuning | None = None
    k: int = DEPTH
    tell: Callable[[str], None] = lambda message: None
    figures: dict[str, float] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)
    trained: dict[str, PaperScorer] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The chunks as nodes, made without a model; `node_seconds` says how long that took."""
        self.tell("finding keywords and names")
        start = perf_counter()
        nodes = tuple(node_of(chunk) for chunk in self.split.chunks)
        self.figures["node_seconds"] = perf_counter() - start
        return nodes

    @cached_property
    def graph(self) -> ChunkGraph:
        """The graph by the product's own options; `graph_seconds` says how long it took, nodes and vectors given."""
        nodes = self.nodes
        self.tell("building the graph")
        start = perf_counter()
        graph = ChunkGraph.build(nodes, self.vectors)
        self.figures["graph_seconds"] = perf_counter() - start
        self.figures["graph_mean_degree"] = float(graph.degrees().mean())
        return graph


def setting_of(
    split: Split,
    embedder: KeptVectors,
    *,
    trained_on: Path,
    scorer: FeatureScorer | None = None,
    tuning: Tuning | None = None,
    k: int = DEPTH,
    tell: Callable[[str], None] = lambda message: None,
) -> Setting:
    """Embed a split and rank it for the first time; the arguments are the attributes of `Setting`."""
    vectors = embedder.embed_documents([chunk.text for chunk in split.chunks])
    asked = embedder.embed_queries([question.text for question in split.questions])
    return Setting(
        split=split,
        embedder=embedder,
        vectors=vectors,
        first=first_rankings(split, vectors, asked, tell),
        trained_on=trained_on,
        scorer=scorer,
        tuning=tuning,
        k=k,
        tell=tell,
    )


Method: TypeAlias = Callable[[Setting], Rankings]
"""Returns one ranking per question, of at most `k` chunks."""
