"""Read the fields of an index that others have made; write its searches and filters, and read its hits as chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from catena import Chunk, FilterError
from catena.model import ChunkKind, LibraryError, ParameterError, Scalar, Where, check, check_options, matches
from catena.text import is_border, normalise_query
from catena_server.filters import ALL, NONE, Clause, all_of, any_of, negated, terms_clause, written

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Kind: TypeAlias = Literal["string", "number", "boolean", "date", "vector", "object", "other"]

_KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("text", "keyword", "constant_keyword", "wildcard", "match_only_text"), "string"),
    **dict.fromkeys(
        ("long", "integer", "short", "byte", "unsigned_long", "double", "float", "half_float", "scaled_float"),
        "number",
    ),
    **dict.fromkeys(("date", "date_nanos"), "date"),
    **dict.fromkeys(("object", "nested"), "object"),
    "boolean": "boolean",
    "dense_vector": "vector",
}
_WHOLE = ("keyword", "constant_keyword", "wildcard")  # types that hold a string as it is
_WORDS = ("text", "match_only_text")
_FLOATS = ("float", "bfloat16")
_QUANTISED = ("int8_", "int4_", "bbq_")
_UNLIKELY = 1e-12  # scores that stand for no cosine at all


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """The type of one field of an index.

    Attributes:
        type: the server's own word.
        whole: the field in which its strings stand as they are: itself, or one of its subfields; "" where none does.
        longest: UTF-16 units of the longest string that `whole` holds; longer ones are not in it. None for any.
        folded: whether `whole` changes strings before it compares them (a normalizer).
        searchable: whether the server can look for its values at all.
        similarity: of a vector: how the server compares.
        dim: of a vector; None where the index has none yet.
        quantised: of a vector: whether neighbours are looked for among rounded ones.
        floats: of a vector: whether its numbers are floats.
    """

    type: str
    whole: str = ""
    longest: int | None = None
    folded: bool = False
    searchable: bool = True
    similarity: str = ""
    dim: int | None = None
    quantised: bool = False
    floats: bool = True

    @property
    def kind(self) -> Kind:
        """The kind of its values."""
        return _KINDS.get(self.type, "other")

    @property
    def has_words(self) -> bool:
        """Return whether the server cuts it into words."""
        return self.type in _WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFields:
    """All fields of one index by their dotted names.

    Attributes:
        closed: names of objects in which a document may have fields that the mapping does not list; "" for the whole.
    """

    index: str
    types: Mapping[str, FieldType]
    closed: frozenset[str] = frozenset()

    def get(self, name: str) -> FieldType | None:
        """Return what a field is, None where no document has it."""
        return self.types.get(name)

    def is_hidden(self, name: str) -> bool:
        """Return whether documents may have a field of this name that the server does not index."""
        return any(above in self.closed for above in ("", *_above(name)))

    def enclosing(self, name: str) -> FieldType | None:
        """Return what a field lies inside of that is no plain object: its values are not found under its name."""
        around = (self.types[above] for above in _above(name) if above in self.types)
        return next((found for found in around if found.type != "object"), None)

    def first(self, names: Sequence[str]) -> str | None:
        """Return the first of these fields that the index has."""
        return next((name for name in names if name in self.types), None)


def _above(name: str) -> Iterator[str]:
    """Yield the names of what a field lies inside of."""
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts)))


def read_mapping(asked: str, reply: Mapping[str, Any] | None) -> ForeignFields:
    """Return the fields of an index from the answer to `GET /INDEX/_mapping`.

    Raises:
        LibraryError: there is no such index, or the name stands for several.
    """
    if not reply:
        raise LibraryError(asked, "there is no such index on the server", "the name of an index that has been filled")
    if len(reply) > 1:
        what = f"the name stands for {len(reply)} indices ({', '.join(sorted(reply))}), in which ids may be equal"
        raise LibraryError(asked, what, "one store for each of them, fused by rank")
    ((index, mapping),) = reply.items()
    mappings = mapping.get("mappings", {})
    return ForeignFields(
        index=index,
        types=dict(_types(mappings.get("properties", {}), "")),
        closed=frozenset(_closed(mappings, "", dynamic=True)),
    )


def _types(properties: Mapping[str, Any], above: str) -> Iterator[tuple[str, FieldType]]:
    for name, mapping in properties.items():
        path = f"{above}{name}"
        yield path, _type(path, mapping)
        yield from _types(mapping.get("properties", {}), f"{path}.")


def _type(path: str, mapping: Mapping[str, Any]) -> FieldType:
    kind = str(mapping.get("type", "object"))
    if kind == "dense_vector":
        how = str(mapping.get("index_options", {}).get("type", ""))
        return FieldType(
            type=kind,
            searchable=bool(mapping.get("index", True)),
            similarity=str(mapping.get("similarity", "cosine")),
            dim=mapping.get("dims"),
            quantised=how.startswith(_QUANTISED),
            floats=mapping.get("element_type", "float") in _FLOATS,
        )
    whole = {path: mapping} if kind in _WHOLE else {}
    whole |= {
        f"{path}.{name}": sub for name, sub in sorted(mapping.get("fields", {}).items()) if sub.get("type") in _WHOLE
    }
    # the fewer strings a field changes or leaves out, the better it holds them as they are
    changed = {
        name: (bool(sub.get("normalizer")), -float(sub.get("ignore_above", "inf"))) for name, sub in whole.items()
    }
    best = min(whole, key=lambda name: (*changed[name], name), default="")
    mapping = whole.get(best, {})
    return FieldType(
        type=kind,
        whole=best,
        longest=mapping.get("ignore_above"),
        folded=bool(mapping.get("normalizer")),
        searchable=bool(mapping.get("index", True)) or bool(mapping.get("doc_values", kind not in _WORDS)),
    )


def _closed(mapping: Mapping[str, Any], path: str, *, dynamic: bool) -> Iterator[str]:
    """Yield the objects in which fields may be that are not indexed."""
    given = mapping.get("dynamic")
    dynamic = dynamic if given is None else str(given).lower() in ("true", "runtime", "strict")
    if mapping.get("enabled", True) is False or not dynamic:
        yield path
    for name, inner in mapping.get("properties", {}).items():
        if "properties" in inner or inner.get("type", "object") == "object":
            yield from _closed(inner, f"{path}.{name}" if path else name, dynamic=dynamic)


def cosine_of(score: float, similarity: str, *, unit_vectors: bool = False) -> float | None:
    """Return the cosine for which a server gave a neighbour its score; None where the score does not tell it.

    cosine and dot_product: `2 s - 1`. Of vectors of unit length also l2_norm, `1 - d^2 / 2` with `d^2 = 1/s - 1`, and
    max_inner_product, `1 - 1/s` below 1 and `s - 1` from 1 on.

    Args:
        score: of the server, > 0.
        similarity: of the field's mapping.
        unit_vectors: whether all vectors of the field are known to have unit length.

    Source: Elasticsearch's reference, "Dense vector field type", parameter `similarity`.
    """
    if not isfinite(score) or score <= _UNLIKELY:
        return -1.0 if similarity in ("cosine", "dot_product") else None
    if similarity in ("cosine", "dot_product"):
        cosine = 2.0 * score - 1.0
    elif not unit_vectors:
        return None
    elif similarity == "l2_norm":
        cosine = 1.0 - (1.0 / score - 1.0) / 2.0
    elif similarity == "max_inner_product":
        cosine = score - 1.0 if score >= 1.0 else 1.0 - 1.0 / score
    else:
        return None
    return min(max(cosine, -1.0), 1.0)


MOST = 10_000  # hits of one request: the default window of servers, and their limit for neighbours
CANDIDATES = 100  # at least so many neighbours are looked at, per shard
OVERSAMPLE = 2.0  # neighbours found among rounded vectors that are compared exactly, per neighbour asked for
LONGEST_TERM = 6  # words of a critical term that is looked for in a question
MOST_TERMS = 512  # parts of a question that are looked up as critical terms

NO_DOCUMENT: Final = "None"  # written by LlamaIndex where a node is of no document
DOCUMENT_KEYS: Final = ("document_id", "ref_doc_id", "doc_id", "source", "file_path", "file_name")
"""Metadata that say of which document a hit is, the first that the index has, where nobody says which does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignIndex:
    """The fields of an index by their use; names of fields inside objects have dots.

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
            is_name = isinstance(value, str) and bool(value) and all(value.split("."))
            if not is_name and (value is not None or name == "text_field"):
                raise ParameterError(name, value, "the name of a field")

    @property
    def routes(self) -> tuple[str, ...]:
        """The routes that it can have."""
        dense = () if self.vector_field is None else ("dense",)
        return ("lexical", *dense, *(() if self.critical_field is None else ("keyword",)))

    @property
    def prefix(self) -> str:
        """The prefix of the names of metadata."""
        return "" if self.metadata_field is None else f"{self.metadata_field}."

    def document_fields(self) -> tuple[str, ...]:
        """Return where the document's id may stand, the first that is there."""
        if self.document_field is not None:
            return (self.document_field,)
        return tuple(f"{self.prefix}{key}" for key in DOCUMENT_KEYS)


