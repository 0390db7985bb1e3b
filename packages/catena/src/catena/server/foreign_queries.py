"""What an index that others have made is asked, and its hits as chunks: plain values in, plain values out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from catena.model import Chunk, ChunkKind, Scalar
from catena.model.errors import LibraryError, ParameterError
from catena.model.options import check_options
from catena.server.foreign_fields import FieldType
from catena.server.foreign_filters import ALL, NO_DOCUMENT, Clause
from catena.text.words import is_border, normalise_query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST = 10_000  # hits of one request: the default window of servers, and their limit for neighbours
CANDIDATES = 100  # at least so many neighbours are looked at, per shard
OVERSAMPLE = 2.0  # neighbours found among rounded vectors that are compared exactly, per neighbour asked for
LONGEST_TERM = 6  # words of a critical term that is looked for in a question
MOST_TERMS = 512  # parts of a question that are looked up as critical terms

DOCUMENT_KEYS: Final = ("document_id", "ref_doc_id", "doc_id", "source", "file_path", "file_name")
"""Metadata that say of which document a hit is, the first that the index has, where nobody says which does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignIndex:
    """Which fields of an index hold what; names of fields inside objects have dots.

    Attributes:
        text_field: what was cut into words; hits are read from it, and searched by it with the server's own analysis.
        vector_field: a `dense_vector`; None leaves the dense route out.
        metadata_field: the object that holds the metadata; None where they stand beside the text.
        critical_field: whole strings (`keyword`), the critical terms of a hit; None leaves the keyword route out.
        document_field: whole strings, of which document a hit is; None takes the first of `DOCUMENT_KEYS` in the
            metadata that the index has.
        unit_vectors: all vectors have unit length. Then l2_norm and max_inner_product tell cosines, too.
    """

    text_field: str = "text"
    vector_field: str | None = None
    metadata_field: str | None = "metadata"
    critical_field: str | None = None
    document_field: str | None = None
    unit_vectors: bool = False

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("text_field", "vector_field", "metadata_field", "critical_field", "document_field"):
            value = getattr(self, name)
            if (value is None and name == "text_field") or (value is not None and not _is_name(value)):
                raise ParameterError(name, value, "the name of a field")

    @property
    def routes(self) -> tuple[str, ...]:
        """The routes that it can have."""
        dense = () if self.vector_field is None else ("dense",)
        return ("lexical", *dense, *(() if self.critical_field is None else ("keyword",)))

    @property
    def prefix(self) -> str:
        """What stands before the names of metadata."""
        return "" if self.metadata_field is None else f"{self.metadata_field}."

    def document_fields(self) -> tuple[str, ...]:
        """Return where the document's id may stand, the first that is there."""
        if self.document_field is not None:
            return (self.document_field,)
        return tuple(f"{self.prefix}{key}" for key in DOCUMENT_KEYS)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and all(value.split("."))


def lexical_body(query: str, k: int, at: ForeignIndex, allowed: Clause) -> dict[str, Any]:
    """Return the request for the hits that share words with a question, by the server's own BM25."""
    return _body(k, at, _scored({"match": {at.text_field: {"query": query}}}, allowed))


def dense_body(
    vector: NDArray[np.float32], k: int, at: ForeignIndex, field: FieldType, allowed: Clause
) -> dict[str, Any]:
    """Return the request for the neighbours of a vector; found among rounded ones, they are compared exactly."""
    knn: dict[str, Any] = {
        "field": at.vector_field,
        "query_vector": [float(number) for number in vector],
        "k": _size(k),
        "num_candidates": min(MOST, max(CANDIDATES, 2 * k)),
    }
    if field.quantised:
        knn["rescore_vector"] = {"oversample": OVERSAMPLE}
    if allowed != ALL:
        knn["filter"] = allowed
    return {**_frame(k, at), "knn": knn}


def keyword_body(terms: Sequence[str], k: int, at: ForeignIndex, allowed: Clause) -> dict[str, Any]:
    """Return the request for the hits that carry most of these critical terms; the score is how many."""
    each = [{"constant_score": {"filter": {"term": {at.critical_field: term}}, "boost": 1.0}} for term in terms]
    return _body(k, at, _scored({"bool": {"should": each, "minimum_should_match": 1}}, allowed))


def texts_body(ids: Sequence[str], at: ForeignIndex) -> dict[str, Any]:
    """Return the request for given hits with their texts, in no order."""
    return _body(len(ids), at, {"bool": {"filter": [{"ids": {"values": list(ids)}}]}})


