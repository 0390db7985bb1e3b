"""Headings of a laid-out file: its own outline first, then size, weight and numbering."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from catena.formatting.candidates import (
    LARGER,
    Run,
    contents_pages,
    heading_like,
    join_run,
    runs_of,
    steady_styles,
    worded,
)
from catena.formatting.levels import levels_of, number_levels
from catena.formatting.outlines import Match, match_outline
from catena.formatting.rows import Measures, Row
from catena.formatting.words import bullet, ends_with_page, first_word_width, has_leader, key
from catena.model.layout import OutlineItem

_TITLE = 1.15  # times the body size
_TITLE_LINES = 6
_FIRST_NUMBERS = frozenset({"0", "1", "I", "A"})  # what the first heading of a file is numbered
_TRUSTED = 0.5  # share of the outline's entries found in the text, for the outline to decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A heading printed on rows[start:end]; level 1 is the document's title, or a chapter where there is no title."""

    start: int
    end: int
    level: int  # from 1
    text: str


def find_headings(
    rows: Sequence[Row],
    measures: Measures,
    *,
    taken: frozenset[int] = frozenset(),
    outline: Sequence[OutlineItem] = (),
    title: str = "",
) -> tuple[Heading, ...]:
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


def _headings(runs: Sequence[Run], known: dict[int, int], head: Run | None) -> tuple[Heading, ...]:
    levels = levels_of(runs, known)
    deeper = int(head is not None)
    found = [Heading(start=r.start, end=r.end, level=min(6, levels[r.start] + deeper), text=r.text) for r in runs]
    if head is not None:
        found.append(Heading(start=head.start, end=head.end, level=1, text=head.text))
    return tuple(sorted(found, key=lambda heading: heading.start))


def _outlined(matches: Sequence[Match], liked: Sequence[Run], head: Run | None) -> tuple[Heading, ...]:
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
    numbers = {run.number.parts: known[run.start] for run in runs if run.number}
    smallest = min((style.size for style in styles), default=0.0)
    frequent = Counter(run.style for run in liked)
    for run in liked:
        if covered & set(range(run.start, run.end)):
            continue
        parent = numbers.get(run.number.parts[:-1]) if run.number else None
        if parent is not None and run.number is not None:
            known[run.start] = numbers[run.number.parts] = parent + 1
            runs.append(run)
        elif run.style in styles or (run.style.size <= smallest and run.style.bold and frequent[run.style] >= 3):
            runs.append(run)
    return _headings(sorted(runs, key=lambda run: run.start), known, head)


def _announces(run: Run, later: Sequence[tuple[str, int]]) -> bool:
    """Whether a line of a table of contents is, or begins, the title of a heading that comes later."""
    begun = key(run.text)
    return any(page > run.page and title.startswith(begun) for title, page in later)


def _title(
    rows: Sequence[Row], runs: Sequence[Run], liked: Sequence[Run], measures: Measures, title: str
) -> Run | None:
    """Return the lines of the first page that print the document's title: larger than any heading of the file."""
    first = [run for run in runs if run.page == rows[0].page] if rows else []
    first = [run for run in first if run.number is None and worded(run)]
    if not first:
        return None
    largest = max(first, key=lambda run: (run.style.size, -run.start))
    start = end = largest.start
    for run in runs:  # a title set in several lines with wide spaces is several runs; "1 Scope" below it is a heading
        first_section = run.number is not None and run.number.parts[0] in _FIRST_NUMBERS
        if (
            run.start == end
            and run.page == largest.page
            and run.style.size == largest.style.size
            and not first_section
        ):
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


def _named_end(rows: Sequence[Row], start: int, end: int, named: str) -> int:
    """Return where the metadata's title ends if rows[start:] print it in lines of several sizes, else `end`."""
    for stop in range(end + 1, min(len(rows), start + _TITLE_LINES) + 1):
        if rows[stop - 1].page != rows[start].page:
            break
        if named and key("".join(row.text for row in rows[start:stop])) == named:
            return stop
    return end


def _front_matter(
    rows: Sequence[Row], runs: Sequence[Run], run: Run, measures: Measures, taken: frozenset[int]
) -> bool:
    """Whether a run of the first page is an author, a date or the like: no text follows under it."""
    if (run.number is not None and run.number.parts[0] in _FIRST_NUMBERS) or any(
        _prose(rows[i], measures) for i in range(run.start) if i not in taken
    ):
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


def _prose(row: Row, measures: Measures) -> bool:
    """Whether a line is running text: from the left edge of its column, filled or ending a sentence."""
    left, right = measures.edges_at(row)
    if abs(row.size - measures.body) > 0.1 * measures.body or abs(row.line.x0 - left) > 0.1 * (right - left):
        return False
    filled = row.line.x1 + 2 * first_word_width(row.line) >= right
    return len(row.text) >= 25 and (filled or row.text.rstrip()[-1] in ".!?:")
