"""Where output goes: data to stdout, progress and notices to stderr, one JSON value when that was asked for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TextIO

from catena.cli.terminal import STEERING, printable

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 100  # columns, where no terminal says how wide it is


PLAIN: ContextVar[bool] = ContextVar("PLAIN", default=False)
"""Whether a program reads: then no bar is drawn, also where stderr is a terminal."""


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


def write_text(text: str) -> None:
    """Write data to stdout without wrapping or colours: as it is to a file or a program, harmless to a terminal."""
    text = printable(text) if sys.stdout.isatty() else text
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def write_json(value: Any) -> None:
    """Write one JSON value to stdout; what could steer a terminal is escaped, which leaves the value as it is."""
    text = json.dumps(plain(value), ensure_ascii=False, indent=2)
    write_text(STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


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
