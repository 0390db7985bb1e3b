"""Records of what an index of views has written, as documents in the docstore itself, beside the parents."""

from __future__ import annotations

from langchain_core.documents import Document

from catena.enrichment import ViewRecord, record_key


def as_ledger(record: ViewRecord, prefix: str) -> tuple[str, Document]:
    """Return the key and the document under which a record is kept."""
    key = record_key(prefix, record.source)
    return key, Document(id=key, page_content=record.to_json(), metadata={"kind": "ledger"})


def as_record(document: Document) -> ViewRecord:
    """Return the record that a document holds.

    Raises:
        ParameterError: it holds none.
    """
    return ViewRecord.from_json(document.page_content, str(document.id))
