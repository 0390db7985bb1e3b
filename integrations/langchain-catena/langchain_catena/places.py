"""Read documents of a user's own store as chunks with their places in a whole document, and as rankings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, get_args

from langchain_core.documents import Document

from catena import Chunk, ParameterError, model
from catena.effects import Step
from catena.model import PLACE_KEYS, SEPARATOR, SOURCE, TABLE_HEADER, TITLE, as_uuid, digest, place_in
from catena.segments import Linked, placed_by_offsets
from langchain_catena.convert import (
    CHUNK_ID,
    HEADER,
    NEXT,
    NO_OFFSETS,
    POSITION,
    PREVIOUS,
    RAW_TEXT,
    SCORE,
    VALUE,
    as_score,
    is_unknown,
    told_of,
)

_OF_ONE_CHUNK = frozenset({PREVIOUS, NEXT, RAW_TEXT, HEADER, CHUNK_ID, SCORE, VALUE})
_OF_ONE_CHUNK |= {"document_id", "start_index", "end_index", "citation", "kind", "heading_path"}
_OF_ONE_CHUNK |= {*PLACE_KEYS, "first_position", "last_position"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceKeys:
    """Metadata keys by which a store's documents say where they stand.

    Attributes:
        document: of the id of the whole document; None takes "document_id", or else "source".
        position: of the place among the chunks of the whole document, from 0.
    """

    document: str | None = None
    position: str = POSITION

    def document_of(self, document: Document) -> str:
        """Return the id of the document that a chunk was cut from.

        Raises:
            ParameterError: nothing in the metadata says it.
        """
        keys = ("document_id", SOURCE) if self.document is None else (self.document,)
        found = next((value for key in keys if (value := document.metadata.get(key)) not in (None, "")), None)
        if found is None:
            allowed = f"the id of the document that {_name(document)} was cut from; document_key names another key"
            raise ParameterError(f"metadata[{keys[-1]!r}]", None, allowed)
        return str(found)

    def position_of(self, document: Document) -> int | None:
        """Return the chunk's place, None where nothing says it; some stores give back 3 as 3.0."""
        return _whole(document.metadata.get(self.position))


def with_links(
    documents: Iterable[Document], *, document_key: str | None = None, position_key: str = POSITION
) -> list[Document]:
    """Return splits that know their place and their neighbours, whoever cut them.

        splits = with_links(RecursiveCharacterTextSplitter(add_start_index=True).split_documents(documents))
        store.add_documents(splits)

    Args:
        documents: all chunks of each whole document, in reading order, as splitters return them; chunks of several
            documents may take turns.
        document_key: metadata key of the id of the whole document; by default "document_id", or else "source".
        position_key: metadata key to write the place under, from 0.

    Returns:
        Copies with that place, `previous_id` and `next_id` (where there is such a neighbour), and an id, derived
        where they had none.

    Raises:
        ParameterError: a chunk does not say whose it is, or two have one id.
    """
    keys = PlaceKeys(document=document_key, position=position_key)
    given = list(documents)
    groups: dict[str, list[int]] = defaultdict(list)
    for number, document in enumerate(given):
        groups[keys.document_of(document)].append(number)
    ids = {
        number: given[number].id or digest("langchain", name, str(position), given[number].page_content)
        for name, numbers in groups.items()
        for position, number in enumerate(numbers)
    }
    if len(set(ids.values())) < len(ids):
        twice = next(each for each in ids.values() if list(ids.values()).count(each) > 1)
        raise ParameterError("ids of the documents", twice, "all different")
    links = (PREVIOUS, NEXT)
    made = [
        document.model_copy(
            update={"id": ids[number], "metadata": {k: v for k, v in document.metadata.items() if k not in links}}
        )
        for number, document in enumerate(given)
    ]
    for numbers in groups.values():
        write_places([made[number] for number in numbers], position_key)
    return made


def write_places(beside: Sequence[Document], position_key: str = POSITION) -> None:
    """Write into the metadata of all chunks of one document, in reading order, their places and neighbours."""
    for position, chunk in enumerate(beside):
        chunk.metadata[position_key] = position
    for before, after in pairwise(beside):
        before.metadata[NEXT], after.metadata[PREVIOUS] = after.id, before.id


