"""Titles and summaries by any language model, as a step: two rounds of requests, whatever the number of sections."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from catena import prompts
from catena.effects import Complete, Failed, Step
from catena.enrichment.context import ContextOptions, DocumentContext, printed_title, sections_with_text
from catena.enrichment.context_replies import clean_summary, clean_title, lead
from catena.model import Degraded, Document, Section
from catena.model.errors import ServiceError

PLANNED: Mapping[str, str] = {
    "document title": "stand-in",
    "section title": "stand-in",
    "document summary": f"{lead('document')} stand-in",
    "section summary": f"{lead('section')} stand-in",
}
"""By purpose of request, an answer for dry runs."""

_TAG = re.compile(r"<(?=\s*(?:/\s*)?content\b)", re.IGNORECASE)
_NEAR = 200  # characters: a cut goes back to white space that is as near, so that no word is torn


class Beginning(NamedTuple):
    """The beginning of a text, and whether that is not all of it."""

    text: str
    cut: bool


@dataclass(frozen=True, slots=True)
class _Question:
    """A request, what a report calls its answer, and how that is read; `place` is the section's, -1 the document."""

    request: Complete
    what: str
    clean: Callable[[str], str]
    place: int = -1


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
        CatenaError: not a failure of the model, but of what surrounds it (nobody answers, the budget, the journal).

    Source: the context generation of TextRAG, after dsRAG's AutoContext.
    """
    how = options or ContextOptions()
    filled = sections_with_text(document, sections)
    title = printed_title(document, sections)
    titles = [section.title for section in sections]

    asked: list[_Question] = []
    if how.document_title and document.text.strip() and (how.replace_title or not title):
        asked.append(_title_of_document(document, how, count))
    if how.section_titles:
        asked += [_title_of_section(document, section, title, how, count) for section in filled if not section.title]
    answers, degraded = yield from _asked(asked)
    made = answers.get(-1, "")
    title = made or title
    section_titles = tuple(answers.get(place, "") for place in range(len(sections)))
    titles = [new or old for new, old in zip(section_titles, titles, strict=True)]

    asked, cut = [], []
    if how.document_summary and document.text.strip():
        asked.append(_summary_of_document(document, title, how, count))
    for section in filled if how.section_summaries else ():
        text = beginning(document.text[section.start : section.end], how.section_tokens, count)
        cut += [section.position] * text.cut
        asked.append(_summary_of_section(document, section, text, (title, titles[section.position]), how))
    answers, more = yield from _asked(asked)
    return DocumentContext(
        title=made,
        summary=answers.get(-1, ""),
        section_titles=section_titles,
        section_summaries=tuple(answers.get(place, "") for place in range(len(sections))),
        cut=tuple(place for place in cut if answers.get(place)),
        degraded=(*degraded, *more),
    )


def beginning(text: str, limit: int, count: Callable[[str], int]) -> Beginning:
    """Return the longest beginning of a text of at most `limit` tokens, cut at white space where some is near."""
    if count(text) <= limit:
        return Beginning(text, False)
    end = bisect_right(range(1, len(text)), limit, key=lambda size: count(text[:size]))
    space = max(text.rfind(mark, max(0, end - _NEAR), end) for mark in " \n\t\r")
    return Beginning(text[: space if space > 0 else end], True)


def _asked(questions: Sequence[_Question]) -> Step[tuple[dict[int, str], list[Degraded]]]:
    """Return the answers by place, and why others are missing."""
    replies: Sequence[Any] = (yield [question.request for question in questions]) if questions else ()
    answers: dict[int, str] = {}
    degraded: list[Degraded] = []
    for question, reply in zip(questions, replies, strict=True):
        if isinstance(reply, Failed):
            if not isinstance(reply.error, ServiceError):
                raise reply.error
            degraded.append(Degraded(question.what, str(reply.error)))
            continue
        try:
            answers[question.place] = question.clean(reply.text)
        except ValueError as error:  # a driver of one's own that does not look at `validate`
            degraded.append(Degraded(question.what, str(error)))
    return answers, degraded


def _title_of_document(document: Document, how: ContextOptions, count: Callable[[str], int]) -> _Question:
    text = beginning(document.text, how.title_tokens, count)
    places = {"content": shielded(text.text), "note": _note(text, "document", how.title_tokens)}
    request = _request("document_title", how.guidance.document_title, clean_title, how, places)
    return _Question(request, f"title of {document.id}", clean_title)


def _title_of_section(
    document: Document, section: Section, title: str, how: ContextOptions, count: Callable[[str], int]
) -> _Question:
    text = beginning(document.text[section.start : section.end], how.title_tokens, count)
    places = {
        "document": shielded(title) or "(none is printed)",
        "content": shielded(text.text),
        "note": _note(text, "section", how.title_tokens),
    }
    request = _request("section_title", how.guidance.section_title, clean_title, how, places)
    return _Question(request, f"title of section {section.position} of {document.id}", clean_title, section.position)


def _summary_of_document(
    document: Document, title: str, how: ContextOptions, count: Callable[[str], int]
) -> _Question:
    text = beginning(document.text, how.summary_tokens, count)
    clean = partial(clean_summary, part="document")
    places = {
        "document": shielded(title) or "(unknown)",
        "content": shielded(text.text),
        "note": _note(text, "document", how.summary_tokens),
    }
    request = _request("document_summary", how.guidance.document_summary, clean, how, places)
    return _Question(request, f"summary of {document.id}", clean)


def _summary_of_section(
    document: Document, section: Section, text: Beginning, titles: tuple[str, str], how: ContextOptions
) -> _Question:
    clean = partial(clean_summary, part="section")
    places = {
        "document": shielded(titles[0]) or "(unknown)",
        "section": shielded(" › ".join(filter(None, (*section.path[:-1], titles[1])))) or "(unknown)",
        "content": shielded(text.text),
        "note": _note(text, "section", how.section_tokens),
    }
    request = _request("section_summary", how.guidance.section_summary, clean, how, places)
    return _Question(request, f"summary of section {section.position} of {document.id}", clean, section.position)


def _request(
    name: str, guidance: str, clean: Callable[[str], str], how: ContextOptions, places: Mapping[str, str]
) -> Complete:
    prompt = prompts.load(name)
    language = (
        f"Answer in {how.language}." if how.language else "Answer in the language that the content is written in."
    )
    return Complete(
        prompt=prompt.filled(guidance=guidance or "(nothing)", language=language, **places),
        purpose=name.replace("_", " "),
        system=prompt.system,
        max_tokens=how.max_tokens,
        prompt_version=prompt.version,
        validate=clean,
    )


def _note(text: Beginning, part: str, limit: int) -> str:
    if not text.cut:
        return f"The {part} is given whole."
    return f"The {part} is longer: only its beginning is given, about {limit} tokens of it."


def shielded(text: str) -> str:
    """Return a text that can neither end its own tag nor begin another one."""
    return _TAG.sub("‹", text.strip())


def versions() -> Iterator[str]:
    """Yield the versions of the prompts: other words may give other answers."""
    for name in ("document_title", "document_summary", "section_title", "section_summary"):
        yield prompts.load(name).version
