"""Which lines go on with the one before them, and what stands between the two once they are joined."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from catena.formatting.rows import Measures, Row
from catena.formatting.words import SOFT_HYPHEN, first_word_width, has_leader, is_caption, is_cjk

_MAX_GAP = 1.35  # usual line distances between two lines of one paragraph
_SENTENCE_END = re.compile(r"[.!?:。！？：][\"'”’»)\]]*$")
_HYPHENATED = re.compile(r"\b\w+(?:[-‐]\w+)+\b")
_BROKEN = re.compile(r"(?P<stem>[^\W\d_]+)[-‐]$")
_WORD = re.compile(r"[^\W\d_]+")
_URL_END = re.compile(r"(?:https?://|www\.)\S*[/_?&=.-]$")


class Compounds:
    """How often the words of a file stand with and without a hyphen inside its lines."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._compounds: Counter[str] = Counter()
        self._words: Counter[str] = Counter()
        for line in lines:
            low = line.casefold()
            self._compounds.update(word.replace("‐", "-") for word in _HYPHENATED.findall(low))
            self._words.update(_WORD.findall(low))

    def keeps_hyphen(self, stem: str, rest: str) -> bool:
        """Whether "stem-" at a line's end and "rest" on the next are a compound rather than one divided word."""
        compound, word = f"{stem}-{rest}".casefold(), f"{stem}{rest}".casefold()
        if self._compounds[compound] != self._words[word]:
            return self._compounds[compound] > self._words[word]
        return len(stem) == 1 or not stem[1:].islower()


def glue(above: str, below: str, compounds: Compounds) -> tuple[str, str]:
    """Return the first text without its hyphen, if it divides a word, and what joins the two texts.

    A hyphen is undone before a lower-case letter only: "HX-" and "200" are a product, "e-" and "mail" a word.
    """
    if above.endswith(SOFT_HYPHEN):
        return above.rstrip(SOFT_HYPHEN), ""
    broken, word = _BROKEN.search(above), _WORD.match(below)
    if broken and not above[: broken.start()].endswith(("-", "‐")) and word and word.group()[0].islower():
        rest = word.group()
        hyphenated = below[word.end() :].startswith(("-", "‐"))  # "state-of-" + "the-art"
        if hyphenated and below[word.end() + 1 : word.end() + 2].isalpha():
            return above, ""
        return (above, "") if compounds.keeps_hyphen(broken.group("stem"), rest) else (above[:-1], "")
    if re.search(r"\w[-‐/]$", above) and below[:1].isalnum() and not re.search(r"\d[-‐]$", above):
        return above, ""
    if re.search(r"\w[-‐]$", above) and below[:1].isalnum():
        return above, ""
    if _URL_END.search(above) or (is_cjk(above[-1:] or " ") and is_cjk(below[:1] or " ")):
        return above, ""
    return above, " "


def continues(rows: Sequence[Row], block: Sequence[int], index: int, measures: Measures, hang: float | None) -> bool:
    """Whether a line goes on with a paragraph or an item.

    Args:
        rows: all lines.
        block: indexes of the lines that the paragraph has so far, the last one nearest.
        index: of the line in question.
        measures: the type of the file.
        hang: where the text of an item begins, from the left edge of its column in points; None in a paragraph.
    """
    above, below = rows[block[-1]], rows[index]
    if has_leader(above.text):
        return False
    if abs(above.size - below.size) > 0.08 * max(above.size, below.size) or measures.emphatic(above) != (
        measures.emphatic(below)
    ):
        return _inline(above, below, measures)
    if above.block == below.block and measures.gap(above, below) > -0.3:
        return _continues_below(rows, block, index, measures, hang)
    return _continues_elsewhere(above, below, measures, hang)


def _inline(above: Row, below: Row, measures: Measures) -> bool:
    """Whether two lines of unlike size or weight are one sentence: close, filled, and from the same edge."""
    if above.block != below.block or not -0.3 < measures.gap(above, below) <= 1.1:
        return False
    right = measures.edges_at(above)[1]
    alike = abs(above.size - below.size) <= 0.08 * max(above.size, below.size)
    return alike and abs(above.line.x0 - below.line.x0) < 2 and _filled(above, below, right)


def _continues_below(
    rows: Sequence[Row], block: Sequence[int], index: int, measures: Measures, hang: float | None
) -> bool:
    above, below = rows[block[-1]], rows[index]
    gap = measures.gap(above, below)
    if abs(gap) < 0.3:
        return True  # parts of one printed line, such as an exponent
    if gap > _MAX_GAP:
        return False
    if _divided(above.text) and below.text[:1].islower():
        return True
    if not _filled(above, below, _right(rows, block, index, measures)):
        return False
    if is_caption(below.text) and gap > 1.1:
        return False
    shift = (below.line.x0 - above.line.x0) / max(1.0, above.size)
    if shift > 0.5:
        hangs = hang is not None and abs(below.line.x0 - measures.edges_at(below)[0] - hang) < above.size
        return len(block) == 1 and (hangs or not _SENTENCE_END.search(above.text))
    if shift < -0.5:
        return len(block) == 1 and hang is None
    return True


def _continues_elsewhere(above: Row, below: Row, measures: Measures, hang: float | None) -> bool:
    """Whether a paragraph goes on in the next column or on the next page."""
    if below.page - above.page > 1 or is_caption(below.text):
        return False
    low = below.text[:1].islower()
    if _divided(above.text) and low:
        return True
    left, right = measures.edges_at(above)
    start = below.line.x0 - measures.edges_at(below)[0]
    place = hang if hang is not None else min(above.line.x0 - left, 0.5 * above.size)
    if abs(start - place) > 0.8 * below.size or not _filled(above, below, right):
        return False
    return low or not _SENTENCE_END.search(above.text)


def _divided(text: str) -> bool:
    return text.endswith(SOFT_HYPHEN) or bool(_BROKEN.search(text))


def _filled(above: Row, below: Row, right: float) -> bool:
    """Whether the first word of a line would not have fitted on the line before it."""
    space = 0.2 * above.size
    return above.line.x1 + space + first_word_width(below.line) >= right - 0.3 * above.size


def _right(rows: Sequence[Row], block: Sequence[int], index: int, measures: Measures) -> float:
    """Return the right edge of the lines around: an indented quotation or an item may be narrower than its column."""
    above = rows[block[-1]]
    column = measures.edges_at(above)[1]
    near = [rows[i] for i in block[-4:]]
    for position in range(index, min(index + 3, len(rows))):
        row = rows[position]
        gap = measures.gap(near[-1], row)
        if row.block != above.block or not -0.3 < gap <= _MAX_GAP or abs(row.size - above.size) > 1:
            break
        near.append(row)
    widest = max(row.line.x1 for row in near)
    return min(column, widest) if len(near) > 2 else column
