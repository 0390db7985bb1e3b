"""Search views in memory: any chunks, any kinds of view, by BM25, by vectors, or by a scorer of your own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import log1p
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from catena.effects import Embed, Search, Step, ask
from catena.model import Chunk, Hit, Provenance, Ranking, Scale, View
from catena.model.errors import ParameterError, ServiceError
from catena.model.filters import compiled, fields_of
from catena.retrieval.late_interaction import LATE_INTERACTION, TokenRows, embed_tokens, max_sim
from catena.store.vectors import checked
from catena.text.words import tokenise

if TYPE_CHECKING:
    from numpy.typing import NDArray


RAW = "raw"  # the chunk's own text; what is searched when a request names no view


class TextScorer(Protocol):
    """Knows n texts and scores them for a query."""

    def score(self, query: str) -> NDArray[np.float64]:
        """Return one number per text, shape (n,), in order; higher is better, -inf for a text that does not match."""
        ...


Fit: TypeAlias = Callable[[Sequence[str]], TextScorer]
"""From texts to what scores them: all that a retriever needs to be used over any view."""


class ViewCollection:
    """A store in memory: chunks under any number of views, ranked by the routes that it is given.

    A chunk with several views of a kind counts as the best of them (MaxP); a chunk without one is not found by it.
    Everything is compared with everything: for some ten thousand views and less, for measuring, and for tests.

    Args:
        chunks: what is found and returned.
        views: texts under which they are found; those of kind "raw" are the chunks' own texts where none are given.
        scorers: route -> how it scores texts, fitted to each kind of view by itself.
        vectors: kind of view -> rows of shape (views of that kind, dim), in the order of `views`: the route "dense",
            by the dot product.
        tokens: kind of view -> token vectors of the views of that kind: the route "late_interaction", by MaxSim.

    Raises:
        ParameterError: two chunks have one id, a view is of no chunk, a kind has another number of vectors than
            of views, or a scorer has the name of a route that compares vectors.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        views: Sequence[View] = (),
        *,
        scorers: Mapping[str, Fit] | None = None,
        vectors: Mapping[str, NDArray[np.float32]] | None = None,
        tokens: Mapping[str, TokenRows] | None = None,
    ) -> None:
        self._chunks = tuple(chunks)
        self._place = {chunk.id: place for place, chunk in enumerate(self._chunks)}
        if len(self._place) < len(self._chunks):
            raise ParameterError("chunks", f"{len(self._chunks)} of {len(self._place)} ids", "of one id each")
        texts = by_kind(self._chunks, views)
        self._owners = {kind: self._owners_of(of_kind) for kind, of_kind in texts.items()}
        fits, self._vectors, self._tokens = dict(scorers or {}), dict(vectors or {}), dict(tokens or {})
        if taken := sorted({"dense", LATE_INTERACTION} & set(fits)):
            raise ParameterError("scorers", taken, "under names of their own: these routes compare vectors")
        for name, given in (("vectors", self._vectors), ("tokens", self._tokens)):
            for kind, rows in given.items():
                if len(rows) != len(texts.get(kind, ())):
                    raise ParameterError(f"{name}[{kind!r}]", len(rows), f"{len(texts.get(kind, ()))}, one per view")
        self._scorers = {
            name: {kind: fit([view.text for view in of_kind]) for kind, of_kind in texts.items()}
            for name, fit in fits.items()
        }

    @property
    def routes(self) -> tuple[str, ...]:
        """The names of the routes it answers."""
        by_vectors = [name for name, given in (("dense", self._vectors), (LATE_INTERACTION, self._tokens)) if given]
        return (*self._scorers, *by_vectors)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of view that it holds."""
        return tuple(self._owners)

    def search(self, request: Search) -> Ranking:
        """Return at most `request.k` chunks of one route over one kind of view, best first, ties by id.

        Raises:
            ParameterError: there is no such route, k is no whole number >= 0, or the vector does not fit.
            FilterError: the filter is malformed.
            ServiceError: a scorer gave NaN, or another number of scores than of texts.
        """
        if request.route not in self.routes:
            raise ParameterError(
                "route", request.route, f"one of {', '.join(self.routes) or 'none: no route was given'}"
            )
        if not isinstance(request.k, int) or isinstance(request.k, bool) or request.k < 0:
            raise ParameterError("k", request.k, "a whole number >= 0")
        allowed = self._allowed(request)
        kind = request.view or RAW
        scores = self._scores(request, kind)
        best = np.full(len(self._chunks), -np.inf)
        if scores is not None:
            np.maximum.at(best, self._owners[kind], scores)
        found = [(float(best[place]), self._chunks[place]) for place in np.flatnonzero(allowed & (best > -np.inf))]
        found.sort(key=lambda item: (-item[0], item[1].id))
        hits = []
        for place, (score, chunk) in enumerate(found[: request.k], start=1):
            rank = place if request.among is None else None
            hits.append(Hit(chunk, score, (Provenance(route=request.route, rank=rank, score=score, view=kind),)))
        return Ranking(tuple(hits), Scale.SIMILARITY)

    def _scores(self, request: Search, kind: str) -> NDArray[np.float64] | None:
        """Return one score per view of this kind, None where this route has none."""
        if request.route == "dense":
            rows = self._vectors.get(kind)
            if rows is None:
                return None
            asked = checked(request.vector, rows.shape[-1])
            return np.asarray(np.vecdot(rows, asked), np.float64)  # row by row, so that equal rows tie
        if request.route == LATE_INTERACTION:
            tokens = self._tokens.get(kind)
            return None if tokens is None else max_sim(request.vector, tokens)
        if kind not in self._owners or not len(self._owners[kind]):
            return None
        scores = np.asarray(self._scorers[request.route][kind].score(request.query), np.float64)
        if scores.shape != self._owners[kind].shape or np.isnan(scores).any():
            what = f"gave scores of shape {scores.shape}, or NaN, for {len(self._owners[kind])} texts"
            raise ServiceError(f"scorer {request.route}", what)
        return scores

    def _allowed(self, request: Search) -> NDArray[np.bool_]:
        """Return for each chunk whether filter, `among` and `documents` leave it."""
        allows = compiled(request.where or {})
        among = None if request.among is None else frozenset(request.among)
        documents = None if request.documents is None else frozenset(request.documents)
        return np.array(
            [
                (among is None or chunk.id in among)
                and (documents is None or chunk.document_id in documents)
                and (request.where is None or allows(fields_of(chunk)))
                for chunk in self._chunks
            ],
            bool,
        )

    def _owners_of(self, views: Sequence[View]) -> NDArray[np.int64]:
        if foreign := sorted({view.chunk_id for view in views} - set(self._place)):
            raise ParameterError("views", foreign, "of the chunks given")
        return np.array([self._place[view.chunk_id] for view in views], np.int64)


def by_kind(chunks: Sequence[Chunk], views: Sequence[View]) -> dict[str, tuple[View, ...]]:
    """Return kind -> its views, in order; the chunks' own texts as "raw" where no view is of that kind."""
    found: defaultdict[str, list[View]] = defaultdict(list)
    for view in views:
        found[view.kind].append(view)
    raw = {} if RAW in found else {RAW: tuple(View(chunk_id=chunk.id, kind=RAW, text=chunk.text) for chunk in chunks)}
    return {**raw, **{kind: tuple(of_kind) for kind, of_kind in found.items()}}


