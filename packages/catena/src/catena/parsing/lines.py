"""From runs to printed lines: which runs share a baseline, and where their words are apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catena.model.layout import Line, Span
from catena.parsing.columns import reading_blocks
from catena.parsing.runs import CELL_GAP, WORD_GAP, Run

ASCENT, DESCENT = 0.8, 0.2  # of the size, above and below the baseline: near enough for every text font


def page_lines(runs: Sequence[Run]) -> tuple[Line, ...]:
    """Return the lines of a page in reading order; turned text comes last."""
    upright = [run for run in runs if not run.turned]
    lines = [line for block in reading_blocks(_once(upright)) for line in _block_lines(block.runs, block.column)]
    return (*lines, *_turned_lines([run for run in runs if run.turned]))


def _once(runs: Iterable[Run]) -> list[Run]:
    """Drop what is printed twice on the same spot, as programs do to make text look bold."""
    seen: set[tuple[str, int, int]] = set()
    kept = []
    for run in runs:
        key = (run.text, round(run.x0), round(run.y))
        if key not in seen:
            seen.add(key)
            kept.append(run)
    return kept


def _block_lines(runs: Sequence[Run], column: int) -> list[Line]:
    return [_line(group, column) for group in _baselines(runs)]


def _baselines(runs: Sequence[Run]) -> list[list[Run]]:
    """Group runs by baseline; raised and lowered small ones stay with the line they touch.

    Runs of full size found the lines first, from top to bottom; smaller ones then join the line whose
    height covers their own baseline, or found a line themselves.
    """
    groups: list[list[Run]] = []
    anchors: list[tuple[float, float]] = []  # baseline and size of each group
    for run in sorted(runs, key=lambda run: (run.y, run.x0)):
        near = [k for k in range(max(0, len(groups) - 4), len(groups)) if _same_line(run, *anchors[k])]
        if near:
            best = min(near, key=lambda k: abs(anchors[k][0] - run.y))
            groups[best].append(run)
            if run.size > anchors[best][1]:
                anchors[best] = (run.y, run.size)
        else:
            groups.append([run])
            anchors.append((run.y, run.size))
    order = sorted(range(len(groups)), key=lambda k: (anchors[k][0], groups[k][0].x0))
    return [groups[k] for k in order]


def _same_line(run: Run, y: float, size: float) -> bool:
    larger, smaller = max(run.size, size), min(run.size, size)
    reach = 0.2 if smaller > 0.9 * larger else 0.45  # of the larger size: a raised exponent of TeX is at 0.41
    return abs(run.y - y) <= reach * larger


def _line(runs: Sequence[Run], column: int) -> Line:
    ordered = sorted(runs, key=lambda run: run.x0)
    spans: list[Span] = []
    text: list[str] = []
    for run in ordered:
        gap = run.x0 - spans[-1].x1 if spans else 0.0
        size = min(run.size, spans[-1].size) if spans else run.size
        space = bool(spans) and gap >= WORD_GAP * size
        if space:
            text.append(" ")
        text.append(run.text)
        if spans and gap < CELL_GAP * size and _alike(spans[-1], run):
            joined = spans[-1].text + (" " if space else "") + run.text
            spans[-1] = _span(run, joined, spans[-1].x0, max(run.x1, spans[-1].x1))
        else:
            spans.append(_span(run, run.text, run.x0, run.x1))
    return Line(
        text="".join(text),
        x0=spans[0].x0,
        x1=max(span.x1 for span in spans),
        top=round(min(run.y - ASCENT * run.size for run in runs), 2),
        bottom=round(max(run.y + DESCENT * run.size for run in runs), 2),
        spans=tuple(spans),
        column=column,
    )


def _alike(span: Span, run: Run) -> bool:
    style = run.style
    return (span.size, span.bold, span.italic, span.mono) == (run.size, style.bold, style.italic, style.mono)


def _span(run: Run, text: str, x0: float, x1: float) -> Span:
    style = run.style
    return Span(
        text=text,
        x0=round(x0, 2),
        x1=round(x1, 2),
        size=run.size,
        bold=style.bold,
        italic=style.italic,
        mono=style.mono,
    )


def _turned_lines(runs: Sequence[Run]) -> list[Line]:
    """Return vertical and upside-down text as the content stream has it, a line for each run."""
    return [_line([run], 0) for run in runs]
