"""Image search: the figures of a store, or of any sequence, ranked by a question and by what is said of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log

from catena.effects import Embed, Step, ask
from catena.model import Chunk, Hit, Provenance, Ranking, Scale, Where
from catena.model.errors import ParameterError
from catena.retrieval.fusion import ScoreFusion, weighted_sum
from catena.retrieval.multi_route import Fusion, retrieve
from catena.retrieval.normalization import Bounds
from catena.retrieval.routes import Route, dense, stored
from catena.text.words import tokenise

CAPTION_VIEW = "caption"
_ROUTES: Mapping[str, Route] = {"dense": dense, "lexical": stored("lexical", view=CAPTION_VIEW)}
_ONLY_FIGURES: Where = {"kind": "figure"}
_K1, _B = 1.2, 0.75


def search_figures(
    query: str, *, k: int = 10, where: Where | None = None, fusion: Fusion | None = None
) -> Step[Ranking]:
    """Return the k best figures of the store for a question: chunks of kind "figure" and no others.

    They are compared by their views of kind "caption" (title, text around, words inside, caption), by words and
    by meaning.

    Args:
        query: what the figure should show.
        k: length of the ranking, >= 0.
        where: a further filter.
        fusion: as for `retrieve`.

    Raises:
        ParameterError, FilterError, RouteError: as `retrieve`.

    Source: PDFImageSearcher of HiQA's published code, where only words are compared.
    """
    only = _ONLY_FIGURES if where is None else {"$and": [_ONLY_FIGURES, where]}
    return (yield from retrieve(query, k=k, routes=_ROUTES, where=only, fusion=fusion))


def rank_figures(query: str, figures: Sequence[Chunk], texts: Sequence[str], *, k: int = 10) -> Step[Ranking]:
    """Rank figures that are in no store, by the same two routes: BM25 over the texts, and their vectors.

    Args:
        query: what the figure should show.
        figures: chunks, one per figure.
        texts: what is said of each: title, text around it, caption.
        k: length of the ranking, >= 0.

    Returns:
        At most k figures in `Scale.NORMALIZED`; none for a query without a word.

    Raises:
        ParameterError: there are not as many texts as figures, or k is negative.
    """
    if len(texts) != len(figures):
        raise ParameterError("texts", len(texts), f"{len(figures)} texts, one per figure")
    if k < 0:
        raise ParameterError("k", k, "an integer >= 0")
    if not figures or not query.strip():
        return Ranking((), Scale.NORMALIZED)
    documents, question = yield from ask(
        [
            Embed(texts=tuple(texts), purpose="figure texts"),
            Embed(texts=(query,), kind="query", purpose="query embedding"),
        ]
    )
    scores = {"dense": [float(score) for score in documents @ question[0]], "lexical": bm25(query, texts)}
    rankings = {name: _ranked(figures, found, name) for name, found in scores.items()}
    bounds = {name: Bounds.of(ranking) for name, ranking in rankings.items()}
    return weighted_sum(rankings, ScoreFusion().parts, bounds=bounds).top(k)


def _ranked(figures: Sequence[Chunk], scores: Sequence[float], route: str) -> Ranking:
    """Return one route's ranking; the lexical one leaves out what shares no word with the question."""
    pairs = [(c, s) for c, s in zip(figures, scores, strict=True) if route == "dense" or s > 0]
    ordered = sorted(pairs, key=lambda pair: (-pair[1], pair[0].id))
    hits = (
        Hit(chunk, score, (Provenance(route=route, rank=rank, score=score, view=CAPTION_VIEW),))
        for rank, (chunk, score) in enumerate(ordered, start=1)
    )
    return Ranking(tuple(hits), Scale.SIMILARITY)


def bm25(query: str, texts: Sequence[str]) -> list[float]:
    """Return `sum_w idf(w) * tf / (tf + k1 (1 - b + b |t| / mean |t|)) * (k1 + 1)` over the query's distinct words.

    `idf(w) = ln(1 + (n - df + 0.5) / (df + 0.5))`, k1 = 1.2, b = 0.75, as Lucene and tantivy have it.
    """
    counts = [Counter(tokenise(text)) for text in texts]
    lengths = [count.total() for count in counts]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    found = [0.0] * len(texts)
    for word in sorted(set(tokenise(query))):
        holders = [index for index, count in enumerate(counts) if word in count]
        idf = log(1 + (len(texts) - len(holders) + 0.5) / (len(holders) + 0.5))
        for index in holders:
            often = counts[index][word]
            found[index] += idf * often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * lengths[index] / mean))
    return found
