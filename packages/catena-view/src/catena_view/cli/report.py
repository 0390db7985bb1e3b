"""`catena report`: one self-contained HTML page about a library and a question."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from catena.cli.console import out, printable, tell, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, check_question, check_targets
from catena.cli.options import (
    AsJson,
    FieldsOf,
    Given,
    LibraryPath,
    QuestionText,
    WhereOption,
    filter_of,
    grouped,
    option,
)
from catena.cli.progress import progress
from catena_view.report import Missing, ReportContents, ReportOptions


@grouped
def report(
    question: QuestionText,
    *,
    library: LibraryPath,
    file: Annotated[Path, option("FILE.html", "Where to write the page.", "--out", "-o")] = Path("report.html"),
    sizes: Annotated[Given, FieldsOf(ReportOptions, k="--k -k", nodes="--nodes", documents="--documents")],
    where: WhereOption = None,
    questions: Annotated[
        Path | None, option("FILE.jsonl", "Measure on these, as `catena evaluate` reads them (extra plots).")
    ] = None,
    fidelity: Annotated[
        list[Path] | None, option("FILE.json", "What `catena parse --fidelity` wrote; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page that shows what a question finds in a library, how, and why; it needs no network.

    The document tree, the ranking with routes and parts of the scores, what chunks are worth and the segments taken,
    the graph with the chains where the library has a graph, and, where they are given, fidelity and measures.
    """
    from catena import Library
    from catena.evaluation import read_questions
    from catena_view.report import read_fidelity
    from catena_view.report import report as make

    if file.suffix.lower() not in (".html", ".htm"):
        raise ProblemError(f"{file.name} does not end in .html", "--out report.html")
    check_question(question)
    check_targets(file, inputs=[questions, *(fidelity or ())])
    options = ReportOptions(**sizes, where=filter_of(where))
    bank = read_questions(questions) if questions is not None else ()
    kept = [report for path in fidelity or () for report in read_fidelity(path)]
    with Library.open(library, create=False) as opened, progress("asking", "questions") as show:
        made = make(
            opened, question, options, name=library.name, questions=bank, fidelity=kept,
            progress=lambda done, total: show(completed=done, total=total),
        )  # fmt: skip
    made.save(file)
    missing = _missing(made.contents)
    told = ("segments", "graph", *(["measures"] if bank else []), *(["fidelity"] if kept else []))
    found = made.contents.ranking
    without = [f"without the {part}: {missing[part]}" for part in told if part in missing]
    for line in (*without, *found.degraded, *(found.unknown if found.hits else ())):
        tell(line)
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


def _missing(contents: ReportContents) -> dict[str, str]:
    """Return part -> why, for the parts that the page cannot show."""
    parts = {
        "segments": contents.segments, "graph": contents.graph, "fidelity": contents.fidelity,
        "measures": contents.studies,
    }  # fmt: skip
    return {name: part.missing for name, part in parts.items() if isinstance(part, Missing)}
