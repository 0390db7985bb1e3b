"""A laid-out file as a Markdown document: headings, paragraphs, lists, code and tables, without a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath

from catena.formatting.blocks import write
from catena.formatting.candidates import contents_pages
from catena.formatting.figures import place_figures
from catena.formatting.flow import blocks_of
from catena.formatting.headings import Heading, find_headings
from catena.formatting.rows import measure, rows_of
from catena.formatting.running import running_rows
from catena.formatting.tables import ruled_tables, unruled_tables
from catena.formatting.words import key
from catena.model import Document
from catena.model.layout import Parsed
from catena.model.options import check_options


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """What the formatter makes use of."""

    outline: bool = True  # the file's own outline, where most of its titles are found in the text
    running_heads: bool = False  # keep running heads, feet and page numbers in the text
    unruled_tables: bool = True  # make tables of lines that line up in columns without drawn borders

    def __post_init__(self) -> None:
        check_options(self)


def format_layout(parsed: Parsed, options: LayoutOptions = LayoutOptions()) -> Document:
    """Write a laid-out file as Markdown.

    Headings come from the file's outline first, then from size, weight and numbering. The title on the first
    page is the only heading of level 1 and chapters are of level 2; without a title, chapters are of level 1.
    Apart from running heads, hyphens at line ends, repeated headers of a table and merged cells (which may be
    repeated), every letter and digit of the layout is in the text, in the order of its lines (inside a table, of
    its cells). A figure is an image whose alternative text begins its caption and whose title is the text inside
    it, see `catena.model.figures`.

    Args:
        parsed: a file as a parser read it; without a layout its document is returned as it is.
        options: what to make use of.

    Returns:
        The document with the same id, source, labels and metadata; `page_starts` point to the first character
        of each page in the new text.
    """
    layout, document = parsed.layout, parsed.document
    if layout is None:
        return document
    rows, figures = place_figures(layout.pages, rows_of(layout), document.id)
    if not options.running_heads:
        running = running_rows(layout.pages, rows)
        figures = [replace(figure, before=_without(figure.before, running)) for figure in figures]
        rows = [row for index, row in enumerate(rows) if index not in running]
    measures = measure(rows)
    tables = ruled_tables(layout.pages, rows)
    taken = frozenset(index for table in tables for index in table.indexes)
    if options.unruled_tables:
        tables += unruled_tables(rows, measures, taken, contents_pages(rows))
        taken = frozenset(index for table in tables for index in table.indexes)
    outline = layout.outline if options.outline else ()
    headings = find_headings(rows, measures, taken=taken, outline=outline, title=layout.title)
    text, starts = write(blocks_of(rows, measures, headings, tables, figures), len(layout.pages))
    labels = document.page_labels if len(document.page_labels) == len(starts) else ()
    return replace(
        document,
        text=text,
        title=_title(headings, layout.title, document),
        media_type="text/markdown",
        page_starts=starts,
        page_labels=labels,
    )


def _without(index: int, dropped: frozenset[int]) -> int:
    """Return where a line stands once those of `dropped` are gone."""
    return index - sum(other < index for other in dropped)


def _title(headings: tuple[Heading, ...], named: str, document: Document) -> str:
    """Return the printed title, else the metadata's if it reads like one, else the file's name."""
    if headings and headings[0].level == 1 and sum(heading.level == 1 for heading in headings) == 1:
        printed = headings[0].text
        return named.strip() if key(named) == key(printed) else printed
    stem = PurePath(document.source.replace("\\", "/")).stem
    return named.strip() if _sane(named) else document.title or stem


def _sane(title: str) -> bool:
    """Whether a metadata title was meant for readers, not left there by a program ("Microsoft Word - a.doc")."""
    words = title.strip()
    letters = sum(c.isalpha() for c in words)
    program = words.lower().startswith(("microsoft", "untitled", "slide 1", "layout 1", "(anonymous)", "unknown"))
    file = " " not in words and "." in words
    return letters >= 3 and not program and not file and len(words) <= 200
