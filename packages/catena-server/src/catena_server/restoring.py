"""Read documents of a server back as entries, chunks and vectors, equal to those that were written."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import decompress

import numpy as np

from catena import Chunk, Document, Entry, Outcome, Section, View
from catena.effects import Step, ask
from catena.model import DEFAULT_VIEW, Figure, FrozenMetadata, LibraryError
from catena_server.calls import search_call
from catena_server.encoding import restored, unpacked
from catena_server.index_layout import INTEGERS, REPEAT, SECTION_FIELDS, IndexLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredChunk:
    """A chunk with all that it is found by.

    Attributes:
        rows: its vectors, shape (n, dim), float32, in the order in which they were written; zero where none was kept.
        kinds, digests: of each row, as in `ViewVectors`.
    """

    chunk: Chunk
    views: tuple[View, ...]
    terms: tuple[str, ...]
    rows: NDArray[np.float32]
    kinds: tuple[str, ...]
    digests: tuple[str, ...]


@contextmanager
def of_our_form(what: str) -> Iterator[None]:
    """Report a document on the server that is not of the form that `layout` states."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        problem = f"{what} is not of Catena's form ({type(error).__name__}: {error})"
        raise LibraryError(what, problem, "verify(), then index the document anew") from None


def document_of(record: Mapping[str, Any], pieces: Sequence[Mapping[str, Any]]) -> Document:
    """Return the document of a record and its pieces of text, in order."""
    rest = restored(record["rest"])
    return Document(
        id=record["document"],
        text="".join(restored(piece["text"]) for piece in pieces),
        title=restored(record["title"]),
        source=restored(record["source"]),
        media_type=rest["media_type"],
        page_starts=tuple(rest["page_starts"]),
        page_labels=tuple(rest["page_labels"]),
        metadata=FrozenMetadata(rest["metadata"]),
        printed=printed_of(rest),
    )


def printed_of(rest: Mapping[str, Any]) -> bytes:
    """Return where the words of a document are printed, from what is kept of it; b"" where nobody looked."""
    return decompress(base64.b64decode(rest["printed"])) if rest.get("printed") else b""


def entry_of(
    record: Mapping[str, Any],
    pieces: Sequence[Mapping[str, Any]],
    figures: Sequence[Mapping[str, Any]],
    chunks: Sequence[tuple[str, Mapping[str, Any]]],
) -> Entry:
    """Return the entry of a record and all that belongs to it, each in its order; chunks with their ids.

    Raises:
        LibraryError: something is not of the form in which it was written.
    """
    with of_our_form(f"document {record.get('document')!r}"):
        rest = record["rest"]
        sections = [dict(zip(SECTION_FIELDS, kept, strict=True)) for kept in restored(rest["sections"])]
        made = [chunk_of(source, chunk_id) for chunk_id, source in chunks]
        views = [views_of(chunk, source) for chunk, (_, source) in zip(made, chunks, strict=True)]
        return Entry(
            document=document_of(record, pieces),
            sections=tuple(
                Section(**{**kept, "path": tuple(kept["path"])}, document_id=record["document"], position=position)
                for position, kept in enumerate(sections)
            ),
            chunks=tuple(made),
            views=_in_order(views, rest.get("view_order")),
            terms=tuple(terms_of(source) for _, source in chunks) if rest["has_terms"] else (),
            fingerprint=record["fingerprint"],
            figures=tuple(figure_of(figure["figure"]) for figure in figures),
            left_out=tuple(rest["left_out"]),
        )


def stored_chunk(hit: Mapping[str, Any], layout: IndexLayout) -> StoredChunk:
    """Return a chunk with its views and vectors from a hit: vectors among its `fields`, or in its source.

    Raises:
        LibraryError: it is not of the form in which it was written.
    """
    source = hit["_source"]
    with of_our_form(f"chunk {hit['_id']!r}"):
        chunk = chunk_of(source, hit["_id"])
        vectors = {kind: iter(_vectors(hit, kind, layout)) for kind in {kind for kind, _, _ in source["rows"]}}
        none = np.zeros(layout.dim, np.float32)
        rows = [unpacked(next(vectors[kind])) if kept else none for kind, _, kept in source["rows"]]
        return StoredChunk(
            chunk=chunk,
            views=views_of(chunk, source),
            terms=terms_of(source),
            rows=np.array(rows, np.float32).reshape(len(rows), layout.dim),
            kinds=tuple(kind for kind, _, _ in source["rows"]),
            digests=tuple(digest for _, digest, _ in source["rows"]),
        )


def views_of(chunk: Chunk, source: Mapping[str, Any]) -> tuple[View, ...]:
    """Return the views of a chunk, in order."""
    return tuple(
        View(chunk_id=chunk.id, kind=kind, text=chunk.text if text is None else restored(text), made=made)
        for kind, text, made in source["views"]
    )


