"""Lines that look like headings: larger than the body, or set off from it by weight and numbering."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from catena.formatting.rows import Measures, Row, Style, style_of
from catena.formatting.words import (
    Numbering,
    bullet,
    ends_with_page,
    first_word_width,
    has_leader,
    is_admonition,
    is_caption,
    is_label,
    key,
    numbering,
)

LARGER = 1.08  # times the body size: smaller differences come from fonts drawn to different scales
_PLAIN_LARGER = 1.15  # the same without weight
_WRAP = 1.3  # usual line distances between the lines of one wrapped heading
_TIGHT = 1.1  # the same where the first line is not quite full
_APART = 1.2  # usual line distances before a heading of the body's size
_MAX_LINES = 4
_MAX_CHARS = 200
_INDEX_ENTRY = re.compile(r",\s\d+(?:[–-]\d+)?$")
_USUAL = re.compile(
    r"abstract|acknowledge?ments|appendix|bibliography|conclusions?|contents|contributors|copyright|discussion|foreword"
    r"|glossary|index|introduction|methods|preface|references|results|summary"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Successive lines that are one heading, if they are one: rows[start:end]."""

    start: int  # index into the rows
    end: int
    page: int  # from 1
    text: str
    style: Style
    number: Numbering | None


def join_run(rows: Sequence[Row], start: int, end: int) -> Run:
    """Return rows[start:end] as one heading, its style that of its longest line."""
    text = " ".join(row.text.strip() for row in rows[start:end])
    longest = max(rows[start:end], key=lambda row: len(row.text))
    return Run(
        start=start, end=end, page=rows[start].page, text=text, style=style_of(longest), number=numbering(text)
    )


def contents_pages(rows: Sequence[Row]) -> frozenset[int]:
    """Return the pages that are tables of contents or indexes: most lines end in a page number."""
    by_page: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        by_page[row.page].append(row.text.strip())
    return frozenset(page for page, texts in by_page.items() if _is_contents(texts))


def _is_contents(texts: list[str]) -> bool:
    leaders = sum(has_leader(text) for text in texts)
    entries = sum(bool(_INDEX_ENTRY.search(text)) for text in texts)
    if (leaders >= 3 and 10 * leaders >= 4 * len(texts)) or (entries >= 8 and 2 * entries >= len(texts)):
        return True
    numbers = [int(text.split()[-1]) for text in texts if ends_with_page(text) and text.split()[-1].isdecimal()]
    rising = sum(a <= b for a, b in pairwise(numbers))
    return len(numbers) >= 5 and 10 * len(numbers) >= 7 * len(texts) and 10 * rising >= 8 * (len(numbers) - 1)


def prominent(row: Row, measures: Measures) -> bool:
    """Whether a line stands out: by size; at about the body's size by weight, or by number and slant or capitals."""
    if measures.code(row):
        return row.size >= 1.15 * measures.body
    if row.size >= (LARGER if row.heavy else _PLAIN_LARGER) * measures.body:
        return True
    if row.size < 0.85 * measures.body:
        return False
    if measures.emphatic(row):
        return True
    return (row.italic or style_of(row).caps) and numbering(row.text) is not None


def runs_of(rows: Sequence[Row], measures: Measures, taken: frozenset[int]) -> list[Run]:
    """Join prominent lines into runs; a line of `taken` (tables) is in none."""
    runs = []
    index = 0
    while index < len(rows):
        if index in taken or not prominent(rows[index], measures):
            index += 1
            continue
        end = index + 1
        while end < len(rows) and end not in taken and _continues(rows, index, end, measures):
            end += 1
        runs.append(join_run(rows, index, end))
        index = end
    return runs


def _continues(rows: Sequence[Row], start: int, index: int, measures: Measures) -> bool:
    """Whether a line goes on with the heading that the line before it is part of."""
    above, below = rows[index - 1], rows[index]
    if above.block != below.block or not prominent(below, measures):
        return False
    if index == start + 1 and is_label(above.text) and 0 < measures.gap(above, below) < 4:
        return True
    if abs(above.size - below.size) > 0.04 * above.size or above.heavy != below.heavy or numbering(below.text):
        return False
    gap = measures.gap(above, below)
    if not 0 < gap <= _WRAP * 1.25 or has_leader(above.text) or is_caption(below.text):
        return False
    left, right = measures.edges_at(above)
    word = first_word_width(below.line) + 0.2 * above.size
    filled = above.line.x1 + word >= right - 2
    nearly = above.line.x1 + 1.6 * word >= right - 0.05 * (right - left)  # ragged text, and words wider than the mean
    centred = (
        abs(above.line.x0 + above.line.x1 - below.line.x0 - below.line.x1) < 4 and above.line.x0 != below.line.x0
    )
    hanging = numbering(rows[start].text) is not None and below.line.x0 > rows[start].line.x0 + 3
    return filled or (gap <= _WRAP and (centred or hanging)) or (gap <= _TIGHT and nearly)


