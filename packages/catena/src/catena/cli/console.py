"""Write data to stdout, progress and notices to stderr, and one JSON value where that is asked for."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console


# What a terminal obeys, or what makes text read in another order than it is written: the controls of C0 (but tab
# and line feed), DEL and C1, then the embeddings, overrides and isolates of bidirectional text.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_BREAKS = re.compile("[\t\n\u2028\u2029]")


def printable(text: str, *, one_line: bool = False) -> str:
    r"""Return a text as a terminal may show it, with escapes such as `\x1b` in place of what would steer it.

    Args:
        text: from outside.
        one_line: whether line breaks and tabs are escaped too, as in a name within a table.
    """
    shown = STEERING.sub(_escape, text.replace("\r\n", "\n"))
    return _BREAKS.sub(_escape, shown) if one_line else shown


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


PIPED_WIDTH = 100  # columns, where no terminal says how wide it is


PLAIN: ContextVar[bool] = ContextVar("PLAIN", default=False)
"""True where a program reads stdout: then no bar is drawn, also where stderr is a terminal."""


def out() -> Console:
    """Return the console for data."""
    return _console(sys.stdout)


def err() -> Console:
    """Return the console for progress, notices and errors."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    class PassingOn(Console):
        """Lets a broken pipe reach the one place that ends commands; rich would exit with code 1."""

        def on_broken_pipe(self) -> None:
            raise  # the BrokenPipeError that is being handled  # noqa: PLE0704

    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPED_WIDTH
    return PassingOn(file=stream, width=width, highlight=False, markup=False, emoji=False)


def tell(text: object, style: str | None = "yellow") -> None:
    """Write one line to stderr; what could steer a terminal is shown, not obeyed."""
    err().print(printable(str(text), one_line=True), style=style, soft_wrap=True)


def tell_written(*files: Path | None) -> None:
    """Say on stderr which files were written."""
    for file in filter(None, files):
        tell(f"written: {file}", style=None)


def write_text(text: str) -> None:
    """Write data to stdout without wrapping or colours: as it is to a file or a program, harmless to a terminal."""
    text = printable(text) if sys.stdout.isatty() else text
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def write_json(value: Any) -> None:
    """Write one JSON value to stdout; what could steer a terminal is escaped, which leaves the value as it is."""
    text = json.dumps(plain(value), ensure_ascii=False, indent=2)
    write_text(STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def picked(value: object, names: str) -> dict[str, Any]:
    """Return attributes of a value by their names, which are given in one text with spaces between."""
    return {name: getattr(value, name) for name in names.split()}


def plain(value: Any) -> Any:
    """Return a value as JSON knows it: dataclasses as objects, tuples as lists, enums by their value."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, PurePath) else value
