"""DemoRun `catena demo`: search real PDFs by Catena and by plain vector search, and measure both rankings."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import out, write_json
from catena.cli.failures import SOME_FAILED, ProblemError
from catena.cli.options import AsJson
from catena.model import Chunk, Hit, Provenance, Ranking, Scale
from catena.model.errors import MissingExtraError, needs

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from catena.effects.ports import Embedder
    from catena.evaluation.answers import MeanScore
    from catena.evaluation.significance import PairedComparison
    from catena.library import Library
    from catena.library.pipeline import Preparation
    from catena.model import Outcome
    from catena.store.store import LibraryStats


NOWHERE = "What is the tightening torque of the HX220 cover screws?"  # no such product
BOTH = "What is the tightening torque of the cover screws of the HX200 and of the HX210?"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRun:
    """Results of one demo, and its times in seconds.

    Attributes:
        nowhere: what was found for the question `NOWHERE`.
        both: the two best passages for the question `BOTH`.
        ways: what five ways of searching made of the showcase, if there is one.
        indices: the mean Log-Rank Indices of both rankings.
        report: the HTML page about the library and the showcase.
    """

    outcomes: tuple[Outcome, ...]
    holds: LibraryStats
    comparisons: tuple[Comparison, ...]
    nowhere: Ranking
    both: Ranking
    index_seconds: float
    ask_seconds: float
    ways: tuple[Way, ...] = ()
    indices: Indices | None = None
    report: Path | None = None


def demo(
    library: Annotated[
        Path | None,
        typer.Option(
            "--library", "-l", metavar="PATH", help="Keep the library there; the PDFs and the report go beside it."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Index three bundled PDFs, ask what plain vector search gets wrong, and show the difference."""
    if not as_json:
        from catena.cli.demo_report import opening

        out().print(opening())
    with _place(library) as path:
        run = _run(path, report_place(library))
    failed = [outcome for outcome in run.outcomes if outcome.state == "failed"]
    if as_json:
        write_json(_as_json(run))
    else:
        from catena.cli.demo_report import report

        for part in report(run, library):
            out().print(part)
    if failed:
        raise ProblemError("a document of the demo could not be read", "catena doctor", SOME_FAILED)


