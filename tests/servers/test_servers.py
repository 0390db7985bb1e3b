from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress

import pytest

from catena_bench.servers import NoServersError, SearchCluster, ask, opensearch
from catena_bench.servers.distributions import OPENSEARCH_NEWEST

QUERY = {"query": {"match": {"text": "chain"}}}
TWO_COPIES = {"settings": {"number_of_shards": 2, "number_of_replicas": 1}}


def found(url: str, index: str, key: str = "") -> list[str]:
    return [hit["_id"] for hit in ask(f"{url}/{index}/_search", body=QUERY, api_key=key)["hits"]["hits"]]


def put(url: str, index: str, name: str, key: str = "") -> None:
    ask(f"{url}/{index}/_doc/{name}?refresh=true", method="PUT", body={"text": "a chain of passages"}, api_key=key)


def is_gone(url: str) -> bool:
    with suppress(OSError):
        ask(url + "/_cluster/health", seconds=2.0)
        return False
    return True


def test_three_nodes_keep_what_was_written_when_one_is_killed(es_cluster: SearchCluster, fresh_index):
    url, other, _ = es_cluster.urls
    index = fresh_index(url)
    ask(f"{url}/{index}", method="PUT", body=TWO_COPIES)
    es_cluster.wait(nodes=3, status="green")
    put(url, index, "1")
    es_cluster.kill(0)
    es_cluster.wait(status="yellow")
    assert is_gone(url)
    put(other, index, "2")
    assert sorted(found(other, index)) == ["1", "2"]
    es_cluster.start(0)
    es_cluster.wait(nodes=3, status="green")
    assert sorted(found(url, index)) == ["1", "2"]


def test_the_newest_opensearch_runs_and_ends_with_its_context_though_it_is_held():
    try:
        with opensearch(version=OPENSEARCH_NEWEST) as cluster:
            put(cluster.urls[0], "t", "1")
            assert found(cluster.urls[0], "t") == ["1"]
            cluster.suspend(0)
    except NoServersError as error:
        pytest.skip(str(error))
    assert is_gone(cluster.urls[0])
    assert not cluster.logs[0].parent.parent.exists()


def test_a_server_ends_when_the_command_that_started_it_is_killed():
    command = [sys.executable, "-c", "from catena_bench.cli import main; main()", "servers", "start"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        if not url:
            pytest.skip(process.stderr.read())
        assert not is_gone(url)
        process.kill()
        process.wait()
    give_up = time.monotonic() + 60
    while not is_gone(url) and time.monotonic() < give_up:
        time.sleep(0.2)
    assert is_gone(url)
