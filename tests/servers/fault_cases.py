"""What the tests of faults share: a transport beside whose calls things happen, a proxy that refuses, a report."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from entry_cases import plain

from catena.effects import Retry
from catena.testing import FakeEmbedder
from catena_bench.servers import SearchCluster, ask
from catena_server import BulkOptions, Call, ElasticsearchTransport, Flavour, ServerOptions, ServerStore, Transport
from catena_server.writing import Addition

MODEL = FakeEmbedder(dim=3)
QUICK = ServerOptions(
    counts_seconds=0.0,
    bulk=BulkOptions(actions=20, base_seconds=0.1),
    retry=Retry(base_seconds=0.1, rate_limit_seconds=0.0),
)
REPORT = "CATENA_FAULTS"  # the environment's name for a file that takes a line of JSON for each fault


class Beside:
    """A transport beside whose n-th call, from 0, something is done; `made` is the number of calls so far."""

    def __init__(self, transport: Transport) -> None:
        self.identity = transport.identity
        self.flavour: Flavour = transport.flavour
        self.made = 0
        self._deeds: dict[int, Callable[[], None]] = {}
        self._transport, self._numbers = transport, count()
        self._threads: list[threading.Thread] = []

    def soon(self, calls: int, deed: Callable[[], None]) -> None:
        """Do something when so many more calls were made, while the next is on its way."""
        self._deeds[self.made + calls] = deed

    def perform(self, call: Call) -> Any:
        number = next(self._numbers)
        self.made = number + 1
        if number in self._deeds:
            self._threads.append(threading.Thread(target=self._deeds.pop(number)))
            self._threads[-1].start()
        return self._transport.perform(call)

    def settle(self) -> None:
        """Wait until all that was begun is done; all of it was begun."""
        assert not self._deeds
        for thread in self._threads:
            thread.join()

    def close(self) -> None:
        self._transport.close()  # type: ignore[attr-defined]


@contextmanager
def opened(
    urls: Sequence[str], name: str, *, options: ServerOptions = QUICK, timeout: float = 5.0, **shape: Any
) -> Iterator[tuple[ServerStore, Beside]]:
    """Open a set on a cluster: three shards, each twice, by default."""
    beside = Beside(ElasticsearchTransport.connect(urls, timeout=timeout))
    shape = {"shards": 3, "replicas": 1, **shape}
    with ServerStore.open(
        beside, name, embedder_identity=MODEL.identity, dim=MODEL.dim, options=options, **shape
    ) as store:
        yield store, beside


def documents(n: int, *, chunks: int = 5, fingerprint: str = "f", words: str = "words") -> list[Addition]:
    return [plain(f"d{at:03}", chunks, fingerprint=fingerprint, words=words) for at in range(n)]


def assert_whole(store: ServerStore, additions: Sequence[Addition]) -> int:
    """Hold what is stored to what was put: every chunk once and as it was, nothing else. Returns the chunks."""
    assert store.verify() == ()
    held = [(each.chunk.id, each.chunk.text) for each in store.export()]
    wanted = [(chunk.id, chunk.text) for entry, _ in additions for chunk in entry.chunks]
    assert sorted(held) == sorted(wanted)
    assert store.stats().chunks == len(wanted)
    assert store.fingerprints([entry.document.id for entry, _ in additions]) == {
        entry.document.id: entry.fingerprint for entry, _ in additions
    }
    return len(held)


def master_of(cluster: SearchCluster, asked: int = 0) -> int:
    """Return the number of the node that is master; a cluster that is choosing one is waited for."""
    cluster.wait()
    state = ask(f"{cluster.urls[asked]}/_cluster/state/master_node,nodes?filter_path=master_node,nodes.*.name")
    return int(state["nodes"][state["master_node"]]["name"].removeprefix("node-"))


def indices_of(url: str, beginning: str) -> set[str]:
    return set(ask(f"{url}/{beginning}*/_settings/index.uuid?expand_wildcards=all&allow_no_indices=true"))


@dataclass(slots=True)
class Told:
    """One line of the report; `chunks` before and after, and how long it took until all was well again."""

    fault: str
    before: int = 0
    after: int = 0
    notes: dict[str, Any] = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)


@contextmanager
def told(fault: str) -> Iterator[Told]:
    """Print what a fault cost, and add it to the file that the environment names."""
    line = Told(fault)
    yield line
    shown = {
        "fault": line.fault,
        "chunks before": line.before,
        "chunks after": line.after,
        **line.notes,
        "seconds": round(time.monotonic() - line.begun, 1),
    }
    print(json.dumps(shown))
    if REPORT in os.environ:
        with open(os.environ[REPORT], "a", encoding="utf-8") as file:
            file.write(json.dumps(shown) + "\n")


Answer: TypeAlias = tuple[int, Mapping[str, Any]]
Refuse: TypeAlias = Callable[[str, str, bytes], "Answer | None"]
Change: TypeAlias = Callable[[str, str, bytes, dict[str, Any]], Mapping[str, Any]]


@dataclass(slots=True)
class Proxy:
    """Stands on loopback before a real server, answers some calls itself, and changes some answers.

    Attributes:
        refuse: gets method, path and body; what it returns is answered, and the server not asked. None asks it.
        change: gets the same and the server's answer, which it returns changed or as it is.
        hold: seconds that every answer takes longer.
    """

    refuse: Refuse = lambda *_: None
    change: Change = lambda *of: of[-1]
    hold: float = 0.0
    retry_after: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""


@contextmanager
def proxy(upstream: str) -> Iterator[Proxy]:
    between, server = Proxy(), urlsplit(upstream)
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def passed(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            between.asked.append((self.command, self.path))
            over.wait(between.hold)
            refused = between.refuse(self.command, self.path, body)
            if refused is not None:
                self.send(*refused)
                return
            connection = http.client.HTTPConnection(str(server.hostname), server.port, timeout=30)
            try:
                kept = {name: self.headers[name] for name in ("content-type", "accept") if name in self.headers}
                connection.request(self.command, self.path, body or None, kept)
                reply = connection.getresponse()
                answer = json.loads(reply.read() or b"{}")
            finally:
                connection.close()
            self.send(reply.status, between.change(self.command, self.path, body, answer))

        def send(self, status: int, answer: Mapping[str, Any]) -> None:
            self.close_connection = between.hold > 0
            sent = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("x-elastic-product", "Elasticsearch")
            self.send_header("content-length", str(len(sent)))
            if status == 429 and between.retry_after:
                self.send_header("retry-after", between.retry_after)
            with suppress(OSError):  # whoever asked has given up
                self.end_headers()
                self.wfile.write(sent)

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = passed

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        between.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield between
        finally:
            over.set()
            listening.shutdown()
            thread.join()
