"""Walk over the chunk-interaction graph: from a first ranking to chains of chunks, each hop with its reason.

`walk` finds the seeds, runs one of three strategies (`best_first`, `paper_walk`, `beam`), and describes the result.
What a walk can reach next, and how it is scored, is in `catena.graph.frontier`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.effects.steps import DescribeEdges, FetchNodes, FindCovering, Step, ask, ask_if_known
from catena.graph.frontier import (
    Allows,
    FirstRanking,
    TokenBudget,
    VisitedNode,
    WalkContext,
    concatenated,
    empty_frontier,
    extended,
    neighbours,
    path_of,
    pool_frontier,
    scored,
    takeable,
)
from catena.graph.options import Strategy, WalkOptions
from catena.graph.scoring import FeatureScorer, Scorer, SimilarityScorer, WalkQuestion, idf_of
from catena.model import Chain, Chunk, Edge, Hit, Hop, Provenance, Ranking, Scale
from catena.model.errors import ParameterError
from catena.model.neighbourhood import Neighbourhood, Nodes
from catena.text.words import tokenise, word_keys

Path: TypeAlias = tuple[VisitedNode, ...]
_LOOKED_THROUGH = 50  # nodes that cover the most, where a filter or a budget may refuse the best of them
ROUTE = "graph"
"""The route of a chunk that a walk visited, in its provenance: its place in the walk, and its score there."""


@dataclass(frozen=True, slots=True)
class WalkResult:
    """The ranking and the chains of a walk.

    Attributes:
        ranking: the visited chunks, in order, then the rest of the first ranking, or both by how sure they are (see
            `walk`); in `Scale.RANK`, score `1 / place`. A visited chunk has a provenance of route "graph": its place
            in the walk and its score, in the unit of the scorer.
        chains: from each seed on, hop by hop; together they hold the visited chunks.
    """

    ranking: Ranking
    chains: tuple[Chain, ...]


@dataclass(frozen=True, slots=True)
class WalkPaths:
    """The visited nodes in the order of the result, and the paths that become chains; both hold the same nodes."""

    order: Path
    paths: tuple[Path, ...]


def walk(
    question: WalkQuestion,
    ranking: Ranking,
    options: WalkOptions | None = None,
    scorer: Scorer | None = None,
    *,
    k: int = 10,
    allows: Allows | None = None,
) -> Step[WalkResult]:
    """Walk over the graph from a first ranking; return the chunks found, with the reason for each hop.

    Where `options.keep_sure`, what the first ranking is sure of keeps its place. A hit is as sure as
    `lexical^2 * covered`: its score by the lexical route over the best one there (1 where no hit has one), and the
    share of the question's words, by rarity, that its document's hits hold together; at least as sure as those behind
    it, and the first surer than any hop. A hop is as sure as its chance against all other candidates, and no surer
    than the hops before it. The surest come first, of equals the hit.

    Args:
        question: as `catena.graph.scoring.pose` gives it; with keywords where the seeds are sought by them.
        ranking: of any retriever over the graph's chunks; hits that the graph does not have keep their order.
        options: how.
        scorer: of candidates; `SimilarityScorer()` by default.
        k: length of the ranking, >= 0.
        allows: whether a chunk that the graph brings may be returned; a chunk of the first ranking may. All by
            default.

    Returns:
        At most k hits and their chains: no chunk is in a chain that is not in the ranking. Ties go by chunk id, so
        the order in which documents were added changes nothing.

    Raises:
        ParameterError: k is out of range, the question's vector is of another length than the nodes', or the scorer
            gives no scores.
        CatenaError: the error of the graph, or of a model that the scorer asks.
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 0:
        raise ParameterError("k", k, "an integer >= 0")
    options = options or WalkOptions()
    first = FirstRanking.of(ranking)
    pool = yield from _pool(first, question.words, options.pool)
    if pool.ids and pool.vectors.shape[1:] != question.vector.shape:
        allowed = f"of shape {pool.vectors.shape[1:]}: by the embedder of the graph's nodes"
        raise ParameterError("vector of the question", question.vector.shape, allowed)
    context = WalkContext(
        question=question,
        first=first,
        pool=pool,
        options=options,
        scorer=scorer or SimilarityScorer(),
        allows=allows,
        limit=min(options.takes, k),
    )
    sure = sureness(context) if _keeps_sure(context) else {}
    if sure:  # a hop is worth its while where it is surer than the last hit that is wanted
        is_bound = len(sure) >= k > 0 and options.budget_tokens is None
        least = sorted(sure.values(), reverse=True)[k - 1] if is_bound else -1.0
        context = replace(context, limit=options.takes, least=least)
    chunks = {chunk_id: hit.chunk for chunk_id, hit in first.hits.items()}
    budget = TokenBudget(None if sure else options.budget_tokens, chunks)
    seeds = yield from find_seeds(context, budget)
    visited = (yield from _STRATEGIES[options.strategy](context, seeds, budget)) if seeds else WalkPaths((), ())
    yield from budget.fetch([node.id for node in visited.order])
    hits = yield from _merged(context, visited.order, sure, k, budget)
    if sure:
        placed = {hit.chunk.id for hit in hits}
        visited = WalkPaths((), _from_roots([node for node in visited.order if node.id in placed]))
    chains = yield from _chains(context, visited, budget)
    return WalkResult(replace(ranking, hits=hits, scale=Scale.RANK), chains)