def heading_like(run: Run, rows: Sequence[Row], measures: Measures) -> bool:
    """Whether a run may be a heading by its words and by the white around it."""
    if not worded(run) or (run.end - run.start == 1 and _beside(rows, run.start)):
        return False
    if rows[run.start].size >= LARGER * measures.body:
        return run.number is not None or run.end - run.start <= 2 or not _ends_sentence(run)
    if run.number is not None:
        return _set_off(run, rows, measures) and (not _ends_sentence(run) or len(run.text) < 60)
    return _set_off(run, rows, measures) and _stands_over_text(run, rows, measures)


def worded(run: Run) -> bool:
    """Whether the words can be those of a heading: some letters, not too many, and no other role."""
    text = run.text
    longest = max((len(key(word)) for word in text.split()), default=0)
    if longest < 2 or len(text) > _MAX_CHARS or run.end - run.start > _MAX_LINES or text[-1] in ",;":
        return False
    if is_caption(text) or has_leader(text) or is_admonition(text) or bullet(text):
        return False
    return any(c.isalpha() for c in text[run.number.end if run.number else 0 :])


def _ends_sentence(run: Run) -> bool:
    return run.text[-1] in ".:"


def _set_off(run: Run, rows: Sequence[Row], measures: Measures) -> bool:
    """Whether there is more white than usual over a run, or the top of a column."""
    if run.end - run.start > 3:
        return False
    if not _same_block(rows, run.start - 1, run.start):
        return True
    gap = measures.gap(rows[run.start - 1], rows[run.start])
    return gap >= _APART or gap < 0


def _stands_over_text(run: Run, rows: Sequence[Row], measures: Measures) -> bool:
    """Whether an unnumbered bold run of the body's size heads what follows, and is no sentence itself."""
    if not _same_block(rows, run.end - 1, run.end) or _ends_sentence(run) or run.text[0].islower():
        return False
    gap = measures.gap(rows[run.end - 1], rows[run.end])
    crowded = measures.emphatic(rows[run.end]) and gap < _APART
    return gap > 0 and not crowded and len(run.text) <= 140


def _same_block(rows: Sequence[Row], above: int, below: int) -> bool:
    return above >= 0 and below < len(rows) and rows[above].block == rows[below].block


def _beside(rows: Sequence[Row], index: int) -> bool:
    """Whether another line of the same column is printed at the same height, as in a row of a table."""
    here = rows[index].line
    for other in (index - 1, index + 1):
        if 0 <= other < len(rows) and rows[other].block == rows[index].block:
            line = rows[other].line
            overlap = min(line.bottom, here.bottom) - max(line.top, here.top)
            if overlap > 0.6 * (here.bottom - here.top) and (line.x0 >= here.x1 or here.x0 >= line.x1):
                return True
    return False


def steady_styles(runs: Sequence[Run], rejected: Sequence[Run], measures: Measures) -> frozenset[Style]:
    """Return the styles that serve for headings throughout: short, mostly accepted, and not a single odd one."""
    good: dict[Style, list[Run]] = defaultdict(list)
    bad: dict[Style, int] = defaultdict(int)
    for run in runs:
        good[run.style].append(run)
    for run in rejected:
        bad[run.style] += len(run.text)
    return frozenset(style for style, members in good.items() if _steady(style, members, bad[style], measures))


def _steady(style: Style, members: list[Run], rejected: int, measures: Measures) -> bool:
    accepted = sum(len(run.text) for run in members)
    if accepted > 110 * len(members) or rejected > 3 * accepted:
        return False
    if style.size >= LARGER * measures.body or any(run.number for run in members):
        return True
    return len(members) >= 2 or bool(_USUAL.fullmatch(key(members[0].text)))
