"""Find the headings of a laid-out file: its own outline first, then size, weight and numbering."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from catena.formatting.styled_lines import (
    LineStyle,
    Measures,
    Rows,
    StyledLine,
    bare_title,
    bullet,
    ends_with_page,
    first_word_width,
    has_leader,
    is_admonition,
    is_caption,
    is_label,
    is_row,
    key,
    numbering,
    parted_unit,
    rows_by_page,
    style_of,
    title_keys,
)
from catena.model.layout import OutlineItem
from catena.text.headings import HeadingNumber

_TITLE = 1.15  # times the body size, also of a heading without weight
_TITLE_LINES = 6
_FIRST_NUMBERS = frozenset({"0", "1", "I", "A"})  # what the first heading of a file is numbered
_TRUSTED = 0.5  # share of the outline's entries found in the text, for the outline to decide
LARGER = 1.08  # times the body size: smaller differences come from fonts drawn to different scales
_WRAP = 1.3  # usual line distances between the lines of one wrapped heading
_TIGHT = 1.1  # the same where the first line is not quite full
_APART = 1.2  # usual line distances before a heading of the body's size
_MARGIN = 0.1  # of the column's width, on either side of a line in its middle
_MAX_LINES = 4
_MAX_CHARS = 200
_INDEX_ENTRY = re.compile(r",\s\d+(?:[–-]\d+)?$")
_USUAL = re.compile(
    r"abstract|acknowledge?ments|appendix|bibliography|conclusions?|contents|contributors|copyright|discussion|foreword"
    r"|glossary|index|introduction|methods|preface|references|results|summary"
)
_WRAPPED_LINES = 6  # of one wrapped title
_NEAR = 40.0  # points between a destination and a heading whose words differ a little
_ALIKE = 0.7  # share of the longer title's words that the two have in common


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutHeading:
    """A heading printed on rows[start:end]; level 1 is the document's title, or a chapter where there is no title."""

    start: int
    end: int
    level: int  # from 1
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadingCandidate:
    """Successive lines that are one heading, if they are one: rows[start:end]."""

    start: int  # index into the rows
    end: int
    page: int  # from 1
    text: str
    style: LineStyle
    number: HeadingNumber | None


Candidates: TypeAlias = Sequence[HeadingCandidate]


@dataclass(frozen=True, slots=True)
class OutlineMatch:
    """An entry of the outline and the lines that print its title."""

    item: OutlineItem
    run: HeadingCandidate


def find_headings(
    rows: Rows,
    measures: Measures,
    *,
    taken: frozenset[int] = frozenset(),
    outline: Sequence[OutlineItem] = (),
    title: str = "",
) -> tuple[LayoutHeading, ...]:
    """Find every heading, in reading order.

    Args:
        rows: the lines without running heads.
        measures: the type of the file.
        taken: indexes of rows that belong to tables.
        outline: the file's own outline, or nothing.
        title: of the file's metadata; a help only where page one prints it.

    Returns:
        Headings that do not overlap. The title printed on the first page has level 1 and all others are
        deeper; without such a title, chapters have level 1.
    """
    runs = runs_of(rows, measures, taken)
    liked = [run for run in runs if heading_like(run, rows, measures)]
    head = _title(rows, runs, liked, measures, title)
    contents = contents_pages(rows)
    later = [(key(run.text), run.page) for run in liked if run.page not in contents]
    liked = [
        run
        for run in liked
        if (head is None or run.start >= head.end or run.end <= head.start)
        and not (run.page in contents and (ends_with_page(run.text) or _announces(run, later)))
        and not (run.page == rows[0].page and _front_matter(rows, runs, run, measures, taken))
    ]
    starts = {run.start for run in liked}
    steady = steady_styles(liked, [run for run in runs if run.start not in starts], measures)
    liked = [run for run in liked if run.style in steady]
    matches = match_outline(rows, outline, measures)
    if outline and len(matches) >= _TRUSTED * len(outline):
        return _outlined(matches, liked, head)
    return _headings(liked, number_levels(liked), head)


