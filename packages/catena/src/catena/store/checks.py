"""Check entries: before they are written, and again where a library is verified."""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from catena.model import DEFAULT, Entry, LibraryError, ParameterError, ViewVectors
from catena.store import contents as listing
from catena.store import records, schema
from catena.store.figures import problems_of_figures, problems_of_pictures
from catena.store.writing import contents_of
from catena.text.words import normalise_term

if TYPE_CHECKING:
    from numpy.typing import NDArray


_UNIT = 1e-3  # by how much the length of a vector may differ from 1: half precision models round
# What must not be there: rows that belong to nothing, and chunks that lack something.
_IMPOSSIBLE = (
    "typeof({0}) != 'integer' OR {0} NOT BETWEEN {1} AND (SELECT value + 0 FROM meta WHERE name = 'generation')"
)
_RISING = "SELECT generation, max(generation) OVER (ORDER BY chunk) AS newest FROM chunks"  # as their keys do
_ORPHANS = {
    "sections without their document": "sections WHERE doc NOT IN (SELECT doc FROM documents)",
    "chunks without their document": "chunks WHERE doc NOT IN (SELECT doc FROM documents)",
    "views without their chunk": "views WHERE chunk NOT IN (SELECT chunk FROM chunks)",
    "vectors without their chunk": "vectors WHERE chunk NOT IN (SELECT chunk FROM chunks)",
    "terms without their chunk": "terms WHERE chunk NOT IN (SELECT chunk FROM chunks)",
    "chunks without a vector": "chunks WHERE chunk NOT IN (SELECT chunk FROM vectors WHERE kind = '')",
    "figures without their document": "figures WHERE doc NOT IN (SELECT doc FROM documents)",
    "figures without their picture": "figures WHERE digest NOT IN (SELECT digest FROM pictures)",
    "pictures that no figure shows": "pictures WHERE digest NOT IN (SELECT digest FROM figures)",
    "chunks of an impossible generation": f"chunks WHERE {_IMPOSSIBLE.format('generation', 1)}",
    "chunks of an impossible generation, older than the one before": f"({_RISING}) WHERE generation < newest",
    "chunks that moved at an impossible generation": (
        f"chunks WHERE {_IMPOSSIBLE.format('placed', 0)} OR placed BETWEEN 1 AND generation - 1"
    ),  # 0 in a library of an older version
    "removals of an impossible generation": f"removed WHERE {_IMPOSSIBLE.format('generation', 1)}",
    "facts of an unknown name": (
        "meta WHERE name NOT IN ('generation', 'embedder', 'dim') AND name NOT LIKE 'setting %'"
    ),
    "removed chunks that are still there": "chunks WHERE chunk IN (SELECT chunk FROM removed)",
}


def check_entry(
    entry: Entry, vectors: NDArray[np.float32] | ViewVectors, *, embedder: str | None = None, dim: int | None = None
) -> None:
    """Raise `ParameterError` naming the document and the first thing that is wrong with its entry.

    Args:
        entry: what is to be stored.
        vectors: its vectors; as an array one per chunk, shape (chunks, dim), rows of unit length or zero.
        embedder: the model that made the vectors, named where they are wrong.
        dim: how many numbers that model declares for a vector; any where it is not given.
    """
    for problem in (*problems_of(entry), *_of_embedder(vectors, entry, embedder, dim)):
        raise ParameterError(f"entry {entry.document.id!r}", problem, "without contradictions")


def _of_embedder(
    vectors: NDArray[np.float32] | ViewVectors, entry: Entry, embedder: str | None, dim: int | None
) -> Iterator[str]:
    rows = vectors.rows if isinstance(vectors, ViewVectors) else vectors
    if dim is not None and rows.ndim == 2 and rows.shape[1] != dim:
        yield f"the embedder {embedder!r} declares {dim} numbers and gave {rows.shape[1]}"
    found = (
        problems_of_view_vectors(vectors, entry)
        if isinstance(vectors, ViewVectors)
        else problems_of_vectors(vectors, len(entry.chunks))
    )
    for problem in found:
        yield problem if dim is None else f"{problem}; the embedder {embedder!r} declares {dim} numbers of length 1"