@contextmanager
def _place(library: Path | None) -> Iterator[Path]:
    """Give a path for the library: the given one, or one that is gone afterwards."""
    if library is not None:
        yield library
        return
    with tempfile.TemporaryDirectory(prefix="catena-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "demo"


def report_place(library: Path | None) -> Path:
    """Return where the report is written: beside the library; in a folder for passing things where none is kept."""
    if library is not None:
        return library.with_name(f"{library.name}-report.html")
    return Path(tempfile.mkdtemp(prefix="catena-demo-")) / "report.html"


def _run(path: Path, page: Path) -> DemoRun:
    """Parse and index the PDFs, ask every question, and write a report about the showcase."""
    from importlib.resources import files

    from catena.cli.library import indexed
    from catena.enrichment.static_embedding import StaticEmbedder
    from catena.library import Library

    bundled = files("catena") / "data" / "demo"
    embedder = StaticEmbedder()
    began = time.monotonic()
    with Library.open(path, embedder=embedder) as library:
        outcomes = indexed(library, [_copied(bundled, path.with_name(f"{path.name}-documents"))])
        ready = time.monotonic()
        comparisons = compare(library, embedder, questions_of(bundled / "questions.json"))
        asked = time.monotonic()
        shown = showcase(comparisons)
        return DemoRun(
            outcomes=outcomes,
            holds=library.stats(),
            comparisons=comparisons,
            index_seconds=ready - began,
            ask_seconds=asked - ready,
            nowhere=library.search(NOWHERE),
            both=library.search(BOTH, k=2),
            ways=() if shown is None else five_ways(library, embedder, shown.question),
            indices=indices(library, comparisons),
            report=_written(library, (shown or comparisons[0]).question, page),
        )


def _written(library: Library, question: DemoQuestion, page: Path) -> Path | None:
    """Write the report about a library and a question; return its path, None where catena-view is not installed."""
    try:
        with needs("catena-view"):
            from catena_view.report import report
    except MissingExtraError:
        return None
    return report(library, question.text, name="the demo's three PDFs").save(page)


def _copied(bundled: Any, folder: Path) -> Path:
    """Copy the PDFs out of the package: documents are named by their place relative to the library."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(bundled.iterdir(), key=lambda file: str(file.name)):
        if file.name.endswith(".pdf"):
            with file.open("rb") as source, (folder / file.name).open("wb") as target:
                shutil.copyfileobj(source, target)
    return folder


def showcase(comparisons: Sequence[Comparison]) -> Comparison | None:
    """Return the first question that Catena answers first while plain vector search does not."""
    return next((each for each in comparisons if each.is_won), None)


def _as_json(run: DemoRun) -> dict[str, Any]:
    from catena.model.places import citation

    shown = showcase(run.comparisons)
    return {
        "documents": [
            {"document": PurePath(o.document_id).name, "state": o.state, "pages": o.pages, "chunks": o.chunks}
            for o in run.outcomes
        ],
        "holds": run.holds,
        "seconds": {"index": round(run.index_seconds, 3), "ask": round(run.ask_seconds, 3)},
        "showcase": None if shown is None else shown.question.text,
        "questions": [_question_as_json(each) for each in run.comparisons],
        "ways": [_way_as_json(each) for each in run.ways],
        "log_rank_index": run.indices,
        "report": None if run.report is None else run.report.as_posix(),
        "nowhere": {"question": NOWHERE, "hits": len(run.nowhere.hits), "unknown": run.nowhere.unknown},
        "both": {"question": BOTH, "first": [citation(hit.chunk) for hit in run.both.hits]},
    }


def _way_as_json(way: Way) -> dict[str, Any]:
    from catena.model.places import citation

    return {
        "way": way.name,
        "returns": way.unit,
        "rank": way.rank,
        "tokens": way.tokens,
        "milliseconds": round(way.milliseconds, 1),
        "first": None if way.first is None else citation(way.first),
        "right": way.is_right,
    }


def _question_as_json(each: Comparison) -> dict[str, Any]:
    from catena.model.places import citation

    best = {"plain": each.plain.hits[0].chunk, "catena": each.catena.hits[0].chunk}
    return {
        "question": each.question.text,
        "answer": each.question.answer,
        "rank": {"plain": each.plain_rank, "catena": each.catena_rank},
        "first": {name: citation(chunk) for name, chunk in best.items()},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A passage that a question needs: a file's name and words that stand in the passage."""

    document: str
    words: str

    def is_in(self, chunk: Chunk) -> bool:
        """Return whether a chunk holds the passage; white space does not count."""
        return PurePath(chunk.document_id).name == self.document and self.words in " ".join(chunk.text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoQuestion:
    """A question with its answer and the passages that one must read to give it."""

    text: str
    answer: str
    why_hard: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One question, ranked both ways.

    Attributes:
        plain, catena: rankings of all chunks.
        plain_rank, catena_rank: how far one must read, from 1, until all evidence was seen; None where a
            passage is not in the ranking.
    """

    question: DemoQuestion
    plain: Ranking
    catena: Ranking
    plain_rank: int | None
    catena_rank: int | None

    @property
    def is_won(self) -> bool:
        """Say if Catena puts the right passages first, and plain vector search does not."""
        best = len(self.question.evidence)
        return self.catena_rank == best and self.plain_rank != best


class PlainVectorSearch:
    """The baseline: cosines of the question with the chunks' own texts, without headings, words or terms."""

    def __init__(self, chunks: Sequence[Chunk], embedder: Embedder) -> None:
        self._chunks, self._embedder = tuple(chunks), embedder
        self._vectors = embedder.embed_documents([chunk.text for chunk in self._chunks])

    def search(self, question: str) -> Ranking:
        """Return all chunks, best first."""
        scores = (self._vectors @ self._embedder.embed_query(question)).tolist()
        ranking = Ranking.of(map(Hit, self._chunks, scores), Scale.SIMILARITY)
        found = (
            Hit(hit.chunk, hit.score, (Provenance(route="dense", rank=rank, score=hit.score, view="raw"),))
            for rank, hit in enumerate(ranking.hits, start=1)
        )
        return Ranking(tuple(found), Scale.SIMILARITY)


def questions_of(file: Traversable) -> tuple[DemoQuestion, ...]:
    """Read the questions that come with the demo's documents."""
    return tuple(map(_question, json.loads(file.read_text(encoding="utf-8"))))


def _question(row: Mapping[str, Any]) -> DemoQuestion:
    needed = [row, row["also"]] if "also" in row else [row]
    evidence = tuple(Evidence(document=each["document"], words=each["evidence"]) for each in needed)
    return DemoQuestion(text=row["question"], answer=row["answer"], why_hard=row["why_hard"], evidence=evidence)


def chunks_of(library: Library) -> tuple[Chunk, ...]:
    """Return all chunks of a library."""
    return tuple(chunk for info in library.documents() for chunk in library.get(info.id).chunks)


def compare(library: Library, embedder: Embedder, questions: Sequence[DemoQuestion]) -> tuple[Comparison, ...]:
    """Ask every question both ways over all chunks of a library."""
    chunks = chunks_of(library)
    baseline = PlainVectorSearch(chunks, embedder)
    return tuple(
        _compared(question, baseline.search(question.text), library.search(question.text, k=len(chunks)))
        for question in questions
    )


def _compared(question: DemoQuestion, plain: Ranking, catena: Ranking) -> Comparison:
    return Comparison(
        question=question,
        plain=plain,
        catena=catena,
        plain_rank=rank_of(question.evidence, [hit.chunk for hit in plain.hits]),
        catena_rank=rank_of(question.evidence, [hit.chunk for hit in catena.hits]),
    )


def rank_of(evidence: Sequence[Evidence], found: Sequence[Chunk]) -> int | None:
    """Return the rank, from 1, at which the last piece of evidence is seen; None where one is missing."""
    ranks = [
        next((rank for rank, chunk in enumerate(found, start=1) if each.is_in(chunk)), None) for each in evidence
    ]
    return None if None in ranks else max((rank for rank in ranks if rank is not None), default=None)


Ask = Callable[[str], Sequence[Chunk]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Result of one way of searching for one question.

    Attributes:
        unit: what it returns: passages, segments, or whole sections.
        rank: how far one must read, from 1, until all evidence was seen; None where a part is not returned.
        tokens: read until then; of everything returned where it is not.
        milliseconds: of the search alone.
        first: the best one that is returned; None where nothing is returned.
        is_right: whether that holds the evidence, or a part of it.
    """

    name: str
    unit: str
    rank: int | None
    tokens: int
    milliseconds: float
    first: Chunk | None
    is_right: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Indices:
    """The mean Log-Rank Index of both rankings over all questions, and what their difference is worth."""

    plain: MeanScore
    catena: MeanScore
    difference: PairedComparison


def five_ways(library: Library, embedder: Embedder, question: DemoQuestion) -> tuple[Way, ...]:
    """Ask one question in five ways, each with what it needs made beforehand, and outside of its time.

    Whole sections with their views are kept in a library of their own, which is gone afterwards.
    """
    from catena.library import Library as LocalLibrary
    from catena.retrieval.section_search import ViewSearch

    documents = [library.get(info.id).document for info in library.documents()]
    plain = PlainVectorSearch(chunks_of(library), embedder)
    library.build_graph()
    k = library.stats().chunks
    with (
        tempfile.TemporaryDirectory(prefix="catena-demo-", ignore_cleanup_errors=True) as folder,
        LocalLibrary.open(Path(folder) / "sections", embedder=embedder, preparation=_sections()) as sections,
    ):
        sections.add(*documents)
        ways: Mapping[str, tuple[str, Ask]] = {
            "Plain vectors": ("passages", lambda asked: _chunks(plain.search(asked).hits)),
            "HiQA": ("passages", lambda asked: _chunks(library.search(asked, k=k).hits)),
            "TextRAG": (
                "segments",
                lambda asked: [found.segment.as_chunk() for found in library.segments(asked).segments],
            ),
            "MC-indexing": ("sections", lambda asked: _chunks(sections.search_views(asked, ViewSearch(), k=10).hits)),
            "IIER": ("passages", lambda asked: _chunks(library.search_graph(asked, k=k).ranking.hits)),
        }
        return tuple(_asked(name, unit, ask, question) for name, (unit, ask) in ways.items())


def indices(library: Library, comparisons: Sequence[Comparison]) -> Indices:
    """Return the mean Log-Rank Index (gamma 1) of both rankings, with intervals and the paired test."""
    from catena.evaluation.answers import mean_score
    from catena.evaluation.log_rank_measure import mean_log_rank_index
    from catena.evaluation.significance import compare

    chunks = chunks_of(library)
    gold = {
        each.question.text: {
            chunk.id: 1 for chunk in chunks if any(part.is_in(chunk) for part in each.question.evidence)
        }
        for each in comparisons
    }

    def values(run: Mapping[str, Ranking]) -> dict[str, float]:
        found = mean_log_rank_index(gold, run, n=len(chunks)).per_query
        return {question: index.value or 0.0 for question, index in found.items()}

    plain = values({each.question.text: each.plain for each in comparisons})
    catena = values({each.question.text: each.catena for each in comparisons})
    return Indices(
        plain=mean_score(list(plain.values())),
        catena=mean_score(list(catena.values())),
        difference=compare(catena, plain),
    )


def _chunks(hits: Sequence[Hit]) -> list[Chunk]:
    return [hit.chunk for hit in hits]


def _sections() -> Preparation:
    """Return how whole sections are indexed under several views, with no model."""
    from catena.enrichment.view_makers import Keywords, Summaries
    from catena.library.pipeline import Preparation
    from catena.structure.chunking import SectionChunkOptions

    return Preparation(chunks=SectionChunkOptions(), views=(Keywords(by="offline"), Summaries(by="offline")))


def _asked(name: str, unit: str, ask: Ask, question: DemoQuestion) -> Way:
    ask(question.text)  # once before, so that no way pays for what is loaded at first use
    began = time.perf_counter()
    found = ask(question.text)
    milliseconds = 1_000 * (time.perf_counter() - began)
    return way_of(name, unit, found, question, milliseconds)


def way_of(name: str, unit: str, found: Sequence[Chunk], question: DemoQuestion, milliseconds: float) -> Way:
    """Return what a way of searching made of a question, by what it returned, best first."""
    from catena.text.words import count_tokens

    rank = rank_of(question.evidence, found)
    read = found[:rank]
    return Way(
        name=name,
        unit=unit,
        rank=rank,
        tokens=sum(count_tokens(chunk.text) for chunk in read),
        milliseconds=milliseconds,
        first=found[0] if found else None,
        is_right=bool(found) and any(part.is_in(found[0]) for part in question.evidence),
    )
