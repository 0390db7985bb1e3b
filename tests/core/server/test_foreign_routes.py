"""Rankings that others make, as routes: by rank, with their scores kept, refused where they cannot obey."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st

from catena import Services, arun
from catena.effects import (
    FetchChunks,
    FetchDocuments,
    FetchText,
    FindNames,
    NamesFound,
    Retry,
    Search,
    SearchFused,
    Step,
    Store,
    ask,
    run,
)
from catena.model import Chunk, FilterError, Name, ParameterError, Ranking, Scale, ScaleError, ServiceError
from catena.retrieval import ForeignRoute, RankFusion, RoutedStore, ranked_chunks, retrieve
from catena.retrieval.foreign import by_rank
from catena.testing.fakes import FakeStore


def chunk(name: str, document: str = "d") -> Chunk:
    return Chunk(id=name, document_id=document, position=0, start=0, end=1, text=name[:1])


@dataclass
class Mine:
    """Ranks the chunks it was given."""

    found: list[tuple[Chunk, float | None]]
    filters: bool = False
    asked: list[Search] = field(default_factory=list)

    def rank(self, request: Search) -> Ranking:
        self.asked.append(request)
        return ranked_chunks(self.found)


class Awaited(Mine):
    """The same, with async code of its own alone."""

    rank = None  # type: ignore[assignment]

    async def arank(self, request: Search) -> Ranking:
        await asyncio.sleep(0)
        return Mine.rank(self, request)


class Broken:
    def rank(self, request: Search) -> Ranking:
        raise ConnectionError("the index is gone")


class Knowing(FakeStore):
    """A store with names, texts and neighbours."""

    def names(self, request: FindNames) -> NamesFound:
        return NamesFound(known=(Name("n", ("d",)),))

    def texts(self, request: FetchText) -> tuple[str | None, ...]:
        return ("text",)

    def chunks(self, request: FetchChunks) -> tuple[tuple[Chunk, ...], ...]:
        return ((chunk("a"),),)


ONCE = Retry(attempts=1)
BESIDE = {"lexical": [Chunk(id="b", document_id="d", position=0, start=0, end=4, text="pump")]}


async def test_a_route_of_others_is_fused_by_rank_with_a_stores_own() -> None:
    mine = Mine([(chunk("a"), 9.5), (chunk("b"), 3.0)])
    store = RoutedStore({"mine": mine}, beside=FakeStore(BESIDE))
    assert isinstance(store, Store)
    assert isinstance(mine, ForeignRoute)
    assert store.routes == ("mine", "lexical")
    services = Services(store=store)
    found = run(retrieve("pump", routes=("lexical", "mine"), fusion=RankFusion(k=60, weights={}), k=5), services)
    assert [(hit.chunk.id, hit.score) for hit in found.hits] == [
        ("b", pytest.approx(1 / 61 + 1 / 62)),
        ("a", pytest.approx(1 / 61)),
    ]
    assert [(way.route, way.rank, way.score) for way in found.hits[0].provenance] == [
        ("lexical", 1, 1.0),
        ("mine", 2, 3.0),
    ]
    awaiting = Services(store=RoutedStore({"mine": Awaited(mine.found)}, beside=FakeStore(BESIDE)))
    step = retrieve("pump", routes=("lexical", "mine"), fusion=RankFusion(k=60, weights={}), k=5)
    with blockbuster_ctx():
        assert await arun(step, awaiting) == found


def test_fusion_by_score_refuses_a_ranking_of_others() -> None:
    store = RoutedStore({"dense": Mine([(chunk("a"), 0.5)])}, beside=FakeStore(BESIDE))
    services = Services(store=store)
    plain = {"dense": _request, "lexical": lambda query: _request(query, "lexical")}
    with pytest.raises(ScaleError, match="RankFusion takes any"):
        run(retrieve("pump", routes=plain, k=5), services)
    with pytest.raises(ParameterError, match="fusion must be RankFusion"):  # it may hold more than it gave
        run(retrieve("pump", routes=plain, k=1, depth=1), services)


def _request(query: str, route: str = "dense") -> Step[Search]:
    yield from ()
    return Search(route=route, query=query, k=0)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.floats(-9, 9)), max_size=8), st.integers(0, 9))
def test_ranks_are_those_that_were_given_and_every_chunk_counts_once(
    given_: list[tuple[str, float | None]], k: int
) -> None:
    found = by_rank(
        ranked_chunks([(chunk(name), score) for name, score in given_]), Search(route="mine", query="q", k=k)
    )
    order = list(dict.fromkeys(name for name, _ in given_))
    assert [hit.chunk.id for hit in found.hits] == order[:k]
    assert [hit.provenance[0].rank for hit in found.hits] == list(range(1, len(found.hits) + 1))
    assert found.scale is Scale.RANK
    assert all(one.score >= other.score for one, other in zip(found.hits, found.hits[1:], strict=False))
    raw = {}
    for rank, (name, score) in enumerate(given_, start=1):
        raw.setdefault(name, 1 / rank if score is None else score)
    assert all(hit.provenance[0].score == raw[hit.chunk.id] for hit in found.hits)


def test_filters_are_refused_or_obeyed_never_ignored() -> None:
    request = Search(route="mine", query="q", k=5, where={"page": 3})
    deaf, obeying = Mine([]), Mine([(chunk("a"), None)], filters=True)
    with pytest.raises(FilterError, match="route 'mine' takes no filter"):
        RoutedStore({"mine": deaf}).search(request)
    assert deaf.asked == []
    RoutedStore({"mine": obeying}).search(request)
    assert obeying.asked == [request]


async def test_failures_degrade_aloud_and_nobody_tries_again_twice() -> None:
    store = RoutedStore({"bad": Broken(), "mine": Mine([(chunk("a"), None)])})
    with pytest.raises(ServiceError, match="bad: ConnectionError: the index is gone"):
        store.search(Search(route="bad", query="q", k=1))
    found = await arun(
        retrieve("q", routes=("bad", "mine"), fusion=RankFusion(), k=2), Services(store=store, retry=ONCE)
    )
    assert [hit.chunk.id for hit in found.hits] == ["a"]
    assert [part.what for part in found.degraded] == ["route bad"]


async def test_what_the_store_beside_can_the_whole_can() -> None:
    names, texts, chunks = FindNames(query="q"), FetchText(spans=(("d", 0, 1),)), FetchChunks(spans=(("d", 0, 1),))
    fused = SearchFused(query="q", k=1, weights=(("lexical", 1.0),))
    ways = [(Knowing(BESIDE), (Name("n", ("d",)),), ("text",), ((chunk("a"),),))]
    ways += [(beside, (), (None,), ((),)) for beside in (None, FakeStore({}))]
    for beside, *expected in ways:
        store = RoutedStore({"mine": Mine([])}, beside=beside)
        step, services = ask([names, texts, chunks, fused]), Services(store=store)
        for found in (run(step, services), await arun(ask([names, texts, chunks, fused]), services)):
            assert [found[0].known, *found[1:]] == [*expected, None]

    class Able(FakeStore):
        def search_fused(self, request: SearchFused) -> str:
            return "fused"

        def whole(self, ids: tuple[str, ...]) -> tuple[str, ...]:
            return ids

    able = RoutedStore({"mine": Mine([])}, beside=Able({}))
    assert run(ask([FetchDocuments(ids=("d",))]), Services(store=able)) == [("d",)]
    assert able.search_fused(fused) == await able.asearch_fused(fused) == "fused"
    assert able.search_fused(SearchFused(query="q", k=1, weights=(("mine", 1.0),))) is None


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ParameterError, match="at least one name"):
        RoutedStore({})
    with pytest.raises(ParameterError, match=r"routes\['x'\] must be a route"):
        RoutedStore({"x": object()})  # type: ignore[dict-item]
    with pytest.raises(ParameterError, match=r"route must be one of \['mine'\]"):
        RoutedStore({"mine": Mine([])}).search(Search(route="other", query="q", k=1))
