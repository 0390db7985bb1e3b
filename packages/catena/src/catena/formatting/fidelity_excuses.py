"""Find words that may be dropped, added or moved: furniture, marks of items, captions, wrapped cells, columns."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, chain, pairwise, zip_longest
from statistics import median

from catena.formatting.fidelity_alignment import Alignment
from catena.formatting.fidelity_words import ComparedLine, Word, Words
from catena.formatting.styled_lines import is_caption, key
from catena.text.words import runs_of

_PAGE_NAME = re.compile(
    r"(?:page|seite|p\.|pag\.|página|pagina|strona|стр\.|第)\s*+(?:\d{1,4}|[ivxlc]{1,6})\s*+(?:[页頁]\s*+)?"
    r"(?:(?:/|of|von|de|sur|di|共)\s*+\d{1,4}\s*+[页頁]?)?|[-–]\s*+\d{1,4}\s*+[-–]|\d{1,4}\s*+(?:/|of)\s*+\d{1,4}",
    re.IGNORECASE,
)
_PAGE_LINES = 8  # lines that lie between two running lines at least
_LONGEST = 12  # words of a running line
_CHAPTER_WORDS = frozenset(
    ("chapter", "section", "part", "appendix", "kapitel", "abschnitt", "teil", "anhang", "chapitre", "capítulo")
)
_LONGEST_CAPTION = 40  # words
_DIGITS = re.compile(r"\d{1,9}")


def furniture(source: Words, aligned: Alignment, known: Collection[str]) -> frozenset[int]:
    """Return the words of dropped running headers and footers and of page numbers.

    A dropped line is furniture when the caller knows it, when it names a page ("Page 3", "3 / 12"), or when lines
    like it are dropped throughout: the same words, but for a number at either end that counts up.
    """
    lines, there = source.lines, aligned.there
    keys = frozenset(map(_pattern, known))
    gone = [all(there[i] < 0 or aligned.moved[there[i]] for i in range(x.start, x.end)) for x in lines]
    alike: dict[str, list[int]] = defaultdict(list)
    for index, line in enumerate(lines):
        if line.end - line.start <= _LONGEST:
            alike[_pattern(line.text)].append(index)
    alike_runs = (group for group in alike.values() if _runs([lines[i].text for i in group], group, gone))
    running = {index for group in alike_runs for index in group}
    found = [
        line
        for index, line in enumerate(lines)
        if gone[index] and (index in running or _pattern(line.text) in keys or _PAGE_NAME.fullmatch(line.text))
    ]
    return frozenset(i for line in found for i in range(line.start, line.end))


def _pattern(text: str) -> str:
    """Return a line's letters and digits without a number at either end."""
    words = text.strip("-()|/ ").split()
    if words and words[0].isdigit():
        words = words[1:]
    if words and words[-1].isdigit():
        words = words[:-1]
    return key(" ".join(words)) or "#"


def _runs(texts: Sequence[str], places: Sequence[int], gone: Sequence[bool]) -> bool:
    """Tell if lines are printed page after page and dropped as one: all of them, or all but one of three and more."""
    if sum(gone[place] for place in places) < max(2, len(places) - 1):
        return False
    if median(other - one for one, other in pairwise(places)) < _PAGE_LINES:
        return False
    if len(set(texts)) == 1:
        return not texts[0].strip("-() ").isdigit()
    numbers = [_DIGITS.findall(text) for text in texts]
    ends = [[int(found[end]) for found in numbers if found] for end in (0, -1)]
    return all(numbers) and any(all(one < other for one, other in pairwise(values)) for values in ends)


def repeated_heads(source: Words, answer: Words, aligned: Alignment) -> frozenset[int]:
    """Return the words of dropped lines that repeat, after a page break, what heads a table: its row or caption."""
    rows = [(line.table, index) for index, line in enumerate(answer.lines) if line.kind == "row"]
    first_rows = frozenset(dict(reversed(rows)).values())
    heads: set[tuple[str, ...]] = set()
    found: set[int] = set()
    for line in source.lines:
        keys = tuple(word.key for word in source.words[line.start : line.end])
        places = aligned.there[line.start : line.end]
        if max(places) >= 0:
            in_head = all(place >= 0 and answer.words[place].line in first_rows for place in places)
            if in_head or is_caption(line.text):
                heads.add(keys)
            continue
        sizes = range(max(2, len(keys) - 2), len(keys) + 1)  # of the head: words as "(continued)" may follow it
        if any(keys[:size] in heads and not _DIGITS.search("".join(keys[size:])) for size in sizes):
            found.update(range(line.start, line.end))
    return frozenset(found)


