"""The headings of Markdown: what stands between their signs."""

from __future__ import annotations


def atx_title(rest: str) -> str:
    """Return the title of a # heading, given what follows its opening #s: closing #s are dropped."""
    title = rest.strip(" \t")
    opened = title.rstrip("#")
    return opened.rstrip(" \t") if not opened or opened[-1] in " \t" else title
