"""Write the queries of the routes and of HiQA's whole formula, for both products: no script, one request.

`score = dense * (1 + cos) / 2 + lexical * bm25 / best + keyword * ln(1 + |C|)`; the logarithm of a count is the sum
of a ladder of constant scores, `ln(1 + c) = sum over j = 1..m of ln((j + 1) / j) * [c >= j]` for c <= m.
Source: HiQA, arXiv:2402.01767, formula 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import expm1, log
from typing import Any, TypeAlias

from catena.model import DEFAULT_VIEW, ServerError
from catena_server.calls import Flavour
from catena_server.index_layout import IndexLayout

DENSE, LEXICAL, KEYWORD = "dense", "lexical", "keyword"  # names of the routes, and of the parts of a score
AskedWord: TypeAlias = tuple[tuple[str, ...], int]
"""A word of a question in its forms, of which the best counts, and how often the question says it."""
MOST_VALUES = 30  # of terms in one ladder, which has m * m clauses: the servers' default limit is 1,024


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """One question of the formula, ready to be asked.

    Attributes:
        nearest: the neighbours to look at, with `dense` as boost; None where vectors count nothing.
        words: that are asked.
        values: of critical terms, as `layout.repeated` spells them.
        lexical, keyword: weights.
        best: BM25 in the server's unit that counts as 1, > 0 where there are words.
        documents: whose BM25 is added to that of their chunks.
        filters: which every part obeys.
    """

    nearest: Nearest | None
    words: Sequence[AskedWord]
    values: Sequence[str]
    lexical: float
    keyword: float
    best: float
    documents: Sequence[tuple[str, float]] = ()
    filters: Sequence[Query] = ()


def words_query(
    words: Sequence[AskedWord],
    layout: IndexLayout,
    view: str = DEFAULT_VIEW,
    documents: Sequence[tuple[str, float]] = (),
) -> dict[str, Any]:
    """Return the clause whose score is the BM25 of words in the views of a kind, the best view of each chunk.

    Args:
        words: a word counts as often as the question says it, in the form that scores best.
        layout: says where the views lie.
        view: their kind; or `WHOLE`, for documents.
        documents: id and BM25, in the server's unit, of those whose score is added to that of each of their chunks.
    """
    field, path = layout.words(view), layout.nested(view)
    query: dict[str, Any] = {"bool": {"should": [_word(field, forms, count) for forms, count in words]}}
    if path is not None:
        query = {"nested": {"path": path, "score_mode": "max", "ignore_unmapped": True, "query": query}}
    if not documents:
        return query
    by_score: dict[float, list[str]] = {}
    for document_id, score in documents:
        by_score.setdefault(score, []).append(document_id)
    of_theirs = [(score, {"terms": {"document": ids}}) for score, ids in by_score.items()]
    added = [{"constant_score": {"boost": score, "filter": theirs}} for score, theirs in of_theirs]
    return {"bool": {"must": [query], "should": added}}


def _word(field: str, forms: Sequence[str], count: int) -> dict[str, Any]:
    boost = {"boost": float(count)} if count != 1 else {}
    if len(forms) == 1:
        return {"term": {field: {"value": forms[0], **boost}}}
    return {"dis_max": {"queries": [{"term": {field: {"value": form}}} for form in forms], **boost}}


def count_query(values: Sequence[str]) -> dict[str, Any]:
    """Return the clause whose score is the number of the values of critical terms that a chunk holds."""
    return {"bool": {"should": [{"constant_score": {"filter": {"term": {"terms": value}}}} for value in values]}}


def ladder(values: Sequence[str], weight: float, field: str = "terms") -> dict[str, Any]:
    """Return the clause whose score is `weight * ln(1 + c)`, c the number of the values that a chunk holds."""
    terms = [{"term": {field: value}} for value in values]
    rungs = [
        {
            "constant_score": {
                "boost": weight * log((count + 1) / count),
                "filter": {"bool": {"should": terms, "minimum_should_match": count}},
            }
        }
        for count in range(1, len(terms) + 1)
    ]
    return {"bool": {"should": rungs}}


def count_of(score: float, weight: float) -> int:
    """Return the count whose ladder gave a score: the inverse of `ladder`."""
    return round(expm1(score / weight))


def word_clauses(formula: Formula, layout: IndexLayout) -> list[dict[str, Any]]:
    """Return the clauses of words and terms, each under its route's name."""
    clauses = []
    if formula.words and formula.lexical > 0:
        words = words_query(formula.words, layout, documents=formula.documents)
        clauses.append(_named(words, LEXICAL, formula.lexical / formula.best))
    if formula.values and formula.keyword > 0:
        clauses.append(_named(ladder(formula.values, formula.keyword), KEYWORD))
    return clauses


def formula_body(formula: Formula, layout: IndexLayout, dialect: Dialect, *, rows: int) -> dict[str, Any] | None:
    """Return the body of the one request, None where nothing is asked.

    Args:
        formula: the question.
        layout: where its parts are looked for.
        dialect: how the server is asked.
        rows: chunks to return, best first.
    """
    asked = dialect.body(nearest=formula.nearest, should=word_clauses(formula, layout), filters=formula.filters)
    return {**asked, **rows_of(rows)} if asked else None


def words_body(
    formula: Formula, layout: IndexLayout, dialect: Dialect, *, rows: int, least: float
) -> dict[str, Any] | None:
    """Return the body that asks for words and terms alone, of chunks that score at least `least` by them."""
    clauses = word_clauses(formula, layout)
    if not clauses:
        return None
    return {**dialect.body(should=clauses, filters=formula.filters), **rows_of(rows), "min_score": max(least, 0.0)}


def rows_of(rows: int) -> dict[str, Any]:
    """Return how many chunks a request gives, in which order, and that nothing else is counted or fetched."""
    order = [{"_score": "desc"}, {"id": "asc"}]
    return {"size": rows, "track_total_hits": False, "_source": False, "sort": order}


def _named(clause: Mapping[str, Any], name: str, boost: float = 1.0) -> dict[str, Any]:
    ((kind, inner),) = clause.items()
    return {kind: {**inner, "_name": name, **({"boost": boost} if boost != 1.0 else {})}}


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
    """The query language of one kind of server.

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
    """Return the dialect of a kind of server."""
    return OPENSEARCH if flavour == "opensearch" else ELASTICSEARCH


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


def _boost_and_name(nearest: Nearest) -> dict[str, Any]:
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
        **_boost_and_name(nearest),
    }


def _clause(nearest: Nearest) -> dict[str, Any]:
    """Return the neighbours as OpenSearch takes them: a clause of the query, k for each shard.

    Its Lucene engine compares full floats and needs no second look at them.
    """
    inner = {"vector": list(nearest.vector), "k": nearest.k}
    filters = {"filter": {"bool": {"filter": list(nearest.filters)}}} if nearest.filters else {}
    if nearest.nested is None:
        return {"knn": {nearest.field: {**inner, **filters, **_boost_and_name(nearest)}}}
    query = {"knn": {nearest.field: {**inner, **filters}}}
    return {"nested": {"path": nearest.nested, "score_mode": "max", "query": query, **_boost_and_name(nearest)}}
