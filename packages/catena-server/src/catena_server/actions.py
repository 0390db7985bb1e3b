"""Write an entry as actions of a bulk call: record, text, figures, chunks; equal entries give equal bytes."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from zlib import compress

import numpy as np

from catena import Chunk, Document, Entry, Outcome, View
from catena.model import DEFAULT, Figure, ParameterError, ViewVectors, digest, embedded_view
from catena.store import WHOLE
from catena.text import language_of_document, names_of, patterns_of, unspaced
from catena_server.encoding import indexed_words, packed, sendable
from catena_server.filters import facet_fields, fields_seen
from catena_server.index_layout import REPEAT, SECTION_FIELDS, IndexLayout, Part, field_name, language_mark, repeated

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    language = language_of_document(entry.document.text)
    for at, kind, name, row in zip(vectors.chunks, vectors.kinds, names, vectors.rows, strict=True):
        rows[at].append((kind, name, row))
    for at, chunk in enumerate(entry.chunks):
        found_by = _ways(chunk, views[chunk.id], rows[at], layout, language)
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
    language: str,
) -> Source:
    """Return the fields of a chunk's views and vectors, of each kind one or several; `language` is the document's."""
    words: defaultdict[str, list[str]] = defaultdict(list)
    languages: set[str] = set()
    for view in views:
        own, said = indexed_words(view.text, language)
        words[view.kind].append(said)
        languages |= {language_mark(own, view.kind)} if own else set()
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
        "languages": sorted(languages),
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


Op: TypeAlias = Literal["index", "delete"]
Source: TypeAlias = dict[str, Any]

PIECE: Final = 65_536  # code points in one piece of a text
LONGEST_TEXT: Final = 200_000  # code points whose words count for a whole document: a server holds them four times


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One document to be written to one index of a set, or deleted from it; either may be repeated."""

    op: Op
    part: Part
    id: str
    source: Source | None = field(default=None, repr=False)


def record_id(document_id: str) -> str:
    """Return the id under which a document's record is written."""
    parts = (document_id,) if isinstance(document_id, str) else ("", "")  # two parts: the hash of no document's id
    return digest(*parts, length=32)


def piece_id(document_id: str, piece: int) -> str:
    """Return the id of a piece of a document's text, from 0."""
    return f"{record_id(document_id)}-{piece}"


def figure_id(document_id: str, number: int) -> str:
    """Return the id of a document's figure, from 0."""
    return f"{record_id(document_id)}-figure-{number}"


def record_action(entry: Entry) -> Action:
    """Return the writing of the record of a document all of which is written."""
    document = entry.document
    language, words = indexed_words(f"{document.title}\n{document.text}"[:LONGEST_TEXT])
    found_by = {"words": words, "languages": [language_mark(language, WHOLE)] if language else []}
    return _record(document.id, _about(entry) | {"rest": sendable(_rest(entry))} | found_by)


def writing_action(whole: Action, earlier: Mapping[str, Any]) -> Action:
    """Return the writing of a document's record before anything else of it is written: without its words.

    Args:
        whole: the record that the document is to have.
        earlier: what of older versions may still be there; see `writing`.
    """
    about = {name: value for name, value in (whole.source or {}).items() if name not in ("words", "languages")}
    rest = {"chunk_ids": about["rest"]["chunk_ids"], "earlier": earlier}
    return replace(whole, source=about | {"state": "writing", "rest": rest})


def deleting_action(document_id: str, earlier: Mapping[str, Any]) -> Action:
    """Return the writing of a document's record before anything of it is deleted: it has nothing but what was."""
    about = {"record": "document", "document": document_id, "fingerprint": "", "state": "writing", "chunks": 0}
    return _record(document_id, about | {"pieces": 0, "figures": 0, "rest": {"chunk_ids": [], "earlier": earlier}})


def _record(document_id: str, source: Source) -> Action:
    return Action(op="index", part="documents", id=record_id(document_id), source=source)


def _about(entry: Entry) -> Source:
    document = entry.document
    names = names_of(document.title)
    return {
        "record": "document",
        "document": document.id,
        "title": sendable(document.title),
        "source": sendable(document.source),
        "fingerprint": entry.fingerprint,
        "state": "whole",
        "chunks": len(entry.chunks),
        "pages": len(document.page_starts),
        "pieces": pieces_of(document.text),
        "figures": len(entry.figures),
        "names": sendable(names),
        "name_patterns": sendable(patterns_of(names)),
    }


def outcome_action(outcome: Outcome) -> Action:
    """Return the writing of one line of the ledger."""
    source = {
        "key": digest(outcome.source, length=32),
        "source": sendable(outcome.source),
        "document": sendable(outcome.document_id),
        "state": outcome.state,
        "outcome": sendable(asdict(outcome)),
    }
    return Action(op="index", part="ledger", id=source["key"], source=source)


def pieces_of(text: str) -> int:
    """Return in how many pieces a text is written."""
    return -(-len(text) // PIECE)


def _rest(entry: Entry) -> Source:
    document = entry.document
    places = {chunk.id: at for at, chunk in enumerate(entry.chunks)}
    order = [places[view.chunk_id] for view in entry.views]
    return {
        "media_type": document.media_type,
        "page_starts": document.page_starts,
        "page_labels": document.page_labels,
        **({"printed": base64.b64encode(compress(document.printed)).decode()} if document.printed else {}),
        "metadata": document.metadata,
        "sections": [[getattr(section, name) for name in SECTION_FIELDS] for section in entry.sections],
        "has_terms": bool(entry.terms),
        "left_out": entry.left_out,
        "chunk_ids": [chunk.id for chunk in entry.chunks],
        **({} if order == sorted(order) else {"view_order": order}),
    }


def text_actions(document: Document) -> Iterator[Action]:
    """Yield the writing of a document's text."""
    for piece, start in enumerate(range(0, len(document.text), PIECE)):
        text = sendable(document.text[start : start + PIECE])
        source = {"record": "text", "document": document.id, "piece": piece, "start": start, "text": text}
        yield Action(op="index", part="documents", id=piece_id(document.id, piece), source=source)


def figure_actions(document_id: str, figures: Sequence[Figure]) -> Iterator[Action]:
    """Yield the writing of a document's figures, pictures included."""
    for number, figure in enumerate(figures):
        kept = {**asdict(figure), "png": base64.b64encode(figure.png).decode("ascii")}
        source = {"record": "figure", "document": document_id, "piece": number, "figure": sendable(kept)}
        yield Action(op="index", part="documents", id=figure_id(document_id, number), source=source)