def collected(
    chunks: Sequence[Chunk],
    views: Sequence[View] = (),
    *,
    scorers: Mapping[str, Fit] | None = None,
    dense: bool = True,
    late: bool = False,
    batch: int = 256,
) -> Step[ViewCollection]:
    """Return a collection whose views are embedded by the services' embedder, and token by token where asked.

    Args:
        chunks: what is found and returned.
        views: texts under which they are found; see `ViewCollection`.
        scorers: route -> how it scores texts.
        dense: whether `Embed` is asked for vectors.
        late: whether `EmbedTokens` is asked for token vectors (`late_interaction.answering_tokens`).
        batch: texts per request, >= 1.

    Raises:
        ParameterError: an argument is out of range; see `ViewCollection`.
        CatenaError: an embedder failed.
    """
    if not isinstance(batch, int) or batch < 1:
        raise ParameterError("batch", batch, "an integer >= 1")
    texts = {kind: tuple(view.text for view in of_kind) for kind, of_kind in by_kind(chunks, views).items()}
    vectors: dict[str, NDArray[np.float32]] = {}
    tokens: dict[str, TokenRows] = {}
    for kind, of_kind in texts.items():
        parts = [of_kind[start : start + batch] for start in range(0, len(of_kind), batch)]
        if dense and parts:
            vectors[kind] = np.concatenate((yield from ask([Embed(texts=part) for part in parts])))
        if late and parts:
            tokens[kind] = yield from embed_tokens(of_kind, batch=batch)
    return ViewCollection(chunks, views, scorers=scorers, vectors=vectors, tokens=tokens)


class Bm25Scorer:
    """Scores n texts by BM25 with Lucene's idf; a text that holds no word of the query does not match.

    `score(q, d) = sum over words w of q of idf(w) * tf(w, d) * (k1 + 1) / (tf(w, d) + k1 * (1 - b + b * |d| / avg))`
    with `idf(w) = log(1 + (N - n(w) + 0.5) / (n(w) + 0.5))`; a word that the query says twice counts twice.

    Args:
        texts: in any language, see `catena.text.words.tokenise`.
        k1: how soon a word that comes again counts no more, >= 0.
        b: how much longer texts count less, in [0, 1].

    Raises:
        ParameterError: k1 or b is out of range.

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009, doi:10.1561/1500000019.
    """

    def __init__(self, texts: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> None:
        if not 0 <= k1 < float("inf"):
            raise ParameterError("k1", k1, "a finite number >= 0")
        if not 0 <= b <= 1:
            raise ParameterError("b", b, "a number in [0, 1]")
        counts = [Counter(tokenise(text)) for text in texts]
        lengths = np.array([counted.total() for counted in counts], np.float64)
        average = lengths.mean() if lengths.any() else 1.0
        self._norms = k1 * (1 - b + b * lengths / average)
        self._k1 = k1
        self._places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # of a word: texts and counts
        for place, counted in enumerate(counts):
            for word, times in counted.items():
                self._places[word].append((place, times))
        self._parts: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}  # of the words asked for so far

    def score(self, query: str) -> NDArray[np.float64]:
        """Return one BM25 per text, > 0; -inf for a text that does not match."""
        scores = np.zeros(len(self._norms))
        for word, times in sorted(Counter(tokenise(query)).items()):
            if word in self._places:
                at, parts = self._parts_of(word)
                scores[at] += times * parts
        return np.where(scores > 0, scores, -np.inf)

    def _parts_of(self, word: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the texts that hold a word, and what it is worth in each."""
        if word not in self._parts:
            at, tf = np.array(self._places[word], np.int64).T
            idf = log1p((len(self._norms) - len(at) + 0.5) / (len(at) + 0.5))
            self._parts[word] = (at, idf * tf * (self._k1 + 1) / (tf + self._norms[at]))
        return self._parts[word]
