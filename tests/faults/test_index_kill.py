"""Indexing that is killed again and again ends where an undisturbed run ends, and pays for nothing twice.

This file is also the program that is killed: a parent that has imported everything forks one indexer a round.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from forked import Rounds, fork_each_round, rounds_of

from catena.effects import Journal, Services
from catena.library import Library, file_ingestion
from catena.testing import FakeEmbedder

KILLS = int(os.environ.get("CATENA_KILLS", "100"))
FILES = 80


class Paid(FakeEmbedder):
    """Says in a log, before it answers, what it is paid for."""

    def __init__(self, log: Path) -> None:
        super().__init__(8, identity="paid")
        self._log = log

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        with self._log.open("a") as out:
            out.write(f"{texts[0].splitlines()[0]}\n")
        return super().embed_documents(texts)


def index(folder: Path) -> None:
    file_ingestion.BATCH_CHUNKS = 5  # many transactions, so that kills find them
    with (
        Journal.open(folder / "journal") as journal,
        Library.open(
            folder / "library", embedder=Paid(folder / "paid"), services=Services(journal=journal)
        ) as library,
    ):
        library.index([folder / "files"])


@pytest.fixture
def indexers(tmp_path: Path) -> Iterator[Rounds]:
    write_files(tmp_path / "files")
    with rounds_of(__file__, tmp_path) as rounds:
        yield rounds


def write_files(folder: Path) -> None:
    folder.mkdir()
    for number in range(FILES):
        text = f"# Manual {number}\n\n## Mounting\n\nTorque {number} Nm.\n\n## Wiring\n\nWire {number}.\n"
        (folder / f"{number:03}.md").write_text(text)


@pytest.mark.slow
def test_indexing_survives_kills_and_pays_once(tmp_path: Path, indexers: Rounds) -> None:
    choose = random.Random(20261121)
    kills, longest = 0, 0.4
    for _ in range(20 * KILLS):
        pid = indexers.begin()
        if kills < KILLS:
            time.sleep(choose.uniform(0.0, longest))
            with suppress(ProcessLookupError):  # it was done before
                os.kill(pid, signal.SIGKILL)
        ended = indexers.ended()
        kills += ended == signal.SIGKILL
        with Library.open(tmp_path / "library", embedder=FakeEmbedder(8, identity="paid")) as library:
            assert library.verify() == ()
            held = {info.id for info in library.documents()}
        if ended == 0:
            assert len(held) == FILES
            if kills >= KILLS:
                break
            # all is indexed: change some files, so that there is work to be killed in
            for number in choose.sample(range(FILES), FILES // 4):
                path = tmp_path / "files" / f"{number:03}.md"
                path.write_text(path.read_text().replace(f"# Manual {number}", f"# Manual {number} of {kills}", 1))
    assert kills == KILLS
    paid = Counter((tmp_path / "paid").read_text().splitlines())
    twice = sum(paid.values()) - len(paid)
    assert twice <= kills, "more was paid twice than could be in flight"
    with Library.open(tmp_path / "library", embedder=FakeEmbedder(8, identity="paid")) as library:
        for path in sorted((tmp_path / "files").iterdir()):
            assert library.get(library.document_id(path)).document.text == path.read_text()
        assert {outcome.state for outcome in library.ledger()} == {"indexed"}
        assert len(library.ledger()) == FILES


if __name__ == "__main__":
    fork_each_round(lambda _: index(Path(sys.argv[1])))
