"""A token count that needs no vocabulary: deterministic, offline, near what subword encoders count."""

from __future__ import annotations

import re

CJK = (
    "\u1100-\u11ff\u2e80-\u303f\u3040-\u30ff\u3100-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""The scripts written without spaces whose every character is about one token, as a regex class."""

_TOKEN = re.compile(rf"[^\W\d_{CJK}]{{1,8}}|[{CJK}]|\d{{1,3}}|[^\w\s]|_")


def count_tokens(text: str) -> int:
    """Return the approximate number of subword tokens of the text.

    `tokens = sum ceil(letters / 8) over runs of letters + sum ceil(digits / 3) over runs of digits
    + CJK characters + punctuation and symbol characters`; white space counts nothing. Joining two texts
    gives at most one token more than their sum, and never a token less than the longer of the two.

    Args:
        text: any text.

    Returns:
        A number >= 0; 0 only for white space.
    """
    return len(_TOKEN.findall(text))
