"""Read what document loaders say of a text in its metadata: its media type, its source, its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from catena.model import ParameterError, digest

MARKDOWN, PLAIN = "text/markdown", "text/plain"
"""Media types of a document's text."""

MEDIA_TYPE = "media_type"
"""Metadata key of the media type of the text itself."""

PAGE, PAGE_LABEL = "page", "page_label"
"""Metadata keys of a page's number, from 0, as LangChain's loaders count, and of what the file prints on it."""

PAGE_BREAK = "\n\n"  # between the texts of two pages
MAX_PAGES = 100_000  # of one file: a missing page takes room, too

_TYPES = (MEDIA_TYPE, "mime_type", "mimetype", "content_type", "file_type")  # the last: SimpleDirectoryReader's
_SOURCES = ("source", "file_path", "file_name")
_FILES = ("file_path", "source", "file_name")  # of pages: some loaders write the number of the page as its source

# Suffixes of files that are no Markdown, and whose text a loader gives without marks: "# " begins a comment in many.
_PLAIN_SUFFIXES = frozenset(
    """
    adoc awk bash bat c cc cfg cmake cmd conf cpp cs csv doc docx eml env epub fish go h hpp htm html
    ini ipynb java jl js json jsonl jsx kt latex log ltx lua m mjs mk msg odp ods odt org pdf php pl pm
    ppt pptx properties ps1 py pyi r rb rs rst rtf scala sh sql srt swift tcl tex text toml ts tsv tsx
    txt vtt xhtml xls xlsx xml yaml yml zsh
    """.split()  # noqa: SIM905
)
_MARKDOWN_SUFFIXES = frozenset(("markdown", "md", "mdx", "mkd", "qmd", "rmd"))
_PAGED = (PAGE_LABEL, "total_pages")  # metadata keys of what has pages, beside `PAGE`


def source_of(metadata: Mapping[str, Any]) -> str:
    """Return the file or address that a loader's metadata name, "" where they name none."""
    return next((str(metadata[key]) for key in _SOURCES if metadata.get(key)), "")


def media_type_of(metadata: Mapping[str, Any], *, given: str | None = None, stated: str | None = None) -> str:
    """Return how to read a text: "text/markdown" or "text/plain", by the first of these that says it.

    1. `given`, what the caller asks for; 2. `stated`, what the framework's own document says; 3. the metadata's
    `media_type`, `mime_type`, `mimetype`, `content_type` or `file_type`, where any type but Markdown means plain;
    4. the suffix of the metadata's `source`, `file_path` or `file_name`; 5. a number or label of a page, or a count
    of pages: a file that has pages is no Markdown. A text of which nothing is said is Markdown.

    The text that a loader makes of a PDF or a web page is plain by these rules. What a converter wrote as Markdown
    says so in `media_type`.

    Raises:
        ParameterError: `given` is another type.
    """
    if given not in (MARKDOWN, PLAIN, None):
        raise ParameterError("media_type", given, f"{MARKDOWN!r}, {PLAIN!r} or None")
    if given is not None:
        return given
    said = next(filter(None, (_known(each) for each in (stated, *map(metadata.get, _TYPES)))), None)
    if said is not None:
        return said
    suffixes = {_suffix(str(metadata.get(key) or "")) for key in _SOURCES}
    has_pages = page_of(metadata) is not None or not metadata.keys().isdisjoint(_PAGED)
    return PLAIN if suffixes & _PLAIN_SUFFIXES or (has_pages and not suffixes & _MARKDOWN_SUFFIXES) else MARKDOWN


def _known(media_type: object) -> str | None:
    """Return which of the two a written media type is, None where it says nothing about a text."""
    if not isinstance(media_type, str):
        return None
    name = media_type.partition(";")[0].strip().lower()
    if name in (MARKDOWN, "text/x-markdown"):
        return MARKDOWN
    return PLAIN if "/" in name and name != "application/octet-stream" else None