def _headings(runs: Candidates, known: dict[int, int], head: HeadingCandidate | None) -> tuple[LayoutHeading, ...]:
    levels = levels_of(runs, known)
    deeper = int(head is not None)
    placed = [(run, min(6, levels[run.start] + deeper)) for run in runs] + ([(head, 1)] if head else [])
    found = [LayoutHeading(start=run.start, end=run.end, level=level, text=run.text) for run, level in placed]
    return tuple(sorted(found, key=lambda heading: heading.start))


def _outlined(
    matches: Sequence[OutlineMatch], liked: Candidates, head: HeadingCandidate | None
) -> tuple[LayoutHeading, ...]:
    """Return the outline's headings, and those that it leaves out but whose style or number belongs to it."""
    known = {match.run.start: match.item.level for match in matches}
    covered = {index for match in matches for index in range(match.run.start, match.run.end)}
    if head is not None and covered & set(range(head.start, head.end)):
        roots = [m for m in matches if m.item.level == 1]
        if len(roots) == 1 and roots[0].run.start == matches[0].run.start:
            head = None  # the outline's only root is the title: its levels begin with it
        else:
            matches = [m for m in matches if not head.start <= m.run.start < head.end]
    runs = [match.run for match in matches]
    styles = Counter(run.style for run in runs)
    numbers = {run.number.key: known[run.start] for run in runs if run.number}
    smallest = min((style.size for style in styles), default=0.0)
    frequent = Counter(run.style for run in liked)
    for run in liked:
        if covered & set(range(run.start, run.end)):
            continue
        parent = numbers.get(run.number.key[:-1]) if run.number else None
        if parent is not None and run.number is not None:
            known[run.start] = numbers[run.number.key] = parent + 1
            runs.append(run)
        elif run.style in styles or (run.style.size <= smallest and run.style.bold and frequent[run.style] >= 3):
            runs.append(run)
    return _headings(sorted(runs, key=lambda run: run.start), known, head)


def _announces(run: HeadingCandidate, later: Sequence[tuple[str, int]]) -> bool:
    """Tell if a line of a table of contents is, or begins, the title of a heading that comes later."""
    begun = key(run.text)
    return any(page > run.page and title.startswith(begun) for title, page in later)


def _title(
    rows: Rows, runs: Candidates, liked: Candidates, measures: Measures, title: str
) -> HeadingCandidate | None:
    """Return the lines of the first page that print the document's title: larger than any heading of the file."""
    first = [run for run in runs if run.page == rows[0].page] if rows else []
    first = [run for run in first if run.number is None and worded(run)]
    if not first:
        return None
    largest = max(first, key=lambda run: (run.style.size, -run.start))
    start = end = largest.start
    for run in runs:  # a title set in several lines with wide spaces is several runs; "1 Scope" below it is a heading
        alike = run.page == largest.page and run.style.size == largest.style.size
        if run.start == end and alike and not _is_first(run):
            end = run.end
    if end - start > _TITLE_LINES:
        return None
    end = _named_end(rows, start, end, key(title))
    whole = join_run(rows, start, end)
    named = key(title) != "" and key(title) in {key(whole.text), key(largest.text)}
    if not named and key(title):
        for run in first:
            if key(run.text) == key(title) and run.style.size >= LARGER * measures.body:
                return run
    rivals = [run for run in liked if not start <= run.start < end and run.style.size >= 0.97 * whole.style.size]
    unique = whole.style.size >= _TITLE * measures.body and not rivals
    return whole if any(c.isalpha() for c in whole.text) and (named or unique) else None


def first_line(rows: Rows, measures: Measures) -> str:
    """Return what the first page begins with, where that is larger than the rest of it; "" otherwise."""
    run = next(iter(runs_of(rows, measures, frozenset())), None)
    if run is None or run.start or run.number or not worded(run) or _USUAL.fullmatch(key(run.text)):
        return ""
    rest = [row.size for row in rows[run.end :]]
    return run.text if rows[0].size >= _TITLE * max(measures.body, *rest, 0.0) else ""