def problems_of(entry: Entry) -> Iterator[str]:
    """Yield what is wrong with an entry, vectors aside: spans, texts, references, terms."""
    if not entry.chunks:
        yield "there are no chunks, so nothing could ever be found"
    yield from _section_problems(entry)
    yield from _chunk_problems(entry)
    ids = [chunk.id for chunk in entry.chunks]
    if len(set(ids)) < len(ids):
        yield "two chunks have one id"
    viewed = {view.chunk_id for view in entry.views}
    for stray in sorted(viewed.difference(ids)):
        yield f"a view belongs to chunk {stray!r}, which is not in the entry"
    for unseen in sorted(set(ids) - viewed):
        yield f"chunk {unseen!r} has no view"
    yield from _term_problems(entry)
    yield from problems_of_figures(entry)
    marks = {mark for view in entry.views for mark in (view.kind, view.made)}
    yield from _surrogates((entry.document.id, entry.fingerprint, *ids, *sorted(marks)))


def _surrogates(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if any("\ud800" <= character <= "\udfff" for character in name):
            yield f"the id or kind {name!r} holds a lone surrogate"


def problems_of_view_vectors(vectors: ViewVectors, entry: Entry) -> Iterator[str]:
    """Yield what is wrong with the vectors of one entry: what they belong to, and what `problems_of_vectors` says."""
    n_chunks, n = len(entry.chunks), len(vectors.chunks)
    named = (len(vectors.kinds), len(vectors.digests or vectors.kinds))
    if named != (n, n):
        yield f"there are {n} places, {named[0]} kinds and {named[1]} digests of vectors"
        return
    if strays := [at for at in vectors.chunks if not 0 <= at < n_chunks]:
        yield f"a vector belongs to chunk {strays[0]}, of {n_chunks}"
        return
    rows = frozenset(zip(vectors.chunks, vectors.kinds, strict=True))
    for at in range(n_chunks):
        if (at, DEFAULT) not in rows:
            yield f"chunk {at} has no default vector"
    kinds = {(view.chunk_id, view.kind) for view in entry.views}
    for at, kind in sorted(rows):
        if kind != DEFAULT and (entry.chunks[at].id, kind) not in kinds:
            yield f"chunk {at} has a vector of its view {kind!r}, and no such view"
    yield from _surrogates(sorted(set(vectors.digests)))
    yield from problems_of_vectors(vectors.rows, n)


def problems_of_vectors(vectors: NDArray[np.float32], n: int) -> Iterator[str]:
    """Yield what is wrong with n vectors; a row is of unit length, or zero for "no text"."""
    if vectors.ndim != 2 or len(vectors) != n:
        yield f"vectors have the shape {vectors.shape} for {n} chunks"
    elif not np.isfinite(vectors).all():
        yield "a vector holds NaN or infinity"
    else:
        lengths = np.linalg.norm(vectors, axis=1)
        odd = np.flatnonzero((np.abs(lengths - 1) > _UNIT) & (lengths > 0))
        if len(odd):
            yield f"vector {odd[0]} has length {lengths[odd[0]]:.4f}, neither 1 nor 0"


def _section_problems(entry: Entry) -> Iterator[str]:
    end = 0
    for position, section in enumerate(entry.sections):
        if section.document_id != entry.document.id or section.position != position:
            yield f"section {position} says it is {section.position} of {section.document_id!r}"
        if section.start != end:
            yield f"section {position} begins at {section.start}, the one before ends at {end}"
        end = section.end
    if end != len(entry.document.text):
        yield f"the sections end at {end}, the text at {len(entry.document.text)}"


def _chunk_problems(entry: Entry) -> Iterator[str]:
    text, end, last = entry.document.text, 0, 0
    left_out = frozenset(entry.left_out)
    if wrong := sorted(left_out.intersection(chunk.section for chunk in entry.chunks)):
        yield f"section {wrong[0]} is left out, and has a chunk"
    for position, chunk in enumerate(entry.chunks):
        if chunk.document_id != entry.document.id or chunk.position != position:
            yield f"chunk {position} says it is {chunk.position} of {chunk.document_id!r}"
        if text[chunk.start : chunk.end] != chunk.text:
            yield f"chunk {position} is not the slice [{chunk.start}, {chunk.end}) of the text"
        if not 0 <= chunk.section < max(1, len(entry.sections)):
            yield f"chunk {position} is of section {chunk.section}, of {len(entry.sections)}"
        if chunk.start < last:
            yield f"chunk {position} begins before the one in front of it"
        if chunk.start > end and (lost := _uncovered(entry, left_out, end, chunk.start)):
            yield f"no chunk holds {lost[:40]!r} before chunk {position}"
        end, last = max(end, chunk.end), chunk.start
    if lost := _uncovered(entry, left_out, end, len(text)):
        yield f"no chunk holds {lost[:40]!r} at the end"


def _uncovered(entry: Entry, left_out: Collection[int], start: int, end: int) -> str:
    """Return what is between two chunks, without heading lines (they are in the path), white space and `left_out`."""
    kept: list[str] = []
    first = bisect_right(entry.sections, start, key=lambda section: section.end)
    for at in range(first, len(entry.sections)):
        section = entry.sections[at]
        if section.start >= end:
            break
        if at not in left_out:
            kept.append(entry.document.text[max(start, section.body_start) : min(end, section.end)])
    return "".join(kept).strip()


def _term_problems(entry: Entry) -> Iterator[str]:
    if entry.terms and len(entry.terms) != len(entry.chunks):
        yield f"there are {len(entry.terms)} lists of terms for {len(entry.chunks)} chunks"
    known: Mapping[str, str] = {term: normalise_term(term) for terms in entry.terms for term in terms}
    for term, normal in known.items():
        if not term or term != normal:
            yield f"the term {term!r} is not normalised ({normal!r})"


def problems_of_truth(
    connection: sqlite3.Connection, progress: Callable[[int, int], None] | None = None
) -> Iterator[str]:
    """Yield every broken invariant of the rows, document by document; `progress` is told how many of how many."""
    yield from told("the tables", _of_tables(connection))
    yield from told("the pictures", problems_of_pictures(connection))
    yield from told("the documents", _of_documents(connection, progress))
    yield from told("what the library tells of itself", _of_listings(connection))


def told(what: str, problems: Iterator[str]) -> Iterator[str]:
    """Yield problems, and as the last one that they cannot be looked for, where rows are not what was written."""
    try:
        yield from problems
    except (sqlite3.Error, LibraryError, *records.OF_DAMAGE) as error:
        yield f"{what} cannot be read: {error}"


def _of_tables(connection: sqlite3.Connection) -> Iterator[str]:
    for (result,) in connection.execute("PRAGMA integrity_check"):
        if result != "ok":
            yield f"SQLite: {result}"
    for what, rows in _ORPHANS.items():
        number = connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0]
        if number:
            yield f"{number} {what}"


