"""`catena show`: a citation looked up: its words, whether a quote is printed there, and its page with both marked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catena import Chunk, Document, Entry
from catena.cli.console import out, printable, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, check_targets
from catena.cli.options import AsJson, LibraryPath, Password, option
from catena.model import FILE_IN_CITATION, SEPARATOR, TITLE, ParameterError, Place, Span, told_apart
from catena.model import citation as written
from catena.text import same_words

if TYPE_CHECKING:
    from catena.answering import VerifiedQuote
    from catena.store import DocumentInfo

_LINES = re.compile(r", lines? (\d{1,9})(?:-(\d{1,9}))?$")
_COUNTED = re.compile(r"\((\d{1,9})\w\w(?:-(\d{1,9})\w\w)? of the file\)$")
_UNIT = re.compile(r"pages? ")
_DASH = re.compile(r"-| to ")


def show(
    citation: Annotated[str, typer.Argument(metavar="CITATION", help="As answers and searches write it.")],
    *,
    library: LibraryPath,
    quote: Annotated[str | None, option("WORDS", "Look these words up, and mark them alone.")] = None,
    file: Annotated[
        Path | None, option("FILE.png", "Draw the page, with what is cited marked.", "--out", "-o")
    ] = None,
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """Show what a citation cites: words, printed page, boxes on it; with --quote, whether these words stand there.

    Boxes are given by page, left and top, right and bottom, one for each printed line, in points from the top left
    corner. With --out, the page is drawn with these marked (extra fast-pdf); for that, the file must lie where it lay
    when it was indexed.
    """
    from catena import Library
    from catena.parsing import page_picture

    with Library.open(library, create=False) as opened:
        infos = opened.documents()
        files = told_apart({each.id: (each.title, each.source) for each in infos})
        rest, names = _documents_of(citation, infos, files)
        entries = [opened.get(name) for name in names]
    document, cited, found = _fitting(rest, quote, entries, files)
    place = (found or cited).place
    if file is not None:
        _check(document, place)
        check_targets(file, inputs=[Path(document.source)])
        try:
            file.write_bytes(page_picture(document.source, place.boxes, password=password))
        except OSError as error:
            what = f"{file} cannot be written ({error.strerror})"
            raise ProblemError(what, "--out with a file in a folder of yours") from None
    text, state = (cited.text, "") if found is None else (found.printed, found.state)
    words = written(cited, place=place)
    if as_json:
        write_json({"citation": words, "text": text, "state": state or None, "boxes": place.boxes, "file": file})
        return
    told = [text.strip(), f"{words}: {state}" if state else words]
    told += [f"  page {box.page}: {box.x0:g}, {box.top:g}, {box.x1:g}, {box.bottom:g}" for box in place.boxes]
    told += [f"written: {file}, with page {place.boxes[0].page} of the file"] if file is not None else []
    for line in told:
        out().print(printable(line), soft_wrap=True, markup=False, highlight=False)


def _documents_of(citation: str, held: Sequence[DocumentInfo], files: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return what a citation says behind the longest name of a document, and the ids of those called so.

    Names are titles, with the file or the id behind them or without, ids and sources.
    """
    named = [
        (name, each.id)
        for each in held
        for told in (files.get(each.id), each.id)
        for name in (each.title, each.id, each.source, f"{each.title} ({told})")
    ]
    fitting = [
        (len(name), found) for name, found in named
        if name and (citation == name or citation.startswith((f"{name}, ", f"{name}{SEPARATOR}")))
    ]  # fmt: skip
    if not fitting:
        what = f"no document of the library is called what this citation begins with: {citation[:80]!r}"
        raise ProblemError(what, "the citation as it was written, or `catena status`, which names the documents")
    longest = max(fitting)[0]
    return citation[longest:], sorted({found for length, found in fitting if length == longest})


def _fitting(
    rest: str, quote: str | None, entries: Sequence[Entry], files: Mapping[str, str]
) -> tuple[Document, Chunk, VerifiedQuote | None]:
    """Return the one document of those called so that has the place cited, and there the quote; and both."""
    fitting, problems = [], []
    for entry in entries:
        try:
            cited = _cited(rest, entry)
            if file := files.get(entry.document.id):
                cited = replace(cited, metadata={**cited.metadata, FILE_IN_CITATION: file})
            found = None if quote is None else _looked_up(quote, cited, entry.document)
            fitting.append((entry.document, cited, found))
        except ProblemError as problem:
            problems.append(problem)
    if len(fitting) > 1:
        has = "this place" if quote is None else "these words there"
        what = f"{len(fitting)} documents are called what this citation begins with, and have {has}"
        hint = f"an id in place of the title, such as {fitting[0][0].id!r}"
        raise ProblemError(what, hint if quote else f"{hint}, or --quote with words of it")
    if not fitting:
        raise problems[0]
    return fitting[0]


