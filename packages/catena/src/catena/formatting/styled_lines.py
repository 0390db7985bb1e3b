"""Describe printed lines: their style and role, the type of the whole file, and its running heads."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import NamedTuple, TypeAlias

from catena.model.layout import Layout, Line, Page, Span
from catena.text.headings import HeadingNumber, heading_number, roman
from catena.text.words import runs_of

_PITCH = 1.2  # line distance / type size where nothing can be measured
_ENOUGH = 8  # lines that show where the edges of their column are
SOFT_HYPHEN = "\u00ad"
UNSPACED = "\u3001-\u9fff\uf900-\ufaff\uff00-\uffef"  # scripts without spaces between words, for a character class

_INITIAL = re.compile(r"^[A-Z]\.?\s+(?=\S)")
_LABEL = re.compile(r"^(?:chapter|appendix|part)\s+(?:\w{1,9})[.:]?$", re.IGNORECASE)
_CAPTION = re.compile(
    r"(?i:figure|fig\.|table|tab\.|listing|algorithm|chart|exhibit|plate|scheme|diagram|abbildung|abb\.|tabelle"
    r"|tableau)\s*(?:[A-Z][.-]?)?\d+(?:[.-]\d+)*[a-z]?(?=\s*[.:–—|)-]|\s*$|\s+[A-Z(])"  # not "Table 3 shows"
    r"|[图表]\s*\d+"
)
_TABLE_CAPTION = re.compile(r"^(?:table|tab\.|tabelle|tableau|表)\s*[A-Z]?[.-]?\d", re.IGNORECASE)
_NOT_ALNUM = re.compile(r"[\W_]+")
_LEADER = re.compile(r"(?<![.·…_])(?<![.·…_]\s)[.·…_](?:\s?[.·…_]){3,}+\s*+[\divxlcdmIVXLCDM, –-]{0,60}+$")
_DOT_ROW = re.compile(r"(?:(?<!\s)\s++)?[.·…_](?:\s?[.·…_]){3,}+\s*+")
_DOTS = ("..", ". .", "··", "· ·", "…", "__")  # a cheap test before the regular expression
_PAGE = re.compile(r"\d{1,4}|[ivxlc]{1,6}")
_ADMONITION = re.compile(r"^(?:note|warning|caution|tip|important|danger|attention|hint|remark)s?\s*[:.!]*$", re.I)
_BULLET = re.compile(r"^(?P<mark>[•‣◦▪■●○∙·⁃➢✓–—*+-])\s+(?=\S)")
_ORDINAL = re.compile(r"^(?P<mark>\(?(?P<value>\d{1,3}|[a-zA-Z]|[ivxlIVXL]{1,6})[.)])\s+(?=\S)")
_ZONE = 3  # printed lines from the top and from the bottom of a page that are looked at
_ALIKE = 3.0  # points between the heights of lines that are taken for one height
_SHARE = 0.7  # of the pages with a line at that height that have a running one there
_PART = 5  # pages on which the head of a part of a file stands at least
_CLEAR = 4.0  # points of white beside running lines: lines of a table or a paragraph are closer
_BARE = re.compile(r"\W*(?:page\s+)?(\d{1,4})\W*", re.IGNORECASE)
_GOES_ON = re.compile(r"[(\[]?\b(?:continued|cont[’']?d\.?|fortsetzung|suite)[)\]]?[.:]?\Z", re.IGNORECASE)
_UNIT = re.compile(
    r"\((?=[^()]{0,60}(?:thousand|million|billion|per share|mio|tsd|millier))[^\d()]{1,80}\)$", re.IGNORECASE
)  # in which the amounts of a table are
_COLUMN_GAP = 1.5  # of the size: white between columns of a table
_ITEM = re.compile(r"(?:[^\W\d_]{1,12}\s)?\(?(?:\d+(?:\.\d+)*[A-Z]?|[A-Za-z]|[ivxlIVXL]+)[.):]*")
_TOKEN = re.compile(r"(?<![\w.])\w+(?![\w.]*\w)")  # "3" in "page 3.", nothing in "3.2"
_ROMAN = re.compile(r"(?:^|(?<=\s))[ivxl]+$|^[ivxl]+(?=\s)")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class StyledLine:
    """One line of the file with its page and its style, computed once."""

    page: int  # from 1
    line: Line
    size: float
    bold: bool
    heavy: bool  # most of it is bold: a heading with one word in another font
    italic: bool
    mono: bool
    wide: bool  # in the first column, but as wide as several: a title or an abstract over two columns

    @property
    def text(self) -> str:
        return self.line.text

    @property
    def block(self) -> tuple[int, int]:
        """Return the page and the column it is printed in."""
        return self.page, self.line.column


Rows: TypeAlias = Sequence[StyledLine]
"""Lines of a file in reading order; tables and headings name them by their index."""


@dataclass(frozen=True, slots=True)
class LineStyle:
    """The type in which a run of lines is set; lines of one style play one role."""

    size: float
    bold: bool
    italic: bool
    mono: bool
    caps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The type of a file.

    Attributes:
        body: the size most characters are set in, in points.
        bold_body: most of the body is bold, so that weight says nothing.
        mono_body: most of the body is in a fixed-width font, so that the font says nothing.
        pitch: distance of lines within a paragraph, as a multiple of the size.
        edges: left and right edge of the text of each (page, column, wide), in points.
    """

    body: float
    bold_body: bool
    mono_body: bool
    pitch: float
    edges: dict[tuple[int, int, bool], tuple[float, float]]

    def edges_at(self, row: StyledLine) -> tuple[float, float]:
        """Return the left and the right edge of the column that a line is printed in."""
        return self.edges[(*row.block, row.wide)]

    def code(self, row: StyledLine) -> bool:
        """Tell if a line is code: set in a fixed-width font that differs from the body."""
        return row.mono and not self.mono_body

    def emphatic(self, row: StyledLine) -> bool:
        """Tell if a line is in bold that differs from the body."""
        return row.bold and not self.bold_body

    def gap(self, above: StyledLine, below: StyledLine) -> float:
        """Return the distance of two successive lines of one column, in multiples of the usual one."""
        usual = self.pitch * max(1.0, min(above.size, below.size))
        drop = (below.line.top + below.line.bottom - above.line.top - above.line.bottom) / 2
        extra = abs(above.size - below.size) / 2 * self.pitch  # half the larger line belongs to the distance
        return (drop - extra) / usual


