"""Ask a language model for titles and summaries: two rounds of requests, however many sections there are."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from catena import prompts
from catena.effects import Complete, Step, answer_of
from catena.enrichment.context import ContextOptions, DocumentContext, printed_title, sections_with_text
from catena.model import Degraded, Document, Section, ServiceError
from catena.text.replies import TALK, TALKING_LEAD, bare, plain, refuses

PLANNED: Mapping[str, str] = {
    "document title": "stand-in",
    "section title": "stand-in",
    "document summary": "This document is about: stand-in",
    "section summary": "This section is about: stand-in",
}
"""By purpose of request, an answer for dry runs."""

_NEAR = 200  # characters: a cut goes back to white space that is as near, so that no word is torn


Part: TypeAlias = Literal["document", "section"]


class Beginning(NamedTuple):
    """The beginning of a text, and whether that is not all of it."""

    text: str
    cut: bool


@dataclass(frozen=True, slots=True)
class PlacedRequest:
    """A request, the name of its answer in a report, how that is read, and the place that it is for."""

    request: Complete
    what: str
    read: Callable[[str], Any]
    place: int


@dataclass(frozen=True, slots=True)
class _Subject:
    """The text that a title or a summary is made of: a section, or the whole document where there is none."""

    document: Document
    section: Section | None = None

    @property
    def part(self) -> Part:
        return "section" if self.section else "document"

    @property
    def text(self) -> str:
        text = self.document.text
        return text[self.section.start : self.section.end] if self.section else text


def context_by_llm(
    document: Document,
    sections: Sequence[Section],
    options: ContextOptions | None = None,
    *,
    count: Callable[[str], int],
) -> Step[DocumentContext]:
    """Ask a language model for the titles that are missing, then for the summaries, each round side by side.

    Calls: one for the document's title if it prints none, one for each section with text but no title; then, with
    these titles in the prompts, one for the document's summary and one for each section with text. An answer of
    another form is not taken: what it was for stays "", is reported, and costs nothing of the others.

    Args:
        document: of any length; a model sees the beginning of what is longer than the options allow, and is told so.
        sections: of this document.
        options: which of these are made, and limits.
        count: tokens of a text.

    Raises:
        CatenaError: not a failure of the model, but of what surrounds it (no service, the budget, the journal).

    Source: the context generation of TextRAG, after dsRAG's AutoContext.
    """
    how = options or ContextOptions()
    filled = sections_with_text(document, sections)
    title = printed_title(document, sections)
    titles = [section.title for section in sections]

    whole = _Subject(document)
    asked: list[PlacedRequest] = []
    if how.document_title and document.text.strip() and (how.replace_title or not title):
        asked.append(_asked_for("title", whole, beginning(whole.text, how.title_tokens, count), how))
    for section in filled if how.section_titles else ():
        if not section.title:
            of = _Subject(document, section)
            text = beginning(of.text, how.title_tokens, count)
            asked.append(_asked_for("title", of, text, how, document=shielded(title) or "(none is printed)"))
    found, degraded = yield from answered(asked)
    answers = dict(found)
    made = answers.get(-1, "")
    title = made or title
    section_titles = tuple(answers.get(place, "") for place in range(len(sections)))
    titles = [new or old for new, old in zip(section_titles, titles, strict=True)]

    known = shielded(title) or "(unknown)"
    asked, cut = [], []
    if how.document_summary and document.text.strip():
        text = beginning(whole.text, how.summary_tokens, count)
        asked.append(_asked_for("summary", whole, text, how, document=known))
    for section in filled if how.section_summaries else ():
        of = _Subject(document, section)
        text = beginning(of.text, how.section_tokens, count)
        cut += [section.position] * text.cut
        path = shielded(" › ".join(filter(None, (*section.path[:-1], titles[section.position])))) or "(unknown)"
        asked.append(_asked_for("summary", of, text, how, document=known, section=path))
    found, more = yield from answered(asked)
    answers = dict(found)
    return DocumentContext(
        title=made,
        summary=answers.get(-1, ""),
        section_titles=section_titles,
        section_summaries=tuple(answers.get(place, "") for place in range(len(sections))),
        cut=tuple(place for place in cut if answers.get(place)),
        degraded=(*degraded, *more),
    )


def _asked_for(
    what: Literal["title", "summary"], of: _Subject, text: Beginning, how: ContextOptions, **places: str
) -> PlacedRequest:
    """Return the request for the title or the summary of a document or a section."""
    name, part = f"{of.part}_{what}", of.part
    read = clean_title if what == "title" else partial(clean_summary, part=part)
    limit = how.title_tokens if what == "title" else how.section_tokens if of.section else how.summary_tokens
    longer = f"The {part} is longer: only its beginning is given, about {limit} tokens of it."
    request = Complete.of(
        prompts.load(name),
        name.replace("_", " "),
        max_tokens=how.max_tokens,
        validate=read,
        content=shielded(text.text),
        note=longer if text.cut else f"The {part} is given whole.",
        guidance=getattr(how.guidance, name) or "(nothing)",
        language=answered_in(how.language),
        **places,
    )
    if of.section is None:
        return PlacedRequest(request, f"{what} of {of.document.id}", read, -1)
    place = of.section.position
    return PlacedRequest(request, f"{what} of section {place} of {of.document.id}", read, place)


def answered(asked: Sequence[PlacedRequest]) -> Step[tuple[list[tuple[int, Any]], list[Degraded]]]:
    """Ask all requests in one round, and return each answer with its place, and why others are missing.

    Raises:
        CatenaError: not a failure of the model, but of what surrounds it.
    """
    replies: Sequence[Any] = (yield [each.request for each in asked]) if asked else ()
    answers: list[tuple[int, Any]] = []
    degraded: list[Degraded] = []
    for each, reply in zip(asked, replies, strict=True):
        if isinstance(found := answer_of(reply, each.read), ServiceError):
            degraded.append(Degraded(each.what, str(found)))
        else:
            answers.append((each.place, found))
    return answers, degraded


def beginning(text: str, limit: int, count: Callable[[str], int]) -> Beginning:
    """Return the longest beginning of a text of at most `limit` tokens, cut at white space where some is near."""
    if count(text) <= limit:
        return Beginning(text, False)
    end = bisect_right(range(1, len(text)), limit, key=lambda size: count(text[:size]))
    space = max(text.rfind(mark, max(0, end - _NEAR), end) for mark in " \n\t\r")
    return Beginning(text[: space if space > 0 else end], True)


def answered_in(language: str) -> str:
    """Return the sentence of a prompt that names the language of the answer; "" is that of the content."""
    return f"Answer in {language}." if language else "Answer in the language that the content is written in."


def shielded(text: str) -> str:
    """Return a text that can neither end its own tag nor begin another one."""
    return prompts.shut_in(text.strip(), "content")


def versions() -> Iterator[str]:
    """Yield the versions of the prompts: other words may give other answers."""
    for name in ("document_title", "document_summary", "section_title", "section_summary"):
        yield prompts.load(name).version


LONGEST_TITLE = 200  # characters; a longer one is a model that does not stop
LONGEST_SUMMARY = 600
_LONGEST_LEAD = 60  # of "This document is about:" in any language

_NO_TITLE = re.compile(
    r"(?i)\W*(?:none|null|n/a|unknown|untitled|no (?:suitable )?title(?: (?:found|given|available))?)\W*"
)
_LABEL = re.compile(
    r"(?i)\A(?:(?:document |section )?title|titel|titre|título|titolo|заголовок|название|标题|標題|題名|タイトル)"
    r"\s*[:：]\s*"
)
# A full stop after a word of three letters and fewer may end an abbreviation: "Inc.", "No.", "U.S."
_NEXT_SENTENCE = re.compile(r"(?<=[^\W\d_]{4})[.!?]+[\"')\]”’»]*\s+(?P<next>[^\W\d_])|[。！？]\s*(?P<unspaced>\w)")


def lead(part: Part) -> str:
    """Return how a summary begins, in English."""
    return f"This {part} is about:"


def clean_title(text: str) -> str:
    """Return the title that a model gave, without quotes, marks and the word "Title:" around it.

    Raises:
        ValueError: it is no title, with the reason.
    """
    title = bare(_LABEL.sub("", plain(text).lstrip("#").strip()))
    if len(title.splitlines()) > 1:
        raise ValueError("the reply holds more than a title: it has several lines")
    if len(title) > LONGEST_TITLE:
        raise ValueError(f"a title of {len(title)} characters, more than {LONGEST_TITLE}")
    if not any(map(str.isalnum, title)) or _NO_TITLE.fullmatch(title):
        raise ValueError("the reply holds no title")
    if TALK.match(title) or refuses(title):
        raise ValueError("the reply talks about a title instead of being one")
    return " ".join(title.split())


def clean_summary(text: str, part: Part) -> str:
    """Return the summary that a model gave: "This document is about: …" or the same in another language.

    Args:
        text: the reply.
        part: what it is a summary of.

    Raises:
        ValueError: it is no such summary, with the reason.
    """
    summary = plain(text)
    if len(summary.splitlines()) > 1:
        raise ValueError("the reply holds more than a sentence: it has several lines")
    if len(summary) > LONGEST_SUMMARY:
        raise ValueError(f"a summary of {len(summary)} characters, more than {LONGEST_SUMMARY}")
    begins, mark, said = re.match(r"([^:：]*)([:：]?)(.*)", summary, re.DOTALL).groups()  # type: ignore[union-attr]
    if TALK.match(summary) or (mark and TALKING_LEAD.match(begins)):
        raise ValueError("the reply talks about a summary instead of being one")
    expected = lead(part)
    foreign = not begins.casefold().startswith("this ") and any(map(str.isalpha, begins))
    if not mark or len(begins) > _LONGEST_LEAD or not (foreign or begins.casefold() == expected[:-1].casefold()):
        raise ValueError(f"the summary does not begin with {expected!r} or its translation")
    if not any(map(str.isalnum, said)):
        raise ValueError(f"nothing follows {begins + mark!r}")
    if any(not (found["next"] or "").islower() for found in _NEXT_SENTENCE.finditer(said)):
        raise ValueError("the summary is more than one sentence")
    return " ".join(summary.split())
