"""The running text of a chunk, sentence by sentence, and how many words a text has: what views are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from catena.model import Chunk
from catena.text.sentences import sentence_ends
from catena.text.words import UNSPACED, same_words

SHORTEST = 20  # characters of a sentence that says something; one of a script without spaces counts twice
_UNSPACED = re.compile(f"[{UNSPACED}]")
_FENCE = re.compile(r"[ \t]{0,3}(```|~~~)")
_NO_PROSE = re.compile(r"[ \t]*+(?:#{1,6}(?:\s|\Z)|\||<|!\[|=++\s.*\s=+\s*+\Z|[-=*_|:+\s]++\Z)")
_LED_TO_PAGE = re.compile(r"(?<!\.)(?<!\.\s)\.(?:\s?\.){3,}+\s*+\d++\s*+\Z")
_ITEM = re.compile(r"[ \t]*+(?:[-+*•]|\d{1,9}[.)])[ \t]+")
_ENDS = re.compile(r"[.!?…。！？।؟۔][\"'”’»)\]*_」』）】]*\Z")


def count_words(text: str) -> int:
    """Return the number of words between white space; of a script without spaces, two characters are one word."""
    return sum(max(1, -(-len(_UNSPACED.findall(word)) // 2)) for word in text.split())


def running_sentences(chunk: Chunk) -> tuple[str, ...]:
    """Return the sentences in paragraphs and list items of a chunk, white space as single spaces, none twice.

    Left out are the chunk's heading, other headings, rows of tables, code, HTML, pictures, lines of a table of
    contents, and what is shorter than 20 characters. Where there are sentences that end with their mark, the others,
    such as labels, are left out too.
    """
    found = dict.fromkeys(
        sentence
        for paragraph in _paragraphs(chunk)
        for sentence in _sentences(paragraph)
        if len(sentence) + len(_UNSPACED.findall(sentence)) >= SHORTEST
    )
    whole = tuple(sentence for sentence in found if _ENDS.search(sentence))
    return whole or tuple(found)


def _paragraphs(chunk: Chunk) -> Iterator[str]:
    """Yield paragraphs and list items: lines of running text up to the next blank line, item or other line."""
    lines: list[str] = []
    fenced = False
    heading = chunk.path[-1] if chunk.path else ""
    for number, line in enumerate(chunk.text.splitlines()):
        fence = bool(_FENCE.match(line))
        is_heading = number == 0 and bool(heading) and same_words(line, heading)
        if fence or fenced or is_heading or not line.strip() or _is_no_prose(line) or _ITEM.match(line):
            yield " ".join(lines)
            lines = []
        fenced ^= fence
        item = _ITEM.match(line)
        if not (fence or fenced or is_heading or _is_no_prose(line)):
            lines.append(line[item.end() :] if item else line)
    yield " ".join(lines)


def _sentences(paragraph: str) -> list[str]:
    text = " ".join(paragraph.split())
    ends = [0, *sentence_ends(text, 0, len(text)), len(text)]
    return [text[start:end].strip() for start, end in pairwise(ends)]


def _is_no_prose(line: str) -> bool:
    return _NO_PROSE.match(line) is not None or _LED_TO_PAGE.search(line) is not None