def _keeps_sure(context: WalkContext) -> bool:
    options = context.options
    if options.keep_sure is not None:
        return options.keep_sure
    return options.fill and options.strategy == "best_first" and isinstance(context.scorer, FeatureScorer)


def _pool(first: FirstRanking, words: tuple[str, ...], size: int) -> Step[Nodes]:
    """Return the top nodes of the first ranking, `size` at most; chunks that the graph does not have are left out."""
    ids = tuple(first.hits)
    top: Nodes
    (top,) = yield from ask([FetchNodes(chunk_ids=ids[:size], words=words)])
    if len(top.ids) < size < len(ids):
        rest: Nodes
        (rest,) = yield from ask([FetchNodes(chunk_ids=ids[size:], words=words)])
        top = concatenated([top, rest.take(np.arange(min(len(rest.ids), size - len(top.ids))))])
    return top


# The seeds, where a walk begins: in the first ranking, or by the paper's greedy cover of the question's keywords.


def find_seeds(context: WalkContext, budget: TokenBudget) -> Step[list[VisitedNode]]:
    """Return the seeds of a walk, distinct, in order, each within the budget; none if no node can be one.

    The score of one "first" is `1 / rank`, of one by keywords the number of keywords that it is the first to cover,
    of one "scored" its score.
    """
    begins, most = context.options.begins, context.options.most_seeds
    found: list[VisitedNode] = []
    if begins in ("first", "both"):
        found = yield from _first(context, budget, most or 1)
    if begins == "scored":
        found = yield from _scored(context, budget, most or 1)
    if begins in ("keywords", "both"):
        found += yield from _greedy_cover(context, budget, found)
    return found or (yield from _first(context, budget, 1))


def _first(context: WalkContext, budget: TokenBudget, most: int) -> Step[list[VisitedNode]]:
    pool = context.pool
    ranked = ((row, 1.0 / context.first.ranks[chunk_id]) for row, chunk_id in enumerate(pool.ids))
    return (yield from _affordable(budget, pool, ranked, min(most, context.limit)))


def _scored(context: WalkContext, budget: TokenBudget, most: int) -> Step[list[VisitedNode]]:
    if not context.pool.ids:
        return []
    frontier = pool_frontier(context)
    scores = yield from scored(context, context.pool.take(np.empty(0, dtype=np.intp)), frontier)
    ranked = ((row, float(scores[row])) for row in frontier.ordered(scores))
    return (yield from _affordable(budget, context.pool, ranked, min(most, context.limit)))


