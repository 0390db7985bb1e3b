"""A token count that needs no vocabulary: deterministic, offline, near what subword encoders count."""

from __future__ import annotations

import re

CJK = (
    "\u1100-\u11ff\u2e80-\u303f\u3040-\u30ff\u3100-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""The scripts written without spaces whose every character is about one token, as a regex class."""

_CHARACTERS_PER_TOKEN = 6  # of a word: ordinary words are one token, long or coded ones several

_PIECES = re.compile(rf"([^\W_{CJK}]+)|[{CJK}]|[^\w\s]|_")
_MARKS = bytes(code for code in range(128) if not chr(code).isalnum() and not chr(code).isspace())
_NOT_ALNUM = bytes(code for code in range(128) if not chr(code).isalnum())
_SPACED = bytes(code if chr(code).isalnum() else 32 for code in range(256))


def count_tokens(text: str) -> int:
    """Return the approximate number of subword tokens of the text.

    `tokens = marks + CJK characters + max(words, ceil(characters of words / 6))`, where a word is a run of
    letters and digits of other scripts and a mark any other character but white space. It is subadditive:
    two texts joined never count more than their sum.

    Args:
        text: any text.

    Returns:
        A number >= 0; 0 only for white space.
    """
    if text.isascii():
        raw = text.encode()
        words = len(raw.translate(_SPACED).split())
        letters = len(raw.translate(None, _NOT_ALNUM))
        marks = len(raw) - len(raw.translate(None, _MARKS))
    else:
        found = _PIECES.findall(text)
        lengths = [len(word) for word in found if word]
        words, letters, marks = len(lengths), sum(lengths), len(found) - len(lengths)
    return marks + max(words, -(-letters // _CHARACTERS_PER_TOKEN))
