"""Search an index that others have filled, as it is: with the routes, filters and scores of our own stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from catena import Chunk, Hit, Provenance, Ranking, Scale, Services, arun, run
from catena.effects import Fused, Handler, Retry, Search, SearchFused, Step, ask
from catena.model import LibraryError, ModelMismatchError, ParameterError
from catena.text import TermMatcher, normalise_term
from catena_server.calls import Call, Transport, quoted
from catena_server.filters import ALL, Clause, all_of
from catena_server.foreign_fields import (
    IDS,
    MOST,
    FieldType,
    FilterFields,
    ForeignFields,
    ForeignIndex,
    candidate_terms,
    chunk_of_hit,
    cosine_of,
    dense_body,
    documents_clause,
    foreign_filter,
    ids_clause,
    keyword_body,
    known_terms,
    known_terms_body,
    lexical_body,
    read_mapping,
    texts_body,
)
from catena_server.fused_search import FormulaWeights, ScoreParts, SeenChunks, TopChunks, top_chunks
from catena_server.queries import DENSE, KEYWORD, LEXICAL, count_of, ladder

if TYPE_CHECKING:
    from numpy.typing import NDArray


Adapt: TypeAlias = Callable[[Chunk, Mapping[str, Any]], Chunk]
"""Returns a chunk with what a framework keeps besides, given the hit as the server sent it."""

VIEW = "raw"  # the text as it was indexed
NO_PARAMS: Final[Mapping[str, Any]] = {}


class ForeignStore:
    """Ranks the documents of an index that others have made and filled; it is read, and never changed.

        transport = ElasticsearchTransport.connect("http://localhost:9200")
        store = ForeignStore(transport, "articles", ForeignIndex(text_field="body", metadata_field=None))
        ranking = store.search(Search(route="lexical", query="opening pressure of the valve", k=10))

    Routes: "lexical" by the server's BM25 over the text field, with the analysis of its mapping; "dense" by cosine;
    "keyword" by the number of the question's critical terms that a hit carries. Each obeys filters on the metadata;
    one that the mapping does not allow is refused. Scores are in `Scale.SIMILARITY`, but those of vectors that are
    compared by max_inner_product, where nobody says that they have unit length: these count by rank, and fusion by
    score refuses them. Of vectors that are compared by l2_norm it must be said.

    The mapping is read once, and again when a filter names a field that it does not have.

    Args:
        transport: a client of the server.
        index: its name, or an alias of one index.
        fields: which fields hold what.
        adapt: adds to each chunk what its reader needs.
    """

    def __init__(
        self, transport: Transport, index: str, fields: ForeignIndex | None = None, *, adapt: Adapt | None = None
    ) -> None:
        if not isinstance(index, str) or not index:
            raise ParameterError("index", index, "the name of an index")
        self.index = index
        self.fields = ForeignIndex() if fields is None else fields
        self.transport = transport
        self._adapt = adapt
        self._types: ForeignFields | None = None
        self.identity = f"{transport.identity}, index {index}"
        sends = Handler(
            identity=transport.identity,
            call=getattr(transport, "perform", None),
            acall=getattr(transport, "aperform", None),
        )
        # whoever asks the store tries again; to do so here, too, would multiply the attempts
        self._services = Services(handlers={Call: sends}, retry=Retry(attempts=1))

    def __repr__(self) -> str:
        return f"ForeignStore({self.identity!r}, routes={self.routes})"

    @property
    def routes(self) -> tuple[str, ...]:
        """The routes for which fields were named."""
        return self.fields.routes

    def search(self, request: Search) -> Ranking:
        """Return at most `request.k` hits of one route, best first, ties by id.

        Raises:
            FilterError: the index cannot obey the filter.
            LibraryError: it lacks a field that the route needs.
            ModelMismatchError: its vectors are of another length than the question's.
            ParameterError: the route is none of `routes`, or a view is asked for.
            ServerError: the server refused, or could not be reached.
        """
        return run(self.searching(request), self._services)

    async def asearch(self, request: Search) -> Ranking:
        """As `search`, without blocking the event loop."""
        return await arun(self.searching(request), self._services)

    def search_fused(self, request: SearchFused) -> Fused | None:
        """Return the k best hits by HiQA's whole formula, summed by the server, and how sure they are.

        None where the server cannot sum it: a weight is of a route without a field, vectors are compared by another
        similarity than cosine or dot_product, or the question says too many critical terms. Then each route is asked.

        Raises:
            FilterError, LibraryError, ModelMismatchError, ServerError: as `search`.
        """
        return run(self.fusing(request), self._services)

    async def asearch_fused(self, request: SearchFused) -> Fused | None:
        """As `search_fused`, without blocking the event loop."""
        return await arun(self.fusing(request), self._services)

    def searching(self, request: Search) -> Step[Ranking]:
        """Return the step that answers a search; it asks for calls."""
        self._check(request)
        if request.k == 0:
            return Ranking((), Scale.SIMILARITY)
        types = yield from self._mapping_for(request)
        return (yield from _ROUTES[request.route](self, request, types, self._allowed(request, types)))

    def fusing(self, request: SearchFused) -> Step[Fused | None]:
        """Return the step that answers a search by the formula; it asks for calls."""
        weights = {route: weight for route, weight in request.weights if weight}
        if weights.keys() - set(self.routes) - {KEYWORD} or weights.keys() - set(FORMULA_ROUTES) or request.k < 1:
            return None  # without a field of critical terms there are none, and their part is 0
        types = yield from self._mapping_for(request)
        vector, field = None, None
        if DENSE in weights:
            field = self._vector_field(types)
            if field.similarity not in ("cosine", "dot_product"):
                return None
            vector = _vector(request.vector, field, self.index)
        allowed = self._allowed(request, types)
        best = (yield from self._best(request.query, types, allowed)) if LEXICAL in weights else 0.0
        has_terms = KEYWORD in weights and self.fields.critical_field is not None
        terms = (yield from self._terms(request.query, types)) if has_terms else ()
        if len(terms) > MOST_TERMS:
            return None
        formula = ForeignFormula(
            query=request.query, k=request.k, at=self.fields, scoring=FormulaWeights.of(weights, best),
            vector=vector, field=field, terms=terms, allowed=allowed,
        )  # fmt: skip
        top, seen = yield from fused_hits(formula, self._asked)
        ranking = yield from self._read(top.best, seen.parts, types)
        return top.fused(ranking, best, seen, formula.neighbours)

    def _best(self, query: str, types: ForeignFields, allowed: Clause) -> Step[float]:
        """Return the BM25 that counts as 1: the best of any hit."""
        self._text_field(types)
        if not query.strip():
            return 0.0
        body = {**lexical_body(query, 1, self.fields, allowed), "_source": False}
        reply = yield from self._asked(body)
        return max((float(hit["_score"]) for hit in reply["hits"]["hits"]), default=0.0)

    def _read(
        self, best: Sequence[tuple[str, float]], parts: Mapping[str, ScoreParts], types: ForeignFields
    ) -> Step[Ranking]:
        """Return hits by id as a ranking with their texts, without those that were deleted meanwhile."""
        if not best:
            return Ranking((), Scale.NORMALIZED)
        reply = yield from self._asked(texts_body([chunk_id for chunk_id, _ in best], self.fields))
        chunks = {hit["_id"]: self._chunk(hit, types) for hit in reply["hits"]["hits"]}
        views = dict.fromkeys(FORMULA_ROUTES, VIEW)
        there = ((chunk_id, score) for chunk_id, score in best if chunk_id in chunks)
        hits = tuple(Hit(chunks[chunk_id], score, parts[chunk_id].ways(views)) for chunk_id, score in there)
        return Ranking(hits, Scale.NORMALIZED)

    def _check(self, request: Search) -> None:
        if request.route not in self.routes:
            named = f"one of {', '.join(self.routes)}, for which fields are named"
            raise ParameterError("route", request.route, named)
        if not isinstance(request.k, int) or isinstance(request.k, bool) or request.k < 0:
            raise ParameterError("k", request.k, "a whole number >= 0")
        if not isinstance(request.query, str):
            raise ParameterError("query", request.query, "a string")
        if request.view not in (None, VIEW):
            raise ParameterError("view", request.view, "None: an index of others holds one text per hit")

    def _mapping_for(self, request: Search | SearchFused) -> Step[ForeignFields]:
        types = yield from self._mapping()
        if request.where and not all(types.get(f"{self.fields.prefix}{key}") for key in _keys(request.where)):
            types = yield from self._mapping(anew=True)  # since it was read, documents may have brought the field
        return types

    def _mapping(self, *, anew: bool = False) -> Step[ForeignFields]:
        if self._types is None or anew:
            call = Call(method="GET", path=f"/{quoted(self.index)}/_mapping", missing_ok=True, purpose="mapping")
            (reply,) = yield from ask([call])
            self._types = read_mapping(self.index, reply)
        return self._types

    def _allowed(self, request: Search | SearchFused, types: ForeignFields) -> Clause:
        """Return the clause that holds for the hits that may be ranked."""
        document = types.first(self.fields.document_fields())
        if self.fields.document_field is not None and document is None:
            raise LibraryError(self.index, _lacks(self.fields.document_field, types, "string"), "another field")
        at = FilterFields(fields=types, prefix=self.fields.prefix, document=document)
        clauses = [foreign_filter(request.where, at)] if request.where else []
        if isinstance(request, Search) and request.among is not None:
            clauses.append(ids_clause(request.among))
        if request.documents is not None:
            clauses.append(documents_clause(request.documents, at, {"document_id": list(request.documents)}))
        return all_of(clauses)

    def _text_field(self, types: ForeignFields) -> None:
        field = types.get(self.fields.text_field)
        if field is None or not field.has_words:
            raise LibraryError(self.index, _lacks(self.fields.text_field, types, "string"), "text_field=another one")

    def _vector_field(self, types: ForeignFields) -> FieldType:
        name = self.fields.vector_field or ""
        field = types.get(name)
        if field is None or field.kind != "vector" or not (field.searchable and field.floats):
            raise LibraryError(self.index, _lacks(name, types, "vector"), "vector_field=another one, or None")
        if field.similarity == "l2_norm" and not self.fields.unit_vectors:
            # questions come at unit length, which would change the order
            what = f"its field {name!r} compares by l2_norm, and nobody says that its vectors have unit length"
            raise LibraryError(self.index, what, "unit_vectors=True where they have, or vector_field=None")
        return field

    def _lexical(self, request: Search, types: ForeignFields, allowed: Clause) -> Step[Ranking]:
        self._text_field(types)
        if not request.query.strip():
            return Ranking((), Scale.SIMILARITY)
        reply = yield from self._asked(lexical_body(request.query, request.k, self.fields, allowed))
        return self._ranking(request, reply, types)

    def _dense(self, request: Search, types: ForeignFields, allowed: Clause) -> Step[Ranking]:
        field = self._vector_field(types)

        def cosine(score: float) -> float | None:
            return cosine_of(score, field.similarity, unit_vectors=self.fields.unit_vectors)

        scale = Scale.RANK if cosine(1.0) is None else Scale.SIMILARITY
        vector = _vector(request.vector, field, self.index)
        if vector is None:
            return Ranking((), scale)
        reply = yield from self._asked(dense_body(vector, request.k, self.fields, field, allowed))
        if scale is Scale.RANK:
            return self._ranking(request, reply, types, scale=scale)
        return self._ranking(request, reply, types, lambda score: cosine(score) or 0.0)

    def _keyword(self, request: Search, types: ForeignFields, allowed: Clause) -> Step[Ranking]:
        terms = yield from self._terms(request.query, types)
        if not terms:
            return Ranking((), Scale.SIMILARITY)
        reply = yield from self._asked(keyword_body(terms, request.k, self.fields, allowed))
        return self._ranking(request, reply, types)

    def _terms(self, query: str, types: ForeignFields) -> Step[tuple[str, ...]]:
        """Return the critical terms of the index that a question says, as the index spells them."""
        name = self.fields.critical_field or ""
        field = types.get(name)
        if field is None or field.whole != name:
            raise LibraryError(self.index, _lacks(name, types, "string"), "critical_field=a keyword, or None")
        candidates = candidate_terms(query)
        if not candidates:
            return ()
        found = known_terms((yield from self._asked(known_terms_body(candidates, self.fields))))
        words = set(TermMatcher(found).longest_in(query))
        return tuple(term for term in found if normalise_term(term) in words)

    def _asked(self, body: Mapping[str, Any], params: Mapping[str, Any] = NO_PARAMS) -> Step[Mapping[str, Any]]:
        call = Call(
            method="POST",
            path=f"/{quoted(self.index)}/_search",
            # shards count words together; neighbours have their own way of searching
            params={**params, **({} if "knn" in body else {"search_type": "dfs_query_then_fetch"})},
            body=body,
            missing_ok=True,
            purpose="search",
        )
        (reply,) = yield from ask([call])
        if reply is None:
            raise LibraryError(self.index, "there is no such index on the server any more", "the store anew")
        return reply  # type: ignore[no-any-return]

    def _chunk(self, hit: Mapping[str, Any], types: ForeignFields) -> Chunk:
        chunk = chunk_of_hit(hit, self.fields, types.first(self.fields.document_fields()), self.index)
        return chunk if self._adapt is None else self._adapt(chunk, hit)

    def _ranking(
        self,
        request: Search,
        reply: Mapping[str, Any],
        types: ForeignFields,
        score_of: Callable[[float], float] = lambda score: score,
        scale: Scale = Scale.SIMILARITY,
    ) -> Ranking:
        hits = [Hit(self._chunk(hit, types), score_of(float(hit["_score"]))) for hit in reply["hits"]["hits"]]
        ordered = Ranking.of(hits, scale).hits
        ranked = (
            Hit(hit.chunk, hit.score, (Provenance(route=request.route, rank=rank, score=hit.score, view=VIEW),))
            for rank, hit in enumerate(ordered, start=1)
        )
        return Ranking(tuple(ranked), scale)


_ROUTES: Final = {"lexical": ForeignStore._lexical, "dense": ForeignStore._dense, "keyword": ForeignStore._keyword}


def _keys(where: Any) -> set[str]:
    """Return the names of fields in a filter, well-formed or not."""
    if isinstance(where, list | tuple):
        return {key for part in where for key in _keys(part)}
    if not isinstance(where, Mapping):
        return set()
    joined = {key for name, part in where.items() if name in ("$and", "$or", "$not") for key in _keys(part)}
    return joined | {name for name in where if isinstance(name, str) and not name.startswith("$") and name not in IDS}


def _vector(vector: Any, field: FieldType, index: str) -> NDArray[np.float32] | None:
    """Return the question's vector at unit length; None where it points nowhere."""
    if vector is None:
        raise ParameterError("vector", None, "the question's vector: services need an embedder")
    row: NDArray[np.float32] = np.asarray(vector, dtype=np.float32)
    if row.ndim != 1 or not np.isfinite(row).all():
        raise ParameterError("vector", f"shape {row.shape}", "one row of finite numbers")
    if field.dim is not None and len(row) != field.dim:
        what = f"its vectors have {field.dim} numbers, the question's {len(row)}: they are of different models"
        raise ModelMismatchError(index, what, "the embedder by which the index was filled")
    length = float(np.linalg.norm(row))
    return row / np.float32(length) if length else None


