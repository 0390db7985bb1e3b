"""The terms in a text by which views are made offline: words and pairs of words, in any language, with no list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from catena.text.sentences import sentence_ends
from catena.text.words import UNSPACED, folded, tokenise

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
