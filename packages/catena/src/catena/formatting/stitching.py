"""Pieces of Markdown joined into one text, each border where two pieces agree on the words and marks around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from catena.formatting.alignment import Piece, placed

_ENOUGH = 6  # equal gaps on either side of a border that count as full agreement
_RULE = re.compile(r"-{3,}|:-+:?|-+:")  # of a table
_MARK = re.compile(r"(?:#{1,6} |[-*+>] |\d{1,9}[.)] |\|)")  # opens a block
_BREAKS = re.compile(r"(?:(?<![ \t])[ \t]++)?\n\s*+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the source, [start, end) in atoms, and the piece that shall stand for it.

    No border is moved into a `firm` one: none of its words may come from a neighbour.
    """

    piece: Piece
    start: int
    end: int
    firm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Border:
    """Where a piece ends and the next one begins, each before one of its own atoms, and what comes between."""

    left: int
    right: int
    gap: str
    place: int


@dataclass(frozen=True, slots=True)
class NoBorder:
    """Near these places, where a border was wanted, two pieces cannot be cut at the same place."""

    places: tuple[int, ...]


def stitch(stretches: Sequence[Stretch], source_gaps: Sequence[str], *, reach: int) -> Piece | NoBorder:
    """Join the pieces of successive stretches into one.

    The border between two pieces is sought within `reach` of where their stretches meet, among the places of the
    source at which no word of either piece stands on the wrong side. Best is where the two write the same
    words and marks on either side, then between blocks, then near.

    Args:
        stretches: at least one; they tile the source.
        source_gaps: per atom of the source, what stands before it there.
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


def _joined(pieces: Sequence[Piece], borders: Sequence[_Border]) -> Piece:
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


def _border(left: Piece, right: Piece, places: range, wanted: int, source_gaps: Sequence[str]) -> _Border | None:
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
    return _Border(left=one, right=other, gap=_between(left, right, place, source_gaps), place=place)


def _agree(left: Piece, right: Piece, place: int) -> bool:
    """Whether both pieces have the two words beside a place, with the same marks between them."""
    return _has(left, place) and _has(right, place) and _gap_key(left, place) == _gap_key(right, place)


def _has(piece: Piece, place: int) -> bool:
    """Whether the words on both sides of a place are in a piece, next to each other."""
    atom = piece.cut_at(place)
    return 0 < atom < len(piece.atoms) and piece.places[atom - 1] == place - 1 and piece.places[atom] == place


def _gap_key(piece: Piece, place: int) -> str:
    gap = _RULE.sub("---", piece.gap(piece.cut_at(place)))
    return " ".join(_BREAKS.sub("\n", gap).split(" "))


def _run(agreed: dict[int, bool], place: int, step: int) -> int:
    """Return over how many places, at most `_ENOUGH`, two pieces agree in one direction."""
    count = 0
    while count < _ENOUGH and agreed.get(place + step * (count + 1), False):
        count += 1
    return count


def _between(left: Piece, right: Piece, place: int, source_gaps: Sequence[str]) -> str:
    """Return what joins two pieces: what both write there, or the one that sees the words on both sides."""
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
    """Return what joins two pieces that share no word: rows make one table, any other block stands alone."""
    ending, opening = ending.rstrip(), opening.lstrip("\n")
    row = ending.endswith("|") and opening.lstrip().startswith("|")
    if row:
        return f"{ending}\n{opening}"
    if _MARK.match(opening) or ending.endswith("|") or printed.count("\n") > 1:
        return f"{ending}\n\n{opening}"
    return f"{ending}{'' if not printed.strip(' ') and not printed else ' '}{opening}"
