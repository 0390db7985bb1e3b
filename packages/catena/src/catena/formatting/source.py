"""Cut the words of a file into overlapping windows for a model to read, and put the pieces that it made together."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from catena.formatting.blocks import PARAGRAPH_GAP, Compounds, glue
from catena.formatting.fidelity_alignment import align, atom_keys, atoms_of
from catena.formatting.styled_lines import (
    UNSPACED,
    Measures,
    Rows,
    StyledLine,
    is_cjk,
    measure,
    rows_of,
    running_rows,
)
from catena.model.layout import Layout, Parsed


@dataclass(frozen=True, slots=True)
class AlignedText:
    """Markdown with the place of its words in the source.

    Attributes:
        text: the Markdown.
        start, end: the atoms of the source that it was made of, half-open.
        atoms: [start, end) of each of its own atoms in `text`.
        places: per own atom, its counterpart in the source, or -1.
        cuts: per place of the source from `start` to `end`, the own atom before which the text can be cut there:
            all before it comes from before that place, all from it on from there on; -1 where that is not so.
    """

    text: str
    start: int
    end: int
    atoms: tuple[tuple[int, int], ...]
    places: tuple[int, ...]
    cuts: tuple[int, ...]

    def cut_at(self, place: int) -> int:
        """Return the own atom before which to cut so as to part the source at `place`; -1 if nowhere."""
        return self.cuts[place - self.start] if self.start <= place <= self.end else -1

    def gap(self, atom: int) -> str:
        """Return the text between an own atom and the one before it, or up to an end of the text."""
        begin = self.atoms[atom - 1][1] if atom else 0
        return self.text[begin : self.atoms[atom][0] if atom < len(self.atoms) else len(self.text)]

    def excerpt(self, start: int, end: int) -> str:
        """Return the text from the first to the last of its words that have a place in [start, end) of the source."""
        inside = [atom for atom, place in enumerate(self.places) if start <= place < end]
        return self.text[self.atoms[inside[0]][0] : self.atoms[inside[-1]][1]] if inside else ""


def piece_of(text: str, keys: Sequence[str], start: int, end: int) -> AlignedText:
    """Align a Markdown text with the atoms [start, end) of its source.

    Args:
        text: the Markdown.
        keys: what all atoms of the source are compared by.
        start: the first atom of the source that the text was made of.
        end: the atom after the last one.
    """
    spans = tuple(atoms_of(text))
    places = [place + start if place >= 0 else -1 for place in align(keys[start:end], atom_keys(text, spans)).here]
    return placed(text, spans, places, start, end)


def placed(text: str, spans: Sequence[tuple[int, int]], places: Sequence[int], start: int, end: int) -> AlignedText:
    """Return a piece whose alignment is known."""
    return AlignedText(text, start, end, tuple(spans), tuple(places), tuple(_cuts(places, start, end)))


def _cuts(places: Sequence[int], start: int, end: int) -> list[int]:
    """Return for each place of the source the own atom to cut before, or -1 where words of both sides mix."""
    lowest_after = [end] * (len(places) + 1)
    for atom in range(len(places) - 1, -1, -1):
        lowest_after[atom] = min(lowest_after[atom + 1], places[atom] if places[atom] >= 0 else end)
    cuts = [-1] * (end - start + 1)
    highest_before, run = start - 1, 0  # `run`: own atoms without a counterpart, just before
    for atom in range(len(places) + 1):
        if highest_before < lowest_after[atom]:
            # of words that replace others, each is taken for the one in its place
            for place in range(max(start, highest_before + 1 + run), lowest_after[atom] + 1):
                cuts[place - start] = atom
        if atom < len(places):
            run = 0 if places[atom] >= 0 else run + 1
            highest_before = max(highest_before, places[atom])
    return cuts


_ENOUGH = 6  # equal gaps on either side of a border that count as full agreement
_RULE = re.compile(r"-{3,}|:-+:?|-+:")  # of a table
_MARK = re.compile(r"(?:#{1,6} |[-*+>] |\d{1,9}[.)] |\|)")  # opens a block
_BREAKS = re.compile(r"(?:(?<![ \t])[ \t]++)?\n\s*+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the source, [start, end) in atoms, and the piece that is taken for it.

    No border is moved into a `firm` one: none of its words may come from a neighbour.
    """

    piece: AlignedText
    start: int
    end: int
    firm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Border:
    """The end of a piece and the start of the next one, each before one of its own atoms, and the text between."""

    left: int
    right: int
    gap: str
    place: int