def _of_listings(connection: sqlite3.Connection) -> Iterator[str]:
    listing.documents(connection)
    records.fields(connection)
    rows = connection.execute("SELECT source, document_id FROM ledger").fetchall()
    said = [(json.dumps(outcome.source), outcome.document_id) for outcome in listing.ledger(connection)]
    if sorted(rows) != sorted(said):
        yield "the ledger is not what was stored"


def _of_documents(connection: sqlite3.Connection, progress: Callable[[int, int], None] | None) -> Iterator[str]:
    dim = schema.number(connection, "dim")
    documents = connection.execute("SELECT doc, id FROM documents ORDER BY id").fetchall()
    for done, (doc, document_id) in enumerate(documents, start=1):
        found = told("its rows", _document(connection, doc, dim))
        yield from (f"document {document_id!r}: {problem}" for problem in found)
        if progress is not None:
            progress(done, len(documents))


def _document(connection: sqlite3.Connection, doc: int, dim: int) -> Iterator[str]:
    try:
        entry, vectors = records.read(connection, doc), records.vectors(connection, doc, dim)
    except sqlite3.DatabaseError as error:
        yield str(error)
        return
    (header,) = connection.execute("SELECT header FROM documents WHERE doc = ?", (doc,)).fetchone()
    if "digest" in records.header_of(header) and header != records.header(entry):  # older libraries have none
        yield "it is not what was stored"
    problems = [*problems_of(entry), *problems_of_view_vectors(vectors, entry)]
    yield from problems
    if not problems:
        stored = connection.execute("SELECT content FROM chunks WHERE doc = ? ORDER BY position", (doc,))
        for position, ((content,), found) in enumerate(zip(stored, contents_of(entry, vectors), strict=True)):
            if content not in ("", found):  # "" in a library of an older version
                yield f"what chunk {position} is found by is not what was stored"
