"""Read what was found within a budget of tokens: what says most about a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, pairwise
from sys import intern
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge, Le

from catena.effects import Embed, FetchPlaces, Step, ask, ask_if_known
from catena.model import Chunk, Hit, Place, Provenance, Ranking, Scale, Where
from catena.model.errors import ParameterError
from catena.model.filters import fields_of, surely
from catena.model.options import Checked
from catena.model.places import SEPARATOR
from catena.retrieval.fusion import ScoreBounds, by_maximum
from catena.structure import sentences_of, slice_of
from catena.structure.division import words
from catena.text import asked_words, language_of, stems_of
from catena.text.words import count_tokens, tokenise

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DECIMALS = 9  # of a score: what differs by less differs by the order in which a machine sums
_TELLING = 100  # passages that are looked at for their language


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions(Checked):
    """The options of ranking passages, or sentences, of hits.

    Attributes:
        hits: how many of the first hits are looked into, >= 1; where embeddings cost money, fewer cost less.
        alpha: share of the cosine against BM25 in a passage's own score, in [0, 1]; at 0 nothing is embedded.
        whole: share of the hit's score in that of its passages, in [0, 1].
    """

    hits: Annotated[int, Ge(1)] = 30
    alpha: Annotated[float, Ge(0), Le(1)] = 0.0
    whole: Annotated[float, Ge(0), Le(1)] = 0.5


def read_passages(
    query: str,
    ranking: Ranking,
    *,
    budget_tokens: int,
    options: ReadingOptions | None = None,
    where: Where | None = None,
) -> Step[Ranking]:
    """Return the sentences of the first hits that say most about the question, as far as a budget reaches.

    A sentence counts by its words, by those of its neighbours and by its hit, see `rank_passages`. Those that stand
    side by side in a chunk become one passage. A larger budget reads the same and more. Where the first sentence
    alone is longer than the budget, its first words are read.

    Args:
        query: as typed.
        ranking: of chunks of any length.
        budget_tokens: of all passages together, >= 0.
        options: how sentences are ranked, and of how many hits.
        where: the filter that the chunks obey: a sentence that does not, on its own pages, is left out.

    Returns:
        Exact slices of their documents with pages of their own, in `Scale.NORMALIZED`: each has the score of its
        best sentence.

    Raises:
        ParameterError: the budget is negative, or no whole number.
    """
    check_budget(budget_tokens)
    how = options or ReadingOptions()
    chunks = [hit.chunk for hit in ranking.hits[: how.hits]]
    sentences = yield from _placed(chunks, {chunk.id: sentences_of(chunk) for chunk in chunks})
    if where is not None:
        sentences = {chunk.id: _allowed(where, chunk, sentences[chunk.id]) for chunk in chunks}
    ranked = yield from rank_passages(query, ranking, lambda chunk: sentences[chunk.id], how)
    order = {each.id: place for place, each in enumerate(chain.from_iterable(sentences.values()))}

    # as far as the budget reaches: no shorter sentence goes before one that says more, so that more tokens only add
    taken: dict[str, Hit] = {}
    for hit in sorted(ranked.hits, key=lambda hit: (-hit.score, order[hit.chunk.id])):
        left, budget_tokens = budget_tokens, budget_tokens - count_tokens(hit.chunk.text)
        if budget_tokens < 0:
            if not taken and (first := _first_words(hit.chunk, left)):
                taken[hit.chunk.id] = replace(hit, chunk=first)
            break
        taken[hit.chunk.id] = hit

    # what stands side by side is read together
    runs: list[tuple[Chunk, list[Hit]]] = []
    for chunk in chunks:
        for hit in [taken.pop(each.id) for each in sentences[chunk.id] if each.id in taken]:
            before = runs[-1][1][-1].chunk.end if runs and runs[-1][0] is chunk else 0
            if before and not chunk.text[before - chunk.start : hit.chunk.start - chunk.start].strip():
                runs[-1][1].append(hit)
            else:
                runs.append((chunk, [hit]))
    return replace(ranked, hits=tuple(sorted((_joined(*run) for run in runs), key=lambda hit: -hit.score)))


def _first_words(chunk: Chunk, budget: int) -> Chunk | None:
    """Return as many first words as fit; None where the first one does not."""
    fitting = [end for end in words(chunk.text, 0, len(chunk.text)) if count_tokens(chunk.text[:end]) <= budget]
    return slice_of(chunk, 0, fitting[-1]) if fitting else None


def _joined(chunk: Chunk, run: Sequence[Hit]) -> Hit:
    """Return neighbouring slices of a chunk as one, with the score and the provenance of the best."""
    slices = [hit.chunk for hit in run]
    place = Place.around(each.place for each in slices)
    whole = slice_of(chunk, slices[0].start - chunk.start, slices[-1].end - chunk.start)
    return replace(
        max(run, key=lambda hit: hit.score), chunk=replace(whole, pages=place.pages, page_labels=place.page_labels)
    )


def _placed(chunks: Sequence[Chunk], passages: Mapping[str, Sequence[Chunk]]) -> Step[dict[str, tuple[Chunk, ...]]]:
    """Return passages with their own pages: a chunk alone says only on which pages it is itself."""
    several = [chunk for chunk in chunks if chunk.pages is not None and chunk.pages[0] < chunk.pages[1]]
    spans = [(each.document_id, each.start, each.end) for chunk in several for each in passages[chunk.id]]
    found = (yield from ask_if_known(FetchPlaces(spans=tuple(spans)))) if spans else None
    places = dict(zip(spans, found or (), strict=bool(found)))

    def placed(each: Chunk) -> Chunk:
        place = places.get((each.document_id, each.start, each.end))
        if place is None or place.pages is None:
            return each
        return replace(each, pages=place.pages, page_labels=place.page_labels)

    return {chunk.id: tuple(map(placed, passages[chunk.id])) for chunk in chunks}


def _allowed(where: Where, chunk: Chunk, passages: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """Return the passages of a chunk which a filter that the chunk obeys does not surely refuse."""
    return tuple(one for one in passages if not surely(where, {**fields_of(one), "chunk_id": chunk.id}, holds=False))


def rank_passages(
    query: str, ranking: Ranking, passages: Callable[[Chunk], Sequence[Chunk]], options: ReadingOptions | None = None
) -> Step[Ranking]:
    """Rank the passages of the first hits: `whole * h + (1 - whole) * (alpha * v + (1 - alpha) * r)`.

    h is the score of the passage's hit over the best hit's, v the cosine of question and passage as `(1 + cos) / 2`.
    r is the mean of two BM25, each over the best: that of the passage, and that of the passage and its neighbours in
    the chunk. Words are stems, each of the question's counts once, and the statistics are those of these passages.
    Each passage is compared under the titles above it. Where only the order of n hits is known (`Scale.RANK`), h
    falls evenly from 1 to 1 / n.

    Args:
        query: as typed.
        ranking: of long chunks, whole sections say; any scale.
        passages: the slices of a chunk, as `catena.structure.passages.passages_of` cuts them.
        options: how much each part counts, and how many hits are looked into.

    Returns:
        One hit per passage, in `Scale.NORMALIZED`, ties by id; its provenance is that of its chunk, and then what it
        is worth itself.
    """
    how = options or ReadingOptions()
    hits = ranking.hits[: how.hits]
    found = [(hit, passage) for hit in hits for passage in passages(hit.chunk)]
    if not found:
        return Ranking((), Scale.NORMALIZED, ranking.degraded, ranking.unknown)
    texts = [SEPARATOR.join(passage.path) + "\n" + passage.text for _, passage in found]
    cosines = (yield from _cosines(query, texts)) if how.alpha else [0.0] * len(texts)
    by_words = _by_words(query, found)
    worth = _worth(hits, ranking.scale)
    scored: list[Hit] = []
    for (hit, passage), cosine, word in zip(found, cosines, by_words, strict=True):
        own = how.alpha * (1.0 + cosine) / 2.0 + (1.0 - how.alpha) * word
        score = round(how.whole * worth[hit.chunk.id] + (1.0 - how.whole) * own, _DECIMALS)
        itself = Provenance(route="reading", rank=None, score=own, view="passage")
        scored.append(Hit(passage, score, (*hit.provenance, itself)))
    ranked = Ranking.of(scored, Scale.NORMALIZED, ranking.degraded)
    return Ranking(ranked.hits, ranked.scale, ranked.degraded, ranking.unknown)


def _by_words(query: str, found: Sequence[tuple[Hit, Chunk]]) -> list[float]:
    """Return the part r of each passage, in [0, 1]; those of a hit stand side by side, in reading order."""
    language = language_of(tokenise("\n".join(passage.text for _, passage in found[:_TELLING])))
    asked = dict.fromkeys(forms[0] for forms in asked_words(query, () if language is None else (language,)))

    def counted(text: str) -> list[int]:  # of each word asked for, and of all
        stems = _stems(text, language)
        return [*map(stems.count, asked), len(stems)]

    own = np.array([counted(passage.text) for _, passage in found], np.float64)
    titles = np.array([counted(SEPARATOR.join(passage.path)) for _, passage in found], np.float64)
    around = own.copy()
    beside = np.array([one is other for (one, _), (other, _) in pairwise(found)], bool)
    around[1:][beside] += own[:-1][beside]
    around[:-1][beside] += own[1:][beside]
    return ((_bm25(own + titles) + _bm25(around + titles)) / 2.0).tolist()  # type: ignore[no-any-return]


@lru_cache(maxsize=1 << 14)  # the same passages are read for many questions
def _stems(text: str, language: str | None) -> tuple[str, ...]:
    found = tokenise(text)
    return tuple(map(intern, found if language is None else stems_of(found, language)))


def _bm25(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the BM25 of counts (of words, and last of all words), as `Bm25Scorer` has it, over the best."""
    tf, lengths = counts[:, :-1], counts[:, -1:]
    holding = (tf > 0).sum(axis=0)
    idf = np.log1p((len(tf) - holding + 0.5) / (holding + 0.5))
    scores = (idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * lengths / max(lengths.mean(), 1.0)))).sum(axis=1)
    return np.asarray(scores / max(scores.max(), 1e-9), np.float64)


