"""Pictures of several views: which view found what, how much text holds the answers, and which chunks tear them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite, log2, nan
from pathlib import Path
from typing import TypeAlias

from catena import Document, Hit, Ranking
from catena.evaluation import Span, Spanned, chunking_error, spans_of
from catena.model import SEPARATOR, TITLE, EvaluationError, ParameterError
from catena_view.plots.labels import round_ticks, shortened
from catena_view.plots.picture import Axis, Cells, LineMark, Mark, Panel, Picture, Points, Spans, finished
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
    found = [_ranks(hit) for hit in ranking.hits]
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
    panel = Panel(
        marks=[cells],
        x=Axis(ticks=[(float(place), kind) for place, kind in enumerate(columns)], limits=(-0.5, len(columns) - 0.5)),
        y=Axis(ticks=[(len(drawn) - at - 0.5, text) for at, text in enumerate(labels)], limits=(0, len(drawn))),
    )
    left_out = f" of {len(found):,}, the best ones" if len(found) > len(drawn) else ""
    caption = (
        f"{len(drawn):,} hits{left_out}. {'; '.join(_counted(kind, columns, found[:rows]) for kind in columns)}."
    )
    return finished(Picture(title=title, caption=caption, panels=[panel], height=1.6 + _ROW * len(drawn)), path)


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
    panel = Panel(
        marks=lines,
        x=Axis(label=unit, ticks=[(amount, f"{amount:,g}") for amount in amounts], logarithmic=True),
        y=Axis(label="recall: share of the evidence covered", limits=(0, 1.02)),
    )
    banded = " Bands: intervals." if any(line.low for line in lines) else ""
    return finished(Picture(title=title, caption=f"{told} {unit}.{banded}", panels=[panel]), path)


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
    cuts = []
    for row, (name, made) in enumerate(chunkers.items()):
        spans = sorted(spans_of(made))
        marks.append(_strip(spans, len(chunkers) - row - 0.5))
        cuts += [
            (place, len(chunkers) - row - 0.5, f"{name}: {told}")
            for scope, told in zip(evidence, called, strict=True)
            if chunking_error(spans, [scope], text)
            for place in _cuts(spans, scope)
        ]
    xs, ys, told = [x for x, _, _ in cuts], [y for _, y, _ in cuts], [what for _, _, what in cuts]
    marks.append(Points(x=xs, y=ys, label="torn", series=_CUT, names=told))
    ticks = [(len(chunkers) - row - 0.5, f"{name}: {errors[name]:.1%}") for row, name in enumerate(errors)]
    ends = (0.0, float(max(len(text), 1)))
    panel = Panel(
        marks=marks,
        x=Axis(
            label="place in the document, characters",
            ticks=[(place, f"{place:,.0f}") for place, _ in round_ticks(*ends, most=10)],
            limits=ends,
        ),
        y=Axis(ticks=ticks, limits=(0, len(chunkers))),
    )
    scopes = f"{len(evidence):,} scope" + "s" * (len(evidence) != 1)
    told_errors = ", ".join(
        f"{name} {error:.1%} ({round(error * len(evidence)):,} torn by {len(chunkers[name]):,})"
        for name, error in errors.items()
    )
    caption = (
        f"Chunking error, the share of {scopes} that no chunk holds whole, and the number of chunks: {told_errors}."
    )
    height = 2.0 + 0.45 * len(chunkers)
    return finished(Picture(title=title, caption=caption, panels=[panel], height=height, stacked=True), path)


def _ranks(hit: Hit) -> dict[str, int]:
    """Return kind of view -> the hit's rank in it; ranks of routes that were fused within a view come after it."""
    ranks: dict[str, int] = {}
    for way in hit.provenance:
        if way.rank is not None:
            ranks.setdefault(way.view, way.rank)
    return ranks


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
    has_bands = any(isinstance(value, tuple) for value in recalls.values())
    return LineMark(
        x=[x for x, _ in points],
        y=[values[0] for _, values in points],
        low=[values[1] for _, values in points] if has_bands else (),
        high=[values[2] for _, values in points] if has_bands else (),
        label=name,
        series=number,
        dotted=True,
    )


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
