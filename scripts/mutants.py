"""Plant small faults in the core, one at a time, and count which of them the fast tests see.

    python scripts/mutants.py --count 200 --seed 1 [--rooms graph,text/names] [--json FILE] [TESTS ...]

The faults are those of cosmic-ray (a comparison turned round, a number changed, `and` for `or`, a `not` taken away),
drawn at random, as many in each room as it has code. Coverage of the fast tests says which tests reach a line: these
run on a copy of the sources, the most specific ones first, until one fails. A fault that no test fails on survives;
some change nothing that anybody could see: those are for a person to judge. Takes some minutes for the coverage, and
three seconds or so for each fault, a minute or more for one that never ends.

Coverage does not see the process that reads files: for a fault in `parsing`, the tests that ask this process run too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from threading import local

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.plugins import get_operator, operator_names
from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "packages" / "catena" / "src"
FAST = "not torch and not entities and not servers and not stores and not browser and not slow"
UNSEEN = ("strict=True", "@dataclass(", "__slots__", "if TYPE_CHECKING:")  # against mistakes of ours, if anything
ENOUGH = 85  # percent of faults that the fast tests see
READER = "catena/parsing/process.py"  # asks the process that reads files
MOST_TESTS = 400  # that run for one fault
SECONDS = 120  # for them; longer is a fault that was seen
# What tests import besides ours is imported once, in a process that is forked for each fault.
FORKED = get_context("forkserver")
FORKED.set_forkserver_preload(
    ["__main__", "pytest", "hypothesis.extra.numpy", "langchain_core.vectorstores", "llama_index.core", "pypdfium2"]
)
LEFT_OUT = (
    "Bit",
    "Shift",
    "Pow",
    "Mod_",
    "Decorator",
    "Exception",
    "_Is",
    "Unary",
    "Variable",
)  # rare, or in types, too


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of one line.

    Attributes:
        occurrence: 0-based, of what the operator changes in the file.
    """

    path: Path
    room: str
    line: int
    operator: str
    occurrence: int


def faults() -> Iterator[Fault]:
    """Yield every fault that can be planted."""
    operators = [name for name in sorted(operator_names()) if not any(sign in name for sign in LEFT_OUT)]
    for path in sorted((SOURCE / "catena").rglob("*.py")):
        parts = path.relative_to(SOURCE / "catena").parts
        if len(parts) < 2 or parts[0] in ("cli", "testing", "prompts", "data"):
            continue
        source = path.read_text(encoding="utf-8")
        nodes, lines = list(ast_nodes(get_ast(source))), source.splitlines()
        for name in operators:
            operator = get_operator(name)()
            places = [start[0] for node in nodes for start, _ in operator.mutation_positions(node)]
            for occurrence, line in enumerate(places):
                if not any(sign in lines[line - 1] for sign in UNSEEN):
                    yield Fault(path, parts[0], line, name, occurrence)


def reached(work: Path, among: Sequence[str]) -> dict[tuple[str, int], list[str]]:
    """Run the fast tests once; return by file and line the tests that reach it, the most specific first."""
    settings = work / "coverage.ini"
    settings.write_text(f"[run]\nsource = {SOURCE}\nparallel = true\ndata_file = {work / 'data'}\n", encoding="utf-8")
    command = ("pytest", "-q", "-n", "logical", "-m", FAST, "-p", "no:cacheprovider", *among)
    measure = (f"--cov={SOURCE}", f"--cov-config={settings}", "--cov-context=test", "--cov-report=")
    ended = subprocess.run([sys.executable, "-m", *command, *measure], cwd=ROOT, check=False)
    if ended.returncode:
        sys.exit("the fast tests fail without any fault")
    tests: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    breadth: Counter[str] = Counter()
    for file in sorted(work.glob("data*")):
        data = CoverageData(str(file))
        data.read()
        for name in data.measured_files():
            for line, contexts in data.contexts_by_lineno(name).items():
                for context in contexts:
                    test, _, phase = context.rpartition("|")
                    if phase == "run":
                        tests[str(Path(name).relative_to(SOURCE)), line].append(test)
                        breadth[test] += 1
    return {place: sorted(set(found), key=lambda test: (breadth[test], test)) for place, found in tests.items()}