@dataclass(frozen=True, slots=True)
class NoBorder:
    """Near these places, where a border was wanted, two pieces cannot be cut at the same place."""

    places: tuple[int, ...]


def stitch(stretches: Sequence[Stretch], source_gaps: Sequence[str], *, reach: int) -> AlignedText | NoBorder:
    """Join the pieces of successive stretches into one.

    The border between two pieces is sought within `reach` of where their stretches meet, among the places of the
    source at which no word of either piece is on the wrong side. Best is where the two write the same
    words and marks on either side, then between blocks, then near.

    Args:
        stretches: at least one; they tile the source.
        source_gaps: per atom of the source, the text before it there.
        reach: atoms, on either side.

    Returns:
        The joined text, aligned with the whole source; or the places where there is no border.
    """
    borders: list[_Border] = []
    missing: list[int] = []
    for left, right in pairwise(stretches):
        low = max(left.piece.start, right.piece.start, right.start - reach, borders[-1].place + 1 if borders else 0)
        high = min(left.piece.end, right.piece.end, right.start + reach, right.end - 1)
        low = max(low, right.start) if left.firm else low
        high = min(high, right.start) if right.firm else high
        border = _border(left.piece, right.piece, range(low, high + 1), right.start, source_gaps)
        if border is None:
            missing.append(right.start)
        else:
            borders.append(border)
    return NoBorder(tuple(missing)) if missing else _joined([stretch.piece for stretch in stretches], borders)


def _joined(pieces: Sequence[AlignedText], borders: Sequence[_Border]) -> AlignedText:
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    places: list[int] = []
    length = 0
    for index, piece in enumerate(pieces):
        first = borders[index - 1].right if index else 0
        last = borders[index].left if index < len(borders) else len(piece.atoms)
        begin = piece.atoms[first][0] if index and first < len(piece.atoms) else (len(piece.text) if index else 0)
        finish = (piece.atoms[last - 1][1] if last else 0) if index < len(borders) else len(piece.text)
        text = piece.text[begin : max(begin, finish)]
        spans += [(start - begin + length, end - begin + length) for start, end in piece.atoms[first:last]]
        places += piece.places[first:last]
        gap = borders[index].gap if index < len(borders) else ""
        parts += [text, gap]
        length += len(text) + len(gap)
    return placed("".join(parts), spans, places, pieces[0].start, pieces[-1].end)


def _border(left: AlignedText, right: AlignedText, places: range, wanted: int, gaps: Sequence[str]) -> _Border | None:
    """Return the best border between two pieces at one of the places, or None."""
    agreed = {place: _agree(left, right, place) for place in range(places.start - _ENOUGH, places.stop + _ENOUGH)}
    found: list[tuple[tuple[int, int, int, int], int]] = []
    for place in places:
        if left.cut_at(place) < 0 or right.cut_at(place) < 0:
            continue
        agreement = min(_run(agreed, place, -1), _run(agreed, place, 1)) if agreed[place] else -1
        breaks = min(gap.count("\n") for gap in (left.gap(left.cut_at(place)), right.gap(right.cut_at(place))))
        found.append(((-agreement, -min(2, breaks), abs(place - wanted), place), place))
    if not found:
        return None
    place = min(found)[1]
    one, other = left.cut_at(place), right.cut_at(place)
    return _Border(left=one, right=other, gap=_between(left, right, place, gaps), place=place)


