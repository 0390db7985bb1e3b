"""What a hit shows before it is opened: the rows of its table that match, and the words around what was asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from itertools import groupby
from typing import Final

from catena.report.values import Preview
from catena.retrieval.question_words import content_words
from catena.text.cells import cells_of, is_rule
from catena.text.words import tokenise, word_key

_ROWS: Final = 3  # of a table, below its header
_LETTERS: Final = 360  # of running text
_BEFORE: Final = 80  # letters before the first matching word, at most
_HEADINGS: Final = re.compile(r"\A(#{1,6} .*\n*)+")  # the citation says them
_SENTENCE: Final = re.compile(r"[.!?]\s+|\n+")  # the end of one
_WORD: Final = re.compile(r"[^\W_][\w.\-]*")


def preview_of(text: str, question: str) -> Preview:
    """Return what a passage shows of itself to someone who asked a question.

    Args:
        text: Markdown of a chunk.
        question: as typed; its small words do not count.

    Returns:
        The rows of the first table that says most of the question, or its first rows where none says any of it, and
        the part of the other text that says most of its words.
    """
    stripped = text.strip()
    body = _HEADINGS.sub("", stripped).strip() or stripped
    keys = _keys(content_words(question))
    tables, lines = [], []
    for is_table, block in groupby(body.split("\n"), key=lambda line: line.lstrip().startswith("|")):
        kept = list(block)
        if is_table and len(kept) > 1 and is_rule(kept[1].strip()):
            tables.append(kept)
        else:
            lines += kept
    best = max(tables, key=lambda table: len(keys & _keys(tokenise("\n".join(table)))), default=[])
    rows = [cells_of(line) for line in best if not is_rule(line.strip())]
    chosen = _rows_that_match(rows[1:], keys)
    return Preview(
        header=rows[0] if rows else (),
        rows=chosen,
        more=len(rows) - 1 - len(chosen) if rows else 0,
        text=_around("\n".join(lines).strip(), keys),
    )


def _rows_that_match(rows: Sequence[tuple[str, ...]], keys: Set[str]) -> tuple[tuple[str, ...], ...]:
    """Return the rows that say most of some words, in their order; the first ones where none says any."""
    said = [len(keys & _keys(tokenise(" ".join(row)))) for row in rows]
    places = sorted(range(len(rows)), key=lambda place: (-said[place], place))[:_ROWS]
    return tuple(rows[place] for place in sorted(places) if said[place] or not any(said))


def _around(text: str, keys: Set[str]) -> str:
    """Return the part of a text that says most of some words, the first of equals; its start where none is said."""
    if len(text) <= _LETTERS:
        return text
    found = [(word.start(), keys & _keys(tokenise(word[0]))) for word in _WORD.finditer(text)]
    places = [(start, said) for start, said in found if said]
    best, most = 0, 0
    for number, (start, _) in enumerate(places):
        within = [said for place, said in places[number:] if place < start + _LETTERS - _BEFORE]
        count = len(frozenset[str]().union(*within))
        if count > most:
            best, most = start, count
    first = _start_before(text, best)
    cut = text[first : first + _LETTERS]
    after = first + _LETTERS < len(text)
    if after and " " in cut:
        cut = cut[: cut.rindex(" ")]
    return f"{'… ' if first else ''}{cut.strip()}{' …' if after else ''}"


def _start_before(text: str, place: int) -> int:
    """Return where to begin so that a word is read in its sentence, or not far into it."""
    earliest = max(0, place - _BEFORE)
    if not earliest:
        return 0
    before = text[earliest:place]
    ends = [end.end() for end in _SENTENCE.finditer(before)] or [end.end() for end in re.finditer(r"\s", before)][:1]
    return earliest + (ends[-1] if ends else 0)


def _keys(words: Iterable[str]) -> frozenset[str]:
    """Return words as the graph counts them, so that most forms of a word are one."""
    return frozenset(map(word_key, words))
