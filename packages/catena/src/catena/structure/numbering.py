"""Headings of texts without Markdown: numbered lines that stand alone and count upwards."""

from __future__ import annotations

import re

Found = tuple[int, int, int, str]  # start, start of the next line, level, title

_LONGEST = 120  # characters of a heading line
_FEWEST = 2  # numbered lines before a text counts as divided by them
_CJK_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_CJK_NUMBER = "[零〇一二三四五六七八九十百两]+"

_ALONE = re.compile(r"(?:(?<=\n\n)|(?<=\r\r)|(?<=\r\n\r\n)|\A|(?<=\n))[ \t]*(\S[^\r\n]*)(\r\n|\r|\n|\Z)")
_DOTTED = re.compile(r"(\d{1,3}(?:\.\d{1,3}){0,5})\.?[ \t\u3000]+(?=[^\W\d_])(.+)")
_CHAPTER = re.compile(rf"第[ \t]*({_CJK_NUMBER}|\d{{1,3}})[ \t]*([编篇部卷章节条])[ \t\u3000:：、]*(.*)")
_LISTED = re.compile(rf"({_CJK_NUMBER}|\d{{1,3}})、[ \t\u3000]*(\S.*)")
_BRACKETED = re.compile(rf"[(（]({_CJK_NUMBER})[)）][ \t\u3000]*(\S.*)")
_NO_END = (".", "。", ",", "，", ";", "；", ":", "：", "!", "！", "…", "、")


def numbered_headings(text: str) -> list[Found]:
    """Return the numbered headings of a plain text, or none when the numbers do not follow each other."""
    return []