def _agree(left: AlignedText, right: AlignedText, place: int) -> bool:
    """Tell if both pieces have the two words beside a place, with the same marks between them."""
    return _has(left, place) and _has(right, place) and _gap_key(left, place) == _gap_key(right, place)


def _has(piece: AlignedText, place: int) -> bool:
    """Tell if the words on both sides of a place are in a piece, next to each other."""
    atom = piece.cut_at(place)
    return 0 < atom < len(piece.atoms) and piece.places[atom - 1] == place - 1 and piece.places[atom] == place


def _gap_key(piece: AlignedText, place: int) -> str:
    gap = _RULE.sub("---", piece.gap(piece.cut_at(place)))
    return " ".join(_BREAKS.sub("\n", gap).split(" "))


def _run(agreed: dict[int, bool], place: int, step: int) -> int:
    """Return over how many places, at most `_ENOUGH`, two pieces agree in one direction."""
    count = 0
    while count < _ENOUGH and agreed.get(place + step * (count + 1), False):
        count += 1
    return count


def _between(left: AlignedText, right: AlignedText, place: int, source_gaps: Sequence[str]) -> str:
    """Return the text that joins two pieces: that of both, or of the piece with the words on both sides."""
    ending, opening = left.gap(left.cut_at(place)), right.gap(right.cut_at(place))
    if _has(left, place) and _has(right, place):
        # a window that is cut short may glue a heading to the line before it, but none breaks a line in two
        return opening if "\n" in opening and "\n" not in ending else ending
    if _has(left, place):
        return ending
    if _has(right, place):
        return opening
    return _unseen(ending, opening, source_gaps[place] if place < len(source_gaps) else "\n\n")


def _unseen(ending: str, opening: str, printed: str) -> str:
    """Return the text that joins two pieces without a common word: rows make one table, other blocks stay apart."""
    ending, opening = ending.rstrip(), opening.lstrip("\n")
    if ending.endswith("|") and opening.lstrip().startswith("|"):
        return f"{ending}\n{opening}"
    if _MARK.match(opening) or ending.endswith("|") or printed.count("\n") > 1:
        return f"{ending}\n\n{opening}"
    return f"{ending}{' ' if printed else ''}{opening}"


_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_CELL_GAP = 1.0  # of the size: white that parts two cells of a table
_CHARACTER = 0.5  # of the size: the mean width of a character
_WIDEST = 160  # columns: the farthest that a cell is moved to the right


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """The text of a file, line by line, and three ways to count in it.

    Attributes:
        text: lines as printed; cells of a table are below each other.
        words: [start, end) of each word in `text`; a character of a script without spaces is a word.
        atoms: [start, end) of each run of letters and digits: what alignment compares.
        page_atoms: per page, the index of its first atom, then the number of all atoms.
    """

    text: str
    words: tuple[tuple[int, int], ...]
    atoms: tuple[tuple[int, int], ...]
    page_atoms: tuple[int, ...]

    @property
    def pages(self) -> int:
        """The number of pages; 1 for a source without pages."""
        return len(self.page_atoms) - 1

    def atom_at(self, offset: int) -> int:
        """Return the index of the first atom that begins at or after an offset in the text."""
        return bisect_left(self.atoms, (offset, offset))

    def slice(self, first: int, last: int) -> str:
        """Return the text of the atoms [first, last), with the text between them."""
        return self.text[self.atoms[first][0] : self.atoms[last - 1][1]] if first < last else ""


def source_of(parsed: Parsed, *, running_heads: bool = False) -> SourceText:
    """Return the text of a file that a model is shown.

    A word that is divided at the end of a line is made whole, on the line and the page where it begins. A file
    without a layout is shown as its document has it.
    """
    if parsed.layout is None:
        text, starts = parsed.document.text, parsed.document.page_starts or (0,)
    else:
        text, starts = _printed(parsed.layout, running_heads=running_heads)
    atoms = tuple(atoms_of(text))
    firsts = [bisect_left(atoms, (start, start)) for start in starts]
    return SourceText(
        text=text, words=tuple(match.span() for match in _WORD.finditer(text)), atoms=atoms,
        page_atoms=(*firsts, len(atoms)),
    )  # fmt: skip


