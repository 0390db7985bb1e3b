"""Find the cells of tables that answer a question: by the words of their rows and columns, in the tables found."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from math import fsum, log1p
from typing import NamedTuple, TypeAlias

from catena.model import Chunk, Hit, Place, Ranking, citation
from catena.retrieval.fusion import NAME_ROUTE
from catena.structure import slice_of, tables_of
from catena.text import (
    RAISED,
    Table,
    TableCell,
    Timing,
    asked_words,
    is_quantity,
    language_of,
    periods_in,
    stems_of,
    timing_of,
    tokenise,
)

_HALF = 0.5  # what a word counts that only the surroundings of a cell say, and a document beside those that are named

_MARK = re.compile(rf"\(\w{{1,2}}\)|(?:(?<=[\d)])|(?<=[^\W\d_]{{3}}))[{RAISED}]+")  # of a footnote


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCell:
    """A cell with the table and the hit that it stands in, and how well it fits the question, in [0, 1].

    `keys` are the other cells of its row that are no amounts: what tells it from rows with the same label. `place`
    says its own page, which may be one of several of its hit, where the store was asked for it.
    """

    cell: TableCell
    table: Table = field(repr=False)
    hit: Hit = field(repr=False)
    score: float
    keys: tuple[str, ...] = ()
    place: Place = field(default=Place(), repr=False)

    @property
    def citation(self) -> str:
        """The place of the cell, with its page and line as far as they are known."""
        chunk = self.hit.chunk
        start, end = self.cell.start - chunk.start, self.cell.end - chunk.start
        part = slice_of(chunk, start, end) if start < end else chunk
        return citation(part, place=replace(self.place, lines=part.lines) if self.place.pages else part.place)


def rank_cells(question: str, ranking: Ranking, *, k: int) -> tuple[FoundCell, ...]:
    """Return the k cells of the tables of a ranking that share most with a question, best first.

    A cell's score is what its own row label and column share with the question, over what either of them says: of
    words each by how few cells say it. Words of the groups, titles and headings above, and of the row's other cells
    that are no amounts, count half, and nothing where they are not asked for. That is multiplied by how well its time
    fits (`Timing.fit`), and by 1/2 in documents without a name that the question says. Ties go to the shortest path,
    then to the newest, then to the time of most cells of the document, then by place.

    Its time is what its column says, filled by its row and by the titles above.

    Args:
        question: as typed.
        ranking: of chunks; those without a table give no cell.
        k: how many, >= 0.
    """
    timed = cache(timing_of)
    found = [
        (hit, table, cell, keys)
        for hit in ranking.hits
        if hit.chunk.kind == "table" or "|" in hit.chunk.text
        for table in tables_of(hit.chunk)
        for cell, keys in zip(table.cells, _keys(table, timed), strict=True)
    ]
    some = found[:: max(1, len(found) // 50)]
    language = language_of([word for hit, *_ in some for word in tokenise(hit.chunk.text)])

    @cache
    def words(*texts: str) -> frozenset[str]:
        tokens = tokenise(" ".join(texts))
        return frozenset(tokens if language is None else stems_of(tokens, language))

    @cache
    def asked_time(label: str) -> Timing:
        """Return the time that is asked for beside a label that the question says, such as "Notes due 2027"."""
        besides = label.lower() in question.lower() and any(map(str.isalpha, timing_of(label)[1]))
        return timing_of(question.lower().replace(label.lower(), " ") if besides else question)[0]

    time, rest = timing_of(question)
    asked = {forms[0] for forms in asked_words(rest, () if language is None else (language,))}
    asked |= set(map(str, time.years))
    names: defaultdict[str, set[str]] = defaultdict(set)
    for hit in ranking.hits:
        names[hit.chunk.document_id] |= {way.view for way in hit.provenance if way.route == NAME_ROUTE and way.view}
    most = max(map(len, names.values()), default=0)
    read = [_read(hit.chunk, table, cell, keys, timed) for hit, table, cell, keys in found]
    own = [words(*each.own) for each in read]
    keyed = frozenset[str]().union(*(words(*keys) for *_, keys in found))  # a name that rows say is no document's
    named = {document: words(*said) - keyed for document, said in names.items()}
    above = [words(*each.above) | named[hit.chunk.document_id] for each, (hit, *_) in zip(read, found, strict=True)]
    saying = Counter(word for each in zip(own, above, strict=True) for word in frozenset.union(*each))
    weight = {word: log1p(len(found) / (1 + saying[word])) for word in asked | set(saying)}
    ends: defaultdict[str, Counter[int]] = defaultdict(Counter)  # of periods, by document: how many cells each has
    for (hit, *_), each in zip(found, read, strict=True):
        ends[hit.chunk.document_id][each.time.end] += 1
    documents = {hit.chunk.document_id: hit.chunk for hit in ranking.hits}
    shifts = {document: _shift(chunk, ends[document]) for document, chunk in documents.items()}
    scored: list[FoundCell] = []
    order: list[tuple[float, int, int, int, int]] = []  # by which cells are sorted
    for (hit, table, cell, keys), of, said, context in zip(found, read, own, above, strict=True):
        sums = [fsum(map(weight.__getitem__, part)) for part in (asked & said, asked & context - said, asked | said)]
        score = (sums[0] + _HALF * sums[1]) / max(1e-9, sums[2])
        score *= asked_time(cell.row[-1]).fit(of.time, shifts[hit.chunk.document_id])
        score = round(score * (1 if len(names[hit.chunk.document_id]) == most else _HALF), 9)
        scored.append(FoundCell(cell=cell, table=table, hit=hit, score=score, keys=keys))
        common = ends[hit.chunk.document_id][of.time.end]
        order.append((-score, len(cell.row + cell.column), -max(of.time.years, default=0), -common, len(order)))
    return tuple(scored[place] for score, *_, place in sorted(order)[:k] if score < 0)


class _Read(NamedTuple):
    """Tells what a cell says: its time, the texts of its row and column, the texts above it."""

    time: Timing
    own: tuple[str, ...]
    above: tuple[str, ...]


_Timed: TypeAlias = Callable[[str], tuple[Timing, str]]


def _keys(table: Table, timed: _Timed) -> Iterator[tuple[str, ...]]:
    """Yield, for each cell of a table, the other cells of its row, behind the label, that are words or a time."""
    for row in table.values:
        cells = [cell for cell in row if cell]
        keys = [(timed(cell)[0].years and not timed(cell)[1].strip()) or not is_quantity(cell) for cell in cells]
        named = [place for place, is_key in enumerate(keys) if is_key]
        yield from (tuple(cells[key] for key in named if key != place) for place in range(len(cells)))


def _read(chunk: Chunk, table: Table, cell: TableCell, keys: tuple[str, ...], timed: _Timed) -> _Read:
    *groups, label = cell.row
    label = label or f"total {' '.join(groups[-1:])}"
    time, column = timed(" ".join(cell.column))
    of_row = timed(" ".join((*cell.row, *keys)))[0]
    if (of_row.years or of_row.month) and not (of_row.years and time.years):
        time, label = time.filled(of_row), timed(label)[1]
    for title in (table.title, *chunk.path[-1:]):
        if len(timed(title)[0].years) <= 1:
            time = time.filled(timed(title)[0])
    about = (str(chunk.metadata.get(name, "")) for name in ("title", "company"))
    above = (*groups, *keys, table.title, *chunk.path, *about)
    own = _MARK.sub(" ", label), _MARK.sub(" ", column), "percent" if "%" in f"{label}{column}{cell.text}" else ""
    return _Read(time, own, tuple(timed(each)[1] for each in above))


def _shift(chunk: Chunk, cells: Counter[int]) -> int:
    """Return the months from the end of a document's periods to the ends that their names say, 0 if unknown.

    A title or a file that names a period means the newest of those that many cells are of.
    """
    about = chunk.metadata
    title, said = about.get("title", ""), (about.get(name) for name in ("company", "form", "period"))
    title = "" if title == " ".join(map(str, said)) else title  # of a cover, whose period is made of the last day
    file = re.split(r"[\\/]", str(about.get("source", "")))[-1].rpartition(".")[0].replace("_", " ")
    named = [12 * period.year + period.month for period in periods_in(f"{title}\n{file}") if period.year is not None]
    ends = {end: many for end, many in cells.items() if end}
    if not (named and ends):
        return 0
    shift = named[0] - max(end for end, many in ends.items() if 2 * many >= max(ends.values()))
    return shift if -6 <= shift < 12 else 0  # years are named by when they begin or end
