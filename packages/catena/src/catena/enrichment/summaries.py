"""Summaries of chunks: what a language model writes, or those of its own sentences that stand for the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Literal

from annotated_types import Ge

from catena.effects import Step
from catena.enrichment.view_asking import Task, ask_about, check_obeyed, version_of
from catena.enrichment.view_maker import MadeViews
from catena.enrichment.view_replies import read_summary
from catena.enrichment.view_sentences import count_words, running_sentences
from catena.enrichment.view_terms import terms_of
from catena.model import Chunk
from catena.model.options import check_options
from catena.text.tokens import count_tokens

SUMMARY = "summary"
"""Kind of the view that is a chunk's summary."""

_WORDS = {"llm": 200, "offline": 120}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summaries:
    """Makes one view of kind "summary" per chunk; one that is short is its own summary, and no model is asked for it.

    So every chunk stands in the view: a rule that counts views would else hold its length against it.

    Attributes:
        by: "llm" asks a language model, once per chunk and, where a chunk is longer than `part_tokens`, once per part
            of it. "offline" takes sentences of the chunk, in reading order, and asks nobody.
        over_tokens: chunks of so many tokens and fewer are their own summary.
        sentences: at most so many.
        words: at most so many; 0 takes 200 from a model and 120 offline.
        guidance: what the user adds to the prompt; "" adds nothing.
        language: of the answers, in words ("French"); "" is the content's own.
        part_tokens: of the text in one request. A longer chunk has a summary for each part, all of them its views.
        max_tokens: of one answer.

    Source: the summary view of MC-indexing; for the choice of the offline way, decision 25.
    """

    by: Literal["llm", "offline"] = "llm"
    over_tokens: Annotated[int, Ge(0)] = 200
    sentences: Annotated[int, Ge(1)] = 10
    words: Annotated[int, Ge(0)] = 0
    guidance: str = ""
    language: str = ""
    part_tokens: Annotated[int, Ge(1)] = 8_000
    max_tokens: Annotated[int, Ge(1)] = 1_000

    def __post_init__(self) -> None:
        check_options(self)
        check_obeyed(self.by, self.guidance, self.language)
        if self.words == 0:
            object.__setattr__(self, "words", _WORDS[self.by])

    @property
    def kind(self) -> str:
        """Return "summary"."""
        return SUMMARY

    @property
    def asks_model(self) -> bool:
        """Whether a language model is asked."""
        return self.by == "llm"

    @property
    def version(self) -> str:
        """The prompt's version and a hash of the options."""
        return version_of(self, "view_summary" if self.asks_model else "")

    def make(self, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
        """Return the summary of each chunk: of one of up to `over_tokens` tokens its text as it is.

        Offline, a longer chunk without running text, such as a table, has none.

        Raises:
            CatenaError: not a failure of the model, but of what surrounds it.
        """
        if not self.asks_model:
            return MadeViews(texts=tuple(map(self._covering, chunks)))
        task = Task(
            kind=self.kind,
            prompt="view_summary",
            limits={"sentences": str(self.sentences), "words": str(self.words)},
            read=self._read,
            guidance=self.guidance,
            language=self.language,
            part_tokens=self.part_tokens,
            max_tokens=self.max_tokens,
        )
        made = yield from ask_about(chunks, title, task, over_tokens=self.over_tokens)
        texts = (
            (chunk.text,) if self._is_short(chunk) else of_chunk
            for chunk, of_chunk in zip(chunks, made.texts, strict=True)
        )
        return replace(made, texts=tuple(texts))

    def _read(self, reply: str, content: str) -> tuple[str, ...]:
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


def covering_sentences(texts: Sequence[str], *, sentences: int, words: int) -> tuple[int, ...]:
    """Return the places of sentences that together hold what all of them say most often, ascending.

    One after the other, of those for which there is room, the sentence with the greatest `sum of n(t) / words` over
    its terms t that no sentence taken holds is taken; n(t) is the number of places of t in all of them. Of equal
    sentences the first.

    Args:
        texts: the sentences, in reading order.
        sentences: at most so many.
        words: at most so many in all.

    Returns:
        Places from 0; () where no sentence is short enough.

    Source: coverage of concepts, Gillick and Favre 2009, W09-1802, by the greedy rule of Khuller, Moss and Naor 1999,
        doi:10.1016/S0020-0190(99)00031-9.
    """
    terms = [tuple(terms_of(text)) for text in texts]
    weights = Counter(term for of_text in terms for term in of_text)
    new = [dict.fromkeys(of_text) for of_text in terms]
    sizes = [count_words(text) for text in texts]
    chosen: list[int] = []
    open_places = [place for place, size in enumerate(sizes) if size]
    while len(chosen) < sentences and (fit := [place for place in open_places if sizes[place] <= words]):
        worth = {place: sum(weights[term] for term in new[place]) for place in fit}
        best = max(fit, key=lambda place: (Fraction(worth[place], sizes[place]), -place))
        chosen.append(best)
        words -= sizes[best]
        taken = new[best].keys()
        open_places = [place for place in fit if place != best]
        new = [{term: None for term in of_text if term not in taken} for of_text in new]
    return tuple(sorted(chosen))