def _lacks(name: str, types: ForeignFields, kind: str) -> str:
    """Return what is wrong with a field, and which ones there are."""
    found = types.get(name)
    alike = [other for other, type_ in sorted(types.types.items()) if type_.kind == kind and other != name]
    known = f"; of that kind there are: {', '.join(alike[:8])}" if alike else ""
    if found is None:
        return f"it has no field {name!r}{known}"
    how = "" if found.searchable else ", not indexed"
    return f"its field {name!r} is {found.type}{how}, which this route cannot search{known}"


NEIGHBOURS: Final = 200  # nearest vectors that the formula's request compares
ROWS: Final = 300  # hits that it returns, without their texts
ROUNDS: Final = 4  # further requests, at most, to be sure of the ranking
MOST_TERMS: Final = 30  # in one ladder, which has as many clauses squared
FORMULA_ROUTES: Final = (DENSE, KEYWORD, LEXICAL)
_NAMED: Final = {"include_named_queries_score": True}

Ask: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], Step[Mapping[str, Any]]]
"""Asks one search of the index: its body and further parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFormula:
    """One question of the formula, ready to be asked.

    Attributes:
        scoring: weights, and the BM25 that counts as 1.
        vector: of the question, of unit length; None where vectors count nothing.
        field: of the vectors.
        terms: critical terms that the question says.
        allowed: the clause that each part obeys.
    """

    query: str
    k: int
    at: ForeignIndex
    scoring: FormulaWeights
    vector: NDArray[np.float32] | None
    field: FieldType | None
    terms: Sequence[str]
    allowed: Clause

    @property
    def neighbours(self) -> int:
        """Return the number of nearest vectors that are compared at first."""
        return 0 if self.vector is None else min(max(NEIGHBOURS, self.k), MOST)

    @property
    def rows(self) -> int:
        """Return the number of hits that are asked for at first."""
        return min(max(ROWS, self.neighbours + self.k), MOST)

    def word_clauses(self) -> list[Clause]:
        """Return the clauses of words and of terms, each under its route's name."""
        clauses: list[Clause] = []
        if self.scoring.best > 0 and self.scoring.lexical > 0:
            asked = {"query": self.query, "boost": self.scoring.lexical / self.scoring.best, "_name": LEXICAL}
            clauses.append({"match": {self.at.text_field: asked}})
        if self.terms and self.scoring.keyword > 0:
            rungs = ladder(self.terms, self.scoring.keyword, self.at.critical_field or "")["bool"]
            clauses.append({"bool": {**rungs, "_name": KEYWORD}})
        return clauses

    def body(self) -> dict[str, Any] | None:
        """Return the one request, None where nothing is asked."""
        words = self._words_body(self.rows)
        if self.vector is None or self.field is None:
            return words
        nearest = dense_body(self.vector, self.neighbours, self.at, self.field, self.allowed)
        knn = {**nearest["knn"], "boost": self.scoring.dense, "_name": DENSE}
        return {**(words or _frame(self.rows)), "knn": knn}

    def spoken_body(self, rows: int, least: float) -> dict[str, Any] | None:
        """Return the request for hits that score at least so much by words and terms alone."""
        words = self._words_body(rows)
        return None if words is None else {**words, "min_score": max(least, 0.0)}

    def _words_body(self, rows: int) -> dict[str, Any] | None:
        clauses = self.word_clauses()
        if not clauses:
            return None
        filters = [] if self.allowed == ALL else [self.allowed]
        return {**_frame(rows), "query": {"bool": {"should": clauses, "minimum_should_match": 1, "filter": filters}}}

    def cosines_body(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return the request for the vectors' scores of given hits."""
        assert self.vector is not None and self.field is not None  # noqa: PT018 - nothing lacks without a vector
        among = all_of([self.allowed, ids_clause(ids)])
        return {**dense_body(self.vector, len(ids), self.at, self.field, among), "_source": False}

    def parts(self, row: Mapping[str, Any]) -> ScoreParts:
        """Return the parts of a hit's score, each in its route's raw unit."""
        named: Mapping[str, float] = row.get("matched_queries") or {}
        lexical = named.get(LEXICAL, 0.0)
        return ScoreParts(
            cosine=2.0 * named[DENSE] / self.scoring.dense - 1.0 if DENSE in named else None,
            bm25=lexical / self.scoring.lexical * self.scoring.best if lexical else 0.0,
            count=count_of(named[KEYWORD], self.scoring.keyword) if KEYWORD in named else 0,
            is_compared=DENSE in named,
        )


def fused_hits(formula: ForeignFormula, asked: Ask) -> Step[tuple[TopChunks, SeenChunks]]:
    """Return the best hits of a formula by id, and all that was seen, after as many requests as it takes."""
    seen = yield from _first(formula, asked)
    top = top_chunks(seen, formula.scoring, formula.k)
    size = formula.rows
    for _ in range(ROUNDS):
        if top.is_exact:
            break
        if top.unseen > top.threshold and seen.by_words > top.threshold - seen.farthest:
            least = top.least(seen, formula.scoring)
            seen, size = (yield from _spoken(formula, asked, seen, size, least)), min(size * 4, MOST)
        elif top.lacking:
            ids = top.lacking[: formula.rows]
            reply = yield from asked(formula.cosines_body(ids), {})
            similarity = formula.field.similarity if formula.field else ""
            cosines = {row["_id"]: cosine_of(row["_score"], similarity) for row in reply["hits"]["hits"]}
            seen = seen.compared(ids, cosines)
        else:
            break
        top = top_chunks(seen, formula.scoring, formula.k)
    return top, seen


def _first(formula: ForeignFormula, asked: Ask) -> Step[SeenChunks]:
    body = formula.body()
    if body is None:
        return SeenChunks(parts={}, farthest=0.0, last=-inf)
    reply = yield from asked(body, _NAMED)
    rows = reply["hits"]["hits"]
    parts = {row["_id"]: formula.parts(row) for row in rows}
    last = float(rows[-1]["_score"]) if len(rows) >= formula.rows else -inf
    return SeenChunks.first(parts, last, formula.scoring, neighbours=formula.neighbours)


def _spoken(formula: ForeignFormula, asked: Ask, seen: SeenChunks, rows: int, least: float) -> Step[SeenChunks]:
    """Ask for the hits that words and terms alone may lift into the ranking."""
    body = formula.spoken_body(rows, least)
    if body is None:
        return replace(seen, by_words=0.0)
    found = (yield from asked(body, _NAMED))["hits"]["hits"]
    by_words = float(found[-1]["_score"]) if len(found) >= rows else least
    return replace(seen.with_parts({row["_id"]: formula.parts(row) for row in found}), by_words=by_words)


def _frame(rows: int) -> dict[str, Any]:
    return {"size": rows, "track_total_hits": False, "_source": False}
