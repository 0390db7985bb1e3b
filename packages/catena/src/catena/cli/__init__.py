"""Run the `catena` command: data goes to stdout, progress and errors to stderr; an exit code says how it ended."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; see `catena --help`."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a character must not end the work
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        from catena.cli.app import app

        app()
    except KeyboardInterrupt:  # before any command began
        sys.exit(130)
