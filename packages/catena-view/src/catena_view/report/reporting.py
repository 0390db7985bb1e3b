"""Make the report page of a library and a question: ask the library, write its answers as JSON into the template."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources import files
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from annotated_types import Ge, Gt, Le, Lt

from catena import Ranking, __version__
from catena.effects import one_state
from catena.evaluation import BankQuestion
from catena.formatting import FidelityReport
from catena.model import CatenaError, Checked, Doc, EvaluationError, ParameterError, Where
from catena_view.plots.graph import MOST_NODES
from catena_view.report.documents import Progress, curves_shown, in_order, strips_shown, studies_shown, tree_shown
from catena_view.report.graph import graph_shown
from catena_view.report.ranking import hits_shown, notice_of
from catena_view.report.values import GraphShown, Missing, ReportContents

if TYPE_CHECKING:
    from catena.library import BaseLibrary
_SCRIPTS = ("dom.js", "tree.js", "ranking.js", "segments.js", "graph_canvas.js", "graph.js", "studies.js", "page.js")
_ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}  # so that no text can end the script element
T = TypeVar("T")
_NO_QUESTIONS = Missing(
    missing="No questions with known answers were given: nothing is measured.",
    hint="catena report … --questions FILE.jsonl; catena questions writes such a file",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions(Checked):
    """Sizes of a report's parts.

    Attributes:
        where: a filter that the ranking, the segments and the walk obey.
        documents: the rest is counted.
        curves: documents whose chunk values are drawn, >= 1.
        pages: hits that are shown on their pages, >= 0, where the files are at hand and pypdfium2 can draw them.
        nodes: a graph that has more is drawn around the chains.
        depth: length of the rankings that the Log-Rank Index judges, >= 1.
        gamma: growth of the Log-Rank Index, > 0.
    """

    k: Annotated[int, Ge(1), Doc("Hits of the ranking")] = 10
    where: Where | None = None
    documents: Annotated[int, Ge(1), Doc("Documents of the tree, those with hits first")] = 100
    curves: Annotated[int, Ge(1)] = 3
    pages: Annotated[int, Ge(0)] = 3
    nodes: Annotated[int, Ge(1), Le(MOST_NODES), Doc("Passages of the graph that are drawn")] = 500
    depth: Annotated[int, Ge(1)] = 1_000
    gamma: Annotated[float, Gt(0), Lt(inf)] = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """A page, and the values that it shows."""

    html: str = field(repr=False)
    contents: ReportContents = field(repr=False)

    def save(self, path: str | Path) -> Path:
        """Write the page and return its path.

        Raises:
            ParameterError: the path does not end in .html.
            EvaluationError: the file cannot be written.
        """
        target = Path(path)
        if target.suffix.lower() not in (".html", ".htm"):
            raise ParameterError("path", str(path), "a file name that ends in .html")
        try:
            target.write_text(self.html, encoding="utf-8", newline="\n")
        except OSError as error:
            what = f"cannot write {target.name}: {error.strerror or 'not writable'}"
            raise EvaluationError(f"{what}. Try: a folder that exists and can be written to") from error
        return target

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the page in a frame of its own, which can reach nothing around it."""
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{escape(self.html)}" width="100%" height="800"'
            ' title="Catena report"></iframe>'
        )


