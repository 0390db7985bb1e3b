"""Run `catena demo`: search real PDFs by Catena and by plain vector search, measure both, and show the findings."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from catena.cli.console import out, picked, printable, write_json
from catena.cli.failures import SOME_FAILED, ProblemError
from catena.cli.options import AsJson, EmbedderName, option
from catena.cli.rendering import cited_as, counted, excerpt, ledger, number, table
from catena.model import Chunk, Hit, MissingExtraError, Outcome, Provenance, Ranking, Scale, citation, needs
from catena.text.words import count_tokens

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from catena.effects.ports import Embedder
    from catena.evaluation.answers import MeanScore
    from catena.evaluation.significance import PairedComparison
    from catena.library import Library
    from catena.library.pipeline import Preparation
    from catena.store.store import LibraryStats


NOWHERE = "What is the tightening torque of the HX220 cover screws?"  # no such product
BOTH = "What is the tightening torque of the cover screws of the HX200 and of the HX210?"
TOP = 3  # passages shown of each ranking
BAR = 12  # columns of a full bar

Ask: TypeAlias = Callable[[str], Sequence[Chunk]]


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
        option("PATH", "Keep the library there; the PDFs and the report go beside it.", "--library", "-l"),
    ] = None,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Index three bundled PDFs, ask what plain vector search gets wrong, and show the difference."""
    if not as_json:
        out().print(
            Text.assemble(
                ("Catena demo\n", "bold"),
                "Two manuals that differ in a few numbers, and a report about both. Nothing below is recorded:\n"
                "they are parsed, indexed and searched here and now, with no key and no network.\n",
            )
        )
    with _place(library) as path:
        run = _run(path, report_place(library), embedder)
    if as_json:
        write_json(_as_json(run))
    else:
        for part in report(run, library):
            out().print(part)
    if any(outcome.state == "failed" for outcome in run.outcomes):
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


def _run(path: Path, page: Path, name: str | None) -> DemoRun:
    """Parse and index the PDFs, ask every question, and write a report about the showcase."""
    from importlib.resources import files

    from catena.cli.library import indexed
    from catena.library import Library
    from catena.library.base import embedder_given

    bundled = files("catena") / "data" / "demo"
    began = time.monotonic()
    with Library.open(path, embedder=name) as library:
        embedder = embedder_given(library.services.embedder)
        outcomes = indexed(library, [_copied(bundled, path.with_name(f"{path.name}-documents"))])
        ready = time.monotonic()
        chunks = chunks_of(library)
        plain = PlainVectorSearch(chunks, embedder)
        comparisons = tuple(
            Comparison(
                question=question,
                plain=plain.search(question.text),
                catena=library.search(question.text, k=len(chunks)),
            )
            for question in questions_of(bundled / "questions.json")
        )
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
            indices=indices(chunks, comparisons),
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


