"""The phrases that a text prints of what it is about: names, codes and salient words, in any language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from catena.text import normalise_term

COUNT = 5
"""Keywords of a chunk, as IIER has them."""

MOST_NAMES = 64
"""Names that are kept of one chunk."""

_WORD = re.compile(r"[^\W_]\w*(?:['’./&+\-]\w+)*")


def keywords_of(text: str, *, count: int = COUNT, but: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the phrases that say best what a text is about, normalised, best first."""
    left_out = {normalise_term(title) for title in but}
    counts = Counter(normalise_term(phrase) for phrase in named_phrases(text))
    kept = [term for term in counts if term and term not in left_out]
    return tuple(sorted(kept, key=lambda term: -counts[term])[:count])


def names_in(text: str, *, titles: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names that titles and a text print, normalised, in order of place."""
    names = [*map(normalise_term, titles), *map(normalise_term, named_phrases(text))]
    return tuple(dict.fromkeys(filter(None, names)))[:MOST_NAMES]


def named_phrases(text: str) -> Iterator[str]:
    """Yield the runs of capitalised words, numbers and codes, as printed, in order."""
    start, end = -1, -1
    for match in _WORD.finditer(text):
        word = match.group()
        named = word[0].isupper() or word[0].isdigit()
        joined = end >= 0 and text[end : match.start()].strip(" ") == ""
        if named and joined:
            end = match.end()
        elif named:
            if end >= 0:
                yield text[start:end]
            start, end = match.span()
        elif end >= 0:
            yield text[start:end]
            start, end = -1, -1
    if end >= 0:
        yield text[start:end]