def to_linked(document: Document, keys: PlaceKeys, *, name: str | None = None) -> Linked:
    """Return a store's document as a chunk with its links; its position is 0 where nothing says it.

    Its text is the exact slice where the metadata hold one beside the content. `page` is read as LangChain's readers
    of PDFs write it: counted from 0.

    Args:
        document: as the store gave it.
        keys: where it says its place.
        name: of the whole document, where that is known otherwise.

    Raises:
        ParameterError: it does not say what document it was cut from.
    """
    metadata = document.metadata
    whole = keys.document_of(document) if name is None else name
    text = str(metadata.get(RAW_TEXT, document.page_content))
    start = _whole(metadata.get("start_index"))
    path = str(metadata.get("heading_path") or "")
    page = _whole(metadata.get("page"))
    place = place_in({**({} if page is None else {"first_page": page + 1, "last_page": page + 1}), **metadata})
    kept: dict[str, Any] = {
        key: value for key, value in metadata.items() if key not in _OF_ONE_CHUNK and key != keys.position
    }
    chunk = model.Chunk(
        id=document.id or str(metadata.get(CHUNK_ID) or "") or _derived(document, whole, keys),
        document_id=whole,
        position=keys.position_of(document) or 0,
        start=start or 0,
        end=(start or 0) + len(text),
        text=text,
        kind=next((kind for kind in get_args(model.ChunkKind) if kind == metadata.get("kind")), "text"),
        path=tuple(path.split(SEPARATOR)) if path else (),
        **place.parts,
        metadata=kept if start is not None else {**kept, NO_OFFSETS: True},
    )
    return Linked(chunk, _id(metadata.get(PREVIOUS)), _id(metadata.get(NEXT)))


class Passages:
    """The documents that one question found, as rankings of chunks; placed all together, whatever query found them.

    Args:
        keys: where they say their place.
        positions_needed: whether offsets are not enough, as where neighbours are fetched.
    """

    def __init__(self, keys: PlaceKeys, *, positions_needed: bool) -> None:
        self.keys, self.positions_needed = keys, positions_needed
        self._found: dict[str, tuple[Document, Linked]] = {}

    @property
    def linked(self) -> tuple[Linked, ...]:
        """The chunks found so far."""
        return tuple(linked for _, linked in self._found.values())

    def ranking(self, documents: Sequence[Document]) -> model.Ranking:
        """Return documents as a ranking, best first, in the scale that their metadata tell, see `ranked`."""
        passages = passages_in(documents)
        linked = {id(document): to_linked(document, self.keys) for document in passages}
        for document in passages:
            self._found.setdefault(linked[id(document)].chunk.id, (document, linked[id(document)]))
        ranking = ranked(documents, lambda document: linked[id(document)].chunk)
        falling = sorted(ranking.hits, key=lambda hit: -hit.score)  # stable: equal scores keep their order
        return replace(ranking, hits=tuple(falling))

    def place(self, rankings: Sequence[model.Ranking]) -> Step[tuple[model.Ranking, ...]]:
        """As `placed`, for `catena.segments.search.find_segments`."""
        yield from ()  # nothing is asked
        return self.placed(rankings)

    def placed(self, rankings: Sequence[model.Ranking]) -> tuple[model.Ranking, ...]:
        """Return rankings with all chunks at their places: by position, or else next to each other by offset.

        Raises:
            ParameterError: a chunk does not say its place.
        """
        missing = [document for document, _ in self._found.values() if self.keys.position_of(document) is None]
        if not missing:
            return tuple(rankings)
        starts = all(_whole(document.metadata.get("start_index")) is not None for document, _ in self._found.values())
        if self.positions_needed or not starts:
            what = f"metadata[{self.keys.position!r}] of {_name(missing[0])}"
            raise ParameterError(what, missing[0].metadata.get(self.keys.position), self._wanted())
        chunks = {chunk.id: chunk for chunk in placed_by_offsets(linked.chunk for linked in self.linked)}
        self._found = {
            name: (document, replace(linked, chunk=chunks[name])) for name, (document, linked) in self._found.items()
        }
        return tuple(
            replace(ranking, hits=tuple(replace(hit, chunk=chunks[hit.chunk.id]) for hit in ranking.hits))
            for ranking in rankings
        )

    def _wanted(self) -> str:
        place = "its place among the chunks of its document, from 0; with_links(splits) writes it before indexing"
        return place if self.positions_needed else f"{place} (or start_index in all of them)"