def _is_first(run: HeadingCandidate) -> bool:
    return run.number is not None and run.number.parts[0] in _FIRST_NUMBERS


def _named_end(rows: Rows, start: int, end: int, named: str) -> int:
    """Return where the metadata's title ends if rows[start:] print it in lines of several sizes, else `end`."""
    for stop in range(end + 1, min(len(rows), start + _TITLE_LINES) + 1):
        if rows[stop - 1].page != rows[start].page:
            break
        if key("".join(row.text for row in rows[start:stop])) == named:
            return stop
    return end


def _front_matter(
    rows: Rows, runs: Candidates, run: HeadingCandidate, measures: Measures, taken: frozenset[int]
) -> bool:
    """Tell if a run of the first page is an author, a date or the like: no text follows under it."""
    if _is_first(run) or any(_prose(rows[i], measures) for i in range(run.start) if i not in taken):
        return False
    ends = {other.start: other.end for other in runs}
    index = run.end
    while index in ends and rows[index].page == run.page and not has_leader(rows[index].text):
        index = ends[index]
    if index >= len(rows) or rows[index].page != run.page:
        return True
    row = rows[index]
    if run.text.rstrip().endswith(":"):
        return True
    if index in taken or bullet(row.text) or has_leader(row.text) or measures.code(row) or _prose(row, measures):
        return False
    following = rows[index + 1] if index + 1 < len(rows) else None
    return following is None or following.page != run.page or not _prose(following, measures)


def _prose(row: StyledLine, measures: Measures) -> bool:
    """Tell if a line is running text: from the left edge of its column, filled or ending a sentence."""
    left, right = measures.edges_at(row)
    if abs(row.size - measures.body) > 0.1 * measures.body or abs(row.line.x0 - left) > 0.1 * (right - left):
        return False
    filled = row.line.x1 + 2 * first_word_width(row.line) >= right
    return len(row.text) >= 25 and (filled or row.text.rstrip()[-1] in ".!?:")


def join_run(rows: Rows, start: int, end: int) -> HeadingCandidate:
    """Return rows[start:end] as one heading, its style that of its longest line that is no unit."""
    text = " ".join(row.text.strip() for row in rows[start:end])
    longest = max(rows[start:end], key=lambda row: len(parted_unit(row.text.strip())[0]))
    number, style = numbering(text), style_of(longest)
    return HeadingCandidate(start=start, end=end, page=rows[start].page, text=text, style=style, number=number)


def contents_pages(rows: Rows) -> frozenset[int]:
    """Return the pages that are tables of contents or indexes: most lines end in a page number."""
    texts = {page: [rows[index].text.strip() for index in indexes] for page, indexes in rows_by_page(rows).items()}
    return frozenset(page for page, lines in texts.items() if _is_contents(lines))


def _is_contents(texts: list[str]) -> bool:
    leaders = sum(has_leader(text) for text in texts)
    entries = sum(bool(_INDEX_ENTRY.search(text)) for text in texts)
    if (leaders >= 3 and 10 * leaders >= 4 * len(texts)) or (entries >= 8 and 2 * entries >= len(texts)):
        return True
    numbers = [int(text.split()[-1]) for text in texts if ends_with_page(text) and text.split()[-1].isdecimal()]
    rising = sum(a <= b for a, b in pairwise(numbers))
    return len(numbers) >= 5 and 10 * len(numbers) >= 7 * len(texts) and 10 * rising >= 8 * (len(numbers) - 1)


def prominent(row: StyledLine, measures: Measures) -> bool:
    """Tell if a line differs from the body: by size, else by weight, or by number and slant or capitals."""
    if row.size >= (LARGER if row.heavy and not measures.code(row) else _TITLE) * measures.body:
        return True
    if measures.code(row) or row.size < 0.85 * measures.body:
        return False
    if measures.emphatic(row):
        return True
    caps = style_of(row).caps
    return (caps and _centred(row, measures)) or ((row.italic or caps) and numbering(row.text) is not None)