def _affordable(
    budget: TokenBudget, nodes: Nodes, ranked: Iterable[tuple[int, float]], most: int
) -> Step[list[VisitedNode]]:
    """Return the first of (row, score) that fit into the budget."""
    found: list[VisitedNode] = []
    for row, score in ranked:
        if len(found) == most:
            break
        if (yield from budget.pay(nodes.ids[row])):
            found.append(_seed(nodes, row, score))
    return found


def _greedy_cover(
    context: WalkContext, budget: TokenBudget, before: Sequence[VisitedNode]
) -> Step[list[VisitedNode]]:
    """Return the node that covers most of the keywords, then the one that covers most of the rest, and so on.

    Ties go by similarity to the question, then by id. It ends when all keywords are covered or no node covers any
    that is left. A keyword is covered by a node whose text or titles hold all of its words.

    Source: IIER (arXiv 2408.02907), section 3.2, "seed nodes".
    """
    keys = {text: word_keys(text) for text in context.question.keywords}
    words = tuple(dict.fromkeys([*context.question.words, *(word for key in keys.values() for word in key)]))
    columns = len(context.question.words)  # of a seed: the words of its keywords come behind them
    remaining = {text: [words.index(word) for word in key] for text, key in keys.items() if key}
    sure = context.allows is None and context.options.budget_tokens is None and not before
    ids = {seed.id for seed in before}
    most = context.options.most_seeds
    found: list[VisitedNode] = []
    while remaining and (most is None or len(found) < most) and len(before) + len(found) < context.limit:
        nodes: Nodes
        vector, depth = context.question.vector, 1 if sure else _LOOKED_THROUGH
        (nodes,) = yield from ask([FindCovering(terms=tuple(remaining), vector=vector, k=depth, words=words)])
        row = yield from _first_allowed(context, budget, nodes, ids)
        if row is None:
            break
        uncovered = {text: place for text, place in remaining.items() if not nodes.counts[row, place].all()}
        if nodes.ids[row] not in ids:
            ids.add(nodes.ids[row])
            found.append(_seed(nodes, row, float(len(remaining) - len(uncovered)), columns))
        if len(uncovered) == len(remaining):  # a graph that counts words in another way: there is no end to wait for
            break
        remaining = uncovered
    return found


def _first_allowed(context: WalkContext, budget: TokenBudget, nodes: Nodes, known: set[str]) -> Step[int | None]:
    """Return the first row that may be returned and fits into the budget; a seed known before was paid for."""
    allowed = yield from context.allowed(nodes.ids)
    for row, chunk_id in enumerate(nodes.ids):
        if chunk_id in known or (chunk_id in allowed and (yield from budget.pay(chunk_id))):
            return row
    return None


def _seed(nodes: Nodes, row: int, score: float, columns: int | None = None) -> VisitedNode:
    node = nodes.take(np.array([row]))
    if columns is not None:  # the words of the question come first
        node = replace(node, counts=node.counts[:, :columns], in_title=node.in_title[:, :columns])
    return VisitedNode(row=node, score=score, weights={})


# The three strategies: from paid seeds, at least one, to the nodes visited and their paths.


