"""`catena server` as a process, on real servers: by several workers, stopped and gone on with, the same answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena_bench.servers import ask

CATENA = [sys.executable, "-c", "from catena.cli import main; main()"]
QUESTION = "What is the cover torque of the HX210?"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for number in (200, 210, 220):
        text = (
            f"# HX{number} Manual\n\n## Cover\n\nThe cover torque is {number / 100} N·m.\n\n## Fuse\n\nIt is slow.\n"
        )
        (tmp_path / f"hx{number}.md").write_text(text, encoding="utf-8")
    return tmp_path


def command(*arguments: str, url: str, key: str = "") -> dict[str, Any]:
    environment = {**os.environ, "CATENA_SERVER_URL": url, "CATENA_SERVER_API_KEY": key}
    return {"args": [*CATENA, *arguments], "env": environment}


def called(*arguments: str, cwd: Path, url: str = "", key: str = "", code: int = 0) -> Any:
    ended = subprocess.run(
        **command(*arguments, "--json", url=url, key=key), cwd=cwd, capture_output=True, text=True, encoding="utf-8",
        timeout=600, check=False,
    )  # fmt: skip
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    return json.loads(ended.stdout) if ended.stdout else ended.stderr


@pytest.fixture
def on_server(place: Path, es_url: str, es_api_key: str, fresh_index: Callable[..., str]) -> Callable[..., Any]:
    """A function that calls `catena server` for a set of this test."""
    name = fresh_index(es_url, "w3")

    def on_server(*arguments: str, code: int = 0) -> Any:
        return called("server", *arguments, "-n", name, cwd=place, url=es_url, key=es_api_key, code=code)

    return on_server


def test_several_workers_index_and_questions_find_what_a_library_finds(
    place: Path, on_server: Callable[..., Any]
) -> None:
    assert on_server("index", ".", "--workers", "2")["states"] == {"indexed": 3}
    assert on_server("index", ".")["states"] == {"skipped": 3}
    called("index", ".", "--library", "lib", cwd=place)
    asked = ("search", QUESTION, "--k", "5", "--no-names")
    local, there = called(*asked, "--library", "lib", cwd=place), on_server(*asked)
    assert [hit["citation"] for hit in there["hits"]] == [hit["citation"] for hit in local["hits"]]
    assert [hit["score"] for hit in there["hits"]] == pytest.approx([hit["score"] for hit in local["hits"]], abs=1e-4)
    named = on_server("search", QUESTION)
    assert named["hits"][0]["chunk"]["document_id"] == "hx210.md"
    filtered = on_server("search", "torque", "--where", '{"document_id": "hx200.md"}', "--route", "lexical")
    assert {hit["chunk"]["document_id"] for hit in filtered["hits"]} == {"hx200.md"}
    assert on_server("search", "the torque of the HX777", code=1)["unknown"]


def test_a_set_is_rebuilt_exported_joined_and_sound(on_server: Callable[..., Any]) -> None:
    on_server("index", ".")
    assert on_server("rebuild", ".", "--chunks", "sections")["states"] == {"indexed": 3}
    assert on_server("rebuild", "--shards", "2")["layout"]["shards"] == 2
    assert on_server("verify")["sound"]
    chunks = on_server("status")["holds"]["chunks"]
    assert on_server("export", "all.jsonl")["chunks"] == chunks
    assert on_server("graph")["nodes"] == chunks
    assert on_server("search", QUESTION)["hits"][0]["chunk"]["document_id"] == "hx210.md"
    assert on_server("delete", "hx210.md")["documents"] == 2


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another signal there")
def test_ctrl_c_ends_with_130_and_the_next_run_goes_on(
    place: Path, es_url: str, es_api_key: str, fresh_index: Callable[..., str]
) -> None:
    name = fresh_index(es_url, "w3")
    for at in range(300):
        body = "".join(f"## Part {part}\n\n{'Some words that are read. ' * 40}\n\n" for part in range(6))
        (place / f"file{at:03}.md").write_text(f"# File {at}\n\n{body}")
    given = command("server", "index", ".", "-n", name, "--workers", "2", url=es_url, key=es_api_key)
    running = subprocess.Popen(**given, cwd=place, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 300
    while running.poll() is None and time.monotonic() < until and not whole(es_url, es_api_key, name):
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=120)
    assert running.returncode == 130, told
    assert told.splitlines()[-1] == "Try: the same command again: what is whole on the server is skipped"
    at_server = {"cwd": place, "url": es_url, "key": es_api_key}
    states = called("server", "index", ".", "-n", name, "--workers", "2", **at_server)["states"]
    assert states["indexed"] + states["skipped"] == 303
    assert states["skipped"] >= 1
    assert called("server", "verify", "-n", name, **at_server)["sound"]


def whole(url: str, key: str, name: str) -> int:
    """Return how many documents of a set can be counted as whole."""
    try:
        query = {"query": {"term": {"state": "whole"}}}
        return int(ask(f"{url}/{name}-documents/_count", method="POST", body=query, api_key=key)["count"])
    except OSError:
        return 0