def small_marks(
    source: Words, answer: Words, aligned: Alignment, between: Sequence[tuple[range, range]]
) -> tuple[frozenset[int], frozenset[int]]:
    """Return words that are marks on either side: ordinals of items, a broken line's hyphen, "Chapter", a word twice.

    The ordinal of an item may go or come, or become "1." as in Markdown that counts by itself; another number may not
    take its place.
    """
    gone: set[int] = set()
    come: set[int] = set()
    broken = {line.end - 1 for line in source.lines if line.broken}
    for there, here in between:
        lost = [i for i in there if aligned.there[i] < 0]
        new = [i for i in here if aligned.here[i] < 0]
        for i in lost:
            word = source.words[i]
            line = source.lines[word.line]
            after = aligned.there[i + 1] if i + 1 < len(aligned.there) else -1
            item = after >= 0 and answer.lines[answer.words[after].line].kind == "item"
            if (
                (word.marker and item)
                or (word.key in _CHAPTER_WORDS and i == line.start and i + 1 < line.end)
                or (word.kind == "word" and not new and i and source.words[i - 1].key == word.key)
            ):
                gone.add(i)
        replaced = {source.words[i].key for i in lost if source.words[i].marker}
        for i in new:
            word = answer.words[i]
            free = word.key == "1" or not _DIGITS.search("".join(replaced))
            item = word.marker and free and answer.lines[word.line].kind == "item"
            if item or (word.key == "-" and aligned.here[i - 1] in broken):
                come.add(i)
    return frozenset(gone), frozenset(come)


def added_titles(answer: Words, aligned: Alignment, most: int, longest: int) -> tuple[frozenset[int], frozenset[int]]:
    """Return the words of added titles, and those of numbers added before the title of a heading.

    A title is a heading, or a line that only names a table, of which no word is the source's.

    Args:
        answer: the words of the answer.
        aligned: how they are matched.
        most: titles that may be added.
        longest: words of such a title, its number not counted.
    """
    titles: set[int] = set()
    numbers: set[int] = set()
    count = 0
    for line in answer.lines:
        if line.kind != "heading":
            continue
        new = [i for i in range(line.start, line.end) if aligned.here[i] < 0]
        lead = new[:1] if new[:1] == [line.start] and answer.words[line.start].kind == "number" else []
        rest = new[len(lead) :]
        whole = len(new) == line.end - line.start
        plain = all(answer.words[i].kind == "word" for i in rest)
        if not rest and lead and line.end - line.start > 1:
            numbers.update(lead)
        elif whole and rest and plain and len(rest) <= longest and count < most:
            count += 1
            numbers.update(lead)
            titles.update(rest)
    return frozenset(titles), frozenset(numbers)


def similar(one: str, other: str) -> bool:
    """Tell if two words of five letters or more differ by one letter, or by two neighbours that changed places."""
    from rapidfuzz.distance import OSA

    return min(len(one), len(other)) >= 5 and OSA.distance(one, other, score_cutoff=1) <= 1


def settled_moves(source: Words, answer: Words, aligned: Alignment) -> frozenset[int]:
    """Return the words of the answer that are out of order for a good reason."""
    settled = {i for i, word in enumerate(answer.words) if aligned.moved[i] and word.marker}
    settled |= _captions_moved(source, answer, aligned)
    for rows in _tables(answer):
        settled |= _wrapped_cells(source, aligned, rows)
        settled |= _column_by_column(source, aligned, rows)
    return frozenset(settled)


def _tables(answer: Words) -> Iterator[list[ComparedLine]]:
    tables: dict[int, list[ComparedLine]] = defaultdict(list)
    for line in answer.lines:
        if line.kind == "row":
            tables[line.table].append(line)
    yield from tables.values()


