"""`catena` as a process of its own: streams, exit codes, Ctrl-C, start without what is slow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CATENA = [sys.executable, "-c", "from catena.cli import main; main()"]
HEAVY = ("numpy", "rich", "tantivy", "tokenizers", "pypdf", "openai", "langchain_core", "llama_index", "torch")


def catena(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CATENA, *arguments], cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True,
        encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def place(tmp_path):
    (tmp_path / "note.md").write_text("# Note\n\n## Torque\n\nTighten it to 2.4 N·m.\n", encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_data_goes_to_stdout_and_messages_to_stderr_with_an_exit_code(place):
    indexed = catena("index", "note.md", "--json", cwd=place, CATENA_LIBRARY="lib")
    assert indexed.returncode == 0
    assert json.loads(indexed.stdout)["states"] == {"indexed": 1}
    found = catena("search", "torque", "--library", "lib", "--json", cwd=place)
    assert json.loads(found.stdout)["hits"][0]["citation"] == "Note › Torque, lines 3-5"
    assert found.stderr == ""
    parsed = catena("parse", "note.md", cwd=place)
    assert parsed.stdout == (place / "note.md").read_text(encoding="utf-8")
    assert parsed.stderr.startswith("note.md -> ")
    ended = catena("parse", "gone.pdf", cwd=place)
    assert (ended.returncode, ended.stdout, "Traceback" in ended.stderr) == (1, "", False)
    assert ended.stderr.splitlines()[-1].startswith("Try: ")
    plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}  # a terminal without our characters
    shown = catena("search", "torque", "--library", "lib", cwd=place, **plain)
    assert (shown.returncode, "Note ? Torque" in shown.stdout) == (0, True)


@pytest.mark.slow
def test_a_reader_that_stops_early_is_no_error(place):
    (place / "long.md").write_text("# Long\n\n" + "A sentence of some length.\n" * 20_000)
    first = subprocess.Popen(
        [*CATENA, "parse", "long.md"], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    assert first.stderr is not None
    assert first.stdout.readline() == "# Long\n"
    first.stdout.close()
    assert "Traceback" not in first.stderr.read()
    first.stderr.close()
    assert first.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["parse", "note.md"], ["search", "torque", "-l", "lib"]])
def test_a_reader_that_has_gone_is_no_error_either(place, arguments):
    catena("index", "note.md", "-l", "lib", cwd=place)
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*CATENA, *arguments], cwd=place, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert ended.returncode == 0
    assert ended.stderr == ""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another signal there")
def test_ctrl_c_ends_with_130_keeps_what_is_done_and_the_next_run_goes_on(place):
    number = 150
    for at in range(number):
        body = "".join(f"## Part {part}\n\n{'Some words that are read. ' * 40}\n\n" for part in range(6))
        (place / f"file{at:03}.md").write_text(f"# File {at}\n\n{body}")
    command = [*CATENA, "index", ".", "--library", "lib"]
    running = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (place / "lib").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130, stderr
    assert stdout == ""
    assert "what was written to a library is kept" in stderr
    assert stderr.splitlines()[-1].startswith("Try: the same command again")
    assert "Traceback" not in stderr
    assert catena("index", ".", "--library", "lib", cwd=place).returncode == 0
    assert catena("verify", "--library", "lib", cwd=place).returncode == 0
    held = json.loads(catena("status", "--library", "lib", "--json", cwd=place).stdout)["holds"]
    assert held["documents"] == number + 1


def test_starting_loads_no_command_and_nothing_that_is_slow():
    code = "import sys, catena.cli.app; print([name for name in sys.argv[1:] if name in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", code, *HEAVY, "catena.cli.search"], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"
