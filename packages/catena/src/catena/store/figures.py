"""Figures in a library: pictures as rows beside their documents, and files derived from them on demand."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from catena.model import FOLDER, Entry, Figure, LibraryError, figure_links, figure_prefix, is_figure_name

_PNG = b"\x89PNG\r\n\x1a\n"
_SAID = ("page", "box", "kind", "width", "height", "title", "labels", "caption", "svg")
_COLUMNS = "f.name, f.body, p.png FROM figures f JOIN pictures p USING (digest)"


def insert(connection: sqlite3.Connection, doc: int, figures: Sequence[Figure]) -> None:
    """Write the figures of a document; equal pictures are kept once. The caller owns the transaction."""
    marked = [(picture_digest(figure.png), figure) for figure in figures]
    connection.executemany(
        "INSERT OR IGNORE INTO pictures VALUES (?, ?)", ((digest, figure.png) for digest, figure in marked)
    )
    rows = ((doc, place, figure.name, digest, body(figure)) for place, (digest, figure) in enumerate(marked))
    connection.executemany("INSERT INTO figures VALUES (?, ?, ?, ?, ?)", rows)


def delete(connection: sqlite3.Connection, doc: int) -> None:
    """Remove the figures of a document, and the pictures that no other figure shows."""
    digests = connection.execute("SELECT DISTINCT digest FROM figures WHERE doc = ?", (doc,)).fetchall()
    connection.execute("DELETE FROM figures WHERE doc = ?", (doc,))
    connection.executemany(
        "DELETE FROM pictures WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM figures WHERE digest = ?1)", digests
    )


def read(connection: sqlite3.Connection, doc: int) -> tuple[Figure, ...]:
    """Return the figures of a document, in order."""
    rows = connection.execute(f"SELECT {_COLUMNS} WHERE f.doc = ? ORDER BY f.position", (doc,))
    return tuple(_figure(*row) for row in rows)


def find(connection: sqlite3.Connection, doc: int, name: str | None) -> Figure | None:
    """Return one figure of a document by its file name."""
    row = connection.execute(f"SELECT {_COLUMNS} WHERE f.doc = ? AND f.name = ?", (doc, name)).fetchone()
    return None if row is None else _figure(*row)


def picture_digest(png: bytes) -> str:
    """Return the SHA-256 of a picture's bytes, in hexadecimal."""
    return hashlib.sha256(png).hexdigest()


def body(figure: Figure) -> str:
    """Return what a figure's row says of it, its picture aside."""
    return json.dumps([getattr(figure, name) for name in _SAID][: None if figure.svg else -1])


def _figure(name: str, body: str, png: bytes) -> Figure:
    said = {"svg": "", **dict(zip(_SAID, json.loads(body), strict=False))}  # older libraries have none
    texts = (name, *(said[each] for each in ("kind", "title", "labels", "caption", "svg")))
    x0, top, x1, bottom = said["box"]
    if not all(type(each) is str for each in texts) or type(png) is not bytes:
        raise TypeError(f"figure {name!r} is not as it was written")
    return Figure(name=name, png=png, **{**said, "box": (x0, top, x1, bottom)})


def problems_of_figures(entry: Entry) -> Iterator[str]:
    """Yield what is wrong with the figures of an entry: names, pictures, and their places in the text."""
    names = [figure.name for figure in entry.figures]
    if len(set(names)) < len(names):
        yield "two figures have one name"
    shown = {link.name for link in figure_links(entry.document.text)} if names else set()
    for figure in entry.figures:
        if not is_figure_name(figure.name):
            yield f"the figure name {figure.name!r} is not one of ours"
        elif figure.name not in shown:
            yield f"figure {figure.name!r} stands nowhere in the text"
        if not figure.png.startswith(_PNG):
            yield f"figure {figure.name!r} is no PNG"


def problems_of_pictures(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the pictures whose bytes are not those they were stored as."""
    for digest, png in connection.execute("SELECT digest, png FROM pictures ORDER BY digest"):
        if picture_digest(png) != digest:
            yield f"picture {digest[:16]} was changed"


def write_file(library: Path, figure: Figure) -> Path:
    """Write a figure's picture below the library, where it is not there yet, and return its path.

    Raises:
        LibraryError: the name is not one of ours, or the file cannot be written.
    """
    if not is_figure_name(figure.name):
        raise LibraryError(str(library), f"{figure.name!r} is no name of a figure; nothing was written")
    path = library / FOLDER / figure.name
    try:
        if path.is_file() and not path.is_symlink() and path.read_bytes() == figure.png:
            return path
        path.parent.mkdir(exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".tmp", delete=False) as draft:
            draft.write(figure.png)
        os.replace(draft.name, path)
    except OSError as error:
        what = f"the figure's file cannot be written ({error}); the picture itself is kept"
        raise LibraryError(str(library), what, "Library.figure, which needs no file") from None
    return path


def remove_files(library: Path, document_id: str) -> None:
    """Remove the files derived from a document's figures; they are written anew when asked for."""
    for path in (library / FOLDER).glob(f"{figure_prefix(document_id)}-p*.png"):
        with suppress(OSError):
            path.unlink()
