"""Asks a language model about each chunk, all side by side, and gathers what it said or why it is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from catena import prompts
from catena.effects import Complete, Failed, Step
from catena.enrichment.context_llm import beginning, shielded
from catena.enrichment.view_maker import MadeViews
from catena.model import Chunk, Degraded
from catena.model.errors import ParameterError, ServiceError
from catena.model.ids import digest
from catena.model.places import SEPARATOR
from catena.text.tokens import count_tokens
from catena.text.words import same_words

Read = Callable[[str, str], tuple[str, ...]]
"""(reply, what it was made from) -> the texts in it; raises ValueError where it holds none, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a model is asked about each chunk.

    Attributes:
        kind: of the views.
        prompt: name of its file; its purpose is the same in words.
        limits: values of the places that this prompt has and others have not.
        read: how an answer becomes texts.
        guidance: what the user adds; "" adds nothing.
        language: of the answers, in words; "" is that of the content.
        part_tokens: of the text in one request; a longer chunk is asked about in parts, each with texts of its own.
        max_tokens: of one answer.
    """

    kind: str
    prompt: str
    limits: Mapping[str, str]
    read: Read
    guidance: str
    language: str
    part_tokens: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class _Question:
    """A request, the place of its chunk, and what a report calls its answer."""

    request: Complete
    place: int
    what: str
    part: str


def ask_about(chunks: Sequence[Chunk], title: str, task: Task, *, over_tokens: int = 0) -> Step[MadeViews]:
    """Ask about each chunk of more than `over_tokens` tokens, in one round; an equal chunk makes an equal request.

    Args:
        chunks: of one document, in order.
        title: of that document.
        task: what is asked.
        over_tokens: chunks of so many tokens and fewer are not asked about.

    Raises:
        CatenaError: not a failure of the model, but of what surrounds it (nobody answers, the budget, the journal).
    """
    asked = [
        question
        for place, chunk in enumerate(chunks)
        if count_tokens(chunk.text) > over_tokens
        for question in _questions(chunk, place, title, task)
    ]
    replies: Sequence[Any] = (yield [question.request for question in asked]) if asked else ()
    texts: list[list[str]] = [[] for _ in chunks]
    degraded: list[Degraded] = []
    for question, reply in zip(asked, replies, strict=True):
        if isinstance(reply, Failed):
            if not isinstance(reply.error, ServiceError):
                raise reply.error
            degraded.append(Degraded(question.what, str(reply.error)))
            continue
        try:
            texts[question.place] += task.read(reply.text, question.part)
        except ValueError as error:  # a driver of one's own that does not look at `validate`
            degraded.append(Degraded(question.what, str(error)))
    return MadeViews(texts=tuple(tuple(dict.fromkeys(of_chunk)) for of_chunk in texts), degraded=tuple(degraded))


def parts_of(text: str, limit: int) -> tuple[str, ...]:
    """Return the whole text in parts of at most `limit` tokens, cut at white space where some is near."""
    parts: list[str] = []
    rest = text.strip()
    while rest:
        part = beginning(rest, limit, count_tokens).text
        parts.append(part.strip())
        rest = rest[len(part) :].strip()
    return tuple(parts)


def section_name(chunk: Chunk, title: str) -> str:
    """Return the headings above the chunk, outermost first, without the document's title; "" where it has none."""
    path = chunk.path[1:] if chunk.path and same_words(chunk.path[0], title) else chunk.path
    return SEPARATOR.join(filter(None, path))


def version_of(maker: object, prompt: str = "") -> str:
    """Return what decides a maker's texts: its prompt's version, or "offline/1", and a hash of its options.

    The number of "offline/1" is raised where the offline way makes other texts of the same chunks.
    """
    return f"{prompts.load(prompt).version if prompt else 'offline/1'}:{digest(repr(maker))}"


def check_obeyed(by: str, *words: str) -> None:
    """Refuse words to a model, such as guidance or a language, where none is asked.

    Raises:
        ParameterError: `by` is "offline", and there are some.
    """
    if by == "offline" and any(words):
        raise ParameterError("by", by, "'llm' with guidance or a language: only a model obeys")


def _questions(chunk: Chunk, place: int, title: str, task: Task) -> list[_Question]:
    parts = parts_of(chunk.text, task.part_tokens)
    what = f"{task.kind} of chunk {chunk.id}"
    return [
        _Question(
            _request(chunk, part, _note(number, len(parts)), title, task),
            place,
            f"{what}, part {number} of {len(parts)}" if len(parts) > 1 else what,
            part,
        )
        for number, part in enumerate(parts, start=1)
    ]


def _request(chunk: Chunk, part: str, note: str, title: str, task: Task) -> Complete:
    prompt = prompts.load(task.prompt)
    return Complete(
        prompt=prompt.filled(
            # in one line each: a title of several could look like other parts of the prompt
            document=shielded(" ".join(title.split())) or "(unknown)",
            section=shielded(" ".join(section_name(chunk, title).split())) or "(none)",
            note=note,
            content=shielded(part),
            guidance=task.guidance or "(nothing)",
            language=(
                f"Answer in {task.language}."
                if task.language
                else "Answer in the language that the content is written in."
            ),
            **task.limits,
        ),
        purpose=task.prompt.replace("_", " "),
        system=prompt.system,
        max_tokens=task.max_tokens,
        prompt_version=prompt.version,
        schema=prompt.schema,
        validate=partial(_checked, read=task.read, part=part),
    )


def _checked(reply: str, read: Read, part: str) -> tuple[str, ...]:
    return read(reply, part)


def _note(number: int, parts: int) -> str:
    if parts == 1:
        return "The section is given whole."
    return f"The section is long: this is part {number} of {parts}, to be dealt with by itself."
