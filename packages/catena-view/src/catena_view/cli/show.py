"""`catena show`: a citation looked up: its words, whether a quote is printed there, and its page with both marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catena import Chunk, Document
from catena.cli.console import out, printable, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, check_targets
from catena.cli.options import AsJson, LibraryPath, Password, option
from catena.model import TITLE, ParameterError, Place

if TYPE_CHECKING:
    from catena.answering import VerifiedQuote
    from catena.store import DocumentInfo

_LINES = re.compile(r", lines? (\d{1,9})(?:-(\d{1,9}))?$")
_COUNTED = re.compile(r"\((\d{1,9})\w\w(?:-(\d{1,9})\w\w)? of the file\)")
_PAGES = re.compile(r", pages? (\d{1,9})(?:-(\d{1,9}))?(?:,|$)")


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
    from catena.model import citation as written
    from catena.parsing import page_picture

    with Library.open(library, create=False) as opened:
        documents = [opened.get(name).document for name in _documents_of(citation, opened.documents())]
    document, cited, found = _fitting(citation, quote, documents)
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
    words = written(cited, title=_by_file(document) if len(documents) > 1 else "", place=place)
    if as_json:
        write_json({"citation": words, "text": text, "state": state or None, "boxes": place.boxes, "file": file})
        return
    told = [text.strip(), f"{words}: {state}" if state else words]
    told += [f"  page {box.page}: {box.x0:g}, {box.top:g}, {box.x1:g}, {box.bottom:g}" for box in place.boxes]
    told += [f"written: {file}, with page {place.boxes[0].page} of the file"] if file is not None else []
    for line in told:
        out().print(printable(line), soft_wrap=True, markup=False, highlight=False)


def _by_file(document: Document | DocumentInfo) -> str:
    """Return the title of one of several documents of this title, with its id."""
    return f"{document.title} ({document.id})"


def _documents_of(citation: str, held: Iterable[DocumentInfo]) -> list[str]:
    """Return the ids of the documents whose title, id or source a citation begins with; the longest name counts."""
    named = [(name, each.id) for each in held for name in (each.title, each.id, each.source, _by_file(each))]
    fitting = [(len(name), found) for name, found in named if name and citation.startswith(name)]
    if not fitting:
        what = f"no document of the library is called what this citation begins with: {citation[:80]!r}"
        raise ProblemError(what, "the citation as it was written, or `catena status`, which names the documents")
    longest = max(fitting)[0]
    return sorted({found for length, found in fitting if length == longest})


def _fitting(
    citation: str, quote: str | None, documents: Sequence[Document]
) -> tuple[Document, Chunk, VerifiedQuote | None]:
    """Return the one document of those called so that has the place cited, and there the quote; and both."""
    fitting, problems = [], []
    for document in documents:
        try:
            cited = _cited(citation, document)
            found = None if quote is None else _looked_up(quote, cited, document)
            fitting.append((document, cited, found))
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


def _cited(citation: str, document: Document) -> Chunk:
    """Return the lines that a citation names, or else its pages, or else the whole document."""
    lines, pages = _LINES.search(citation), _COUNTED.search(citation) or _PAGES.search(citation)
    borders = [0, *accumulate(len(line) + 1 for line in document.text.split("\n"))] if lines else document.page_starts
    start, end = 0, len(document.text)
    if match := lines or pages:
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= first <= last <= len(borders):
            what = f"{document.title or document.id} has no such place: {match[0].strip(', ')}"
            raise ProblemError(what, "the citation as it was written; the file may have been indexed anew since")
        start, end = borders[first - 1], min(end, borders[last] if last < len(borders) else end)
    text, parts, about = document.text[start:end], document.place_of(start, end).parts, {TITLE: document.title}
    return Chunk(id="", document_id=document.id, position=0, start=start, end=end, text=text, metadata=about, **parts)


def _looked_up(quote: str, cited: Chunk, document: Document) -> VerifiedQuote:
    from catena.answering import looked_up

    try:
        return looked_up(quote, cited, documents=[document])
    except ParameterError as error:
        raise ProblemError(f"--quote must be {error.allowed}, got {quote!r}", error.do_next, SOME_FAILED) from None


def _check(document: Document, place: Place) -> None:
    """Refuse to draw what is on no page, or in a file that is not at hand."""
    if not place.boxes:
        what = "it is not known where this is printed: only PDFs have boxes, if this version indexed them"
        raise ProblemError(what, "`catena delete` and `catena index` with the file, where it is a PDF", SOME_FAILED)
    if not Path(document.source).is_file():
        what = f"{document.source} is not where it was when it was indexed"
        raise ProblemError(what, "the same command in the folder in which it was indexed", SOME_FAILED)
