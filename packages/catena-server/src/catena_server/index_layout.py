"""Name the indices and fields in which a library is kept on a server, write their mappings, and make and open them.

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
    languages                         keyword: `language_mark` of each language and kind of view of these words
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
    words                             text: `indexed_words` of title and text, of a document that is whole; not kept
                                      in the source
    languages                         keyword: `language_mark` of these words
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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from annotated_types import Ge

from catena import LibraryError, ServerError
from catena.effects import Step, ask
from catena.model import DEFAULT, ModelMismatchError, ParameterError, ServiceError, as_tuples, check_options
from catena.store import WHOLE
from catena_server.calls import Call, Flavour, quoted

FORMAT = 2  # raise it when fields change: an index set of another format is refused, not misread
REPEAT = "\x1f"  # between a term and the number of its repetition: stands in no normalised term
META = "catena"  # under which an index says what it is, in `mappings._meta`

VectorIndex: TypeAlias = Literal["int8_hnsw", "bbq_hnsw", "hnsw", "flat"]
Part: TypeAlias = Literal["chunks", "documents", "ledger", "graph"]


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
        """Return the field that holds the words of a kind of view, or of `WHOLE` documents."""
        if kind == WHOLE:
            return "words"
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


def language_mark(language: str, kind: str) -> str:
    """Return what says that texts of a kind, views or `WHOLE` documents, are in a language."""
    return f"{language} {kind}"


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
SECTION_FIELDS = ("id", "level", "title", "path", "start", "body_start", "end", "tree_end", "parent")
"""What is kept of a section, a list in the record's `rest`."""
INTEGERS = ("position", "section", "start", "end", "first_page", "last_page", "first_line", "last_line")


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
    keywords = ("document", "kind", "path", "terms", "terms_unspaced", "languages")
    types = {"keyword": dict(_KEYWORD)}
    return {
        "dynamic": False,
        "_meta": {META: layout.to_meta()},
        "dynamic_templates": [
            {group: {"path_match": f"facets.{group}.*", "mapping": types.get(kind, {"type": kind})}}
            for group, kind in FACETS.items()
        ],
        "properties": {
            **{name: dict(_KEYWORD) for name in keywords},
            **{name: {"type": "integer"} for name in INTEGERS},
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


def _documents(layout: IndexLayout, flavour: Flavour) -> Body:
    about = ("record", "document", "title", "source", "fingerprint", "state")
    return {
        "dynamic": False,
        "_source": {"excludes": ["words"]},
        "properties": {
            **{name: dict(_KEYWORD) for name in (*about, "names", "name_patterns", "languages")},
            "words": dict(_WORDS),
            **{name: {"type": "integer"} for name in ("chunks", "pieces", "figures", "pages", "piece", "start")},
            "rest": dict(_KEPT),
            "figure": dict(_KEPT),
        },
    }


def _ledger(layout: IndexLayout, flavour: Flavour) -> Body:
    keywords = {name: dict(_KEYWORD) for name in ("source", "document", "state", "key")}
    return {"dynamic": False, "properties": {**keywords, "outcome": dict(_KEPT)}}


_MAPPINGS = {"chunks": _chunks, "documents": _documents, "ledger": _ledger}


T = TypeVar("T")

FIRST = 1  # generation
_EXISTS = "resource_already_exists_exception"
_TAKEN = "invalid_alias_name_exception"
_PACKED_SINCE = 9_060_000  # as Elasticsearch 9.3 calls its indices (IndexVersions.csv)
_OPENSEARCH = 0x0800_0000  # from here on versions are those of OpenSearch, which takes lists
_LOADED: tuple[Part, ...] = ("chunks", "documents")


def index_name(alias: str, generation: int) -> str:
    """Return the name of the index behind an alias."""
    return f"{alias}-{generation}"


def create(layout: IndexLayout, flavour: Flavour) -> Step[IndexLayout]:
    """Make the indices of a set, with their aliases, and return the layout that is there now.

    What a run that was killed has made is taken over: the chunks are made last, and only they say that a set is
    there.

    Raises:
        ParameterError: the server cannot keep vectors as the layout says.
        LibraryError: a set of another layout, or something else, is there already.
        ModelMismatchError: so is a set of another model.
    """
    layout = kept_as(layout, flavour)
    return (yield from make_all(layout, flavour, layout, FIRST))


def make_all(layout: IndexLayout, flavour: Flavour, of: IndexLayout, generation: int) -> Step[IndexLayout]:
    """Make the indices of a generation of the set `of` behind the aliases of a layout, and return what is there now.

    Raises:
        LibraryError, ModelMismatchError: as in `create`.
    """
    for part in PARTS:
        yield from make_index(part, layout, flavour, index_name(of.alias(part), generation), layout.alias(part))
    found = yield from open_layout(layout.name)
    if found is None:
        raise LibraryError(layout.name, "its indices were made, and are gone again", "the same again")
    check_layout(found, layout)
    return found


def make_index(part: Part, layout: IndexLayout, flavour: Flavour, index: str, alias: str) -> Step[None]:
    """Make one index behind an alias; one of that name that is there stays as it is."""
    body = index_body(part, layout, flavour) | {"aliases": {alias: {}}}
    try:
        yield from ask([Call(method="PUT", path=f"/{quoted(index)}", body=body, purpose="making an index")])
    except ServerError as error:
        if error.kind == _TAKEN:
            what = "an index of others has this name; nothing of it was changed"
            raise LibraryError(alias, what, "another name for the set") from None
        if error.kind != _EXISTS:
            raise


def open_layout(name: str) -> Step[IndexLayout | None]:
    """Return what the set of a name says it is, None where there is none.

    Raises:
        LibraryError: there is something of that name which is no set of Catena, or one of another format or
            of other fields.
    """
    alias = f"{name}-chunks"
    (found,) = yield from ask([Call(method="GET", path=f"/{quoted(alias)}", missing_ok=True, purpose="opening")])
    if not found:
        return None
    if len(found) > 1:
        what = f"its alias leads to {len(found)} indices ({', '.join(sorted(found))}); nothing was changed"
        raise LibraryError(alias, what, "leave the alias on one of them")
    about: Mapping[str, Any] = next(iter(found.values()))
    layout = IndexLayout.from_meta(alias, (about.get("mappings", {}).get("_meta") or {}).get(META))
    if others := other_fields(about.get("mappings", {}), layout):
        what = f"others have mapped its {', '.join(others)} otherwise than Catena does; nothing was changed"
        raise LibraryError(alias, what, "another name, or index the files anew")
    # after `rebuilding`, the index still says under which name it was built
    return replace(layout, name=name, packed=takes_packed(about.get("settings", {})))


def takes_packed(settings: Mapping[str, Any]) -> bool:
    """Return whether vectors of an index may be written packed, by what it says of the version it was made in.

    An index is made in the oldest version of its cluster, and no older node can join later; so that is what all nodes
    know at least. Who may read the index's settings may read it, where the server's own version is often forbidden.
    """
    version = settings.get("index", {}).get("version", {})
    made = str(version.get("created", "")) if isinstance(version, Mapping) else ""
    return made.isdecimal() and _PACKED_SINCE <= int(made) < _OPENSEARCH


def open_or_create(
    name: str, wanted: IndexLayout | None, flavour: Flavour, *, make: bool = True
) -> Step[IndexLayout]:
    """Return the layout of the set that is there, or make it where there is none.

    Args:
        name: of the set.
        wanted: how a set is made, and which model its vectors are of; None takes the one that is there.
        flavour: of the server.
        make: False refuses to make one.

    Raises:
        LibraryError: something else is there, or there is nothing and nothing may be made.
        ModelMismatchError: it holds vectors of another model.
    """
    found = yield from open_layout(name)
    if found is None:
        if wanted is None or not make:
            what = "the server has no index set of this name; nothing was made"
            raise LibraryError(name, what, "create=True, with the embedder whose vectors it is to hold")
        return (yield from create(wanted, flavour))
    if wanted is not None:
        check_model(found, embedder=wanted.embedder, dim=wanted.dim)
    return found


def check_model(found: IndexLayout, *, embedder: str, dim: int) -> None:
    """Raise `ModelMismatchError` unless a set is for the vectors of this model."""
    if (found.embedder, found.dim) != (embedder, dim):
        what = (
            f"it holds vectors of {found.embedder!r} ({found.dim} numbers each), the given model is {embedder!r}"
            f" ({dim}); nothing was changed"
        )
        raise ModelMismatchError(found.name, what, f"{found.embedder!r}, another name, or rebuild: all files anew")


def check_layout(found: IndexLayout, wanted: IndexLayout) -> None:
    """Raise unless a set lies as is wanted."""
    check_model(found, embedder=wanted.embedder, dim=wanted.dim)
    if found != wanted:
        fields = ("vector_index", "several", "shards", "replicas")
        differ = [
            f"{name} is {getattr(found, name)!r}, not {getattr(wanted, name)!r}"
            for name in fields
            if getattr(found, name) != getattr(wanted, name)
        ]
        what = f"it is there already, and {'; '.join(differ)}; nothing was changed"
        raise LibraryError(found.name, what, "open it as it is, take another name, or rebuild")


def ensure_kinds(kinds: Collection[str], layout: IndexLayout, flavour: Flavour) -> Step[None]:
    """Add the fields of kinds of view to the chunks; those that are there stay as they are."""
    if kinds:
        body = kinds_body(kinds, layout, flavour)
        path = f"/{quoted(layout.alias('chunks'))}/_mapping"
        yield from ask([Call(method="PUT", path=path, body=body, purpose="kinds of view")])


def refresh(layout: IndexLayout, parts: Sequence[Part] = PARTS) -> Step[None]:
    """Let searches see all that was written."""
    aliases = ",".join(quoted(layout.alias(part)) for part in PARTS if part in parts)
    yield from ask([Call(method="POST", path=f"/{aliases}/_refresh", purpose="refresh")])


def loading(step: Step[T], layout: IndexLayout) -> Step[T]:
    """Do much writing: without refreshes and replicas, which `settle` brings back whether it succeeds or fails.

    A run that is killed leaves the set without them: the next `loading`, or `settle` alone, brings them back.
    """
    yield from _set(layout, refresh_interval="-1", replicas=0)
    try:
        result = yield from step
    except GeneratorExit:  # the run was given up: nothing can be asked any more
        raise
    except BaseException:
        with suppress(ServiceError):  # the first error says more
            yield from settle(layout)
        raise
    yield from settle(layout)
    return result


def settle(layout: IndexLayout) -> Step[None]:
    """Set refreshes and replicas as the layout says, and let searches see all that was written."""
    yield from _set(layout, refresh_interval=None, replicas=layout.replicas)
    yield from refresh(layout)


def _set(layout: IndexLayout, *, refresh_interval: str | None, replicas: int) -> Step[None]:
    index = {"refresh_interval": refresh_interval, "number_of_replicas": replicas}
    path = "/" + ",".join(quoted(layout.alias(part)) for part in _LOADED) + "/_settings"
    yield from ask([Call(method="PUT", path=path, body={"index": index}, purpose="settings")])
