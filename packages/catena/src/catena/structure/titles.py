"""What a heading says, without the marks of Markdown: emphasis, code, links, tags, escapes."""

from __future__ import annotations

import re
from functools import cache

from markdown_it import MarkdownIt

_TAG = re.compile(r"<[/!]?[A-Za-z][^<>`]*>")
_MARK = re.compile(r"[\\*_`\[\]<&]")
_LONGEST_PARSED = 2_000  # characters; what is longer is no title anybody wrote, and keeps its marks
_LONGEST = 1_000  # characters kept of a title: each chunk below repeats it, so that more would cost its square


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark")


def plain_title(source: str) -> str:
    """Return the text of a heading's inline Markdown, white space collapsed to single spaces.

    Args:
        source: the heading line without its #s or underline.

    Returns:
        The visible text: a link gives its label, an image its description, a tag nothing. Of a text longer
        than any title the beginning, ended by "…".
    """
    text = _TAG.sub("", source) if "<" in source and "`" not in source else source
    if _MARK.search(text) and len(text) <= _LONGEST_PARSED:
        text = _visible(text)
    title = " ".join(text.split())
    return title if len(title) <= _LONGEST else f"{title[:_LONGEST].rstrip()}…"


def _visible(text: str) -> str:
    parts: list[str] = []
    for token in _parser().parseInline(text)[0].children or ():
        if token.type in {"text", "code_inline", "image"}:
            parts.append(token.content)
        elif token.type in {"softbreak", "hardbreak"}:
            parts.append(" ")
    return "".join(parts)
