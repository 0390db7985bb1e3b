"""The fields of an index that others have made, as its mapping says: their types, and what a score tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Literal, TypeAlias

from catena.model.errors import LibraryError

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
    """What one field of an index is.

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
        """What its values are."""
        return _KINDS.get(self.type, "other")

    @property
    def has_words(self) -> bool:
        """Whether the server cuts it into words."""
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
        """Whether documents may have a field of this name that the server does not index."""
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
    ((index, said),) = reply.items()
    mappings = said.get("mappings", {})
    return ForeignFields(
        index=index,
        types=dict(_types(mappings.get("properties", {}), "")),
        closed=frozenset(_closed(mappings, "", dynamic=True)),
    )


def _types(properties: Mapping[str, Any], above: str) -> Iterator[tuple[str, FieldType]]:
    for name, said in properties.items():
        path = f"{above}{name}"
        yield path, _type(path, said)
        yield from _types(said.get("properties", {}), f"{path}.")


def _type(path: str, said: Mapping[str, Any]) -> FieldType:
    kind = str(said.get("type", "object"))
    if kind == "dense_vector":
        how = str(said.get("index_options", {}).get("type", ""))
        return FieldType(
            type=kind,
            searchable=bool(said.get("index", True)),
            similarity=str(said.get("similarity", "cosine")),
            dim=said.get("dims"),
            quantised=how.startswith(_QUANTISED),
            floats=said.get("element_type", "float") in _FLOATS,
        )
    whole = {path: said} if kind in _WHOLE else {}
    whole |= {
        f"{path}.{name}": sub for name, sub in sorted(said.get("fields", {}).items()) if sub.get("type") in _WHOLE
    }
    best = min(whole, key=lambda name: (*_fitness(whole[name]), name), default="")
    held = whole.get(best, {})
    return FieldType(
        type=kind,
        whole=best,
        longest=held.get("ignore_above"),
        folded=bool(held.get("normalizer")),
        searchable=bool(said.get("index", True)) or bool(said.get("doc_values", kind not in _WORDS)),
    )


def _fitness(said: Mapping[str, Any]) -> tuple[bool, float]:
    """Return what is smaller the better a field holds strings as they are."""
    return bool(said.get("normalizer")), -float(said.get("ignore_above", "inf"))


def _closed(said: Mapping[str, Any], path: str, *, dynamic: bool) -> Iterator[str]:
    """Yield the objects in which fields may be that are not indexed."""
    given = said.get("dynamic")
    dynamic = dynamic if given is None else str(given).lower() in ("true", "runtime", "strict")
    if said.get("enabled", True) is False or not dynamic:
        yield path
    for name, inner in said.get("properties", {}).items():
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
