"""A real server refuses: too busy, blocked, another set, another product. Errors are clear, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fault_cases import QUICK, assert_whole, documents, indices_of, made, opened

from catena.effects import Retry
from catena.model import CatenaError, LibraryError, ServerError
from catena_bench.servers import SearchCluster, ask
from catena_server import BulkOptions, ElasticsearchTransport, OpenSearchTransport, ServerOptions

SMALL = {"shards": 1, "replicas": 0}
ONE_TRY = ServerOptions(
    bulk=BulkOptions(attempts=2, base_seconds=0.0), retry=Retry(attempts=2, base_seconds=0.0, rate_limit_seconds=0.0)
)


@pytest.fixture
def name(es_cluster: SearchCluster, fresh_index: Callable[..., str]) -> str:
    return fresh_index(es_cluster.urls[0], "w")


def test_a_call_that_is_more_than_the_server_holds_at_once_is_told(es_cluster: SearchCluster, name: str) -> None:
    """`indexing_pressure.memory.limit` of these nodes is 2 MB: a real 429."""
    ((entry, vectors),) = documents(1)
    text = entry.document.text + "and so on " * 400_000
    additions = [(replace(entry, document=replace(entry.document, text=text)), vectors)]
    large = replace(ONE_TRY, bulk=BulkOptions(attempts=2, base_seconds=0.0))
    small = replace(QUICK, bulk=BulkOptions(bytes=1_000_000, in_flight=1))
    with opened(es_cluster.urls, name, options=large, timeout=30.0, **SMALL) as (store, _):
        with pytest.raises(ServerError, match="documents are not whole") as caught:
            store.put(additions).check()
        assert (caught.value.status, caught.value.kind) == (429, "es_rejected_execution_exception")
    with opened(es_cluster.urls, name, options=small, timeout=30.0, **SMALL) as (store, _):
        store.put(additions).check()
        assert_whole(store, additions)
        assert store.get(entry.document.id).document.text == text


def is_blocked(url: str, name: str) -> bool:
    found = ask(f"{url}/{name}-chunks/_settings?flat_settings=true")
    return any("index.blocks.read_only_allow_delete" in each["settings"] for each in found.values())


def wait_for(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.2)


def test_a_disk_over_the_flood_stage_blocks_writing_and_nothing_is_lost(es_cluster: SearchCluster, name: str) -> None:
    url, additions = es_cluster.urls[0], documents(12)
    marks = {"low": "1%", "high": "2%", "flood_stage": "3%"}
    of_disk = {f"cluster.routing.allocation.disk.watermark.{mark}": value for mark, value in marks.items()}

    def set_marks(on: bool) -> None:
        kept = {key: value if on else None for key, value in of_disk.items()}
        settings = kept | {"cluster.info.update.interval": "10s" if on else None}
        ask(f"{url}/_cluster/settings", method="PUT", body={"persistent": settings})

    with opened(es_cluster.urls, name, **SMALL) as (store, _):
        store.put(additions[:6]).check()
        es_cluster.wait(status="green")
        before = store.stats().chunks
        set_marks(True)
        try:
            wait_for(lambda: is_blocked(url, name))
            with pytest.raises(ServerError, match=r"disk.*(kept|stays).*Try: "):
                store.put(additions)
            assert store.stats().chunks >= before  # what was written is still found
        finally:
            set_marks(False)
        wait_for(lambda: not is_blocked(url, name))  # the server lifts it by itself
        store.put(additions).check()
        assert_whole(store, additions)


@pytest.mark.parametrize("part", ["chunks", "documents", "ledger"])
def test_an_index_of_others_under_a_name_of_ours_is_left_alone(
    es_cluster: SearchCluster, name: str, part: str
) -> None:
    url = es_cluster.urls[0]
    ask(f"{url}/{name}-{part}", method="PUT", body={"mappings": {"properties": {"x": {"type": "text"}}}})
    with pytest.raises(CatenaError, match=rf"{name}-{part}") as caught:
        made(ElasticsearchTransport.over(url), name)
    assert isinstance(caught.value, LibraryError)
    assert "nothing" in str(caught.value)
    assert f"{name}-chunks-1" not in indices_of(url, name)
    assert list(ask(f"{url}/{name}-{part}/_mapping")[f"{name}-{part}"]["mappings"]["properties"]) == ["x"]


def test_the_other_product_is_told(es_cluster: SearchCluster, os_url: str, name: str, fresh_index: Any) -> None:
    other = fresh_index(os_url, "w")
    with pytest.raises(ServerError, match=r"catena_server\.opensearch") as caught:
        made(ElasticsearchTransport.over(os_url), other)
    assert caught.value.retry is False
    assert indices_of(os_url, other) == set()
    with pytest.raises(ServerError, match=r"catena_server\.elasticsearch"):
        made(OpenSearchTransport.over(es_cluster.urls[0]), name)
    assert f"{name}-chunks-1" not in indices_of(es_cluster.urls[0], name)
