"""What the tests of faults share: a transport beside whose calls things happen, a proxy that refuses, a report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from entry_cases import plain
from fake_server import Killed

from catena.effects import Embedder, Retry
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


class Beside:
    """A transport beside whose n-th call, from 0, something is done; `made` is the number of calls so far.

    `is_killed` says whether the last call was killed instead of made.
    """

    def __init__(self, transport: Transport) -> None:
        self.identity = transport.identity
        self.flavour: Flavour = transport.flavour
        self.made, self.is_killed = 0, False
        self._kill_at = 10**9
        self._deeds: dict[int, Callable[[], None]] = {}
        self._transport, self._numbers = transport, count()
        self._threads: list[threading.Thread] = []

    def soon(self, calls: int, deed: Callable[[], None]) -> None:
        """Do something when so many more calls were made, while the next is on its way."""
        self._deeds[self.made + calls] = deed

    @contextmanager
    def killed_after(self, calls: int) -> Iterator[None]:
        """Kill what is done inside before its next call after so many."""
        self._kill_at = self.made + calls
        with suppress(Killed):
            yield
        self._kill_at = 10**9

    def perform(self, call: Call) -> Any:
        number = next(self._numbers)
        self.made, self.is_killed = number + 1, number >= self._kill_at
        if self.is_killed:
            raise Killed
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


def made(transport: Transport, name: str, model: Embedder | None = MODEL, **how: Any) -> ServerStore:
    """Open a set, or make it; without a model that of the set counts."""
    vectors: dict[str, Any] = {} if model is None else {"embedder_identity": model.identity, "dim": model.dim}
    return ServerStore.open(transport, name, **vectors, **how)


@contextmanager
def opened(
    urls: Sequence[str], name: str, *, options: ServerOptions = QUICK, timeout: float = 5.0, **shape: Any
) -> Iterator[tuple[ServerStore, Beside]]:
    """Open a set on a cluster: three shards, each twice, by default."""
    beside = Beside(ElasticsearchTransport.connect(urls, timeout=timeout))
    shape = {"shards": 3, "replicas": 1, **shape}
    with made(beside, name, options=options, **shape) as store:
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