def _cited(rest: str, entry: Entry) -> Chunk:
    """Return the lines that a citation names, or else its pages or its section, or else the whole document."""
    document, lines = entry.document, _LINES.search(rest)
    borders = [0, *accumulate(len(line) + 1 for line in document.text.split("\n"))]
    span = _between(borders, int(lines[1]), int(lines[2] or lines[1]), document) if lines else _span(rest, entry)
    if span is None:
        what = f"{document.title or document.id} has no such place: {lines[0][2:] if lines else rest.strip(' ,')}"
        raise ProblemError(what, "the citation as it was written; the file may have been indexed anew since")
    return _slice(document, *span)


def _between(borders: Sequence[int], first: int, last: int, document: Document) -> Span | None:
    if not 1 <= first <= last <= len(borders):
        return None
    return borders[first - 1], borders[last] if last < len(borders) else len(document.text)


def _slice(document: Document, start: int, end: int) -> Chunk:
    text, parts, about = document.text[start:end], document.place_of(start, end).parts, {TITLE: document.title}
    return Chunk(id="", document_id=document.id, position=0, start=start, end=end, text=text, metadata=about, **parts)


def _span(rest: str, entry: Entry) -> Span | None:
    """Return what a heading path and pages have in common, None where there is no such place."""
    document, spans = entry.document, {"": (0, len(entry.document.text))}
    for section in entry.sections:
        path = section.path[1:] if same_words("".join(section.path[:1]), document.title) else section.path
        for words in (path, (*path[:-1], f"[{path[-1]}]")) if path else ():  # a title that was made has brackets
            said = SEPARATOR.join(("", *words))
            start, end = spans.get(said, (section.start, section.tree_end))
            spans[said] = min(start, section.start), max(end, section.tree_end)
    for at in (*(comma.start() for comma in re.finditer(", ", rest)), len(rest)):
        head, tail = rest[:at], rest[at + 2 :]
        pages = _pages(tail, document) if tail else (0, len(document.text))
        if head in spans and pages and max(spans[head][0], pages[0]) < min(spans[head][1], pages[1]):
            return max(spans[head][0], pages[0]), min(spans[head][1], pages[1])
    return None


def _pages(said: str, document: Document) -> Span | None:
    """Return where the text of pages is: those so printed, or else of these numbers; slides and sheets by label."""
    if counted := _COUNTED.search(said):
        return _between(document.page_starts, int(counted[1]), int(counted[2] or counted[1]), document)
    named: dict[str, int] = {}
    if unit := _UNIT.match(said):
        said, named = said[unit.end() :], {str(number): number for number, _ in enumerate(document.page_starts, 1)}
    named |= {label: number for number, label in reversed([*enumerate(document.page_labels, 1)]) if label}
    ends = [(said, said), *((said[: dash.start()], said[dash.end() :]) for dash in _DASH.finditer(said))]
    known = [(named[first], named[last]) for first, last in ends if first in named and last in named]
    return _between(document.page_starts, *known[0], document) if known else None


def _looked_up(quote: str, cited: Chunk, document: Document) -> VerifiedQuote:
    """Return the quote as verified in what is cited.

    Raises:
        ProblemError: it does not stand there; where it stands elsewhere in the document, this is told.
    """
    from catena.answering import looked_up

    try:
        return looked_up(quote, cited, documents=[document])
    except ParameterError as error:
        with suppress(ParameterError):
            place = looked_up(quote, _slice(document, 0, len(document.text)), documents=[document]).place
            what = f"--quote stands in {written(cited, place=place)}, not in {written(cited)}"
            raise ProblemError(what, "that place, cited so", SOME_FAILED) from None
        raise ProblemError(f"--quote must be {error.allowed}, got {quote!r}", error.do_next, SOME_FAILED) from None


def _check(document: Document, place: Place) -> None:
    """Refuse to draw what is on no page, or in a file that is not at hand."""
    if not place.boxes:
        what = "it is not known where this is printed: only PDFs have boxes, if this version indexed them"
        raise ProblemError(what, "`catena delete` and `catena index` with the file, where it is a PDF", SOME_FAILED)
    if not Path(document.source).is_file():
        what = f"{document.source} is not where it was when it was indexed"
        raise ProblemError(what, "the same command in the folder in which it was indexed", SOME_FAILED)
