"""Read and write what all commands of `catena-bench` share: sizes, names, services of a model, figures, errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from catena import CatenaError, Services
from catena.cli.failures import ProblemError
from catena.cli.llm_options import JOURNAL, ModelOptions, stoppable
from catena_bench.figures import Tell

JsonFile = Annotated[Path | None, typer.Option("--json", help="Where to write it; stdout otherwise.")]
OnlyPlan = Annotated[bool, typer.Option("--plan", help="Say what the model would take; ask nothing.")]


def sizes_of(given: Sequence[str], known: Sequence[str]) -> dict[str, int]:
    """Return "NAME=NUMBER" pairs as keyword arguments.

    Raises:
        typer.BadParameter: a pair is not of that form, or its name is not known.
    """
    sizes: dict[str, int] = {}
    for pair in given:
        name, _, number = pair.partition("=")
        if name not in known or not number.isdecimal():
            what = f"{pair!r} is not NAME=NUMBER with one of the names {list(known)}"
            raise typer.BadParameter(what, param_hint="--size")
        sizes[name] = int(number)
    return sizes


def teller(command: str, console: Console) -> Tell:
    """Return a function that prints how far a command is."""
    return lambda message: console.print(f"{command}: {message}", markup=False, highlight=False)


@contextmanager
def errors_told(console: Console) -> Iterator[None]:
    """End the command with exit code 2 and one line on an error of ours."""
    try:
        yield
    except (CatenaError, ProblemError) as error:
        what = f"{error.what}. Try: {error.hint}" if isinstance(error, ProblemError) else str(error)
        console.print(f"error: {what}", markup=False, soft_wrap=True)
        raise typer.Exit(2) from None


@contextmanager
def services_of(llm: str | None, asking: ModelOptions, *, dry: bool) -> Iterator[Services]:
    """Open the services of a run, without a model where none is named; Ctrl-C stops it; a dry one keeps nothing."""
    if llm is None:
        yield Services()
        return
    with ExitStack() as stack:
        if dry and not (asking.journal or JOURNAL).exists():  # without any, equal requests would be counted twice
            asking = replace(asking, journal=Path(stack.enter_context(TemporaryDirectory())) / JOURNAL)
        services = stack.enter_context(asking.services(llm))
        stack.enter_context(stoppable(services.journal) if services.journal is not None else nullcontext())
        yield services


def write_figures(figures: Mapping[str, float | str], path: Path | None) -> None:
    """Write figures as one flat JSON object to a file, or to stdout."""
    text = json.dumps(figures, indent=1, sort_keys=True) + "\n"
    if path is None:
        sys.stdout.write(text)
    else:
        path.write_text(text, encoding="utf-8")