def _copied(bundled: Traversable, folder: Path) -> Path:
    """Copy the PDFs out of the package: documents are named by their place relative to the library."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(bundled.iterdir(), key=lambda file: str(file.name)):
        if file.name.endswith(".pdf"):
            (folder / file.name).write_bytes(file.read_bytes())
    return folder


def showcase(comparisons: Sequence[Comparison]) -> Comparison | None:
    """Return the first question that Catena answers first while plain vector search does not."""
    return next((each for each in comparisons if each.is_won), None)


def _as_json(run: DemoRun) -> dict[str, Any]:
    shown = showcase(run.comparisons)
    return {
        "documents": [
            {"document": PurePath(each.document_id).name, **picked(each, "state pages chunks")}
            for each in run.outcomes
        ],
        "holds": run.holds,
        "seconds": {"index": round(run.index_seconds, 3), "ask": round(run.ask_seconds, 3)},
        "showcase": None if shown is None else shown.question.text,
        "questions": [
            {
                "question": each.question.text,
                "answer": each.question.answer,
                "rank": {"plain": each.plain_rank, "catena": each.catena_rank},
                "first": {
                    name: citation(ranking.hits[0].chunk)
                    for name, ranking in (("plain", each.plain), ("catena", each.catena))
                },
            }
            for each in run.comparisons
        ],
        "ways": [
            {
                "way": way.name,
                "returns": way.unit,
                **picked(way, "rank tokens"),
                "milliseconds": round(way.milliseconds, 1),
                "first": None if way.first is None else citation(way.first),
                "right": way.is_right,
            }
            for way in run.ways
        ],
        "log_rank_index": run.indices,
        "report": None if run.report is None else run.report.as_posix(),
        "nowhere": {"question": NOWHERE, "hits": len(run.nowhere.hits), "unknown": run.nowhere.unknown},
        "both": {"question": BOTH, "first": [citation(hit.chunk) for hit in run.both.hits]},
    }


# The questions, and how far one must read until they are answered.


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

    def is_met_by(self, chunk: Chunk) -> bool:
        """Return whether a chunk holds one of the passages."""
        return any(each.is_in(chunk) for each in self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One question, with the rankings of all chunks by plain vector search and by Catena."""

    question: DemoQuestion
    plain: Ranking
    catena: Ranking

    @property
    def plain_rank(self) -> int | None:
        """Say how far one must read in the plain ranking, see `rank_of`."""
        return rank_of(self.question.evidence, _chunks(self.plain.hits))

    @property
    def catena_rank(self) -> int | None:
        """Say how far one must read in Catena's ranking, see `rank_of`."""
        return rank_of(self.question.evidence, _chunks(self.catena.hits))

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
    return tuple(
        DemoQuestion(
            text=row["question"],
            answer=row["answer"],
            why_hard=row["why_hard"],
            evidence=tuple(
                Evidence(document=each["document"], words=each["evidence"])
                for each in (row, row.get("also"))
                if each is not None
            ),
        )
        for row in json.loads(file.read_text(encoding="utf-8"))
    )


def chunks_of(library: Library) -> tuple[Chunk, ...]:
    """Return all chunks of a library."""
    return tuple(chunk for info in library.documents() for chunk in library.get(info.id).chunks)


def rank_of(evidence: Sequence[Evidence], found: Sequence[Chunk]) -> int | None:
    """Return the rank, from 1, at which the last piece of evidence is seen; None where one is missing."""
    ranks = [next((rank for rank, chunk in enumerate(found, 1) if each.is_in(chunk)), 0) for each in evidence]
    return max(ranks) if all(ranks) else None


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


