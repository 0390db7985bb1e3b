"""Figures in what a model wrote of a file: a model is shown words alone, so they are put back where they belong."""

from __future__ import annotations

import re
from dataclasses import replace

from catena.model import Document
from catena.model.figures import Link, figure_links

_WORD = re.compile(r"\w+")
_ENOUGH = 6  # words by which a caption is known again


def with_figures(document: Document, printed: Document) -> Document:
    """Return the document with the figures that only `printed` shows, each on its page.

    A figure stands before the line that begins its caption; without one, at the end of its page, or before the
    paragraph that goes on to the next.

    Args:
        document: a file as a model wrote it.
        printed: the same file as the layout formatter wrote it, with the same pages.
    """
    there = {link.name for link in figure_links(document.text)}
    text, starts = document.text, list(document.page_starts)
    for link in figure_links(printed.text):
        page = printed.page_at(link.start)
        if link.name in there or page is None or page > len(starts):
            continue
        at = _place(text, starts[page - 1], starts[page] if page < len(starts) else len(text), link)
        markup = _apart(text[:at], printed.text[link.start : link.end], text[at:])
        text = f"{text[:at]}{markup}{text[at:]}"
        starts = [start + len(markup) if number > page else start for number, start in enumerate(starts, start=1)]
    return replace(document, text=text, page_starts=tuple(starts))


def _place(text: str, start: int, end: int, link: Link) -> int:
    """Return the offset within a page, [start, end), at which a figure is to stand."""
    wanted = _words(link.title)[:_ENOUGH]
    at = start
    for line in text[start:end].splitlines(keepends=True) if wanted else ():
        if _words(line)[: len(wanted)] == wanted:
            return at
        at += len(line)
    if end == len(text) or text[:end].endswith("\n"):
        return end
    return max(text.rfind("\n\n", start, end) + 2, start)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _apart(before: str, markup: str, after: str) -> str:
    """Return an image as a paragraph of its own."""
    opening = "" if not before or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
    return f"{opening}{markup}\n\n" if after else f"{opening}{markup}\n"
