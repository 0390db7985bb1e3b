"""Make the views of figures: title, text around, text inside and caption, so that search finds an image.

A figure's chunk is an exact slice of the document: an image and the caption below it. The words that people
search for are put into two views. The headed view, which the lexical route searches, has the titles above, the
caption as printed, the text inside the drawing and what a model said of it. The view "caption", which is
embedded and which image search searches, has the text around the figure too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from catena.model import Chunk, Document, Entry, View
from catena.model.figures import CAPTION as SAID
from catena.model.figures import FIGURE, Link, figure_links
from catena.model.places import SEPARATOR
from catena.structure.headers import body_of, titles_above

CAPTION = "caption"
"""Kind of the view that holds a figure's title, its surroundings, the words in it and its caption."""

WORDS = 50
"""Words (characters, in a script without spaces) of the text before and after a figure that tell of it."""

_LABELS = 40  # words of the text inside a figure that are embedded; the headed view has them all
_TOKEN = re.compile(
    r"[\u0e00-\u0eff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]|[^\s\u3041-\u30ff\u3400-\u9fff]+"
)
_IMAGE = re.compile(r"!\[(?:(?!!\[|\]\()[^\r\n])*+\]\((?:(?!!\[)[^\r\n])*?\)(?=\s|$)")
_MARKS = re.compile(r"^[#>*\-|\s\\]+|[|*`]+", re.MULTILINE)


def mark_figures(document: Document, chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """Return the chunks; those of kind "figure" name their figure in the metadata `catena.model.figures.FIGURE`.

    A long caption may be a chunk of its own: it names the figure that it follows.

    Args:
        document: whose text holds the links.
        chunks: of this document.
    """
    links = list(figure_links(document.text))
    starts = [link.start for link in links]

    def marked(chunk: Chunk) -> Chunk:
        at = bisect_right(starts, chunk.end - 1) - 1
        if chunk.kind != "figure" or at < 0 or _has_other_image(document.text, chunk, links[at]):
            return chunk
        return replace(chunk, metadata={**chunk.metadata, FIGURE: links[at].name})

    return tuple(map(marked, chunks))


def _has_other_image(text: str, chunk: Chunk, link: Link) -> bool:
    """Return whether a chunk of a figure shows an image that is none of ours, or follows one."""
    return any(
        match.start() != link.start for match in _IMAGE.finditer(text, max(chunk.start, link.start), chunk.end)
    )


def figure_views(
    document: Document, chunks: Sequence[Chunk], captions: Mapping[str, str] | None = None
) -> tuple[View, ...]:
    """Return a headed view and a view of kind "caption" for each chunk that shows a figure.

    Args:
        document: its title and text.
        chunks: of this document, as `mark_figures` gives them.
        captions: what a model said of a figure, by the figure's name.
    """
    links = {link.name: link for link in figure_links(document.text)}
    said = captions or {}
    views: list[View] = []
    for chunk in chunks:
        link = links.get(str(chunk.metadata.get(FIGURE, "")))
        if link is not None and chunk.start <= link.start < chunk.end:
            head = SEPARATOR.join(titles_above(document, chunk))
            caption = said.get(link.name, "")
            body = _IMAGE.sub("", body_of(chunk)).strip()
            printed = body if link.title.rstrip(" …") in " ".join(body.split()) else f"{link.title}\n{body}".strip()
            before, after = surroundings(document, link)
            labels = [word for word in link.labels.split() if any(map(str.isalpha, word))]
            around = (head, link.title, before, after, caption, " ".join(labels[:_LABELS]))
            views.append(_view(chunk, "headed", (head, printed, link.labels, caption)))
            views.append(_view(chunk, CAPTION, around))
    return tuple(views)


def _view(chunk: Chunk, kind: str, parts: Sequence[str]) -> View:
    return View(chunk_id=chunk.id, kind=kind, text="\n".join(part for part in parts if part) or chunk.text)


def with_figure_views(entry: Entry) -> Entry:
    """Return an entry whose chunks of figures have the views of this module in place of others of their kind.

    The captions are those of the entry's figures; a chunk's metadata holds its own, for whoever reads the chunk.
    """
    captions = {figure.name: figure.caption for figure in entry.figures if figure.caption}
    chunks = tuple(
        replace(chunk, metadata={**chunk.metadata, SAID: captions[name]})
        if (name := str(chunk.metadata.get(FIGURE, ""))) in captions
        else chunk
        for chunk in entry.chunks
    )
    made = {(view.chunk_id, view.kind): view for view in figure_views(entry.document, entry.chunks, captions)}
    kept = [made.pop((view.chunk_id, view.kind), view) for view in entry.views]
    return replace(entry, chunks=chunks, views=(*kept, *made.values()))


def surroundings(document: Document, link: Link, words: int = WORDS) -> tuple[str, str]:
    """Return the last words before a figure and the first ones after its caption, on its page, as plain text.

    Args:
        document: with its pages, where it has any.
        link: the figure in its text.
        words: how many on either side; characters in a script without spaces.

    Source: HiQA's image augmentation, "about 50 words before and after" (Chen et al., 2024).
    """
    text, start, end = document.text, 0, len(document.text)
    page = document.page_at(link.start)
    if page is not None:
        start = document.page_starts[page - 1]
        end = document.page_starts[page] if page < len(document.page_starts) else end
    after = text[link.end : end].lstrip()
    title = link.title.removesuffix(" …")
    if title and after.startswith(title):
        after = after.partition("\n\n")[2]
    return _plain(text[start : link.start], -words), _plain(after, words)


def _plain(text: str, words: int) -> str:
    """Return the first words of a Markdown text, or the last ones for a negative number, without its marks."""
    bare = _MARKS.sub(" ", _IMAGE.sub(" ", text))
    found = list(_TOKEN.finditer(bare))
    cut = found[:words] if words >= 0 else found[words:]
    return " ".join(bare[cut[0].start() : cut[-1].end()].split()) if cut else ""
