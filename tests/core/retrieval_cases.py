"""Chunks, rankings and stores of tables of scores, for the tests of retrieval and of what reads rankings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log

from catena.model import Chunk, Hit, Provenance, Ranking, Scale
from catena.testing.fakes import FakeStore
from catena.text import tokenise

SCORES = {
    "lexical": {"a": 8.0, "b": 6.0, "c": 4.0, "d": 2.0},
    "dense": {"d": 0.9, "c": 0.8, "b": 0.0, "a": -0.2},
    "keyword": {"b": 2.0},
}


def chunk(name: str, text: str = "x", *, start: int = 0, **given) -> Chunk:
    placed = {"document_id": "d", "position": 0, **given}
    return Chunk(id=name, start=start, end=start + len(text), text=text, **placed)


def ranking(scores: Mapping[str, float], route: str = "r", scale: Scale = Scale.SIMILARITY) -> Ranking:
    """Return a ranking of chunks by name, best first, each with its rank and score in the route."""
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    ways = [Provenance(route=route, rank=rank, score=score) for rank, (_, score) in enumerate(ordered, start=1)]
    hits = (Hit(chunk(name), score, (way,)) for (name, score), way in zip(ordered, ways, strict=True))
    return Ranking.of(hits, scale)


def in_order(names: str, route: str = "r") -> Ranking:
    """Return a ranking of chunks named by single letters, with the scores n, n - 1, …"""
    return ranking({name: float(len(names) - place) for place, name in enumerate(names)}, route)


def table_store(scores: Mapping[str, Mapping[str, float]] = SCORES) -> FakeStore:
    return FakeStore({route: ranking(of_route, route) for route, of_route in scores.items()})


def ids(found: Ranking) -> str:
    return "".join(hit.chunk.id for hit in found.hits)


def scored(found: Ranking) -> list[tuple[str, float]]:
    return [(hit.chunk.id, hit.score) for hit in found.hits]


def bm25(query: str, texts: Sequence[str], k1: float = 1.2, b: float = 0.75) -> list[float]:
    """Score texts by Lucene's formula; a word asked twice counts twice."""
    words = [Counter(tokenise(text)) for text in texts]
    average = sum(held.total() for held in words) / len(words)

    def part(word: str, held: Counter[str]) -> float:
        n = sum(word in other for other in words)
        idf = log(1 + (len(texts) - n + 0.5) / (n + 0.5))
        return idf * held[word] * (k1 + 1) / (held[word] + k1 * (1 - b + b * held.total() / average))

    return [sum(part(word, held) for word in tokenise(query)) for held in words]
