"""`catena ask --graph`: an answer of a few words from chains of passages, and these chains, hop by hop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catena.cli.console import err, out
from catena.cli.graph_building import present
from catena.cli.graph_views import chains_as_json, draw_chains, show_chains
from catena.cli.search_graph import walked
from catena.cli.terminal import printable
from catena.model.errors import ServiceError

if TYPE_CHECKING:
    from catena.answering.short_answers import ShortAnswer
    from catena.cli.graph_options import GraphChoices
    from catena.effects import Services
    from catena.graph.search import GraphResult
    from catena.library import Library


def found_chains(
    opened: Library, question: str, choices: GraphChoices, *, k: int, budget_tokens: int | None
) -> GraphResult:
    """Return the chains for a question, drawn if asked for; a library without a graph gets one.

    Args:
        opened: the library.
        question: as typed.
        choices: walk, scorer and pictures.
        k: length of the ranking.
        budget_tokens: of all its chunks; None for any.
    """
    graph = present(opened)
    found = walked(opened, question, choices, k=k, budget_tokens=budget_tokens)
    draw_chains(question, found.chains, graph, choices)
    return found


def answered(services: Services, question: str, found: GraphResult) -> tuple[ShortAnswer | None, str | None]:
    """Return an answer of a few words from what was found and no problem, or no answer and the problem.

    Chunks of the ranking that are on no chain are read behind the chains.
    """
    from catena.answering.chain_answers import chain_answer
    from catena.effects import run

    walked_to = {chunk.id for chain in found.chains for chunk in chain.chunks}
    rest = [hit for hit in found.ranking.hits if hit.chunk.id not in walked_to]
    try:
        with err().status("the model is writing …"):
            return run(chain_answer(question, [*found.chains, *rest]), services), None
    except ServiceError as error:
        return None, str(error)


def answer_as_json(answer: ShortAnswer | None, found: GraphResult) -> dict[str, Any]:
    """Return the answer and the chains; an answer of None was not asked for, or failed."""
    told = None if answer is None else {"text": answer.text, "answerable": answer.answerable}
    return {"answer": told, **chains_as_json(found)}


def show(question: str, answer: ShortAnswer | None, found: GraphResult) -> None:
    """Write the answer, if there is one, and the chains."""
    if answer is not None:
        out().print(printable(answer.text) + "\n", style="bold")
    show_chains(question, found)