def _centred(row: StyledLine, measures: Measures) -> bool:
    """Tell if a line stands in the middle of its column, with white on both sides."""
    left, right = measures.edges_at(row)
    before, after = row.line.x0 - left, right - row.line.x1
    return min(before, after) > _MARGIN * (right - left) and abs(before - after) < row.size


def runs_of(rows: Rows, measures: Measures, taken: frozenset[int]) -> list[HeadingCandidate]:
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


def _continues(rows: Rows, start: int, index: int, measures: Measures) -> bool:
    """Tell if a line goes on with the heading that the line before it is part of."""
    above, below = rows[index - 1], rows[index]
    if above.block != below.block or not prominent(below, measures):
        return False
    if index == start + 1 and _is_label_of(above, below, measures):
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
    one, two = above.line, below.line
    centred = abs(one.x0 + one.x1 - two.x0 - two.x1) < 4 and one.x0 != two.x0
    hanging = numbering(rows[start].text) is not None and below.line.x0 > rows[start].line.x0 + 3
    return filled or (gap <= _WRAP and (centred or hanging)) or (gap <= _TIGHT and nearly)


def heading_like(run: HeadingCandidate, rows: Rows, measures: Measures) -> bool:
    """Tell if a run may be a heading by its words and by the white around it."""
    if not worded(run) or (run.end - run.start == 1 and _beside(rows, run.start)):
        return False
    if any(is_row(row.line) for row in rows[run.start : run.end]):
        return False
    if rows[run.start].size >= LARGER * measures.body:
        return run.number is not None or run.end - run.start <= 2 or not _ends_sentence(run)
    if run.number is not None:
        return _set_off(run, rows, measures) and (not _ends_sentence(run) or len(run.text) < 60)
    return _set_off(run, rows, measures) and _stands_over_text(run, rows, measures)


def worded(run: HeadingCandidate) -> bool:
    """Tell if the words can be those of a heading: some letters, not too many, and no other role."""
    text = run.text
    longest = max((len(key(word)) for word in text.split()), default=0)
    if longest < 2 or len(text) > _MAX_CHARS or run.end - run.start > _MAX_LINES or text[-1] in ",;":
        return False
    if is_caption(text) or has_leader(text) or is_admonition(text) or bullet(text):
        return False
    text = parted_unit(text)[0]
    return any(c.isalpha() for c in text[run.number.end if run.number else 0 :])


def _ends_sentence(run: HeadingCandidate) -> bool:
    return run.text[-1] in ".:"


def _set_off(run: HeadingCandidate, rows: Rows, measures: Measures) -> bool:
    """Tell if there is more white than usual over a run, or the top of a column."""
    if run.end - run.start > 3:
        return False
    if not _same_block(rows, run.start - 1, run.start):
        return True
    gap = measures.gap(rows[run.start - 1], rows[run.start])
    return gap >= _APART or gap < 0


def _stands_over_text(run: HeadingCandidate, rows: Rows, measures: Measures) -> bool:
    """Tell if an unnumbered bold run of the body's size heads what follows, and is no sentence itself."""
    if not _same_block(rows, run.end - 1, run.end) or _ends_sentence(run) or run.text[0].islower():
        return False
    gap = measures.gap(rows[run.end - 1], rows[run.end])
    below = rows[run.end]
    crowded = measures.emphatic(below) and gap < _APART and parted_unit(below.text.strip())[0] != ""
    return gap > 0 and not crowded and len(run.text) <= 140


def _same_block(rows: Rows, above: int, below: int) -> bool:
    return above >= 0 and below < len(rows) and rows[above].block == rows[below].block


def _beside(rows: Rows, index: int) -> bool:
    """Tell if another line of the same column is printed at the same height, as in a row of a table."""
    here = rows[index].line
    for other in (index - 1, index + 1):
        if 0 <= other < len(rows) and rows[other].block == rows[index].block:
            line = rows[other].line
            overlap = min(line.bottom, here.bottom) - max(line.top, here.top)
            if overlap > 0.6 * (here.bottom - here.top) and (line.x0 >= here.x1 or here.x0 >= line.x1):
                return True
    return False


