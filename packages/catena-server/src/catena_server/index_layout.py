"""Name the indices and fields in which a library is kept on a server, and write their settings and mappings.

An index set of the name N is four indices behind aliases: `N-chunks`, `N-documents`, `N-ledger` and `N-graph`. Each
alias points to one index `N-chunks-GENERATION`, so that a set can be built anew beside the one that is searched.

A chunk is one document of `N-chunks`, under the chunk's id:

    id                                keyword, only to be sorted by: the chunk's id, which settles ties
    document, kind, path              keyword (`path`: all headings above it)
    position, section, start, end, first_page, last_page, first_line, last_line    integers
    terms                             keyword: its critical terms; one that weighs w stands w times, see `repeated`
    terms_unspaced                    keyword: the same without spaces, each once
    facets.s|n|b.KEY                  what filters see besides: strings, numbers, truth values; see `facet_fields`
    words.KIND                        text: `indexed_words(view)`, cut at white space by the server
    vectors.KIND                      dense_vector, written as a list or as a `encoding.packed` string
    several_KIND                      nested, of a kind of which a chunk may have more than one: `words`, `vector`
    page_labels                       kept in the source only: printed on its first and its last page
    text, metadata, views             kept in the source only; `views`: [kind, text, made] of each view, in order
    embedded                          kept in the source only: of which kind of view the default vectors were made,
                                      as `catena.model.vectors.embedded_view` says
    rows, said                        kept in the source only, for `contents`: of each vector, in order, its kind, the
                                      digest of its text and whether it is there; the terms in their own order

What is kept (`path`, `page_labels`, `text`, `metadata`, and of a document its title and source) stands as
`encoding.sendable` writes it, and whoever reads it takes `encoding.restored`. A view's text is null where it is the
chunk's own.

A document has a record in `N-documents`, under `record_id`; its pieces of text and figures lie there, too:

    record                            keyword: "document", "text" or "figure"
    document                          keyword: the document's id
    title, source, fingerprint, state keyword; `state` is "writing" or "whole", see `writing`
    chunks, pages, pieces, figures    integers: how many it has
    names, name_patterns              keyword: `names_of(title)` and `patterns_of` these
    rest                              kept in the source only: all else of an entry, the ids of its chunks, in order,
                                      and while it is written `earlier`: ids that older versions may have left
    piece, start                      integers of a piece: its number, and its first code point in the text
    text, figure                      kept in the source only

A line of the ledger stands in `N-ledger` under the digest of its source: `key`, `source`, `document`, `state`, and in
the source only the whole `outcome`.

No field is mapped by its content, but the facets; what is not mapped is kept in the source. So nothing in a document
can be refused: a keyword that is longer than a server takes (32,766 bytes) is not indexed, but kept; facets, of
which filters promise to be exact, are cut by `filters`.

All text is tokenised here, not by the server's analysis: the same words are counted as in the embedded library, and a
server without analysis plugins ranks the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import quote

from annotated_types import Ge

from catena.model import DEFAULT, LibraryError, ParameterError, as_tuples, check_options
from catena_server.calls import Flavour

FORMAT = 1  # raise it when fields change: an index set of another format is refused, not misread
REPEAT = "\x1f"  # between a term and the number of its repetition: stands in no normalised term
META = "catena"  # under which an index says what it is, in `mappings._meta`

VectorIndex: TypeAlias = Literal["int8_hnsw", "bbq_hnsw", "hnsw", "flat"]
Part: TypeAlias = Literal["chunks", "documents", "ledger", "graph"]

_VECTOR_INDEXES = ("int8_hnsw", "bbq_hnsw", "hnsw", "flat")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLayout:
    """The description of one index set, written into the mapping of its chunks when it is made.

    Attributes:
        dim: length of the vectors.
        embedder: identity of the model that made them.
        vector_index: how vectors are kept and searched; OpenSearch keeps them as "hnsw", see `kept_as`.
        several: kinds of view (DEFAULT for the chunks' default vectors) of which a chunk may have more than one; they
            are nested documents, and the best of them counts (MaxP).
        shards, replicas: of chunks and graph.
        packed: whether the server that holds the set takes vectors as `encoding.packed` strings: `open_layout` knows.
    """

    name: str
    dim: Annotated[int, Ge(1)]
    embedder: str
    vector_index: VectorIndex = "int8_hnsw"
    several: tuple[str, ...] = ()
    shards: Annotated[int, Ge(1)] = 1
    replicas: Annotated[int, Ge(0)] = 0
    packed: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        as_tuples(self, "several")
        check_options(self)
        check_name(self.name)
        object.__setattr__(self, "several", tuple(sorted(set(self.several))))

    def alias(self, part: Part) -> str:
        """Return the alias under which a part of the set is found."""
        return f"{self.name}-{part}"

    def words(self, kind: str) -> str:
        """Return the field that holds the words of a kind of view."""
        return f"several_{field_name(kind)}.words" if kind in self.several else f"words.{field_name(kind)}"

    def vector(self, kind: str = DEFAULT) -> str:
        """Return the field that holds the vectors made from a kind of view."""
        return f"several_{field_name(kind)}.vector" if kind in self.several else f"vectors.{field_name(kind)}"

    def nested(self, kind: str) -> str | None:
        """Return the path of the nested documents of a kind of view, None where it has none."""
        return f"several_{field_name(kind)}" if kind in self.several else None

    def to_meta(self) -> dict[str, Any]:
        """Return what an index says of itself."""
        meta = {"format": FORMAT, **asdict(self), "several": list(self.several)}
        del meta["packed"]  # a matter of the server, not of what lies on it
        return meta

    @classmethod
    def from_meta(cls, index: str, meta: Mapping[str, Any] | None) -> IndexLayout:
        """Return the layout that an index says it has.

        Raises:
            LibraryError: it is no index of Catena, or one of another format.
        """
        if not meta or "format" not in meta:
            do_next = "another name, or the factories for indices that others have filled"
            raise LibraryError(index, "it exists, and Catena did not make it; nothing was changed", do_next)
        if meta["format"] != FORMAT:
            what = f"it is of format {meta['format']}, this version reads {FORMAT}; nothing was changed"
            raise LibraryError(index, what, "the version of Catena that made it, or index the files anew")
        fields = {key: meta[key] for key in meta if key != "format"}
        try:
            return cls(**{**fields, "several": tuple(fields.get("several", ()))})
        except (TypeError, ParameterError) as error:
            what = f"what it says of itself cannot be read ({error}); nothing was changed"
            raise LibraryError(index, what, "index the files anew, under another name") from None


def check_name(name: str) -> None:
    """Raise `ParameterError` for a name that a server takes for no index."""
    bad = set(name) & set('\\/*?"<>| ,#:') if isinstance(name, str) else ()
    if not isinstance(name, str) or not name or name != name.lower() or name[0] in "-_+." or bad or len(name) > 150:
        allowed = (
            "lower case, up to 150 characters, not beginning with - _ + . and without spaces or "
            '\\ / * ? " < > | , # :'
        )
        raise ParameterError("name", name, allowed)


def field_name(kind: str) -> str:
    """Return the name of the field of a kind of view, safe for any kind: "default" for the default vectors."""
    return "default" if kind == DEFAULT else f"of_{safe_key(kind)}"


@lru_cache(maxsize=4_096)
def safe_key(key: str) -> str:
    """Return any string as a field name: no dots, which would make objects; equal only for equal keys."""
    return quote(key, safe="", errors="surrogatepass").replace(".", "%2E") or "%"


def repeated(terms: Iterable[str]) -> list[str]:
    """Return critical terms as they are indexed: the second "esp32" is "esp32", REPEAT and "2", and so on.

    So a chunk in which a term weighs w holds w different values, and |C| is the number of the values that are asked
    for and that it holds: no script need count.
    """
    seen: Counter[str] = Counter()
    values = []
    for term in terms:
        seen[term] += 1
        values.append(term if seen[term] == 1 else f"{term}{REPEAT}{seen[term]}")
    return sorted(values)


Body = dict[str, Any]

PARTS: Final[tuple[Part, ...]] = ("documents", "ledger", "chunks")  # chunks last: they say what the set is
LONGEST_KEYWORD = 8_191  # UTF-16 units, of at most 4 bytes: a longer one is not indexed instead of refused
MOST_FIELDS = 10_000  # of the chunks: metadata of many keys gives each of them a facet
FACETS: Final[Mapping[str, str]] = MappingProxyType(
    {"s": "keyword", "long": "keyword", "parts": "keyword", "n": "double", "i": "keyword", "b": "boolean"}
)
"""The type of all fields `facets.GROUP.KEY`, by group; besides them `facets.has` and `facets.many` are keywords."""
_KEYWORD: Final[Body] = {"type": "keyword", "ignore_above": LONGEST_KEYWORD}
_WORDS: Final[Body] = {"type": "text", "analyzer": "whitespace", "index_options": "freqs"}
_KEPT: Final[Body] = {"type": "object", "enabled": False}  # in the source only, whatever it is
_INTEGERS = ("position", "section", "start", "end", "first_page", "last_page", "first_line", "last_line")


def kept_as(layout: IndexLayout, flavour: Flavour) -> IndexLayout:
    """Return the layout as a kind of server keeps it: OpenSearch holds vectors as full floats, in a graph.

    Raises:
        ParameterError: the server cannot keep vectors so.
    """
    if flavour == "elasticsearch" or layout.vector_index == "hnsw":
        return layout
    if layout.vector_index != "int8_hnsw":  # the default, for which full floats do as well
        raise ParameterError("vector_index", layout.vector_index, '"hnsw" on OpenSearch')
    return replace(layout, vector_index="hnsw")


def vector_mapping(flavour: Flavour, layout: IndexLayout) -> dict[str, Any]:
    """Return the mapping of one field of vectors, compared by their cosine."""
    if flavour == "elasticsearch":
        index = {"type": layout.vector_index}
        return {"type": "dense_vector", "dims": layout.dim, "similarity": "cosine", "index_options": index}
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
    return {"type": "knn_vector", "dimension": layout.dim, "method": method}


def index_body(part: Part, layout: IndexLayout, flavour: Flavour) -> Body:
    """Return the body by which one of `PARTS` is made: settings and mappings, no alias. A graph makes its own.

    Words are `text` that the server cuts at white space, with frequencies and no positions, ranked by its default
    BM25 (k1 = 1.2, b = 0.75).
    """
    shards = layout.shards if part == "chunks" else 1
    settings: Body = {"index.number_of_shards": shards, "index.number_of_replicas": layout.replicas}
    if part == "chunks":
        settings["index.mapping.total_fields.limit"] = MOST_FIELDS
        if flavour == "opensearch":
            settings["index.knn"] = True
    return {"settings": settings, "mappings": _MAPPINGS[part](layout, flavour)}


def kinds_body(kinds: Collection[str], layout: IndexLayout, flavour: Flavour) -> Body:
    """Return the body that adds kinds of view to the chunks; one that is there already stays as it is."""
    return {"properties": _kinds(kinds, layout, flavour)}


def other_fields(mappings: Mapping[str, Any], layout: IndexLayout) -> tuple[str, ...]:
    """Return the fields of an index of chunks that are not what `index_body` and `kinds_body` make them, sorted."""
    found = dict(_fields(mappings.get("properties", {})))
    wanted = {path: _kind(field) for path, field in _fields(_chunks(layout, "elasticsearch")["properties"])}
    wanted |= {path: "text" for path in found if path.startswith("words.")}
    wanted |= {path: f"vector of {layout.dim}" for path in found if path.startswith("vectors.")}
    return tuple(sorted(path for path in found.keys() & wanted.keys() if _kind(found[path]) != wanted[path]))


def _fields(properties: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, about in properties.items():
        yield above + name, about
        yield from _fields(about.get("properties", {}), f"{above}{name}.")


def _kind(field: Mapping[str, Any]) -> str:
    """Return a field's type, the same for both flavours of a vector."""
    dims = field.get("dims", field.get("dimension"))
    return str(field.get("type", "object")) if dims is None else f"vector of {dims}"


def _kinds(kinds: Collection[str], layout: IndexLayout, flavour: Flavour) -> Body:
    words: Body = {}
    vectors: Body = {}
    properties: Body = {}
    for kind in sorted(set(kinds)):
        nested, vector = layout.nested(kind), vector_mapping(flavour, layout)
        if nested is not None:
            fields = {"words": dict(_WORDS), "vector": vector} if kind != DEFAULT else {"vector": vector}
            properties[nested] = {"type": "nested", "dynamic": False, "properties": fields}
            continue
        vectors[field_name(kind)] = vector
        if kind != DEFAULT:
            words[field_name(kind)] = dict(_WORDS)
    groups = {"words": words, "vectors": vectors}
    return properties | {name: {"properties": fields} for name, fields in groups.items() if fields}


def _chunks(layout: IndexLayout, flavour: Flavour) -> Body:
    keywords = ("document", "kind", "path", "terms", "terms_unspaced")
    return {
        "dynamic": False,
        "_meta": {META: layout.to_meta()},
        "dynamic_templates": [
            {group: {"path_match": f"facets.{group}.*", "mapping": _facet(kind)}} for group, kind in FACETS.items()
        ],
        "properties": {
            **{name: dict(_KEYWORD) for name in keywords},
            **{name: {"type": "integer"} for name in _INTEGERS},
            "id": {"type": "keyword", "index": False},
            "facets": {
                "dynamic": True,
                "properties": {
                    **{name: dict(_KEYWORD) for name in ("has", "many")},
                    **{group: {"type": "object", "dynamic": True} for group in FACETS},
                },
            },
            **{name: dict(_KEPT) for name in ("metadata", "views", "rows", "said", "embedded")},
            "words": {"properties": {}},
            **_kinds((DEFAULT,), layout, flavour),
        },
    }


def _facet(kind: str) -> Body:
    return dict(_KEYWORD) if kind == "keyword" else {"type": kind}


def _documents(layout: IndexLayout, flavour: Flavour) -> Body:
    keywords = ("record", "document", "title", "source", "fingerprint", "state", "names", "name_patterns")
    return {
        "dynamic": False,
        "properties": {
            **{name: dict(_KEYWORD) for name in keywords},
            **{name: {"type": "integer"} for name in ("chunks", "pieces", "figures", "pages", "piece", "start")},
            "rest": dict(_KEPT),
            "figure": dict(_KEPT),
        },
    }


def _ledger(layout: IndexLayout, flavour: Flavour) -> Body:
    keywords = ("source", "document", "state")
    return {
        "dynamic": False,
        "properties": {**{name: dict(_KEYWORD) for name in keywords}, "key": dict(_KEYWORD), "outcome": dict(_KEPT)},
    }


_MAPPINGS = {"chunks": _chunks, "documents": _documents, "ledger": _ledger}
