"""Views of chunks, by any makers side by side: summaries, keywords, questions, and what users add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catena.effects import Failed, Step, together
from catena.enrichment.graph_keywords import GraphKeywords
from catena.enrichment.keywords import Keywords
from catena.enrichment.summaries import Summaries
from catena.enrichment.view_maker import MadeViews, ViewMaker, check_maker, made_by
from catena.enrichment.view_questions import Questions
from catena.model import Chunk, Degraded, View
from catena.model.errors import ServiceError

__all__ = ["PLANNED", "GraphKeywords", "Keywords", "MadeViews", "Questions", "Summaries", "ViewMaker", "make_views"]

PLANNED: Mapping[str, str] = {
    "view summary": "A stand-in.",
    "view keywords": '["stand-in"]',
    "view questions": '["What stands in?"]',
    "graph keywords": '["stand-in"]',
}
"""By purpose of request, an answer for dry runs."""


def make_views(
    chunks: Sequence[Chunk], makers: Sequence[ViewMaker], *, title: str = ""
) -> Step[tuple[tuple[View, ...], tuple[Degraded, ...]]]:
    """Let all makers work side by side; those of this package ask all they ask in one round of requests.

    What a maker fails at costs that view, and no other. Two makers of one kind both count: a chunk may have several
    views of a kind, and is as near to a query as its best one.

    Args:
        chunks: of one document, in order.
        makers: any number, each of a kind; a chunk need not have a view of every kind.
        title: of the document, as prompts name it.

    Returns:
        The views, by maker and then by chunk, none blank and none twice; and what was asked for and not given.

    Raises:
        ParameterError: a maker has no kind, or gave something else than `MadeViews` of these chunks.
        CatenaError: not a failure of a maker or a model, but of what surrounds them (nobody answers, the budget, the
            journal).
    """
    for maker in makers:
        check_maker(maker)
    results = yield from together([made_by(maker, chunks, title) for maker in makers])
    views: dict[View, None] = {}
    degraded: list[Degraded] = []
    for maker, result in zip(makers, results, strict=True):
        if isinstance(result, Failed):
            if not isinstance(result.error, ServiceError):
                raise result.error
            degraded.append(Degraded(f"{maker.kind} of all {len(chunks)} chunks", str(result.error)))
            continue
        views.update(dict.fromkeys(_views(maker.kind, chunks, result)))
        degraded += result.degraded
    return tuple(views), tuple(degraded)


def _views(kind: str, chunks: Sequence[Chunk], made: MadeViews) -> list[View]:
    return [
        View(chunk_id=chunk.id, kind=kind, text=text)
        for chunk, texts in zip(chunks, made.texts, strict=True)
        for text in texts
        if text.strip()
    ]
