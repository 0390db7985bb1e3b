"""One chunk as a node of the graph: its titles, its keywords and the names in it, from the chunk alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from catena.citation import TITLE
from catena.errors import ParameterError
from catena.keyphrases import keywords_of
from catena.model import Chunk
from catena.phrases import names_in, without_parenthesis
from catena.text import normalise_term, tokenise


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A chunk, and by what the graph joins it to others: all of it a function of this chunk.

    So a document that comes or goes changes no other document's nodes.

    Attributes:
        titles: under which others may mention it, as printed, without a parenthesis at their ends; () of none.
        keywords: the phrases that say best what it is about, normalised, best first; none is a title.
        names: the names and codes that its text and titles print, and parts of them, normalised, in order of place.
    """

    chunk: Chunk
    titles: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Return the id of the chunk."""
        return self.chunk.id


def node_of(chunk: Chunk, *, keywords: Sequence[str] | None = None, titles: Sequence[str] | None = None) -> Node:
    """Return the node of a chunk.

    Args:
        chunk: of a text, a table or a figure.
        keywords: of the chunk, best first, as a model or its author gave them, however many; None takes at most five
            from its text, asking nobody.
        titles: under which others may mention it; None takes its document's title and its own heading.

    Raises:
        ParameterError: keywords or titles are no sequences of strings.

    Source: keywords without the titles of the document: IIER (arXiv 2408.02907), section 3.1 and appendix A.2.
    """
    for name, given in (("keywords", keywords), ("titles", titles)):
        if isinstance(given, str) or not all(isinstance(each, str) for each in given or ()):
            raise ParameterError(name, given, "a sequence of strings, or None")
    printed = _titles_of(chunk)
    own = printed if titles is None else _distinct(titles)
    but = (*own, *printed, *chunk.path)
    return Node(
        chunk=chunk,
        titles=own,
        keywords=keywords_of(chunk.text, but=but) if keywords is None else _normalised(keywords, but),
        names=names_in(chunk.text, titles=own),
    )


def _normalised(keywords: Iterable[str], but: Iterable[str]) -> tuple[str, ...]:
    titles = set(map(normalise_term, but))
    return tuple(term for term in dict.fromkeys(map(normalise_term, keywords)) if term and term not in titles)


def _titles_of(chunk: Chunk) -> tuple[str, ...]:
    return _distinct((str(chunk.metadata.get(TITLE, "")), *chunk.path[-1:]))


def _distinct(titles: Iterable[str]) -> tuple[str, ...]:
    """Return titles that hold a word, bare, the first of each spelling."""
    kept: dict[str, str] = {}
    for title in map(without_parenthesis, titles):
        kept.setdefault(" ".join(tokenise(title)), title)
    kept.pop("", None)
    return tuple(kept.values())
