"""A program that is killed again and again: a parent that has imported everything forks one process a round."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def fork_each_round(work: Callable[[int], object]) -> None:
    """Fork a process that works for every line of stdin, from round 0; tell its process id, and how it ended."""
    for number, _ in enumerate(sys.stdin):
        pid = os.fork()
        if pid == 0:
            work(number)
            os._exit(0)
        print(pid, flush=True)
        print(os.waitpid(pid, 0)[1], flush=True)


class Rounds:
    """The parent: `begin` gives the process id of a round's process, and `ended` waits for how it ended."""

    def __init__(self, parent: subprocess.Popen[str]) -> None:
        self._parent = parent

    def begin(self) -> int:
        self._parent.stdin.write("go\n")
        self._parent.stdin.flush()
        return self.ended()

    def ended(self) -> int:
        return int(self._parent.stdout.readline())


@contextmanager
def rounds_of(program: str, folder: Path) -> Iterator[Rounds]:
    command, environment = [sys.executable, program, str(folder)], {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, env=environment) as parent:
        yield Rounds(parent)
