"""The choices that lead a walk from one supporting chunk to another: what is right next, and what else there is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from catena.effects.steps import FetchById
from catena.graph.shortest_paths import Adjacency, shortest_paths
from catena.graph.training import ListOptions, TrainingList, TrainingLists, TrainingQuestion
from catena.model.errors import ParameterError
from catena.model.ids import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from catena.effects.ports import Graph

Goal: TypeAlias = tuple[tuple[str, ...], frozenset[str]]
"""A path, and the ids that are right next."""


def training_lists(
    questions: Sequence[TrainingQuestion],
    graph: Graph,
    options: ListOptions = ListOptions(),  # noqa: B008 - frozen
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
        CatenaError: whatever the graph fails with.

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
        paths = _evidence_paths(adjacency, supporting, options.max_hops)
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
            if any(node in right for node, _ in rows) and any(node not in right for node, _ in rows):
                lists.append(_list(place, path, rows, right))
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


def _evidence_paths(adjacency: Adjacency, supporting: Sequence[str], max_hops: int) -> list[tuple[str, ...]]:
    found = (shortest_paths(adjacency, start, supporting, max_hops) for start in supporting)
    return [path for paths in found for _, path in sorted(paths.items()) if len(path) > 1]


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
    last = len(path) - 1
    places = (last,) if options.kind == "paths" else range(len(path))
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


def _list(
    question: int, path: tuple[str, ...], rows: Sequence[tuple[str, int]], right: frozenset[str]
) -> TrainingList:
    return TrainingList(
        question=question,
        path=path,
        candidates=tuple(node for node, _ in rows),
        froms=tuple(place for _, place in rows),
        positive=tuple(node in right for node, _ in rows),
    )
