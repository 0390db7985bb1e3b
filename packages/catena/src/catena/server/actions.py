"""From one entry to what is written of it: pure, so that equal entries give equal bytes on any machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from catena.model import Chunk, Document, Entry, View
from catena.model.errors import ParameterError
from catena.model.vectors import ViewVectors, embedded_view
from catena.server.entry_checks import check_addition
from catena.server.filters import facet_fields, fields_seen
from catena.server.layout import REPEAT, IndexLayout, field_name, repeated
from catena.server.records import Action, Op, Source, figure_actions, record_action, text_actions
from catena.server.wire import packed, sendable
from catena.server.words import indexed_words
from catena.text.names import unspaced

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Action", "Op", "content_actions", "entry_actions", "kinds_of"]


def entry_actions(entry: Entry, vectors: ViewVectors, layout: IndexLayout) -> tuple[Action, ...]:
    """Return all that is written of an entry: its record, pieces of text, figures, and chunks.

    Args:
        entry: with at least one chunk, in reading order.
        vectors: of its chunks, shape (n, layout.dim); a zero row, which a server cannot compare, is left out.
        layout: of the set it is written to.

    Raises:
        ParameterError: the entry and its vectors contradict each other, or do not fit the layout.
    """
    check_addition(entry, vectors, layout)
    return (record_action(entry), *content_actions(entry, vectors, layout))


def content_actions(entry: Entry, vectors: ViewVectors, layout: IndexLayout) -> Iterator[Action]:
    """Yield all that is written of a checked entry but its record, one after the other."""
    yield from text_actions(entry.document)
    yield from figure_actions(entry.document.id, entry.figures)
    yield from _chunk_actions(entry, vectors, layout)


def kinds_of(entry: Entry, vectors: ViewVectors) -> frozenset[str]:
    """Return the kinds of view of which an entry has words or vectors."""
    return frozenset(view.kind for view in entry.views) | frozenset(vectors.kinds)


def _chunk_actions(entry: Entry, vectors: ViewVectors, layout: IndexLayout) -> Iterator[Action]:
    views: defaultdict[str, list[View]] = defaultdict(list)
    for view in entry.views:
        views[view.chunk_id].append(view)
    rows: defaultdict[int, list[tuple[str, str, NDArray[np.float32]]]] = defaultdict(list)
    names = vectors.digests or ("",) * len(vectors.kinds)
    for at, kind, name, row in zip(vectors.chunks, vectors.kinds, names, vectors.rows, strict=True):
        rows[at].append((kind, name, row))
    for at, chunk in enumerate(entry.chunks):
        found_by = _ways(chunk, views[chunk.id], rows[at], layout)
        terms = entry.terms[at] if entry.terms else ()
        source = _place(chunk, entry.document) | _terms(terms) | found_by
        yield Action(op="index", part="chunks", id=chunk.id, source=source)


def _place(chunk: Chunk, document: Document) -> Source:
    pages: Source = {} if chunk.pages is None else {"first_page": chunk.pages[0], "last_page": chunk.pages[1]}
    if chunk.page_labels:
        pages |= {"page_labels": sendable(chunk.page_labels)}
    lines = {} if chunk.lines is None else {"first_line": chunk.lines[0], "last_line": chunk.lines[1]}
    return {
        "id": chunk.id,
        "document": chunk.document_id,
        "kind": chunk.kind,
        "path": sendable(chunk.path),
        "position": chunk.position,
        "section": chunk.section,
        "start": chunk.start,
        "end": chunk.end,
        **pages,
        **lines,
        "facets": facet_fields(fields_seen(document, chunk)),
        "text": sendable(chunk.text),
        "metadata": sendable(chunk.metadata),
    }


def _terms(terms: Sequence[str]) -> Source:
    """Return the fields of critical terms; `said` keeps their order where `terms`, which is sorted, does not."""
    values = repeated(terms)
    kept = [value.partition(REPEAT)[0] for value in values]
    return {
        "terms": values,
        "terms_unspaced": sorted({unspaced(term) for term in terms}),
        **({} if kept == list(terms) else {"said": list(terms)}),
    }


def _ways(
    chunk: Chunk,
    views: Sequence[View],
    rows: Iterable[tuple[str, str, NDArray[np.float32]]],
    layout: IndexLayout,
) -> Source:
    """Return the fields of a chunk's views and vectors, of each kind one or several."""
    words: defaultdict[str, list[str]] = defaultdict(list)
    for view in views:
        words[view.kind].append(indexed_words(view.text))
    numbers: defaultdict[str, list[list[float] | str]] = defaultdict(list)
    marks: list[list[str | bool]] = []
    for kind, name, row in rows:
        is_kept = bool(row.any())
        marks.append([kind, name, is_kept])
        if is_kept:
            numbers[kind].append(packed(row) if layout.packed else row.tolist())
    source: Source = {
        # a view that is the chunk's own text is not kept twice
        "views": [[view.kind, None if view.text == chunk.text else sendable(view.text), view.made] for view in views],
        "rows": marks,
        "embedded": embedded_view(view.kind for view in views),
    }
    for kind in sorted({*words, *numbers}):
        if (nested := layout.nested(kind)) is not None:
            source[nested] = _nested(words[kind], numbers[kind])
            continue
        for group, values in (("words", words[kind]), ("vectors", numbers[kind])):
            if len(values) > 1:
                raise ParameterError(
                    "several", layout.several, f"kinds that include {kind!r}: chunk {chunk.id!r} has {len(values)}"
                )
            if values:
                source.setdefault(group, {})[field_name(kind)] = values[0]
    return source


def _nested(words: Sequence[str], vectors: Sequence[list[float] | str]) -> list[Source]:
    """Return nested documents; words and vectors may meet in any way, as the best of each counts."""
    return [
        ({"words": words[at]} if at < len(words) else {}) | ({"vector": vectors[at]} if at < len(vectors) else {})
        for at in range(max(len(words), len(vectors)))
    ]
