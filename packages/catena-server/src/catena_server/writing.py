"""Put, replace and delete documents so that a kill at any moment loses and doubles nothing.

Of each document there is a record, which is read by its id and so always as it was last written. `put` does:

1. The record says "writing", with the new fingerprint and chunk ids, and with the ids of all that older versions may
   have left: theirs, and those of any version whose writing did not end (`earlier`).
2. Pieces of text, figures and chunks are written, under ids that the document's id and their place make.
3. What is in `earlier` and not in the new version is deleted.
4. The record says "whole", and nothing of `earlier`.

A kill before 1 leaves the old version whole. A kill after it leaves a record that is not whole: no fingerprint of it
counts as done, so the next `put` of the document does all of it again, and its `earlier` names whatever the killed
one wrote or had not deleted yet. No search is asked for what is to be deleted, so it matters not what a search can
see. `delete` first writes a record that is not whole and has no chunks, and removes the record last. Until a document
is whole, searches may find chunks of its older version, of the new one, or of both.

Two processes that write one document at a time may leave chunks of both; `verify` names it, and another `put` of the
document mends what its record knows of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from catena import Entry, Outcome
from catena.effects import Step
from catena.model import ParameterError, ServerError, UnknownDocumentError, ViewVectors
from catena_server.actions import (
    Action,
    check_addition,
    content_actions,
    deleting_action,
    figure_id,
    kinds_of,
    outcome_action,
    piece_id,
    record_action,
    record_id,
    writing_action,
)
from catena_server.bulk import BulkFailure, BulkOptions, BulkReport, send
from catena_server.calls import Flavour, kept_by_id, searched
from catena_server.index_layout import PARTS, IndexLayout, Part, ensure_kinds, refresh

Addition: TypeAlias = tuple[Entry, ViewVectors]

_ABOUT = ("fingerprint", "state", "pieces", "figures", "rest.chunk_ids", "rest.earlier")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A document that was written: how many chunks it has now, and how many of older versions were removed."""

    document_id: str
    chunks: int
    removed: int
    new: bool  # nothing of it was there before


