"""Find the tables of contents that a document prints, and read their entries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from catena.structure.blocks import Block, split_lines
from catena.text.headings import numbered_title, plain_title
from catena.text.words import folded

FEWEST = 3  # entries of a table of contents

_LONGEST = 300  # characters of an entry's line
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
    lines = _lines(text, blocks)
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


def _lines(text: str, blocks: Sequence[Block]) -> list[_Line]:
    texts, starts = split_lines(text)
    lines: list[_Line] = []
    at = 0
    for line, start in zip(texts, starts, strict=False):
        while at < len(blocks) and blocks[at].end < start + 1:
            at += 1
        inside = at < len(blocks) and blocks[at].start <= start + len(line) and bool(line.strip())
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
    if len(text) > _LONGEST:
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
        titles = (without_page, title) if without_page != title else (title,)
        yield ContentsEntry(titles, _columns(line.text[: -len(line.text.lstrip())]), "", strong=False)


def _before_page(gap: re.Pattern[str], text: str) -> tuple[int, str] | None:
    """Return the indent in columns and the title of a line that ends with such a gap and a page; None for others."""
    begins, ends = _BEGINNING.match(text), gap.search(text)
    if begins is None or ends is None or ends.start() <= begins.end():
        return None
    return _columns(begins["indent"]), plain_title(text[begins.end() : ends.start()])


def _columns(indent: str) -> int:
    return len(indent.expandtabs(4))
