"""The nearest valid name for a mistyped one: the one place that guesses what a person meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

CUTOFF = 0.6  # share of equal characters, as `difflib` counts it, below which a guess would puzzle more than help
LOOKED_AT = 5_000  # of many names, as those of documents, so many are compared: in some 50 ms
_QUOTED = re.compile(r"'([^'\s]+)'")
_LISTED = re.compile(r"\b(?:one of|some of|among|of) (?P<names>[^;:]+)")


def nearest(given: str, known: Iterable[str]) -> str | None:
    """Return the known name that a mistyped one is nearest to, None where none is near.

    Case, and whether words are joined by "_" or "-", do not count.
    """
    from difflib import get_close_matches

    by_form = {_form(name): name for name in sorted(known)}
    found = get_close_matches(_form(given), by_form, n=1, cutoff=CUTOFF)
    return by_form[found[0]] if found else None


def names_in(allowed: str) -> tuple[str, ...]:
    """Return the names that a domain in words lists: what is quoted in it, or what follows "one of" and the like."""
    quoted = _QUOTED.findall(allowed)
    if quoted:
        return tuple(quoted)
    listed = _LISTED.search(allowed)
    names = re.findall(r"[\w.$-]++", listed["names"]) if listed else ()
    return tuple(name for each in names if (name := each.rstrip(".$-")))


def meant(given: object, known: Iterable[str]) -> str:
    """Return ". Did you mean 'lexical'?" for the first name given that is not known, and near to one; else ""."""
    names = tuple(known)
    several = given if isinstance(given, list | tuple | set | frozenset) else [given]
    typed = [name for name in several if isinstance(name, str) and name and name not in names]
    near = next(filter(None, (nearest(name, names) for name in sorted(typed))), None)
    return f". Did you mean {near!r}?" if near else ""


def some_of(names: Sequence[str], most: int) -> str:
    """Return the first of some names, and that there are more."""
    return ", ".join(names[:most]) + ", …" * (len(names) > most)


def _form(name: str) -> str:
    return name.casefold().replace("_", "-")