class Ordinal(NamedTuple):
    """The mark of a numbered item: "(b)" has the value 2 in the family "(a)"."""

    mark: str
    family: str  # the kind of numeral and its punctuation
    value: int
    end: int


def rows_of(layout: Layout) -> list[StyledLine]:
    """Return every line that shows something, in reading order."""
    rows = []
    for page in layout.pages:
        second = min((line.x0 for line in page.lines if line.column == 1), default=float("inf"))
        rows += [_row(page.number, line, second) for line in page.lines if line.text.strip()]
    return rows


def _row(page: int, line: Line, second: float) -> StyledLine:
    inked = [(span, len(span.text.strip())) for span in line.spans if span.text.strip()]
    total = sum(count for _, count in inked)
    bold = sum(count for span, count in inked if span.bold)
    fixed = sum(count for span, count in inked if span.mono and not span.bold)
    return StyledLine(
        page=page,
        line=line,
        size=line.size,
        # names of functions inside a bold heading are often in a fixed-width font of no weight
        bold=bold > 0 and bold + fixed == total and 2 * bold >= total,
        heavy=2 * bold > total,
        italic=total > 0 and all(span.italic for span, _ in inked),
        mono=line.mono,
        wide=line.column == 0 and line.x1 > second,
    )


def rows_by_page(rows: Rows) -> Mapping[int, list[int]]:
    """Return the indexes of the lines of each page; none for a page without lines."""
    by_page: dict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        by_page[row.page].append(index)
    return by_page


def style_of(row: StyledLine) -> LineStyle:
    """Return the style of a line, its size in half points."""
    letters = [c for c in row.text if c.isalpha()]
    caps = len(letters) > 3 and all(c.isupper() for c in letters)  # shorter ones are initials
    return LineStyle(round(row.size * 2) / 2, row.heavy, row.italic, row.mono, caps)


