"""Make what a report shows of documents: their tree, the worth of chunks, the fidelity of pages, and measures."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from catena import Entry, Ranking, run
from catena.evaluation import (
    GAMMAS,
    NAMES,
    Judgement,
    RetrievalReport,
    ask_questions,
    cohesion,
    judge,
    recall_curve,
    retrieval_report,
)
from catena.formatting import FidelityReport
from catena.model import EvaluationError, citation, pages_in_words
from catena.segments import Extraction, Weighed, explain
from catena_view.plots import ranking as ranking_plots
from catena_view.plots import space
from catena_view.plots.graph_view import excerpt
from catena_view.plots.picture import shortened
from catena_view.plots.segments import ChunkRow, ends_of, formula_of, rows_of
from catena_view.plots.views import fidelity_strip
from catena_view.report.values import (
    Bar,
    Curve,
    Curves,
    DocumentRow,
    FigureShown,
    Missing,
    PageRow,
    SectionRow,
    SegmentShown,
    Strip,
    Strips,
    Studies,
    Tree,
)

if TYPE_CHECKING:
    from catena.evaluation import BankQuestion
    from catena.library import BaseLibrary
    from catena.store import DocumentInfo
    from catena_view.report.reporting import ReportOptions


_EXCERPT = 160  # letters of a chunk's text


def in_order(infos: Sequence[DocumentInfo], ranking: Ranking) -> list[str]:
    """Return the ids of all documents: those with hits by their best rank, then the others, ascending."""
    held = {info.id for info in infos}
    first = [name for name in dict.fromkeys(hit.chunk.document_id for hit in ranking.hits) if name in held]
    return first + sorted(held.difference(first))


def tree_shown(
    infos: Sequence[DocumentInfo], order: Sequence[str], entries: Mapping[str, Entry], ranking: Ranking
) -> Tree:
    """Return the tree of some documents.

    Args:
        infos: of all documents.
        order: ids of those that are listed.
        entries: of those that were read.
        ranking: whose hits are marked.
    """
    by_id = {info.id: info for info in infos}
    ranks: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for rank, hit in enumerate(ranking.hits, start=1):
        ranks[hit.chunk.document_id].append((hit.chunk.section, rank))
    rows = tuple(
        DocumentRow(
            id=name,
            title=by_id[name].title or name,
            state=by_id[name].state,
            chunks=by_id[name].chunks,
            pages=by_id[name].pages,
            hits=tuple(rank for _, rank in ranks[name]),
            sections=sections_shown(entries[name], ranks[name]) if name in entries else None,
        )
        for name in order
    )
    return Tree(documents=rows, more=len(infos) - len(rows))


def sections_shown(entry: Entry, hits: Sequence[tuple[int, int]]) -> tuple[SectionRow, ...]:
    """Return the sections of a document in reading order; `hits` are pairs of section position and rank."""
    chunks = Counter(chunk.section for chunk in entry.chunks)
    return tuple(
        SectionRow(
            position=section.position,
            level=section.level,
            title=section.title or "Before the first heading",
            where=pages_in_words(entry.document.pages_of(section.start, section.end)),
            chunks=chunks[section.position],
            hits=tuple(rank for position, rank in hits if position == section.position),
        )
        for section in entry.sections
    )


def curves_shown(found: Extraction, most: int) -> Curves | Missing:
    """Return the curves of the first documents that extraction considered.

    Args:
        found: what `catena.segments.extract` returned.
        most: documents, >= 1.
    """
    if not found.considered.documents:
        return Missing(
            missing="No document was considered for segments, since nothing was found.", hint="other words"
        )
    told = explain(found)
    known = {chunk.id: chunk for chunk in found.considered.valued.chunks}
    rows = rows_of(told, known)
    return Curves(
        penalty=told.params.irrelevance_penalty,
        used=told.used,
        budget=told.budget,
        unit="tokens" if told.in_tokens else "chunks",
        caption=(
            f"Documents considered: {len(rows):,}. {formula_of(told)}; the dashed line is 0 less the penalty. "
            f"Selection: {told.params.selection}."
        ),
        degraded=tuple(f"{part.what}: {part.why}" for part in found.degraded),
        curves=tuple(_curve(row, found) for row in rows[:most]),
    )


def _curve(row: ChunkRow, found: Extraction) -> Curve:
    document = row.chunks[0].document_id
    spans = tuple(
        SegmentShown(
            number=number,
            first=ends[0],
            last=ends[1],
            value=hit.value,
            citation=citation(hit.segment),
            text=hit.segment.text.strip(),
        )
        for number, hit in enumerate(found.segments, start=1)
        if hit.segment.document_id == document and hit.segment.positions is not None
        for ends in [ends_of(row, (document, hit.segment.positions[0], hit.segment.positions[1] + 1, hit.value))]
    )
    bars = tuple(_bar(place, chunk, row) for place, chunk in zip(row.places, row.chunks, strict=True))
    return Curve(document=document, title=row.title, bars=bars, spans=spans)


def _bar(place: float, chunk: Weighed, row: ChunkRow) -> Bar:
    worth = max(chunk.worths, key=lambda each: -1.0 if each.value is None else each.value)
    known = row.known.get(chunk.chunk_id)
    return Bar(
        position=chunk.position,
        place=place,
        value=worth.value or 0.0,
        rank=None if worth.rank is None else worth.rank + 1,
        probability=worth.probability,
        segment=None if chunk.segment is None else chunk.segment + 1,
        why=chunk.why,
        title=chunk.path[-1] if chunk.path else "",
        excerpt=shortened(excerpt(known), _EXCERPT) if known is not None else "",
    )


Progress: TypeAlias = Callable[[int, int], None]
"""Told how many questions of a bank have been asked, and of how many."""


def studies_shown(
    library: BaseLibrary,
    bank: Sequence[BankQuestion],
    entries: Sequence[Entry],
    options: ReportOptions,
    progress: Progress | None = None,
) -> Studies:
    """Ask a library every question of a bank, and draw what was found.

    Args:
        library: to ask.
        bank: questions with gold; those without are counted and left out.
        entries: the documents whose cohesion is measured.
        options: depth and gamma.
        progress: told after each question.

    Raises:
        EvaluationError: no gold place is in the library.
        MissingExtraError: matplotlib is not installed.
    """
    judgement = judge(bank, [info.id for info in library.documents()], library.get)
    n = library.stats().chunks
    top, deep = ask_questions(bank, judgement, library.search, depth=min(options.depth, n), progress=progress)
    found = retrieval_report(bank, judgement, top=top, deep=deep, n=n, gamma=options.gamma)
    measures = [name for name in NAMES if name in found.measures[""]]
    return Studies(
        note=_note(found, judgement),
        columns=("kind", "questions", *(NAMES[name] for name in measures), "mean rank"),
        rows=tuple(_row(kind, found, measures) for kind in found.measures),
        figures=(*_log_rank(found), *_cohesion(library, entries)),
    )


def _log_rank(found: RetrievalReport) -> list[FigureShown]:
    curve = recall_curve(found.ranks, n=found.n, gamma=found.gamma)
    return [
        _figure(ranking_plots.recall_curve({"this library": curve})),
        _figure(ranking_plots.recall_by_kind({"this library": found})),
        _figure(ranking_plots.log_rank_curves(n=max(found.n, 2), gammas=GAMMAS)),
    ]


def _cohesion(library: BaseLibrary, entries: Sequence[Entry]) -> list[FigureShown]:
    ways = cohesion.texts_of(entries)
    labels = cohesion.document_labels(entries)
    if len(labels) < 3:  # fewer points have no plane
        return []
    found = run(cohesion.study(ways, labels), library.services)
    return [_figure(space.cohesion(found, title="Cohesion: do texts of one document stand together?"))]


def _figure(picture: Any) -> FigureShown:
    plain = replace(picture, title="", caption="")  # the page writes them, in letters that grow and are read aloud
    image = b64encode(plain._repr_png_()).decode("ascii")
    return FigureShown(title=picture.title, caption=picture.caption, image=f"data:image/png;base64,{image}")


def _row(kind: str, found: RetrievalReport, measures: Sequence[str]) -> tuple[str, ...]:
    held = found.measures[kind]
    cells = []
    for name in measures:
        score = held[name].score
        between = "" if score.interval is None else f" [{score.interval[0]:.2f}, {score.interval[1]:.2f}]"
        cells.append(f"{score.value:.3f}{between}")
    return (kind or "all", str(held["recall"].score.n), *cells, f"{found.geometric_mean_rank[kind]:.2f}")


def _note(found: RetrievalReport, judgement: Judgement) -> str:
    told = [
        f"{found.n_judged:,} of {found.n_questions:,} questions have gold places. Recall at max({found.k}, gold "
        f"places). LRI: Log-Rank Index, γ = {found.gamma:g}, N = {found.n:,} chunks; the mean rank is geometric."
    ]
    if judgement.lost:
        told.append(f"Gold places that are nowhere in the library, and count as not found: {len(judgement.lost)}.")
    if found.without:
        told.append(f"Without {found.without}.")
    return " ".join(told)


_NONE = Missing(
    missing="No fidelity was given: a library does not keep how faithful the Markdown of its pages is.",
    hint="catena parse FILE.pdf --llm MODEL --fidelity FILE.json, then catena report … --fidelity FILE.json",
)


def read_fidelity(path: str | Path) -> tuple[FidelityReport, ...]:
    """Read what `catena parse --fidelity` wrote: one report, or a list of them.

    Raises:
        EvaluationError: the file cannot be read, or holds something else.
    """
    source = Path(path)
    try:
        found = json.loads(source.read_text(encoding="utf-8"))
        reports = found if isinstance(found, list) else [found]
        return tuple(map(FidelityReport.from_json, reports))
    except OSError as error:
        what = f"{source.name} cannot be read: {error.strerror or 'not readable'}"
        raise EvaluationError(f"{what}. Try: the file that catena parse --fidelity wrote") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        what = f"{source.name} is no fidelity report ({type(error).__name__}: {error})"
        raise EvaluationError(f"{what}. Try: the file that catena parse --fidelity wrote") from error


def strips_shown(reports: Sequence[FidelityReport]) -> Strips | Missing:
    """Return the strips of reports that have pages.

    Raises:
        EvaluationError: a share is not in [0, 1].
    """
    held = [report for report in reports if report.pages]
    return Strips(strips=tuple(map(_strip, held))) if held else _NONE


def _strip(report: FidelityReport) -> Strip:
    return Strip(
        title=Path(report.source).name or "a document",
        caption=str(getattr(fidelity_strip(report), "caption", "")),
        pages=tuple(
            PageRow(
                page=page.page,
                recall=page.recall,
                precision=page.precision,
                order=page.order,
                state=page.state,
                faults=tuple(f"{each.kind}: {each.detail}" if each.detail else each.kind for each in page.faults),
            )
            for page in report.pages
        ),
    )
