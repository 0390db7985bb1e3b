"""Let a model answer for `catena ask --model`, and show each quote with its state, and the conflicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from catena.cli.console import err, out, plain, printable, tell
from catena.model import Hit
from catena.model.errors import ServiceError

if TYPE_CHECKING:
    from catena.answering.answers import Answer, Citation, CitedAnswer, SegmentAnswer
    from catena.answering.short_answers import ShortAnswer
    from catena.effects import Services
    from catena.graph.search import GraphResult
    from catena.library import Library
    from catena.model import Ranking, Unknown
    from catena.segments import SegmentHit

STATES = {
    "exact": ("✓ exact", "green"),
    "normalised": ("✓ in other spelling", "green"),
    "near": ("≈ near", "yellow"),
    "altered": ("✗ altered", "red"),
    "elsewhere": ("✗ elsewhere", "red"),
    "missing": ("✗ missing", "red"),
}
"""State of a quote -> its words and its colour."""


def plain_answer(services: Services, question: str, ranking: Ranking) -> tuple[Answer | None, str | None]:
    """Return an answer without quotes and no problem, or no answer and the problem."""
    from catena.answering.answers import answer
    from catena.effects import run

    try:
        with err().status("the model is writing …"):
            return run(answer(question, ranking.hits, nowhere=ranking.unknown), services), None
    except ServiceError as error:
        return None, str(error)


def short_answer(services: Services, question: str, found: GraphResult) -> tuple[ShortAnswer | None, str | None]:
    """Return an answer of a few words from what was found and no problem, or no answer and the problem.

    Chunks of the ranking that are on no chain are read behind the chains.
    """
    from catena.answering.short_answers import chain_answer
    from catena.effects import run

    walked_to = {chunk.id for chain in found.chains for chunk in chain.chunks}
    rest = [hit for hit in found.ranking.hits if hit.chunk.id not in walked_to]
    try:
        with err().status("the model is writing …"):
            return run(chain_answer(question, [*found.chains, *rest]), services), None
    except ServiceError as error:
        return None, str(error)


def quoted_answer(
    services: Services,
    question: str,
    found: Sequence[Hit] | Sequence[SegmentHit],
    library: Library,
    *,
    nowhere: Sequence[Unknown],
    budget_tokens: int | None,
) -> tuple[SegmentAnswer | None, str | None]:
    """Return an answer each of whose quotes is looked up and no problem, or no answer and the problem.

    Args:
        services: who writes.
        question: as typed.
        found: what to answer from, best first.
        library: that holds their documents, in which a quote's page is looked up.
        nowhere: names in the question that stand nowhere.
        budget_tokens: of all that the model reads; None for no limit.
    """
    from catena.answering.answers import AnswerOptions, answer_from
    from catena.effects import run

    names = [hit.chunk.document_id if isinstance(hit, Hit) else hit.segment.document_id for hit in found]
    documents = [library.get(name).document for name in dict.fromkeys(names)]
    options = AnswerOptions(budget_tokens=budget_tokens)
    try:
        with err().status("the model is writing …"):
            step = answer_from(question, found, options, nowhere=nowhere, documents=documents)
            written = run(step, services)
    except ServiceError as error:
        return None, str(error)
    return (written, None) if written.answer is not None else (None, f"nothing fits into {budget_tokens} tokens")


def answer_as_json(written: SegmentAnswer) -> dict[str, Any]:
    """Return an answer with every quote and statement, the passages it was made from, and the conflicts of these."""
    from catena.model.places import citation

    answer = written.answer
    told = None if answer is None else _answer_as_data(answer)
    passages = [
        {
            "number": passage.number,
            "citation": passage.citation,
            "value": passage.value,
            "is_cut": passage.is_cut,
            "segment": passage.segment,
            "also": passage.also,
        }
        for passage in written.context.passages
    ]
    return {
        "answer": told,
        "passages": passages,
        "conflicts": [{**plain(conflict), "note": conflict.note} for conflict in written.conflicts],
        "context_tokens": written.context.tokens,
        "left_out": [
            {"citation": citation(left.segment), "reason": left.reason} for left in written.context.left_out
        ],
    }


def _answer_as_data(answer: CitedAnswer) -> dict[str, Any]:
    made: dict[str, Any] = plain(answer)
    for citation, quoted in zip(answer.citations, made["citations"], strict=True):
        quoted["verified"] = citation.quote.verified
    return {**made, "unsupported": [each.text for each in answer.unsupported], "coverage": answer.coverage}


def show_plain(answer: Answer) -> None:
    """Write an answer without quotes, and on stderr what is wrong with its citations."""
    from rich.text import Text

    out().print(Text(printable(answer.text) + "\n"))
    _tell_citations(answer.cited, answer.unknown)


def show_quoted(written: SegmentAnswer, question: str, figures: Mapping[str, str]) -> None:
    """Write an answer, its quotes and what became of them, conflicts, and the passages; what is unproved on stderr.

    Args:
        written: with an answer.
        question: decides which part of each passage is shown.
        figures: where the figure of a chunk is, by its id.
    """
    from rich.text import Text

    from catena.cli.rendering import passages

    answer = written.answer
    if answer is None:
        return
    out().print(Text(printable(answer.text) + "\n"))
    for citation in answer.citations:
        out().print(_quote(citation))
    if answer.citations:
        out().print()
    for conflict in written.conflicts:
        note = Text(printable(conflict.note, one_line=True), style="dim" if conflict.expected else "bold yellow")
        out().print(note)
    if written.conflicts:
        out().print()
    _tell_citations(answer.cited, answer.unknown)
    for statement in answer.unsupported:
        tell(f"{statement.verdict}: {statement.text}")
    for statement in answer.statements:
        if statement.unfounded:
            tell(f"not in what is cited: {', '.join(statement.unfounded)} ({statement.text})")
    shown = [Hit(passage.segment.as_chunk(), passage.value) for passage in written.context.passages]
    pictured = {
        passage.segment.id: figures[chunk]
        for passage in written.context.passages
        for chunk in reversed(passage.segment.chunk_ids)
        if chunk in figures
    }
    out().print(passages(shown, question, answer.cited, figures=pictured))


def _quote(citation: Citation) -> Any:
    """Return a quote with its state and its place; of one that is not as printed, what is printed there."""
    from rich.text import Text

    quote = citation.quote
    state, colour = STATES[quote.state]
    marker = f"[{quote.number}]" if quote.number else "[?]"
    line = Text.assemble((f"{marker} ", "bold"), f"“{printable(quote.text, one_line=True)}” ", (state, colour))
    if citation.source:
        line.append(f"\n    {printable(citation.source, one_line=True)}", style="cyan")
    if quote.printed and not quote.verified:
        line.append(f"\n    printed: “{printable(quote.printed, one_line=True)}”", style="dim")
    return line


def _tell_citations(cited: Sequence[int], unknown: Sequence[int]) -> None:
    if unknown:
        numbers = ", ".join(map(str, unknown))
        tell(f"taken out of the answer: citations of passages that do not exist ({numbers})")
    if not cited:
        tell("the answer cites no passage: do not rely on it")
