"""Questions that chunks answer, asked of a language model: the words of who searches, beside those of who wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from catena.effects import Step
from catena.enrichment.view_asking import Task, ask_about, version_of
from catena.enrichment.view_maker import MadeViews
from catena.enrichment.view_replies import check_language, checked
from catena.enrichment.view_sentences import count_words
from catena.model import Chunk
from catena.model.options import check_options
from catena.text.replies import read_items
from catena.text.words import UNSPACED, tokenise

QUESTIONS = "questions"
"""Kind of the views that are questions which a chunk answers."""

LONGEST_QUESTION = 60  # words
_LONGEST_CHARACTERS = 600
_UNSPACED = re.compile(f"[{UNSPACED}]")
_MARKS = ("?", "？", "؟", ";", "՞")  # the last but one is the Greek question mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Makes views of kind "questions": each question that a chunk answers is one, so that the nearest one counts.

    Attributes:
        count: at most so many per chunk, or per part of a chunk that is longer than `part_tokens`.
        guidance: what the user adds to the prompt; "" adds nothing.
        language: of the answers, in words ("French"); "" is the content's own.
        part_tokens: of the text in one request.
        max_tokens: of one answer.

    Source: document expansion by query prediction, Nogueira et al. 2019, arXiv:1904.08375.
    """

    count: Annotated[int, Ge(1)] = 5
    guidance: str = ""
    language: str = ""
    part_tokens: Annotated[int, Ge(1)] = 8_000
    max_tokens: Annotated[int, Ge(1)] = 1_000

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def kind(self) -> str:
        """Return "questions"."""
        return QUESTIONS

    @property
    def asks_model(self) -> bool:
        """True: nobody else writes questions."""
        return True

    @property
    def version(self) -> str:
        """The prompt's version and a hash of the options."""
        return version_of(self, "view_questions")

    def make(self, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
        """Return the questions of each chunk; none for a chunk without a word.

        Raises:
            CatenaError: not a failure of the model, but of what surrounds it.
        """
        task = Task(
            kind=self.kind,
            prompt="view_questions",
            limits={"count": str(self.count)},
            read=self._read,
            guidance=self.guidance,
            language=self.language,
            part_tokens=self.part_tokens,
            max_tokens=self.max_tokens,
        )
        return (yield from ask_about(chunks, title, task))

    def _read(self, reply: str, content: str) -> tuple[str, ...]:
        return read_questions(reply, content, count=self.count, any_language=bool(self.language))


def read_questions(reply: str, content: str, *, count: int, any_language: bool = False) -> tuple[str, ...]:
    """Return the questions in an answer, none twice, from the first on at most `count`.

    Left out is what has no question mark, unless its script, written without spaces, may do without one, and what is
    longer than 60 words or 600 characters.

    Raises:
        ValueError: the answer is no list of questions, or not of this content, with the reason.
    """
    found: dict[tuple[str, ...], str] = {}
    for item in read_items(checked(reply, what="list")):
        if count_words(item) <= LONGEST_QUESTION and len(item) <= _LONGEST_CHARACTERS and _asks(item):
            found.setdefault(tuple(tokenise(item)), item)
    kept = tuple(found.values())[:count]
    if not kept:
        raise ValueError("the reply lists no questions")
    if not any_language:
        check_language(" ".join(kept), content, share=0.0)  # they are a searcher's words
    return kept


def _asks(text: str) -> bool:
    return text.endswith(_MARKS) or bool(_UNSPACED.search(text))
