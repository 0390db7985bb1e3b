"""Prepare the training data of a scorer of hops: questions with their evidence, choices of walks, arrays and texts.

`training_lists` draws from a graph the choices that lead from one supporting chunk to the next; `training_arrays`,
`vectors_of` and `texts_of` turn them into the input of the networks of the paper's scorer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Lt
from numpy.typing import NDArray

from catena.effects import Embed, Expand, FetchById, FetchNodes, Graph, Step, ask
from catena.graph.frontier import chunks_known
from catena.graph.paper_scorer import KINDS, PathEncoding, node_text, path_text
from catena.graph.scoring import unit_vector
from catena.model import Checked, Chunk, EvaluationError, ParameterError, as_tuples, check_options, digest
from catena.text.files import read_objects


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choices:
    """Choices of walks as arrays: L lists of R rows in all; the rows of list i are `starts[i]` to `starts[i + 1]`.

    Attributes:
        question: of each list, a row of the questions' encodings, shape (L,), int64.
        path: of each list, a row of the paths' encodings, shape (L,), int64.
        starts: shape (L + 1,), int64.
        node: of each row, a row of the nodes' encodings, shape (R,), int64.
        triples: (W_struc, W_sim, W_keyword) of the edge to it, shape (R, 3), float32.
        positive: whether it is right, shape (R,), bool.
    """

    question: NDArray[np.int64]
    path: NDArray[np.int64]
    starts: NDArray[np.int64]
    node: NDArray[np.int64]
    triples: NDArray[np.float32]
    positive: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.question)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vectors:
    """Questions, paths and nodes as vectors of a frozen encoder: rows of shape (n, dim), float32."""

    queries: NDArray[np.float32]
    paths: NDArray[np.float32]
    nodes: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Questions, paths and nodes as texts, for an encoder that is trained itself."""

    queries: Sequence[str]
    paths: Sequence[str]
    nodes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions(Checked):
    """Options of the training of a network.

    Attributes:
        epochs: passes over all lists, at most.
        batch: lists in one step of the optimiser.
        learning_rate: of the networks.
        encoder_learning_rate: of an encoder that is trained with them.
        weight_decay: of AdamW, for both.
        hidden: units between the layers of f_n.
        edge_hidden: units between the layers of f_r.
        validation: share of the questions that are only measured on, in [0, 1); 0 trains on all of them for all
            epochs, and keeps the last weights instead of the best.
        patience: epochs without a better mean reciprocal rank after which training ends.
        seed: of the first weights, of the split, of the order of lists, and of dropout in the encoder.
        device: "cpu", "cuda", another name that torch knows, or "auto": CUDA where there is one.
    """

    epochs: Annotated[int, Ge(1)] = 20
    batch: Annotated[int, Ge(1)] = 32
    learning_rate: Annotated[float, Gt(0), Lt(inf)] = 1e-3
    encoder_learning_rate: Annotated[float, Gt(0), Lt(inf)] = 2e-5
    weight_decay: Annotated[float, Ge(0), Lt(inf)] = 0.01
    hidden: Annotated[int, Ge(1)] = 256
    edge_hidden: Annotated[int, Ge(1)] = 64
    validation: Annotated[float, Ge(0), Lt(1)] = 0.1
    patience: Annotated[int, Ge(1)] = 3
    seed: Annotated[int, Ge(0)] = 0
    device: Literal["auto", "cpu", "cuda"] | str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One pass over the lists.

    Attributes:
        number: from 1.
        loss: mean over the training lists, in nats, each as it was when its batch came.
        validation_loss: mean over the validation lists, in nats, after the epoch; None without validation.
        accuracy: share of the validation lists whose best row is right; None without.
        mrr: mean over them of one over the rank of the first right row; None without.
    """

    number: int
    loss: float
    validation_loss: float | None = None
    accuracy: float | None = None
    mrr: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReport:
    """Report of a training.

    Attributes:
        epochs: those that were run, in order, also in earlier runs from the same checkpoint.
        best_epoch: number of the epoch whose weights were kept, from 1.
        training_lists: lists learned from.
        validation_lists: lists only measured on, of other questions.
        stopped_early: whether patience ended it.
        seconds: of this run alone, by the wall clock.
        device: on which it ran.
    """

    epochs: tuple[Epoch, ...]
    best_epoch: int
    training_lists: int
    validation_lists: int
    stopped_early: bool
    seconds: float = field(compare=False)
    device: str

    def curves(self) -> Mapping[str, tuple[float, ...]]:
        """Return the series to plot, by name: "epoch", "loss", and with validation its figures."""
        names = ("loss", "validation_loss", "accuracy", "mrr")
        rows = {name: tuple(getattr(epoch, name) for epoch in self.epochs) for name in names}
        known = {name: row for name, row in rows.items() if None not in row}
        return {"epoch": tuple(float(epoch.number) for epoch in self.epochs), **known}

    def record(self) -> dict[str, Any]:
        """Return the figures to keep beside the weights; equal for equal trainings, so without the time."""
        best = next(epoch for epoch in self.epochs if epoch.number == self.best_epoch)
        return {
            "epochs": len(self.epochs),
            "best_epoch": self.best_epoch,
            "training_lists": self.training_lists,
            "validation_lists": self.validation_lists,
            "validation_accuracy": best.accuracy,
            "validation_mrr": best.mrr,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingQuestion:
    """A question, and the ids of the chunks that support its answer, each once."""

    question: str
    supporting: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise ParameterError("question", self.question, "a text that is not empty")
        if len(set(self.supporting)) < len(self.supporting) or not all(self.supporting):
            raise ParameterError("supporting", self.supporting, "ids of chunks, each once")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingList:
    """One choice of a walk. Row i is one way on, as in `catena.graph.scoring.Candidates`.

    Attributes:
        question: place in `TrainingLists.questions`, 0-based.
        path: ids of the nodes chosen so far, seed first.
        candidates: ids; one that several nodes of the path lead to has several rows.
        froms: place in `path` of the node from which row i goes on.
        positive: whether row i is right; at least one is, and at least one is not.
    """

    question: int
    path: tuple[str, ...]
    candidates: tuple[str, ...]
    froms: tuple[int, ...]
    positive: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """Options of drawing choices from a graph.

    Attributes:
        kind: "paths": each node of a shortest path from one supporting chunk to another leads to the next, against
            the other neighbours of that node (the paper's). "best_first": from the first of the ranking and from each
            supporting chunk, any supporting chunk that is not yet on the path, among the neighbours of all of its
            nodes and the head of the ranking; the path grows by the best ranked of them.
        max_hops: edges of a shortest path; 4 are a path of five nodes. Of "best_first": choices of one walk.
        negatives: rows of one list that are wrong, at most: a seeded choice of them. Fewer train faster, above all
            an encoder.
        seed: of that choice.
        first: ranked chunks among the candidates of "best_first".
        kinds: of edges; None follows all that the graph has.
        missing: "raise" at a supporting chunk that the graph does not have, or "skip" it.
    """

    kind: Literal["paths", "best_first"] = "paths"
    max_hops: Annotated[int, Ge(1)] = 4
    negatives: Annotated[int, Ge(1)] = 63
    seed: int = 0
    first: Annotated[int, Ge(0)] = 20
    kinds: tuple[str, ...] | None = None
    missing: Literal["raise", "skip"] = "raise"

    def __post_init__(self) -> None:
        as_tuples(self, "kinds")
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLists:
    """The lists of a set of questions, and the counts of what was left out of them.

    Attributes:
        questions: all that were given, in order.
        lists: by question, then by path.
        hops: ordered pairs of supporting chunks by the edges of their shortest path: (1, pairs), (2, pairs), …
        unreached: ordered pairs that no path of at most `ListOptions.max_hops` edges joins.
        without_choice: paths that go on to no supporting chunk, or whose every candidate is right; so no list.
        missing: supporting chunks that the graph does not have, and that were skipped.
        alone: questions with less than two supporting chunks in the graph, which have no pairs.
    """

    questions: tuple[TrainingQuestion, ...]
    lists: tuple[TrainingList, ...]
    hops: tuple[tuple[int, int], ...] = ()
    unreached: int = 0
    without_choice: int = 0
    missing: tuple[str, ...] = ()
    alone: int = 0

    def __str__(self) -> str:
        joined = ", ".join(f"{pairs} in {edges}" for edges, pairs in self.hops) or "none"
        return (
            f"{len(self.lists)} lists of {len({each.question for each in self.lists})} of {len(self.questions)} "
            f"questions; pairs of supporting chunks joined, by edges: {joined}; not joined: {self.unreached}; "
            f"paths without a choice: {self.without_choice}; chunks that the graph does not have: "
            f"{len(self.missing)}; questions with less than two chunks: {self.alone}"
        )


def read_training_questions(path: str | Path) -> tuple[TrainingQuestion, ...]:
    """Read JSON lines `{"question": "…", "supporting": ["chunk id", …]}`; other fields are not looked at.

    Args:
        path: of a file, packed by gzip if it ends in ".gz".

    Raises:
        EvaluationError: the file cannot be read or holds no question, or a line is of another layout.
    """
    path = Path(path)
    questions = tuple(_question(row, where) for where, row in read_objects(path))
    if not questions:
        raise EvaluationError(f"{path.name} holds no question")
    return questions


def _question(row: dict[str, Any], where: str) -> TrainingQuestion:
    question, supporting = row.get("question"), row.get("supporting")
    if not isinstance(question, str) or not question.strip():
        raise EvaluationError(f"{where}: 'question' must be a text that is not empty, got {str(question)[:60]!r}")
    if not isinstance(supporting, list) or not all(isinstance(each, str) and each for each in supporting):
        raise EvaluationError(f"{where}: 'supporting' must be a list of ids of chunks, got {str(supporting)[:60]!r}")
    return TrainingQuestion(question=question, supporting=tuple(dict.fromkeys(supporting)))


class Adjacency:
    """The neighbours of nodes, by ascending id, each asked of the graph once.

    Args:
        graph: of which they are asked.
        kinds: of edges that count; None counts all that the graph has.
    """

    def __init__(self, graph: Graph, kinds: Sequence[str] | None = None) -> None:
        self._graph, self._kinds = graph, None if kinds is None else tuple(kinds)
        self._known: dict[str, tuple[str, ...]] = {}

    def of(self, chunk_id: str) -> tuple[str, ...]:
        """Return the neighbours of one node; none where the graph has no such node."""
        self.ask([chunk_id])
        return self._known[chunk_id]

    def ask(self, chunk_ids: Iterable[str]) -> None:
        """Ask for the neighbours of several nodes at once, so that `of` need not."""
        wanted = tuple(dict.fromkeys(chunk for chunk in chunk_ids if chunk not in self._known))
        if not wanted:
            return
        found = self._graph.expand(Expand(chunk_ids=wanted, kinds=self._kinds))
        joined: dict[str, list[str]] = {chunk: [] for chunk in wanted}
        for source, target in zip(found.source.tolist(), found.target.tolist(), strict=True):
            joined[found.sources[source]].append(found.nodes.ids[target])
        self._known.update((chunk, tuple(sorted(ids))) for chunk, ids in joined.items())


def shortest_paths(
    adjacency: Adjacency, start: str, ends: Collection[str], max_hops: int
) -> Mapping[str, tuple[str, ...]]:
    """Return a path of fewest edges from one node to each of several, both ends included.

    A breadth-first search in which each level is in the order of its paths: the first path to reach a node is then
    the first by its ids too.

    Args:
        adjacency: whose edges are followed, of any weight.
        start: id of a node.
        ends: ids of nodes.
        max_hops: edges, at least 1.

    Returns:
        By end, of several paths the first by its ids, compared from the start; no path where all are longer.

    Raises:
        ParameterError: `max_hops` is below 1.
        CatenaError: the error of the graph.
    """
    if max_hops < 1:
        raise ParameterError("max_hops", max_hops, "at least 1 edge")
    before: dict[str, str] = {start: ""}
    level, sought = [start], set(ends) - {start}
    for _ in range(max_hops):
        if not level or not sought:
            break
        adjacency.ask(level)
        reached: list[str] = []
        for node in level:
            for neighbour in adjacency.of(node):
                if neighbour not in before:
                    before[neighbour] = node
                    reached.append(neighbour)
        sought -= set(reached)
        level = reached
    paths: dict[str, tuple[str, ...]] = {}
    for end in (end for end in ends if end in before):
        path = [end]
        while before[path[-1]]:
            path.append(before[path[-1]])
        paths[end] = tuple(reversed(path))
    return paths


Goal: TypeAlias = tuple[tuple[str, ...], frozenset[str]]
"""A path, and the ids that are right next."""


def training_lists(
    questions: Sequence[TrainingQuestion],
    graph: Graph,
    options: ListOptions = ListOptions(),
    *,
    rankings: Sequence[Sequence[str]] = (),
) -> TrainingLists:
    """Return the choices that lead from supporting chunk to supporting chunk.

    A supporting chunk is never a wrong row: where a shortest path passes by another one, that is right as well.

    Args:
        questions: with their supporting chunks.
        graph: on which walks will go.
        options: which choices, and how many wrong rows.
        rankings: of "best_first" only: ids of chunks by question, best first, as the walks' first stage ranks them.

    Raises:
        ParameterError: there is no question, a supporting chunk is not in the graph, there is not one ranking per
            question, or there is no list at all.
        CatenaError: the error of the graph.

    Source: IIER (arXiv 2408.02907), section 3.2, for "paths"; it does not say how many wrong rows there are.
    """
    if not questions:
        raise ParameterError("training questions", 0, "at least one")
    if len(rankings) != (len(questions) if options.kind == "best_first" else 0):
        allowed = f"one per question ({len(questions)})" if options.kind == "best_first" else 'of "best_first" only'
        raise ParameterError("rankings", len(rankings), allowed)
    held, missing = _held(questions, graph, options)
    adjacency = Adjacency(graph, options.kinds)
    hops: Counter[int] = Counter()
    lists: list[TrainingList] = []
    goals = 0
    for place, supporting in enumerate(held):
        reached = (shortest_paths(adjacency, start, supporting, options.max_hops) for start in supporting)
        paths = [path for found in reached for _, path in sorted(found.items()) if len(path) > 1]
        hops.update(len(path) - 1 for path in paths)
        ranking = tuple(rankings[place][: options.first]) if rankings else ()
        if options.kind == "paths":
            wanted = _next_nodes(paths, supporting)
        else:
            seeds = sorted({*supporting, *rankings[place][:1]}) if supporting else []
            wanted = [goal for seed in seeds for goal in _grown(adjacency, seed, supporting, ranking, options)]
        goals += len(wanted)
        for path, right in wanted:
            rows = _chosen(_rows(adjacency, path, ranking, options), right, path, options)
            if len({node in right for node, _ in rows}) == 2:  # a right row and a wrong one
                candidates, froms = zip(*rows, strict=True)
                positive = tuple(node in right for node in candidates)
                lists.append(
                    TrainingList(question=place, path=path, candidates=candidates, froms=froms, positive=positive)
                )
    found = TrainingLists(
        questions=tuple(questions),
        lists=tuple(lists),
        hops=tuple(sorted(hops.items())),
        unreached=sum(len(supporting) * (len(supporting) - 1) for supporting in held) - hops.total(),
        without_choice=goals - len(lists),
        missing=missing,
        alone=sum(len(supporting) < 2 for supporting in held),
    )
    if not lists:
        raise ParameterError("training questions", str(found), "such that the graph joins some of their chunks")
    return found


def _held(
    questions: Sequence[TrainingQuestion], graph: Graph, options: ListOptions
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return each question's supporting chunks that the graph has, ascending, and all that it does not have."""
    named = tuple(sorted({chunk for question in questions for chunk in question.supporting}))
    found = graph.chunks_by_id(FetchById(chunk_ids=named))
    missing = tuple(name for name, chunk in zip(named, found, strict=True) if chunk is None)
    if missing and options.missing == "raise":
        some = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        what = f"{len(named)}, of which {len(missing)} are not: {some}"
        raise ParameterError("supporting chunks", what, 'in the graph, or skipped by missing="skip"')
    lost = frozenset(missing)
    return [tuple(sorted(set(question.supporting) - lost)) for question in questions], missing


def _next_nodes(paths: Iterable[tuple[str, ...]], supporting: Sequence[str]) -> list[Goal]:
    """Return each beginning of a path with the nodes to which paths go on from it, and all supporting chunks."""
    right: dict[tuple[str, ...], set[str]] = {}
    for path in paths:
        for end in range(1, len(path)):
            right.setdefault(path[:end], set(supporting)).add(path[end])
    return [(path, frozenset(right[path])) for path in sorted(right)]


def _grown(
    adjacency: Adjacency, seed: str, supporting: Sequence[str], ranking: Sequence[str], options: ListOptions
) -> Iterator[Goal]:
    """Yield a path that grows by the best ranked supporting chunk in reach, with those that are still to be found."""
    rank = {chunk: place for place, chunk in enumerate(ranking)}
    path: tuple[str, ...] = (seed,)
    for _ in range(options.max_hops):
        left = frozenset(supporting) - set(path)
        if not left:
            return
        yield path, left
        within = {node for node, _ in _rows(adjacency, path, ranking, options)} & left
        if not within:
            return
        path = (*path, min(within, key=lambda node: (rank.get(node, len(rank)), node)))


def _rows(
    adjacency: Adjacency, path: tuple[str, ...], ranking: Sequence[str], options: ListOptions
) -> list[tuple[str, int]]:
    """Return (candidate, place in the path from which it is reached), by candidate and then by place.

    As in a walk, what is ranked goes on from every place, whether or not an edge leads to it.
    """
    places = (len(path) - 1,) if options.kind == "paths" else range(len(path))
    rows = {(node, place) for place in places for node in (*adjacency.of(path[place]), *ranking)}
    return sorted(row for row in rows if row[0] not in path)


def _chosen(
    rows: Sequence[tuple[str, int]], right: frozenset[str], path: tuple[str, ...], options: ListOptions
) -> list[tuple[str, int]]:
    """Keep all right rows and at most so many wrong ones: those whose digest with the seed comes first."""
    wrong = [row for row in rows if row[0] not in right]
    drawn = sorted(wrong, key=lambda row: digest(str(options.seed), *path, row[0], str(row[1])))
    left_out = set(drawn[options.negatives :])
    return [row for row in rows if row not in left_out]


_AT_ONCE = 256  # nodes expanded, or texts embedded, by one request


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderInputs:
    """Questions, paths and nodes to encode for some choices, each once; rows of their arrays are places here.

    Attributes:
        questions: their texts.
        paths: ids of the nodes of each.
        nodes: ids of the candidates, ascending.
    """

    questions: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    nodes: tuple[str, ...]


def training_arrays(lists: TrainingLists, graph: Graph) -> tuple[Choices, EncoderInputs]:
    """Return the lists as arrays, and the inputs to encode, to which their rows refer.

    Args:
        lists: as drawn from this graph.
        graph: whose edges give the triples; a candidate that no edge joins has zeros.

    Raises:
        CatenaError: the error of the graph.
    """
    every = lists.lists
    paths = sorted({each.path for each in every})
    nodes = sorted({node for each in every for node in each.candidates})
    place_of_path = {path: place for place, path in enumerate(paths)}
    place_of_node = {node: place for place, node in enumerate(nodes)}
    pairs = [
        (each.path[source], node) for each in every for source, node in zip(each.froms, each.candidates, strict=True)
    ]
    choices = Choices(
        question=np.array([each.question for each in every], dtype=np.int64),
        path=np.array([place_of_path[each.path] for each in every], dtype=np.int64),
        starts=np.cumsum([0, *(len(each.candidates) for each in every)], dtype=np.int64),
        node=np.array([place_of_node[node] for _, node in pairs], dtype=np.int64),
        triples=_triples(pairs, graph),
        positive=np.array([right for each in every for right in each.positive], dtype=np.bool_),
    )
    questions = tuple(question.question for question in lists.questions)
    return choices, EncoderInputs(questions=questions, paths=tuple(paths), nodes=tuple(nodes))


def vectors_of(encoded: EncoderInputs, *, path: PathEncoding = "vectors") -> Step[Vectors]:
    """Return a frozen encoder's vectors: of nodes from the graph, of questions and texts of paths from the embedder.

    Args:
        encoded: of `training_arrays`.
        path: as `PaperScorer.path` will have it.

    Raises:
        CatenaError: the error of the graph or the embedder.
    """
    named = tuple(sorted({*encoded.nodes, *(node for each in encoded.paths for node in each)}))
    (found,) = yield from ask([FetchNodes(chunk_ids=named)])
    if found.ids != named:
        lost = sorted(set(named) - set(found.ids))[:3]
        raise ParameterError("chunks of the training lists", lost, "in the graph from which the lists were drawn")
    row = {node: place for place, node in enumerate(named)}
    queries = yield from _embedded(encoded.questions, "query")
    if path == "vectors":
        means = [unit_vector(found.vectors[[row[node] for node in each]].mean(axis=0)) for each in encoded.paths]
        paths = np.array(means, dtype=np.float32)
    else:
        chunks = yield from _chunks(named)
        paths = yield from _embedded([path_text([chunks[node] for node in each]) for each in encoded.paths])
    if queries.shape[1] != found.vectors.shape[1]:
        sizes = f"{found.vectors.shape[1]}, as the vectors that the graph holds: by the embedder of its library"
        raise ParameterError("length of the questions' vectors", queries.shape[1], sizes)
    return Vectors(queries=queries, paths=paths, nodes=found.vectors[[row[node] for node in encoded.nodes]])


def texts_of(encoded: EncoderInputs) -> Step[Texts]:
    """Return the texts from which an encoder is trained, as the scorer of it will have them encoded.

    Raises:
        CatenaError: the error of the graph.
    """
    chunks = yield from _chunks(tuple(sorted({*encoded.nodes, *(node for each in encoded.paths for node in each)})))
    return Texts(
        queries=encoded.questions,
        paths=tuple(path_text([chunks[node] for node in each]) for each in encoded.paths),
        nodes=tuple(node_text(chunks[node]) for node in encoded.nodes),
    )


def _triples(pairs: Sequence[tuple[str, str]], graph: Graph) -> NDArray[np.float32]:
    """Return the triple of the edge of each pair of ids, shape (pairs, 3)."""
    sources = sorted({source for source, _ in pairs})
    edges: dict[tuple[str, str], NDArray[np.float32]] = {}
    wanted = set(pairs)
    for start in range(0, len(sources), _AT_ONCE):
        found = graph.expand(Expand(chunk_ids=tuple(sources[start : start + _AT_ONCE])))
        columns = [found.kinds.index(kind) if kind in found.kinds else -1 for kind in KINDS]
        padded = np.pad(found.weights, ((0, 0), (0, 1)))  # the last column is for kinds that it does not have
        for edge, (source, target) in enumerate(zip(found.source.tolist(), found.target.tolist(), strict=True)):
            pair = (found.sources[source], found.nodes.ids[target])
            if pair in wanted:
                edges[pair] = padded[edge, columns]
    none = np.zeros(len(KINDS), dtype=np.float32)
    return np.array([edges.get(pair, none) for pair in pairs], dtype=np.float32).reshape(len(pairs), len(KINDS))


def _embedded(texts: Sequence[str], kind: Literal["query", "document"] = "document") -> Step[NDArray[np.float32]]:
    batches = [tuple(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)]
    replies = yield from ask([Embed(texts=batch, kind=kind) for batch in batches])
    return np.concatenate([np.asarray(reply, dtype=np.float32) for reply in replies])


def _chunks(ids: tuple[str, ...]) -> Step[dict[str, Chunk]]:
    chunks = yield from chunks_known(ids)
    if len(chunks) < len(ids):
        lost = [name for name in ids if name not in chunks][:3]
        raise ParameterError("chunks of the training lists", lost, "in the graph from which the lists were drawn")
    return chunks
