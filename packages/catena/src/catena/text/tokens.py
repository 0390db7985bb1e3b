"""A token count that needs no vocabulary: deterministic, offline, near what subword encoders count."""

from __future__ import annotations

import re

CJK = (
    "\u1100-\u11ff\u2e80-\u303f\u3040-\u30ff\u3100-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""The scripts written without spaces whose every character is about one token, as a regex class."""

_CHARACTERS_PER_TOKEN = 6  # of a word: ordinary words are one token, long or coded ones several

_CJK = re.compile(f"[{CJK}]")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_MARKS = bytes(code for code in range(128) if not chr(code).isalnum() and not chr(code).isspace())
_NOT_ALNUM = bytes(code for code in range(128) if not chr(code).isalnum())
_SPACED = bytes(code if chr(code).isalnum() else ord(" ") for code in range(256))


class _AsciiTwins(dict[int, str]):
    """What each other character counts as: a letter, a mark (CJK characters too) or a space."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        twin = "a" if character.isalnum() and not _CJK.match(character) else "#"
        self[code] = " " if character.isspace() else twin
        return self[code]


_TWINS = _AsciiTwins()


def count_tokens(text: str) -> int:
    """Return the approximate number of subword tokens of the text.

    `tokens = marks + max(words, ceil(characters of words / 6))`, where a word is a run of letters and digits,
    and every other character but white space is a mark; so is each character of the CJK scripts, which
    are written without spaces. It is subadditive: two texts joined never count more than their sum.

    Args:
        text: any text.

    Returns:
        A number >= 0; 0 only for white space.
    """
    raw = (text if text.isascii() else _FOREIGN.sub(_as_ascii, text)).encode()
    words = len(raw.translate(_SPACED).split())
    letters = len(raw.translate(None, _NOT_ALNUM))
    marks = len(raw) - len(raw.translate(None, _MARKS))
    return marks + max(words, -(-letters // _CHARACTERS_PER_TOKEN))


def _as_ascii(run: re.Match[str]) -> str:
    return run[0].translate(_TWINS)
