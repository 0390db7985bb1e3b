"""Run a cluster of search servers on this machine: each node a process that can be killed, held and started again."""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal

from catena import ParameterError, ServerError
from catena_bench.servers.distributions import (
    Distribution,
    Flavour,
    elasticsearch_distribution,
    node_settings,
    opensearch_distribution,
)

START_SECONDS = 300.0  # a machine that does much else is slow to start one
PORTS = range(20_000, 32_000)  # below those that systems give to outgoing connections: a dead node's stay free
Status = Literal["green", "yellow", "red"]


class SearchCluster:
    """Running nodes, numbered from 0.

    Attributes:
        flavour: "elasticsearch" or "opensearch".
        version: the servers' version.
        urls: one address per node.
        logs: one file per node, with all that it printed.
        started_in: seconds from the first process to a cluster that answers with every node in it.
    """

    def __init__(
        self, distribution: Distribution, nodes: int, heap: str, settings: Mapping[str, object], folder: Path
    ) -> None:
        ports = free_ports(2 * nodes)
        http_ports, transport_ports = ports[:nodes], ports[nodes:]
        self.flavour: Flavour = distribution.flavour
        self.version = distribution.version
        self.urls = tuple(f"http://127.0.0.1:{port}" for port in http_ports)
        self.logs = tuple(folder / f"node-{number}" / "log.txt" for number in range(nodes))
        self.started_in = 0.0
        self._commands: list[list[str]] = []
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._held: set[int] = set()
        for number in range(nodes):
            home = folder / f"node-{number}"
            (home / "tmp").mkdir(parents=True)
            own = node_settings(
                self.flavour, number=number, http_ports=http_ports, transport_ports=transport_ports, folder=home
            )
            distribution.write_config(home / "config", {**own, **settings})
            self._commands.append(distribution.command(home / "config", heap))

    def __repr__(self) -> str:
        return f"Cluster({self.flavour} {self.version}: {', '.join(self.urls)})"

    def launch(self) -> None:
        """Start every node, and wait until all are one cluster."""
        begun = time.perf_counter()
        for number in range(len(self.urls)):
            self._spawn(number)
        self.wait()
        self.started_in = time.perf_counter() - begun

    def start(self, number: int) -> None:
        """Start a killed node on the data and ports that it had, and wait until it is in the cluster again."""
        if number in self._processes:
            raise ParameterError("number", number, "a node that was killed")
        self._spawn(number)
        self.wait()

    def kill(self, number: int) -> None:
        """Kill a node at once, with nothing written that was not written yet (SIGKILL)."""
        process = self._process(number)
        process.kill()
        self._forget(number)

    def suspend(self, number: int) -> None:
        """Hold a node as it is: its connections stay open, and nothing answers any more (SIGSTOP)."""
        process = self._process(number)
        process.send_signal(signal.SIGSTOP)
        self._held.add(number)
        if hasattr(os, "waitid"):  # a busy machine stops a thread after the other; the end, if it ends, is not taken
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self, number: int) -> None:
        """Let a held node go on (SIGCONT)."""
        self._process(number).send_signal(signal.SIGCONT)
        self._held.discard(number)

    def heal(self) -> None:
        """Bring every node back, killed or held, and wait until all copies of all shards are there."""
        for number in range(len(self.urls)):
            process = self._processes.get(number)
            if process is not None and process.poll() is None:
                self.resume(number)
                continue
            if process is not None:
                self._forget(number)
            self._spawn(number)
        self.wait(status="green")

    def wait(self, *, nodes: int | None = None, status: Status = "red", seconds: float = START_SECONDS) -> None:
        """Wait until every node that runs and is not held says that the cluster is large and whole enough.

        Args:
            nodes: how many nodes the cluster must have, at least; those that are asked by default.
            status: "green" has every copy of every shard, "yellow" one copy of each, "red" is any state.
            seconds: how long to wait.

        Raises:
            ServerError: that did not come about in time, or a node ended.
        """
        asked = sorted(self._processes.keys() - self._held)
        wanted = len(asked) if nodes is None else nodes
        path = f"/_cluster/health?wait_for_nodes=%3E%3D{wanted}&wait_for_status={status}&timeout=2s"
        give_up = time.monotonic() + seconds
        while asked:
            if self._is_healthy(asked[0], path):
                del asked[0]
                continue
            for number, process in self._processes.items():
                if process.poll() is not None:
                    raise self._error(f"node {number} ended with code {process.returncode}", number)
            if time.monotonic() > give_up:
                raise self._error(f"no {status} cluster of {wanted} nodes within {seconds:.0f} s", asked[0])
            time.sleep(0.1)

    def close(self) -> None:
        """End every node, held ones too."""
        for process in self._processes.values():
            process.kill()
        for number in tuple(self._processes):
            self._forget(number)

    def _spawn(self, number: int) -> None:
        with self.logs[number].open("ab") as log:
            self._processes[number] = subprocess.Popen(
                self._commands[number],
                stdin=subprocess.PIPE,  # the node ends when this closes, however this process ends
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.logs[number].parent,
            )

    def _process(self, number: int) -> subprocess.Popen[bytes]:
        if number not in self._processes:
            raise ParameterError("number", number, f"one of the running nodes {sorted(self._processes)}")
        return self._processes[number]

    def _forget(self, number: int) -> None:
        self._held.discard(number)
        process = self._processes.pop(number)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def _is_healthy(self, number: int, path: str) -> bool:
        try:
            return not ask(self.urls[number] + path, seconds=5.0)["timed_out"]
        except OSError:
            return False

    def _error(self, what: str, number: int) -> ServerError:
        lines = self.logs[number].read_text(encoding="utf-8", errors="replace").splitlines()
        return ServerError(repr(self), "\n".join([what, *lines[-20:]]))


