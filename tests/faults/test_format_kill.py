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
WINDOWS = ["--window", "60", "--padding", "15"]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    model = FaithfulFormatter(TRUTH)

    def formatted(body) -> str:
        return model.complete(Complete(prompt=body["messages"][1]["content"], purpose="test")).text

    with ChatServer(formatted) as made:
        yield made


def start(folder: Path, server: ChatServer, *more: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-c",
        "from catena.cli import main; main()",
        "parse",
        "manual.pdf",
        "--llm",
        "m",
        "--base-url",
        server.url,
    ]
    environment = {**os.environ, "OPENAI_API_KEY": "none"}
    return subprocess.Popen(
        [*command, *WINDOWS, "--out", "out.md", *more],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


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

    kills = 0
    for goal in (3, 7, windows - 2):
        process = start(killed, server)
        if begun(process, server, goal):
            process.kill()
            kills += 1
        finished(process)
    assert finished(start(killed, server))[0] == 0
    assert kills == 3
    twice = sum(times - 1 for times in Counter(server.prompts).values())
    assert twice <= kills  # at most the one call in flight at each kill
    assert len(set(server.prompts)) == windows
    assert (killed / "out.md").read_bytes() == (calm / "out.md").read_bytes()
    assert (calm / "out.md").read_text(encoding="utf-8").split() == TRUTH.split()


def test_ctrl_c_says_what_is_kept_and_the_next_run_uses_it(tmp_path: Path, server: ChatServer) -> None:
    folder = folder_of(tmp_path / "files")
    process = start(folder, server, "--journal", "paid.db")
    assert begun(process, server, 4)
    process.send_signal(signal.SIGINT)
    code, told = finished(process)
    assert code == 130, told
    assert "Stopped: " in told
    assert "replies are kept in paid.db" in told
    assert "Traceback" not in told
    before = len(server.bodies)
    assert finished(start(folder, server, "--journal", "paid.db"))[0] == 0
    twice = sum(times - 1 for times in Counter(server.prompts).values())
    assert twice <= 1
    assert before >= 4
    assert (folder / "out.md").read_text(encoding="utf-8").split() == TRUTH.split()
