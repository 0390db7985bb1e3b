"""Running heads and page numbers: what repeats at the same height of page after page, apart from its digits."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from catena.formatting.rows import Row
from catena.formatting.words import roman
from catena.layout import Page

_ZONE = 3  # printed lines from the top and from the bottom of a page that are looked at
_SHARE = 0.7  # of the pages with a line at that height that have a running one there
_TOKEN = re.compile(r"(?<![\w.])\w+(?![\w.]*\w)")  # "3" in "page 3.", nothing in "3.2"
_ROMAN = re.compile(r"(?:^|(?<=\s))[ivxl]+$|^[ivxl]+(?=\s)")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Edge:
    """A line near the top or the bottom of a page."""

    index: int  # into the rows
    page: int
    zone: str
    centre: float  # of its height, in points
    text: str
    plain: bool  # neither bold nor larger than most lines, so that it is no heading
    clear: float  # white between it and the rest of the page, in points


def running_rows(pages: Sequence[Page], rows: Sequence[Row]) -> frozenset[int]:
    """Return the indexes of rows that are running heads, running feet or page numbers.

    A line runs when lines at its height repeat on other pages (digits apart) or carry the page's number, and
    when hardly anything else is printed at that height: text of the body that repeats stays.
    """
    labels = {page.number: page.label for page in pages}
    dropped: set[int] = set()
    strips = _strips(pages, rows)
    for depth in range(_ZONE):  # from the outermost line inwards; an inner one runs only under one that does
        layer = [
            edge
            for strip in strips
            if depth < len(strip) and all(outer.index in dropped for group in strip[:depth] for outer in group)
            for edge in strip[depth]
        ]
        found = {edge.index for cluster in _by_height(layer) for edge in _running(cluster, labels, len(pages))}
        if not found:
            break
        dropped |= found
    return frozenset(dropped)


def _strips(pages: Sequence[Page], rows: Sequence[Row]) -> list[list[list[_Edge]]]:
    """Return, per page and zone, the outermost printed lines; parts of one height are one group."""
    by_page: dict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        by_page[row.page].append(index)
    strips = []
    sizes = sorted(row.size for row in rows)
    usual = 1.05 * sizes[len(sizes) // 2] if sizes else 0.0
    for page in pages:
        boxes = [(table.top, table.bottom) for table in page.tables]
        free = [i for i in by_page[page.number] if not any(t <= _centre(rows[i]) <= b for t, b in boxes)]
        heights: list[list[int]] = []
        for index in sorted(free, key=lambda i: (_centre(rows[i]), i)):
            if heights and abs(_centre(rows[heights[-1][0]]) - _centre(rows[index])) <= 3:
                heights[-1].append(index)
            else:
                heights.append([index])
        if len(heights) < 2:
            continue
        for zone, order in (("top", heights), ("bottom", heights[::-1])):
            strip = []
            for group, inner in pairwise(order[: _ZONE + 1]):
                clear = _clear(rows, group, inner)
                strip.append(
                    [
                        _Edge(
                            i,
                            page.number,
                            zone,
                            _centre(rows[i]),
                            rows[i].text,
                            rows[i].size <= usual and not rows[i].bold,
                            clear,
                        )
                        for i in group
                    ]
                )
            strips.append(strip)
    return strips


def _centre(row: Row) -> float:
    return (row.line.top + row.line.bottom) / 2


def _clear(rows: Sequence[Row], group: list[int], inner: list[int]) -> float:
    one, two = [rows[i].line for i in group], [rows[i].line for i in inner]
    return max(
        min(a.top for a in one) - max(b.bottom for b in two), min(b.top for b in two) - max(a.bottom for a in one)
    )


def _by_height(layer: list[_Edge]) -> list[list[_Edge]]:
    """Cluster lines of one zone whose heights differ by at most 3 points from the next."""
    edges = sorted(layer, key=lambda edge: (edge.zone, edge.centre, edge.index))
    clusters: list[list[_Edge]] = []
    for edge in edges:
        last = clusters[-1][-1] if clusters else None
        if last is not None and last.zone == edge.zone and edge.centre - last.centre <= 3:
            clusters[-1].append(edge)
        else:
            clusters.append([edge])
    return clusters


def _running(cluster: list[_Edge], labels: dict[int, str], n_pages: int) -> list[_Edge]:
    """Return the lines of one height that run, or none if other text is as common there."""
    here = {edge.page for edge in cluster}
    needed = min(3, n_pages)
    if len(here) < max(2, needed):
        return []
    by_index = {edge.index: edge for edge in cluster}
    pages_of: dict[str, set[int]] = defaultdict(set)
    for edge in cluster:
        pages_of[_pattern(edge.text)].add(edge.page)
    often = {edge.index for edge in cluster if len(pages_of[_pattern(edge.text)]) >= max(2, needed)}
    # "1 Overview" on page 1 and "2 Safety" on page 2 are chapters, "12 Safety" on page 12 in plain type is not
    numbered = {index for index in _numbered(cluster, labels, needed) if index in often or by_index[index].plain}
    repeated = {edge.index for edge in cluster if n_pages > 2 and len(pages_of[_pattern(edge.text)]) >= 3}
    chosen = [edge for edge in cluster if edge.index in numbered or edge.index in repeated]
    if len({edge.page for edge in chosen}) < _SHARE * len(here):
        return []
    clear = sorted(edge.clear for edge in chosen)
    return chosen if clear[len(clear) // 2] > 4 else []  # points: lines of a table or a paragraph are closer


def _pattern(text: str) -> str:
    return _ROMAN.sub("#", _DIGITS.sub("#", text)).casefold()


def _numbered(cluster: list[_Edge], labels: dict[int, str], needed: int) -> set[int]:
    """Return lines whose first or last word is the page's label or runs with the page at one distance."""
    shifts: dict[int, set[tuple[int, int]]] = {}
    seen: Counter[tuple[int, int]] = Counter()
    for edge in cluster:
        tokens = _TOKEN.findall(edge.text)
        shifts[edge.index] = set()
        for token in {tokens[0], tokens[-1]} if tokens else ():
            value = int(token) if token.isdecimal() else roman(token)
            if value is not None:
                shifts[edge.index].add((value - edge.page, int(token.isdecimal())))
        seen.update(shifts[edge.index])
    steady = {shift for shift, count in seen.items() if count >= max(2, needed)}
    return {
        edge.index
        for edge in cluster
        if shifts[edge.index] & steady
        or (edge.text.strip() == labels.get(edge.page) and _TOKEN.fullmatch(edge.text.strip()) and bool(steady))
    }
