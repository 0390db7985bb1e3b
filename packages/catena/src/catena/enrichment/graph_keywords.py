"""The keywords by which chunks are joined in a graph: what a language model picks, or what stands out offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Annotated, Literal

from annotated_types import Ge

from catena.effects import Step
from catena.enrichment.mentions import grounded
from catena.enrichment.view_asking import Task, ask_about, check_obeyed, version_of
from catena.enrichment.view_maker import MadeViews
from catena.enrichment.view_replies import checked
from catena.model import Chunk
from catena.model.options import check_options
from catena.text.keyphrases import COUNT, keywords_of
from catena.text.replies import read_items
from catena.text.words import normalise_term

KIND = "graph_keywords"
"""Kind of the view that lists the keywords of a chunk in a graph."""

_BETWEEN = "; "
_LONGEST = 10  # words of a keyword; a longer one is part of a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphKeywords:
    """Makes one view of kind "graph_keywords" per chunk, best first: no route searches it unless it is told to.

    Attributes:
        by: "llm" asks a language model, once per chunk and, where a chunk is longer than `part_tokens`, once per part
            of it. "offline" takes what `catena.text.keyphrases` finds, and asks nobody: the same as a graph takes
            where there is no such view.
        count: at most so many of a chunk.
        guidance: what the user adds to the prompt; "" adds nothing.
        part_tokens: of the text in one request. Of a longer chunk the best keywords of each part count alike.
        max_tokens: of one answer.

    Source: IIER (arXiv 2408.02907), section 3.1 and appendix A.2: five phrases of the chunk, none of them its title.
    """

    by: Literal["llm", "offline"] = "llm"
    count: Annotated[int, Ge(1)] = COUNT
    guidance: str = ""
    part_tokens: Annotated[int, Ge(1)] = 8_000
    max_tokens: Annotated[int, Ge(1)] = 400

    def __post_init__(self) -> None:
        check_options(self)
        check_obeyed(self.by, self.guidance)

    @property
    def kind(self) -> str:
        """Return "graph_keywords"."""
        return KIND

    @property
    def asks_model(self) -> bool:
        """Whether a language model is asked."""
        return self.by == "llm"

    @property
    def version(self) -> str:
        """The prompt's version and a hash of the options."""
        return version_of(self, KIND if self.asks_model else "")

    def make(self, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
        """Return the list of each chunk, its keywords between "; "; none for a chunk without one.

        What a model lists and the text does not print is left out; an answer of nothing else counts as failed.

        Raises:
            CatenaError: not a failure of the model, but of what surrounds it.
        """
        if not self.asks_model:
            lists = (keywords_of(chunk.text, count=self.count, but=(title, *chunk.path)) for chunk in chunks)
            return MadeViews(texts=tuple(map(_as_view, lists)))
        task = Task(
            kind=self.kind,
            prompt=KIND,
            limits={"count": str(self.count)},
            read=self._read,
            guidance=self.guidance,
            language="",
            part_tokens=self.part_tokens,
            max_tokens=self.max_tokens,
        )
        made = yield from ask_about(chunks, title, task)
        return replace(made, texts=tuple(self._joined(texts) for texts in made.texts))

    def _read(self, reply: str, content: str) -> tuple[str, ...]:
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
        ValueError: the answer is no list, or none of it stands in the content.
    """
    items = [item for item in read_items(checked(reply, what="list")) if _BETWEEN.strip() not in item]
    printed = frozenset(grounded(items, content, max_words=_LONGEST).names)
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
