"""One question of the demo asked in five ways: plain vectors, and the search of each of the four systems."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from catena.cli.comparison import Comparison, PlainVectorSearch, chunks_of, rank_of
from catena.model import Chunk

if TYPE_CHECKING:
    from catena.cli.comparison import Question
    from catena.effects.ports import Embedder
    from catena.evaluation.answers import MeanScore
    from catena.evaluation.significance import PairedComparison
    from catena.library import Library
    from catena.library.pipeline import Preparation
    from catena.model import Hit, Ranking

Ask = Callable[[str], Sequence[Chunk]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What one way of searching made of a question.

    Attributes:
        unit: what it returns: passages, segments, or whole sections.
        rank: how far one must read, from 1, until all evidence was seen; None where a part is not returned.
        tokens: read until then; of everything returned where it is not.
        milliseconds: of the search alone.
        first: what stands first; None where nothing is returned.
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


def five_ways(library: Library, embedder: Embedder, question: Question) -> tuple[Way, ...]:
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
            "MC-indexing": (
                "sections",
                lambda asked: _chunks(sections.search_views(asked, ViewSearch(), k=10).hits),
            ),
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
    from catena.enrichment.views import Keywords, Summaries
    from catena.library.pipeline import Preparation
    from catena.structure.section_chunks import SectionChunkOptions

    return Preparation(chunks=SectionChunkOptions(), views=(Keywords(by="offline"), Summaries(by="offline")))


def _asked(name: str, unit: str, ask: Ask, question: Question) -> Way:
    ask(question.text)  # once before, so that no way pays for what is loaded at first use
    began = time.perf_counter()
    found = ask(question.text)
    milliseconds = 1_000 * (time.perf_counter() - began)
    return way_of(name, unit, found, question, milliseconds)


def way_of(name: str, unit: str, found: Sequence[Chunk], question: Question, milliseconds: float) -> Way:
    """Return what a way of searching made of a question, by what it returned, best first."""
    from catena.structure.tokens import count_tokens

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
