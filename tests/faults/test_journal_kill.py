"""A process killed again and again: nothing is paid for twice but what was in flight, and the result is the same."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

CALLS, WIDTH = 200, 4

# Two rounds, the second made of the first's replies; each call is noted on disk before it is answered, as a
# service notes what it charges for.
WORK = f"""
import asyncio, hashlib, os, sys, time
from catena.effects import Complete, Journal, Services, arun, ask, run
from catena.testing.fakes import FakeLLM
journal_path, bill_path, result_path, world = sys.argv[1:]
bill = os.open(bill_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def reply(request):
    os.write(bill, (request.prompt + "\\n").encode())
    time.sleep(0.002)
    return hashlib.sha256(request.prompt.encode()).hexdigest()
def step():
    first = yield from ask([Complete(prompt=f"part {{i}}", purpose="first") for i in range({CALLS // 2})])
    second = yield from ask([Complete(prompt=f"again {{r.text}}", purpose="second") for r in first])
    return "\\n".join(r.text for r in first + second)
with Journal.open(journal_path) as journal:
    services = Services(llm=FakeLLM(reply), journal=journal, max_concurrency={WIDTH})
    text = asyncio.run(arun(step(), services)) if world == "asyncio" else run(step(), services)
with open(result_path, "w") as file:
    file.write(text)
"""


def start(folder: Path, world: str, stderr: int | None = None) -> subprocess.Popen[bytes]:
    places = [str(folder / name) for name in ("journal.db", "bill", "result")]
    return subprocess.Popen([sys.executable, "-c", WORK, *places, world], stderr=stderr)


def bill(folder: Path) -> list[str]:
    path = folder / "bill"
    return path.read_text().splitlines() if path.exists() else []


def run_and_kill(folder: Path, world: str, draw: random.Random) -> bool:
    """Kill the process after some more calls, at a random moment; return whether it was done before."""
    process = start(folder, world)
    goal = len(bill(folder)) + draw.randint(1, 40)
    while process.poll() is None and len(bill(folder)) < goal:
        time.sleep(0.001)
    time.sleep(draw.random() * 0.004)
    process.kill()
    return process.wait(30) == 0


@pytest.mark.slow
@pytest.mark.parametrize("world", ["threads", "asyncio"])
def test_kills_cost_at_most_the_calls_in_flight_and_change_nothing(tmp_path, world):
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    calm.mkdir()
    killed.mkdir()
    assert start(calm, world).wait(60) == 0
    assert len(bill(calm)) == CALLS

    draw, kills = random.Random(2026), 0
    while not run_and_kill(killed, world, draw):
        kills += 1
        assert kills < CALLS, "no progress between kills"
    assert kills >= 5
    assert len(bill(killed)) - CALLS <= kills * WIDTH
    assert len(set(bill(killed))) == CALLS
    assert (killed / "result").read_bytes() == (calm / "result").read_bytes()