def best_first(context: WalkContext, seeds: Sequence[VisitedNode], budget: TokenBudget) -> Step[WalkPaths]:
    """Visit the best candidate of all, rescored as the path grows, until the walk is long enough or none is left.

    Each of the first `expand` nodes adds rows from itself to its neighbours and to the top of the first ranking; of
    the rows to one candidate the best counts. The path that a scorer sees is all that was visited so far.

    Returns:
        A tree, as its paths from the roots to the leaves: a node hangs on the node whose edge brought it, and one
        that the first ranking offered is a root.
    """
    options, visited = context.options, list(seeds)
    path, depths = path_of(visited), {node.id: 1 for node in visited}
    frontier = empty_frontier(context)
    expanded = 0
    while len(visited) < context.limit:
        for place in range(expanded, min(len(visited), options.expand)):
            last = visited[place].id
            near = yield from neighbours(context, [last])
            follow = depths[last] < options.max_length
            frontier = extended(context, frontier, near, last, place, follow=follow)
            expanded = place + 1
        frontier = frontier.without(depths)
        if not len(frontier):
            break
        scores = yield from scored(context, path, frontier)
        too_long: list[str] = []
        for node in takeable(path, frontier, scores):
            if (yield from budget.pay(node.id)):
                node = replace(node, chance=min(node.chance, visited[-1].chance))  # noqa: PLW2901
                break
            too_long.append(node.id)
        else:
            break
        if node.chance <= context.least:  # nor would what comes after it take a place
            break
        frontier = frontier.without(too_long)
        visited.append(node)
        path = concatenated([path, node.row])
        depths[node.id] = depths.get(node.came_from, 0) + 1
    return WalkPaths(tuple(visited), _from_roots(visited))


def _from_roots(visited: Sequence[VisitedNode]) -> tuple[Path, ...]:
    """Return the paths from each root to its leaves, in the order in which roots, then children were visited."""
    children: dict[str, list[VisitedNode]] = {}
    for node in visited:
        children.setdefault(node.came_from, []).append(node)
    paths: list[Path] = []
    stack: list[Path] = [(root,) for root in reversed(children.get("", []))]
    while stack:
        path = stack.pop()
        below = children.get(path[-1].id, [])
        if not below:
            paths.append(path)
        stack.extend((*path, node) for node in reversed(below))
    return tuple(paths)


def paper_walk(context: WalkContext, seeds: Sequence[VisitedNode], budget: TokenBudget) -> Step[WalkPaths]:
    """Lengthen the path of each seed by the best candidate, until it is long enough or nothing leads on.

    A path does not visit a node twice; two paths may visit the same one, which then counts and costs once. Paths grow
    side by side, so that the result for a small `k` is the beginning of that for a large one.

    Returns:
        One path per seed; the order is by depth: all seeds, then the second nodes of all paths, and so on.

    Source: IIER (arXiv 2408.02907), section 3.2.
    """
    paths: list[Path] = [(seed,) for seed in seeds]
    known = {seed.id for seed in seeds}
    growing = list(range(len(paths)))
    for _ in range(1, context.options.max_length):
        if not growing:
            break
        near = yield from neighbours(context, list(dict.fromkeys(paths[i][-1].id for i in growing)))
        for i in tuple(growing):
            for node in (yield from _continuations(context, near, paths[i])):
                if node.id in known or (len(known) < context.limit and (yield from budget.pay(node.id))):
                    paths[i] = (*paths[i], node)
                    known.add(node.id)
                    break
                if len(known) >= context.limit:
                    growing.remove(i)
                    break
            else:
                growing.remove(i)
    return WalkPaths(_by_depth(paths), tuple(paths))


def beam(context: WalkContext, seeds: Sequence[VisitedNode], budget: TokenBudget) -> Step[WalkPaths]:
    """Lengthen each path by its best candidates, keep the `width` best paths of all, and repeat.

    A path is worth the mean score of its hops, its seed not counted; one that cannot go on stays as it is and
    competes on. Of equals, the one whose beginning was better comes first, then the one whose last id does.

    Returns:
        The paths kept, best first, each cut before the first node that the budget cannot pay for; the order is by
        depth, as of `paper_walk`.
    """
    width = context.options.width

    def best_of(paths: Sequence[Path]) -> list[Path]:
        return sorted(paths, key=_worth, reverse=True)[:width]

    growing: list[Path] = [(seed,) for seed in seeds]
    ended: list[Path] = []
    for _ in range(1, context.options.max_length):
        if not growing:
            break
        near = yield from neighbours(context, list(dict.fromkeys(path[-1].id for path in growing)))
        longer: list[Path] = []
        for path in growing:
            nodes = yield from _continuations(context, near, path)
            longer.extend((*path, node) for node in nodes[:width])
            if not nodes:
                ended.append(path)
        best = best_of([*longer, *ended])
        grown = {id(path) for path in longer}
        growing = [path for path in best if id(path) in grown]
        ended = [path for path in best if id(path) not in grown]
    paths = yield from _within_limits(context, best_of([*growing, *ended]), seeds, budget)
    return WalkPaths(_by_depth(paths), paths)


