"""Find the tables of contents that a document prints, and build its outline from them, or from its headings."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from catena.model import Document, ParameterError, Section
from catena.structure.blocks import Block, blocks_of, split_lines
from catena.structure.headings import SectionHeading, headings_of, next_line, outline, tree_of
from catena.text import PLAIN, folded
from catena.text.headings import NumberedTitle, numbered_title, plain_title

FEWEST = 3  # entries of a table of contents

_LONGEST_ENTRY = 300  # characters of an entry's line
_GAP = 2  # lines in a row that are no entries (page heads, the first line of a wrapped title) and end nothing
_ANNOUNCEMENTS = frozenset(
    folded(words).replace(" ", "")
    for words in (
        *("contents", "table of contents", "list of contents", "toc", "on this page", "in this article"),
        *("inhalt", "inhaltsverzeichnis", "inhaltsübersicht", "table des matières", "sommaire", "índice", "indice"),
        *("contenido", "tabla de contenido", "tabla de contenidos", "conteúdo", "sumário", "sommario", "inhoud"),
        *("inhoudsopgave", "innehåll", "innehållsförteckning", "indholdsfortegnelse", "innhold", "spis treści"),
        *("obsah", "содержание", "оглавление", "目录", "目錄", "目次", "차례", "목차"),
    )
)
_DECORATION = re.compile(r"[\s#*_:：.]+")
_LINK = re.compile(
    r"(?P<indent>[ \t]*+)(?:(?:[-*+]|\d{1,3}[.)])[ \t]++)?(?P<number>(?:\d{1,3}\.?){0,6})[ \t]*+\[(?P<title>.+)\]"
    r"\(#(?P<anchor>[^()\s]*+)\)[ \t]*+"
)
_BEGINNING = re.compile(r"(?P<indent>[ \t]*+)(?:[-*+][ \t]++)?")
_PAGE = r"(?:\d{1,4}|[ivxlc]{1,7}|[A-Z]-?\d{1,3})[ \t]*+\Z"
_LEADERS = re.compile(rf"(?:…|(?<![.·])(?<![.·][ \t])[.·](?:[ \t]?[.·])++|(?<!_)_{{3,}}+)[ \t]*+{_PAGE}")
_SPACED = re.compile(rf"(?<![ \t])(?=[ \t]*?(?:\t|   ))[ \t]++{_PAGE}")
_ITEM = re.compile(r"(?P<indent>[ \t]*+)(?:[-*+]|\d{1,3}[.)])[ \t]++(?P<title>\S.*)")
_LAST_NUMBER = re.compile(r"(?<![ \t])[ \t]++(?:\d{1,4}|[ivxlc]{1,7})[ \t]*+\Z")
_NO_ENTRIES = frozenset({"code", "html", "table", "front", "quote"})  # kinds of blocks


class ContentsEntry(NamedTuple):
    """A line of a table of contents.

    Attributes:
        titles: what it may say, likeliest first: where the line above is no entry, it may begin there.
        indent: columns before it or its list mark.
        anchor: where its link goes, "" without a link.
        strong: it has leaders and a page, or a link, so that it can be nothing else.
    """

    titles: tuple[str, ...]
    indent: int
    anchor: str
    strong: bool


class PrintedContents(NamedTuple):
    """A table of contents as printed on [start, end) of the text."""

    start: int
    end: int
    announced: bool
    entries: tuple[ContentsEntry, ...]


class _Line(NamedTuple):
    text: str
    start: int
    kind: str  # of the block it is in, "" between blocks


def printed_contents(text: str, blocks: Sequence[Block]) -> list[PrintedContents]:
    """Return the places that may be tables of contents: announced ones first, the longest of them first.

    After a line "Contents" (in some twenty languages): lists, links to places in the document, titles with
    leaders or a page, and numbered titles. Without it: at least three links or leaders with few other lines
    between them. Lines in code, tables, quotes and HTML are none.

    Args:
        text: the whole text.
        blocks: its blocks.
    """
    lines = _entry_lines(text, blocks)
    found: list[PrintedContents] = []
    index = 0
    while index < len(lines):
        announced = lines[index].kind not in _NO_ENTRIES and is_announcement(lines[index].text)
        strong = not announced and _entry(lines[index], weak=False) is not None
        if not (announced or strong):
            index += 1
            continue
        first = index + announced
        while first < len(lines) and not lines[first].text.strip():
            first += 1
        entries, after = _gathered(lines, first, announced=announced)
        if len(entries) >= FEWEST:
            end = lines[after].start if after < len(lines) else len(text)
            found.append(PrintedContents(lines[first].start, end, announced, tuple(entries)))
        index = max(after, index + 1)
    return sorted(found, key=lambda one: (not one.announced, -len(one.entries) if one.announced else one.start))


def is_announcement(line: str) -> bool:
    """Return whether a line, or a title, is nothing but "Contents" in one of the languages known here."""
    return len(line) <= 60 and folded(_DECORATION.sub("", line)) in _ANNOUNCEMENTS


def _entry_lines(text: str, blocks: Sequence[Block]) -> list[_Line]:
    texts, starts = split_lines(text)
    lines: list[_Line] = []
    at = 0
    for line, start in zip(texts, starts, strict=False):
        while at < len(blocks) and blocks[at].end <= start:
            at += 1
        inside = at < len(blocks) and blocks[at].start <= start and bool(line.strip())
        lines.append(_Line(line, start, blocks[at].kind if inside else ""))
    return lines


def _gathered(lines: Sequence[_Line], first: int, *, announced: bool) -> tuple[list[ContentsEntry], int]:
    """Return the entries from a line on, and the line after the last of them."""
    entries: list[tuple[int, ContentsEntry]] = []
    seen: set[str] = set()
    gap, above = 0, ""
    for index in range(first, len(lines)):
        line = lines[index]
        if not line.text.strip():
            above = ""
            continue
        if line.kind == "heading" and not is_announcement(line.text):
            break
        entry = _entry(line, weak=announced) if line.kind not in _NO_ENTRIES else None
        last = entries[-1][1] if entries else None
        if entry is None:
            gap, above = gap + 1, line.text.strip()
            if gap > _GAP or (last is not None and not last.strong):
                break
            continue
        says = {folded(title) for title in entry.titles}
        if not entry.strong and says & seen:  # the text itself begins, with the heading of its first division
            break
        seen |= says
        if last is not None and _continues(last, entry) and index - entries[-1][0] <= 2:
            above = last.titles[0]
            entries.pop()
        entries.append((index, _begun(entry, above)))
        gap, above = 0, ""
    if 2 * sum(entry.strong for _, entry in entries) > len(entries):
        while not entries[-1][1].strong and len(entries[-1][1].titles) == 1:
            entries.pop()  # without a page: the first headings of the text itself
    return [entry for _, entry in entries], entries[-1][0] + 1 if entries else first


def _begun(entry: ContentsEntry, above: str) -> ContentsEntry:
    """Return an entry that may begin on the line above it, which is no entry by itself."""
    if not above:
        return entry
    whole = f"{above} {entry.titles[0]}"
    first = bool(numbered_title(whole).number) and not numbered_title(entry.titles[0]).number
    return entry._replace(titles=(whole, *entry.titles) if first else (*entry.titles, whole))


def _continues(above: ContentsEntry, entry: ContentsEntry) -> bool:
    """Return whether an entry with a page is the second line of the one above it, which has none."""
    return not above.strong and entry.strong and not entry.anchor and not numbered_title(entry.titles[0]).number


def _entry(line: _Line, *, weak: bool) -> ContentsEntry | None:
    """Return the entry on a line; without `weak` only if it can be nothing else."""
    text = line.text
    if len(text) > _LONGEST_ENTRY:
        return None
    if "](#" in text and (match := _LINK.fullmatch(text)):
        title = f"{match['number']} {plain_title(match['title'])}".strip()
        return ContentsEntry((title,), _columns(match["indent"]), match["anchor"], strong=True)
    if text.rstrip()[-1:].isalnum() and (found := _before_page(_LEADERS, text)):
        indent, title = found
        if any(character.isalpha() for character in title):
            return ContentsEntry((title,), indent, "", strong=True)
    return next(_weak(line), None) if weak else None


def _weak(line: _Line) -> Iterator[ContentsEntry]:
    if found := _before_page(_SPACED, line.text):
        yield ContentsEntry((found[1],), found[0], "", strong=False)
    elif match := _ITEM.fullmatch(line.text):
        yield ContentsEntry((plain_title(match["title"]),), _columns(match["indent"]), "", strong=False)
    title = line.text.strip()
    says = numbered_title(title)
    without_page = _LAST_NUMBER.sub("", title)
    if (says.number and says.words) or (without_page != title and title[0].isupper()):
        titles = dict.fromkeys((without_page, title))
        yield ContentsEntry(tuple(titles), _columns(line.text[: -len(line.text.lstrip())]), "", strong=False)


def _before_page(gap: re.Pattern[str], text: str) -> tuple[int, str] | None:
    """Return the indent in columns and the title of a line that ends with such a gap and a page; None for others."""
    begins, ends = _BEGINNING.match(text), gap.search(text)
    if begins is None or ends is None or ends.start() <= begins.end():
        return None
    return _columns(begins["indent"]), plain_title(text[begins.end() : ends.start()])


def _columns(indent: str) -> int:
    return len(indent.expandtabs(4))


_MOST_TRIED = 8  # places that look like a table of contents; of these the first that fits is taken
_LONGEST = 200  # characters of a title in the text
_AROUND = 24  # places looked at for an entry before and after its own turn, among those of equal words
_NO_LETTERS = re.compile(r"[\W_]+")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsOutline:
    """Outline by a table of contents, with the entries that were found and those that were not.

    Attributes:
        sections: the outline; own spans tile the document.
        matched: of each entry found, what it says and the position of its section, in order.
        missing: the entries that name nothing in the text.
        start: where the first entry is printed.
        end: where the line after the last one begins.
    """

    sections: tuple[Section, ...]
    matched: tuple[tuple[str, int], ...]
    missing: tuple[str, ...]
    start: int
    end: int


def content_outline(document: Document, *, blocks: Sequence[Block] | None = None) -> tuple[Section, ...]:
    """Return the sections of a document: by its own table of contents where it has one, else by its headings.

    Args:
        document: its text is Markdown, or plain where `media_type` says so.
        blocks: what `blocks_of` gave for this document, where it was asked already.

    Source: content-aware chunking of MC-indexing (Dong et al., 2024), section 3.2.
    """
    blocks = blocks_of(document) if blocks is None else blocks
    found = outline_by_contents(document, blocks=blocks)
    return found.sections if found is not None else outline(document, blocks=blocks)


def outline_by_contents(
    document: Document, *, share: float = 0.5, blocks: Sequence[Block] | None = None
) -> ContentsOutline | None:
    """Return the outline that the document's table of contents gives, or None where it has none to trust.

    Each entry opens a section at the heading, or the bare line, that it names; its level
    follows from the indentation and the numbers of the entries. Headings that the table does not list stay, below
    the entry before them, so that the smallest division is never lost. Lines inside the table itself
    are no headings. See `contents_entries.printed_contents` for what is taken for a table of contents and
    `align` for how its entries are found.

    Args:
        document: its text is Markdown, or plain where `media_type` says so.
        share: of the entries that must be found, in (0, 1]; with fewer it is a list of something else, or of
            another document.
        blocks: what `blocks_of` gave for this document, where it was asked already.

    Raises:
        ParameterError: `share` is out of range.
    """
    if not 0 < share <= 1:
        raise ParameterError("share", share, "a number in (0, 1]")
    blocks = blocks_of(document) if blocks is None else blocks
    text = document.text
    known = headings_of(text, blocks)
    for printed in printed_contents(text, blocks)[:_MOST_TRIED]:
        headings = [heading for heading in known if not printed.start <= heading.start < printed.end]
        aligned = align(text, blocks, headings, printed, document.media_type)
        if len(aligned) < share * len(printed.entries):
            continue
        levelled = _levelled(headings, printed.entries, aligned)
        sections = tree_of(document, levelled)
        at = {section.start: section.position for section in sections}
        at |= {levelled[0].start: 0} if sections[0].level else {}  # blank lines before it are its own
        return ContentsOutline(
            sections=sections,
            matched=tuple((printed.entries[i].titles[0], at[aligned[i].heading.start]) for i in sorted(aligned)),
            missing=tuple(entry.titles[0] for i, entry in enumerate(printed.entries) if i not in aligned),
            start=printed.start,
            end=printed.end,
        )
    return None


def _levelled(
    headings: Sequence[SectionHeading], entries: Sequence[ContentsEntry], aligned: Aligned
) -> list[SectionHeading]:
    """Return all headings in order, with the levels that the table of contents gives them.

    A level of the table becomes one of the text by a constant, so that headings above the first entries
    (the title of the document) stay above them.
    """
    depths = _depths(entries)
    named = {aligned[i].heading.start: (aligned[i].heading, depths[i]) for i in aligned}
    merged = sorted({**{h.start: h for h in headings}, **{start: pair[0] for start, pair in named.items()}}.items())
    pairs = [(heading.level, depth) for heading, depth in named.values() if heading.level and depth]
    shift = _shift(pairs, [heading for _, heading in merged], named)
    usual: dict[int, set[int]] = defaultdict(set)  # what the levels of headings are in the table
    for level, depth in pairs:
        usual[level].add(depth + shift)
    levels: list[SectionHeading] = []
    entry: tuple[int, int, NumberedTitle] | None = None  # own level, level given and number of the entry above
    for start, heading in merged:
        says = numbered_title(heading.title)
        if start in named:
            depth = named[start][1]
            own = usual.get(heading.level, set()) if heading.level else {1 + shift}
            level = depth + shift if depth else min(own) if len(own) == 1 else heading.level
            entry = (heading.level, level, says)
        else:
            level = _unlisted(heading.level, says, entry, usual)
        levels.append(heading._replace(level=level))
    return levels


def _shift(
    pairs: Sequence[tuple[int, int]],
    merged: Sequence[SectionHeading],
    named: Mapping[int, tuple[SectionHeading, int]],
) -> int:
    """Return the number of levels of the text above the first level of the table."""
    if pairs:
        top = min(depth for _, depth in pairs)
        return max(0, min(level for level, depth in pairs if depth == top) - top)
    before = 0
    for heading in merged:
        if heading.start in named:
            break
        before = max(before, heading.level)
    return before


def _unlisted(
    level: int, says: NumberedTitle, entry: tuple[int, int, NumberedTitle] | None, usual: Mapping[int, set[int]]
) -> int:
    """Return the level of a heading that the table does not list."""
    if entry is None:
        return level
    own, given, number = entry
    if number.number and len(says.number) > len(number.number) and says.number[: len(number.number)] == number.number:
        return given + len(says.number) - len(number.number)
    if len(usual.get(level, ())) == 1:
        return min(usual[level])
    if level in usual or not own:  # headings of one level for entries of several: they say nothing
        return given + 1
    return given + level - own if level > own else level


def _depths(entries: Sequence[ContentsEntry]) -> list[int]:
    """Return the depth of each entry, from 1; 0 where the table does not say."""
    says = [numbered_title(entry.titles[0]) for entry in entries]
    by_number = [len(one.number) and one.depth for one in says]
    if any(one.number and one.depth == 0 for one in says):  # parts are above chapters
        by_number = [depth + 1 if one.number else 0 for one, depth in zip(says, by_number, strict=True)]
    if len({entry.indent for entry in entries}) == 1:
        return by_number if max(by_number) > 1 else [0] * len(entries)
    by_indent = _nesting([entry.indent for entry in entries])
    both = Counter(indented - depth for indented, depth in zip(by_indent, by_number, strict=True) if depth)
    if not both:
        return by_indent
    usual = max(both, key=lambda difference: (both[difference], -abs(difference)))
    return [max(1, depth + usual) if depth else i for i, depth in zip(by_indent, by_number, strict=True)]


def _nesting(indents: Sequence[int]) -> list[int]:
    open_: list[int] = []
    depths: list[int] = []
    for indent in indents:
        while open_ and open_[-1] > indent:
            open_.pop()
        if not open_ or open_[-1] < indent:
            open_.append(indent)
        depths.append(len(open_))
    return depths


class _TitlePlace(NamedTuple):
    """A heading, or a line that may be one (level 0), and what it says."""

    heading: SectionHeading
    says: NumberedTitle
    alone: bool  # a paragraph of one line


Aligned = Mapping[int, _TitlePlace]  # by 0-based number of the entry


def align(
    text: str, blocks: Sequence[Block], headings: Sequence[SectionHeading], printed: PrintedContents, media_type: str
) -> Aligned:
    """Return the place of each entry that was found; places ascend as the entries do.

    An entry and a place fit when their words are the same, case and punctuation aside, and their numbers do not
    contradict each other; or when the entry's link names the heading. Of all assignments in order the one
    with the largest sum of weights is taken: a heading with the same number 8, a heading 6, another line with
    the same number 4, another line that is a paragraph of its own 2,
    a heading by its link 7. So an entry that is missing, or a title
    that is repeated in a page head, does not shift the others.

    Args:
        text: the whole text.
        blocks: its blocks.
        headings: those that are known.
        printed: the table of contents; places inside it do not count.
        media_type: of the document: in plain text any line may be a title.
    """
    wanted = {form.words for entry in printed.entries for title in entry.titles for form in _forms(title)}
    by_words: dict[tuple[str, ...], list[_TitlePlace]] = defaultdict(list)
    by_anchor: dict[str, list[_TitlePlace]] = defaultdict(list)
    known = {heading.start for heading in headings}
    places = [_TitlePlace(heading, numbered_title(heading.title), True) for heading in headings]
    ends = {_end(title) for entry in printed.entries for title in entry.titles}
    places += [place for place in _lines(text, blocks, media_type, ends) if place.heading.start not in known]
    for place in sorted(places, key=lambda place: place.heading.start):
        if printed.start <= place.heading.start < printed.end:
            continue
        for form in _forms_of(place.says):
            if form.words in wanted and place not in by_words[form.words][-1:]:
                by_words[form.words].append(place)
        if place.heading.level:
            # as code hosts have it
            anchor = _NOT_IN_ANCHORS.sub("", folded(place.heading.title)).strip().replace(" ", "-")
            by_anchor[anchor].append(place)
    turns: Counter[tuple[str, ...]] = Counter()
    rows: list[list[tuple[int, _TitlePlace]]] = []
    for entry in printed.entries:
        fitting = _fitting(entry, by_words, by_anchor, turns)
        rows.append(sorted(fitting, key=lambda pair: -pair[1].heading.start))
    return _best(rows)


def _lines(text: str, blocks: Sequence[Block], media_type: str, ends: Set[str]) -> Iterator[_TitlePlace]:
    """Yield the first lines of paragraphs and items, one to three, that end as a title does; in plain text any."""
    for block in blocks:
        if block.kind not in {"paragraph", "item"}:
            continue
        lines, starts = split_lines(text[block.start : block.end])
        stops = [offset + len(line) for line, offset in zip(lines, starts, strict=False)]
        for index in range(len(lines) if media_type == PLAIN else 1):
            for last, line in enumerate(lines[index : index + 3], index):
                start, end = block.start + starts[index], block.start + stops[last]
                if end - start <= _LONGEST and _end(line) in ends:
                    title = plain_title(" ".join(lines[index : last + 1]))
                    heading = SectionHeading(start, next_line(text, end), 0, title)
                    whole = block.kind == "paragraph" and (start, end) == (block.start, block.end)
                    yield _TitlePlace(heading, numbered_title(title), whole)


def _end(title: str) -> str:
    """Return the last letters of a title: comparing them first spares reading most lines."""
    return _NO_LETTERS.sub("", folded(title[-40:]))[-3:]


def _forms(title: str) -> Iterator[NumberedTitle]:
    return _forms_of(numbered_title(title))


def _forms_of(says: NumberedTitle) -> Iterator[NumberedTitle]:
    """Yield a title as read, and with a leading single letter taken for its number ("A Tables")."""
    yield says
    letter, rest = "".join(says.words[:1]), says.words[1:]
    if rest and not says.number and len(letter) == 1 and letter.isalpha():
        yield says._replace(number=(letter.upper(),), words=rest)


def _fitting(
    entry: ContentsEntry,
    by_words: Mapping[tuple[str, ...], Sequence[_TitlePlace]],
    by_anchor: Mapping[str, Sequence[_TitlePlace]],
    turns: Counter[tuple[str, ...]],
) -> list[tuple[int, _TitlePlace]]:
    """Return the places that fit an entry with their weights, one per place.

    Of many with equal words only those around the entry's own turn among equal entries are looked at, so that
    a title repeated everywhere costs no square.
    """
    weights: dict[int, tuple[int, _TitlePlace]] = {}
    forms = {form for title in entry.titles for form in _forms(title)}
    for form in sorted(forms):
        turn = turns[form.words]
        for place in by_words.get(form.words, ())[max(0, turn - _AROUND) : turn + _AROUND]:
            _keep(weights, max((_weight(form, says, place) for says in _forms_of(place.says)), default=0), place)
    for place in by_anchor.get(entry.anchor.lower(), ())[:_AROUND] if entry.anchor else ():
        _keep(weights, 7, place)
    turns.update({form.words for form in forms})
    return list(weights.values())


def _keep(weights: dict[int, tuple[int, _TitlePlace]], weight: int, place: _TitlePlace) -> None:
    start = place.heading.start
    if weight > weights.get(start, (0, place))[0]:
        weights[start] = (weight, place)


def _weight(entry: NumberedTitle, says: NumberedTitle, place: _TitlePlace) -> int:
    if entry.words != says.words or (entry.number and says.number and entry.number != says.number):
        return 0
    if not (entry.words or entry.number == says.number):
        return 0
    same_number = bool(entry.number) and entry.number == says.number
    if place.heading.level:
        return 8 if same_number else 6
    if same_number:
        return 4
    return 2 if place.alone else 0


class _Chosen(NamedTuple):
    """Last link of a chain of assignments."""

    total: int
    entry: int
    place: _TitlePlace
    before: _Chosen | None


def _best(fitting: Sequence[Sequence[tuple[int, _TitlePlace]]]) -> Aligned:
    """Return the heaviest ascending assignment; of equal ones the one that ends earliest in the text.

    Of all chains those are kept that are heavier than any that ends before them. The places of one entry come last
    first: none can follow another of its own.
    """
    chains: list[_Chosen] = []  # where they end ascends, as their weights do
    for entry, row in enumerate(fitting):
        for weight, place in row:
            at = bisect_left(chains, place.heading.start, key=_end_of)
            before = chains[at - 1] if at else None
            chain = _Chosen((before.total if before else 0) + weight, entry, place, before)
            last = at
            while last < len(chains) and chains[last].total <= chain.total:
                last += 1
            if last > at or at == len(chains) or _end_of(chains[at]) > _end_of(chain):
                chains[at:last] = [chain]
    found: dict[int, _TitlePlace] = {}
    chosen = chains[-1] if chains else None
    while chosen is not None:
        found[chosen.entry] = chosen.place
        chosen = chosen.before
    return found


def _end_of(chain: _Chosen) -> int:
    return chain.place.heading.start