def steady_styles(runs: Candidates, rejected: Candidates, measures: Measures) -> frozenset[LineStyle]:
    """Return the styles that serve for headings throughout: short, mostly accepted, and not a single odd one."""
    good: dict[LineStyle, list[HeadingCandidate]] = defaultdict(list)
    bad: dict[LineStyle, int] = defaultdict(int)
    for run in runs:
        good[run.style].append(run)
    for run in rejected:
        bad[run.style] += len(run.text)
    return frozenset(style for style, members in good.items() if _steady(style, members, bad[style], measures))


def _steady(style: LineStyle, members: list[HeadingCandidate], rejected: int, measures: Measures) -> bool:
    accepted = sum(len(run.text) for run in members)
    if accepted > 110 * len(members) or rejected > 3 * accepted:
        return False
    if style.size >= LARGER * measures.body or any(run.number for run in members):
        return True
    return len(members) >= 2 or bool(_USUAL.fullmatch(key(members[0].text)))


def match_outline(rows: Rows, outline: Sequence[OutlineItem], measures: Measures) -> tuple[OutlineMatch, ...]:
    """Find the lines of each entry on the page it points to, or on a neighbour; entries not found are left out.

    Spaces, case, punctuation and numbers do not count; a title may be wrapped over several lines.
    """
    by_page = rows_by_page(rows)
    used: set[int] = set()
    matches = []
    for item in outline:
        for page in (item.page, item.page + 1, item.page - 1):
            run = _find(rows, by_page[page], item, measures, used, near=page == item.page)
            if run is not None:
                run = _with_label(rows, run, measures)
                used.update(range(run.start, run.end))
                matches.append(OutlineMatch(item, run))
                break
    return tuple(sorted(matches, key=lambda match: match.run.start))


def _find(
    rows: Rows, page: list[int], item: OutlineItem, measures: Measures, used: set[int], *, near: bool
) -> HeadingCandidate | None:
    wanted = title_keys(item.title)
    if not wanted:
        return None
    longest = max(map(len, wanted)) + 12  # the number of a chapter may be missing in the outline
    found: list[tuple[tuple[float, ...], HeadingCandidate]] = []
    alike: list[tuple[tuple[float, ...], HeadingCandidate]] = []
    for index in page:
        begun = title_keys(rows[index].text)
        if not (
            any(w.startswith(b) or b.startswith(w) for w in wanted for b in begun) or is_label(rows[index].text)
        ) and (item.top is None or not near or abs(rows[index].line.top - item.top) > _NEAR):
            continue
        for end in range(index + 1, min(index + _WRAPPED_LINES, page[-1] + 1) + 1):
            if end - 1 in used or rows[end - 1].block != rows[index].block:
                break
            text = " ".join(row.text.strip() for row in rows[index:end])
            if len(key(text)) > longest + 20:
                break
            if has_leader(text):
                continue
            far = abs(rows[index].line.top - item.top) if item.top is not None and near else 0.0
            place = (0.0 if prominent(rows[index], measures) else 1.0, far, -rows[index].size, float(index))
            if wanted & title_keys(text):
                found.append((place, join_run(rows, index, end)))
            elif item.top is not None and near and far <= _NEAR and not place[0] and _alike(text, item.title):
                alike.append((place, join_run(rows, index, end)))
    best = min(found or alike, key=lambda pair: pair[0], default=None)
    return best[1] if best else None


def _with_label(rows: Rows, run: HeadingCandidate, measures: Measures) -> HeadingCandidate:
    """Take in "Chapter 3" where it is printed on a line of its own over the title."""
    near = run.start > 0 and _is_label_of(rows[run.start - 1], rows[run.start], measures)
    return join_run(rows, run.start - 1, run.end) if near else run


def _is_label_of(above: StyledLine, below: StyledLine, measures: Measures) -> bool:
    is_near = above.block == below.block and 0 < measures.gap(above, below) < 4
    return is_near and is_label(above.text.strip()) and prominent(above, measures)


