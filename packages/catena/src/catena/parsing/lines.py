"""Put the runs of a page in reading order, column by column, and join them to printed lines.

A column gutter is a white strip with text on both sides over several lines. Tables and definition lists
have such strips too, but are printed row by row: the order of the content stream tells them apart, and
where it does not (some programs sort by height), the fullness of the lines does.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from catena.model.layout import Line, Span
from catena.parsing.runs import ASCENT, CELL_GAP, DESCENT, WORD_GAP, Run
from catena.text import raised

_RAISED = 0.2  # of the size: so far is the baseline of a raised run above that of its line


def page_lines(runs: Sequence[Run]) -> tuple[Line, ...]:
    """Return the lines of a page in reading order; turned text comes last."""
    blocks = reading_blocks(_joined(_once([run for run in runs if not run.turned])))
    lines = (_line(group, block.column) for block in blocks for group in _baselines(block.runs))
    return (*lines, *(_line([run], 0) for run in runs if run.turned))  # turned: as the content stream has it


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


def _joined(runs: Iterable[Run]) -> list[Run]:
    """Join runs that go on where the one before them ends: some programs print every letter of a word by itself."""
    joined: list[Run] = []
    last: Run | None = None
    for run in runs:
        gap = run.x0 - last.x1 if last is not None else 0.0
        if (
            last is not None
            and max(abs(gap), abs(run.y - last.y)) < WORD_GAP * run.size
            and (run.size, run.style, run.hidden) == (last.size, last.style, last.hidden)
        ):
            joined[-1] = last = last._replace(text=last.text + run.text, x1=max(last.x1, run.x1))
        else:
            joined.append(run)
            last = run
    return joined


@dataclass(slots=True)
class _Group:
    anchor: Run  # the largest
    runs: list[Run]


def _baselines(runs: Sequence[Run]) -> list[list[Run]]:
    """Group runs by baseline; raised and lowered small ones stay with the line they touch.

    Runs of full size found the lines first, from top to bottom; smaller ones then join the line whose
    height covers their own baseline, or found a line themselves.
    """
    groups: list[_Group] = []
    for run in sorted(runs, key=lambda run: (run.y, run.x0)):
        near = next((group for group in groups[:-5:-1] if _same_line(run, group.anchor)), None)
        if near is None:
            groups.append(_Group(run, [run]))
        else:
            near.runs.append(run)
            near.anchor = max(near.anchor, run, key=lambda run: run.size)
    groups.sort(key=lambda group: (group.anchor.y, group.runs[0].x0))
    return [_raised(group.runs, group.anchor) for group in groups]


def _same_line(one: Run, two: Run) -> bool:
    smaller, larger = sorted((one, two), key=lambda run: run.size)
    # of the larger size: a raised exponent of TeX is at 0.41, a mark of a note in a report at 0.5
    reach = 0.2 if smaller.size > 0.9 * larger.size else 0.52 if _is_raised(smaller, larger) else 0.45
    return abs(one.y - two.y) <= reach * larger.size


def _is_raised(run: Run, base: Run) -> bool:
    """Tell if a run is a number that is small and raised, as exponents and marks of notes are."""
    high = base.y - run.y > _RAISED * base.size and run.size < 0.9 * base.size
    return high and raised(run.text) != run.text


def _raised(runs: Sequence[Run], base: Run) -> list[Run]:
    """Return the runs of a line from left to right, those raised digits that touch others as such."""
    ordered = sorted(runs, key=lambda run: run.x0)
    made = list(ordered)
    for at, run in enumerate(ordered):
        near = WORD_GAP * run.size
        touches = (at and run.x0 - ordered[at - 1].x1 < near) or (
            ordered[at + 1 :] and ordered[at + 1].x0 - run.x1 < near
        )
        if touches and _is_raised(run, base):
            made[at] = run._replace(text=raised(run.text))
    return made


def _line(runs: Sequence[Run], column: int) -> Line:
    spans: list[Span] = []
    text: list[str] = []
    for run in runs:
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
        text="".join(text), x0=spans[0].x0, x1=max(span.x1 for span in spans),
        top=round(min(run.y - ASCENT * run.size for run in runs), 2),
        bottom=round(max(run.y + DESCENT * run.size for run in runs), 2), spans=tuple(spans), column=column,
    )  # fmt: skip


def _alike(span: Span, run: Run) -> bool:
    style = run.style
    return (span.size, span.bold, span.italic, span.mono) == (run.size, style.bold, style.italic, style.mono)


def _span(run: Run, text: str, x0: float, x1: float) -> Span:
    style = run.style
    return Span(
        text=text, x0=round(x0, 2), x1=round(x1, 2), size=run.size, bold=style.bold, italic=style.italic,
        mono=style.mono,
    )  # fmt: skip


MIN_GUTTER = 0.8  # of the body size
MIN_LINES = 3  # on each side of a gutter
MIN_PROSE_LINES = 8  # on each side, where the stream goes by rows; of one column beside a shorter overflow
MAX_STRAYS = 0.1  # of the lines of the shorter side, printed out of turn; a table of n rows has n - 1
APART = 2.5  # of the body size: a header or footer is further from the text than two lines of it are
MIN_SHARE = 0.12  # of the block's width that each side must have
MAX_STRIPS = 400  # looked at in one block: a page of 400 baselines is no book page, and the search is quadratic
MAX_DEPTH = 8  # columns in columns


@dataclass(frozen=True, slots=True)
class RunBlock:
    """Runs that are read together, line by line; `column` counts from 0 on the left."""

    runs: tuple[Run, ...]
    column: int


@dataclass(frozen=True, slots=True)
class _Strip:
    """Runs on about one baseline; `ink` has a bit for each point of width that is covered."""

    runs: tuple[tuple[int, Run], ...]  # with their place in the content stream
    ink: int

    @property
    def y(self) -> float:
        """The highest of its baselines."""
        return self.runs[0][1].y


@dataclass(frozen=True, slots=True)
class _Gutter:
    first: int  # strips, inclusive
    last: int
    x: float


def reading_blocks(runs: Sequence[Run]) -> list[RunBlock]:
    """Return the upright runs of a page as blocks in reading order; no run is lost."""
    if not runs:
        return []
    left = min(run.x0 for run in runs)
    size = median(run.size for run in runs)
    return _blocks(_strips([*enumerate(runs)], left, size), left, size, 0, 0)


def _strips(placed: Sequence[tuple[int, Run]], left: float, size: float) -> list[_Strip]:
    groups: list[list[tuple[int, Run]]] = []
    y = float("-inf")
    for order, run in sorted(placed, key=lambda item: (item[1].y, item[0])):
        if not groups or run.y - y > 0.4 * size:
            groups.append([])
            y = run.y
        groups[-1].append((order, run))
    return [_Strip(tuple(group), _ink(group, left, size)) for group in groups]


def _ink(group: Sequence[tuple[int, Run]], left: float, size: float) -> int:
    """Cover the runs and the word gaps between them: a gutter is wider than a stretched space."""
    ink, bleed = 0, 0.25 * CELL_GAP * size
    for _, run in group:
        start = max(0, int(run.x0 - left - bleed))
        end = min(20_000, int(run.x1 - left + bleed) + 1)
        if end > start:
            ink |= ((1 << (end - start)) - 1) << start
    return ink


def _blocks(strips: list[_Strip], left: float, size: float, column: int, depth: int) -> list[RunBlock]:
    gutter = _find_gutter(strips, left, size) if depth < MAX_DEPTH and len(strips) <= MAX_STRIPS else None
    if gutter is None:
        runs = tuple(run for strip in strips for _, run in strip.runs)
        return [RunBlock(runs, column)] if runs else []
    band = [item for strip in strips[gutter.first : gutter.last + 1] for item in strip.runs]
    sides = [[item for item in band if (item[1].x1 <= gutter.x) is is_left] for is_left in (True, False)]
    blocks = _blocks(strips[: gutter.first], left, size, column, depth + 1)
    for side in sides:
        inner = _blocks(_strips(side, left, size), left, size, column, depth + 1)
        column = max((block.column for block in inner), default=column) + 1
        blocks += inner
    first_column = min(block.column for block in blocks)
    return blocks + _blocks(strips[gutter.last + 1 :], left, size, first_column, depth + 1)


def _find_gutter(strips: Sequence[_Strip], left: float, size: float) -> _Gutter | None:
    """Return the gutter of the tallest band that holds columns, the leftmost among equals."""
    candidates: dict[tuple[int, int, float], int] = {}
    least = max(3, int(MIN_GUTTER * size))
    whole = 0
    for strip in strips:
        whole |= strip.ink
    edge = (whole & -whole).bit_length() - 1
    inks = [strip.ink >> edge for strip in strips]
    width, left = whole.bit_length() - edge, left + edge
    for first in range(len(strips) - MIN_LINES + 1):
        last, gaps = _tallest(inks[first:], width, least)
        for start, end in gaps:
            candidates[first, first + last, left + (start + end) / 2] = last
    ranked = sorted(candidates, key=lambda key: (-candidates[key], key[2], key[0]))
    for first, last, x in ranked[:20]:
        if _are_columns(_without_running_lines(strips[first : last + 1], size), x):
            return _Gutter(first, last, x)
    return None


def _tallest(inks: Sequence[int], width: int, least: int) -> tuple[int, list[tuple[int, int]]]:
    """Return the last strip down to which gaps stay open between ink, from the first one, and these gaps."""
    ink, last, gaps = -1, 0, []
    inside: list[tuple[int, int]] = []
    for number, more in enumerate(inks):
        before, ink = ink, max(ink, 0) | more
        if ink != before:  # else its gaps are those of the strips before
            free = _free(ink, width, least)
            if not free:
                break
            inside = [(start, end) for start, end in free if start > 0 and end < width]
        if inside:
            last, gaps = number, inside
    return last, gaps


def _free(ink: int, width: int, least: int) -> list[tuple[int, int]]:
    """Return the gaps of `ink` in the block that are at least `least` bits wide.

    Those at its edges count: the first lines of a band may all be in one column.
    """
    return [gap.span() for gap in re.finditer(f"0{{{least},}}", f"{ink:0{width}b}"[::-1])]


def _without_running_lines(strips: Sequence[_Strip], size: float) -> Sequence[_Strip]:
    """Leave out a first and a last strip that are apart: programs print header and footer out of turn."""
    if len(strips) > 1 and strips[1].y - strips[0].y > APART * size:
        strips = strips[1:]
    if len(strips) > 1 and strips[-1].y - strips[-2].y > APART * size:
        strips = strips[:-1]
    return strips


def _are_columns(strips: Sequence[_Strip], x: float) -> bool:
    band = sorted(item for strip in strips for item in strip.runs)
    sides = [[run for _, run in band if (run.x1 <= x) is is_left] for is_left in (True, False)]
    if not all(sides):
        return False
    x0, x1 = min(run.x0 for _, run in band), max(run.x1 for _, run in band)
    widths = [max(run.x1 for run in side) - min(run.x0 for run in side) for side in sides]
    if min(widths) < MIN_SHARE * (x1 - x0):
        return False
    flow = list(dict.fromkeys((run.x1 <= x, round(run.y)) for _, run in band))  # lines, as the stream has them
    strays = min(_strays([is_left for is_left, _ in flow], first) for first in (True, False))
    lines = min(sum(is_left for is_left, _ in flow), sum(not is_left for is_left, _ in flow))
    if lines < MIN_LINES:
        return strays == 0 and _goes_back(flow)
    if strays <= MAX_STRAYS * lines:
        return True
    return lines >= MIN_PROSE_LINES and all(_is_prose(side) for side in sides)


def _strays(flow: Sequence[bool], first: bool) -> int:
    """Return the least number of lines to leave out so that the stream has all of side `first` before the other."""
    late, early = flow.count(first), 0
    least = late
    for side in flow:
        late, early = (late - 1, early) if side is first else (late, early + 1)
        least = min(least, late + early)
    return least


def _goes_back(flow: Sequence[tuple[bool, int]]) -> bool:
    """Return whether the side printed last begins above many lines of the one before it, as no row does."""
    top = min(y for side, y in flow if side is flow[-1][0])
    return sum(y > top for side, y in flow if side is not flow[-1][0]) >= MIN_PROSE_LINES


def _is_prose(side: Sequence[Run]) -> bool:
    """Return whether most lines are full and of several words: no table column is."""
    width = max(run.x1 for run in side) - min(run.x0 for run in side)
    covered: dict[int, float] = defaultdict(float)
    words: dict[int, int] = defaultdict(int)
    for run in side:
        covered[round(run.y)] += run.x1 - run.x0
        words[round(run.y)] += len(run.text.split())
    return median(covered.values()) > 0.8 * width and median(words.values()) >= 4