def _worth(path: Path) -> float:
    """Return the mean score of the hops; -inf for a seed alone."""
    return float(np.mean([node.score for node in path[1:]])) if len(path) > 1 else -np.inf


def _within_limits(
    context: WalkContext, paths: Sequence[Path], seeds: Sequence[VisitedNode], budget: TokenBudget
) -> Step[tuple[Path, ...]]:
    """Return the paths, each cut before the first node, by depth, that there is no room or no budget for."""
    paid = {path[0].id for path in paths}
    for seed in seeds:
        if seed.id not in paid:  # of a path that was not kept
            budget.refund(seed.id)
    kept: dict[str, None] = {}
    lengths = [0] * len(paths)
    for depth in range(max(map(len, paths))):
        for i, path in enumerate(paths):
            if len(path) <= depth or lengths[i] < depth:
                continue
            node = path[depth].id
            room = node in kept or len(kept) < context.limit
            if room and (node in kept or node in paid or (yield from budget.pay(node))):
                kept[node] = None
                lengths[i] += 1
    return tuple(path[:length] for path, length in zip(paths, lengths, strict=True) if length)


def _continuations(context: WalkContext, near: Neighbourhood, path: Path) -> Step[Path]:
    """Return the next nodes that one path may visit, best first.

    Args:
        context: of the walk.
        near: holds the neighbours of the last node.
        path: seed first.
    """
    nodes = path_of(path)
    frontier = empty_frontier(context)
    frontier = extended(context, frontier, near, path[-1].id, len(path) - 1)
    frontier = frontier.without(nodes.ids)
    if not len(frontier):
        return ()
    scores = yield from scored(context, nodes, frontier)
    return tuple(takeable(nodes, frontier, scores))


def _by_depth(paths: Sequence[Path]) -> Path:
    """Return the nodes of all paths, the first of each, then the second of each, and so on; each node once."""
    found: dict[str, VisitedNode] = {}
    for level in zip_longest(*paths):
        for node in level:
            if node is not None:
                found.setdefault(node.id, node)
    return tuple(found.values())


_Strategy: TypeAlias = Callable[[WalkContext, Sequence[VisitedNode], TokenBudget], Step[WalkPaths]]
_STRATEGIES: Mapping[Strategy, _Strategy] = {"best_first": best_first, "paper": paper_walk, "beam": beam}


# The result: chains with the reason for each hop, and the ranking.


def sureness(context: WalkContext) -> dict[str, float]:
    """Return how sure each hit of the first ranking is, by id: see `walk`; those behind the pool are not."""
    first, pool, idf = context.first, context.pool, idf_of(context.question)
    documents = [first.hits[chunk_id].chunk.document_id for chunk_id in pool.ids]
    held: dict[str, NDArray[np.bool_]] = {}
    for document, words in zip(documents, pool.counts > 0, strict=True):
        held[document] = held.get(document, False) | words
    total = float(idf.sum())
    covered = {document: float(words @ idf) / total if total else 1.0 for document, words in held.items()}
    alone = {
        chunk_id: covered[document] * (first.lexical.get(chunk_id, 0.0) ** 2 if first.lexical else 1.0)
        for chunk_id, document in zip(pool.ids, documents, strict=True)
    }
    sure, least = {}, 0.0
    for chunk_id, rank in reversed(first.ranks.items()):
        least = max(least, alone.get(chunk_id, 0.0)) if rank > 1 else np.inf
        sure[chunk_id] = least
    return sure


