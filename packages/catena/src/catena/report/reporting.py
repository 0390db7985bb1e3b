"""From a library and a question to a page: gather, write as JSON, put into the template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from catena.model.errors import EvaluationError, ParameterError
from catena.report.gathering import gather
from catena.report.html import page_of
from catena.report.options import ReportOptions
from catena.report.values import Contents

if TYPE_CHECKING:
    from catena.evaluation.question_bank import BankQuestion
    from catena.plots.fidelity import FidelityReportLike
    from catena.report.sources import ReportLibrary
    from catena.report.studies import Progress


@dataclass(frozen=True, slots=True)
class Report:
    """A page, and the values that it shows."""

    html: str = field(repr=False)
    contents: Contents = field(repr=False)

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
        from html import escape

        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{escape(self.html)}" width="100%" height="800"'
            ' title="Catena report"></iframe>'
        )


def report(
    library: ReportLibrary,
    question: str,
    options: ReportOptions | None = None,
    *,
    name: str = "",
    questions: Sequence[BankQuestion] = (),
    fidelity: Sequence[FidelityReportLike] = (),
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
    contents = gather(
        library, question, options or ReportOptions(), name=name, questions=questions, fidelity=fidelity,
        progress=progress,
    )  # fmt: skip
    return Report(page_of(contents), contents)
