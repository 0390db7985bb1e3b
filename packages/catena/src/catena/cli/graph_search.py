"""Search for chains of passages over the graph of a library: options, the search, its answer, and how chains look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from catena.cli.console import out, picked, printable, tell, tell_written
from catena.cli.failures import ProblemError, check_targets, refuse, stopped_with
from catena.cli.options import FieldsOf, Given, flag, given_options, option, picture
from catena.cli.progress import progress
from catena.graph.options import GraphOptions, WalkOptions
from catena.model.errors import needs

if TYPE_CHECKING:
    from rich.console import RenderableType

    from catena.answering.short_answers import ShortAnswer
    from catena.effects.ports import Graph
    from catena.graph.chunk_graph import ChunkGraph, GraphProgress
    from catena.graph.scoring import Scorer
    from catena.graph.search import GraphResult
    from catena.library import Library
    from catena.model import Chain, Hop, Where
    from catena.retrieval.fusion import Fusion

SHIPPED, UNTRAINED, SIMILARITY = "shipped", "untrained", "similarity"
_TITLE = 90  # characters of a question above a picture


Edges: TypeAlias = Annotated[
    Given,
    FieldsOf(
        GraphOptions, neighbours="--neighbours", keywords_more_than="--keywords-more-than",
        mentions="--mentions/--no-mentions",
    ),
]  # fmt: skip
"""The edges of a graph that is built: the fields of `GraphOptions` that were given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChoices:
    """The options about chains."""

    graph: Annotated[
        bool, flag("--graph", "Find chains of passages over the graph of the library (`catena graph build`).")
    ] = False
    walk: Annotated[
        Given,
        FieldsOf(
            WalkOptions, only_with="--graph", strategy="--walk", max_length="--max-length", width="--beam-width"
        ),
    ] = field(default_factory=dict)
    scorer: Annotated[
        str | None,
        option(
            f"{SHIPPED}|{UNTRAINED}|{SIMILARITY}|FILE",
            f"With --graph: what scores each hop; FILE is one that `catena graph train` wrote [{SHIPPED}].",
        ),
    ] = None
    picture: Annotated[Path | None, picture("With --graph: draw the chains on the graph")] = None
    strip: Annotated[Path | None, picture("With --graph: draw the chains hop by hop")] = None

    def check(self, others: Mapping[str, object]) -> None:
        """Refuse options that could do nothing, and pictures that could not be drawn.

        Args:
            others: options that a search for chains does not obey, and whether they were given.

        Raises:
            ProblemError: there is one.
            MissingExtraError: a picture is asked for, and catena-view is not installed.
        """
        if not self.graph:
            refuse(dict.fromkeys(given_options(self), True), "{} is about chains over the graph", "--graph with it")
            return
        refuse(others, "--graph obeys no {}", "the same without it")
        if "width" in self.walk and self.walk.get("strategy") != "beam":
            raise ProblemError("--beam-width is of a beam", "--walk beam with it")
        check_targets(pictures=(self.picture, self.strip))

    def scored_by(self, library: Library) -> Scorer | None:
        """Return who scores the hops; None leaves it to the search.

        Args:
            library: whose vectors the scorer is given.

        Raises:
            ParameterError: a file holds no scorer, or one of another embedding model.
        """
        from catena.graph.scoring import FeatureScorer, SimilarityScorer, UntrainedScorer
        from catena.library.training import load_scorer

        if self.scorer is None:
            return None
        shipped: dict[str, Callable[[], Scorer]] = {
            SHIPPED: FeatureScorer.shipped, UNTRAINED: UntrainedScorer, SIMILARITY: SimilarityScorer,
        }  # fmt: skip
        if self.scorer in shipped:
            return shipped[self.scorer]()
        return load_scorer(self.scorer, encoder=library.stats().embedder)


