"""From what a server keeps of a chunk back to the chunk, equal to the one that was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from catena.effects.steps import Step, ask
from catena.model import Chunk, FrozenMetadata
from catena.model.errors import LibraryError
from catena.model.vectors import DEFAULT_VIEW
from catena.server.call import Call
from catena.server.layout import IndexLayout, quoted
from catena.server.wire import restored

SOURCE_FIELDS = (
    "document",
    "kind",
    "path",
    "position",
    "section",
    "start",
    "end",
    "first_page",
    "last_page",
    "page_labels",
    "first_line",
    "last_line",
    "text",
    "metadata",
    "embedded",
)
"""What of a chunk's document is fetched to make a hit of it."""


def chunk_of(source: Mapping[str, Any], chunk_id: str) -> Chunk:
    """Return the chunk that a document of the chunks' index holds.

    Args:
        source: at least `SOURCE_FIELDS`, as they were written.
        chunk_id: the document's `_id`.

    Raises:
        LibraryError: the document is not of the form that `catena.server.layout` states.
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
    (reply,) = yield from ask([search_call(layout, body, purpose="chunks")])
    return {row["_id"]: row["_source"] for row in rows_in(reply)}


def search_call(
    layout: IndexLayout,
    body: Mapping[str, Any],
    *,
    params: Mapping[str, str | int | bool] | None = None,
    purpose: str = "search",
) -> Call:
    """Return the call that searches the chunks of an index set."""
    path = f"/{quoted(layout.alias('chunks'))}/_search"
    whole: dict[str, str | int | bool] = {"allow_partial_search_results": False}  # a shard that fails is an error
    return Call(method="POST", path=path, params=whole | dict(params or {}), body=body, purpose=purpose)


def rows_in(reply: Any) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a search, best first."""
    rows: Sequence[Mapping[str, Any]] = reply.get("hits", {}).get("hits", ())  # a filtered reply may be empty
    return rows


def _pair(source: Mapping[str, Any], unit: str) -> tuple[int, int] | None:
    first, last = source.get(f"first_{unit}"), source.get(f"last_{unit}")
    return None if first is None or last is None else (first, last)
