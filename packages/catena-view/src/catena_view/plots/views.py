"""Pictures of what parts keep: which view found what, where answers lie or are torn, how faithful pages are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf, isfinite, log2, nan
from pathlib import Path
from typing import TypeAlias

from catena import Document, Hit, Ranking
from catena.evaluation import Span, Spanned, chunking_error, spans_of
from catena.formatting import FidelityReport, PageFidelity
from catena.model import SEPARATOR, TITLE, EvaluationError, ParameterError
from catena.retrieval import found_by
from catena_view.plots.picture import (
    Axis,
    Cells,
    LineMark,
    Mark,
    Picture,
    Points,
    Spans,
    measured_line,
    one_panel,
    round_ticks,
    shortened,
)
from catena_view.plots.segments import PLAIN

Recall: TypeAlias = float | tuple[float, float, float]
"""A mean recall in [0, 1], or (mean, low, high) with its interval."""

_TITLE, _DOCUMENT, _EXCERPT = 40, 18, 90  # letters of a section's title, of a document's before it, of a text
_ROW = 0.23  # inches
_CUT = 1  # series of what is cut


def view_attribution(
    ranking: Ranking,
    path: str | Path | None = None,
    *,
    views: Sequence[str] = (),
    rows: int = 60,
    title: str = "Which view found what, and at which rank",
) -> Picture | Path:
    """Draw a row for each hit and a column for each view; a cell holds the hit's rank in that view, from 1.

    Bright cells are first ranks; an empty one says that the view did not rank the hit as deep as it was searched.
    The caption counts for each view the hits that it ranked, those that it ranked best (alone or with others), and
    those that no other view ranked.

    Args:
        ranking: of `catena.retrieval.view_search`, or any whose provenance names views.
        path: a .png or .html to write; None returns the picture.
        views: the columns and their order; by default all views named, in the order in which hits name them.
        rows: at most so many hits are drawn, the best ones.
        title: of the picture.

    Raises:
        EvaluationError: the ranking is empty, or names no view with a rank.
        ParameterError: rows is below 1, or the suffix is not known.
        MissingExtraError: the library that draws is not installed.
    """
    if rows < 1:
        raise ParameterError("rows", rows, "1 or more")
    found = [{kind: rank for kind, rank in found_by(hit).items() if rank is not None} for hit in ranking.hits]
    columns = tuple(views) or tuple(dict.fromkeys(kind for of_hit in found for kind in of_hit))
    if not any(kind in of_hit for of_hit in found for kind in columns):
        raise EvaluationError("no hit was ranked by a view. Try: a ranking of `retrieve_views` or `search_views`")
    drawn = list(zip(ranking.hits, found, strict=True))[:rows]
    several = len({hit.chunk.document_id for hit, _ in drawn}) > 1
    labels = [f"{_label(hit, several)}  {place}" for place, (hit, _) in enumerate(drawn, start=1)]
    ranks = [[of_hit.get(kind) for kind in columns] for _, of_hit in drawn]
    cells = Cells(
        values=[[None if rank is None else 1 / log2(rank + 1) for rank in row] for row in ranks],
        texts=[["" if rank is None else str(rank) for rank in row] for row in ranks],
        names=[[_told(hit, kind, of_hit.get(kind)) for kind in columns] for hit, of_hit in drawn],
        x=[float(place) for place in range(len(columns))],
        low=0.0,
        high=1.0,
        label="1 / log2(rank + 1)",
    )
    x = Axis(ticks=[(float(place), kind) for place, kind in enumerate(columns)], limits=(-0.5, len(columns) - 0.5))
    y = Axis(ticks=[(len(drawn) - at - 0.5, text) for at, text in enumerate(labels)], limits=(0, len(drawn)))
    left_out = f" of {len(found):,}, the best ones" if len(found) > len(drawn) else ""
    counts = "; ".join(_counted(kind, columns, found[:rows]) for kind in columns)
    caption = f"{len(drawn):,} hits{left_out}. {counts}."
    return one_panel([cells], x, y, path, title=title, caption=caption, height=1.6 + _ROW * len(drawn))


def scope_recall(
    methods: Mapping[str, Mapping[float, Recall]],
    path: str | Path | None = None,
    *,
    unit: str = "tokens read",
    title: str = "How much of the answers is in what is returned",
) -> Picture | Path:
    """Draw recall of answer scopes against what the reader is given: a line for each method, a band for its interval.

    Args:
        methods: by name, in each the amount (tokens, or k) -> recall, with or without its interval.
        path: as in `view_attribution`.
        unit: of the amounts.
        title: of the picture.

    Raises:
        EvaluationError: there is no method, one has no recall, an amount is not > 0, or a recall is no share.
        ParameterError, MissingExtraError: as in `view_attribution`.
    """
    if not methods or not all(methods.values()):
        raise EvaluationError("a picture of recall needs at least one method, and a recall of each")
    lines = [_recalls(name, number, recalls) for number, (name, recalls) in enumerate(methods.items())]
    amounts = sorted({x for line in lines for x in line.x})
    told = "; ".join(
        f"{line.label} {line.y[0]:.3f} at {line.x[0]:,g}"
        + (f" → {line.y[-1]:.3f} at {line.x[-1]:,g}" if len(line.x) > 1 else "")
        for line in lines
    )
    x = Axis(label=unit, ticks=[(amount, f"{amount:,g}") for amount in amounts], logarithmic=True)
    y = Axis(label="recall: share of the evidence covered", limits=(0, 1.02))
    banded = " Bands: intervals." if any(line.low for line in lines) else ""
    return one_panel(lines, x, y, path, title=title, caption=f"{told} {unit}.{banded}")


def chunking_errors(
    document: Document,
    chunkers: Mapping[str, Sequence[Spanned]],
    evidence: Sequence[Span],
    path: str | Path | None = None,
    *,
    names: Sequence[str] = (),
    title: str = "Where chunks tear what answers",
) -> Picture | Path:
    """Draw a strip for each chunker along the document: its chunks, and where they tear an answer scope.

    Chunks lie alternately a little higher and lower, so that their borders are steps; scopes are shaded; a mark
    stands at each border inside a scope that no chunk holds whole, and in the middle of a scope outside all chunks.

    Args:
        document: what all spans point into.
        chunkers: by name, all that a chunker made of the document.
        evidence: answer scopes, [start, end) in code points.
        path: as in `view_attribution`.
        names: of the scopes, shown on hovering, e.g. their questions; their text by default.
        title: of the picture.

    Raises:
        EvaluationError: there is no chunker or no evidence, or a span does not lie in the text.
        ParameterError: `names` are not one for each scope, or the suffix is not known.
        MissingExtraError: the library that draws is not installed.
    """
    if not chunkers:
        raise EvaluationError("a picture of chunking errors needs at least one chunker")
    if names and len(names) != len(evidence):
        raise ParameterError("names", len(names), f"a name for each of {len(evidence)} scopes")
    text = document.text
    errors = {name: chunking_error(spans_of(made), evidence, text) for name, made in chunkers.items()}
    called = [shortened(name, _EXCERPT) for name in names or (text[start:end] for start, end in evidence)]
    marks: list[Mark] = [Spans(spans=[(float(a), float(b)) for a, b in evidence], label="what answers a question")]
    cuts: list[tuple[float, float, str]] = []
    levels = [len(chunkers) - row - 0.5 for row in range(len(chunkers))]
    for level, (name, made) in zip(levels, chunkers.items(), strict=True):
        spans = sorted(spans_of(made))
        marks.append(_strip(spans, level))
        cuts += [
            (place, level, f"{name}: {told}")
            for scope, told in zip(evidence, called, strict=True)
            if chunking_error(spans, [scope], text)
            for place in _cuts(spans, scope)
        ]
    xs, ys, told = [x for x, _, _ in cuts], [y for _, y, _ in cuts], [what for _, _, what in cuts]
    marks.append(Points(x=xs, y=ys, label="torn", series=_CUT, names=told))
    ticks = [(level, f"{name}: {error:.1%}") for level, (name, error) in zip(levels, errors.items(), strict=True)]
    ends = (0.0, float(max(len(text), 1)))
    places = [(place, f"{place:,.0f}") for place, _ in round_ticks(*ends, most=10)]
    x = Axis(label="place in the document, characters", ticks=places, limits=ends)
    y = Axis(ticks=ticks, limits=(0, len(chunkers)))
    scopes = f"{len(evidence):,} scope" + "s" * (len(evidence) != 1)
    told_errors = ", ".join(
        f"{name} {error:.1%} ({round(error * len(evidence)):,} torn by {len(chunkers[name]):,})"
        for name, error in errors.items()
    )
    caption = (
        f"Chunking error, the share of {scopes} that no chunk holds whole, and the number of chunks: {told_errors}."
    )
    height = 2.0 + 0.45 * len(chunkers)
    return one_panel(marks, x, y, path, title=title, caption=caption, height=height, stacked=True)


def _label(hit: Hit, several: bool) -> str:
    chunk = hit.chunk
    section = shortened(chunk.path[-1] if chunk.path else chunk.text, _TITLE)
    document = str(chunk.metadata.get(TITLE) or chunk.document_id)
    return f"{shortened(document, _DOCUMENT)}{SEPARATOR}{section}" if several else section


def _told(hit: Hit, kind: str, rank: int | None) -> str:
    where = SEPARATOR.join(hit.chunk.path)
    found = f"{kind}: rank {rank}" if rank is not None else f"{kind}: not ranked"
    return "\n".join(part for part in (found, where, shortened(hit.chunk.text, _EXCERPT)) if part)


def _counted(kind: str, columns: Sequence[str], found: Sequence[Mapping[str, int]]) -> str:
    """Return how many hits a view ranked, ranked best, and ranked alone."""
    ranked = [of_hit for of_hit in found if kind in of_hit]
    best = sum(of_hit[kind] == min(of_hit.get(each, inf) for each in columns) for of_hit in ranked)
    alone = sum(not any(each in of_hit for each in columns if each != kind) for of_hit in ranked)
    return f"{kind} ranked {len(ranked):,} (best of the views {best:,}, alone {alone:,})"


def _recalls(name: str, number: int, recalls: Mapping[float, Recall]) -> LineMark:
    points = sorted((float(x), value if isinstance(value, tuple) else (value,) * 3) for x, value in recalls.items())
    for amount, values in points:
        if not (isfinite(amount) and amount > 0):
            raise EvaluationError(f"{name!r}: amounts must be finite and > 0, got {amount!r}")
        mean, low, high = values
        if not 0 <= low <= mean <= high <= 1:
            raise EvaluationError(
                f"{name!r}: recall at {amount:g} must be shares in [0, 1] with low <= mean <= high, got {values!r}"
            )
    banded = any(isinstance(value, tuple) for value in recalls.values())
    return measured_line(name, number, ((x, *values) for x, values in points), banded=banded)


def _strip(spans: Sequence[Span], middle: float) -> LineMark:
    """Return chunks as lines alternately above and below the middle of their row."""
    xs, ys = [], []
    for number, (start, end) in enumerate(spans):
        level = middle + (0.12 if number % 2 else -0.12)
        xs += [float(start), float(end), nan]
        ys += [level, level, nan]
    return LineMark(x=xs, y=ys, label="chunks", series=PLAIN, hovers=False)


def _cuts(spans: Sequence[Span], scope: Span) -> list[float]:
    """Return where chunks end inside a scope; its middle where none does."""
    start, end = scope
    return sorted({float(stop) for _, stop in spans if start < stop < end}) or [(start + end) / 2]


_ROWS = ("recall", "precision", "order")
_TAKEN = "llm"  # the state of a page whose first answer was taken; nothing is drawn above it


def fidelity_strip(
    report: FidelityReport,
    path: str | Path | None = None,
    *,
    floor: float = 0.9,
    title: str = "Fidelity of the Markdown, page by page",
) -> Picture | Path:
    """Draw recall, precision and order of each page as coloured cells, and mark the pages not taken at once.

    Args:
        report: with at least one page.
        path: a .png or .html to write; None returns the picture.
        floor: share in [0, 1) at which the darkest colour begins; all that is worse is as dark.
        title: of the picture.

    Raises:
        EvaluationError: there is no page, or a share is not in [0, 1].
        ParameterError: floor is outside its domain, or the suffix is not known.
        MissingExtraError: the library that draws is not installed.
    """
    if not 0 <= floor < 1:
        raise ParameterError("floor", floor, "a share in [0, 1)")
    pages = list(report.pages)
    if not pages:
        raise EvaluationError("a fidelity strip needs at least one page")
    _check_shares(pages)
    places = [float(page.page) for page in pages]
    marks: list[Mark] = [
        Cells(
            values=[[float(getattr(page, row)) for page in pages] for row in _ROWS],
            x=places,
            names=[[_cell_told(page, row) for page in pages] for row in _ROWS],
            low=floor,
            high=1.0,
            label=f"share (darkest: {floor:g} and less)",
        )
    ]
    states = [state for state in dict.fromkeys(page.state for page in pages) if state != _TAKEN]
    for number, state in enumerate(states):
        held = [page for page in pages if page.state == state]
        above, names = [3.35 + 0.3 * number] * len(held), [_cell_told(page, "recall") for page in held]
        marks.append(
            Points(x=[float(page.page) for page in held], y=above, label=state, series=number + 1, names=names)
        )
    ticks = [(number + 0.5, row) for number, row in enumerate(reversed(_ROWS))]
    x = Axis(label="page", limits=(places[0] - 0.5, places[-1] + 0.5), ticks=_page_ticks(pages))
    y = Axis(ticks=ticks, limits=(0, 3.1 + 0.3 * len(states) + (0.1 if states else 0)))
    return one_panel(marks, x, y, path, title=title, caption=_means_told(pages), height=2.9)


def _check_shares(pages: Sequence[PageFidelity]) -> None:
    for page in pages:
        for row in _ROWS:
            share = getattr(page, row)
            if not (isfinite(share) and 0 <= share <= 1):
                raise EvaluationError(f"page {page.page}: {row} must be a share in [0, 1], got {share!r}")


def _means_told(pages: Sequence[PageFidelity]) -> str:
    means = ", ".join(f"{row} {sum(getattr(page, row) for page in pages) / len(pages):.3f}" for row in _ROWS)
    worst = min(pages, key=lambda page: (min(getattr(page, row) for row in _ROWS), page.page))
    states = ", ".join(f"{count} {state}" for state, count in sorted(Counter(page.state for page in pages).items()))
    faults = sum(len(page.faults) for page in pages)
    least = min(getattr(worst, row) for row in _ROWS)
    return (
        f"Means over {len(pages):,} pages: {means}. Pages by source: {states}. Faults found in answers: {faults:,}. "
        f"Least faithful: page {worst.page} ({least:.3f})."
    )


def _cell_told(page: PageFidelity, row: str) -> str:
    faults = f", {len(page.faults)} faults" if page.faults else ""
    return f"page {page.page}: {row} {getattr(page, row):.3f}, {page.state}{faults}"


def _page_ticks(pages: Sequence[PageFidelity]) -> list[tuple[float, str]]:
    """Return at most about 20 round page numbers, and the first page where there is room for it."""
    step = next(size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10**9) if len(pages) / size <= 20)
    shown = [page.page for page in pages if page.page % step == 0]
    first = pages[0].page
    if not shown or shown[0] - first > step / 2:
        shown.insert(0, first)
    return [(float(page), str(page)) for page in shown]