def moved_runs(aligned: Alignment) -> Iterator[range]:
    """Give the runs of neighbouring words of the answer that are together, but elsewhere, in the source."""

    def goes_on(one: int, other: int) -> bool:
        return other == one + 1 and aligned.here[other] == aligned.here[one] + 1

    for run in runs_of((index for index, is_moved in enumerate(aligned.moved) if is_moved), goes_on):
        yield range(run[0], run[-1] + 1)


def _captions_moved(source: Words, answer: Words, aligned: Alignment) -> set[int]:
    """Return moved words where a caption and its table, and nothing else, have changed places."""
    steady = [i for i, place in enumerate(aligned.here) if place >= 0 and not aligned.moved[i]]
    found: set[int] = set()
    for run in moved_runs(aligned):
        first, last = aligned.here[run[0]], aligned.here[run[-1]]
        at = bisect_left(steady, run[0])
        before = aligned.here[steady[at - 1]] if at else -1
        after = aligned.here[steady[at]] if at < len(steady) else len(aligned.there)
        jumped = range(after, first) if first > after else range(last + 1, before + 1)
        own = range(first, last + 1)
        for caption, table in ((jumped, own), (own, jumped)):
            lines = (answer.lines[answer.words[aligned.there[i]].line] for i in table if aligned.there[i] >= 0)
            if jumped and _is_caption(source, caption) and all(line.kind == "row" for line in lines):
                found.update(run)
    return found


def _is_caption(source: Words, words: range) -> bool:
    line = source.lines[source.words[words[0]].line]
    return len(words) <= _LONGEST_CAPTION and words[0] == line.start and is_caption(line.text)


def _wrapped_cells(source: Words, aligned: Alignment, rows: Sequence[ComparedLine]) -> set[int]:
    """Return moved words of rows whose cells were printed side by side on several lines."""
    places = ((row, [place for place in aligned.here[row.start : row.end] if place >= 0]) for row in rows)
    lines = [(row, [source.words[place].line for place in own]) for row, own in places if own]
    found: set[int] = set()
    for before, (row, own), after in zip([None, *lines], lines, [*lines[1:], None], strict=False):
        apart = (before is None or max(before[1]) < min(own)) and (after is None or max(own) < min(after[1]))
        if apart and _reads_as_wrapped(source, aligned, row):
            found.update(i for i in range(row.start, row.end) if aligned.moved[i])
    return found


def _reads_as_wrapped(source: Words, aligned: Alignment, row: ComparedLine) -> bool:
    """Tell if every cell is read downwards, and every printed line from its first cell to its last."""
    by_line: dict[int, list[int]] = defaultdict(list)
    begins = -1
    for start, end in row.cells:
        places = [aligned.here[i] for i in range(start, end) if aligned.here[i] >= 0]
        if any(one >= other for one, other in pairwise(places)):
            return False
        if not places:
            continue
        lines = [source.words[place].line for place in places]
        if lines[-1] < begins:  # a cell of one line is set in the middle of a taller neighbour, or at its end
            return False
        begins = lines[0]
        for place, line in zip(places, lines, strict=True):
            by_line[line].append(place)
    return all(sorted(places) == places for places in by_line.values())


def _column_by_column(source: Words, aligned: Alignment, rows: Sequence[ComparedLine]) -> set[int]:
    """Return moved words of a table whose source gives one cell per line, and the columns one after the other."""
    last = -1
    for start, end in chain.from_iterable(zip_longest(*(row.cells for row in rows), fillvalue=(0, 0))):
        if places := aligned.here[start:end]:
            line = source.lines[source.words[places[0]].line]
            if places[0] <= last or (places[0], places[-1] + 1) != (line.start, line.end):
                return set()
            last = places[-1]
    return {i for row in rows for i in range(row.start, row.end) if aligned.moved[i]}


_LEAST = 3  # words of a line that is looked for
_TRIED = 16  # places at which a line is looked for
_BEFORE = 3  # lines after which a line may go on
_FALLS = 2  # times that the reading jumps back to the first column: a block that was moved jumps back once