def measure(rows: Rows) -> Measures:
    """Measure the type of a file: body size by character weight, line distance, edges of the columns."""
    total = sum(len(row.text) for row in rows)
    mono_body = 2 * sum(len(row.text) for row in rows if row.mono) > total
    sizes: Counter[float] = Counter()
    for row in rows:
        if mono_body or not row.mono:
            sizes[round(row.size, 1)] += len(row.text)
    body = max(sizes, key=lambda size: (sizes[size], -size), default=10.0) or 10.0
    bold_body = 2 * sum(len(row.text) for row in rows if row.bold) > total
    pitch, edges = _pitch(rows, body), _edges(rows, body)
    return Measures(body=body, bold_body=bold_body, mono_body=mono_body, pitch=pitch, edges=edges)


def _pitch(rows: Rows, body: float) -> float:
    """Return the commonest distance of body lines that follow each other in one column, per point of size."""
    seen: Counter[float] = Counter()
    for above, below in pairwise(rows):
        drop = below.line.bottom - above.line.bottom
        if above.block == below.block and abs(above.size - body) + abs(below.size - body) < 1 and drop > 0:
            seen[round(drop / body, 2)] += 1
    near = {pitch: seen[pitch] + seen[round(pitch - 0.01, 2)] + seen[round(pitch + 0.01, 2)] for pitch in seen}
    usual = max(near, key=lambda pitch: (near[pitch], -pitch), default=_PITCH)
    return min(max(usual, 1.0), 2.5)


def _edges(rows: Rows, body: float) -> dict[tuple[int, int, bool], tuple[float, float]]:
    """Return the edges of every column; one with few lines takes those of the same column elsewhere."""
    blocks: dict[tuple[int, int, bool], list[Line]] = defaultdict(list)
    columns: dict[tuple[int, bool], list[Line]] = defaultdict(list)
    every: dict[tuple[int, int, bool], list[Line]] = defaultdict(list)
    for row in rows:
        every[(*row.block, row.wide)].append(row.line)
        if abs(row.size - body) <= 0.1 * body:
            blocks[(*row.block, row.wide)].append(row.line)
            columns[row.line.column, row.wide].append(row.line)
    edges = {}
    for block, lines in every.items():
        chosen = blocks[block] if len(blocks[block]) >= _ENOUGH else columns[block[1:]] or lines
        edges[block] = (_leftmost(line.x0 for line in chosen), _high(line.x1 for line in chosen))
    return edges


def _leftmost(values: Iterable[float]) -> float:
    """Return the smallest position that a tenth of the lines begin at: most may be indented, as in a list."""
    seen = Counter(round(value) for value in values)
    enough = max(min(2, seen.total()), seen.total() / 10)
    usual = [value for value in seen if seen[value - 1] + seen[value] + seen[value + 1] >= enough]
    return float(min(usual or seen))


def _high(values: Iterable[float]) -> float:
    """Return the 95th percentile: a line that sticks out does not make the column wider."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) * 95 // 100]


def key(text: str) -> str:
    """Return the letters and digits of a text, compatibility forms resolved and case folded."""
    return _NOT_ALNUM.sub("", unicodedata.normalize("NFKC", text).casefold())


def numbering(text: str) -> HeadingNumber | None:
    """Return the number before the title of a heading; None also for a number that no title follows."""
    found = heading_number(text)
    return found if found is not None and found.end < len(text) else None


def bare_title(text: str) -> str:
    """Return a heading's text without the number it begins with."""
    found = numbering(text)
    return text[found.end :] if found else text


def title_keys(text: str) -> frozenset[str]:
    """Return the keys under which a heading is known: with and without its number.

    An outline may print "A References" for what the page calls "Appendix A References".
    """
    return frozenset(key(form) for form in (text, bare_title(text), _INITIAL.sub("", text))) - {""}


def is_label(text: str) -> bool:
    """Tell if a line is nothing but "Chapter 3" or "Anhang B", so that its title is on the next line."""
    found = heading_number(text)
    return bool(_LABEL.match(text) or (found is not None and found.word and found.end == len(text)))


