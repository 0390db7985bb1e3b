"""Make a chunk a node of the graph: its titles, its keywords and the names in it, from the chunk alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from catena.model import Chunk
from catena.model.errors import ParameterError
from catena.model.places import TITLE
from catena.text.phrases import keywords_of, names_in, without_parenthesis
from catena.text.words import UNSPACED, normalise_term, tokenise, word_keys

# "3.1", "3.", "A.2": not "3.5 mm plug" and "2.4 GHz radio"; letters of appendices only, for "M.2" is a socket
_UNIT = r"(?:[a-z\u00b5\u0430-\u044f]{1,4}|[kMGT]?(?:Hz|[ABVW]h?))\b"
_NUMBER = r"(?:\d{1,3}\.|\d{1,3}(?:\.\d{1,3})+\.?|[A-H](?:\.\d{1,2})+\.?)"
_SECTION_NUMBER = re.compile(rf"\A\s*+(?!\d++\.\d++\s++{_UNIT}){_NUMBER}\s++(?=.*[^\W\d_])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A chunk, and the titles and terms by which the graph joins it to others: all a function of this chunk.

    So a document that comes or goes changes no other document's nodes.

    Attributes:
        titles: under which others may mention it, as printed, without a parenthesis at their ends, and headings
            without the number of their section; () of none.
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
            from its text, by rules.
        titles: under which others may mention it; None takes its document's title and its own heading, this without
            the number of the section: "3.1 HX200" and "A.2 HX200" are "HX200".

    Raises:
        ParameterError: keywords or titles are no sequences of strings.

    Source: keywords without the titles of the document: IIER (arXiv 2408.02907), section 3.1 and appendix A.2.
    """
    for name, given in (("keywords", keywords), ("titles", titles)):
        if isinstance(given, str) or not all(isinstance(each, str) for each in given or ()):
            raise ParameterError(name, given, "a sequence of strings, or None")
    printed = _titles_of(chunk)
    own = _distinct(printed if titles is None else titles)
    but = (*(titles or ()), *printed, *chunk.path)
    return Node(
        chunk=chunk,
        titles=own,
        keywords=keywords_of(chunk.text, but=but) if keywords is None else _normalised(keywords, but),
        names=names_in(chunk.text, titles=own),
    )


def _normalised(keywords: Iterable[str], but: Iterable[str]) -> tuple[str, ...]:
    titles = {normalise_term(form) for title in but for form in (title, without_parenthesis(title))}
    return tuple(term for term in dict.fromkeys(map(normalise_term, keywords)) if term and term not in titles)


def _titles_of(chunk: Chunk) -> tuple[str, ...]:
    title = str(chunk.metadata.get(TITLE, ""))
    return (title, *(_SECTION_NUMBER.sub("", heading) for heading in chunk.path[-1:] if heading != title))


def _distinct(titles: Iterable[str]) -> tuple[str, ...]:
    """Return titles that hold a word, bare, the first of each spelling."""
    kept: dict[str, str] = {}
    for title in map(without_parenthesis, titles):
        kept.setdefault(" ".join(tokenise(title)), title)
    kept.pop("", None)
    return tuple(kept.values())


Title: TypeAlias = tuple[str, ...]
"""A title as the sequence of its words, in the form of `words_of`."""

LONGEST = 12
"""Words of a title that is looked for; a longer one is a sentence, which no text repeats word for word."""

MENTION_CAP = 60
"""Texts that may hold a title which still makes edges; a title in more is a common word, or like "Introduction"."""

_UNSPACED_PAIR = re.compile(f"[{UNSPACED}]{{2}}")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, as titles are compared with it.

    They are those of `text.words.word_keys`, each place once: of a script without spaces the single characters,
    without their pairs. So they are among the words by which a graph counts.
    """
    keys = word_keys(text)
    if text.isascii() or not _UNSPACED_PAIR.search(" ".join(keys)):
        return tuple(keys)
    return tuple(key for key in keys if not (len(key) == 2 and _UNSPACED_PAIR.match(key)))


def titles_of(node: Node) -> tuple[Title, ...]:
    """Return the titles under which a node is mentioned, distinct, longest first.

    Left out are titles of more than 12 words, and titles without meaning: numbers, single characters.
    """
    titles = {title for each in node.titles if _names_something(title := words_of(each))}
    return tuple(sorted(titles, key=lambda title: (-len(title), title)))


def _names_something(title: Title) -> bool:
    text = "".join(title)
    return len(title) <= LONGEST and len(text) > 1 and any(map(str.isalpha, text))
