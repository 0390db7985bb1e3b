"""Ids that every vector store takes and gives back: UUIDs, said in the metadata, too."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_core.documents import Document

from catena.model import ParameterError, as_uuid
from langchain_catena.convert import CHUNK_ID, NEXT, PREVIOUS

_NAMES = (PREVIOUS, NEXT)


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
    return [_renamed(document) for document in documents]


def _renamed(document: Document) -> Document:
    if not document.id:
        what = f"id of the document {document.page_content[:40]!r}"
        raise ParameterError(what, None, "given: with_links(splits) writes ids where there are none")
    name = as_uuid(document.id)
    links = {key: as_uuid(str(at)) for key in _NAMES if (at := document.metadata.get(key))}
    return document.model_copy(update={"id": name, "metadata": {**document.metadata, **links, CHUNK_ID: name}})
