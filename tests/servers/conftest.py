"""Real servers for these tests: started by us, or those that ES_URL and OS_URL name; else skipped by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest

from catena.model import MissingExtraError
from catena_bench.servers import NoServersError, SearchCluster, ask, elasticsearch, opensearch
from catena_server import ElasticsearchTransport, OpenSearchTransport

ES_URL, ES_API_KEY, OS_URL = (os.environ.get(name, "") for name in ("ES_URL", "ES_API_KEY", "OS_URL"))
HERE = Path(__file__).parent
# LlamaIndex's Elasticsearch store leaves event loops open; they are found in whatever test runs when memory is freed
LEFT_OPEN = (
    "ignore:Exception ignored in. <(socket.socket|function BaseEventLoop.__del__)"
    ":pytest.PytestUnraisableExceptionWarning"
)
QUICK_TO_FAIL = {  # the cluster lets a node go within some seconds, and a node holds 2 MB of writing at once
    **{f"cluster.fault_detection.{who}_check.timeout": "4s" for who in ("follower", "leader")},
    **{f"cluster.fault_detection.{who}_check.interval": "500ms" for who in ("follower", "leader")},
    **{f"cluster.fault_detection.{who}_check.retry_count": 2 for who in ("follower", "leader")},
    "indexing_pressure.memory.limit": "2mb",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here, give a first start the time to fetch, and allow the hosts that were named."""
    hosts = [host for url in (ES_URL, OS_URL) if (host := urlsplit(url).hostname)]
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.servers)
            item.add_marker(pytest.mark.timeout(900))
            item.add_marker(pytest.mark.filterwarnings(LEFT_OPEN))
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1", "localhost", "::1", *hosts]))


def started(server: AbstractContextManager[SearchCluster]) -> Iterator[SearchCluster]:
    """Start a cluster for a fixture; skip by name where this machine cannot."""
    try:
        cluster = server.__enter__()
    except (NoServersError, MissingExtraError) as error:
        pytest.skip(str(error))
    try:
        yield cluster
    finally:
        server.__exit__(None, None, None)


@pytest.fixture(scope="session")
def es_url() -> Iterator[str]:
    """The address of an Elasticsearch of one node, or of the one that ES_URL names."""
    if ES_URL:
        yield ES_URL
        return
    for cluster in started(elasticsearch()):
        yield cluster.urls[0]


@pytest.fixture(scope="session")
def es_api_key() -> str:
    """The key for `es_url`, "" where it asks for none."""
    return ES_API_KEY if ES_URL else ""


@pytest.fixture(scope="session")
def es_cluster() -> Iterator[SearchCluster]:
    """Three Elasticsearch nodes of our own, to kill and to hold; never those of ES_URL."""
    yield from started(elasticsearch(nodes=3, settings=QUICK_TO_FAIL))


@pytest.fixture(scope="session")
def os_url() -> Iterator[str]:
    """The address of an OpenSearch of one node, or of the one that OS_URL names."""
    if OS_URL:
        yield OS_URL
        return
    for cluster in started(opensearch()):
        yield cluster.urls[0]


@pytest.fixture(autouse=True)
def _whole_again(request: pytest.FixtureRequest, fresh_index: Callable[..., str]) -> Iterator[None]:
    """After a test with `es_cluster`, and before its indices go, bring back the nodes that it killed or holds."""
    yield
    if "es_cluster" in request.fixturenames:
        request.getfixturevalue("es_cluster").heal()


@pytest.fixture(scope="session", params=["elasticsearch", "opensearch"])
def product(request: pytest.FixtureRequest, es_api_key: str) -> Iterator[tuple[Any, str]]:
    """A transport to a server of each kind, and its address."""
    if request.param == "elasticsearch":
        url = request.getfixturevalue("es_url")
        transport: Any = ElasticsearchTransport.connect(url, api_key=es_api_key or None)
    else:
        url = request.getfixturevalue("os_url")
        transport = OpenSearchTransport.connect(url)
    with transport:
        yield transport, url


@pytest.fixture
def fresh_index(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """A function `(url, stem="t") -> name`: nothing on the server begins with the name, now and after the test."""
    yield from _fresh(request.node.nodeid)


@pytest.fixture(scope="module")
def module_index(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """As `fresh_index`, for the tests of one file."""
    yield from _fresh(request.node.nodeid)


def _fresh(test: str) -> Iterator[Callable[..., str]]:
    given: list[tuple[str, str]] = []
    token = sha256(test.encode()).hexdigest()[:10]

    def fresh(url: str, stem: str = "t") -> str:
        name = f"{stem}-{token}-{len(given)}"
        given.append((url, name))
        delete_indices(url, name)
        return name

    yield fresh
    for url, name in given:
        delete_indices(url, name)


def delete_indices(url: str, beginning: str) -> None:
    """Delete every index whose name begins so."""
    key = ES_API_KEY if url == ES_URL else ""
    try:
        found = ask(f"{url}/{beginning}*/_settings/index.uuid?expand_wildcards=all", api_key=key)
    except HTTPError as error:
        if error.code != 404:
            raise
        return
    for name in found:
        ask(f"{url}/{name}", method="DELETE", api_key=key)
