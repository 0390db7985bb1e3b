"""Running heads and page numbers: what repeats at the same height of page after page, apart from its digits."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from catena.formatting.rows import Row
from catena.formatting.words import roman
from catena.model.layout import Page

_ZONE = 3  # printed lines from the top and from the bottom of a page that are looked at
_SHARE = 0.7  # of the pages with a line at that height that have a running one there
_TOKEN = re.compile(r"(?<![\w.])\w+(?![\w.]*\w)")  # "3" in "page 3.", nothing in "3.2"
_ROMAN = re.compile(r"(?:^|(?<=\s))[ivxl]+$|^[ivxl]+(?=\s)")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edge:
    """A printed line near the top or the bottom of a page; parts far apart at one height are one."""

    rows: tuple[int, ...]  # indexes
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
            strip[depth]
            for strip in strips
            if depth < len(strip) and all(dropped.issuperset(outer.rows) for outer in strip[:depth])
        ]
        found = {
            row for group in _by_height(layer) for edge in _running(group, labels, len(pages)) for row in edge.rows
        }
        if not found:
            break
        dropped |= found
    return frozenset(dropped)


def _strips(pages: Sequence[Page], rows: Sequence[Row]) -> list[list[_Edge]]:
    """Return, per page and zone, the outermost printed lines."""
    by_page: dict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        by_page[row.page].append(index)
    sizes = sorted(row.size for row in rows)
    usual = 1.05 * sizes[len(sizes) // 2] if sizes else 0.0
    strips = []
    for page in pages:
        boxes = [(table.top, table.bottom) for table in page.tables]
        free = [i for i in by_page[page.number] if not any(t <= _centre(rows[i]) <= b for t, b in boxes)]
        heights: list[list[int]] = []
        for index in sorted(free, key=lambda i: (_centre(rows[i]), i)):
            if heights and abs(_centre(rows[heights[-1][0]]) - _centre(rows[index])) <= 3:
                heights[-1].append(index)
            else:
                heights.append([index])
        for zone, order in (("top", heights), ("bottom", heights[::-1])):
            strips.append(
                [
                    _edge(rows, group, zone, _clear(rows, group, inner), usual)
                    for group, inner in pairwise(order[: _ZONE + 1])
                ]
            )
    return strips


def _edge(rows: Sequence[Row], group: Sequence[int], zone: str, clear: float, usual: float) -> _Edge:
    ordered = sorted(group, key=lambda index: (rows[index].line.x0, index))
    return _Edge(
        rows=tuple(ordered),
        page=rows[ordered[0]].page,
        zone=zone,
        centre=_centre(rows[group[0]]),
        text=" ".join(rows[index].text.strip() for index in ordered),
        plain=all(rows[index].size <= usual and not rows[index].bold for index in ordered),
        clear=clear,
    )


def _centre(row: Row) -> float:
    return (row.line.top + row.line.bottom) / 2


def _clear(rows: Sequence[Row], group: list[int], inner: list[int]) -> float:
    one, two = [rows[i].line for i in group], [rows[i].line for i in inner]
    return max(
        min(a.top for a in one) - max(b.bottom for b in two), min(b.top for b in two) - max(a.bottom for a in one)
    )


def _by_height(layer: list[_Edge]) -> list[list[_Edge]]:
    """Cluster lines of one zone whose heights differ by at most 3 points from the next."""
    edges = sorted(layer, key=lambda edge: (edge.zone, edge.centre, edge.page))
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
    pages_of: dict[str, set[int]] = defaultdict(set)
    for edge in cluster:
        pages_of[_pattern(edge.text)].add(edge.page)
    numbered = _numbered(cluster, labels, needed)
    chosen = []
    for edge in cluster:
        often = len(pages_of[_pattern(edge.text)])
        # "1 Overview" on page 1 and "2 Safety" on page 2 are chapters, "12 Safety" on page 12 in plain type is not
        by_number = edge.page in numbered and (edge.plain or often >= max(2, needed))
        if by_number or (n_pages > 2 and often >= 3):
            chosen.append(edge)
    if len({edge.page for edge in chosen}) < _SHARE * len(here):
        return []
    clear = sorted(edge.clear for edge in chosen)
    return chosen if clear[len(clear) // 2] > 4 else []  # points: lines of a table or a paragraph are closer


def _pattern(text: str) -> str:
    return _ROMAN.sub("#", _DIGITS.sub("#", text)).casefold()


def _numbered(cluster: list[_Edge], labels: dict[int, str], needed: int) -> set[int]:
    """Return pages whose line begins or ends with the page's label, or with a number that runs with the page."""
    shifts: dict[int, set[tuple[int, bool]]] = {}
    for edge in cluster:
        tokens = _TOKEN.findall(edge.text)
        values = [(roman(token) if token.isalpha() else _decimal(token), token.isalpha()) for token in tokens]
        ends = [values[0], values[-1]] if values else []
        shifts[edge.page] = {(value - edge.page, letters) for value, letters in ends if value is not None}
    seen = Counter(shift for found in shifts.values() for shift in found)
    steady = {shift for shift, count in seen.items() if count >= max(2, needed)}
    return {
        edge.page
        for edge in cluster
        if shifts[edge.page] & steady or (steady and edge.text.strip() == labels.get(edge.page, ""))
    }


def _decimal(token: str) -> int | None:
    return int(token) if token.isdecimal() else None
