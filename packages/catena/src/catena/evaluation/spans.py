"""Gold as character spans of documents: judges the chunks of any chunker by what they cover."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from catena.evaluation.judgements import Ranked, check_ids, ranked_ids
from catena.model import Chunk
from catena.model.errors import EvaluationError, ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldSpan:
    """A stretch of a document that holds (a part of) an answer.

    Attributes:
        item: what a reader must find; several spans may belong to one item, and any of them will do.
        start: 0-based code point into the document's text; the span is half-open, [start, end).
    """

    item: str
    document_id: str
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ParameterError("gold span", (self.start, self.end), "offsets with 0 <= start < end")


def chunks_of_items(
    chunks: Iterable[Chunk], gold_spans: Iterable[GoldSpan], *, min_overlap: float = 0.5
) -> dict[str, frozenset[str]]:
    """Return the ids of the chunks that are relevant to each gold item.

    A chunk is relevant to a span of its own document if at least `min_overlap` of the chunk's visible (non-space)
    characters lie in the span, or if the chunk holds at least `min_overlap` of the span's characters and any visible
    one among them. Equal text in another document is a miss: its citation would be wrong.

    Args:
        chunks: all chunks that were ranked, in any order.
        gold_spans: spans of one question or of many: items that many questions share are judged once.
        min_overlap: share in (0, 1].

    Returns:
        Every item of `gold_spans`; the set is empty when the chunks are so cut that none covers it.

    Raises:
        ParameterError: min_overlap is not in (0, 1].
    """
    if not 0 < min_overlap <= 1:
        raise ParameterError("min_overlap", min_overlap, "a share in (0, 1]")
    of_document: defaultdict[str, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        of_document[chunk.document_id].append(chunk)
    relevant: defaultdict[str, set[str]] = defaultdict(set)
    for span in gold_spans:
        relevant[span.item].update(
            chunk.id for chunk in of_document.get(span.document_id, ()) if _covers(chunk, span, min_overlap)
        )
    return {item: frozenset(ids) for item, ids in relevant.items()}


def relevant_chunks(
    chunks: Iterable[Chunk], gold_spans: Iterable[GoldSpan], *, min_overlap: float = 0.5
) -> frozenset[str]:
    """Return the ids of the chunks that are relevant to any of the gold spans, as `chunks_of_items` judges them."""
    return frozenset().union(*chunks_of_items(chunks, gold_spans, min_overlap=min_overlap).values())


def items_found(ranked: Ranked, items: Mapping[str, Collection[str]], k: int) -> frozenset[str]:
    """Return the gold items of which at least one chunk is among the first k ranked.

    Args:
        ranked: as in `judgements.scored_ids`.
        items: relevant chunk ids of each item, from `chunks_of_items`.
        k: cutoff, at least 1.

    Raises:
        ParameterError: k is below 1.
        EvaluationError: the ranking is malformed.
    """
    if k < 1:
        raise ParameterError("k", k, "a cutoff of 1 or more")
    top = set(ranked_ids(ranked)[:k])
    for item, ids in items.items():
        check_ids(ids, f"chunks of item {item!r}")
    return frozenset(item for item, ids in items.items() if not top.isdisjoint(ids))


def item_recall(ranked: Ranked, items: Mapping[str, Collection[str]], k: int) -> float:
    """Return `|items found in the first k| / |items|`.

    Unlike recall over chunks it does not depend on how many chunks an item was cut into. An item that no chunk
    covers counts as not found: the chunker lost it.

    Raises:
        ParameterError: k is below 1.
        EvaluationError: there are no items (the recall is undefined), or the ranking is malformed.
    """
    if not items:
        raise EvaluationError("item recall is undefined without gold items. Try: leave the query out, and count it")
    return len(items_found(ranked, items, k)) / len(items)


def _covers(chunk: Chunk, span: GoldSpan, min_overlap: float) -> bool:
    start, end = max(chunk.start, span.start), min(chunk.end, span.end)
    shared = _visible(chunk.text[start - chunk.start : end - chunk.start]) if start < end else 0
    if not shared:
        return False
    return shared >= min_overlap * _visible(chunk.text) or end - start >= min_overlap * (span.end - span.start)


def _visible(text: str) -> int:
    return sum(map(len, text.split()))
