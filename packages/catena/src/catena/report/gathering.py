"""Gathers what a report shows: one search, one extraction and one walk of a library, and the documents they touch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from catena.effects import one_state
from catena.model.errors import CatenaError
from catena.report.fidelity import strips_shown
from catena.report.graph import graph_shown
from catena.report.ranking import best_scores, hits_shown, notice_of
from catena.report.segments import curves_shown
from catena.report.studies import studies_shown
from catena.report.tree import in_order, tree_shown
from catena.report.values import Contents, Curves, GraphShown, Missing, Studies

if TYPE_CHECKING:
    from catena.evaluation.question_bank import BankQuestion
    from catena.model import Entry, Ranking
    from catena.plots.fidelity import FidelityReportLike
    from catena.report.options import ReportOptions
    from catena.report.sources import ReportLibrary
    from catena.report.studies import Progress

T = TypeVar("T")

_NO_QUESTIONS = Missing(
    missing="No questions with known answers were given: nothing is measured.",
    hint="catena report … --questions FILE.jsonl; catena questions writes such a file",
)


def gather(
    library: ReportLibrary,
    question: str,
    options: ReportOptions,
    *,
    name: str = "",
    questions: Sequence[BankQuestion] = (),
    fidelity: Sequence[FidelityReportLike] = (),
    progress: Progress | None = None,
) -> Contents:
    """Ask a library what a report shows; the arguments are those of `catena.report.report`."""
    with one_state(library.services):
        ranking = library.search(question, k=options.k, where=options.where)
        infos = library.documents()
        listed = in_order(infos, ranking)[: options.documents]
        entries = _entries(library, [*(hit.chunk.document_id for hit in ranking.hits), *listed])
        formula = library.formula()
        bests = best_scores(library, question, ranking, options)
        return Contents(
            question=question,
            name=name or "library",
            facts=_facts(library, ranking, len(infos)),
            ranking=hits_shown(
                question, ranking, entries, formula=formula, bests=bests, notice=notice_of(library, question, ranking)
            ),
            tree=tree_shown(infos, listed, entries, ranking),
            segments=_or_missing("Segments", lambda: _curves(library, question, options)),
            graph=_or_missing("The graph", lambda: _graph(library, question, options)),
            fidelity=_or_missing("Fidelity", lambda: strips_shown(fidelity)),
            studies=_or_missing(
                "Questions", lambda: _studies(library, questions, entries.values(), options, progress)
            ),
        )


def _entries(library: ReportLibrary, names: Iterable[str]) -> dict[str, Entry]:
    return {name: library.get(name) for name in dict.fromkeys(names)}


def _or_missing(what: str, made: Callable[[], T]) -> T | Missing:
    """Return what is made, or why it could not be: one part that fails does not cost the others."""
    try:
        return made()
    except CatenaError as error:
        told, _, hint = str(error).rpartition(" Try: ")
        return Missing(missing=f"{what} could not be shown: {told or hint}", hint=hint if told else "")


def _curves(library: ReportLibrary, question: str, options: ReportOptions) -> Curves | Missing:
    return curves_shown(library.segments(question, where=options.where), options.curves)


def _graph(library: ReportLibrary, question: str, options: ReportOptions) -> GraphShown | Missing:
    if not library.has_graph:
        return Missing(
            missing="This library has no chunk-interaction graph: no chain could be walked.",
            hint="catena graph build LIBRARY, or build_graph() in Python",
        )
    found = library.search_graph(question, k=options.k, where=options.where)
    return graph_shown(library.graph, found, options.nodes)


def _studies(
    library: ReportLibrary,
    bank: Sequence[BankQuestion],
    entries: Iterable[Entry],
    options: ReportOptions,
    progress: Progress | None,
) -> Studies | Missing:
    return studies_shown(library, bank, list(entries), options, progress) if bank else _NO_QUESTIONS


def _facts(library: ReportLibrary, ranking: Ranking, documents: int) -> dict[str, str]:
    """Return what the head of the page says of the library and the search."""
    return {
        "documents": f"{documents:,}",
        "chunks": f"{library.stats().chunks:,}",
        "hits": f"{len(ranking.hits):,}",
        "scores": ranking.scale.value,
        "embedder": library.services.embedder.identity if library.services.embedder is not None else "none",
    }
