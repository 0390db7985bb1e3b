"""A real server refuses: too busy, blocked, another set, another product. Errors are clear, and nothing is lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from fault_cases import MODEL, QUICK, Proxy, assert_whole, documents, indices_of, opened, proxy, told
from opened_stores import elasticsearch_store, opensearch_store

from catena.effects import Retry
from catena.model import CatenaError, LibraryError, ModelMismatchError, ServerError
from catena.testing import FakeEmbedder
from catena_bench.servers import SearchCluster, ask
from catena_server import BulkOptions, ServerLibrary, ServerOptions
from catena_server.index_layout import META

KEY = "c2VjcmV0LWlkOnNlY3JldC1rZXk="
BUSY = {"type": "es_rejected_execution_exception", "reason": "rejected execution of coordinating operation"}
SMALL = {"shards": 1, "replicas": 0}
ONE_TRY = ServerOptions(
    bulk=BulkOptions(attempts=2, base_seconds=0.0), retry=Retry(attempts=2, base_seconds=0.0, rate_limit_seconds=0.0)
)


@pytest.fixture
def between(es_cluster: SearchCluster) -> Iterator[Proxy]:
    with proxy(es_cluster.urls[0]) as standing:
        yield standing


@pytest.fixture
def name(es_cluster: SearchCluster, fresh_index: Callable[..., str]) -> str:
    return fresh_index(es_cluster.urls[0], "w")


def test_items_and_calls_that_a_busy_server_refuses_are_sent_again(between: Proxy, name: str) -> None:
    dice = random.Random(7)
    statuses = {429: 0, 503: 0}

    def refuse(method: str, path: str, body: bytes) -> tuple[int, Any] | None:
        if not path.startswith("/_bulk") or dice.random() < 0.6:
            return None
        status = dice.choice((429, 503))
        statuses[status] += 1
        return status, {"error": BUSY, "status": status}

    def change(method: str, path: str, body: bytes, answer: dict[str, Any]) -> dict[str, Any]:
        if not path.startswith("/_bulk") or answer.get("errors") is not False:
            return answer
        actions = body.count(b'"_index"')
        items = [{"index": {"status": 201}} for _ in range(actions)]
        for item in dice.sample(items, actions // 4):  # written, and said not to be: sent again doubles nothing
            item["index"] = {"status": dice.choice((429, 503)), "error": BUSY}
        return {"errors": True, "items": items}

    between.refuse, between.change, between.retry_after = refuse, change, "0"
    options = replace(QUICK, bulk=BulkOptions(actions=25, attempts=30, base_seconds=0.0, max_seconds=0.0))
    additions = documents(40)
    with (
        opened([between.url], name, options=options, **SMALL) as (store, _),
        told("429 and 503, calls and items") as line,
    ):
        report = store.put(additions)
        report.check()
        line.before = sum(written.chunks for written in report.written)
        line.notes |= {"calls refused": dict(statuses), "actions sent again": report.again}
        assert min(statuses.values()) > 0
        assert report.again > 0
        between.refuse = lambda *_: None
        line.after = assert_whole(store, additions)


def test_a_server_that_stays_busy_is_told_and_the_same_again_finishes(between: Proxy, name: str) -> None:
    additions = documents(12)
    with (
        opened([between.url], name, options=ONE_TRY, **SMALL) as (store, _),
        told("429 and 503 that do not end") as line,
    ):
        store.put(additions[:4]).check()
        line.before = store.stats().chunks
        status = 429
        between.refuse = lambda method, path, _: (
            (status, {"error": BUSY, "status": status}) if path.startswith("/_bulk") and late(between) else None
        )
        begun = len(between.asked)

        def late(between: Proxy) -> bool:
            return len(between.asked) > begun + 4

        report = store.put(additions, visible=False)
        assert (len(report.skipped), len(report.unfinished)) == (4, 8)
        with pytest.raises(ServerError, match=r"8 documents are not whole.*Try: the same again") as caught:
            report.check()
        assert (caught.value.status, caught.value.kind) == (status, BUSY["type"])
        status, asked = 503, len(between.asked)
        with pytest.raises(ServerError, match=r"status 503.*sending it again doubles nothing\. Try: again"):
            store.put(additions, visible=False)
        assert len(between.asked) - asked < 12  # it stops, and asks not for each document in turn
        between.refuse = lambda *_: None
        store.refresh()
        line.notes["documents not whole"] = len(store.verify())
        store.put(additions).check()
        line.after = assert_whole(store, additions)


def test_a_call_that_is_more_than_the_server_holds_at_once_is_told(es_cluster: SearchCluster, name: str) -> None:
    """`indexing_pressure.memory.limit` of these nodes is 2 MB: a real 429."""
    ((entry, vectors),) = documents(1)
    text = entry.document.text + "and so on " * 400_000
    additions = [(replace(entry, document=replace(entry.document, text=text)), vectors)]
    large = replace(ONE_TRY, bulk=BulkOptions(attempts=2, base_seconds=0.0))
    small = replace(QUICK, bulk=BulkOptions(bytes=1_000_000, in_flight=1))
    with told("429 of the server's own: a call larger than indexing_pressure.memory.limit") as line:
        with opened(es_cluster.urls, name, options=large, timeout=30.0, **SMALL) as (store, _):
            with pytest.raises(ServerError, match="documents are not whole") as caught:
                store.put(additions).check()
            assert (caught.value.status, caught.value.kind) == (429, BUSY["type"])
        with opened(es_cluster.urls, name, options=small, timeout=30.0, **SMALL) as (store, _):
            store.put(additions).check()
            line.after = assert_whole(store, additions)
            assert store.get(entry.document.id).document.text == text


def set_block(url: str, name: str, on: bool | None) -> None:
    ask(f"{url}/{name}-*/_settings", method="PUT", body={"index.blocks.read_only_allow_delete": on})


def is_blocked(url: str, name: str) -> bool:
    found = ask(f"{url}/{name}-chunks/_settings?flat_settings=true")
    return any("index.blocks.read_only_allow_delete" in each["settings"] for each in found.values())


def wait_for(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.2)


def test_a_disk_that_fills_while_documents_are_put_stops_at_once_and_the_same_again_finishes(
    es_cluster: SearchCluster, name: str
) -> None:
    url, additions = es_cluster.urls[0], documents(60)
    with (
        opened(es_cluster.urls, name, **SMALL) as (store, beside),
        told("read-only block set while documents are put") as line,
    ):
        store.put(additions[:5]).check()
        beside.soon(8, lambda: set_block(url, name, on=True))
        with pytest.raises(ServerError, match=r"disk.*(kept|stays).*Try: ") as caught:
            store.put(additions)
        beside.settle()
        stopped = beside.made
        assert caught.value.kind == "cluster_block_exception"
        with pytest.raises(ServerError, match="disk"):
            store.put(additions)
        line.notes["calls until the next run stopped"] = beside.made - stopped
        assert beside.made - stopped < 6
        set_block(url, name, on=None)
        store.refresh()
        line.before = store.stats().chunks
        assert len(store.verify()) <= 55
        assert set(store.fingerprints([f"d{at:03}" for at in range(5)])) == {f"d{at:03}" for at in range(5)}
        store.put(additions).check()
        line.after = assert_whole(store, additions)


def test_a_disk_over_the_flood_stage_blocks_writing_and_nothing_is_lost(es_cluster: SearchCluster, name: str) -> None:
    url, additions = es_cluster.urls[0], documents(12)
    marks = {"low": "1%", "high": "2%", "flood_stage": "3%"}
    of_disk = {f"cluster.routing.allocation.disk.watermark.{mark}": value for mark, value in marks.items()}

    def set_marks(on: bool) -> None:
        kept = {key: value if on else None for key, value in of_disk.items()}
        settings = kept | {"cluster.info.update.interval": "10s" if on else None}
        ask(f"{url}/_cluster/settings", method="PUT", body={"persistent": settings})

    with (
        opened(es_cluster.urls, name, **SMALL) as (store, _),
        told("disk over its flood-stage watermark") as line,
    ):
        store.put(additions[:6]).check()
        es_cluster.wait(status="green")
        line.before = store.stats().chunks
        set_marks(True)
        try:
            wait_for(lambda: is_blocked(url, name))
            with pytest.raises(ServerError, match=r"disk.*(kept|stays).*Try: "):
                store.put(additions)
            assert store.stats().chunks >= line.before  # what was written is still found
        finally:
            set_marks(False)
        wait_for(lambda: not is_blocked(url, name))  # the server lifts it by itself
        store.put(additions).check()
        line.after = assert_whole(store, additions)


def test_a_wrong_key_is_told_and_shown_nowhere(between: Proxy, name: str) -> None:
    error = {"type": "security_exception", "reason": f"unable to authenticate with ApiKey {KEY}"}
    between.refuse = lambda *_: (401, {"error": error, "status": 401})
    opening: tuple[Callable[[], object], ...] = (
        lambda: elasticsearch_store(between.url, name, embedder=MODEL, api_key=KEY, options=ONE_TRY),
        lambda: opensearch_store(between.url, name, embedder=MODEL, bearer_auth=KEY, options=ONE_TRY),
        lambda: ServerLibrary.open(between.url, name, embedder=MODEL, connection={"api_key": KEY}, options=ONE_TRY),
    )
    for opened_by in opening:
        asked = len(between.asked)
        with pytest.raises(ServerError, match="401") as caught:
            opened_by()
        assert len(between.asked) == asked + 1  # not tried again
        assert "_key=" in str(caught.value) or "bearer_auth=" in str(caught.value)
        cause: BaseException | None = caught.value
        while cause is not None:
            assert KEY not in f"{cause!r} {cause}"
            assert "secret-key" not in f"{cause!r} {cause}"
            cause = cause.__cause__ or cause.__context__


def test_a_key_that_may_only_read_is_told_before_anything_is_written(between: Proxy, name: str) -> None:
    reason = "action [indices:data/write/bulk] is unauthorized for API key"
    with opened([between.url], name, **SMALL) as (store, _):
        between.refuse = lambda method, path, _: (
            (403, {"error": {"type": "security_exception", "reason": reason}, "status": 403})
            if path.startswith("/_bulk")
            else None
        )
        with pytest.raises(ServerError, match=r"403.*unauthorized.*Try: a key whose role") as caught:
            store.put(documents(2))
        assert caught.value.retry is False
        assert store.verify() == ()
        assert store.stats().chunks == 0


@pytest.mark.parametrize("part", ["chunks", "documents", "ledger"])
def test_an_index_of_others_under_a_name_of_ours_is_left_alone(
    es_cluster: SearchCluster, name: str, part: str
) -> None:
    url = es_cluster.urls[0]
    ask(f"{url}/{name}-{part}", method="PUT", body={"mappings": {"properties": {"x": {"type": "text"}}}})
    with pytest.raises(CatenaError, match=rf"{name}-{part}") as caught:
        elasticsearch_store(url, name, embedder=MODEL)
    assert isinstance(caught.value, LibraryError)
    assert "nothing" in str(caught.value)
    assert f"{name}-chunks-1" not in indices_of(url, name)
    assert list(ask(f"{url}/{name}-{part}/_mapping")[f"{name}-{part}"]["mappings"]["properties"]) == ["x"]


def remapped(url: str, name: str, **changes: Any) -> None:
    """Make the chunks of a set anew, by others: with another mapping, or another word on what they are."""
    (index, held), *_ = ask(f"{url}/{name}-chunks").items()
    mappings = held["mappings"]
    mappings["_meta"][META] |= changes.pop("meta", {})
    mappings["properties"] |= changes
    ask(f"{url}/{index}", method="DELETE")
    ask(f"{url}/{index}", method="PUT", body={"mappings": mappings, "aliases": {f"{name}-chunks": {}}})


@pytest.mark.parametrize(
    ("changes", "kind", "what"),
    [
        ({"meta": {"format": 99}}, LibraryError, "format 99"),
        ({"meta": {"embedder": "another"}}, ModelMismatchError, "'another'"),
        ({"meta": {"dim": 4}}, LibraryError, "vectors.default"),
        ({"meta": {"later": 1}}, LibraryError, "later"),
        ({"meta": {"shards": "three"}}, LibraryError, "shards"),
        ({"terms": {"type": "text"}}, LibraryError, "terms"),
        ({"document": {"type": "text"}}, LibraryError, "document"),
        ({"position": {"type": "keyword"}}, LibraryError, "position"),
        ({"words": {"properties": {"of_headed": {"type": "keyword"}}}}, LibraryError, "of_headed"),
        (
            {"vectors": {"properties": {"default": {"type": "dense_vector", "dims": 5}}}},
            LibraryError,
            "vectors.default",
        ),
    ],
)
def test_a_set_that_others_changed_is_named_and_not_written(
    es_cluster: SearchCluster, name: str, changes: dict[str, Any], kind: type[CatenaError], what: str
) -> None:
    url = es_cluster.urls[0]
    with opened([url], name, **SMALL) as (store, _):
        store.put(documents(1)).check()
    remapped(url, name, **changes)
    with pytest.raises(kind, match=what):
        elasticsearch_store(url, name, embedder=MODEL)
    assert ask(f"{url}/{name}-chunks/_count")["count"] == 0


def test_another_model_is_refused_and_nothing_written(es_cluster: SearchCluster, name: str) -> None:
    url = es_cluster.urls[0]
    with opened([url], name, **SMALL) as (store, _):
        for model in (FakeEmbedder(dim=4), FakeEmbedder(dim=3, identity="another of three")):
            with pytest.raises(ModelMismatchError, match="nothing was changed"):
                ServerLibrary.open(url, name, embedder=model)
        assert store.stats().documents == 0


def test_a_client_of_another_version_is_told(between: Proxy, name: str) -> None:
    reason = "A compatible version is required on both Content-Type and Accept headers if either one has requested"
    error = {"type": "media_type_header_exception", "reason": f"{reason} a compatible version. compatible-with=9"}
    between.refuse = lambda *_: (400, {"error": error, "status": 400})
    for make in (elasticsearch_store, ServerLibrary.open):
        with pytest.raises(ServerError, match=r"elasticsearch<9") as caught:
            make(between.url, name, embedder=MODEL)  # type: ignore[operator]
        assert (caught.value.kind, caught.value.retry) == ("media_type_header_exception", False)


def test_the_other_product_is_told(es_cluster: SearchCluster, os_url: str, name: str, fresh_index: Any) -> None:
    other = fresh_index(os_url, "w")
    with pytest.raises(ServerError, match=r"catena_server\.opensearch") as caught:
        elasticsearch_store(os_url, other, embedder=MODEL)
    assert caught.value.retry is False
    assert indices_of(os_url, other) == set()
    with pytest.raises(ServerError, match=r"catena_server\.elasticsearch"):
        opensearch_store(es_cluster.urls[0], name, embedder=MODEL)
    assert f"{name}-chunks-1" not in indices_of(es_cluster.urls[0], name)


def test_a_server_that_says_nothing_is_given_up_on(between: Proxy, name: str) -> None:
    additions = documents(4)
    with opened([between.url], name, options=ONE_TRY, timeout=0.5, **SMALL) as (store, _):
        store.put(additions[:1]).check()
        between.hold = 30.0
        asked = len(between.asked)
        with pytest.raises(ServerError, match=r"no answer.*Try: again") as caught:
            store.put(additions)
        assert (caught.value.kind, caught.value.retry) == ("timeout", True)
        assert len(between.asked) - asked == ONE_TRY.retry.attempts
