"""Text from files, models and servers, made harmless for a terminal: what would steer it is shown, not obeyed."""

from __future__ import annotations

import re

# What a terminal obeys, or what makes text read in another order than it is written: the controls of C0 (but tab
# and line feed), DEL and C1, then the embeddings, overrides and isolates of bidirectional text.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_BREAKS = re.compile("[\t\n\u2028\u2029]")


def printable(text: str, *, one_line: bool = False) -> str:
    r"""Return a text as a terminal may show it, with escapes such as `\x1b` in place of what would steer it.

    Args:
        text: from outside.
        one_line: whether line breaks and tabs are escaped too, as in a name within a table.
    """
    shown = STEERING.sub(_escape, text.replace("\r\n", "\n"))
    return _BREAKS.sub(_escape, shown) if one_line else shown


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
