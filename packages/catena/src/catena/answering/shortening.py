"""A segment that is too long, without its end: at the end of a line or of a sentence, still an exact slice."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from catena.model import Segment
from catena.model.ids import span_id

# the end of a line, of a sentence before a capital, of one in a script without capitals
_BORDER = re.compile(r"\n+|(?<=\w\w)[.!?][\"'”’»)]*[^\S\n]+(?=[^\W\d_])|[。！？]+[”’」』）】]*")


def shortened(segment: Segment, fits: Callable[[Segment], bool]) -> Segment | None:
    """Return the longest beginning of a segment, up to one of its borders, that fits; None where none does.

    A segment of n borders is tried about log2(n) times: it is taken for granted that less fits where more does.
    """
    text = segment.text
    ends = [match.end() for match in _BORDER.finditer(text) if _is_end(text, match)]
    ends = [end for end in ends if text[:end].strip() and text[end:].strip()]
    low, best = 0, None
    high = len(ends)
    while low < high:
        middle = (low + high) // 2
        candidate = beginning(segment, ends[middle])
        if fits(candidate):
            best, low = candidate, middle + 1
        else:
            high = middle
    return best


def beginning(segment: Segment, length: int) -> Segment:
    """Return the first `length` characters of a segment, with the lines that they stand in.

    Pages stay those of the whole segment: where one ends is not known here. So do its chunks.
    """
    text = segment.text[:length]
    lines = segment.lines and (segment.lines[0], segment.lines[0] + text.count("\n", 0, max(0, length - 1)))
    return replace(
        segment,
        id=span_id(segment.document_id, "passage", segment.start, segment.start + length),
        end=segment.start + length,
        text=text,
        lines=lines,
    )


def _is_end(text: str, match: re.Match[str]) -> bool:
    """Return whether a full stop ends a sentence: the next begins with a capital, or has none."""
    after = text[match.end() : match.end() + 1]
    return match.group()[0] not in ".!?" or not after.islower()