def _printed(layout: Layout, *, running_heads: bool) -> tuple[str, tuple[int, ...]]:
    """Return the lines of all pages, and the offset where each page begins."""
    rows = rows_of(layout)
    if not running_heads:
        running = running_rows(layout.pages, rows)
        rows = [row for index, row in enumerate(rows) if index not in running]
    measures = measure(rows)
    lines = _whole_words(rows, [_line(row, measures) for row in rows])
    parts: list[str] = []
    starts: list[int] = []
    length = 0
    above: StyledLine | None = None
    for row, line in zip(rows, lines, strict=True):
        if above is not None and line:
            apart = above.block == row.block and measures.gap(above, row) > PARAGRAPH_GAP
            parts.append("\n\n" if apart else "\n")
            length += len(parts[-1])
        starts += [length] * (row.page - len(starts))
        parts.append(line)
        length += len(line)
        above = row if line else above
    starts += [length] * (len(layout.pages) - len(starts))
    return "".join(parts), (0, *starts[1:])


def _line(row: StyledLine, measures: Measures) -> str:
    """Return a line; where white parts it into cells, each is put in the column where it is printed."""
    inked = [span for span in row.line.spans if span.text.strip()]
    if not any(below.x0 - above.x1 >= _CELL_GAP * row.size for above, below in pairwise(inked)):
        return " ".join(row.text.split())
    left, width = measures.edges_at(row)[0], _CHARACTER * max(1.0, row.size)
    text, end = "", inked[0].x0
    for span in inked:
        if span.x0 - end >= _CELL_GAP * row.size:
            text = text.ljust(min(_WIDEST, round((span.x0 - left) / width)))
            text += "   "[len(text) - len(text.rstrip()) :]
        elif text and span.x0 - end > 0.15 * row.size:  # narrower than any space
            text += " "
        text, end = text + " ".join(span.text.split()), span.x1
    return text


def _whole_words(rows: Rows, lines: Sequence[str]) -> list[str]:
    """Move the rest of a word that a line's end divides to the line where it begins."""
    compounds = Compounds(row.text for row in rows)
    whole = list(lines)
    last = -1  # the line that a rest would be moved to
    for index, line in enumerate(lines):
        if last >= 0 and line:
            above, joint = glue(whole[last], line, compounds)
            if not joint and not is_cjk(line[0]) and not line[0].isspace():
                first, _, rest = line.partition(" ")
                whole[last], whole[index] = above + first, rest.lstrip()
        last = index if whole[index] else last
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceWindow:
    """One window; all bounds count atoms of the source, from 0, half-open.

    Attributes:
        text: the words of the window with its padding, lines and white space as in the source.
        start, end: what the text covers, padding included.
        core_start, core_end: what this window alone answers for; the cores tile the source.
    """

    text: str
    start: int
    end: int
    core_start: int
    core_end: int


def windows_of(source: SourceText, *, window: int, padding: int) -> tuple[SourceWindow, ...]:
    """Cut a source of N words into `T = ceil(N / W)` windows; window t covers words `[tW - K, (t + 1)W + K)`.

    Args:
        source: the text to cut.
        window: W, the words by which a window advances and which it answers for, >= 1.
        padding: K, the words shown before and after them, >= 1.

    Source: HiQA (arXiv:2402.01767), Algorithm 1.
    """
    words = source.words
    cores = [source.atom_at(words[first][0]) for first in range(0, len(words), window)] + [len(source.atoms)]
    found = []
    for position, first in enumerate(range(0, len(words), window)):
        begin = words[max(0, first - padding)][0]
        finish = words[min(len(words), first + window + padding) - 1][1]
        found.append(SourceWindow(
            text=source.text[begin:finish], start=source.atom_at(begin), end=source.atom_at(finish),
            core_start=cores[position] if position else 0, core_end=cores[position + 1],
        ))  # fmt: skip
    return tuple(found)