def terms_of(source: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the critical terms of a chunk, in the order in which they were given."""
    return tuple(source["said"] if "said" in source else (term.partition(REPEAT)[0] for term in source["terms"]))


def outcome_of(source: Mapping[str, Any]) -> Outcome:
    """Return a line of the ledger."""
    with of_our_form("a line of the ledger"):
        kept = restored(source["outcome"])
        return Outcome(**{**kept, **{name: tuple(kept.get(name, ())) for name in ("failed_pages", "moved_from")}})


def _vectors(hit: Mapping[str, Any], kind: str, layout: IndexLayout) -> list[list[float] | str]:
    group, field = layout.vector(kind).split(".")
    beside = hit.get("fields", {})
    if layout.nested(kind) is not None:
        kept = beside[group] if group in beside else hit["_source"].get(group, ())
        return [each[field] for each in kept if field in each]
    found = beside.get(f"{group}.{field}") or hit["_source"].get(group, {}).get(field)
    return [found] if found else []


def _in_order(views: Sequence[tuple[View, ...]], order: Sequence[int] | None) -> tuple[View, ...]:
    """Return the views of all chunks, chunk by chunk, or in the order of the chunks that is given."""
    if order is None:
        return tuple(view for own in views for view in own)
    left = [iter(own) for own in views]
    return tuple(next(left[at]) for at in order)


def figure_of(kept: Mapping[str, Any]) -> Figure:
    """Return a figure, its picture included."""
    fields = restored(kept)
    return Figure(**{**fields, "box": tuple(fields["box"]), "png": base64.b64decode(fields["png"])})


SOURCE_FIELDS = ("document", "kind", "path", *INTEGERS, "page_labels", "text", "metadata", "embedded")
"""What of a chunk's document is fetched to make a hit of it."""


def chunk_of(source: Mapping[str, Any], chunk_id: str) -> Chunk:
    """Return the chunk that a document of the chunks' index holds.

    Args:
        source: at least `SOURCE_FIELDS`, as they were written.
        chunk_id: the document's `_id`.

    Raises:
        LibraryError: the document is not of the form that `catena_server.index_layout` states.
    """
    try:
        labels = restored(source.get("page_labels"))
        return Chunk(
            id=chunk_id,
            document_id=source["document"],
            position=source["position"],
            start=source["start"],
            end=source["end"],
            text=restored(source["text"]),
            kind=source["kind"],
            path=tuple(restored(source.get("path", []))),
            section=source["section"],
            pages=_pair(source, "page"),
            page_labels=None if labels is None else (labels[0], labels[1]),
            lines=_pair(source, "line"),
            metadata=FrozenMetadata(restored(source.get("metadata") or {})),
        )
    except (LookupError, TypeError, ValueError) as error:
        what = f"the chunk {chunk_id!r} on the server is not of Catena's form ({type(error).__name__}: {error})"
        raise LibraryError(chunk_id, what, "verify(), then index its document anew") from None


def embedded_of(source: Mapping[str, Any]) -> str:
    """Return of which kind of view the chunk's default vectors were made."""
    return str(source.get("embedded") or DEFAULT_VIEW)


def sources(chunk_ids: Iterable[str], layout: IndexLayout) -> Step[dict[str, Mapping[str, Any]]]:
    """Return what is kept of chunks, by id; one that was deleted meanwhile is missing."""
    wanted = list(dict.fromkeys(chunk_ids))
    if not wanted:
        return {}
    body = {
        "size": len(wanted),
        "track_total_hits": False,
        "_source": list(SOURCE_FIELDS),
        "query": {"constant_score": {"filter": {"ids": {"values": wanted}}}},
    }
    (reply,) = yield from ask([search_call(layout.alias("chunks"), body, purpose="chunks")])
    return {row["_id"]: row["_source"] for row in rows_in(reply)}


def rows_found(
    layout: IndexLayout, body: Mapping[str, Any], params: Mapping[str, str | int | bool]
) -> Step[Sequence[Mapping[str, Any]]]:
    """Ask one search of the chunks, and return its rows, best first."""
    (reply,) = yield from ask([search_call(layout.alias("chunks"), body, params=params)])
    return rows_in(reply)


def rows_in(reply: Any) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a search, best first."""
    rows: Sequence[Mapping[str, Any]] = reply.get("hits", {}).get("hits", ())  # a filtered reply may be empty
    return rows


def _pair(source: Mapping[str, Any], unit: str) -> tuple[int, int] | None:
    first, last = source.get(f"first_{unit}"), source.get(f"last_{unit}")
    return None if first is None or last is None else (first, last)
