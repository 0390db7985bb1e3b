"""An ingestion that is killed, with its workers or one worker alone, goes on: nothing is lost, nothing doubled.

This file is also the program that is killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

HERE = Path(__file__).resolve()
sys.path.append(str(HERE.parent.parent))  # where the program finds it, too

from catena.enrichment import StaticEmbedder  # noqa: E402
from catena_server import IndexLayout, Recipe, ingest_files  # noqa: E402
from folder_server import FolderServer  # noqa: E402

KILLS = int(os.environ.get("CATENA_KILLS", "100")) // 20
FILES = 24


def ingest(files: Path, server: Path) -> None:
    """Index the files by two workers; say when a file has ended."""
    shipped = StaticEmbedder()
    recipe = Recipe(layout=IndexLayout(name="set", dim=shipped.dim, embedder=shipped.identity))
    ingest_files(
        files, partial(FolderServer, server), recipe, home=files, workers=2, batch_files=2,
        progress=lambda progress: print(progress.outcome.document_id, flush=True),
    )  # fmt: skip


def write_files(folder: Path, version: int) -> None:
    """Write the files anew: each version has other sections, so that chunks come and go."""
    folder.mkdir(exist_ok=True)
    for number in range(FILES):
        sections = range((number + version) % 4 + 1)
        body = "\n".join(f"## Part {part}\n\nFile {number} says {version}-{part}.\n" for part in sections)
        (folder / f"file-{number:02}.md").write_text(f"# File {number}\n\n{body}")


def content(server: Path) -> dict[str, dict[str, object]]:
    return {part: FolderServer(server).documents(f"set-{part}") for part in ("chunks", "documents", "ledger")}


def started(files: Path, server: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(HERE), str(files), str(server)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def children_of(pid: int) -> list[int]:
    """Return the workers of a process, as Linux tells them."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    children = [int(each) for each in path.read_text().split()]
    return [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the workers")
def test_killed_at_random_moments_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    choose = random.Random(20261122)
    files, server, clean = tmp_path / "files", tmp_path / "server", tmp_path / "clean"
    write_files(files, 0)
    ingest(files, server)
    write_files(files, 1)
    for round_ in range(KILLS):
        program = started(files, server)
        ended = choose.randrange(4)
        for _ in range(ended + 1):  # so that each round comes further than the one before
            if not program.stdout.readline():
                break
        time.sleep(choose.uniform(0, 0.05))
        workers = children_of(program.pid) if program.poll() is None else []
        if round_ % 2 and workers:
            os.kill(choose.choice(workers), signal.SIGKILL)
            program.stdout.readline()
        program.kill()
        program.communicate()
        until = time.monotonic() + 30
        while any(map(alive, workers)) and time.monotonic() < until:
            time.sleep(0.01)
        assert not any(map(alive, workers)), "a worker outlived its parent"
    last = started(files, server)
    told, errors = last.communicate()
    assert (last.returncode, errors, len(told.split())) == (0, "", FILES)
    ingest(files, clean)
    assert content(server) == content(clean)
    assert {line["state"] for line in content(server)["ledger"].values()} == {"indexed"}


if __name__ == "__main__":
    ingest(Path(sys.argv[1]), Path(sys.argv[2]))
