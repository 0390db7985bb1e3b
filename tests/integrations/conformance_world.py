"""The manuals, models and libraries on which the adapters of both frameworks run the conformance suites."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_fakes import charts

from catena import Library
from catena.effects import Services
from catena.graph import GraphSearch, SimilarityScorer
from catena.library import Preparation
from catena.segments import ExtractionParams
from catena.testing import FakeCaptioner, FakeEmbedder, FakeReranker
from catena.testing.conformance import Detector, Meeting

MANUAL = """# {name} Manual

## Mounting

Tighten the cover screws to {torque} Nm. Use the supplied key, and never a longer one.

## Maintenance

Check the seal of the cover every {months} months. The lever opens the housing without force.

## Power

The fuse of the motor holds {fuse} A at most.

| Parameter | Value |
|---|---|
| Fuse | {fuse} A |
| Torque | {torque} Nm |
"""
MANUALS = {
    f"{name.lower()}.md": MANUAL.format(name=name, torque=torque, months=months, fuse=fuse)
    for name, torque, months, fuse in (("HX200", "3.2", 6, "2"), ("HX210", "4.5", 12, "4"), ("KL30", "7.5", 24, "9"))
}
QUERIES = (
    "How tight are the cover screws of the HX200?",
    "Which fuse has the motor of the HX210?",
    "seal of the cover",
)
UNKNOWN = "How tight are the cover screws of the HX999?"
SHORT = ExtractionParams(length_adjustment="off", overall_max_chunks=12)  # the chunks are short
HOW = GraphSearch(scorer=SimilarityScorer())


class Gate:
    """Lets calls through, or to a meeting, or fails."""

    def __init__(self) -> None:
        self.meeting: Meeting | None = None
        self.broken = False

    def pass_through(self) -> None:
        if self.broken:
            raise ValueError("the endpoint is down")  # which is not tried again
        if self.meeting is not None:
            self.meeting.arrive()


class GatedEmbedder(FakeEmbedder):
    """An embedder behind a gate; deterministic, like its parent."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(dim=48)
        self.gate = gate

    def embed_query(self, text: str) -> Any:
        self.gate.pass_through()
        return super().embed_query(text)


class GatedReranker(FakeReranker):
    """A reranker behind a gate."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.gate.pass_through()
        return super().score(query, texts)


class Libraries:
    """The collection in libraries, each made when it is first asked for."""

    def __init__(self, folder: Path, detector: Detector | None = None) -> None:
        self.folder, self.detector = folder, detector
        self.gate = Gate()
        for name, text in MANUALS.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")
        (folder / "charts.pdf").write_bytes(charts())
        self.paths = sorted(folder.glob("*.md"))
        self._open: list[Library] = []

    def close(self) -> None:
        for library in self._open:
            library.close()

    def _library(self, name: str, files: Any, **options: Any) -> Library:
        library = Library.open(self.folder / name, embedder=GatedEmbedder(self.gate), **options)
        self._open.append(library)
        library.index(files)
        return library

    @cached_property
    def library(self) -> Library:
        library = self._library("library", self.paths)
        library.build_graph()
        return library

    @cached_property
    def figures(self) -> Library:
        how = {"preparation": Preparation(engine="pypdfium2", figures=True)}
        return self._library(
            "figures", self.folder / "charts.pdf", services=Services(captioner=FakeCaptioner()), **how
        )


FINGERPRINTS = """
import sys, tempfile
from importlib import import_module
from pathlib import Path
sys.path.insert(0, sys.argv[1])
cases = import_module(sys.argv[2])
with tempfile.TemporaryDirectory() as folder:
    world = cases.World(Path(folder))
    for case in sys.argv[3:]:
        print(cases.CASES[case](world).fingerprint)
    world.close()
"""


def fingerprints_elsewhere(module: str, cases: Sequence[str]) -> list[str]:
    """Return the fingerprints of some cases of a module, made in another process with another seed of hashes."""
    command = [sys.executable, "-W", "ignore", "-c", FINGERPRINTS, str(Path(__file__).parent), module, *cases]
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
