"""The manuals, models and libraries on which the conformance suites run, and the cases that both adapters share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from adapter_faces import Refused
from langchain_fakes import charts

from catena import Library
from catena.effects import Services
from catena.enrichment import CodeDetector, Keywords, LLMDetector
from catena.graph import GraphSearch, SimilarityScorer
from catena.library import Preparation
from catena.retrieval import ViewRankFusion
from catena.segments import Constant, ExtractionParams, Identity
from catena.structure import EmbeddingOptions, SegmentOptions
from catena.testing import FakeCaptioner, FakeEmbedder, FakeReranker, report_of_reranker, report_of_retriever
from catena.testing.conformance import ConformanceReport, Detector, Failure, Meeting
from catena.testing.divider_conformance import report_of_divider
from catena.testing.ranking_conformance import Filtering
from catena_bench.baselines import Clustering, ClusterSummaries, RaptorOptions

MANUAL = (
    "# {name} Manual\n\n## Mounting\n\n"
    "Tighten the cover screws to {torque} Nm. Use the supplied key, and never a longer one.\n\n"
    "## Maintenance\n\n"
    "Check the seal of the cover every {months} months. The lever opens the housing without force.\n\n"
    "## Power\n\nThe fuse of the motor holds {fuse} A at most.\n\n"
    "| Parameter | Value |\n|---|---|\n| Fuse | {fuse} A |\n| Torque | {torque} Nm |\n"
)
PUMP = (
    "# Pump\n\nRead this first.\n\n## Screws M6/M8\n\nTighten to 12 Nm.\n\n## Cover\n\n"
    "Tighten to 12 Nm.\n\n| part | torque |\n|---|---|\n| lid | 3 Nm |\n"
)
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


class World(Libraries):
    """The collection in libraries, in a store, and as passages; each made when it is first asked for."""

    face: Any
    whole_sections: Mapping[str, Any]
    of_graph: Mapping[str, Any] = {}
    uncounted: frozenset[str]

    @cached_property
    def documents(self) -> list[Any]:
        """The manuals whole."""
        return [self.face.document(name, text, file_name=name) for name, text in MANUALS.items()]

    @cached_property
    def passages(self) -> list[Any]:
        return self.face.chunks(*self.documents, max_tokens=60, min_tokens=5)

    @cached_property
    def sections(self) -> list[Any]:
        return self.face.sections(*self.documents)

    @cached_property
    def whole(self) -> list[Any]:
        """The library's documents, under its ids."""
        entries = [self.library.get(info.id) for info in self.library.documents()]
        return [self.face.document(entry.document.id, entry.document.text) for entry in entries]

    @cached_property
    def hits(self) -> list[Any]:
        return self.face.invoke(self.searching(), QUERIES[0])

    @cached_property
    def embeddings(self) -> Any:
        return self.face.embeddings()

    def make(self, kind: str, **options: Any) -> Any:
        return self.face.make(kind, **options)

    def searching(self, k: int = 6) -> Any:
        """Return a retriever over all passages."""
        raise NotImplementedError

    def failing(self, call: Callable[[], Any], *, raises: bool = False) -> Failure:
        """What a call does while what is behind the gate fails."""

        def failed() -> Any:
            self.gate.broken = True
            try:
                return call()
            finally:
                self.gate.broken = False

        return Failure(call=failed, raises=raises)

    def meeting(self, call: Callable[[], Any]) -> Callable[[Meeting], Any]:
        """Let calls meet at the gate."""

        def built(meeting: Meeting) -> Any:
            self.gate.meeting = meeting
            return call

        return built

    def report(self, of: Callable[..., ConformanceReport], subject: Any, **more: Any) -> ConformanceReport:
        report = of(replace(subject, **more), blocking_detector=self.detector)
        self.gate.meeting = None
        return report


Case = Callable[[Any, str], ConformanceReport]
BY_TITLE = ("title", "HX200 Manual", "HX")
BY_PAGE = ("first_page", 1, "1")


