"""`catena search --graph`: chains of passages over the graph of a library, hop by hop, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from catena.cli.failures import ProblemError
from catena.cli.graph_options import GraphChoices
from catena.cli.graph_views import draw_chains

if TYPE_CHECKING:
    from catena.graph.search import GraphResult
    from catena.library import Library
    from catena.model import Where
    from catena.retrieval.multi_route import Fusion


def found_chains(
    question: str,
    path: Path,
    choices: GraphChoices,
    *,
    k: int,
    where: Where | None,
    routes: Sequence[str],
    fusion: Callable[[Library], Fusion | None],
    budget_tokens: int | None,
) -> GraphResult:
    """Search the library at a path over its graph, and draw what was found.

    Args:
        question: as typed.
        path: of the library.
        choices: walk, scorer and pictures.
        k: length of the ranking.
        where: a filter.
        routes: of the first ranking; () for the usual ones.
        fusion: of the routes, which may depend on the library.
        budget_tokens: of all chunks; None for any.

    Raises:
        ProblemError: the library has no graph.
    """
    from catena.library import Library

    with Library.open(path, create=False) as opened:
        check_graph(opened, path)
        found = walked(opened, question, choices, k=k, where=where, routes=routes, fusion=fusion(opened),
                       budget_tokens=budget_tokens)  # fmt: skip
        draw_chains(question, found.chains, opened.graph, choices)
    return found


def walked(
    opened: Library,
    question: str,
    choices: GraphChoices,
    *,
    k: int,
    where: Where | None = None,
    routes: Sequence[str] = (),
    fusion: Fusion | None = None,
    budget_tokens: int | None = None,
) -> GraphResult:
    """Search an open library over its graph; what is not said is as usual."""
    from catena.graph.search import GraphSearch

    usual = GraphSearch()
    how = GraphSearch(
        walk=choices.options(budget_tokens),
        scorer=choices.scored_by(opened),
        routes=routes or usual.routes,
        fusion=fusion,
    )
    return opened.search_graph(question, how, k=k, where=where)


def check_graph(opened: Library, path: Path) -> None:
    """Refuse a library without a graph.

    Raises:
        ProblemError: it has none.
    """
    if not opened.has_graph:
        raise ProblemError(f"library {path} has no graph", f"catena graph build {path}")