def check_budget(budget: object) -> None:
    """Raise `ParameterError` unless the budget is a number of tokens: before anything is searched or paid."""
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 0:
        raise ParameterError("budget", budget, "a whole number of tokens >= 0")


def within_tokens(ranking: Ranking, budget: int, count: Callable[[str], int]) -> Ranking:
    """Return the hits that fit into a budget, in order; one that does not fit is passed over for shorter ones.

    Args:
        ranking: best first.
        budget: tokens of all texts together, >= 0.
        count: tokens of a text.

    Raises:
        ParameterError: the budget is negative, or no whole number.
    """
    check_budget(budget)
    kept: list[Hit] = []
    for hit in ranking.hits:
        tokens = count(hit.chunk.text)
        if tokens <= budget:
            kept.append(hit)
            budget -= tokens
    return Ranking(tuple(kept), ranking.scale, ranking.degraded, ranking.unknown)


def _cosines(query: str, texts: Sequence[str]) -> Step[list[float]]:
    """Return the dot products of the query's vector with those of the texts."""
    asked = Embed(texts=(query,), kind="query", purpose="query embedding")
    replies: list[Any] = yield from ask([asked, Embed(texts=tuple(texts), purpose="passage embedding")])
    rows, vector = np.asarray(replies[1], dtype=np.float64), np.asarray(replies[0][0], dtype=np.float64)
    return [float(each) for each in rows @ vector]


def _worth(hits: Sequence[Hit], scale: Scale) -> dict[str, float]:
    """Return the worth of each hit beside the best one, in [0, 1]."""
    if scale is Scale.RANK:
        return {hit.chunk.id: 1.0 - rank / len(hits) for rank, hit in enumerate(hits)}
    bounds = ScoreBounds(low=0.0, high=max(hit.score for hit in hits))
    return {hit.chunk.id: by_maximum(hit.score, bounds) for hit in hits}
