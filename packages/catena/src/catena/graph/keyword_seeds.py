"""The keywords of a question, which seeds have to cover: asked of a language model, or found offline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Literal

from catena import prompts
from catena.effects import Complete, Step, ask
from catena.model.errors import ParameterError
from catena.text.phrases import name_of, named_phrases
from catena.text.replies import read_items
from catena.text.terms import TermMatcher
from catena.text.words import tokenise

_MAX_TOKENS = 400
_CLOSING_MARK = "</question"
_LONGEST_REPLY = 20_000  # characters; a longer one is a model that does not stop
_FEWEST_LETTERS = 4  # of a word that is looked for where the question holds no name; one of ideographs has two
# Words with which questions begin, so that their capitals name nothing; of English and German, others cost a word.
_BEGINNING = frozenset(
    re.findall(
        r"\w+",
        """
        what which who whom whose when where why how is are was were do does did has have had can could will would
        should the a an in on at of for from to by with during after before between and or if that this these those
        welche welcher welches welchen welchem wer wem wen wessen wann wo woher wohin warum wieso wie ist sind war
        waren hat haben kann können wird werden wurde wurden der die das den dem ein eine einen im am an auf bei mit
        nach von und oder zwischen there
        """,
    )
)
_QUOTED = re.compile(
    '\u201c([^\u201c\u201d\\n]{2,80})\u201d|\u201e([^\u201e\u201c\\n]{2,80})\u201c|\u00ab([^\u00ab\u00bb\\n]{2,80})\u00bb|"([^"\\n]{2,80})"'
)


def question_keywords(question: str, *, by: Literal["offline", "llm"] = "offline") -> Step[tuple[str, ...]]:
    """Return what a question is about, normalised, in order of place; none stands inside another.

    Offline these are its names, codes and quoted words; where it holds none, its longer words without those with
    which questions begin. A model is asked for all its topics, and what it lists must stand in the question.

    Args:
        question: as typed.
        by: "offline" asks nobody; "llm" asks a language model once.

    Raises:
        ParameterError: `by` is neither.
        ServiceError: the model failed, or listed nothing that stands in the question.

    Source: IIER (arXiv 2408.02907), section 3.2 and appendix A.1; as many as there are.
    """
    if by not in ("offline", "llm"):
        raise ParameterError("by", by, "'offline' or 'llm'")
    if by == "offline" or not question.strip():
        return offline_question_keywords(question)
    prompt = prompts.load("question_keywords")
    request = Complete(
        prompt=prompt.filled(question=question.strip().replace(_CLOSING_MARK, "< /question")),
        purpose="question keywords",
        system=prompt.system,
        max_tokens=_MAX_TOKENS,
        prompt_version=prompt.version,
        schema=prompt.schema,
        validate=partial(read_question_keywords, question=question),
    )
    (reply,) = yield from ask([request])
    try:
        return read_question_keywords(reply.text, question)
    except ValueError:  # a reply that nobody checked, as in a dry run
        return offline_question_keywords(question)


def offline_question_keywords(question: str) -> tuple[str, ...]:
    """Return the names, codes and quoted words of a question, or else its longer words, in order of place."""
    named = (" ".join(_without_beginning(phrase)) for phrase in named_phrases(question))
    quoted = (text for match in _QUOTED.findall(question) for text in match)
    return _standing_in(question, (*named, *quoted)) or _standing_in(question, _content_words(question))


def read_question_keywords(reply: str, question: str) -> tuple[str, ...]:
    """Return the keywords in an answer that stand in the question, in order of place.

    Raises:
        ValueError: there is no list that `read_items` reads, or nothing of it stands in the question.
    """
    if len(reply) > _LONGEST_REPLY:
        raise ValueError(f"a reply of {len(reply)} characters, more than {_LONGEST_REPLY}")
    kept = _standing_in(question, read_items(reply))
    if not kept:
        raise ValueError("the reply lists nothing that stands in the question")
    return kept


def _standing_in(question: str, phrases: Iterable[str]) -> tuple[str, ...]:
    return TermMatcher(map(name_of, phrases)).longest_in(question)


def _without_beginning(phrase: Sequence[str]) -> Sequence[str]:
    first = next((place for place, word in enumerate(phrase) if word.lower() not in _BEGINNING), len(phrase))
    return phrase[first:]


def _content_words(question: str) -> Iterator[str]:
    for word in tokenise(question):
        ideographs = len(word) == 2 and not word.isascii() and not word.islower()
        if word not in _BEGINNING and (len(word) >= _FEWEST_LETTERS or ideographs):
            yield word
