"""Nodes of a real cluster are killed and held while documents are put and questions asked: nothing is lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from fault_cases import MODEL, QUICK, assert_whole, documents, master_of, opened

from catena.effects import Retry, Services, run
from catena.model import Ranking, RouteError, ServerError
from catena.retrieval import OnRouteError, retrieve
from catena_bench.servers import SearchCluster
from catena_server import ServerStore

QUESTION = "Which word003 stands beside word001?"
DOCUMENTS = 60
ONE_TRY = replace(QUICK, retry=Retry(attempts=1))


def answered(store: ServerStore, on_route_error: OnRouteError = "raise", attempts: int = 4) -> Ranking:
    services = Services(
        store=store, embedder=MODEL, retry=Retry(attempts=attempts, base_seconds=0.1, rate_limit_seconds=0.0)
    )
    return run(retrieve(QUESTION, k=8, on_route_error=on_route_error), services)


def said(ranking: Ranking) -> dict[str, float]:
    """Return what was answered: each hit's score."""
    return {hit.chunk.id: hit.score for hit in ranking.hits}


def same(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether two answers say the same, as copies of a shard do: they round scores apart, and so break ties apart."""
    near = 1e-4  # scores of copies differ by less
    last = (
        max(min(one.values(), default=0.0), min(other.values(), default=0.0)) + near
    )  # which of these come in is open
    above = {name for each in (one, other) for name, score in each.items() if score > last}
    return len(one) == len(other) and all(abs(one.get(name, 0.0) - other.get(name, 0.0)) < near for name in above)


class Asking:
    """Two threads that ask one question again and again; `counts` says how it was answered."""

    def __init__(self, store: ServerStore) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[dict[str, float]] = []  # what was answered instead
        self.wanted = said(answered(store))
        self._store, self._stop, self._guard = store, threading.Event(), threading.Lock()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        kinds: tuple[OnRouteError, ...] = ("raise", "degrade")
        threads = [threading.Thread(target=self._ask, args=(kind,)) for kind in kinds]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def more(self, answers: int = 4) -> float:
        """Return the seconds until so many more right answers came."""
        begun, so_far = time.monotonic(), self.counts["right"]
        while self.counts["right"] < so_far + answers and not self.counts["wrong"]:
            time.sleep(0.05)
        return round(time.monotonic() - begun, 1)

    def _ask(self, on_route_error: OnRouteError) -> None:
        while not self._stop.wait(0.1):  # a machine of few cores is to start a node, too
            try:
                ranking = answered(self._store, on_route_error)
                kind = "degraded" if ranking.degraded else "right" if same(said(ranking), self.wanted) else "wrong"
            except RouteError as error:
                kind = f"error: {str(error)[:200]}"
            with self._guard:
                self.counts[kind] += 1
                if kind == "wrong":
                    self.wrong.append(said(ranking))


@pytest.mark.parametrize("fault", ["kill", "suspend"])
def test_the_master_is_lost_while_documents_are_put_and_questions_asked(
    es_cluster: SearchCluster, fresh_index: Callable[..., str], fault: str
) -> None:
    master, urls = master_of(es_cluster), es_cluster.urls
    old, new = documents(DOCUMENTS // 2), documents(DOCUMENTS)
    with (
        opened(urls, fresh_index(urls[0], "w"), timeout=3.0) as (asked, _),
        opened(urls, fresh_index(urls[0], "w"), timeout=3.0) as (store, beside),
        opened(urls, fresh_index(urls[0], "w"), replicas=0, options=ONE_TRY) as (single, _),
    ):
        asked.put(old).check()
        single.put(old).check()
        es_cluster.wait(status="green")
        asking = Asking(asked)
        with asking.going_on():
            asking.more()
            beside.soon(12, lambda: getattr(es_cluster, fault)(master))
            store.put(new)
            beside.settle()
            asking.more(1)
            if fault == "kill":
                assert master_of(es_cluster, (master + 1) % 3) != master
                assert_lost_shards_are_told(single)
            (es_cluster.start if fault == "kill" else es_cluster.resume)(master)
            asking.more()
        assert asking.wrong == [], f"instead of {asking.wanted}"
        es_cluster.wait(nodes=3, status="green")
        assert same(said(answered(single)), asking.wanted)
        assert_whole(single, old)
        assert_whole(asked, old)
        store.put(new).check()
        assert_whole(store, new)


def assert_lost_shards_are_told(single: ServerStore) -> None:
    """Hold a set of which some shards have no copy left to saying so, instead of answering by the others."""
    kinds: tuple[OnRouteError, ...] = ("raise", "degrade")
    for on_route_error in kinds:
        with pytest.raises(RouteError):
            answered(single, on_route_error, attempts=1)
    for ask_for_all in (single.verify, single.stats, lambda: list(single.export()), single.rebuild):
        with pytest.raises(ServerError) as failed:
            ask_for_all()
        assert failed.value.retry
