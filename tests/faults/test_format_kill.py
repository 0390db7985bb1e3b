"""`catena parse --llm` killed again and again: it goes on where it was, pays nothing twice, writes the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from catena.steps import Complete
from catena.testing.faithful import FaithfulFormatter
from catena_bench.generated_pdfs import PdfStyle, render_pdf
from catena_bench.synthetic_manuals import manual_markdown

TRUTH = manual_markdown(8, numbered=True, levels=2, words=400)
WINDOWS = ["--window", "60", "--padding", "15"]


class Formatter:
    """An OpenAI-compatible server that formats without a fault, and notes what it charges for."""

    def __init__(self) -> None:
        self.bill: list[str] = []
        model, bill = FaithfulFormatter(TRUTH), self.bill

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"][1]["content"]
                bill.append(prompt)
                text = model.complete(Complete(prompt=prompt, purpose="test")).text
                message = {"role": "assistant", "content": text}
                usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4, "total_tokens": 1}
                reply = {
                    "id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage,
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                }  # fmt: skip
                payload = json.dumps(reply).encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(payload)))
                    self.end_headers()
                    self.wfile.write(payload)
                except OSError:
                    """The asker was killed while it waited."""

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"


@pytest.fixture
def server() -> Iterator[Formatter]:
    made = Formatter()
    thread = threading.Thread(target=made.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.http.shutdown()
    made.http.server_close()
    thread.join()


def start(folder: Path, server: Formatter, *more: str) -> subprocess.Popen[bytes]:
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


def begun(process: subprocess.Popen[bytes], server: Formatter, calls: int) -> bool:
    """Wait until the server was asked so often; False if the process ended before."""
    while process.poll() is None and len(server.bill) < calls:
        time.sleep(0.001)
    return process.poll() is None


def folder_of(place: Path) -> Path:
    place.mkdir()
    (place / "manual.pdf").write_bytes(render_pdf(TRUTH, PdfStyle(running=False)).pdf)
    return place


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, server: Formatter) -> None:
    calm, killed = folder_of(tmp_path / "calm"), folder_of(tmp_path / "killed")
    assert finished(start(calm, server))[0] == 0
    windows = len(server.bill)
    assert windows >= 10
    server.bill.clear()

    kills = 0
    for goal in (3, 7, windows - 2):
        process = start(killed, server)
        if begun(process, server, goal):
            process.kill()
            kills += 1
        finished(process)
    assert finished(start(killed, server))[0] == 0
    assert kills == 3
    twice = sum(times - 1 for times in Counter(server.bill).values())
    assert twice <= kills  # at most the one call in flight at each kill
    assert len(set(server.bill)) == windows
    assert (killed / "out.md").read_bytes() == (calm / "out.md").read_bytes()
    assert (calm / "out.md").read_text(encoding="utf-8").split() == TRUTH.split()


def test_ctrl_c_says_what_is_kept_and_the_next_run_uses_it(tmp_path: Path, server: Formatter) -> None:
    folder = folder_of(tmp_path / "files")
    process = start(folder, server, "--journal", "paid.db")
    assert begun(process, server, 4)
    process.send_signal(signal.SIGINT)
    code, told = finished(process)
    assert code == 130, told
    assert "Stopped: " in told
    assert "replies are kept in paid.db" in told
    assert "Traceback" not in told
    before = len(server.bill)
    assert finished(start(folder, server, "--journal", "paid.db"))[0] == 0
    twice = sum(times - 1 for times in Counter(server.bill).values())
    assert twice <= 1
    assert before >= 4
    assert (folder / "out.md").read_text(encoding="utf-8").split() == TRUTH.split()