def ranked(documents: Sequence[Document], chunk_of: Callable[[Document], model.Chunk]) -> model.Ranking:
    """Return documents as a ranking in the order given, with what their metadata say of how they were found.

    Their scores are in the scale that `metadata["catena"]` names; else similarity where all have a `relevance_score`,
    and else nothing but the order counts. A document that comes twice counts once. One that only tells of names that
    stand nowhere is no hit; they are in `Ranking.unknown`.
    """
    unknown, documents = unknown_of(documents), passages_in(documents)
    chunks: dict[str, tuple[model.Chunk, Document]] = {}
    for document in documents:
        chunk = chunk_of(document)
        chunks.setdefault(chunk.id, (chunk, document))
    scale = _scale(documents)
    hits = tuple(
        model.Hit(
            chunk, 1.0 / rank if scale is model.Scale.RANK else float(document.metadata[SCORE]), _ways(document)
        )
        for rank, (chunk, document) in enumerate(chunks.values(), start=1)
    )
    degraded = told_of(documents[0]).get("degraded") or () if documents else ()
    parts = tuple(model.Degraded(what, why) for what, _, why in (str(part).partition(": ") for part in degraded))
    return model.Ranking(hits, scale, parts, unknown)


def passages_in(documents: Sequence[Document]) -> list[Document]:
    """Return the documents without those that `unknown_document` makes."""
    return [document for document in documents if not is_unknown(document)]


def unknown_of(documents: Sequence[Document]) -> tuple[model.Unknown, ...]:
    """Return the names that stand nowhere, as the first document tells them."""
    told = told_of(documents[0]).get("unknown") or () if documents else ()
    return tuple(model.Unknown(name["text"], tuple(name["near"])) for name in told)


def lenient_hits(documents: Sequence[Document], keys: PlaceKeys) -> list[model.Hit]:
    """Return any documents as hits, for a reader: by `relevance_score` where all have one, else by their order.

    What does not say whose it is or where it stands is a document of its own.
    """
    scored = _scale(documents) is not model.Scale.RANK
    hits: list[model.Hit] = []
    for rank, document in enumerate(documents):
        try:
            chunk = to_linked(document, keys).chunk
        except ParameterError:
            chunk = to_linked(document, keys, name=document.id or digest("langchain", document.page_content)).chunk
        hits.append(model.Hit(chunk, float(document.metadata[SCORE]) if scored else -float(rank)))
    return hits


def _scale(documents: Sequence[Document]) -> model.Scale:
    named = {str(told_of(document).get("scale")) for document in documents}
    known = {scale.value: scale for scale in model.Scale}
    if any(as_score(document.metadata.get(SCORE)) is None for document in documents) or not documents:
        return model.Scale.RANK
    return known.get(named.pop(), model.Scale.SIMILARITY) if len(named) == 1 else model.Scale.SIMILARITY


def _ways(document: Document) -> tuple[model.Provenance, ...]:
    return tuple(
        model.Provenance(route=way["route"], rank=way["rank"], score=way["score"], view=way["view"])
        for way in told_of(document).get("routes") or ()
    )


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not float(value).is_integer() or value < 0:
        return None
    return int(value)


def _id(value: object) -> str | None:
    return None if value in (None, "") else str(value)


def _name(document: Document) -> str:
    return f"document {document.id!r}" if document.id else f"the document {document.page_content[:40]!r}"


def _derived(document: Document, whole: str, keys: PlaceKeys) -> str:
    metadata = document.metadata
    place = (str(metadata.get(key, "")) for key in (keys.position, "page", "start_index"))
    return digest("langchain", whole, *place, document.page_content)


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