def lexical_body(query: str, k: int, at: ForeignIndex, allowed: Clause) -> dict[str, Any]:
    """Return the request for the hits that share words with a question, by the server's own BM25."""
    return _body(k, at, {"match": {at.text_field: {"query": query}}}, allowed)


def dense_body(
    vector: NDArray[np.float32], k: int, at: ForeignIndex, field: FieldType, allowed: Clause
) -> dict[str, Any]:
    """Return the request for the neighbours of a vector; found among rounded ones, they are compared exactly."""
    knn: dict[str, Any] = {
        "field": at.vector_field,
        "query_vector": [float(number) for number in vector],
        "k": min(k, MOST),
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
    return _body(k, at, {"bool": {"should": each, "minimum_should_match": 1}}, allowed)


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


def _body(k: int, at: ForeignIndex, query: Clause, allowed: Clause = ALL) -> dict[str, Any]:
    scored = query if allowed == ALL else {"bool": {"must": [query], "filter": [allowed]}}
    return {**_frame(k, at), "query": scored}


def _frame(k: int, at: ForeignIndex) -> dict[str, Any]:
    hidden = [] if at.vector_field is None else [at.vector_field]
    return {"size": min(k, MOST), "track_total_hits": False, "_source": {"excludes": hidden}}


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
    is_position = isinstance(position, int) and not isinstance(position, bool) and position >= 0
    named = None if document is None else value_at(source, document)
    return Chunk(
        id=str(hit["_id"]),
        document_id=document_of(named) or str(hit["_id"]),
        position=cast(int, position) if is_position else 0,
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


_FIXED: Final[Mapping[str, Any]] = {"kind": "text"}  # of every chunk whose metadata do not say it
_RANGES = ("$gt", "$gte", "$lt", "$lte")
_OPPOSITES: Final[Mapping[str, str]] = {"$ne": "$eq", "$nin": "$in"}
IDS: Final = ("chunk_id", "document_id")
"""Fields of filters that are no metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterFields:
    """The places of the fields of filters in an index.

    Attributes:
        prefix: before the names of metadata, as "metadata."; "" where they stand at the top.
        document: the field that holds the document's id; None where hits are documents of their own.
    """

    fields: ForeignFields
    prefix: str
    document: str | None


def foreign_filter(where: Where, at: FilterFields) -> Clause:
    """Return a filter as a clause for the filter context.

    As `catena.model.filters` defines it, with what a foreign mapping makes of values: dates are compared as times, in
    the forms that the index takes.

    Raises:
        FilterError: it is malformed, or the index does not hold what it asks for.
    """
    check(where)
    return written(where, _Writer(where, at).operation)


@dataclass(frozen=True, slots=True)
class _Writer:
    whole: Where
    at: FilterFields

    def operation(self, key: str, operator: str, operand: Any) -> Clause:
        if operator in _OPPOSITES:
            return negated(self.operation(key, _OPPOSITES[operator], operand))
        if operator == "$contains":
            raise self.refused(key, "$contains cannot be obeyed: the index does not tell one string from several")
        if operator == "$eq":
            operator, operand = "$in", (operand,)
        if key in IDS:
            return self.of_id(key, operator, operand)
        around = self.at.fields.enclosing(f"{self.at.prefix}{key}")
        if around is not None:
            raise self.refused(key, f"it lies inside a field of the type {around.type}")
        found = self.at.fields.get(f"{self.at.prefix}{key}")
        if found is None:
            return self.of_absent(key, operator, operand)
        if operator == "$exists":
            there: Clause = {"exists": {"field": f"{self.at.prefix}{key}"}}
            return there if operand else negated(there)
        return self.of_values(key, operator, tuple(operand) if operator == "$in" else (operand,), found)

    def of_absent(self, key: str, operator: str, operand: Any) -> Clause:
        """Return the clause for a field that no document has."""
        if key in _FIXED:
            return ALL if matches({key: {operator: operand}}, _FIXED) else NONE
        if key == "path":
            raise self.refused(key, "it does not hold the headings above its texts")
        if self.at.fields.is_hidden(f"{self.at.prefix}{key}"):
            raise self.refused(key, "the index keeps such fields without indexing them (dynamic or enabled: false)")
        return ALL if operator == "$exists" and not operand else NONE

    def of_values(self, key: str, operator: str, operands: tuple[Any, ...], found: FieldType) -> Clause:
        """Return the clause for values that are compared: those of another kind than the field's equal none of it."""
        if not found.searchable or found.kind not in ("string", "number", "boolean", "date"):
            raise self.refused(
                key, f"its type in the index is {found.type}{'' if found.searchable else ', not indexed'}"
            )
        alike = [value for value in operands if _is_like(value, found)]
        for value in alike:
            self.check_value(key, operator, value, found)
        if not alike:
            return NONE
        field = found.whole if found.kind == "string" else f"{self.at.prefix}{key}"
        return _one_of(field, alike) if operator == "$in" else {"range": {field: {operator[1:]: alike[0]}}}

    def of_id(self, key: str, operator: str, operand: Any) -> Clause:
        """Return the clause for a chunk's id, which is the hit's, or for its document's."""
        if operator == "$exists":
            return ALL if operand else NONE
        if operator != "$in":
            raise self.refused(key, f"{operator} cannot be obeyed: ids are not ordered in the index")
        ids = [value for value in operand if isinstance(value, str)]
        return documents_clause(ids, self.at, self.whole) if key == "document_id" else ids_clause(ids)

    def check_value(self, key: str, operator: str, value: Any, found: FieldType) -> None:
        if isinstance(value, float) and not isfinite(value):
            raise self.refused(key, "an index compares with finite numbers only")
        if found.kind != "string":
            return
        if not found.whole:
            raise self.refused(key, f"its type in the index is {found.type}, words without a keyword beside them")
        if found.folded:
            raise self.refused(key, f"{found.whole} does not hold strings as they are (it has a normalizer)")
        if found.longest is None:
            return
        if operator in _RANGES:
            raise self.refused(key, f"{found.whole} lacks strings of more than {found.longest} characters")
        if _units(value) > found.longest:
            raise self.refused(key, f"{found.whole} holds strings of up to {found.longest} characters")

    def refused(self, key: str, why: str) -> FilterError:
        return FilterError(self.whole, f"field {key!r} of the index {self.at.fields.index}: {why}")


def documents_clause(ids: Sequence[str], at: FilterFields, where: Where) -> Clause:
    """Return the clause for the hits of given documents; a hit that names none is a document of its own.

    Raises:
        FilterError: the index does not hold the documents' ids as they are.
    """
    if at.document is None:
        return ids_clause(ids)
    found = at.fields.types[at.document]
    if found.kind != "string" or not found.whole or found.folded:
        raise FilterError(where, f"{at.document} of the index {at.fields.index} does not hold ids as they are")
    longest = found.longest
    if longest is not None and any(_units(value) > longest for value in ids):
        raise FilterError(where, f"{found.whole} of {at.fields.index} holds ids of up to {longest} characters")
    named = [value for value in ids if value != NO_DOCUMENT]
    unnamed = any_of([negated({"exists": {"field": at.document}}), _one_of(found.whole, [NO_DOCUMENT])])
    return any_of([*([_one_of(found.whole, named)] if named else []), all_of([unnamed, ids_clause(ids)])])


def ids_clause(ids: Iterable[str]) -> Clause:
    """Return the clause for given hits."""
    values = sorted(set(ids))
    return {"ids": {"values": values}} if values else NONE


def _is_like(value: Any, found: FieldType) -> bool:
    """Return whether a value is of the kind that the field holds: others never equal any of it."""
    if isinstance(value, bool):
        return found.kind == "boolean"
    if isinstance(value, str):
        return found.kind in ("string", "date")
    return found.kind == "number"


def _one_of(field: str, values: Iterable[Any]) -> Clause:
    return terms_clause(field, sorted(set(values), key=str))


def _units(text: str) -> int:
    """Return the length of a string as servers count it: in units of UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
