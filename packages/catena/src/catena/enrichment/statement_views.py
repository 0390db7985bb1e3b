"""Make a view of each piece of a financial statement: its kind, and the ratios that are made of its rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import ClassVar

from catena.effects import Step
from catena.enrichment.views import MadeViews
from catena.model import Chunk, ParameterError, digest
from catena.model.places import SEPARATOR
from catena.text import table_rows, word_keys

STATEMENT = "statement"
"""Kind of the view that says which statement a table is a piece of."""

ENOUGH = 3  # labels of a kind that a piece has
_LINE = re.compile(r"\s*+(?P<name>[^\s:<][^:<]*+)(?P<mark>[:<])(?P<labels>.+)")


@dataclass(frozen=True)
class Statements:
    """Makes one view of kind "statement" per piece of a financial statement; asks no model.

    It says "balance sheet", and "quick ratio" where the rows stand in the piece that a quick ratio is made of.

    Attributes:
        glossary: lines in addition to ours (`catena/data/statements.txt`): "kind: label; label", and "ratio, other
            name < label + label; label", which is both rows or that one. A name of ours has these labels instead.
    """

    kind: ClassVar[str] = STATEMENT
    asks_model: ClassVar[bool] = False
    glossary: str = ""

    def __post_init__(self) -> None:
        for line in _lines(self.glossary):
            if not _LINE.fullmatch(line):
                raise ParameterError("glossary", line, "lines such as 'kind: label; label' and 'ratio < label'")

    @cached_property
    def version(self) -> str:
        """The hash of all labels."""
        return digest(repr(self._known))

    @cached_property
    def _known(self) -> Mapping[tuple[str, str], Sequence[Sequence[str]]]:
        """The alternatives of each name, labels that stand in a piece together, by the mark behind the name."""
        ours = files("catena").joinpath("data", "statements.txt").read_text(encoding="utf-8")
        read = map(_LINE.fullmatch, [*_lines(ours), *_lines(self.glossary)])
        return {
            (line["mark"], line["name"].strip()): [
                list(map(_spaced, each.split("+"))) for each in line["labels"].split(";")
            ]
            for line in read
            if line
        }

    def make(self, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
        """Return the view of each chunk: its titles, kinds and ratios; none for other chunks."""
        yield from ()
        return MadeViews(texts=tuple(self._of(chunk, title) for chunk in chunks))

    def _of(self, chunk: Chunk, title: str) -> tuple[str, ...]:
        rows = [_spaced(row[0]) for row in table_rows(chunk.text) if row]
        found = {
            name: sum(all(any(label in row for row in rows) for label in labels) for labels in alternatives)
            for name, alternatives in self._known.items()
        }
        kinds, ratios = (
            [name for (mark, name), count in found.items() if mark == of and count >= enough]
            for of, enough in ((":", ENOUGH), ("<", 1))
        )
        return ("\n".join((SEPARATOR.join((title, *chunk.path)), ", ".join(kinds), ", ".join(ratios))),) * bool(kinds)


def _spaced(label: str) -> str:
    """Return the words of a label between blanks, so that one label can be looked for in another."""
    return " ".join(("", *word_keys(label), ""))


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