class Seen:
    """Says of a fault whether a test fails on it; each thread plants its faults in a copy of its own."""

    def __init__(self, work: Path, tests: dict[tuple[str, int], list[str]]) -> None:
        self._work, self._tests, self._own, self._moments = work, tests, local(), count(1)
        asking = [found for (path, _), found in tests.items() if path == READER]
        self._asking = max(asking, key=len, default=[])
        self._of_file: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for (path, _), found in tests.items():
            self._of_file[path].update(dict.fromkeys(found))

    def __call__(self, fault: Fault) -> tuple[bool, str]:
        """Return whether it was seen, and the line as it was changed."""
        inner = fault.path.relative_to(SOURCE)
        before = fault.path.read_text(encoding="utf-8")
        after = MutationVisitor.mutate_code(before, get_operator(fault.operator)(), fault.occurrence)
        shown = f"{inner}:{fault.line}: {after.splitlines()[fault.line - 1].strip()}"
        # a line that runs when the module is imported is reached by no test: those of the whole file
        chosen = self._tests.get((str(inner), fault.line)) or list(self._of_file[str(inner)])
        if fault.room == "parsing":
            chosen = list(dict.fromkeys((*chosen, *self._asking)))
        chosen = chosen[:MOST_TESTS]
        if not chosen:
            return False, f"{shown}  (no fast test reaches it)"
        copy = self._copy()
        try:
            (copy / inner).write_text(after, encoding="utf-8")
            moment = next(self._moments)  # its own, so that no kept bytecode is taken for the changed file's
            os.utime(copy / inner, (moment, moment))
            return self._fails(chosen, copy), shown
        finally:
            shutil.copy2(fault.path, copy / inner)

    def _copy(self) -> Path:
        if not hasattr(self._own, "copy"):
            self._own.copy = Path(tempfile.mkdtemp(dir=self._work)) / "src"
            shutil.copytree(SOURCE, self._own.copy)
        copy: Path = self._own.copy
        return copy

    def _fails(self, tests: Sequence[str], copy: Path) -> bool:
        asked = FORKED.Process(target=run_tests, args=(tests, copy))
        asked.start()
        asked.join(SECONDS)
        if asked.exitcode is None:
            os.killpg(asked.pid, signal.SIGKILL)
        return asked.exitcode != 0


def run_tests(tests: Sequence[str], copy: Path) -> None:
    """Run tests on a copy of the sources, in a process and a group of its own; leave with pytest's exit status."""
    os.setsid()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = str(copy)
    sys.path.insert(0, str(copy))
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(copy.parent / "bytecode")
    plugins = ("-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    os._exit(pytest.main(["-x", "-q", *plugins, *tests]))


def main() -> int:
    """Plant the faults, print which were seen in each room; return 1 where too few were."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", default="", help="Names of rooms, or of their files, with commas; all without.")
    parser.add_argument("--json", type=Path, help="Where the result is written besides.")
    parser.add_argument("tests", nargs="*", default=["tests/core", "tests/backends"], help="Which tests run.")
    given = parser.parse_args()
    rooms = set(filter(None, given.rooms.split(",")))
    possible = [each for each in faults() if not rooms or rooms & {each.room, f"{each.room}/{each.path.stem}"}]
    drawn = random.Random(given.seed).sample(possible, min(given.count, len(possible)))
    seen: Counter[str] = Counter()
    of_room = Counter(fault.room for fault in drawn)
    survivors: list[str] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        check = Seen(Path(folder), reached(Path(folder), given.tests))
        for number, (fault, (was_seen, shown)) in enumerate(zip(drawn, pool.map(check, drawn), strict=True), start=1):
            seen[fault.room] += was_seen
            if not was_seen:
                survivors.append(f"{shown}  [{fault.operator}]")
            print(f"{number}/{len(drawn)} {'seen' if was_seen else 'SURVIVED'} {shown}", flush=True)
    for room in sorted(of_room):
        print(f"{room:12} {seen[room]:3} of {of_room[room]:3}")
    share = 100 * seen.total() / max(len(drawn), 1)
    print(f"{seen.total()} of {len(drawn)} seen: {share:.0f} %, at least {ENOUGH} %", *survivors, sep="\n")
    if given.json:
        given.json.write_text(json.dumps({"seen": seen, "of": of_room, "survivors": survivors}, indent=1))
    return int(share < ENOUGH)


if __name__ == "__main__":
    sys.exit(main())