@dataclass(frozen=True, kw_only=True)
class Searching:
    """A case of a retriever.

    Attributes:
        make: from the world and further options.
        of: what it finds slices of and holds: "library", or the world's documents of this name.
        degrades: whether it goes on where what is behind the gate fails.
        strict: options by which it raises then; None: it has none.
        where: a field, its value, and a value that no filter can mean.
        more: fields of the subject.
    """

    make: Callable[..., Any]
    of: str = "library"
    queries: Sequence[str] = QUERIES
    degrades: bool = True
    strict: Mapping[str, Any] | None = None
    where: tuple[str, Any, str] | None = BY_TITLE
    more: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, world: World, name: str) -> ConformanceReport:
        face, build, failures = world.face, partial(self.make, world), {}
        retriever, first = build(), self.queries[0]
        if self.degrades:
            failures["it fails"] = world.failing(lambda: face.ask(retriever, first))
        if self.strict is not None:
            strict = build(**self.strict)
            failures["it fails, raise"] = world.failing(lambda: face.ask(strict, first), raises=True)
        own: dict[str, Any] = {"name": name}
        more: dict[str, Any] = {"failures": failures}
        if self.of == "library":
            own["documents"], more["nothing"] = world.whole, UNKNOWN
        elif self.of in ("passages", "sections"):
            own |= {"documents": world.documents, "given": getattr(world, self.of)}
        elif self.of == "remarks":
            own["given"] = remarks(face)
        if self.where is not None and self.of in ("library", "figures"):
            key, value, unknown = self.where
            more["filtering"] = Filtering(
                ask=lambda query, where: face.ask(build(where=where), query),
                where={key: value},
                keeps=lambda found: found.metadata.get(key) == value,
                unknown={key: {"$like": unknown}},
            )
        counted = None if name in world.uncounted else build
        subject = world.subject(retriever, self.queries, counted, **own)  # type: ignore[attr-defined]
        return world.report(
            report_of_retriever, subject, **{"meeting": world.meeting(subject.aask), **more, **self.more}
        )


def with_k(kind: str, k: int, **usual: str) -> Callable[..., Any]:
    """Return what makes a retriever of so many; `usual` are its options by names of what the world has."""

    def make(world: World, **how: Any) -> Any:
        given = {name: getattr(world, of) for name, of in usual.items()}
        return world.make(kind, **{"k": k, **given, **how})

    return make


def _sections(world: World, **how: Any) -> Any:
    return world.make("CatenaRetriever", **{"library": world.library, "k": 5, **world.whole_sections, **how})


def _over(world: Any, **how: Any) -> Any:
    return world.face.over({"dense": world.waiting(), "other": world.searching(4)}, **{"k": 6, **how})


def _segments_over(world: Any, **how: Any) -> Any:
    return world.make("CatenaSegmentRetriever", retriever=world.waiting(), neighbours=world.kept, **how)


def _views_over(world: Any, **how: Any) -> Any:
    both = {"raw": world.waiting(), "other": world.searching()}
    return world.make("CatenaMultiViewRetriever", retrievers=both, rule=ViewRankFusion(), **{"k": 4, **how})


def _graph_over(world: Any, **how: Any) -> Any:
    own = {"retriever": world.waiting(), "graph": world.graph, "embeddings": world.embeddings, "how": HOW}
    return world.make("CatenaGraphRetriever", **{"k": 5, **own, **world.of_graph, **how})


def remarks(face: Any) -> list[Any]:
    """Return remarks on four things in one document, enough for a tree."""
    things = ("pump pressure bar", "valve opening spring", "fuse ampere current", "cover screw torque")
    return [face.node(f"r{n:02d}", f"Remark {n} on {things[n % 4]}.", "remarks") for n in range(16)]


TREE = RaptorOptions(summaries=ClusterSummaries(by="offline"), clustering=Clustering(dimensions=3))
LOUD: dict[str, Any] = {"on_route_error": "raise"}
CHARTED = ("failures in each year", "pressure of the pumps")
RETRIEVERS: dict[str, Case] = {
    "library": Searching(make=with_k("CatenaRetriever", 5, library="library"), strict=LOUD),
    "sections": Searching(make=_sections),
    "over": Searching(make=_over, of="passages", strict=LOUD),
    "figures": Searching(
        make=with_k("CatenaFigureRetriever", 2, library="figures"), of="figures", queries=CHARTED, where=BY_PAGE
    ),
    "segments": Searching(
        make=lambda world, **how: world.make("CatenaSegmentRetriever", library=world.library, **how),
        more={"best_first": False},
    ),
    "segments over": Searching(
        make=_segments_over, of="passages", degrades=False, strict={}, more={"best_first": False}
    ),
    "views": Searching(
        make=lambda world, **how: world.views(**{"k": 4, **how}),
        of="sections",
        degrades=False,
        more={"meeting": None},
    ),  # the store is asked in threads of its own
    "views over": Searching(make=_views_over, of="passages", strict={"on_view_error": "raise"}),
    "graph": Searching(
        make=lambda world, **how: world.make(
            "CatenaGraphRetriever", **{"library": world.library, "how": HOW, "k": 5, **how}
        )
    ),
    "graph over": Searching(make=_graph_over, of="passages", strict={"on_retriever_error": "raise"}),
    "trees": Searching(
        make=lambda world, **how: world.trees(**{"k": 4, **how}),
        of="remarks",
        queries=("pump pressure", "cover screw torque"),
        degrades=False,
        strict={},
    ),
}