def _merged(
    context: WalkContext, visited: Path, sure: Mapping[str, float], k: int, budget: TokenBudget
) -> Step[tuple[Hit, ...]]:
    """Return the visited chunks, then the first ranking, or both by how sure they are; k that can be paid for.

    A score is `1 / place`, in `Scale.RANK`: scores of the walk and of the first ranking do not compare. Where `sure`
    says nothing, what was visited is paid for already.
    """
    first = context.first
    order = [*(node.id for node in visited), *(first.hits if context.options.fill else ())]
    if sure:
        ranked = [(-value, 0, first.ranks[chunk_id], chunk_id) for chunk_id, value in sure.items()]
        hops = [(-node.chance, 1, place, node.id) for place, node in enumerate(visited)]
        order, budget.left = [chunk_id for *_, chunk_id in sorted([*ranked, *hops])], context.options.budget_tokens
    ways = {node.id: (Provenance(route=ROUTE, rank=i, score=node.score),) for i, node in enumerate(visited, start=1)}
    hits: list[Hit] = []
    for chunk_id in dict.fromkeys(order):
        if len(hits) >= k:
            break
        is_paid = chunk_id in ways and not sure
        if chunk_id in budget.chunks and (is_paid or (yield from budget.pay(chunk_id))):
            known = first.hits[chunk_id].provenance if chunk_id in first.hits else ()
            hits.append(Hit(budget.chunks[chunk_id], 1.0 / (len(hits) + 1), (*known, *ways.get(chunk_id, ()))))
    return tuple(hits)


def _chains(context: WalkContext, visited: WalkPaths, budget: TokenBudget) -> Step[tuple[Chain, ...]]:
    """Return the chains; a path that visits a chunk which is gone by now ends before it."""
    edges = yield from _edges([node for path in visited.paths for node in path])
    said = _words_as_said(context.question)
    chains = (_chain(path, edges, said, budget.chunks) for path in visited.paths)
    return tuple(chain for chain in chains if chain.hops)


def _edges(nodes: Sequence[VisitedNode]) -> Step[Mapping[tuple[str, str], Edge]]:
    """Return the edges that led to nodes, with the words shared where the graph can say them."""
    taken = {(node.came_from, node.id): node for node in nodes if node.came_from}
    plain = {pair: Edge(weights=dict(sorted(node.weights.items()))) for pair, node in taken.items()}
    if not taken:
        return plain
    described = yield from ask_if_known(DescribeEdges(pairs=tuple(taken)))
    return {pair: edge or plain[pair] for pair, edge in zip(taken, described or plain.values(), strict=True)}


def _chain(
    path: Path, edges: Mapping[tuple[str, str], Edge], said: Sequence[str], chunks: Mapping[str, Chunk]
) -> Chain:
    """Return the hops of a path; each with the words of the question that no hop before it holds."""
    hops: list[Hop] = []
    covered: set[str] = set()
    for node in path:
        if node.id not in chunks:
            break
        held = {word for word, count in zip(said, node.row.counts[0], strict=True) if word and count}
        new = tuple(word for word in said if word in held - covered)
        edge = edges.get((node.came_from, node.id))
        hops.append(Hop(chunk=chunks[node.id], score=node.score, came_from=node.came_from, edge=edge, words=new))
        covered |= held
    return Chain(tuple(hops))


def _words_as_said(question: WalkQuestion) -> list[str]:
    """Return each word of the question as it is written there; "" for one in more than half of the nodes."""
    written: dict[str, str] = {}
    for word, key in zip(tokenise(question.text), word_keys(question.text), strict=True):
        written.setdefault(key, word)
    paired = zip(question.words, question.holding.tolist(), strict=True)
    return [written.get(key, key) if 2 * held <= question.nodes else "" for key, held in paired]
