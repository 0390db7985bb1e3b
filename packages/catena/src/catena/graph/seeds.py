"""Where a walk begins: by the paper's greedy cover of the question's keywords, or in the first ranking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from catena.effects.steps import FindCovering, Step, ask
from catena.graph.frontier import Ground, allowed_of, rows_to_pool, scored
from catena.graph.trails import Purse, Taken
from catena.model.neighbourhood import Nodes
from catena.text.words import word_keys

_LOOKED_THROUGH = 50  # nodes that cover the most, where a filter or a budget may refuse the best of them


@dataclass(frozen=True, slots=True)
class _Term:
    """A keyword, and the columns of its words."""

    text: str
    columns: tuple[int, ...]


def find_seeds(ground: Ground, purse: Purse) -> Step[list[Taken]]:
    """Return the seeds of a walk, distinct, in order, each within the budget; none where nothing can be one.

    The score of one "first" is `1 / rank`, of one by keywords the number of keywords that it is the first to cover,
    of one "scored" its score.
    """
    begins, most = ground.options.begins, ground.options.most_seeds
    found: list[Taken] = []
    if begins in ("first", "both"):
        found = yield from _first(ground, purse, most or 1)
    if begins == "scored":
        found = yield from _scored(ground, purse, most or 1)
    if begins in ("keywords", "both"):
        found += yield from _greedy_cover(ground, purse, found)
    return found or (yield from _first(ground, purse, 1))


def _first(ground: Ground, purse: Purse, most: int) -> Step[list[Taken]]:
    pool = ground.pool
    ranked = ((row, 1.0 / ground.first.ranks[chunk_id]) for row, chunk_id in enumerate(pool.ids))
    return (yield from _affordable(purse, pool, ranked, min(most, ground.limit)))


def _scored(ground: Ground, purse: Purse, most: int) -> Step[list[Taken]]:
    if not ground.pool.ids:
        return []
    frontier = yield from rows_to_pool(ground)
    scores = yield from scored(ground, ground.pool.take(np.empty(0, dtype=np.intp)), frontier)
    ranked = ((row, float(scores[row])) for row in frontier.ordered(scores))
    return (yield from _affordable(purse, ground.pool, ranked, min(most, ground.limit)))


def _affordable(purse: Purse, nodes: Nodes, ranked: Iterable[tuple[int, float]], most: int) -> Step[list[Taken]]:
    """Return the first of (row, score) that fit into the budget."""
    found: list[Taken] = []
    for row, score in ranked:
        if len(found) == most:
            break
        if (yield from purse.pay(nodes.ids[row])):
            found.append(_seed(nodes, row, score))
    return found


def _greedy_cover(ground: Ground, purse: Purse, before: Sequence[Taken]) -> Step[list[Taken]]:
    """Return the node that covers most of the keywords, then that which covers most of the rest, and so on.

    Ties go by similarity to the question, then by id. It ends when all keywords are covered or no node covers any
    that is left. A keyword is covered by a node whose text or titles hold all of its words.

    Source: IIER (arXiv 2408.02907), section 3.2, "seed nodes".
    """
    words, remaining = _terms(ground)
    columns = len(ground.question.words)
    sure = ground.allows is None and ground.options.budget_tokens is None and not before
    ids = {seed.id for seed in before}
    most = ground.options.most_seeds
    found: list[Taken] = []
    while remaining and (most is None or len(found) < most) and len(before) + len(found) < ground.limit:
        nodes: Nodes
        (nodes,) = yield from ask(
            [
                FindCovering(
                    terms=tuple(term.text for term in remaining),
                    vector=ground.question.vector,
                    k=1 if sure else _LOOKED_THROUGH,
                    words=words,
                )
            ]
        )
        row = yield from _first_allowed(ground, purse, nodes, ids)
        if row is None:
            break
        uncovered = [term for term in remaining if not nodes.counts[row, list(term.columns)].all()]
        if nodes.ids[row] not in ids:
            ids.add(nodes.ids[row])
            found.append(_seed(nodes, row, float(len(remaining) - len(uncovered)), columns))
        if len(uncovered) == len(remaining):  # a graph that counts words in another way: there is no end to wait for
            break
        remaining = uncovered
    return found


def _first_allowed(ground: Ground, purse: Purse, nodes: Nodes, known: set[str]) -> Step[int | None]:
    """Return the first row that may be returned and fits into the budget; a seed known before was paid for."""
    allowed = frozenset(nodes.ids)
    if ground.allows is not None:
        allowed = yield from allowed_of(ground.allows, ground.first, nodes.ids)
    for row, chunk_id in enumerate(nodes.ids):
        if chunk_id in known or (chunk_id in allowed and (yield from purse.pay(chunk_id))):
            return row
    return None


def _terms(ground: Ground) -> tuple[tuple[str, ...], list[_Term]]:
    """Return the question's words with those of its keywords behind them, and the keywords by columns of these."""
    keys = {text: word_keys(text) for text in ground.question.keywords}
    words = tuple(dict.fromkeys([*ground.question.words, *(word for key in keys.values() for word in key)]))
    places = {word: place for place, word in enumerate(words)}
    return words, [_Term(text, tuple(places[word] for word in key)) for text, key in keys.items() if key]


def _seed(nodes: Nodes, row: int, score: float, columns: int | None = None) -> Taken:
    node = nodes.take(np.array([row]))
    if columns is not None:  # the words of the question come first
        node = replace(node, counts=node.counts[:, :columns], in_title=node.in_title[:, :columns])
    return Taken(node=node, score=score, weights={})
