"""Ingestion by Ray Data on a local Ray: an actor is killed, a file kills what reads it, and nothing is lost."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest

from catena.enrichment import StaticEmbedder
from catena.library import Progress
from catena.model import ServerError
from catena_server import IndexLayout, Recipe, ingest_files, ray_ingest
from deadly_models import deadly
from folder_server import FolderServer

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="needs ray[data] (extra ray)"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # Ray's own
]

FILES = 24
SHIPPED = StaticEmbedder()
LAYOUT = IndexLayout(name="set", dim=SHIPPED.dim, embedder=SHIPPED.identity)


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    """A Ray of this machine alone: all it binds is loopback, and its CPUs are a number it is told.

    Its folder is not where TMPDIR says: nox sets that to a folder of the environment, below which Ray's processes end
    at once while `init` waits for them for ever; and the paths of its sockets must be short.
    """
    import ray

    path = os.pathsep.join(filter(None, sys.path))  # or its workers could not import this file
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "PYTHONPATH": path}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    ray.init(
        num_cpus=3, object_store_memory=100_000_000, include_dashboard=False, log_to_driver=False,
        _node_ip_address="127.0.0.1", _temp_dir=(folder := mkdtemp(prefix="ray-", dir="/tmp")),
    )  # fmt: skip
    try:
        yield
    finally:
        ray.shutdown()
        rmtree(folder, ignore_errors=True)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(FILES):
        text = f"# File {number}\n\nThe clock runs at {number} MHz.\n\n## Wiring\n\nUse wire {number}.\n"
        (folder / f"file-{number:02}.md").write_text(text)
    return folder


def content(server: Path) -> dict[str, dict[str, object]]:
    return {part: FolderServer(server).documents(f"set-{part}") for part in ("chunks", "documents", "ledger")}


def actors() -> list[int]:
    """Return the processes of the stages' actors, as Ray names them."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            name = (folder / "cmdline").read_bytes() if folder.name.isdecimal() else b""
        except OSError:  # it has just ended
            continue
        if name.startswith(b"ray::") and b"_Actor" in name and folder.stat().st_uid == os.getuid():
            found.append(int(folder.name))
    return sorted(found)


@pytest.mark.usefixtures("local_ray")
def test_an_actor_that_is_killed_and_a_file_that_kills_lose_nothing(files: Path, tmp_path: Path) -> None:
    expected = ingest_files(files, partial(FolderServer, tmp_path / "clean"), Recipe(layout=LAYOUT), home=files)
    (files / "file-10b.md").write_text("# Poison\n\nA poison for embedders.\n")
    killed: list[int] = []

    def kill_one(progress: Progress) -> None:
        if progress.done in (1, FILES // 2) and (alive := actors()):
            os.kill(alive[progress.done % len(alive)], signal.SIGKILL)
            killed.append(progress.done)

    recipe = Recipe(layout=LAYOUT, models=deadly)
    factory = partial(FolderServer, tmp_path / "server")
    outcomes = ray_ingest(files, factory, recipe, home=files, batch_files=2, progress=kill_one)
    poison = next(outcome for outcome in outcomes if outcome.document_id == "file-10b.md")
    assert killed
    assert (poison.state, "twice" in poison.reason) == ("failed", True)
    assert tuple(outcome for outcome in outcomes if outcome is not poison) == expected
    now, clean = content(tmp_path / "server"), content(tmp_path / "clean")
    assert (now["chunks"], now["documents"]) == (clean["chunks"], clean["documents"])
    states = {line["document"]: line["state"] for line in now["ledger"].values()}
    assert states == {each.document_id: "indexed" for each in expected} | {"file-10b.md": "failed"}


@pytest.mark.usefixtures("local_ray")
def test_what_the_server_says_comes_through_as_it_is(files: Path, tmp_path: Path) -> None:
    factory = partial(FolderServer, tmp_path / "server", closed=True)
    with pytest.raises(ServerError, match="this key may only read"):
        ray_ingest(files / "file-00.md", factory, Recipe(layout=LAYOUT), home=files, preparers=1)
