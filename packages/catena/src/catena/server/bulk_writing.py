"""Prepared batches onto a server: what it holds already, what is written, and the ledger's line of every input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

from catena.effects import Handler, Services, Step
from catena.library.file_ingestion import UNCHANGED, Input
from catena.model import Outcome
from catena.server.bulk import BulkFailure, BulkOptions
from catena.server.bulk_preparation import PreparedBatch, PreparedDocument
from catena.server.call import Call, Flavour, Pause, Transport
from catena.server.contents import fingerprints_read
from catena.server.layout import IndexLayout
from catena.server.writing import DocumentActions, put_actions, record

TransportFactory: TypeAlias = Callable[[], Transport]
"""Makes the client in the process that is to use it; picklable, as `partial(ElasticsearchTransport.connect, url)`."""


@contextmanager
def connected(transport_factory: TransportFactory) -> Iterator[tuple[Services, Flavour]]:
    """Open a client, answer the calls of steps by it, and close it."""
    transport = transport_factory()
    name = transport.identity
    handlers = {
        Call: Handler(identity=name, call=transport.perform),
        Pause: Handler(identity=name, call=lambda pause: time.sleep(pause.seconds)),
    }
    try:
        yield Services(handlers=handlers), transport.flavour
    finally:
        if callable(close := getattr(transport, "close", None)):
            close()


def with_known(inputs: Sequence[Input], layout: IndexLayout) -> Step[tuple[Input, ...]]:
    """Return inputs that say the fingerprints of their documents as the server holds them, whole and read last."""
    held = yield from fingerprints_read([given.document_id for given in inputs], layout)
    return tuple(replace(given, known=held.get(given.document_id, "")) for given in inputs)


def write_batch(
    batch: PreparedBatch, layout: IndexLayout, flavour: Flavour, options: BulkOptions | None = None
) -> Step[tuple[Outcome, ...]]:
    """Write a batch and return how its inputs ended, in order; writing it again changes nothing.

    What the server refuses of a document makes that document "failed", to be done again by the next run. The ledger
    keeps saying of an unchanged file how it ended when it was read.

    Raises:
        ServerError: nobody may write there, or the server cannot be reached for too long.
    """
    documents = [_actions(document) for document in batch.documents if document.actions]
    report = yield from put_actions(documents, layout, flavour, options=options)
    unfinished = frozenset(report.unfinished)
    refused = {
        document.document_id: _refused(document, report.failures)
        for document in documents
        if document.document_id in unfinished
    }
    outcomes = tuple(_ended(document.outcome, refused) for document in batch.documents)
    written = {document.document_id for document in documents} - unfinished
    rest = [each for each in outcomes if each.reason != UNCHANGED and each.document_id not in written]
    yield from record(rest, layout, options)
    return outcomes


def _actions(document: PreparedDocument) -> DocumentActions:
    outcome = document.outcome
    return DocumentActions(
        document_id=outcome.document_id, actions=document.actions, kinds=document.kinds, outcome=outcome
    )


def _refused(document: DocumentActions, failures: Sequence[BulkFailure]) -> str:
    """Return what the server refused of a document; failures come from the whole batch."""
    own = {(action.part, action.id) for action in document.actions}
    of_it = [failure for failure in failures if (failure.part, failure.id) in own] or failures
    first = of_it[0]
    why = f"{first.kind}: {first.reason}" if first.kind else first.reason
    return f"the server refused {len(of_it)} of its parts (first: {first.id!r} of the {first.part}: {why})"


def _ended(outcome: Outcome, refused: dict[str, str]) -> Outcome:
    if outcome.document_id not in refused:
        return outcome
    return Outcome(
        source=outcome.source, document_id=outcome.document_id, state="failed", reason=refused[outcome.document_id]
    )
