"""Where sentences end, in any language, without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator

# a run of marks is tried once, at its first: else a line of dots takes quadratic time
_END = re.compile(r"(?<![.!?])[.!?]++[\"'”’»)\]*_]*(?=\s)|[。！？；…．]+[”’」』）】]*|(?<![؟۔।])[؟۔।]++(?=\s)")
_WORD_BEFORE = re.compile(r"[\w.]{1,12}\Z")
_ABBREVIATION = re.compile(
    r"al|approx|art|bzw|ca|cf|chs?|co|corp|dept|dr|e\.g|eg|eqs?|etc|exs?|figs?|i\.e|ie|inc|jr|ltd|max|min|mr|mrs|ms|"
    r"nos?|pp?|prof|refs?|resp|secs?|sr|st|tab|u\.s|usw|vol|vs|z\.b"
)


def sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield where sentences of [start, end) end, white space after them included, the last one excluded.

    A full stop ends no sentence after a known abbreviation, an initial ("J.") or a bare number at the
    start of its line ("3."), nor before a lower-case letter. CJK marks end one without a space.

    Args:
        text: the whole text; the offsets refer to it.
        start: first character looked at.
        end: one after the last.

    Yields:
        Ascending offsets strictly between start and end.
    """
    for match in _END.finditer(text, start, end):
        after = match.end()
        while after < end and text[after].isspace():
            after += 1
        if after < end and not (match.group()[0] == "." and _is_no_stop(text, start, match.start(), after)):
            yield after


def _is_no_stop(text: str, start: int, stop: int, after: int) -> bool:
    if text[after].islower():
        return True
    found = _WORD_BEFORE.search(text, max(start, stop - 12), stop)
    word = found.group().lower() if found else ""
    line_begins = found is not None and text[max(start, stop - 24) : found.start()].rpartition("\n")[2].strip() == ""
    return (
        bool(_ABBREVIATION.fullmatch(word)) or (len(word) == 1 and word.isalpha()) or (word.isdigit() and line_begins)
    )
