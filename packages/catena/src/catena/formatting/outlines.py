"""The file's own outline, matched to the lines it points to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from catena.formatting.candidates import Run, join_run, prominent
from catena.formatting.rows import Measures, Row
from catena.formatting.words import bare_title, has_leader, is_label, key, title_keys
from catena.model.layout import OutlineItem

_MAX_LINES = 6  # of one wrapped title
_NEAR = 40.0  # points between a destination and a heading whose words differ a little
_ALIKE = 0.7  # share of the longer title's words that the two have in common


@dataclass(frozen=True, slots=True)
class Match:
    """An entry of the outline and the lines that print its title."""

    item: OutlineItem
    run: Run


def match_outline(rows: Sequence[Row], outline: Sequence[OutlineItem], measures: Measures) -> tuple[Match, ...]:
    """Find the lines of each entry on the page it points to, or on a neighbour; entries not found are left out.

    Spaces, case, punctuation and numbers do not count; a title may be wrapped over several lines.
    """
    by_page: dict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        by_page[row.page].append(index)
    used: set[int] = set()
    matches = []
    for item in outline:
        for page in (item.page, item.page + 1, item.page - 1):
            run = _find(rows, by_page[page], item, measures, used, near=page == item.page)
            if run is not None:
                run = _with_label(rows, run, measures)
                used.update(range(run.start, run.end))
                matches.append(Match(item, run))
                break
    return tuple(sorted(matches, key=lambda match: match.run.start))


def _find(
    rows: Sequence[Row], page: list[int], item: OutlineItem, measures: Measures, used: set[int], *, near: bool
) -> Run | None:
    wanted = title_keys(item.title)
    if not wanted:
        return None
    longest = max(map(len, wanted)) + 12  # the number of a chapter may be missing in the outline
    found: list[tuple[tuple[float, ...], Run]] = []
    alike: list[tuple[tuple[float, ...], Run]] = []
    for index in page:
        begun = title_keys(rows[index].text)
        if not (
            any(w.startswith(b) or b.startswith(w) for w in wanted for b in begun) or is_label(rows[index].text)
        ) and (item.top is None or not near or abs(rows[index].line.top - item.top) > _NEAR):
            continue
        for end in range(index + 1, min(index + _MAX_LINES, page[-1] + 1) + 1):
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


def _with_label(rows: Sequence[Row], run: Run, measures: Measures) -> Run:
    """Take in "Chapter 3" where it is printed on a line of its own over the title."""
    above = run.start - 1
    if above < 0 or rows[above].block != rows[run.start].block or not is_label(rows[above].text.strip()):
        return run
    near = prominent(rows[above], measures) and 0 < measures.gap(rows[above], rows[run.start]) < 4
    return join_run(rows, above, run.end) if near else run


def _alike(text: str, title: str) -> bool:
    """Whether two titles share most words: an outline loses formulas and odd characters."""
    one, two = ({key(word) for word in bare_title(t).split()} - {""} for t in (text, title))
    return bool(one and two) and len(one & two) >= _ALIKE * max(len(one), len(two))
