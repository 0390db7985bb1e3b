"""Run `catena doctor` and `catena explain-error`: check this machine, and explain an error."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from catena import __version__
from catena.cli.console import out, printable, write_json
from catena.cli.examples import EXTRAS
from catena.cli.failures import SOME_FAILED, ProblemError
from catena.cli.options import AsJson
from catena.model import CatenaError, Document, meant, pip_install

State: TypeAlias = Literal["ok", "absent", "failed"]

CORE = ("numpy", "pypdf", "tantivy", "tokenizers")
KEYS = ("OPENAI_API_KEY", "CATENA_API_KEY", "OPENAI_BASE_URL", "CO_API_KEY", "VOYAGE_API_KEY", "CATENA_LIBRARY")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; an optional one may be absent without anything being wrong."""

    kind: str
    name: str
    state: State
    detail: str


def doctor(as_json: AsJson = False) -> None:
    """Check Python, packages, keys, the embedding, the parser and a library; exit code 1 if something fails."""
    checks = tuple(_checks())
    failed = [check for check in checks if check.state == "failed"]
    if as_json:
        write_json({"healthy": not failed, "checks": checks})
    else:
        _show_checks(checks)
    if failed:
        names = ", ".join(check.name for check in failed)
        raise ProblemError(
            f"not working: {names}",
            pip_install("catena-core").replace("install", "install --force-reinstall", 1),
            SOME_FAILED,
        )


def _checks() -> Iterator[Check]:
    yield Check("machine", "catena", "ok", __version__)
    yield Check("machine", "python", "ok", platform.python_version())
    yield Check("machine", "platform", "ok", f"{platform.system()} {platform.machine()}")
    for package in CORE:
        found = _version(package)
        yield Check("package", package, "ok" if found else "failed", found or "not installed")
    for extra, (package, purpose) in EXTRAS.items():
        found = _version(package)
        detail = f"{package} {found}: {purpose}" if found else f"{purpose}: {pip_install(extra)}"
        yield Check("extra", extra, "ok" if found else "absent", detail)
    for name in KEYS:
        yield Check("environment", name, *(("ok", "set") if os.environ.get(name) else ("absent", "not set")))
    yield _tried("embedding", partial(_embedding, "static"))
    if _version("catena-minilm"):
        yield _tried("embedding minilm", partial(_embedding, "minilm"))
    yield _tried("parser process", _parser)
    yield _tried("library", _library)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _tried(name: str, work: Callable[[], str]) -> Check:
    """Do one piece of real work, and say how long it took or what went wrong."""
    began = time.monotonic()
    try:
        detail = work()
    except (CatenaError, OSError, ImportError) as error:
        return Check("work", name, "failed", f"{type(error).__name__}: {error}")
    return Check("work", name, "ok", f"{detail} in {(time.monotonic() - began) * 1000:.0f} ms")


def _embedding(name: str) -> str:
    from catena.backends import embedder_named

    embedder, _ = embedder_named(name)
    embedder.embed_query("a question")
    return f"{embedder.identity.partition(':')[0]} loaded, {embedder.dim} dimensions,"


def _parser() -> str:
    from catena.parsing import parse_bytes

    parsed = parse_bytes(b"<html><body><h1>Title</h1><p>One sentence.</p></body></html>", "page.html")
    return f"a page of {len(parsed.document.text)} characters read by a process of its own"


def _library() -> str:
    from catena.library import Library

    with tempfile.TemporaryDirectory(prefix="catena-doctor-", ignore_cleanup_errors=True) as folder:
        with Library.open(Path(folder) / "library") as library:
            library.add(Document(id="note", text="# Torque\n\nTighten the screws to 2.4 N·m.\n"))
            found, problems = library.search("torque of the screws", k=1), library.verify()
        if not found.hits or problems:
            raise OSError("; ".join(problems) or "what was written was not found")
    return "written, searched and verified in the folder for temporary files"


def _show_checks(checks: tuple[Check, ...]) -> None:
    from rich.text import Text

    from catena.cli.rendering import table

    colours = {"ok": "green", "absent": "dim", "failed": "bold red"}
    made = table("", "What", "State", "Detail")
    shown = ""
    for check in checks:
        made.add_row(
            Text(check.kind if check.kind != shown else "", style="bold"), check.name,
            Text(check.state, style=colours[check.state]), Text(printable(check.detail)),
        )  # fmt: skip
        shown = check.kind
    out().print(made)


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
        _show_error(sections[name])


def _list(sections: tuple[Explained, ...]) -> None:
    from catena.cli.rendering import table

    made = table("Error", "When")
    for section in sections:
        made.add_row(section.name, section.when.partition("\n")[0])
    out().print(made)


def _show_error(section: Explained) -> None:
    from rich.text import Text

    console = out()
    console.print(Text(section.name, style="bold"))
    console.print(section.when)
    for label, told in (("Kept", section.kept), ("Try", section.do_next)):
        console.print(Text.assemble((f"{label}: ", "bold"), told))
