"""`catena explain-error`: the catalogue of errors, made of what their classes say, read without network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc
from typing import Annotated

import typer

from catena.cli.console import out, write_json
from catena.cli.failures import ProblemError
from catena.cli.options import AsJson
from catena.model.errors import CatenaError
from catena.model.near_names import meant


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One section of the catalogue.

    Attributes:
        name: of the error's class.
        page: where the documentation has the section.
        is_also: the classes by which it can be caught as well, the nearest first.
        when: it happens, in paragraphs.
        kept: what is still there afterwards.
        do_next: in general; a message often knows better.
    """

    name: str
    page: str
    is_also: tuple[str, ...]
    when: str
    kept: str
    do_next: str

    @classmethod
    def of(cls, error: type[CatenaError]) -> Explained:
        """Return what a class says of itself."""
        bases = tuple(base.__name__ for base in error.__mro__[1:] if base not in (object, BaseException, Exception))
        told = cleandoc(error.__doc__ or "").partition("\n\nAttributes:")[0]
        when = "\n\n".join(" ".join(part.split()) for part in told.split("\n\n"))
        return cls(
            name=error.__name__, page=error.page, is_also=bases, when=when, kept=error.kept,
            do_next=error.usual_advice,
        )  # fmt: skip

    def markdown(self) -> str:
        """Return the section as the documentation has it, without its example."""
        also = f"Caught as {', '.join(f'`{name}`' for name in self.is_also)}, too.\n\n" if self.is_also else ""
        return (
            f"## {self.name}\n\n{self.when}\n\n{also}**Kept:** {self.kept}.\n\n"
            f"**What to do:** the message's own advice, if it has one; else {self.do_next}.\n"
        )


def catalogue() -> tuple[Explained, ...]:
    """Return a section for each error of the core: the base first, then by name."""
    errors: list[type[CatenaError]] = [CatenaError, *sorted(_below(CatenaError), key=lambda error: error.__name__)]
    return tuple(Explained.of(error) for error in errors)


def _below(error: type[CatenaError]) -> Iterator[type[CatenaError]]:
    for each in error.__subclasses__():
        if each.__module__ == CatenaError.__module__:
            yield each
            yield from _below(each)


def explain_error(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Of its class, as ParameterError.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say when an error happens, what is kept, and what to do next; without a name, list them all."""
    sections = {section.name: section for section in catalogue()}
    if name is not None and name not in sections:
        raise ProblemError(
            f"there is no error {name!r}{meant(name, sections)}", "catena explain-error, which lists them all"
        )
    if as_json:
        write_json(sections[name] if name is not None else tuple(sections.values()))
    elif name is None:
        _list(tuple(sections.values()))
    else:
        _show(sections[name])


def _list(sections: tuple[Explained, ...]) -> None:
    from catena.cli.views import table

    made = table("Error", "When")
    for section in sections:
        made.add_row(section.name, section.when.partition("\n")[0])
    out().print(made)


def _show(section: Explained) -> None:
    from rich.text import Text

    console = out()
    console.print(Text(section.name, style="bold"))
    console.print(section.when)
    for label, told in (("Kept", section.kept), ("Try", section.do_next)):
        console.print(Text.assemble((f"{label}: ", "bold"), told))
