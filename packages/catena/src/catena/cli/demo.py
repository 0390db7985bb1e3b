"""`catena demo`: the real code on real PDFs, against plain vector search."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import out, write_json
from catena.cli.failures import SOME_FAILED, ProblemError
from catena.cli.options import AsJson

if TYPE_CHECKING:
    from catena.cli.comparison import Comparison, Question
    from catena.cli.demo_ways import Indices, Way
    from catena.library import Library
    from catena.model import Outcome, Ranking
    from catena.store.store import LibraryStats

NOWHERE = "What is the tightening torque of the HX220 cover screws?"  # no such product
BOTH = "What is the tightening torque of the cover screws of the HX200 and of the HX210?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one demo computed, and how long it took in seconds.

    Attributes:
        nowhere: what was found for the question `NOWHERE`.
        both: the two best passages for the question `BOTH`.
        ways: what five ways of searching made of the showcase, if there is one.
        indices: the mean Log-Rank Indices of both rankings.
        report: the HTML page about the library and the showcase.
    """

    outcomes: tuple[Outcome, ...]
    holds: LibraryStats
    comparisons: tuple[Comparison, ...]
    nowhere: Ranking
    both: Ranking
    index_seconds: float
    ask_seconds: float
    ways: tuple[Way, ...] = ()
    indices: Indices | None = None
    report: Path | None = None


def demo(
    library: Annotated[
        Path | None,
        typer.Option(
            "--library", "-l", metavar="PATH", help="Keep the library there; the PDFs and the report go beside it."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Index three bundled PDFs, ask what plain vector search gets wrong, and show the difference."""
    if not as_json:
        from catena.cli.demo_report import opening

        out().print(opening())
    with _place(library) as path:
        run = _run(path, report_place(library))
    failed = [outcome for outcome in run.outcomes if outcome.state == "failed"]
    if as_json:
        write_json(_as_json(run))
    else:
        from catena.cli.demo_report import report

        for part in report(run, library):
            out().print(part)
    if failed:
        raise ProblemError("a document of the demo could not be read", "catena doctor", SOME_FAILED)


@contextmanager
def _place(library: Path | None) -> Iterator[Path]:
    """Give a path for the library: the given one, or one that is gone afterwards."""
    if library is not None:
        yield library
        return
    with tempfile.TemporaryDirectory(prefix="catena-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "demo"


def report_place(library: Path | None) -> Path:
    """Return where the report is written: beside the library; in a folder for passing things where none is kept."""
    if library is not None:
        return library.with_name(f"{library.name}-report.html")
    return Path(tempfile.mkdtemp(prefix="catena-demo-")) / "report.html"


def _run(path: Path, page: Path) -> Run:
    """Parse and index the PDFs, ask every question, and write a report about the showcase."""
    from importlib.resources import files

    from catena.cli.comparison import compare, questions_of
    from catena.cli.demo_ways import five_ways, indices
    from catena.cli.library import indexed
    from catena.enrichment.static_embedding import StaticEmbedder
    from catena.library import Library

    bundled = files("catena") / "data" / "demo"
    embedder = StaticEmbedder()
    began = time.monotonic()
    with Library.open(path, embedder=embedder) as library:
        outcomes = indexed(library, [_copied(bundled, path.with_name(f"{path.name}-documents"))])
        ready = time.monotonic()
        comparisons = compare(library, embedder, questions_of(bundled / "questions.json"))
        asked = time.monotonic()
        shown = showcase(comparisons)
        return Run(
            outcomes=outcomes,
            holds=library.stats(),
            comparisons=comparisons,
            index_seconds=ready - began,
            ask_seconds=asked - ready,
            nowhere=library.search(NOWHERE),
            both=library.search(BOTH, k=2),
            ways=() if shown is None else five_ways(library, embedder, shown.question),
            indices=indices(library, comparisons),
            report=_written(library, (shown or comparisons[0]).question, page),
        )


def _written(library: Library, question: Question, page: Path) -> Path:
    """Write the report about a library and a question; return its path."""
    from catena.report import report

    return report(library, question.text, name="the demo's three PDFs").save(page)


def _copied(bundled: Any, folder: Path) -> Path:
    """Copy the PDFs out of the package: documents are named by their place relative to the library."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(bundled.iterdir(), key=lambda file: str(file.name)):
        if file.name.endswith(".pdf"):
            with file.open("rb") as source, (folder / file.name).open("wb") as target:
                shutil.copyfileobj(source, target)
    return folder


def showcase(comparisons: Sequence[Comparison]) -> Comparison | None:
    """Return the first question that Catena answers first while plain vector search does not."""
    return next((each for each in comparisons if each.is_won), None)


def _as_json(run: Run) -> dict[str, Any]:
    from catena.model.places import citation

    shown = showcase(run.comparisons)
    return {
        "documents": [
            {"document": PurePath(o.document_id).name, "state": o.state, "pages": o.pages, "chunks": o.chunks}
            for o in run.outcomes
        ],
        "holds": run.holds,
        "seconds": {"index": round(run.index_seconds, 3), "ask": round(run.ask_seconds, 3)},
        "showcase": None if shown is None else shown.question.text,
        "questions": [_question_as_json(each) for each in run.comparisons],
        "ways": [_way_as_json(each) for each in run.ways],
        "log_rank_index": run.indices,
        "report": None if run.report is None else run.report.as_posix(),
        "nowhere": {"question": NOWHERE, "hits": len(run.nowhere.hits), "unknown": run.nowhere.unknown},
        "both": {"question": BOTH, "first": [citation(hit.chunk) for hit in run.both.hits]},
    }


def _way_as_json(way: Way) -> dict[str, Any]:
    from catena.model.places import citation

    return {
        "way": way.name,
        "returns": way.unit,
        "rank": way.rank,
        "tokens": way.tokens,
        "milliseconds": round(way.milliseconds, 1),
        "first": None if way.first is None else citation(way.first),
        "right": way.is_right,
    }


def _question_as_json(each: Comparison) -> dict[str, Any]:
    from catena.model.places import citation

    best = {"plain": each.plain.hits[0].chunk, "catena": each.catena.hits[0].chunk}
    return {
        "question": each.question.text,
        "answer": each.question.answer,
        "rank": {"plain": each.plain_rank, "catena": each.catena_rank},
        "first": {name: citation(chunk) for name, chunk in best.items()},
    }
