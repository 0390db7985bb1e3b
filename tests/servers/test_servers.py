from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress

import pytest

from catena_bench.servers import NoServersError, ask, opensearch
from catena_bench.servers.distributions import OPENSEARCH_NEWEST


def is_gone(url: str) -> bool:
    with suppress(OSError):
        ask(url + "/_cluster/health", seconds=2.0)
        return False
    return True


def test_the_newest_opensearch_runs_and_ends_with_its_context_though_it_is_held():
    try:
        with opensearch(version=OPENSEARCH_NEWEST) as cluster:
            url = cluster.urls[0]
            ask(f"{url}/t/_doc/1?refresh=true", method="PUT", body={"text": "a chain of passages"})
            answer = ask(f"{url}/t/_search", body={"query": {"match": {"text": "chain"}}})
            assert [hit["_id"] for hit in answer["hits"]["hits"]] == ["1"]
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
