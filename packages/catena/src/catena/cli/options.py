"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from catena.cli.console import err
from catena.cli.failures import ProblemError

if TYPE_CHECKING:
    from catena.library import SegmentSearchOptions
    from catena.library.pipeline import Preparation
    from catena.retrieval.multi_route import OnUnknown


PAGES_A_TIMEOUT = 30  # as the default limits have it: 60 s, and 2 s for each page


class Engine(StrEnum):
    """Who reads PDF."""

    PYPDF = "pypdf"
    PYPDFIUM2 = "pypdfium2"


def file_path(given: str) -> Path:
    """Return the path that is given; Path("") would be the current folder.

    Raises:
        ProblemError: it is empty.
    """
    if not given:
        raise ProblemError("a path is empty", 'a file or a folder; "." is the one you are in')
    return Path(given)


FilePaths: TypeAlias = Annotated[
    list[Path],
    typer.Argument(metavar="PATH…", help="Files, and folders to search for files.", parser=file_path),
]
LibraryPath: TypeAlias = Annotated[
    Path, typer.Option("--library", "-l", metavar="PATH", envvar="CATENA_LIBRARY", help="The library's folder.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Write one JSON value to stdout.")]
Password: TypeAlias = Annotated[
    str | None, typer.Option("--password", envvar="CATENA_PASSWORD", help="Opens encrypted PDFs.")
]
PdfEngine: TypeAlias = Annotated[
    Engine, typer.Option("--engine", help="Who reads PDF; pypdfium2 is faster (extra fast-pdf).")
]
RuledTables: TypeAlias = Annotated[
    bool, typer.Option("--ruled-tables", help="Find tables with drawn borders (slower; extra tables).")
]
ReadingTime: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=0.001, metavar="SECONDS",
        help=f"To read one page, and of a file; each of its pages adds 1/{PAGES_A_TIMEOUT} of it to the file's [60].",
    ),
]  # fmt: skip
ReadingMemory: TypeAlias = Annotated[
    float | None, typer.Option("--memory", min=1, max=1e9, metavar="MB", help="To read one file (on Linux) [1000].")
]
NoHiddenText: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--no-hidden-text", help="Leave out what nobody sees on a PDF's page: white, invisible (OCR, too), off it."
    ),
]
Number: TypeAlias = Annotated[int, typer.Option("--k", "-k", min=1, help="How many passages.")]
EntityNames: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--entity", metavar="NAME", help="A name in the question, besides those found; may be repeated."),
]
KeepNeighbours: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--keep-neighbours", help="Show passages about neighbours of a name that stands nowhere, not nothing."
    ),
]
NoNames: TypeAlias = Annotated[
    bool, typer.Option("--no-names", help="Rank by the whole question; look for no names in it.")
]


class TableText(StrEnum):
    """What the dense route is given of a table."""

    WHOLE = "whole"
    DEFINITION = "definition"


class SegmentationBy(StrEnum):
    """Who divides documents into sections by meaning."""

    EMBEDDING = "embedding"
    LLM = "llm"


class SegmentUnder(StrEnum):
    """What is divided: the whole document, or what is long below its printed headings."""

    HEADINGS = "headings"
    DOCUMENT = "document"


class ContextBy(StrEnum):
    """Who makes titles and summaries."""

    OFFLINE = "offline"
    LLM = "llm"


Figures: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--figures", help="Crop the figures of PDFs and index them, reading with pypdfium2 (extra fast-pdf)."
    ),
]


def names_options(entities: Sequence[str] | None, keep_neighbours: bool, no_names: bool) -> SegmentSearchOptions:
    """Return what `Library.search` and `Library.segments` are told about the names in a question.

    Raises:
        ProblemError: one option leaves nothing to do for another.
    """
    if no_names and (entities or keep_neighbours):
        option = "--entity" if entities else "--keep-neighbours"
        raise ProblemError(f"--no-names looks for no names, and {option} is about them", "one of the two")
    on_unknown: OnUnknown = "keep" if keep_neighbours else "empty"
    return {"by_name": not no_names, "entities": tuple(entities or ()), "on_unknown": on_unknown}


def preparation_of(
    engine: Engine,
    ruled_tables: bool,
    figures: bool = False,
    *,
    hidden_text: bool = True,
    timeout: float | None = None,
    memory: float | None = None,
) -> Preparation:
    """Return how files become chunks, as the options say; figures that cannot be cropped are told of on stderr.

    Args:
        engine: who reads PDF.
        ruled_tables: whether tables with drawn borders are looked for.
        figures: whether figures are cropped.
        hidden_text: whether the text stays that nobody sees on a page of a PDF.
        timeout: in seconds, for one page and, with a share for each page, for one file.
        memory: of the reading process, in megabytes.
    """
    from catena.library.pipeline import Preparation
    from catena.parsing import Limits

    limits = Limits()
    if timeout is not None:
        limits = replace(limits, seconds=timeout, seconds_per_page=timeout / PAGES_A_TIMEOUT)
    if memory is not None:
        limits = replace(limits, memory_bytes=int(memory * 1_000_000))

    if figures and engine is Engine.PYPDF:
        if find_spec("pypdfium2") is not None:
            engine = Engine.PYPDFIUM2
        else:
            err().print("figures are not cropped: pypdfium2 is not installed", style="yellow")
            err().print("Try: pip install 'catena-core[fast-pdf]'", markup=False)
    return Preparation(
        engine=engine.value, ruled_tables=ruled_tables, figures=figures, hidden_text=hidden_text, limits=limits
    )
