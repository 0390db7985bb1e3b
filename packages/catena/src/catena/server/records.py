"""What is written of a document itself: its record, its text in pieces, its figures, and its lines in the ledger.

A record stands in `N-documents` under `record_id`, a piece of text and a figure under `piece_id` and `figure_id`:

    record                            keyword: "document", "text" or "figure"
    document                          keyword: the document's id
    title, source, fingerprint, state keyword; `state` is "writing" or "whole", see `writing`
    chunks, pages, pieces, figures    integers: how many it has
    names, name_patterns              keyword: `names_of(title)` and `patterns_of` these
    rest                              kept in the source only: what an entry says besides, the ids of its chunks, in
                                      order, and while it is written `earlier`: what older versions may have left
    piece, start                      integers of a piece: its number, and its first code point in the text
    text, figure                      kept in the source only

A line of the ledger stands in `N-ledger` under the digest of its source: `key`, `source`, `document`, `state`, and in
the source only the whole `outcome`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from catena.model import Document, Entry, Figure, Outcome, Section
from catena.model.ids import digest
from catena.server.layout import Part
from catena.server.wire import sendable
from catena.text.names import names_of, patterns_of

Op: TypeAlias = Literal["index", "delete"]
Source: TypeAlias = dict[str, Any]

PIECE: Final = 65_536  # code points in one piece of a text


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
    return _record(entry.document.id, _about(entry) | {"rest": sendable(_rest(entry))})


def writing_action(whole: Action, earlier: Mapping[str, Any]) -> Action:
    """Return the writing of a document's record before anything else of it is written.

    Args:
        whole: the record that the document is to have.
        earlier: what of older versions may still be there; see `writing`.
    """
    about = dict(whole.source or {})
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
        "metadata": document.metadata,
        "sections": [_section(section) for section in entry.sections],
        "has_terms": bool(entry.terms),
        "left_out": entry.left_out,
        "chunk_ids": [chunk.id for chunk in entry.chunks],
        **({} if order == sorted(order) else {"view_order": order}),
    }


def _section(s: Section) -> list[Any]:
    return [s.id, s.level, s.title, s.path, s.start, s.body_start, s.end, s.tree_end, s.parent]


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