def _alike(text: str, title: str) -> bool:
    """Tell if two titles share most words: an outline loses formulas and odd characters."""
    one, two = ({key(word) for word in bare_title(t).split()} - {""} for t in (text, title))
    return bool(one and two) and len(one & two) >= _ALIKE * max(len(one), len(two))


def rank(style: LineStyle) -> tuple[float, bool, bool, bool]:
    """Return a sort key that puts the styles of higher headings first."""
    return (-style.size, not style.bold, not style.caps, style.italic)


def number_levels(runs: Candidates) -> dict[int, int]:
    """Return the level that its number gives a run, by the run's start: "3.2.1" is of level 3.

    Plain numbers that begin anew again and again ("1. Open the lid" in every chapter) give none, nor do those
    of a style that is smaller than another of the same depth.
    """
    restarts = Counter(run.style for run in runs if run.number and run.number.key == ("1",))
    depth_of = {
        run.start: run.number.depth
        for run in runs
        if run.number and not (run.number.depth == 1 and restarts[run.style] > 1)
    }
    depths: dict[LineStyle, Counter[int]] = defaultdict(Counter)
    for run in runs:
        if run.start in depth_of:
            depths[run.style][depth_of[run.start]] += 1
    main = {style: min(votes, key=lambda depth: (-votes[depth], depth)) for style, votes in depths.items()}
    trusted = {style for style in main if not any(_outranked(style, other, main, depths) for other in main)}
    return {run.start: depth_of[run.start] for run in runs if run.start in depth_of and run.style in trusted}


def _outranked(
    style: LineStyle, other: LineStyle, main: Mapping[LineStyle, int], depths: Mapping[LineStyle, Counter[int]]
) -> bool:
    """Tell if the numbers of another style contradict those of a style, and the other has the say.

    The numbers of a smaller style must be deeper. Where they are not, the style with fewer numbered headings
    gives way, the smaller one on a tie.
    """
    smaller, larger = style.size < 0.93 * other.size, other.size < 0.93 * style.size
    contrary = (smaller and main[style] <= main[other]) or (larger and main[other] <= main[style])
    mine, theirs = depths[style].total(), depths[other].total()
    return contrary and (mine < theirs or (mine == theirs and smaller))


def levels_of(runs: Candidates, known: Mapping[int, int]) -> dict[int, int]:
    """Return a level from 1 for every run, by its start.

    A run of `known` keeps its level; another takes the commonest known level of its style; a style of which
    nothing is known ranks by size and weight, one below the next larger style.
    """
    votes: dict[LineStyle, Counter[int]] = defaultdict(Counter)
    members = Counter(run.style for run in runs)
    for run in runs:
        if run.start in known:
            votes[run.style][known[run.start]] += 1
    by_style: dict[LineStyle, int] = {s: min(v, key=lambda level: (-v[level], level)) for s, v in votes.items()}
    order = sorted(members, key=rank)
    for position, style in enumerate(order):
        if style not in votes:
            above = by_style[order[position - 1]] if position else None
            below = min((by_style[s] for s in order[position + 1 :] if s in votes), default=None)
            # a far commoner style of the same size: a heading with one word in another font is of that style
            alike = [o for o in by_style if o.size == style.size and members[o] >= 5 * members[style]]
            twin = max(alike, key=lambda other: (members[other], rank(other)), default=None)
            by_style[style] = by_style[twin] if twin else _between(above, below, members[style])
    levels = {run.start: known.get(run.start, by_style[run.style]) for run in runs}
    shift = 1 - min(levels.values(), default=1)
    return {start: level + max(0, shift) for start, level in levels.items()}


def _between(above: int | None, below: int | None, count: int) -> int:
    """Return a level under `above` and over `below`; a lone style over the highest known one joins it."""
    if above is not None:
        return above + 1 if below is None or below > above else below
    if below is None:
        return 1
    return below - 1 if count > 1 or below > 1 else below