def _suffix(source: str) -> str:
    """Return the lower-case suffix of a path or an address, without its dot."""
    try:
        path = urlsplit(source).path if "://" in source else source
    except ValueError:  # an address with a broken host
        path = source
    return PurePosixPath(path.replace("\\", "/")).suffix[1:].lower()


def page_of(metadata: Mapping[str, Any]) -> int | None:
    """Return the number of the page that a document is, from 0; None where the metadata name none."""
    number = metadata.get(PAGE)
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None


def starts_of_page(metadata: Mapping[str, Any]) -> tuple[int, ...]:
    """Return where the pages of a file begin in the text of one of them, () for what is no page.

    All pages up to it begin at 0. A number alone may be the user's own: the metadata must name a label or the count
    of pages, too.
    """
    page = page_of(metadata)
    return () if page is None or page >= MAX_PAGES or metadata.keys().isdisjoint(_PAGED) else (0,) * (page + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedPages:
    """Pages of one file as one text.

    Attributes:
        id: derived from the file's name.
        members: 0-based places of the pages among what was given.
        starts: offset of each page of the file from its first on; a page that was not given is empty.
        labels: what is printed on each page, "" where nothing says it; empty where no page has one.
        metadata: what all pages share, and the media type of their text.
    """

    id: str
    members: tuple[int, ...]
    text: str
    starts: tuple[int, ...]
    labels: tuple[str, ...]
    metadata: Mapping[str, Any]


def joined_pages(texts: Sequence[str], metadata: Sequence[Mapping[str, Any]]) -> list[int | JoinedPages]:
    """Join the documents that are pages of one file.

    A page has metadata that name its file (`file_path`, `source` or `file_name`) and the page: its number `page`,
    from 0, or its `page_label`. Pages with numbers are put in their order, others stay in the order given.

    Args:
        texts: of n documents.
        metadata: of the same documents.

    Returns:
        One item per file, at the place of its first page; a document that is no page as its 0-based place.

    Raises:
        ParameterError: a page comes twice, as after a splitter, or its number is out of range.
    """
    files: dict[str | int, list[int]] = {}
    for place, said in enumerate(metadata):
        name = next((str(said[key]) for key in _FILES if said.get(key)), "")
        is_page = bool(name) and (page_of(said) is not None or PAGE_LABEL in said)
        files.setdefault(name if is_page else place, []).append(place)
    found = files.items()
    return [name if isinstance(name, int) else _joined(name, places, texts, metadata) for name, places in found]


def _joined(
    name: str, places: Sequence[int], texts: Sequence[str], metadata: Sequence[Mapping[str, Any]]
) -> JoinedPages:
    numbers = {place: number for place in places if (number := page_of(metadata[place])) is not None}
    if len(numbers) == len(places):
        places = sorted(places, key=numbers.__getitem__)
    else:
        numbers = {}
    starts: list[int] = []
    labels: list[str] = []
    length = 0
    for at, place in enumerate(places):
        number = numbers.get(place, at)
        if number < len(starts) or number >= MAX_PAGES:
            allowed = f"each page once, numbered from 0 to {MAX_PAGES - 1}; join pages before a splitter cuts them"
            raise ParameterError(f"metadata['{PAGE}'] of {name}", number, allowed)
        begin = length + len(PAGE_BREAK) * bool(at)
        starts += [begin] * (number + 1 - len(starts))
        labels += [""] * (number - len(labels)) + [str(metadata[place].get(PAGE_LABEL) or "")]
        length = begin + len(texts[place])
    first = metadata[places[0]]
    shared = {
        key: value
        for key, value in first.items()
        if key not in (PAGE, PAGE_LABEL)
        and all(key in metadata[place] and repr(metadata[place][key]) == repr(value) for place in places)
    }
    return JoinedPages(
        id=digest("pages", name), members=tuple(places), text=PAGE_BREAK.join(texts[place] for place in places),
        starts=tuple(starts), labels=tuple(labels) if any(labels) else (),
        metadata={MEDIA_TYPE: media_type_of(first), **shared},
    )  # fmt: skip
