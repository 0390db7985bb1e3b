"""Read the text of chunks: sentences, words and terms, and those that stand for the rest or tell it apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import log

from catena.model import Chunk
from catena.text.words import UNSPACED, folded, same_words, sentence_ends, tokenise

_COMMON = 0.5  # share of a document's chunks; what more of them hold tells none from the others
SHORTEST = 20  # characters of a sentence that says something; one of a script without spaces counts twice
UNSPACED_LETTER = re.compile(f"[{UNSPACED}]")
_FENCE = re.compile(r"[ \t]{0,3}(```|~~~)")
_NO_PROSE = re.compile(r"[ \t]*+(?:#{1,6}(?:\s|\Z)|\||<|!\[|=++\s.*\s=+\s*+\Z|[-=*_|:+\s]++\Z)")
_LED_TO_PAGE = re.compile(r"(?<!\.)(?<!\.\s)\.(?:\s?\.){3,}+\s*+\d++\s*+\Z")
_ITEM = re.compile(r"[ \t]*+(?:[-+*•]|\d{1,9}[.)])[ \t]+")
_ENDS = re.compile(r"[.!?…。！？।؟۔][\"'”’»)\]*_」』）】]*\Z")


def count_words(text: str) -> int:
    """Return the number of words between white space; of a script without spaces, two characters are one word."""
    return sum(max(1, -(-len(UNSPACED_LETTER.findall(word)) // 2)) for word in text.split())


def running_sentences(chunk: Chunk) -> tuple[str, ...]:
    """Return the sentences in paragraphs and list items of a chunk, white space as single spaces, none twice.

    Left out are the chunk's heading, other headings, rows of tables, code, HTML, pictures, lines of a table of
    contents, and what is shorter than 20 characters. Where there are sentences that end with their mark, the others,
    such as labels, are left out too.
    """
    sentences = (each for paragraph in _paragraphs(chunk) for each in _sentences(paragraph))
    found = dict.fromkeys(each for each in sentences if len(each) + len(UNSPACED_LETTER.findall(each)) >= SHORTEST)
    return tuple(sentence for sentence in found if _ENDS.search(sentence)) or tuple(found)


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


_BREAK = re.compile(
    r"['\u2019\u02bc]\w{1,2}(?!\w)|\s[-\u2013\u2014]+\s"  # the "'s" of a name; a dash between clauses
    r"|(?:(?<!\d)|(?=.(?!\d)))"  # the mark of a decimal number breaks nothing
    r"[!-,./:-@\[-^`{-~\u00a1-\u00bf\u2010-\u2027\u2030-\u205e\u3001-\u3003\u3008-\u301f"
    r"\uff01-\uff0f\uff1a-\uff20\u061b\u060c\u061f\u0964\u0965\u06d4]+"
)
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")


def sentences_of(text: str) -> Iterator[str]:
    """Yield the sentences of each line; a row of a table is one, too."""
    for line in text.splitlines():
        for start, end in pairwise([0, *sentence_ends(line, 0, len(line)), len(line)]):
            if line[start:end].strip():
                yield line[start:end]


def terms_of(sentence: str) -> Iterator[str]:
    """Yield the words and pairs of neighbouring words that hold a letter, folded, repetitions kept.

    Pairs run over no punctuation. A script without spaces gives each two neighbouring characters. A letter alone is
    no word, but may be in a pair ("vitamin c").
    """
    for piece in _BREAK.split(folded(sentence)):
        if not _UNSPACED_RUN.search(piece):
            yield from _pairs_of(tokenise(piece))
            continue
        run: list[str] = []
        for word in piece.split():
            if _UNSPACED_RUN.search(word):
                yield from _pairs_of(run)
                run = []
                yield from (found for found in tokenise(word) if len(found) > 1 or found == word)
            else:
                run += tokenise(word)
        yield from _pairs_of(run)


def _pairs_of(run: Sequence[str]) -> Iterator[str]:
    singles = (word for word in run if len(word) > 1)
    pairs = (f"{one} {other}" for one, other in pairwise(run))
    yield from (term for term in (*singles, *pairs) if any(map(str.isalpha, term)))


def covering_sentences(texts: Sequence[str], *, sentences: int, words: int) -> tuple[int, ...]:
    """Return the places of sentences that together hold what all of them say most often, ascending.

    One after the other, of those for which there is room, the sentence with the greatest `sum of n(t) / words` over
    its terms t that no sentence taken holds is taken; n(t) is the number of places of t in all of them. Of equal
    sentences the first.

    Args:
        texts: the sentences, in reading order.
        sentences: at most so many.
        words: at most so many in all.

    Returns:
        Places from 0; () where no sentence is short enough.

    Source: coverage of concepts, Gillick and Favre 2009, W09-1802, by the greedy rule of Khuller, Moss and Naor 1999,
        doi:10.1016/S0020-0190(99)00031-9.
    """
    terms = [tuple(terms_of(text)) for text in texts]
    weights = Counter(term for of_text in terms for term in of_text)
    new = [dict.fromkeys(of_text) for of_text in terms]
    sizes = [count_words(text) for text in texts]
    chosen: list[int] = []
    open_places = [place for place, size in enumerate(sizes) if size]
    while len(chosen) < sentences and (fit := [place for place in open_places if sizes[place] <= words]):
        worth = {place: sum(weights[term] for term in new[place]) for place in fit}
        best = max(fit, key=lambda place: (Fraction(worth[place], sizes[place]), -place))
        chosen.append(best)
        words -= sizes[best]
        taken = new[best].keys()
        open_places = [place for place in fit if place != best]
        new = [{term: None for term in of_text if term not in taken} for of_text in new]
    return tuple(sorted(chosen))


def within(terms: Sequence[str], words: int) -> tuple[str, ...]:
    """Return the terms from the first on, up to the one that would pass the number of words."""
    kept: list[str] = []
    for term in terms:
        words -= count_words(term)
        if words < 0:
            break
        kept.append(term)
    return tuple(kept)


def salient_terms(texts: Sequence[str], *, words: int) -> tuple[tuple[str, ...], ...]:
    """Return per text the words and pairs of words that stand out in it, best first and folded.

    `score(t, text) = n(t, text) * log((S + 1) / (s(t) + 1/2))`, with n the number of places of t in the text, S that
    of the sentences of all texts and s(t) that of those which hold t. Terms are those of `terms_of`. Left out is what
    more than half of the texts hold, and more than two of them. Of equal terms the first in the text is first.

    Args:
        texts: of the chunks of one document.
        words: at most so many per text.

    Source: TF-IDF (Spärck Jones 1972) over sentences, so that a document of one chunk has an idf too; decision 25.
    """
    sentences = [[list(terms_of(sentence)) for sentence in sentences_of(text)] for text in texts]
    counts = [Counter(term for terms in of_text for term in terms) for of_text in sentences]
    holding = Counter(term for of_text in sentences for terms in of_text for term in set(terms))
    spread = Counter(term for of_text in counts for term in of_text)
    total = sum(map(len, sentences))
    most = max(2, _COMMON * len(texts))
    lists = []
    for of_text in counts:
        score = {
            term: round(times * log((total + 1) / (holding[term] + 0.5)), 9)  # rounded: ties stay ties
            for term, times in of_text.items()
            if spread[term] <= most
        }
        lists.append(within(sorted(score, key=lambda term: -score[term]), words))
    return tuple(lists)
