"""Sizes on the command line: `--size NAME=NUMBER`."""

from __future__ import annotations

from collections.abc import Sequence

import typer


def sizes_of(given: Sequence[str], known: Sequence[str]) -> dict[str, int]:
    """Return "NAME=NUMBER" pairs as keyword arguments.

    Raises:
        typer.BadParameter: a pair is not of that form, or its name is not known.
    """
    sizes: dict[str, int] = {}
    for pair in given:
        name, _, number = pair.partition("=")
        if name not in known or not number.isdecimal():
            raise typer.BadParameter(
                f"{pair!r} is not NAME=NUMBER with one of the names {list(known)}", param_hint="--size"
            )
        sizes[name] = int(number)
    return sizes