@dataclass(frozen=True, slots=True, kw_only=True)
class PutReport:
    """Results of the documents that were put.

    Attributes:
        skipped: ids of those whose fingerprint is the stored one.
        unfinished: ids of those of which something was refused: they are not whole, and the next `put` does them
            again.
        failures: what was refused.
        again: sendings beyond the first.
    """

    written: tuple[Written, ...] = ()
    skipped: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    failures: tuple[BulkFailure, ...] = ()
    again: int = 0

    def check(self) -> None:
        """Raise `ServerError` naming what was refused, where something was."""
        if self.failures:
            first = self.failures[0]
            what = (
                f"{len(self.unfinished)} documents are not whole, the first of them {self.unfinished[0]!r}:"
                f" {first.id!r} of its {first.part} was refused ({first.kind}: {first.reason});"
                f" {len(self.written)} others are. Try: the same again once the cause is gone"
            )
            raise ServerError("search server", what, status=first.status, kind=first.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Earlier:
    """All that older versions of a document may have left on the server."""

    chunk_ids: tuple[str, ...] = ()
    pieces: int = 0
    figures: int = 0

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> _Earlier:
        """Return it from what is stored of the document's record, None for no record."""
        if stored is None:
            return cls()
        rest: Mapping[str, Any] = stored.get("rest") or {}
        older: Mapping[str, Any] = rest.get("earlier") or {}
        ids = dict.fromkeys((*rest.get("chunk_ids", ()), *older.get("chunk_ids", ())))
        counts = (max(stored.get(name, 0), older.get(name, 0)) for name in ("pieces", "figures"))
        return cls(chunk_ids=tuple(ids), **dict(zip(("pieces", "figures"), counts, strict=True)))

    def kept(self) -> dict[str, Any]:
        return {"chunk_ids": list(self.chunk_ids), "pieces": self.pieces, "figures": self.figures}

    def gone(self, document_id: str, now: Mapping[str, Any]) -> Iterator[Action]:
        """Yield the deletions of what a version does not have, by the record that says "whole"; {} has nothing."""
        kept = frozenset(now["rest"]["chunk_ids"] if now else ())
        for chunk_id in self.chunk_ids:
            if chunk_id not in kept:
                yield Action(op="delete", part="chunks", id=chunk_id)
        for piece in range(now.get("pieces", 0), self.pieces):
            yield Action(op="delete", part="documents", id=piece_id(document_id, piece))
        for figure in range(now.get("figures", 0), self.figures):
            yield Action(op="delete", part="documents", id=figure_id(document_id, figure))


def targets(layout: IndexLayout) -> dict[Part, str]:
    """Return where the parts of a set are written to."""
    return {part: layout.alias(part) for part in PARTS}


def put(
    additions: Sequence[Addition],
    layout: IndexLayout,
    flavour: Flavour,
    *,
    outcomes: Sequence[Outcome] = (),
    options: BulkOptions | None = None,
) -> Step[PutReport]:
    """Write documents in place of their older versions; searches see it after the next refresh.

    A document whose record is whole and has the same fingerprint is skipped; an empty fingerprint never is. One that
    the server refuses in part does not stop the others. The ledger's line of a document is written just before the
    record that says "whole": a kill between the two leaves a document that is done again, never one with the line of
    an older version.

    Args:
        additions: entries with their vectors, each document once.
        layout: of the set.
        flavour: of the server.
        outcomes: lines for the ledger; that of a document that could not be written is left out.
        options: of the bulk calls.

    Raises:
        ParameterError: an entry is not sound; nothing was written.
        ServerError: nobody may write there, or the server cannot be reached for too long.
    """
    given: dict[str, Addition] = {}
    for entry, vectors in additions:
        check_addition(entry, vectors, layout)
        if entry.document.id in given:
            raise ParameterError("additions", entry.document.id, "documents of different ids")
        given[entry.document.id] = entry, vectors

    def version(document_id: str) -> _Version:
        entry, vectors = given[document_id]
        lines = tuple(outcome for outcome in outcomes if outcome.document_id == document_id)
        content = partial(content_actions, entry, vectors, layout)
        return _Version(record_action(entry), content, kinds_of(entry, vectors), lines)

    marks = {document_id: entry.fingerprint for document_id, (entry, _) in given.items()}
    report = yield from _put(marks, version, layout=layout, flavour=flavour, options=options)
    put_now = given.keys() - set(report.skipped)
    others = [outcome for outcome in outcomes if outcome.document_id not in put_now]
    if others:
        yield from record(others, layout, options)
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDocument:
    """The outcome of one input, and the actions that write it.

    Attributes:
        actions: as `entry_actions` gives them, the record first; none unless the outcome is "indexed" or "partial".
        kinds: of view that the actions have words or vectors of, sorted.
    """

    outcome: Outcome
    actions: tuple[Action, ...] = field(default=(), repr=False)
    kinds: tuple[str, ...] = ()


def put_actions(
    documents: Sequence[PreparedDocument],
    layout: IndexLayout,
    flavour: Flavour,
    *,
    options: BulkOptions | None = None,
) -> Step[PutReport]:
    """As `put`, of documents whose actions were made elsewhere, and each with its line of the ledger.

    Args:
        documents: each document once.
        layout: of the set.
        flavour: of the server.
        options: of the bulk calls.

    Raises:
        ServerError: nobody may write there, or the server cannot be reached for too long.
    """
    versions = {
        each.outcome.document_id: _Version(
            each.actions[0], partial(iter, each.actions[1:]), frozenset(each.kinds), (each.outcome,)
        )
        for each in documents
    }
    marks = {document_id: version.about["fingerprint"] for document_id, version in versions.items()}
    return (yield from _put(marks, versions.__getitem__, layout=layout, flavour=flavour, options=options))


def fingerprints(document_ids: Sequence[str], layout: IndexLayout) -> Step[dict[str, str]]:
    """Return the fingerprints of the documents that are whole, by id: as last written, refreshed or not."""
    stored = yield from _stored(document_ids, layout)
    return {key: about["fingerprint"] for key, about in stored.items() if about["state"] == "whole"}


@dataclass(frozen=True, slots=True)
class _Version:
    """The next version of a document: the record that says "whole", all other actions, and its ledger lines."""

    whole: Action
    content: Callable[[], Iterable[Action]]
    kinds: frozenset[str]
    outcomes: tuple[Outcome, ...]

    @property
    def about(self) -> Mapping[str, Any]:
        return self.whole.source or {}


def _put(
    marks: Mapping[str, str],
    version_of: Callable[[str], _Version],
    *,
    layout: IndexLayout,
    flavour: Flavour,
    options: BulkOptions | None,
) -> Step[PutReport]:
    """Write the versions of documents, of which the fingerprints are given, where they are not there already."""
    stored = yield from _stored(marks, layout)
    whole = {key: about["fingerprint"] for key, about in stored.items() if about["state"] == "whole"}
    versions = {key: version_of(key) for key, mark in marks.items() if not mark or whole.get(key) != mark}
    skipped = tuple(key for key in marks if key not in versions)
    if not versions:
        return PutReport(skipped=skipped)
    yield from ensure_kinds(frozenset[str]().union(*(each.kinds for each in versions.values())), layout, flavour)
    earlier = {document_id: _Earlier.of(stored.get(document_id)) for document_id in versions}
    run = _Run(targets(layout), options, dict.fromkeys(versions))
    yield from run.send((key, writing_action(versions[key].whole, earlier[key].kept())) for key in run.sound)
    yield from run.send((key, action) for key in run.sound for action in versions[key].content())
    yield from run.send((key, action) for key in run.sound for action in earlier[key].gone(key, versions[key].about))
    yield from run.send((key, outcome_action(line)) for key in run.sound for line in versions[key].outcomes)
    yield from run.send((key, versions[key].whole) for key in run.sound)
    return PutReport(
        written=tuple(_written(key, versions[key], earlier[key]) for key in run.sound),
        skipped=skipped,
        unfinished=tuple(key for key in versions if key not in run.sound),
        failures=tuple(run.failures),
        again=run.again,
    )


def delete(document_id: str, layout: IndexLayout, options: BulkOptions | None = None) -> Step[None]:
    """Remove a document with its text, chunks and lines in the ledger; a kill on the way is mended by the next call.

    Raises:
        UnknownDocumentError: it is not there.
    """
    stored = yield from _stored([document_id], layout)
    if document_id not in stored:
        raise UnknownDocumentError(layout.name, f"it holds no document {document_id!r}")
    earlier, to = _Earlier.of(stored[document_id]), targets(layout)
    lines = yield from _ledger_lines(document_id, layout)
    steps: tuple[Iterable[Action], ...] = (
        (deleting_action(document_id, earlier.kept()),),
        earlier.gone(document_id, {}),
        (Action(op="delete", part="ledger", id=line) for line in lines),
        (Action(op="delete", part="documents", id=record_id(document_id)),),
    )
    for actions in steps:
        report = yield from send(actions, to, options)
        report.check(f"deleting document {document_id!r}")


def record(outcomes: Sequence[Outcome], layout: IndexLayout, options: BulkOptions | None = None) -> Step[None]:
    """Write into the ledger how inputs ended; the latest outcome of a source stands.

    Raises:
        ServerError: the server refused a line.
    """
    latest = {outcome.source: outcome for outcome in outcomes}
    report: BulkReport = yield from send(map(outcome_action, latest.values()), targets(layout), options)
    report.check("writing the ledger")


class _Run:
    """One `put`: which documents nothing was refused of so far."""

    def __init__(self, to: Mapping[Part, str], options: BulkOptions | None, sound: dict[str, None]) -> None:
        self.sound = sound
        self.failures: list[BulkFailure] = []
        self.again = 0
        self._to, self._options = to, options

    def send(self, actions: Iterable[tuple[str, Action]]) -> Step[None]:
        """Send actions, each with the id of its document; a document of which one is refused is no longer sound."""
        owners: dict[tuple[Part, str], str] = {}

        def noted() -> Iterator[Action]:
            for document_id, action in actions:
                owners[action.part, action.id] = document_id
                yield action

        report = yield from send(noted(), self._to, self._options)
        self.failures.extend(report.failures)
        self.again += report.again
        for failure in report.failures:
            self.sound.pop(owners[failure.part, failure.id], None)


def _written(document_id: str, version: _Version, earlier: _Earlier) -> Written:
    ids = version.about["rest"]["chunk_ids"]
    removed = len(set(earlier.chunk_ids).difference(ids))
    return Written(document_id=document_id, chunks=len(ids), removed=removed, new=earlier == _Earlier())


def _stored(document_ids: Iterable[str], layout: IndexLayout) -> Step[dict[str, Mapping[str, Any]]]:
    """Return what the records say that are there, by document id: as last written, refreshed or not."""
    keys = {document_id: record_id(document_id) for document_id in document_ids}
    params = {"_source_includes": ",".join(_ABOUT)}
    kept = yield from kept_by_id(layout.alias("documents"), keys.values(), params, purpose="records")
    return {document_id: kept[key] for document_id, key in keys.items() if key in kept}


def _ledger_lines(document_id: str, layout: IndexLayout) -> Step[list[str]]:
    """Return the ids of the ledger's lines about a document, those just written included."""
    yield from refresh(layout, ("ledger",))
    body = {"query": {"term": {"document": document_id}}, "size": 10_000, "_source": False}
    found = yield from searched(layout.alias("ledger"), body, purpose="ledger")
    return [hit["_id"] for hit in found["hits"]["hits"]]