def chains_of(
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
    """Search a library over its graph, and draw what was found where that is asked for.

    Args:
        opened: the library, with a graph.
        question: as typed.
        choices: walk, scorer and pictures.
        k: length of the ranking.
        where: a filter.
        routes: of the first ranking; () for the usual ones.
        fusion: of the routes; None for the usual one.
        budget_tokens: of all chunks; None for any.
    """
    from catena.graph.search import GraphSearch

    walk = WalkOptions(**choices.walk, budget_tokens=budget_tokens)
    how = GraphSearch(walk=walk, scorer=choices.scored_by(opened), routes=routes or None, fusion=fusion)
    found = opened.search_graph(question, how, k=k, where=where)
    _draw(question, found.chains, opened.graph, choices)
    return found


def check_graph(opened: Library, path: Path) -> None:
    """Refuse a library without a graph.

    Raises:
        ProblemError: it has none.
    """
    if not opened.has_graph:
        raise ProblemError(f"library {path} has no graph", f"catena graph build {path}")


@contextmanager
def building(kept: str) -> Iterator[Callable[[GraphProgress], None]]:
    """Show how far the building of a graph is; a stop says what is kept.

    Yields:
        What is told of the progress.

    Raises:
        Exit: it was stopped.
    """
    with stopped_with(kept), progress("building the graph") as show:
        yield lambda step: show(completed=step.done, total=step.total)


def built(library: Library, options: GraphOptions | None = None) -> ChunkGraph:
    """Return the graph of a library, newly built.

    Raises:
        Exit: it was stopped.
    """
    with building("what the library held before is kept") as tell_progress:
        return library.build_graph(options, progress=tell_progress)


def present(library: Library) -> ChunkGraph:
    """Return the graph of a library, brought up to date, or built where there is none."""
    return library.graph if library.has_graph else built(library)


def short_answer_as_json(answer: ShortAnswer | None, found: GraphResult) -> dict[str, Any]:
    """Return the answer and the chains; an answer of None was not asked for, or failed."""
    told = None if answer is None else {"text": answer.text, "answerable": answer.answerable}
    return {"answer": told, **chains_as_json(found)}


def chains_as_json(found: GraphResult) -> dict[str, Any]:
    """Return the keywords of the question and its chains; `came_from` is the number of a hop of its chain, from 1."""
    return {
        "keywords": found.keywords,
        "chains": [[_hop_as_json(at, hop, chain) for at, hop in _numbered(chain)] for chain in found.chains],
    }


def _hop_as_json(number: int, hop: Hop, chain: Chain) -> dict[str, Any]:
    from catena.model.places import citation

    edge = None if hop.edge is None else picked(hop.edge, "weights words")
    told = {"hop": number, "chunk": hop.chunk.id, "citation": citation(hop.chunk), "score": hop.score}
    return {**told, "came_from": _number_of(hop.came_from, chain), "edge": edge, "words": hop.words}


def show_chains(question: str, found: GraphResult) -> None:
    """Write the chains hop by hop, and below them what the ranking holds besides."""
    from catena.cli.rendering import hits

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
    from catena.cli.rendering import cited_lines, excerpt, ranked

    rows = []
    for hop in chain.hops:
        lines = cited_lines(hop.chunk)
        for why in _reasons(hop, chain):
            lines.append(f"\n{printable(why, one_line=True)}", style="not bold magenta")
        rows.append((hop.score, lines.append(f"\n{excerpt(hop.chunk, question)}\n", style="not bold")))
    return ranked(rows)


def _reasons(hop: Hop, chain: Chain) -> Iterator[str]:
    """Yield how a hop came about, and what of the question it is the first to say."""
    from catena.graph.edges import reasons

    origin = _number_of(hop.came_from, chain)
    by = "no edge any more" if hop.edge is None else "; ".join(reasons(hop.edge))
    yield "from the first ranking" if origin is None else f"from {origin} by {by}"
    if hop.words:
        yield f"new of the question: {', '.join(hop.words)}"


def _numbered(chain: Chain) -> Iterator[tuple[int, Hop]]:
    return enumerate(chain.hops, start=1)


def _number_of(chunk_id: str, chain: Chain) -> int | None:
    return next((number for number, hop in _numbered(chain) if hop.chunk.id == chunk_id), None)


def _draw(question: str, chains: Sequence[Chain], graph: Graph, choices: GraphChoices) -> None:
    """Draw the chains into the files that were asked for; where there are none, say so."""
    files = [*filter(None, (choices.picture, choices.strip))]
    if not files or not chains:
        for path in files:
            tell(f"not drawn: {path}: there are no chains", style=None)
        return
    with needs("catena-view"):
        from catena_view import plots

    title = question if len(question) <= _TITLE else f"{question[: _TITLE - 1]}…"
    if choices.picture is not None:
        plots.chain_graph(graph, chains, choices.picture, title=title)
    if choices.strip is not None:
        plots.chain_strip(chains, choices.strip, title=title)
    tell_written(*files)
