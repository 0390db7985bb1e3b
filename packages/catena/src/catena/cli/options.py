"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from catena.pipeline import Preparation


class Engine(StrEnum):
    """Who reads PDF."""

    PYPDF = "pypdf"
    PYPDFIUM2 = "pypdfium2"


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
Number: TypeAlias = Annotated[int, typer.Option("--k", "-k", min=1, help="How many passages.")]


def preparation_of(engine: Engine, ruled_tables: bool) -> Preparation:
    """Return how files become chunks, as the options say."""
    from catena.pipeline import Preparation

    return Preparation(engine=engine.value, ruled_tables=ruled_tables)
