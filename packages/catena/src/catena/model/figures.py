"""Figures in words: what a caption looks like, what a figure's file is called, and how it stands in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from catena.model.ids import digest

FIGURE = "figure"
"""Metadata key of a chunk: the file name of the figure that it shows."""

CAPTION = "caption"
"""Metadata key of a chunk: what a model said of the figure that it shows."""

FOLDER = "figures"
"""The folder of a figure's link, and of its file inside a library."""

_NAME = re.compile(r"[0-9a-f]{16}-p\d{4,6}-\d{1,4}\.png")
_LINK = re.compile(
    r"!\[(?P<alt>(?:\\.|[^\\\[\]\r\n])*+)\]\(figures/(?P<name>[0-9a-f]{16}-p\d{4,6}-\d{1,4}\.png)"
    r"(?: \"(?P<labels>(?:\\.|[^\\\"\r\n])*+)\")?\)"
)
_MARKS = re.compile(r"[\\\[\]\"`*_<>&]")
_ESCAPED = re.compile(r"\\([\\\[\]\"`*_<>&])")

_NUMBER = r"(?:[A-Z]{1,2}[.-]?)?\d{1,4}(?:[.–-]\d{1,3})*[a-z]?|[IVX]{1,6}\b|\([a-z]\)"
_NAMED = (
    r"fig(?:ure|ura|uur)?s?\b\.?|abb(?:ildung)?\b\.?|bild|schéma|schema|scheme|diagram(?:m|me|ma)?|chart|graph(?:ique)?|gráfico"
    r"|grafik|plate|exhibit|illustration|obr(?:ázek)?\b\.?|rys(?:unek)?\b\.?|рис(?:унок)?\b\.?|kuva|kuvio|şekil|ábra"
)
_CAPTION = re.compile(
    rf"(?:(?i:{_NAMED})\s*(?:{_NUMBER})(?=\s*[.:–—|()-]|\s*$|\s+[^\W\da-zß-ÿа-я])"  # not "Figure 3 shows"
    r"|[图圖]表?\s*[\d一二三四五六七八九十]+|그림\s*\d+|図\s*\d+"
    # any other word, where number and colon leave no doubt: "Obrázok 4: …"
    r"|(?!(?i:table|tab|tabelle|tableau|tabla|listing|chapter|section|step|note|part|page|appendix|algorithm)\b)"
    r"[^\W\d_a-zß-ÿа-я][^\W\d_]{2,13}\.?\s?\d{1,3}(?:[.-]\d{1,3})*\s?:\s)"
)


def is_figure_caption(text: str) -> bool:
    """Return whether a line begins the caption of a figure: "Figure 3: …", "Abb. 2", "图 4", "Рис. 1. …".

    A word that names pictures and a number are enough where a capital letter, a stop or the line's end follows;
    any other capitalised word needs a colon behind its number.
    """
    return _CAPTION.match(text.strip()) is not None


def figure_name(document_id: str, page: int, number: int) -> str:
    """Return a figure's file name, e.g. "4f1c09aa52d07be1-p0003-1.png": nothing in it comes from the file.

    Args:
        document_id: of its document.
        page: from 1.
        number: of the figure on that page, from 1.
    """
    return f"{figure_prefix(document_id)}-p{page:04d}-{number}.png"


def figure_prefix(document_id: str) -> str:
    """Return what the names of all figures of a document begin with."""
    return digest(document_id)


def is_figure_name(name: str) -> bool:
    """Return whether a name is one that `figure_name` gives: no separator, no dots but that of ".png"."""
    return _NAME.fullmatch(name) is not None


class Link(NamedTuple):
    """A figure as it stands in Markdown, at [start, end) of the text."""

    start: int
    end: int
    name: str
    title: str
    labels: str  # the text inside the drawing


def figure_link(name: str, title: str = "", labels: str = "") -> str:
    """Return `![title](figures/name "labels")`: an image whose own text, such as that on its axes, is its title.

    So nothing that is printed is lost, and nothing of a drawing's inside is read as a sentence of the text.
    """
    words = f' "{_escaped(labels)}"' if labels.strip() else ""
    return f"![{_escaped(title)}]({FOLDER}/{name}{words})"


def figure_links(text: str) -> Iterator[Link]:
    """Yield the figures of a Markdown text, in order."""
    for match in _LINK.finditer(text):
        alt, labels = (_unescaped(match[part] or "") for part in ("alt", "labels"))
        yield Link(match.start(), match.end(), match["name"], alt, labels)


def in_words(text: str) -> str:
    """Return a Markdown text with the words of each figure in place of its link."""
    return _LINK.sub(lambda match: _unescaped(match["labels"] or match["alt"]), text)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def _escaped(text: str) -> str:
    return _MARKS.sub(r"\\\g<0>", " ".join(text.split()))