def known_terms_body(candidates: Sequence[str], at: ForeignIndex) -> dict[str, Any]:
    """Return the request that says which of these strings are critical terms of any hit."""
    terms = {"field": at.critical_field, "include": list(candidates), "size": max(1, len(candidates))}
    return {"size": 0, "track_total_hits": False, "aggs": {"known": {"terms": terms}}}


def known_terms(reply: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the answer to `known_terms_body` says."""
    return tuple(sorted(str(bucket["key"]) for bucket in reply["aggregations"]["known"]["buckets"]))


def candidate_terms(query: str) -> tuple[str, ...]:
    """Return the parts of a question that may be critical terms, as typed and normalised; sorted.

    Runs of up to `LONGEST_TERM` words, as `catena.text.words.normalise_query` sees them and as they were typed.
    """
    found: dict[str, None] = {}
    for text in (normalise_query(query), " ".join(query.split())):
        starts = [at for at in range(len(text)) if is_border(text, at) and not text[at].isspace()]
        ends = [at for at in range(1, len(text) + 1) if is_border(text, at) and not text[at - 1].isspace()]
        for start in starts:
            for end in ends:
                part = text[start:end]
                if end > start and part.count(" ") < LONGEST_TERM and any(map(str.isalnum, part)):
                    found[part] = None
                if len(found) >= MOST_TERMS:
                    return tuple(sorted(found))
    return tuple(sorted(found))


def _scored(query: Clause, allowed: Clause) -> Clause:
    return query if allowed == ALL else {"bool": {"must": [query], "filter": [allowed]}}


def _body(k: int, at: ForeignIndex, query: Clause) -> dict[str, Any]:
    return {**_frame(k, at), "query": query}


def _frame(k: int, at: ForeignIndex) -> dict[str, Any]:
    hidden = [] if at.vector_field is None else [at.vector_field]
    return {"size": _size(k), "track_total_hits": False, "_source": {"excludes": hidden}}


def _size(k: int) -> int:
    return min(k, MOST)


def chunk_of_hit(hit: Mapping[str, Any], at: ForeignIndex, document: str | None, index: str) -> Chunk:
    """Return a hit as a chunk: a document's slice that begins at 0, as nothing says where else.

    Its id is the hit's; its document the value of `document`, or else the hit itself. Of the metadata it has strings,
    numbers and truth values; those inside objects under dotted names.

    Raises:
        LibraryError: the index keeps no `_source`, so that hits have no text.
    """
    source = hit.get("_source")
    if not isinstance(source, Mapping):
        what = "its hits come without _source, in which their text would be"
        raise LibraryError(index, what, "an index that keeps _source")
    text = value_at(source, at.text_field)
    text = "\n".join(map(str, text)) if isinstance(text, list) else "" if text is None else str(text)
    metadata = dict(_scalars(metadata_of(source, at), ""))
    kind, position = metadata.get("kind"), metadata.get("position", 0)
    named = None if document is None else value_at(source, document)
    return Chunk(
        id=str(hit["_id"]),
        document_id=document_of(named) or str(hit["_id"]),
        position=position if _is_position(position) else 0,
        start=0,
        end=len(text),
        text=text,
        kind=cast("ChunkKind", kind) if kind in ("text", "table", "figure") else "text",
        metadata=metadata,
    )


def document_of(named: object) -> str:
    """Return the document's id that a field holds, "" where it holds none."""
    return named if isinstance(named, str) and named != NO_DOCUMENT else ""


def metadata_of(source: Mapping[str, Any], at: ForeignIndex) -> Mapping[str, Any]:
    """Return what a hit says of itself besides its text and its vector."""
    if at.metadata_field is not None:
        found = value_at(source, at.metadata_field)
        return found if isinstance(found, Mapping) else {}
    return {key: value for key, value in source.items() if key not in (at.text_field, at.vector_field)}


def value_at(source: Mapping[str, Any], path: str) -> Any:
    """Return the value of a dotted name, whether it is nested or written with its dots; None where there is none."""
    if path in source:
        return source[path]
    first, dot, rest = path.partition(".")
    inner = source.get(first)
    return value_at(inner, rest) if dot and isinstance(inner, Mapping) else None


def _scalars(metadata: Mapping[str, Any], above: str) -> Iterator[tuple[str, Scalar]]:
    for key, value in metadata.items():
        if isinstance(value, Mapping):
            yield from _scalars(value, f"{above}{key}.")
        elif isinstance(value, str | int | float | bool):
            yield f"{above}{key}", value


def _is_position(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
