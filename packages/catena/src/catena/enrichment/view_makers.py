"""Make the views of chunks: summaries, keywords, questions, and the keywords of a graph, by a model or offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from catena.effects import Step
from catena.enrichment.entities import grounded
from catena.enrichment.view_asking import ModelMaker, ask_about, check_language, checked, read_summary
from catena.enrichment.view_text import (
    UNSPACED_LETTER,
    count_words,
    covering_sentences,
    running_sentences,
    salient_terms,
    within,
)
from catena.enrichment.views import MadeViews
from catena.model import Chunk
from catena.text import COUNT, count_tokens, keywords_of, normalise_term, read_items, tokenise

SUMMARY = "summary"
"""Kind of the view that is a chunk's summary."""

_WORDS = {"llm": 200, "offline": 120}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summaries(ModelMaker):
    """Makes one view of kind "summary" per chunk; one that is short is its own summary, and no model is asked for it.

    So every chunk is in the view: a rule that counts views would else hold its length against it.

    Attributes:
        by: "llm" asks a language model, once per chunk and, where a chunk is longer than `part_tokens`, once per part
            of it. "offline" takes sentences of the chunk, in reading order, and asks no model.
        over_tokens: chunks of so many tokens and fewer are their own summary.
        sentences: at most so many.
        words: at most so many; 0 takes 200 from a model and 120 offline.
        guidance: what the user adds to the prompt; "" adds nothing.
        language: of the answers, in words ("French"); "" is the content's own.
        part_tokens: of the text in one request. A longer chunk has a summary for each part, all of them its views.
        max_tokens: of one answer.

    Source: the summary view of MC-indexing; for the choice of the offline way, decision 25.
    """

    kind: ClassVar[str] = SUMMARY
    prompt: ClassVar[str] = "view_summary"
    by: Literal["llm", "offline"] = "llm"
    over_tokens: Annotated[int, Ge(0)] = 200
    sentences: Annotated[int, Ge(1)] = 10
    words: Annotated[int, Ge(0)] = 0
    guidance: str = ""
    language: str = ""
    part_tokens: Annotated[int, Ge(1)] = 8_000
    max_tokens: Annotated[int, Ge(1)] = 1_000

    def __post_init__(self) -> None:
        ModelMaker.__post_init__(self)
        if self.words == 0:
            object.__setattr__(self, "words", _WORDS[self.by])

    def make(self, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
        """Return the summary of each chunk: of one of up to `over_tokens` tokens its text as it is.

        Offline, a longer chunk without running text, such as a table, has none.

        Raises:
            CatenaError: not a failure of the model, but of what surrounds it.
        """
        if not self.asks_model:
            return MadeViews(texts=tuple(map(self._covering, chunks)))
        limits = {"sentences": str(self.sentences), "words": str(self.words)}
        made = yield from ask_about(self, chunks, title, limits, over_tokens=self.over_tokens)
        paired = zip(chunks, made.texts, strict=True)
        texts = ((chunk.text,) if self._is_short(chunk) else of_chunk for chunk, of_chunk in paired)
        return replace(made, texts=tuple(texts))

    def read(self, reply: str, content: str) -> tuple[str, ...]:
        language = bool(self.language)
        return (read_summary(reply, content, sentences=self.sentences, words=self.words, any_language=language),)

    def _is_short(self, chunk: Chunk) -> bool:
        return count_tokens(chunk.text) <= self.over_tokens

    def _covering(self, chunk: Chunk) -> tuple[str, ...]:
        if self._is_short(chunk):
            return (chunk.text,)
        found = running_sentences(chunk)
        chosen = covering_sentences(found, sentences=self.sentences, words=self.words)
        return (" ".join(found[place] for place in chosen),) if chosen else ()


KEYWORDS = "keywords"
"""Kind of the view that lists what a chunk is about."""

LONGEST_TERM = 12  # words; a longer one is a sentence
_LONGEST_TERM_CHARACTERS = 160
_GROUNDED = 0.1  # share of the words of a list that its section has: concepts need not be printed


@dataclass(frozen=True, slots=True, kw_only=True)
class Keywords(ModelMaker):
    """Makes one view of kind "keywords" per chunk: concepts, names and descriptions that a question may ask for.

    Attributes:
        by: "llm" asks a language model, once per chunk and, where a chunk is longer than `part_tokens`, once per part
            of it. "offline" takes the words and pairs of neighbouring words with the highest TF-IDF in the document,
            and asks no model.
        words: at most so many in a list.
        guidance: what the user adds to the prompt; "" adds nothing.
        language: of the answers, in words ("French"); "" is the content's own.
        part_tokens: of the text in one request. A longer chunk has a list for each part, all of them its views.
        max_tokens: of one answer.

    Source: the keyword view of MC-indexing; for the choice of the offline way, decision 25.
    """

    kind: ClassVar[str] = KEYWORDS
    prompt: ClassVar[str] = "view_keywords"
    by: Literal["llm", "offline"] = "llm"
    words: Annotated[int, Ge(1)] = 80
    guidance: str = ""
    language: str = ""
    part_tokens: Annotated[int, Ge(1)] = 8_000
    max_tokens: Annotated[int, Ge(1)] = 1_000

    def make(self, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
        """Return the list of each chunk, its terms between "; "; none for a chunk without a word.

        Raises:
            CatenaError: not a failure of the model, but of what surrounds it.
        """
        if not self.asks_model:
            lists = salient_terms([chunk.text for chunk in chunks], words=self.words)
            return MadeViews(texts=tuple(("; ".join(terms),) if terms else () for terms in lists))
        return (yield from ask_about(self, chunks, title, {"words": str(self.words)}))

    def read(self, reply: str, content: str) -> tuple[str, ...]:
        return ("; ".join(read_keywords(reply, content, words=self.words, any_language=bool(self.language))),)


def read_keywords(reply: str, content: str, *, words: int, any_language: bool = False) -> tuple[str, ...]:
    """Return the terms in an answer, none twice, from the first on as many as the bound allows.

    Left out are sentences (more than 12 words) and what repeats another in case, width or hyphens.

    Args:
        reply: what the model said: a JSON list, or another list that `read_items` reads.
        content: what it was to list the terms of.
        words: at most so many in all.
        any_language: whether they may be in another language than the content.

    Raises:
        ValueError: the answer is no list of terms, or not one of this content, with the reason.
    """
    terms: dict[str, str] = {}
    for item in read_items(checked(reply, what="list")):
        if count_words(item) <= LONGEST_TERM and len(item) <= _LONGEST_TERM_CHARACTERS:
            terms.setdefault(normalise_term(item), item)
    terms.pop("", None)
    kept = within(list(terms.values()), words)
    if not kept:
        raise ValueError("the reply lists sentences, not terms")
    if not any_language:
        check_language("; ".join(kept), content, share=_GROUNDED)
    return kept


QUESTIONS = "questions"
"""Kind of the views that are questions which a chunk answers."""

LONGEST_QUESTION = 60  # words
_LONGEST_CHARACTERS = 600
_MARKS = ("?", "？", "؟", ";", "՞")  # the last but one is the Greek question mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions(ModelMaker):
    """Makes views of kind "questions": each question that a chunk answers is one, so that the nearest one counts.

    Attributes:
        count: at most so many per chunk, or per part of a chunk that is longer than `part_tokens`.
        guidance: what the user adds to the prompt; "" adds nothing.
        language: of the answers, in words ("French"); "" is the content's own.
        part_tokens: of the text in one request.
        max_tokens: of one answer.

    Source: document expansion by query prediction, Nogueira et al. 2019, arXiv:1904.08375.
    """

    kind: ClassVar[str] = QUESTIONS
    prompt: ClassVar[str] = "view_questions"
    count: Annotated[int, Ge(1)] = 5
    guidance: str = ""
    language: str = ""
    part_tokens: Annotated[int, Ge(1)] = 8_000
    max_tokens: Annotated[int, Ge(1)] = 1_000

    def make(self, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
        """Return the questions of each chunk; none for a chunk without a word.

        Raises:
            CatenaError: not a failure of the model, but of what surrounds it.
        """
        return (yield from ask_about(self, chunks, title, {"count": str(self.count)}))

    def read(self, reply: str, content: str) -> tuple[str, ...]:
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
        asks = item.endswith(_MARKS) or UNSPACED_LETTER.search(item)
        if asks and count_words(item) <= LONGEST_QUESTION and len(item) <= _LONGEST_CHARACTERS:
            found.setdefault(tuple(tokenise(item)), item)
    kept = tuple(found.values())[:count]
    if not kept:
        raise ValueError("the reply lists no questions")
    if not any_language:
        check_language(" ".join(kept), content, share=0.0)  # they are a searcher's words
    return kept


KIND = "graph_keywords"
"""Kind of the view that lists the keywords of a chunk in a graph."""

_BETWEEN = "; "
_LONGEST_KEYWORD = 10  # words of a keyword; a longer one is part of a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphKeywords(ModelMaker):
    """Makes one view of kind "graph_keywords" per chunk, best first: no route searches it unless it is told to.

    Attributes:
        by: "llm" asks a language model, once per chunk and, where a chunk is longer than `part_tokens`, once per part
            of it. "offline" takes what `catena.text.phrases` finds, and asks no model: the same as a graph takes
            where there is no such view.
        count: at most so many of a chunk.
        guidance: what the user adds to the prompt; "" adds nothing.
        part_tokens: of the text in one request. Of a longer chunk the best keywords of each part count alike.
        max_tokens: of one answer.

    Source: IIER (arXiv 2408.02907), section 3.1 and appendix A.2: five phrases of the chunk, none of them its title.
    """

    kind: ClassVar[str] = KIND
    prompt: ClassVar[str] = KIND
    by: Literal["llm", "offline"] = "llm"
    count: Annotated[int, Ge(1)] = COUNT
    guidance: str = ""
    part_tokens: Annotated[int, Ge(1)] = 8_000
    max_tokens: Annotated[int, Ge(1)] = 400

    def make(self, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
        """Return the list of each chunk, its keywords between "; "; none for a chunk without one.

        What a model lists and the text does not print is left out; an answer of nothing else counts as failed.

        Raises:
            CatenaError: not a failure of the model, but of what surrounds it.
        """
        if not self.asks_model:
            lists = (keywords_of(chunk.text, count=self.count, but=(title, *chunk.path)) for chunk in chunks)
            return MadeViews(texts=tuple(map(_as_view, lists)))
        made = yield from ask_about(self, chunks, title, {"count": str(self.count)})
        return replace(made, texts=tuple(self._joined(texts) for texts in made.texts))

    def read(self, reply: str, content: str) -> tuple[str, ...]:
        return _as_view(read_graph_keywords(reply, content, count=self.count))

    def _joined(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return one list of a chunk from those of its parts, which take turns."""
        distinct: dict[str, str] = {}
        for term in chain.from_iterable(zip_longest(*map(keywords_of_view, texts), fillvalue="")):
            if term:
                distinct.setdefault(normalise_term(term), term)
        return _as_view(tuple(distinct.values())[: self.count])


def read_graph_keywords(reply: str, content: str, *, count: int) -> tuple[str, ...]:
    """Return the keywords in an answer that the content prints, none twice, in the order of the answer.

    Compared are normalised spellings, between word borders, so that another case, width or hyphen does no harm.

    Args:
        reply: what the model said: a JSON list, or another list that `read_items` reads.
        content: what it was to pick the keywords of.
        count: at most so many.

    Raises:
        ValueError: the answer is no list, or the content prints none of it.
    """
    items = [item for item in read_items(checked(reply, what="list")) if _BETWEEN.strip() not in item]
    printed = frozenset(grounded(items, content, max_words=_LONGEST_KEYWORD).names)
    kept: dict[str, str] = {}
    for item in items:
        if (term := normalise_term(item)) in printed:
            kept.setdefault(term, item)
    if not kept:
        raise ValueError("the reply lists nothing that the content prints")
    return tuple(kept.values())[:count]


def keywords_of_view(text: str) -> tuple[str, ...]:
    """Return the keywords that a view of kind "graph_keywords" lists, best first."""
    return tuple(term for term in map(str.strip, text.split(_BETWEEN.strip())) if term)


def _as_view(keywords: Sequence[str]) -> tuple[str, ...]:
    return (_BETWEEN.join(keywords),) if keywords else ()
