"""What differs between Elasticsearch and OpenSearch when they are asked: where neighbours stand, and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from catena.model.errors import ParameterError, ServerError
from catena.server.call import Flavour
from catena.server.layout import IndexLayout

Query: TypeAlias = Mapping[str, Any]  # a clause of the servers' query language

MOST = 10_000  # rows, neighbours and candidates of one request: the servers' own default limit
MOST_TERMS = 65_536  # values in one "terms" clause: the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The k vectors of a field nearest to one of the query.

    Attributes:
        nested: path of the nested documents that hold the field; their best counts.
        candidates: vectors looked at per shard, in [k, MOST].
        oversample: so many times k are compared by their full floats, where vectors are kept in fewer bits.
        boost: weight of `(1 + cos) / 2` in the sum of scores.
        name: under which the part of the score is returned; never of nested vectors by Elasticsearch.
    """

    field: str
    vector: Sequence[float]
    k: int
    candidates: int
    oversample: float = 2.0
    nested: str | None = None
    filters: Sequence[Query] = ()
    boost: float = 1.0
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one kind of server is asked.

    Attributes:
        bm25_unit: a BM25 of the server times it is the embedded library's, which has the factor (k1 + 1): so has
            Elasticsearch, which kept Lucene's older similarity; OpenSearch 3 took the newer one.
        names_nested: whether the part of nested vectors is returned under its name.
    """

    flavour: Flavour
    bm25_unit: float = 1.0
    names_nested: bool = False

    def body(
        self, *, nearest: Nearest | None = None, should: Sequence[Query] = (), filters: Sequence[Query] = ()
    ) -> dict[str, Any]:
        """Return "query" and "knn" of a search: a chunk's score is the sum of all parts that it matches.

        A filter is part of each: it does not cut the neighbours that were found, it says among which they are sought.
        """
        beside = nearest is not None and self.flavour == "elasticsearch"
        clauses = list(should) if nearest is None or beside else [*should, _clause(nearest)]
        query = {"bool": {"should": clauses, "minimum_should_match": 1, **_filter(filters)}}
        return {**({"query": query} if clauses else {}), **({"knn": _beside(nearest)} if nearest and beside else {})}


ELASTICSEARCH = Dialect(flavour="elasticsearch")
OPENSEARCH = Dialect(flavour="opensearch", bm25_unit=2.2, names_nested=True)


def dialect_of(flavour: Flavour) -> Dialect:
    """Return how a kind of server is asked."""
    return OPENSEARCH if flavour == "opensearch" else ELASTICSEARCH


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


def explained(error: ServerError) -> ServerError:
    """Return the error of a search for vectors, saying what is missing where the server has no vectors at all."""
    unknown = ("unknown query [knn]", "is not knn_vector type", "no handler for type [knn_vector]")
    if not any(words in error.what for words in unknown):
        return error
    what = (
        "it has no vectors (the k-NN plugin is not installed, or the index was made without it), so the dense route "
        f"cannot be asked; words and terms can. Install opensearch-knn and build the index anew ({error.what})"
    )
    return ServerError(error.service, what, status=error.status, kind=error.kind)


def _filter(filters: Sequence[Query]) -> dict[str, Any]:
    return {"filter": list(filters)} if filters else {}


def _named(nearest: Nearest) -> dict[str, Any]:
    named = {"_name": nearest.name} if nearest.name else {}
    return {**({"boost": nearest.boost} if nearest.boost != 1.0 else {}), **named}


def _beside(nearest: Nearest) -> dict[str, Any]:
    """Return the neighbours as Elasticsearch takes them: beside the query, so k is that of all shards together."""
    return {
        "field": nearest.field,
        "query_vector": list(nearest.vector),
        "k": nearest.k,
        "num_candidates": nearest.candidates,
        "rescore_vector": {"oversample": nearest.oversample},
        **_filter(nearest.filters),
        **_named(nearest),
    }


def _clause(nearest: Nearest) -> dict[str, Any]:
    """Return the neighbours as OpenSearch takes them: a clause of the query, k for each shard.

    Its Lucene engine compares full floats and needs no second look at them.
    """
    inner = {"vector": list(nearest.vector), "k": nearest.k}
    filters = {"filter": {"bool": {"filter": list(nearest.filters)}}} if nearest.filters else {}
    if nearest.nested is None:
        return {"knn": {nearest.field: {**inner, **filters, **_named(nearest)}}}
    query = {"knn": {nearest.field: {**inner, **filters}}}
    return {"nested": {"path": nearest.nested, "score_mode": "max", "query": query, **_named(nearest)}}
