"""Who writes to a real server is killed at random moments: the next run ends as an undisturbed one does."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from fault_cases import QUICK, assert_whole, documents, opened

from catena.effects import Search, run
from catena.testing import FakeEmbedder
from catena_server import ElasticsearchTransport, ServerLibrary, ServerStore, abandon, calling

MODEL = FakeEmbedder(dim=16)
FILES = 24
KILLS = int(os.environ.get("CATENA_KILLS", "12"))
IMPORTED = ["catena_server.library", "catena_server.elasticsearch", "elasticsearch"]


def index(urls: tuple[str, ...], name: str, folder: Path) -> None:
    with ServerLibrary.open(urls, name, embedder=FakeEmbedder(dim=16), home=folder, options=QUICK) as library:
        library.index(folder)


def written(folder: Path, version: int) -> Path:
    """Write the files in one of two versions, of other numbers of sections."""
    folder.mkdir(exist_ok=True)
    for number in range(FILES):
        sections = (
            f"## Part {part}\n\nOf {version}: the clock of part {part} runs at {number + part} MHz.\n"
            for part in range(2 + (number + version) % 4)
        )
        (folder / f"file-{number:02}.md").write_text(f"# File {number}\n\n" + "\n".join(sections))
    return folder


def content(store: ServerStore) -> list[Any]:
    """Return all that is stored, so that it can be compared."""
    chunks = [(each.chunk, each.kinds, each.digests, each.rows.tolist()) for each in store.export()]
    entries = [store.get(info.id) for info in store.documents()]
    outcomes = [(each.document_id, each.state, each.chunks) for each in store.ledger()]
    return [chunks, entries, outcomes]


def test_a_process_killed_at_random_moments_leaves_nothing_out_and_nothing_twice(
    es_url: str, fresh_index: Callable[..., str], tmp_path: Path
) -> None:
    dice = random.Random(11)
    urls, folder = (es_url,), tmp_path / "files"
    clean, name = fresh_index(urls[0], "w"), fresh_index(urls[0], "w")
    context: ForkServerContext = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)

    def started(version: int, into: str) -> Any:
        process = context.Process(target=index, args=(urls, into, written(folder, version)))
        process.start()
        return process

    started(0, clean).join()  # so that what follows is not the first to import
    begun = time.monotonic()
    undisturbed = started(1, clean)
    undisturbed.join()
    seconds = time.monotonic() - begun
    assert undisturbed.exitcode == 0
    shape = {"embedder_identity": MODEL.identity, "dim": MODEL.dim, "options": QUICK}
    ended: list[int | None] = []
    while ended.count(-9) < KILLS and len(ended) < 4 * KILLS:
        process = started((len(ended) // 2 + 1) % 2, name)
        process.join(dice.uniform(0.1, seconds))
        process.kill()
        process.join()
        ended.append(process.exitcode)
        if process.exitcode == 0:  # the machine is less busy than it was in the undisturbed run
            seconds = max(0.2, 0.8 * seconds)
    with (
        ServerStore.open(ElasticsearchTransport.connect(urls), name, **shape) as store,
        ServerStore.open(ElasticsearchTransport.connect(urls), clean, **shape) as undisturbed_store,
    ):
        last = started(1, name)
        last.join()
        assert last.exitcode == 0
        assert store.verify() == undisturbed_store.verify() == ()
        assert content(store) == content(undisturbed_store)
    assert ended.count(-9) == KILLS


def test_a_rebuild_that_is_killed_leaves_the_old_set_and_the_next_ends_it(
    es_url: str, fresh_index: Callable[..., str]
) -> None:
    additions = documents(6)
    with opened([es_url], fresh_index(es_url, "w"), shards=1, replicas=0) as (store, beside):
        store.put(additions).check()
        asked = Search(route="lexical", query="word003", k=10)
        wanted = said(store, asked)
        for kills, calls in enumerate(range(1, 1_000, 5), start=1):
            with beside.killed_after(calls):
                ServerStore(beside, store.layout, QUICK).rebuild(shards=2)
            is_done = not beside.is_killed
            store.layout = ServerStore.open(beside, store.layout.name).layout
            assert said(store, asked) == wanted
            if is_done:
                break
            assert store.verify() == ()
            if kills % 3 == 0:
                run(abandon(store.layout.name), calling(beside, QUICK))
        assert store.layout.shards == 2
        assert_whole(store, additions)


def said(store: ServerStore, asked: Search) -> list[str]:
    return [hit.chunk.id for hit in store.search(asked).hits]