def indices(chunks: Sequence[Chunk], comparisons: Sequence[Comparison]) -> Indices:
    """Return the mean Log-Rank Index (gamma 1) of both rankings, with intervals and the paired test."""
    from catena.evaluation.answers import mean_score
    from catena.evaluation.log_rank_measure import mean_log_rank_index
    from catena.evaluation.significance import compare

    gold = {
        each.question.text: {chunk.id: 1 for chunk in chunks if each.question.is_met_by(chunk)}
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
    return way_of(name, unit, found, question, 1_000 * (time.perf_counter() - began))


def way_of(name: str, unit: str, found: Sequence[Chunk], question: DemoQuestion, milliseconds: float) -> Way:
    """Return what a way of searching made of a question, by what it returned, best first."""
    rank = rank_of(question.evidence, found)
    return Way(
        name=name,
        unit=unit,
        rank=rank,
        tokens=sum(count_tokens(chunk.text) for chunk in found[:rank]),
        milliseconds=milliseconds,
        first=found[0] if found else None,
        is_right=bool(found) and question.is_met_by(found[0]),
    )


# How it looks in a terminal.


def report(run: DemoRun, library: Path | None) -> Iterator[RenderableType]:
    """Yield the parts of the report: ledger, showcase, all questions, names, what to try next."""
    yield _heading("1  Three PDFs become a library")
    yield ledger(run.outcomes, [PurePath(outcome.document_id).name for outcome in run.outcomes])
    size = f"{number(run.holds.sections, 'section')}, {number(run.holds.chunks, 'chunk')}"
    yield Text(f"{counted(run.outcomes)}, in {run.index_seconds:.1f} s; the library holds {size}.\n")
    yield _heading("2  One question, asked both ways")
    shown = showcase(run.comparisons)
    if shown is None:
        yield Text("In this run there is no question that plain vector search gets wrong and Catena right.\n")
    else:
        yield from _side_by_side(shown)
    if run.ways:
        yield _heading("3  The same question, asked in five ways")
        yield five_ways_shown(run.ways)
    yield _heading(f"4  All {len(run.comparisons)} questions")
    yield _all_questions(run.comparisons)
    yield _summary(run)
    yield _heading("5  Two products, and one that does not exist")
    yield _names(run)
    if run.report is not None:
        yield _heading("6  See it")
        yield _page(run.report)
    yield _heading("7  Your own files")
    yield _next(library)


def _heading(text: str) -> Text:
    return Text(text, style="bold cyan")


def _labelled(*rows: tuple[str, Text], style: str = "dim") -> Table:
    """Return a grid of short labels and what they stand for."""
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(no_wrap=True, style=style)
    grid.add_column(ratio=1)
    for label, told in rows:
        grid.add_row(label, told)
    return grid


def _side_by_side(shown: Comparison) -> Iterator[RenderableType]:
    question = shown.question
    yield _labelled(
        ("question", Text(question.text, style="bold")),
        ("answer", Text(question.answer)),
        ("why hard", Text(question.why_hard, style="dim")),
    )
    both = Table(box=box.ROUNDED, expand=True, show_lines=True, padding=(0, 1))
    both.add_column("", justify="right")
    for name, rank in (("Plain vector search", shown.plain_rank), ("Catena", shown.catena_rank)):
        told = f"   right passage: {'not found' if rank is None else f'rank {rank}'}"
        both.add_column(Text.assemble((name, "bold"), (told, "not bold dim")), ratio=1)
    for place in range(TOP):
        both.add_row(str(place + 1), *(_cell(question, ranking, place) for ranking in (shown.plain, shown.catena)))
    yield both
    first = Text(f"{cited_as(shown.catena.hits[0].chunk)}\n", style="green")
    yield _labelled(("Catena cites", first), style="bold")


def _mark(right: bool) -> str:
    return _symbol("✓", "+") if right else _symbol("✗", "-")


def _cell(question: DemoQuestion, ranking: Ranking, place: int) -> Text:
    if place >= len(ranking.hits):
        return Text("")
    chunk = ranking.hits[place].chunk
    right = question.is_met_by(chunk)
    name, heading = PurePath(chunk.document_id).name, chunk.path[-1] if chunk.path else ""
    return Text.assemble(
        (f"{_mark(right)} {printable(name, one_line=True)}", "bold green" if right else "red"),
        f"\n{printable(heading, one_line=True)}",
        (f", page {chunk.pages[0]}" if chunk.pages else "", "dim"),
        (f"\n{excerpt(chunk, question.text, 130)}", "dim"),
    )


def five_ways_shown(ways: Sequence[Way]) -> RenderableType:
    """Return a row for each way: the rank of the right passage, the tokens read until then, the time it took."""
    made = table("", "Right#", "Tokens#", "ms#", "What stands first")
    for way in ways:
        first = "nothing" if way.first is None else cited_as(way.first)
        made.add_row(
            Text.assemble((way.name, "bold"), (f"\n{way.unit}", "dim")),
            _symbol("—", "-") if way.rank is None else str(way.rank),
            f"{way.tokens:,}",
            f"{way.milliseconds:.0f}",
            Text(f"{_mark(way.is_right)} {first}", style="green" if way.is_right else "red"),
        )
    told = Text(
        "Right: the rank at which all that answers has been read; tokens: what is read until then.\n"
        "One question: it shows what each returns, not which is better.\n",
        style="dim",
    )
    return Group(made, told)


def _page(report: Path) -> RenderableType:
    """Return where the report is, never broken within the path, and what it shows."""
    path = Text(f"  {printable(str(report), one_line=True)}", style="green", no_wrap=True, overflow="ignore")
    told = "One HTML page without a network: the tree of documents, the ranking and its routes, what each chunk is "
    return Group(path, Padding(Text(f"{told}worth, the graph and its chains."), (0, 0, 1, 2)))


def _all_questions(comparisons: Sequence[Comparison]) -> RenderableType:
    made = table("Rank of the right passage", "Plain#", "", "Catena#", "")
    for each in comparisons:
        best = len(each.question.evidence)
        made.add_row(
            Text(each.question.text), *_rank(each.plain_rank, best, "red"), *_rank(each.catena_rank, best, "green")
        )
    return made


def _rank(rank: int | None, best: int, colour: str) -> tuple[str, Text]:
    """Return a rank and a bar of length best/rank: full when the right passages come first."""
    if rank is None:
        return _symbol("—", "-"), Text("")
    return str(rank), Text(_symbol("█", "#") * max(1, round(BAR * best / rank)), style=colour)


def _summary(run: DemoRun) -> Text:
    total = len(run.comparisons)

    def within(name: str, more: int) -> str:
        ranks = [(getattr(each, f"{name}_rank"), len(each.question.evidence)) for each in run.comparisons]
        return str(sum(rank is not None and rank <= best + more for rank, best in ranks))

    return Text.assemble(
        "Right passage first: plain ", (f"{within('plain', 0)} of {total}", "red"), ", Catena ",
        (f"{within('catena', 0)} of {total}", "bold green"), ". Among the first three: plain ",
        (within("plain", 2), "red"), ", Catena ", (within("catena", 2), "bold green"),
        f".\nBoth rank the same {number(run.holds.chunks, 'chunk')} with the same embedding "
        f"({run.holds.embedder.partition(':')[0]}); "
        "plain compares the chunks as they are, Catena adds headings, words and critical terms.\n"
        f"{_index(run.indices)}"
        f"{2 * total} searches in {run.ask_seconds:.1f} s. {total} questions show how it works; "
        "they prove nothing about your files.\n",
    )  # fmt: skip


def _index(indices: Indices | None) -> str:
    """Return the mean Log-Rank Indices, and what so few questions say of their difference."""
    if indices is None:
        return ""
    found = indices.difference
    sure = "can" if found.p < 1 - found.level else "cannot"
    return (
        f"Mean Log-Rank Index: plain {_interval(indices.plain)}, Catena {_interval(indices.catena)}; "
        f"paired difference {found.difference:+.3f}, p {found.p:.3f}: {found.n} questions {sure} tell them apart.\n"
    )


def _interval(score: MeanScore) -> str:
    return f"{score.value:.3f}" + ("" if score.interval is None else " [{:.3f}, {:.3f}]".format(*score.interval))


def _names(run: DemoRun) -> RenderableType:
    """Return what is found for a question about two products, and for one about none."""
    told = "; ".join(map(str, run.nowhere.unknown)) or "every name in it is known"
    answer = f"{number(len(run.nowhere.hits), 'passage')}: {told}"
    passages = [
        Text.assemble((cited_as(hit.chunk), "green"), (f"\n{excerpt(hit.chunk, BOTH, 130)}", "dim"))
        for hit in run.both.hits
    ]
    return _labelled(
        ("question", Text(BOTH, style="bold")),
        *((f"passage {place}", passage) for place, passage in enumerate(passages, start=1)),
        ("", Text("")),
        ("question", Text(NOWHERE, style="bold")),
        ("answer", Text(f"{printable(answer, one_line=True)}\n")),
    )


def _next(library: Path | None) -> RenderableType:
    """Return commands to try, none of them broken: they are copied."""
    grid = Table.grid(padding=(0, 2), pad_edge=True)
    grid.add_column(no_wrap=True)
    grid.add_column(style="dim")
    catena = own_command()
    for words, told in (
        ('ask report.pdf "What does it say about …?"', "passages with citations, one command"),
        ("index FOLDER --library my-library", "every PDF, Office, HTML, Markdown, LaTeX and text file"),
        ('search "…" --library my-library --json', "ranked passages for programs"),
        ("parse report.pdf --out report.md", "the Markdown that is indexed"),
    ):
        grid.add_row(Text(f"{catena} {words}"), told)
    kept = "" if library is None else f'  {catena} search "your question" --library {library}'
    asked = [Text(printable(kept, one_line=True), no_wrap=True, overflow="ignore")] if kept else []
    return Group(*asked, grid, Text(""))


def own_command() -> str:
    """Return how a shell finds the command that runs: by its name, or by its path where only this process has it.

    nox puts the folder of an environment of its own on the PATH, for as long as its session runs.
    """
    started = Path(sys.argv[0])
    if started.stem != "catena" or (shutil.which("catena") and "NOX_CURRENT_SESSION" not in os.environ):
        return "catena"
    try:
        return shlex.quote(str(started.relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(started))


def _symbol(nice: str, simple: str) -> str:
    """Return a symbol that the terminal can show."""
    try:
        nice.encode(sys.stdout.encoding or "ascii")
    except UnicodeError:
        return simple
    return nice
