"""`catena server search`: a question to ranked, cited passages of a set on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catena.cli.console import out, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, check_question
from catena.cli.notices import stands_nowhere, tell_degraded, tell_unknown
from catena.cli.option_groups import grouped
from catena.cli.options import AsJson, EntityNames, KeepNeighbours, NoNames, Number, names_options
from catena.cli.search import ranking_as_json
from catena.cli.server_address import Address, connected
from catena.cli.weights import FusionName, FusionOption, RouteOption, Weights, route_names
from catena.cli.where import filter_of

if TYPE_CHECKING:
    from catena.library import SegmentSearchOptions
    from catena.model import Ranking


@grouped
def search(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you would ask a colleague.")],
    *,
    at: Address,
    k: Number = 10,
    route: RouteOption = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="JSON", help='A filter, e.g. \'{"page": {"$lte": 20}}\'.')
    ] = None,
    fusion: FusionOption = FusionName.SCORE,
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="Share of the dense route against the lexical one, 0 to 1.")
    ] = None,
    beta: Annotated[float | None, typer.Option("--beta", help="Weight of the critical terms, 0 or more.")] = None,
    entity: EntityNames = None,
    keep_neighbours: KeepNeighbours = False,
    no_names: NoNames = False,
    section: Annotated[bool, typer.Option("--section", help="Show the whole sections of the passages.")] = False,
    as_json: AsJson = False,
) -> None:
    """Rank the passages of a set for a question, as `catena search` does; the formula runs inside the server."""
    from catena.server.library import ServerLibrary

    check_question(question)
    weights = Weights(routes=route_names(route), fusion=fusion, alpha=alpha, beta=beta)
    weights.check(figures=False, about_names=bool(entity or keep_neighbours or no_names))
    asked: SegmentSearchOptions = {"where": filter_of(where), **names_options(entity, keep_neighbours, no_names)}
    if weights.routes:
        asked["routes"] = weights.routes
    with connected(at) as transport, ServerLibrary.open(transport, at.name, create=False) as opened:
        if chosen := weights.of_routes(opened):
            asked["fusion"] = chosen
        ranking = opened.search(question, k=k, **asked)
        sections = [opened.section(hit) for hit in ranking.hits] if section else None
    tell_degraded(ranking.degraded)
    if ranking.hits:
        tell_unknown(ranking)
    if as_json:
        write_json(ranking_as_json(question, ranking, sections))
    elif ranking.hits:
        from catena.cli.views import hits

        bodies = None if sections is None else [each.text.strip() for each in sections]
        out().print(hits(ranking.hits, question, bodies=bodies))
    if not ranking.hits:
        raise _nothing_found(ranking)


def _nothing_found(ranking: Ranking) -> ProblemError:
    if ranking.unknown:
        return stands_nowhere(ranking)
    return ProblemError(
        "nothing was found", "other words, or `catena server status` to see what is there", SOME_FAILED
    )