def _rerank(world: Any, name: str) -> ConformanceReport:
    reranker = GatedReranker(world.gate)

    def limited(k: int | None = None, **how: Any) -> Any:
        return world.make("CatenaRerank", reranker=reranker, calibration=Identity(), top_n=k, **how)

    def failing(how: str) -> Failure:
        stage = limited(on_failure=how)
        return world.failing(lambda: world.face.process(stage, world.hits, QUERIES[0]), raises=how == "raise")

    subject = world.stage(limited(), world.hits, limited=limited, name=name)
    met = world.meeting(lambda: subject.arerank(QUERIES[0]))
    return world.report(report_of_reranker, subject, meeting=met, failures={h: failing(h) for h in ("rank", "raise")})


def _extractor(world: Any, name: str) -> ConformanceReport:
    stage = world.make("CatenaSegmentExtractor", neighbours=world.kept, calibration=Constant(), params=SHORT)
    subject = world.stage(stage, world.hits[::2], selects=False, name=name)
    return world.report(report_of_reranker, subject, best_first=False)


def _chains(world: Any, name: str) -> ConformanceReport:
    def limited(k: int = 8) -> Any:
        own = {"graph": world.graph, "embeddings": world.embeddings, "how": HOW}
        return world.make("CatenaChainCompressor", k=k, **own, **world.of_graph)

    subject = world.stage(limited(), world.hits[:4], selects=False, limited=limited, name=name)
    return world.report(report_of_reranker, subject)


STAGES: dict[str, Case] = {"rerank": _rerank, "extractor": _extractor, "chains": _chains}


def down(prompt: str) -> str:
    raise Refused("the model is down")


@dataclass(frozen=True, kw_only=True)
class Dividing:
    """A case of what makes pieces of documents, or writes into them.

    Attributes:
        kind: of the transformer.
        how: its options, by the world.
        down: options of one whose model fails; None: it asks none.
        loud: whether it can raise then.
        given: what it is given, by the name that the world has for it.
        sliced: whether pieces are slices that say where they stand.
        alone: whether a document gives the same pieces without the others.
        revived: whether its written form can be read again.
    """

    kind: str
    how: Callable[[Any], Mapping[str, Any]] = lambda world: {}
    down: Mapping[str, Any] | None = None
    loud: bool = False
    given: str = "documents"
    sliced: bool = True
    alone: bool = True
    revived: bool = True

    def __call__(self, world: Any, name: str) -> ConformanceReport:
        given, face, failures = getattr(world, self.given), world.face, {}
        for raises in (False, True)[: 0 if self.down is None else 1 + self.loud]:
            broken = face.make(
                self.kind, **self.down, llm=face.model(down), **({"on_error": "raise"} if raises else {})
            )
            failures[str(raises)] = Failure(call=lambda broken=broken: face.transformed(broken, given), raises=raises)
        made = face.make(self.kind, **self.how(world))
        subject = world.divider(made, given, sliced=self.sliced, alone=self.alone, revived=self.revived, name=name)
        return world.report(report_of_divider, subject, **({"failures": failures} if failures else {}))


def divided(prompt: str) -> str:
    """Divide a passage into sentences, as a model should: one per line."""
    passage = prompt.split("<passage>\n")[1].split("\n</passage>", maxsplit=1)[0]
    return "\n".join(f"{part.strip()}." for part in passage.replace("\n", ". ").split(". ") if part.strip())


SHORT_CHUNKS = {"max_tokens": 60, "min_tokens": 5}
DIVIDERS: dict[str, Case] = {
    "chunks": Dividing(kind="CatenaDocumentTransformer", how=lambda world: SHORT_CHUNKS),
    "by meaning": Dividing(
        kind="CatenaDocumentTransformer",
        how=lambda world: {"segmentation": EmbeddingOptions(), "embeddings": world.embeddings},
        down={"segmentation": SegmentOptions()},
        revived=False,
    ),
    "units": Dividing(kind="CatenaAtomicTransformer", how=lambda world: {"llm": world.face.model(divided)}, down={}),
    "captions": Dividing(
        kind="CatenaCaptionTransformer",
        how=lambda world: {"llm": world.face.model("A cover with six screws.")},
        down={},
        given="pictures",
        sliced=False,
        revived=False,
    ),
    "entities": Dividing(
        kind="CatenaEntityTransformer",
        down={"detectors": [CodeDetector(), LLMDetector()]},
        loud=True,
        given="passages",
    ),
    "views": Dividing(
        kind="CatenaViewTransformer", down={"views": ["raw", Keywords()]}, given="sections", sliced=False, alone=False
    ),
}


def pictures(face: Any, folder: Path) -> list[Any]:
    file = folder / "picture.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n picture")
    return [face.picture("i", "Figure 1", file), face.node("t", "No picture.")]


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