def is_caption(text: str) -> bool:
    """Tell if a line begins the caption of a figure or a table."""
    return bool(_CAPTION.match(text))


def is_table_caption(text: str) -> bool:
    """Tell if a line begins the title of a table."""
    return bool(_TABLE_CAPTION.match(text)) and is_caption(text)


def has_leader(text: str) -> bool:
    """Tell if a line ends in dot leaders, as tables of contents and indexes do."""
    return any(dots in text for dots in _DOTS) and bool(_LEADER.search(text))


def short_leader(text: str) -> str:
    """Return the entry of a table of contents with its row of dots as one ellipsis."""
    return _DOT_ROW.sub(" … ", text).strip() if has_leader(text) else text


def ends_with_page(text: str) -> bool:
    """Tell if a line of words ends in what may be a page number."""
    words = text.replace(".", " ").split()
    worded = any(c.isalpha() for word in words[:-1] for c in word)
    return worded and bool(_PAGE.fullmatch(words[-1]))


def is_admonition(text: str) -> bool:
    """Tell if a line only announces a note or a warning."""
    return bool(_ADMONITION.match(text))


def bullet(text: str) -> int:
    """Return the number of characters of a bullet and the space after it; 0 without one."""
    match = _BULLET.match(text)
    return match.end() if match else 0


def ordinals(text: str) -> tuple[Ordinal, ...]:
    """Return every reading of the mark that opens a line: "i." may be the ninth letter or the roman one."""
    match = _ORDINAL.match(text)
    if match is None:
        return ()
    mark, value, end = match.group("mark"), match.group("value"), match.end()
    shape = mark.replace(value, "#")
    if value.isdigit():
        return (Ordinal(mark, shape + "1", int(value), end),)
    case = "A" if value.isupper() else "a"
    found = []
    if (number := roman(value)) is not None:
        found.append(Ordinal(mark, shape + case + "roman", number, end))
    if len(value) == 1:
        found.append(Ordinal(mark, shape + case, ord(value.lower()) - ord("a") + 1, end))
    return tuple(found)


def is_cjk(character: str) -> bool:
    """Tell if a character is written without spaces between words (Chinese, Japanese)."""
    return "\u3000" <= character <= "\u9fff" or "\uf900" <= character <= "\ufaff" or "\uff00" <= character <= "\uffef"


def parted_unit(text: str) -> tuple[str, str]:
    """Return a text without the unit in parentheses that it ends with, and the unit: "(in millions)" or ""."""
    match = _UNIT.search(text)
    return (text[: match.start()].rstrip(), match[0]) if match else (text, "")


def is_row(line: Line) -> bool:
    """Tell if a line has white in it as between columns of a table, not only after a label: "Item 1.   Business"."""
    cells = _cells(line)
    label = "".join(span.text for span in cells[0]) if len(cells) == 2 else ""
    return len(cells) > 1 and _ITEM.fullmatch(label.strip()) is None


def _cells(line: Line) -> list[list[Span]]:
    """Return the parts of a line, from left to right, that have white between them as between columns of a table."""
    inked = sorted((span for span in line.spans if span.text.strip()), key=lambda span: span.x0)
    return list(runs_of(inked, lambda one, two: two.x0 - one.x1 <= _COLUMN_GAP * line.size))


