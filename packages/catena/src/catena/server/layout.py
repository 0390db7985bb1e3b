"""How a library lies on a server: the names of its indices, and of the fields of what is in them.

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
    vectors.KIND                      dense_vector, written as a list or as a `wire.packed` string
    several_KIND                      nested, of a kind of which a chunk may have more than one: `words`, `vector`
    page_labels                       kept in the source only: printed on its first and its last page
    text, metadata, views             kept in the source only; `views`: [kind, text, made] of each view, in order
    embedded                          kept in the source only: of which kind of view the default vectors were made,
                                      as `catena.model.vectors.embedded_view` says
    rows, said                        kept in the source only, for `contents`: of each vector, in order, its kind, the
                                      digest of its text and whether it is there; the terms in their own order

What is kept (`path`, `page_labels`, `text`, `metadata`, and of a document its title and source) stands as
`wire.sendable` writes it, and whoever reads it takes `wire.restored`. A view's text is null where it is the
chunk's own.

All text is tokenised here, not by the server's analysis: the same words are counted as in the embedded library, and a
server without analysis plugins ranks the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import quote

from annotated_types import Ge

from catena.model.errors import LibraryError, ParameterError
from catena.model.options import as_tuples, check_options
from catena.model.vectors import DEFAULT

FORMAT = 1  # raise it when fields change: an index set of another format is refused, not misread
REPEAT = "\x1f"  # between a term and the number of its repetition: stands in no normalised term
META = "catena"  # under which an index says what it is, in `mappings._meta`

VectorIndex: TypeAlias = Literal["int8_hnsw", "bbq_hnsw", "hnsw", "flat"]
Part: TypeAlias = Literal["chunks", "documents", "ledger", "graph"]

_VECTOR_INDEXES = ("int8_hnsw", "bbq_hnsw", "hnsw", "flat")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLayout:
    """What one index set is: written into the mapping of its chunks when it is made.

    Attributes:
        dim: length of the vectors.
        embedder: identity of the model that made them.
        vector_index: how vectors are kept and searched; OpenSearch keeps them as "hnsw", see `dialect.kept_as`.
        several: kinds of view (DEFAULT for the chunks' default vectors) of which a chunk may have more than one; they
            are nested documents, and the best of them counts (MaxP).
        shards, replicas: of chunks and graph.
        packed: whether the server that holds the set takes vectors as `wire.packed` strings: `open_layout` knows.
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
        said = {"format": FORMAT, **asdict(self), "several": list(self.several)}
        del said["packed"]  # a matter of the server, not of what lies on it
        return said

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


def quoted(name: str) -> str:
    """Return a name as it stands in the path of a call."""
    return quote(name, safe="")


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