def unread_across(source: Words, answer: Words) -> Words | None:
    """Return the source with the lines of two columns one column after the other, or None if it has no such lines.

    Where a page of two columns is read across, its lines come in turn, and an answer in the right order has first all
    lines of the one and then all of the other: two rising sequences, the second above the first, that alternate more
    than once. Swapped rows and moved paragraphs do not alternate.
    """
    places = _places(source, answer)
    order = list(range(len(source.lines)))
    changed = False
    for region in _regions(places):
        columns = _columns([place for _, place in region])
        if columns is not None:
            first, last = region[0][0], region[-1][0]
            known = {line: column for (line, _), column in zip(region, columns, strict=True)}
            order[first : last + 1] = _one_by_one(range(first, last + 1), known)
            changed = True
    return _reordered(source, order) if changed else None


def _places(source: Words, answer: Words) -> list[tuple[int, int]]:
    """Return (line, where the answer has it) of the lines that are whole in both.

    A line that is there more than once, or too short to be looked for, begins where one of the lines before it ends,
    or ends where one of the lines after it begins.
    """
    said = [word.key for word in answer.words]
    starts: dict[tuple[str, ...], list[int]] = {}
    for index in range(len(said) - _LEAST + 1):
        starts.setdefault(tuple(said[index : index + _LEAST]), []).append(index)
    printed = [tuple(word.key for word in source.words[line.start : line.end]) for line in source.lines]
    counts = Counter(printed)
    found: dict[int, int] = {}
    ends: deque[int] = deque(maxlen=_BEFORE)
    for index, keys in enumerate(printed):
        places = [at for at in ends if tuple(said[at : at + len(keys)]) == keys]
        if not places and counts[keys] == 1:
            near = starts.get(keys[:_LEAST], ())[:_TRIED]
            places = [at for at in near if tuple(said[at : at + len(keys)]) == keys]
        if len(places) == 1:
            found[index] = places[0]
            ends.append(places[0] + len(keys))
    begins: deque[int] = deque(maxlen=_BEFORE)
    for index, keys in reversed(list(enumerate(printed))):
        places = [at - len(keys) for at in begins if tuple(said[max(0, at - len(keys)) : at]) == keys]
        if index not in found and len(places) == 1:
            found[index] = places[0]
        if index in found:
            begins.append(found[index])
    return sorted(found.items())


def _regions(places: Sequence[tuple[int, int]]) -> Iterator[Sequence[tuple[int, int]]]:
    """Give the shortest runs of lines that no line before or after them belongs into."""
    highest = list(accumulate((place for _, place in places), max))
    lowest = list(accumulate((place for _, place in reversed(places)), min))[::-1]
    start = 0
    for index in range(len(places)):
        if index + 1 == len(places) or highest[index] < lowest[index + 1]:
            if index > start:
                yield places[start : index + 1]
            start = index + 1


def _columns(places: Sequence[int]) -> list[int] | None:
    """Return 0 or 1 per line, its column, or None where the places are no two columns in turn."""
    if sum(one > other for one, other in pairwise(places)) < _FALLS:
        return None
    fall = next(index for index, (one, other) in enumerate(pairwise(places)) if one > other)
    second = min(place for place in places[: fall + 1] if place > places[fall + 1])  # where the second column begins
    columns = [int(place >= second) for place in places]
    parts = [[p for p, column in zip(places, columns, strict=True) if column == side] for side in (0, 1)]
    return columns if all(one < other for part in parts for one, other in pairwise(part)) else None


def _one_by_one(lines: range, known: dict[int, int]) -> list[int]:
    """Return lines, column after column; one that was not found is of the other column than the one before."""
    columns: list[list[int]] = [[], []]
    last = 1
    for line in lines:
        last = known.get(line, 1 - last)
        columns[last].append(line)
    return [*columns[0], *columns[1]]


def _reordered(source: Words, order: Sequence[int]) -> Words:
    words: list[Word] = []
    lines: list[ComparedLine] = []
    for index in order:
        line = source.lines[index]
        start = len(words)
        words += [word._replace(line=len(lines)) for word in source.words[line.start : line.end]]
        lines.append(line._replace(start=start, end=len(words)))
    return Words(words=tuple(words), lines=tuple(lines))