def report(
    library: BaseLibrary,
    question: str,
    options: ReportOptions | None = None,
    *,
    name: str = "",
    questions: Sequence[BankQuestion] = (),
    fidelity: Sequence[FidelityReport] = (),
    progress: Progress | None = None,
) -> Report:
    """Return one self-contained HTML page about a library and a question.

    It shows the document tree with the hits, the ranking with routes and parts of the scores, what chunks are worth
    along the best documents and the segments taken, the chunk-interaction graph with the chains, the fidelity of
    conversions, and what questions with known answers say of the library. What cannot be shown is said.
    Equal libraries, questions and options give equal pages.

    Args:
        library: open, in a folder or on a server.
        question: as typed.
        options: how much is shown.
        name: of the library on the page.
        questions: a question bank, as `catena.evaluation.question_bank.read_questions` reads it, for measures and
            plots (extra `plots`).
        fidelity: of conversions, from `format_markdown` or `read_fidelity`.
        progress: told of the questions of the bank, (asked, all).

    Raises:
        ParameterError: the question is empty, or `options` is something else.
        FilterError: the filter is malformed.
        RouteError: no route could be asked.
    """
    if not isinstance(question, str) or not question.strip():
        raise ParameterError("question", question, "a text that says something")
    if not isinstance(options, ReportOptions | None):
        raise ParameterError("options", options, "ReportOptions(...) or None")
    how = options or ReportOptions()
    with one_state(library.services):
        ranking = library.search(question, k=how.k, where=how.where)
        infos = library.documents()
        listed = in_order(infos, ranking)[: how.documents]
        names = dict.fromkeys([*(hit.chunk.document_id for hit in ranking.hits), *listed])
        entries = {each: library.get(each) for each in names}
        hits = hits_shown(
            question, ranking, entries, formula=library.formula(),
            notice=notice_of(library, question, ranking), pages=how.pages,
        )  # fmt: skip
        contents = ReportContents(
            question=question,
            name=name or "library",
            facts=_facts(library, ranking, len(infos)),
            ranking=hits,
            tree=tree_shown(infos, listed, entries, ranking),
            segments=_or_missing(
                "Segments", lambda: curves_shown(library.segments(question, where=how.where), how.curves)
            ),
            graph=_or_missing("The graph", lambda: _graph(library, question, how)),
            fidelity=_or_missing("Fidelity", lambda: strips_shown(fidelity)),
            studies=_or_missing(
                "Questions",
                lambda: (
                    studies_shown(library, questions, list(entries.values()), how, progress)
                    if questions
                    else _NO_QUESTIONS
                ),
            ),
        )
    return Report(page_of(contents), contents)


def _or_missing(what: str, made: Callable[[], T]) -> T | Missing:
    """Return what is made, or why it could not be: one part that fails does not cost the others."""
    try:
        return made()
    except CatenaError as error:
        told, _, hint = str(error).rpartition(" Try: ")
        return Missing(missing=f"{what} could not be shown: {told or hint}", hint=hint if told else "")


def _graph(library: BaseLibrary, question: str, options: ReportOptions) -> GraphShown | Missing:
    if not library.has_graph:
        return Missing(
            missing="This library has no chunk-interaction graph: no chain could be walked.",
            hint="catena graph build LIBRARY, or build_graph() in Python",
        )
    found = library.search_graph(question, k=options.k, where=options.where)
    return graph_shown(library.graph, found, options.nodes)


def _facts(library: BaseLibrary, ranking: Ranking, documents: int) -> dict[str, str]:
    """Return what the head of the page says of the library and the search."""
    return {
        "documents": f"{documents:,}",
        "chunks": f"{library.stats().chunks:,}",
        "hits": f"{len(ranking.hits):,}",
        "scores": ranking.scale.value,
        "embedder": library.services.embedder.identity if library.services.embedder is not None else "none",
    }


def page_of(contents: ReportContents) -> str:
    """Return the whole page.

    The policy allows exactly this script and this style, by their hashes, and pictures that are inside the page:
    no address is ever asked, and text of documents can be no script even if it were taken for markup.
    """
    style, script = _read("page.css"), "\n".join(map(_read, _SCRIPTS))
    hashes = (b64encode(sha256(text.encode()).digest()).decode("ascii") for text in (script, style))
    policy = "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; {}"
    title = escape(f"{contents.question} · Catena report")
    places = {
        "policy": policy.format(*hashes, "base-uri 'none'; form-action 'none'"),
        "title": title.encode("ascii", "xmlcharrefreplace").decode("ascii"),  # also a character that no file holds
        "version": escape(__version__),
        "style": style,
        "data": data_of(contents),
        "script": script,
    }
    return "".join(places[part] if number % 2 else part for number, part in enumerate(_read("page.html").split("%%")))


def data_of(contents: ReportContents) -> str:
    """Return the values as JSON in ASCII, without a character that means anything to HTML."""
    text = json.dumps(asdict(contents), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPED)


def _read(name: str) -> str:
    return files("catena_view.report").joinpath("page", name).read_text(encoding="utf-8")
