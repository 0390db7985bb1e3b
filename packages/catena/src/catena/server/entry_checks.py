"""What must hold of an entry before it is written to a server: what a server would refuse, lose or mix up."""

from __future__ import annotations

from collections.abc import Iterator

from catena.model import Entry
from catena.model.errors import ParameterError
from catena.model.vectors import DEFAULT, ViewVectors
from catena.server.layout import IndexLayout

_LONGEST_ID = 512  # bytes, a server's limit
_LONGEST_DOCUMENT_ID = 2_000  # characters: every chunk must be found by it


def check_addition(entry: Entry, vectors: ViewVectors, layout: IndexLayout) -> None:
    """Raise `ParameterError` naming the document and the first thing that is wrong with its entry or its vectors.

    Whether sections tile and chunks are slices of the text is for who makes the entry.
    """
    for problem in (*_id_problems(entry), *_chunk_problems(entry), *_vector_problems(entry, vectors, layout)):
        raise ParameterError(f"entry {entry.document.id!r}", problem, "without contradictions")


def _id_problems(entry: Entry) -> Iterator[str]:
    ids = [chunk.id for chunk in entry.chunks]
    if len(set(ids)) < len(ids):
        yield "two chunks have one id"
    for chunk_id in ids:
        if not 0 < _bytes(chunk_id) <= _LONGEST_ID:
            yield f"the chunk id {chunk_id[:80]!r} has {_bytes(chunk_id)} bytes; a server takes 1 to {_LONGEST_ID}"
    if not 0 < len(entry.document.id) <= _LONGEST_DOCUMENT_ID:
        yield f"the document id has {len(entry.document.id)} characters; a server takes 1 to {_LONGEST_DOCUMENT_ID}"
    marks = (mark for view in entry.views for mark in (view.kind, view.made))
    for name in (entry.document.id, entry.fingerprint, *ids, *marks):
        if not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name):
            yield f"the id or kind {name!r} holds a lone surrogate"


def _chunk_problems(entry: Entry) -> Iterator[str]:
    if not entry.chunks:
        yield "there are no chunks, so nothing could ever be found"
    if [chunk.position for chunk in entry.chunks] != list(range(len(entry.chunks))):
        yield "the chunks are not numbered in their order"
    if any(chunk.document_id != entry.document.id for chunk in entry.chunks):
        yield "a chunk is of another document"
    if entry.terms and len(entry.terms) != len(entry.chunks):
        yield f"there are {len(entry.terms)} lists of terms for {len(entry.chunks)} chunks"
    for stray in sorted({view.chunk_id for view in entry.views}.difference(chunk.id for chunk in entry.chunks)):
        yield f"a view belongs to chunk {stray!r}, which is not in the entry"


def _vector_problems(entry: Entry, vectors: ViewVectors, layout: IndexLayout) -> Iterator[str]:
    import numpy as np

    n = len(vectors.chunks)
    counts = (len(vectors.kinds), len(vectors.digests or vectors.kinds), len(vectors.rows))
    if counts != (n, n, n):
        yield f"there are {n} places, {counts[0]} kinds, {counts[1]} digests and {counts[2]} rows of vectors"
    elif vectors.rows.shape != (n, layout.dim):
        yield f"vectors have the shape {vectors.rows.shape}, the set holds vectors of {layout.dim} numbers"
    elif not np.isfinite(vectors.rows).all():
        yield "a vector holds NaN or infinity"
    elif strays := [at for at in vectors.chunks if not 0 <= at < len(entry.chunks)]:
        yield f"a vector belongs to chunk {strays[0]}, of {len(entry.chunks)}"
    else:
        defaults = {at for at, kind in zip(vectors.chunks, vectors.kinds, strict=True) if kind == DEFAULT}
        for at in range(len(entry.chunks)):
            if at not in defaults:
                yield f"chunk {at} has no default vector"


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