def ask(url: str, *, method: str = "GET", body: object = None, seconds: float = 30.0, api_key: str = "") -> Any:
    """Send one request to a server, past any proxy, and return its JSON.

    Raises:
        OSError: no answer, or one that is an error (`urllib.error.HTTPError`).
    """
    headers = {"content-type": "application/json"} | ({"authorization": f"ApiKey {api_key}"} if api_key else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=seconds) as answer:
        return json.load(answer)


def free_ports(count: int) -> list[int]:
    """Return so many ports of loopback on which nothing listens now."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):  # at random, as others look for some too
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            break
    return found


def elasticsearch(
    *, nodes: int = 1, heap: str = "512m", version: str | None = None, settings: Mapping[str, object] | None = None
) -> AbstractContextManager[SearchCluster]:
    """Run Elasticsearch while the context lasts; what it stored is gone afterwards.

    Args:
        nodes: how many, each a process; all may be master and hold data.
        heap: of each node, as Java writes it; a node takes about 300 MB more than that.
        version: of 9.x; by default what the environment names as CATENA_ELASTICSEARCH, else the one that is pinned.
        settings: of every node, above ours.

    Raises:
        NoServersError: it cannot be fetched or compiled for on this machine.
        MissingExtraError: the wheel with the Java runtime is not installed.
        ServerError: it did not start; the message has the end of its log.

    Elasticsearch is fetched from where its makers publish it, under their licence; no part of it is in this package.
    """
    return _running(lambda: elasticsearch_distribution(version), nodes, heap, settings or {})


def opensearch(
    *, nodes: int = 1, heap: str = "512m", version: str | None = None, settings: Mapping[str, object] | None = None
) -> AbstractContextManager[SearchCluster]:
    """Run OpenSearch while the context lasts, as `elasticsearch` does; it is fetched in the same way.

    The version that is pinned is the newest for which the k-NN plugin can be fetched too; 3.8.0 runs without it.
    """
    return _running(lambda: opensearch_distribution(version), nodes, heap, settings or {})


@contextmanager
def _running(
    distribution: Callable[[], Distribution], nodes: int, heap: str, settings: Mapping[str, object]
) -> Iterator[SearchCluster]:
    if nodes < 1:
        raise ParameterError("nodes", nodes, "1 or more")
    with tempfile.TemporaryDirectory(prefix="catena-servers-", ignore_cleanup_errors=True) as folder:
        cluster = SearchCluster(distribution(), nodes, heap, settings, Path(folder))
        atexit.register(cluster.close)  # a generator that nothing exhausts is not told of the end
        try:
            cluster.launch()
            yield cluster
        finally:
            cluster.close()
            atexit.unregister(cluster.close)
