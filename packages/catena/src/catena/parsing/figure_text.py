"""Which lines of a page are text to be read, and which may be the labels of a drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from catena.model.figures import is_figure_caption
from catena.model.layout import Line
from catena.parsing.figure_shapes import Box

_WIDE = 0.6  # of the width of its column: from here on a line is one of running text
_WORDS = 4  # that such a line has at least
_DENSE = 0.8  # of its width: how much of such a line its words cover
_FEWEST = 3  # lines that begin at one place make it the edge of a column
_INDENT = 20.0  # points: of the first line of a paragraph
_PITCH = 1.75  # of the size: lines of one paragraph are no farther apart
_LEFT = 40.0  # points by which the left edges of two lines of one paragraph may differ, as by an indent


def box_of(line: Line) -> Box:
    """Return the box of a line."""
    return Box(line.x0, line.top, line.x1, line.bottom)


def running_text(lines: Sequence[Line], width: float) -> list[bool]:
    """Return, per line, whether it is of a paragraph or of a figure's caption: no drawing takes it in.

    A run of close lines of one size and column is a paragraph as soon as one of them is wide and has several
    words; a short isolated line, such as the title of an axis, is none.

    Args:
        lines: of one page, in reading order.
        width: of the page.
    """
    usual = _column_widths(lines, width)
    edges = Counter((line.column, round(line.x0)) for line in lines if len(line.text.split()) >= _WORDS)
    margins = {edge for edge, count in edges.items() if count >= _FEWEST}
    found = [False] * len(lines)
    start = 0
    for index in range(1, len(lines) + 1):
        if index < len(lines) and _follows(lines[index - 1], lines[index]):
            continue
        run = lines[start:index]
        wide = sum(_is_filled(line, usual[line.column]) for line in run)
        prose = wide and (len(run) > 1 or len(run[0].text.split()) >= 3 * _WORDS)
        if prose or is_figure_caption(run[0].text) or any(_is_sentence(line, margins) for line in run):
            found[start:index] = [True] * (index - start)
        start = index
    return found


def _is_sentence(line: Line, margins: Set[tuple[int, int]]) -> bool:
    """Whether a lone line reads as text: several words from where the paragraphs around begin, or an indent."""
    from_margin = any(column == line.column and -1 <= line.x0 - left <= _INDENT for column, left in margins)
    return from_margin and len(line.text.split()) >= _WORDS and _is_dense(line)


def _is_dense(line: Line) -> bool:
    return sum(span.x1 - span.x0 for span in line.spans) >= _DENSE * (line.x1 - line.x0)


def _is_filled(line: Line, usual: float) -> bool:
    """Whether words fill most of a column's width; labels along an axis leave white between them."""
    return line.x1 - line.x0 >= _WIDE * usual and len(line.text.split()) >= _WORDS and _is_dense(line)


def _follows(above: Line, below: Line) -> bool:
    if above.column != below.column or is_figure_caption(below.text):
        return False
    size = max(above.size, below.size)
    pitch = (below.top + below.bottom - above.top - above.bottom) / 2
    same = abs(above.size - below.size) <= 0.1 * size and abs(above.x0 - below.x0) <= _LEFT
    return same and 0.3 * size < pitch <= _PITCH * size


def _column_widths(lines: Sequence[Line], width: float) -> dict[int, float]:
    """Return the usual width of the lines of each column: the 90th percentile, at least 30% of the page's."""
    widths: dict[int, list[float]] = {}
    for line in lines:
        widths.setdefault(line.column, []).append(line.x1 - line.x0)
    return {column: max(0.3 * width, sorted(found)[(len(found) - 1) * 9 // 10]) for column, found in widths.items()}
