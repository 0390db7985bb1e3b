"""How chains over the graph look in a terminal, as JSON and as pictures: hop by hop, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena.cli.console import err, out
from catena.cli.terminal import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from catena.cli.graph_options import GraphChoices
    from catena.effects.ports import Graph
    from catena.graph.search import GraphResult
    from catena.model import Chain, Edge, Hop

_TITLE = 90  # characters of a question above a picture


def chains_as_json(found: GraphResult) -> dict[str, Any]:
    """Return the keywords of the question and its chains; `came_from` is the number of a hop of its chain, from 1."""
    return {
        "keywords": found.keywords,
        "chains": [[_hop_as_json(at, hop, chain) for at, hop in _numbered(chain)] for chain in found.chains],
    }


def _hop_as_json(number: int, hop: Hop, chain: Chain) -> dict[str, Any]:
    from catena.model.places import citation

    edge = None if hop.edge is None else {"weights": hop.edge.weights, "words": hop.edge.words}
    return {
        "hop": number,
        "chunk": hop.chunk.id,
        "citation": citation(hop.chunk),
        "score": hop.score,
        "came_from": _number_of(hop.came_from, chain),
        "edge": edge,
        "words": hop.words,
    }


def show_chains(question: str, found: GraphResult) -> None:
    """Write the chains hop by hop, and below them what the ranking holds besides."""
    from catena.cli.views import hits

    in_chains = {chunk.id for chain in found.chains for chunk in chain.chunks}
    rest = [hit for hit in found.ranking.hits if hit.chunk.id not in in_chains]
    for number, chain in enumerate(found.chains, start=1):
        if len(found.chains) > 1:
            out().print(f"Chain {number}", style="bold")
        out().print(_chain(question, chain))
    if rest and found.chains:
        out().print("Of the first ranking, on no chain", style="bold")
    if rest:
        out().print(hits(rest, question))


def _chain(question: str, chain: Chain) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    from catena.cli.views import cited_as, excerpt, source_of

    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    for number, hop in _numbered(chain):
        lines = Text(cited_as(hop.chunk), style="bold")
        lines.append(f"\n{source_of(hop.chunk)}", style="not bold cyan")
        for why in _reasons(hop, chain):
            lines.append(f"\n{printable(why, one_line=True)}", style="not bold magenta")
        lines.append(f"\n{excerpt(hop.chunk, question)}\n", style="not bold")
        grid.add_row(Text(str(number), style="bold"), f"{hop.score:.3f}", lines)
    return grid


def _reasons(hop: Hop, chain: Chain) -> Iterator[str]:
    """Yield how a hop came about, and what of the question it is the first to say."""
    origin = _number_of(hop.came_from, chain)
    if origin is None:
        yield "from the first ranking"
    else:
        yield f"from {origin} by {_joined(hop.edge)}"
    if hop.words:
        yield f"new of the question: {', '.join(hop.words)}"


def _joined(edge: Edge | None) -> str:
    from catena.plots.graph_view import reasons

    return "no edge any more" if edge is None else "; ".join(reasons(edge))


def _numbered(chain: Chain) -> Iterator[tuple[int, Hop]]:
    return enumerate(chain.hops, start=1)


def _number_of(chunk_id: str, chain: Chain) -> int | None:
    return next((number for number, hop in _numbered(chain) if hop.chunk.id == chunk_id), None)


def draw_chains(question: str, chains: Sequence[Chain], graph: Graph, choices: GraphChoices) -> None:
    """Draw the chains into the files that were asked for; where there are none, say so."""
    from catena.plots.graph import chain_graph
    from catena.plots.graph_strip import chain_strip

    title = question if len(question) <= _TITLE else f"{question[: _TITLE - 1]}…"
    draw: dict[Path, Callable[[Path], object]] = {}
    if choices.picture is not None:
        draw[choices.picture] = lambda path: chain_graph(graph, chains, path, title=title)
    if choices.strip is not None:
        draw[choices.strip] = lambda path: chain_strip(chains, path, title=title)
    for path, drawn in draw.items():
        if chains:
            drawn(path)
        what = printable(str(path), one_line=True)
        err().print(f"written: {what}" if chains else f"not drawn: {what}: there are no chains", soft_wrap=True)