def first_word_width(line: Line) -> float:
    """Return the width that a line's first word takes, in points, from the line's mean character width."""
    word = line.text.split(" ", 1)[0]
    return (line.x1 - line.x0) * len(word) / max(1, len(line.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edge:
    """A printed line near the top or the bottom of a page; parts far apart at one height are one."""

    rows: tuple[int, ...]  # indexes
    page: int
    zone: str
    centre: float  # of its height, in points
    text: str
    plain: bool  # neither bold nor larger than most lines, so that it is no heading
    whole: bool  # one piece of text, not the cells of a table's row
    clear: float  # white between it and the rest of the page, in points
    listed: bool  # one of several lines of a table or a list


def running_rows(pages: Sequence[Page], rows: Rows) -> frozenset[int]:
    """Return the indexes of rows that are running heads, running feet or page numbers.

    A line runs when lines at its height repeat on other pages (digits apart) or carry the page's number, and
    when hardly anything else is printed at that height: text of the body that repeats stays.
    """
    labels = {page.number: page.label for page in pages}
    strips = _strips(pages, rows)
    # lines that run, with the white beside them in points: of a head of several lines only the innermost has any
    white = dict.fromkeys(_numbers(strips, len(pages)) | _continued(strips, rows), inf)
    for depth in range(_ZONE):  # from the outermost line inwards; an inner one runs only under one that does
        layer = [strip[depth] for strip in strips if depth < len(strip) and _outer(strip, white) >= depth]
        layer.sort(key=lambda edge: (edge.zone, edge.centre, edge.page))
        for group in runs_of(layer, lambda one, two: one.zone == two.zone and two.centre - one.centre <= _ALIKE):
            white = _running(group, labels, len(pages)) | white
    dropped: set[int] = set()
    for strip in strips:
        run = [edge.rows for edge in strip[: _outer(strip, white)]]
        clear = max((depth for depth, edge in enumerate(run, 1) if white[edge] > _CLEAR), default=0)
        dropped |= {row for edge in run[:clear] for row in edge}
    return frozenset(dropped)


def _outer(strip: Sequence[_Edge], known: Container[tuple[int, ...]]) -> int:
    """Return how many lines of a strip are known, from the outermost on."""
    return next((depth for depth, edge in enumerate(strip) if edge.rows not in known), len(strip))


def _numbers(strips: Sequence[Sequence[_Edge]], n_pages: int) -> set[tuple[int, ...]]:
    """Return the bare page numbers that are a page's last or first line, wherever the text above them ends."""
    bare = [(edge, int(match[1])) for strip in strips for edge in strip[:1] if (match := _BARE.fullmatch(edge.text))]
    shifts = Counter(number - edge.page for edge, number in bare)
    steady = {shift for shift, count in shifts.items() if count >= min(3, n_pages) and count > 1}
    return {edge.rows for edge, number in bare if number - edge.page in steady}


def _continued(strips: Sequence[Sequence[_Edge]], rows: Rows) -> set[tuple[int, ...]]:
    """Return the lines at the top of a page that only say that what an earlier line names goes on."""
    found = ((edge, _GOES_ON.search(edge.text)) for strip in strips for edge in strip)
    marked = [(edge, title) for edge, match in found if match and (title := key(edge.text[: match.start()]))]
    named = {title for _, title in marked}
    seen: dict[str, int] = {}
    for row in rows:
        if (said := key(row.text)) in named:
            seen.setdefault(said, row.page)
    return {edge.rows for edge, title in marked if edge.zone == "top" and seen.get(title, edge.page) < edge.page}


def _strips(pages: Sequence[Page], rows: Rows) -> list[list[_Edge]]:
    """Return, per page and zone, the outermost printed lines."""
    by_page = rows_by_page(rows)
    sizes = sorted(row.size for row in rows)
    usual = 1.05 * sizes[len(sizes) // 2] if sizes else 0.0
    strips = []
    for page in pages:
        boxes = [(table.top, table.bottom) for table in page.tables]
        free = [i for i in by_page[page.number] if not any(t <= _centre(rows[i]) <= b for t, b in boxes)]
        heights: list[list[int]] = []
        for index in sorted(free, key=lambda i: (_centre(rows[i]), i)):
            if heights and abs(_centre(rows[heights[-1][0]]) - _centre(rows[index])) <= _ALIKE:
                heights[-1].append(index)
            else:
                heights.append([index])
        for zone, order in (("top", heights), ("bottom", heights[::-1])):
            lines = [[rows[index].line for index in group] for group in order[: _ZONE + 2]]
            strips.append(
                [_edge(rows, order[at], lines[at:], zone, usual) for at in range(min(_ZONE, len(order) - 1))]
            )
    return strips


def _edge(rows: Rows, group: Sequence[int], lines: Sequence[Sequence[Line]], zone: str, usual: float) -> _Edge:
    """Return the edge of a group of rows: the first of `lines`, which go on inwards."""
    ordered = sorted(group, key=lambda index: (rows[index].line.x0, index))
    return _Edge(
        rows=tuple(ordered), page=rows[ordered[0]].page, zone=zone, centre=_centre(rows[group[0]]),
        text=" ".join(rows[index].text.strip() for index in ordered),
        plain=all(rows[index].size <= usual and not rows[index].bold for index in ordered),
        whole=len(group) == 1 and not is_row(rows[ordered[0]].line),
        clear=_white(lines[0], lines[1]), listed=_are_listed(lines),
    )  # fmt: skip


def _white(one: Sequence[Line], two: Sequence[Line]) -> float:
    """Return the white between lines at two heights, in points."""
    return max(
        min(a.top for a in one) - max(b.bottom for b in two), min(b.top for b in two) - max(a.bottom for a in one)
    )


def _are_listed(lines: Sequence[Sequence[Line]]) -> bool:
    """Tell if the first lines are alike but for their digits, or are rows of a table as those further in."""
    one, two, *more = lines
    said = [_pattern(" ".join(line.text.strip() for line in each)) for each in (one, two)]
    if said[0] == said[1]:
        return True
    if more and _white(one, two) > _white(two, more[0]) + 1:
        return False
    ends = [sorted((cell[0].x0, cell[-1].x1) for line in each for cell in _cells(line)) for each in (one, two)]
    apart = [min(abs(a - b), abs(c - d), abs(a + c - b - d) / 2) for (a, c), (b, d) in zip(*ends, strict=False)]
    return len(ends[0]) == len(ends[1]) > 1 and max(apart) < _ALIKE


def _centre(row: StyledLine) -> float:
    return (row.line.top + row.line.bottom) / 2


def _running(cluster: list[_Edge], labels: dict[int, str], n_pages: int) -> dict[tuple[int, ...], float]:
    """Return the lines of one height that run, if other text is less common there, with the white beside them.

    Heads of a part of a file count where they stand on most of its pages: whole lines, not those of a table. On its
    first page such a line is the title of the part, and stays.
    """
    here = {edge.page for edge in cluster}
    needed = min(3, n_pages)
    if len(here) < max(2, needed):
        return {}
    pages_of: dict[str, set[int]] = defaultdict(set)
    for edge in cluster:
        pages_of[_pattern(edge.text)].add(edge.page)
    numbered = _numbered(cluster, labels, needed)
    chosen, of_parts = [], []
    for edge in cluster:
        if edge.listed:
            continue
        pages = pages_of[_pattern(edge.text)]
        # "1 Overview" on page 1 and "2 Safety" on page 2 are chapters, "12 Safety" on page 12 in plain type is not
        by_number = edge.page in numbered and (edge.plain or len(pages) >= max(2, needed))
        if by_number or (n_pages > 2 and len(pages) >= 3):
            chosen.append(edge)
        within = sum(min(pages) <= page <= max(pages) for page in here)
        if edge.whole and edge.page > min(pages) and len(pages) >= max(_PART, _SHARE * within):
            of_parts.append(edge)
    if len({edge.page for edge in chosen}) < _SHARE * len(here):
        chosen = of_parts
    clear = sorted(edge.clear for edge in chosen)
    return {edge.rows: clear[len(clear) // 2] for edge in chosen}


def _pattern(text: str) -> str:
    return _ROMAN.sub("#", _DIGITS.sub("#", text)).casefold()


def _numbered(cluster: list[_Edge], labels: dict[int, str], needed: int) -> set[int]:
    """Return pages whose line begins or ends with the page's label, or with a number that runs with the page."""
    shifts: dict[int, set[tuple[int, bool]]] = {}
    for edge in cluster:
        tokens = _TOKEN.findall(edge.text)
        values = [
            (roman(token) if token.isalpha() else int(token) if token.isdecimal() else None, token.isalpha())
            for token in tokens
        ]
        ends = [values[0], values[-1]] if values else []
        shifts[edge.page] = {(value - edge.page, letters) for value, letters in ends if value is not None}
    seen = Counter(shift for found in shifts.values() for shift in found)
    steady = {shift for shift, count in seen.items() if count >= max(2, needed)}
    return {
        edge.page
        for edge in cluster
        if shifts[edge.page] & steady or (steady and edge.text.strip() == labels.get(edge.page, ""))
    }
