"""`catena parse --llm` killed again and again: it goes on where it was, pays nothing twice, writes the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from catena.effects import Complete
from catena.testing import ChatServer, FaithfulFormatter
from catena_bench.generated_pdfs import PdfStyle, render_pdf
from catena_bench.synthetic_manuals import manual_markdown

pytestmark = pytest.mark.slow
TRUTH = manual_markdown(8, numbered=True, levels=2, words=400)
COMMAND = "parse manual.pdf --llm m --base-url {} --window 60 --padding 15 --out out.md --journal paid.db"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    model = FaithfulFormatter(TRUTH)
    ask = lambda body: model.complete(Complete(prompt=body["messages"][1]["content"], purpose="test"))  # noqa: E731
    with ChatServer(lambda body: ask(body).text) as made:
        yield made


def start(folder: Path, server: ChatServer) -> subprocess.Popen[bytes]:
    python, words = [sys.executable, "-c", "from catena.cli import main; main()"], COMMAND.format(server.url).split()
    own = {"cwd": folder, "env": {**os.environ, "OPENAI_API_KEY": "none"}, "stderr": subprocess.PIPE}
    return subprocess.Popen([*python, *words], stdout=subprocess.DEVNULL, **own)  # type: ignore[call-overload]


def finished(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Return the exit code and what was told on stderr."""
    told = process.communicate(timeout=120)[1].decode()
    return process.returncode, told


def begun(process: subprocess.Popen[bytes], server: ChatServer, calls: int) -> bool:
    """Wait until the server was asked so often; False if the process ended before."""
    while process.poll() is None and len(server.bodies) < calls:
        time.sleep(0.001)
    return process.poll() is None


def folder_of(place: Path) -> Path:
    place.mkdir()
    (place / "manual.pdf").write_bytes(render_pdf(TRUTH, PdfStyle(running=False)).pdf)
    return place


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, server: ChatServer) -> None:
    calm, killed = folder_of(tmp_path / "calm"), folder_of(tmp_path / "killed")
    assert finished(start(calm, server))[0] == 0
    windows = len(server.bodies)
    assert windows >= 10
    server.bodies.clear()
    for goal, sent in ((3, signal.SIGKILL), (7, signal.SIGINT), (windows - 2, signal.SIGKILL)):
        process = start(killed, server)
        assert begun(process, server, goal)
        process.send_signal(sent)
        code, told = finished(process)
        if sent is signal.SIGINT:
            assert (code, "Stopped: " in told, "Traceback" in told) == (130, True, False), told
            assert "replies are kept in paid.db" in told
    assert finished(start(killed, server))[0] == 0
    assert sum(times - 1 for times in Counter(server.prompts).values()) <= 3  # the one call in flight at each kill
    assert len(set(server.prompts)) == windows
    assert (killed / "out.md").read_bytes() == (calm / "out.md").read_bytes()
    assert (calm / "out.md").read_text(encoding="utf-8").split() == TRUTH.split()
