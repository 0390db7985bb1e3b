"""Summaries of chunks: what a language model writes, or those of its own sentences that stand for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from catena.effects import Embed, Step, ask
from catena.enrichment.view_asking import Task, ask_about, check_options, version_of
from catena.enrichment.view_maker import MadeViews
from catena.enrichment.view_replies import read_summary
from catena.enrichment.view_sentences import count_words, running_sentences
from catena.errors import ParameterError
from catena.model import Chunk
from catena.tokens import count_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SUMMARY = "summary"
"""Kind of the view that is a chunk's summary."""

_RELEVANCE = 0.7  # weight of nearness to the whole against unlikeness to what is taken: decision 25
_WORDS = {"llm": 200, "offline": 120}
_BATCH = 256  # texts per request


@dataclass(frozen=True, slots=True, kw_only=True)
class Summaries:
    """Makes one view of kind "summary" per chunk that is long enough; the text of a shorter one is its own summary.

    Attributes:
        by: "llm" asks a language model, once per chunk and, where a chunk is longer than `part_tokens`, once per part
            of it. "offline" takes sentences of the chunk, in reading order, and asks the run's embedder alone.
        over_tokens: chunks of so many tokens and fewer have no summary.
        sentences: at most so many.
        words: at most so many; 0 takes 200 from a model and 120 offline.
        guidance: what the user adds to the prompt; "" adds nothing.
        language: of the answers, in words ("French"); "" is the content's own.
        part_tokens: of the text in one request. A longer chunk has a summary for each part, all of them its views.
        max_tokens: of one answer.

    Source: the summary view of MC-indexing; for the choice of the offline way, decision 25.
    """

    by: Literal["llm", "offline"] = "llm"
    over_tokens: int = 200
    sentences: int = 10
    words: int = 0
    guidance: str = ""
    language: str = ""
    part_tokens: int = 8_000
    max_tokens: int = 1_000

    def __post_init__(self) -> None:
        if self.words == 0:
            object.__setattr__(self, "words", _WORDS.get(self.by, 0))
        if self.over_tokens < 0:
            raise ParameterError("over_tokens", self.over_tokens, "an integer >= 0")
        check_options(self, ("sentences", "words", "part_tokens", "max_tokens"))

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
        """Return the summary of each chunk of more than `over_tokens` tokens.

        Offline, a chunk without running text, such as a table, has none.

        Raises:
            CatenaError: offline, the embedder failed; else not a failure of the model, but of what surrounds it.
        """
        if not self.asks_model:
            return (yield from self._offline(chunks))
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
        return (yield from ask_about(chunks, title, task, over_tokens=self.over_tokens))

    def _read(self, reply: str, content: str) -> tuple[str, ...]:
        language = bool(self.language)
        return (read_summary(reply, content, sentences=self.sentences, words=self.words, any_language=language),)

    def _offline(self, chunks: Sequence[Chunk]) -> Step[MadeViews]:
        found = [running_sentences(chunk) if count_tokens(chunk.text) > self.over_tokens else () for chunk in chunks]
        vectors = yield from _vectors([sentence for of_chunk in found for sentence in of_chunk])
        texts = []
        for of_chunk in found:
            sizes = [count_words(sentence) for sentence in of_chunk]
            rows = [vectors[sentence] for sentence in of_chunk]
            chosen = central_sentences(rows, sizes, sentences=self.sentences, words=self.words)
            texts.append((" ".join(of_chunk[place] for place in chosen),) if chosen else ())
        return MadeViews(texts=tuple(texts))


def central_sentences(
    vectors: Sequence[NDArray[np.float64]], sizes: Sequence[int], *, sentences: int, words: int
) -> tuple[int, ...]:
    """Return the places of sentences that together stand for all of them, ascending.

    By maximal marginal relevance: one after the other, of those for which there is room, the sentence with the
    greatest `0.7 * cos(v, mean) - 0.3 * max(0, cos(v, u) for u taken)` is taken; of equal ones the first.

    Args:
        vectors: one row per sentence, of unit length or zero.
        sizes: words of each sentence.
        sentences: at most so many.
        words: at most so many in all.

    Returns:
        Places from 0; () where no sentence is short enough.

    Source: Carbonell and Goldstein, SIGIR 1998, doi:10.1145/290941.291025, with the mean of all sentences as query.
    """
    import numpy as np

    if not len(vectors):
        return ()
    rows = np.asarray(vectors, dtype=np.float64)
    mean = rows.mean(axis=0)
    relevance = rows @ mean / (float(np.linalg.norm(mean)) or 1.0)
    likeness = np.zeros(len(rows))
    room = np.asarray(sizes)
    chosen: list[int] = []
    while len(chosen) < sentences and (room <= words).any():
        # rounded: what differs by less differs by the order in which a machine sums
        value = np.round(_RELEVANCE * relevance - (1 - _RELEVANCE) * likeness, 9)
        best = int(np.where(room <= words, value, -np.inf).argmax())
        chosen.append(best)
        words -= sizes[best]
        room = np.where(np.arange(len(rows)) == best, np.iinfo(np.int64).max, room)
        likeness = np.maximum(likeness, rows @ rows[best])
    return tuple(sorted(chosen))


def _vectors(sentences: Sequence[str]) -> Step[dict[str, NDArray[np.float64]]]:
    """Return the vector of each distinct sentence, asked for in one round."""
    import numpy as np

    distinct = list(dict.fromkeys(sentences))
    batches = [tuple(distinct[at : at + _BATCH]) for at in range(0, len(distinct), _BATCH)]
    requests = [Embed(texts=batch, purpose="embedding for summaries") for batch in batches]
    replies: list[Any] = (yield from ask(requests)) if requests else []
    rows = [row for reply in replies for row in np.asarray(reply, dtype=np.float64)]
    return dict(zip(distinct, rows, strict=True))
