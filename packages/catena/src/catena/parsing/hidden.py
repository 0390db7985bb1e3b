"""Text on a page of a PDF that nobody sees who looks at it, though every program reads it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from catena.parsing.lines import ASCENT, DESCENT
from catena.parsing.runs import Run

Box: TypeAlias = tuple[float, float, float, float]  # left, top, right, bottom on the page as shown, in points

INVISIBLE_MODES = frozenset({3, 7})  # of text rendering: nothing is painted (ISO 32000-1, table 106)
FILLED_MODES = frozenset({0, 4})  # only filled: seen in the colour of the filling
WHITE = 0.98  # of full light in each of red, green and blue, from which on a colour is white as paper is
TINY = 1.0  # points: smaller text is not read by anybody
MAX_BOXES = 5_000  # a page with more is taken for painted all over, for each white run is looked up in all
EVERYWHERE: Box = (float("-inf"), float("-inf"), float("inf"), float("inf"))

# zero-width space, word joiner, invisible operators, byte-order mark, language tags; the joiners U+200C and U+200D
# belong to the spelling of several scripts, and soft hyphens are the formatter's
_NO_WIDTH = re.compile("[\u180e\u200b\u2060-\u2064\ufeff\U000e0000-\U000e007f]")


def seen_runs(
    runs: Sequence[Run], size: tuple[float, float], painted: Callable[[], Iterable[Box]], *, keep: bool
) -> tuple[list[Run], str]:
    """Find the hidden text of a page, and leave it out unless it is kept.

    Args:
        runs: of the page; `Run.hidden` is what the engine knows of each.
        size: width and height of the page as shown, in points.
        painted: gives where something is painted that is not white; asked only where there is white text.
        keep: whether hidden text stays.

    Returns:
        The runs that stay, in their order, and what is hidden: how many characters in which way; "" for nothing.
    """
    boxes = list(painted()) if any(run.hidden == "white" for run in runs) else []
    boxes = boxes if len(boxes) <= MAX_BOXES else [EVERYWHERE]
    counts: Counter[str] = Counter()
    stay = []
    for run in runs:
        way = _way(run, size, boxes)
        if way:
            counts[way] += len(run.text.replace(" ", ""))
        elif not run.text.isascii() and (marks := len(_NO_WIDTH.findall(run.text))):
            counts["without width"] += marks
            text = run.text if keep else _NO_WIDTH.sub("", run.text)
            stay.append(replace(run, text=text))
            continue
        if keep or not way:
            stay.append(run)
    return [run for run in stay if run.text.strip()], ", ".join(f"{counts[way]} {way}" for way in sorted(counts))


def hidden_by(mode: float, white: bool, alpha: float) -> str:
    """Return how text is hidden by the way it is painted, "" where it is not; `alpha` 0 lets all shine through."""
    if mode in INVISIBLE_MODES:
        return "invisible"
    if mode not in FILLED_MODES:
        return ""
    return "transparent" if alpha <= 0 else "white" if white else ""


def _way(run: Run, size: tuple[float, float], boxes: Sequence[Box]) -> str:
    """Return how a run is hidden, "" where it is seen."""
    width, height = size
    if run.hidden and run.hidden != "white":
        return run.hidden
    above_or_below = run.y + DESCENT * run.size <= 0 or run.y - ASCENT * run.size >= height
    if run.x1 <= 0 or run.x0 >= width or (above_or_below and not run.turned):
        return "off the page"
    if run.size < TINY:
        return "too small to read"
    x, y = (run.x0 + run.x1) / 2, run.y - run.size / 3  # the middle of its letters
    on_paper = not any(left <= x <= right and top <= y <= bottom for left, top, right, bottom in boxes)
    return "white on white" if run.hidden == "white" and on_paper else ""
