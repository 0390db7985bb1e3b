"""`catena report`: one self-contained HTML page about a library and a question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catena.cli.console import err, out, printable, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, check_question, check_targets
from catena.cli.options import AsJson, LibraryPath, filter_of
from catena.cli.progress import progress

if TYPE_CHECKING:
    from catena_view.report import ReportContents


def report(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you would ask a colleague.")],
    *,
    library: LibraryPath,
    file: Annotated[Path, typer.Option("--out", "-o", metavar="FILE.html", help="Where to write the page.")] = Path(
        "report.html"
    ),
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Hits of the ranking.")] = 10,
    where: Annotated[
        str | None, typer.Option("--where", metavar="JSON", help='A filter, e.g. \'{"page": {"$lte": 20}}\'.')
    ] = None,
    nodes: Annotated[
        int, typer.Option("--nodes", min=1, max=5_000, metavar="N", help="Passages of the graph that are drawn.")
    ] = 500,
    documents: Annotated[
        int, typer.Option("--documents", min=1, metavar="N", help="Documents of the tree, those with hits first.")
    ] = 100,
    questions: Annotated[
        Path | None,
        typer.Option(
            "--questions",
            metavar="FILE.jsonl",
            help="Measure on these, as `catena evaluate` reads them (extra plots).",
        ),
    ] = None,
    fidelity: Annotated[
        list[Path] | None,
        typer.Option(
            "--fidelity", metavar="FILE.json", help="What `catena parse --fidelity` wrote; may be repeated."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page that shows what a question finds in a library, how, and why; it needs no network.

    The document tree, the ranking with routes and parts of the scores, what chunks are worth and the segments taken,
    the graph with the chains where the library has a graph, and, where they are given, fidelity and measures.
    """
    from catena import Library
    from catena.evaluation import read_questions
    from catena_view.report import ReportOptions, read_fidelity
    from catena_view.report import report as make

    if file.suffix.lower() not in (".html", ".htm"):
        raise ProblemError(f"{file.name} does not end in .html", "--out report.html")
    check_question(question)
    check_targets(file, inputs=[questions, *(fidelity or ())])
    options = ReportOptions(k=k, where=filter_of(where), nodes=nodes, documents=documents)
    bank = read_questions(questions) if questions is not None else ()
    kept = [report for path in fidelity or () for report in read_fidelity(path)]
    with Library.open(library, create=False) as opened, progress("asking", "questions") as show:
        tell = lambda done, total: show(completed=done, total=total)  # noqa: E731
        made = make(opened, question, options, name=library.name, questions=bank, fidelity=kept, progress=tell)
    made.save(file)
    missing = _missing(made.contents)
    told = ("segments", "graph", *(["measures"] if bank else []), *(["fidelity"] if kept else []))
    _tell([f"without the {part}: {missing[part]}" for part in told if part in missing])
    found = made.contents.ranking
    _tell([*found.degraded, *(found.unknown if found.hits else ())])
    if as_json:
        write_json({"file": file, "hits": len(found.hits), "missing": missing})
    else:
        size = len(made.html.encode()) / 1e6
        out().print(
            f"written: {printable(str(file), one_line=True)}, {size:.1f} MB; open it in a browser", soft_wrap=True
        )
    if not found.hits:
        what = "; ".join(("nothing was found", *found.unknown))
        raise ProblemError(what, "other words, or `catena status` to see what is there", SOME_FAILED)


def _tell(lines: Sequence[str]) -> None:
    for line in lines:
        err().print(printable(line, one_line=True), style="yellow", soft_wrap=True)


def _missing(contents: ReportContents) -> dict[str, str]:
    """Return part -> why, for the parts that the page cannot show."""
    from catena_view.report import Missing

    parts = {
        "segments": contents.segments, "graph": contents.graph, "fidelity": contents.fidelity,
        "measures": contents.studies,
    }  # fmt: skip
    return {name: part.missing for name, part in parts.items() if isinstance(part, Missing)}
