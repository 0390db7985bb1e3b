"""Give documents ids: made of their contents, so that edits elsewhere keep them, or UUIDs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from langchain_core.documents import Document

from catena import Chunk, ParameterError
from catena.model import SOURCE, TITLE, as_uuid, digest
from catena.structure import TABLE_HEADER
from langchain_catena.convert import CHUNK_ID, NEXT, PREVIOUS
from langchain_catena.places import PlaceKeys, to_linked

FILTERS = (SOURCE, TITLE)
"""Metadata that views repeat of their parents, for the filters of vector stores."""


def with_content_ids(
    documents: Iterable[Document], *, source_key: str | None = None, metadata_keys: Sequence[str] = FILTERS
) -> list[Document]:
    """Return parents under ids that say what they are, and not where: an edit elsewhere leaves them as they are.

    Chunks of Catena are named by their offsets, so that a line added to the first section renames all others. For
    views in a vector store, where a new name means a new embedding, name parents by source, titles and text:

        sections = with_content_ids(transformer.split_documents(documents))

    Args:
        documents: all parents of each source, in reading order.
        source_key: metadata key of whose a parent is; by default "source", or else "document_id".
        metadata_keys: of metadata that views repeat: another value is another parent.

    Returns:
        Copies; `previous_id` and `next_id` name the new ids. Of equal ones the first, the second, … differ.

    Raises:
        ParameterError: a document does not say whose it is.
    """
    given = list(documents)
    seen: Counter[str] = Counter()
    ids = []
    for document in given:
        said = content_of(document, source_of(document, source_key), metadata_keys)
        ids.append(content_id(said, seen[said]))
        seen[said] += 1
    renamed = {document.id: name for document, name in zip(given, ids, strict=True) if document.id}
    return [_renamed(document, name, renamed) for document, name in zip(given, ids, strict=True)]


def source_of(document: Document, source_key: str | None = None) -> str:
    """Return the source of a document.

    Raises:
        ParameterError: nothing in the metadata says it.
    """
    found = said_source(document, source_key)
    if found is None:
        what = f"metadata[{source_key or SOURCE!r}] of the document {document.id or document.page_content[:40]!r}"
        raise ParameterError(what, None, "the name of the file or text that it is from; source_key names another key")
    return found


def said_source(document: Document, source_key: str | None = None) -> str | None:
    """Return the source of a document, None where nothing in its metadata says it."""
    # the source comes first: chunks of a document without an id have one made from its content
    keys = (SOURCE, "document_id") if source_key is None else (source_key,)
    found = next((value for key in keys if (value := document.metadata.get(key)) not in (None, "")), None)
    return None if found is None else str(found)


def source_name(document: Document, source_key: str | None = None) -> str:
    """Return the source of a document; one that does not say it is a source of its own."""
    found = said_source(document, source_key)
    return document.id or digest("langchain", document.page_content) if found is None else found


def chunk_of(document: Document, source: str) -> Chunk:
    """Return a parent as a chunk of its source, under its own id or a derived one."""
    return to_linked(document, PlaceKeys(), name=source).chunk


def content_id(said: str, number: int = 0) -> str:
    """Return the id of what says this; `number` tells equal ones apart, in order, from 0."""
    return digest(said, str(number), length=32)


def content_of(document: Document, source: str, metadata_keys: Sequence[str] = FILTERS) -> str:
    """Return the hash of what a document says and whose it is: of all that the views of a parent are made from."""
    chunk = chunk_of(document, source)
    known = {key: repr(document.metadata.get(key)) for key in sorted({TITLE, TABLE_HEADER, *metadata_keys})}
    return digest(source, repr(chunk.path), chunk.kind, repr(known), chunk.text, length=32)


def _renamed(document: Document, name: str, renamed: Mapping[str, str]) -> Document:
    links = {key: renamed.get(str(at), at) for key in (PREVIOUS, NEXT) if (at := document.metadata.get(key))}
    return document.model_copy(update={"id": name, "metadata": {**document.metadata, **links}})


def with_uuids(documents: Iterable[Document]) -> list[Document]:
    """Return chunks under ids for stores that take only UUIDs, or that give documents back without an id.

    Qdrant and `PGVectorStore` refuse other ids; Qdrant and LanceDB return documents whose `id` is None:

        splits = with_uuids(transformer.split_documents(documents))
        store.add_documents(splits)

    An id is derived from the one before, so that equal chunks have equal ids; one that is a UUID stays. It stands
    in `metadata["chunk_id"]`, too, by which all of Catena's classes know a chunk whose store lost its id. Give these
    same documents to a graph and to other retrievers.

    Args:
        documents: with ids, as `CatenaDocumentTransformer` or `with_links` gives them.

    Returns:
        Copies; `previous_id` and `next_id` name the new ids.

    Raises:
        ParameterError: a document has no id.
    """
    return [_with_uuid(document) for document in documents]


def _with_uuid(document: Document) -> Document:
    if not document.id:
        what = f"id of the document {document.page_content[:40]!r}"
        raise ParameterError(what, None, "given: with_links(splits) writes ids where there are none")
    name = as_uuid(document.id)
    links = {key: as_uuid(str(at)) for key in (PREVIOUS, NEXT) if (at := document.metadata.get(key))}
    return document.model_copy(update={"id": name, "metadata": {**document.metadata, **links, CHUNK_ID: name}})
