"""LangChain documents as nodes of a graph, and back: which node a document is, and which document a node was."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.documents import Document

from catena.enrichment import keywords_of_view
from catena.model import Chunk, ParameterError, Scalar
from langchain_catena.content_ids import content_id, content_of, source_name
from langchain_catena.convert import CHUNK_ID, POSITION, PROVENANCE, SCORE, scalars
from langchain_catena.places import PlaceKeys, to_linked

_CONTENT = "langchain_content"  # key, in the graph alone, of the content where that is not the chunk's exact text
_NESTED = "langchain_nested"  # of the metadata that a chunk cannot hold, as JSON; also says that this was a document


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKeys:
    """Metadata keys by which documents say which node of a graph they are, and what it is told of them.

    Attributes:
        id: of the node's id; None takes the document's own, and of one without an id what its content gives.
        source: of the whole document; "source", or else "document_id", where None.
        position: of the place in it.
        titles: under which others may mention it; None takes the title and the last heading.
        keywords: of a list, or a text with ";" between them; None finds them in the text.
    """

    id: str | None = None
    source: str | None = None
    position: str = POSITION
    titles: tuple[str, ...] | None = None
    keywords: str | None = None


def node_ids(document: Document, keys: NodeKeys) -> Iterator[str]:
    """Yield the ids under which a graph may have a document, the surest first; the last is made of its content."""
    own = None if keys.id is None else document.metadata.get(keys.id)
    for name in (own, document.id, document.metadata.get(CHUNK_ID)):
        if name not in (None, ""):
            yield str(name)
    yield content_id(said_by(document, keys))


def said_by(document: Document, keys: NodeKeys) -> str:
    """Return the hash of what a document says and whose it is, without the id that a store may have given it."""
    nameless = document.model_copy(update={"id": None})
    return content_of(document, source_name(nameless, keys.source))


def node_id(document: Document, keys: NodeKeys, graph: Container[object] = ()) -> str:
    """Return the id that a graph has a document under; the surest of those possible where it has none of them."""
    surest = ""
    for name in node_ids(document, keys):
        if name in graph:
            return name
        surest = surest or name
    return surest


def to_graph_chunk(document: Document, chunk_id: str, keys: NodeKeys, *, position: int | None = None) -> Chunk:
    """Return a document as a chunk that `from_graph_chunk` gives back, also after the graph was kept on disk.

    Args:
        document: as its store has it; its content is what was embedded, its exact text what the chunk holds.
        chunk_id: in the graph.
        keys: of its metadata.
        position: in its source; what its metadata say, or else 0, where None.
    """
    places = PlaceKeys(position=keys.position)
    chunk = to_linked(document, places, name=source_name(document, keys.source)).chunk
    own: dict[str, Scalar] = scalars(document.metadata)
    nested = {key: value for key, value in document.metadata.items() if key not in own and _is_own(key)}
    kept = {key: value for key, value in own.items() if _is_own(key)} | {_NESTED: _as_json(nested)}
    if document.page_content != chunk.text:
        kept[_CONTENT] = document.page_content
    return replace(chunk, id=chunk_id, position=chunk.position if position is None else position, metadata=kept)


def from_graph_chunk(chunk: Chunk) -> Document | None:
    """Return the document that a chunk of a graph was made of, None of one that was made of none.

    Metadata that JSON has no form for (dates, say) come back as text.
    """
    if _NESTED not in chunk.metadata:
        return None
    metadata = {key: value for key, value in chunk.metadata.items() if key not in (_CONTENT, _NESTED)}
    nested = json.loads(str(chunk.metadata[_NESTED]))
    content = str(chunk.metadata.get(_CONTENT, chunk.text))
    return Document(id=chunk.id, page_content=content, metadata=metadata | nested)


def titles_of(document: Document, keys: NodeKeys) -> tuple[str, ...] | None:
    """Return the titles that the metadata say; None where no keys name them."""
    if keys.titles is None:
        return None
    return tuple(title for key in keys.titles for title in _texts(document.metadata.get(key)))


def said_keywords(document: Document, keys: NodeKeys) -> tuple[str, ...] | None:
    """Return the keywords that the metadata say, None where they say none.

    Raises:
        ParameterError: there is something else than words.
    """
    found = None if keys.keywords is None else document.metadata.get(keys.keywords)
    if found is None:
        return None
    if isinstance(found, str):
        return keywords_of_view(found)
    if not isinstance(found, Sequence) or not all(isinstance(word, str) for word in found):
        what = f"metadata[{keys.keywords!r}] of document {document.id or document.page_content[:40]!r}"
        raise ParameterError(what, found, 'a list of words, or a text with ";" between them')
    return tuple(found)


def _is_own(key: str) -> bool:
    """Return whether a key says something of the document, and not of how it was found."""
    return key not in (SCORE, PROVENANCE)


def _as_json(nested: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{json.dumps(key)}: {_written(value)}" for key, value in nested.items()) + "}"


def _written(value: object) -> str:
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError):  # keys that are no text, or a circle
        return json.dumps(str(value))


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(str, value))
    return () if value is None else (str(value),)
