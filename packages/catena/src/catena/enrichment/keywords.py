"""Keywords of chunks: what a language model lists, or the words and pairs of words that stand out in the document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Annotated, Literal

from annotated_types import Ge

from catena.effects import Step
from catena.enrichment.view_asking import Task, ask_about, check_obeyed, version_of
from catena.enrichment.view_maker import MadeViews
from catena.enrichment.view_replies import check_language, checked
from catena.enrichment.view_sentences import count_words
from catena.enrichment.view_terms import sentences_of, terms_of
from catena.model import Chunk
from catena.model.options import check_options
from catena.text.replies import read_items
from catena.text.words import normalise_term

KEYWORDS = "keywords"
"""Kind of the view that lists what a chunk is about."""

LONGEST_TERM = 12  # words; a longer one is a sentence
_LONGEST_TERM_CHARACTERS = 160
_GROUNDED = 0.1  # share of the words of a list that its section has: concepts need not be printed
_COMMON = 0.5  # share of a document's chunks; what more of them hold tells none from the others


@dataclass(frozen=True, slots=True, kw_only=True)
class Keywords:
    """Makes one view of kind "keywords" per chunk: concepts, names and descriptions that a question may ask for.

    Attributes:
        by: "llm" asks a language model, once per chunk and, where a chunk is longer than `part_tokens`, once per part
            of it. "offline" takes the words and pairs of neighbouring words with the highest TF-IDF in the document,
            and asks nobody.
        words: at most so many in a list.
        guidance: what the user adds to the prompt; "" adds nothing.
        language: of the answers, in words ("French"); "" is the content's own.
        part_tokens: of the text in one request. A longer chunk has a list for each part, all of them its views.
        max_tokens: of one answer.

    Source: the keyword view of MC-indexing; for the choice of the offline way, decision 25.
    """

    by: Literal["llm", "offline"] = "llm"
    words: Annotated[int, Ge(1)] = 80
    guidance: str = ""
    language: str = ""
    part_tokens: Annotated[int, Ge(1)] = 8_000
    max_tokens: Annotated[int, Ge(1)] = 1_000

    def __post_init__(self) -> None:
        check_options(self)
        check_obeyed(self.by, self.guidance, self.language)

    @property
    def kind(self) -> str:
        """Return "keywords"."""
        return KEYWORDS

    @property
    def asks_model(self) -> bool:
        """Whether a language model is asked."""
        return self.by == "llm"

    @property
    def version(self) -> str:
        """The prompt's version and a hash of the options."""
        return version_of(self, "view_keywords" if self.asks_model else "")

    def make(self, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
        """Return the list of each chunk, its terms between "; "; none for a chunk without a word.

        Raises:
            CatenaError: not a failure of the model, but of what surrounds it.
        """
        if not self.asks_model:
            lists = salient_terms([chunk.text for chunk in chunks], words=self.words)
            return MadeViews(texts=tuple(("; ".join(terms),) if terms else () for terms in lists))
        task = Task(
            kind=self.kind,
            prompt="view_keywords",
            limits={"words": str(self.words)},
            read=self._read,
            guidance=self.guidance,
            language=self.language,
            part_tokens=self.part_tokens,
            max_tokens=self.max_tokens,
        )
        return (yield from ask_about(chunks, title, task))

    def _read(self, reply: str, content: str) -> tuple[str, ...]:
        terms = read_keywords(reply, content, words=self.words, any_language=bool(self.language))
        return ("; ".join(terms),)


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


def within(terms: Sequence[str], words: int) -> tuple[str, ...]:
    """Return the terms from the first on, up to the one that would pass the number of words."""
    kept: list[str] = []
    for term in terms:
        words -= count_words(term)
        if words < 0:
            break
        kept.append(term)
    return tuple(kept)


def salient_terms(texts: Sequence[str], *, words: int) -> tuple[tuple[str, ...], ...]:
    """Return per text the words and pairs of words that stand out in it, best first and folded.

    `score(t, text) = n(t, text) * log((S + 1) / (s(t) + 1/2))`, with n the number of places of t in the text, S that
    of the sentences of all texts and s(t) that of those which hold t. Terms are those of `terms_of`. Left out is what
    more than half of the texts hold, and more than two of them. Of equal terms the first in the text is first.

    Args:
        texts: of the chunks of one document.
        words: at most so many per text.

    Source: TF-IDF (Spärck Jones 1972) over sentences, so that a document of one chunk has an idf too; decision 25.
    """
    sentences = [[list(terms_of(sentence)) for sentence in sentences_of(text)] for text in texts]
    counts = [Counter(term for terms in of_text for term in terms) for of_text in sentences]
    holding = Counter(term for of_text in sentences for terms in of_text for term in set(terms))
    spread = Counter(term for of_text in counts for term in of_text)
    total = sum(map(len, sentences))
    most = max(2, _COMMON * len(texts))
    lists = []
    for of_text in counts:
        score = {
            term: round(times * log((total + 1) / (holding[term] + 0.5)), 9)  # rounded: ties stay ties
            for term, times in of_text.items()
            if spread[term] <= most
        }
        lists.append(within(sorted(score, key=lambda term: -score[term]), words))
    return tuple(lists)
