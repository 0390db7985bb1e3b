"""Convert segments to nodes and back, and nodes with scores to a ranking that knows how they were found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import PurePath
from typing import Any, cast

from llama_index.core.schema import BaseNode, NodeWithScore, TextNode

from catena import Chunk, Degraded, Hit, Provenance, Ranking, Scale, Segment
from catena.answering import Passage
from catena.model import (
    FILE_IN_CITATION,
    GENERATED_TITLE,
    PLACE_KEYS,
    TITLE,
    FrozenMetadata,
    Unknown,
    citation,
    place_metadata,
)
from catena.segments import Extraction, Linked, SegmentHit
from llama_index_catena.convert import (
    CITATION,
    HEADER_PATH,
    HEADINGS,
    NOTICE,
    ORIGINAL,
    PROVENANCE,
    UNKNOWN,
    header_path,
    headings_metadata,
    joined_keys,
    node_of_slice,
    provenance,
    scores_of,
    to_chunk,
    written_provenance,
)
from llama_index_catena.documents import DOCUMENT_KEYS

SEGMENT = "segment"
"""The `kind` in the metadata of a node that is a segment."""

CHUNK_IDS, QUERIES = "chunk_ids", "queries"
"""Metadata keys of a segment: JSON lists of the ids of its chunks, and of the queries that it answers, in words."""

FIRST_POSITION, LAST_POSITION = "first_position", "last_position"
"""Metadata keys of a segment: the places of its first and last chunk in the document, from 0."""

POSITION = "position"
"""Metadata key of a node: its place in its document, from 0."""

_MACHINE = ("kind", CHUNK_IDS, QUERIES, FIRST_POSITION, LAST_POSITION, HEADER_PATH, PROVENANCE, "document_id")


def linked_chunk(node: BaseNode) -> Linked:
    """Return a node as a chunk that carries it, with the nodes that it says stand before and after it."""
    chunk = to_chunk(node)
    name = "" if chunk.metadata.get(TITLE) else str(node.metadata.get("file_name") or "")
    named = {TITLE: PurePath(name).stem} if name else {}
    carrying = cast("Any", {**chunk.metadata, **named, ORIGINAL: node})
    before, after = node.prev_node, node.next_node
    return Linked(
        replace(chunk, metadata=FrozenMetadata(carrying)),
        previous=None if before is None else before.node_id,
        next=None if after is None else after.node_id,
    )


def carried_node(chunk: Chunk) -> BaseNode | None:
    """Return the node that a chunk was made of, None for a chunk of a library."""
    node = chunk.metadata.get(ORIGINAL)
    return node if isinstance(node, BaseNode) else None


def counts_positions(chunk: Chunk) -> bool:
    """Say whether a chunk's position is one, i.e. whether its node names it or it comes from a library."""
    node = carried_node(chunk)
    return node is None or isinstance(node.metadata.get(POSITION), int)


def apart(nodes: Iterable[NodeWithScore]) -> tuple[list[NodeWithScore], list[NodeWithScore]]:
    """Return passages and notices, which say why there is no passage."""
    passages: list[NodeWithScore] = []
    notices: list[NodeWithScore] = []
    for found in nodes:
        (notices if found.node.metadata.get("kind") == NOTICE else passages).append(found)
    return passages, notices


def ranking_of(nodes: Sequence[NodeWithScore]) -> Ranking:
    """Return nodes with scores as a ranking, best first, one hit per node.

    Where `CatenaRerank` gave the scores they are probabilities; other scores are similarities, or distances, which
    rise down the list, as negative numbers; where one is missing only the order counts. By which routes a node was
    found stays known.
    """
    told = [provenance(found.node) for found in nodes]
    scores, scale = scores_of(nodes)
    calibrated = bool(nodes) and all(each.get("scale") == Scale.PROBABILITY.value for each in told)
    if calibrated and scale is Scale.SIMILARITY:
        scores, scale = [float(found.score or 0.0) for found in nodes], Scale.PROBABILITY
    hits = (
        Hit(linked_chunk(found.node).chunk, score, tuple(Provenance(**way) for way in each.get("routes", ())))
        for found, each, score in zip(nodes, told, scores, strict=True)
    )
    degraded = dict.fromkeys(Degraded(**part) for each in told for part in each.get("degraded", ()))
    return replace(Ranking.of(hits, scale, degraded), unknown=tuple(dict.fromkeys(unknown_in(nodes))))


def unknown_in(nodes: Iterable[NodeWithScore]) -> tuple[Unknown, ...]:
    """Return the names that stand nowhere, as nodes of Catena's retrievers tell them, each once."""
    told = (name for found in nodes for name in provenance(found.node).get("unknown", ()))
    return tuple(dict.fromkeys(Unknown(name["text"], tuple(name["near"])) for name in told))


def segment_node(hit: SegmentHit, found: Extraction) -> NodeWithScore:
    """Return a segment as a node: its id and text, its value as the score, and in the metadata where it stands.

    Metadata that all of its nodes share are kept, so are their templates, and what they hide from models is hidden.
    """
    segment = hit.segment
    chunks = {chunk.id: chunk for chunk in found.considered.valued.chunks}
    own = (chunks[id_] for id_ in segment.chunk_ids if id_ in chunks)  # sentences that fill a budget are of none
    originals = [node for chunk in own if (node := carried_node(chunk)) is not None]
    title = str(segment.metadata.get(TITLE, ""))
    named = not originals or TITLE in originals[0].metadata  # else it is the file's name, for citations alone
    shared = {k: v for k, v in segment.metadata.items() if k != ORIGINAL and (named or k != TITLE)}
    queries = [found.asked[query] for query in hit.queries if query < len(found.asked)]
    metadata: dict[str, Any] = {
        **shared,
        "kind": SEGMENT,
        "document_id": segment.document_id,
        HEADER_PATH: header_path(segment.path),
        **place_metadata(segment.place),
        **_positions(segment),
        **headings_metadata(segment.as_chunk(), title),
        CITATION: citation(segment, title=title),
        CHUNK_IDS: json.dumps(segment.chunk_ids),
        QUERIES: json.dumps(queries or [str(query) for query in hit.queries], ensure_ascii=False),
        **({UNKNOWN: ". ".join(map(str, found.unknown))} if found.unknown else {}),
        PROVENANCE: _provenance(hit, found),
    }
    ours = {*_MACHINE, *PLACE_KEYS, FILE_IN_CITATION, GENERATED_TITLE, *(() if originals else DOCUMENT_KEYS)}
    machine = [key for key in metadata if key in ours]
    unembedded, unread = [*machine, CITATION, UNKNOWN], [*machine, HEADINGS]
    templates = _templates(originals[0]) if originals else {}
    node = _slice_node(segment, metadata, originals, unembedded, unread, **templates)
    return NodeWithScore(node=node, score=hit.value)


def _slice_node(
    segment: Segment,
    metadata: dict[str, Any],
    originals: Sequence[BaseNode],
    unembedded: Iterable[str],
    unread: Iterable[str],
    **templates: Any,
) -> TextNode:
    """Return a segment as a node, which hides from models what its nodes hide, and more."""
    hidden = [key for node in originals for key in node.excluded_embed_metadata_keys]
    unseen = (key for node in originals for key in node.excluded_llm_metadata_keys if key != CITATION)
    keys = joined_keys(hidden, unembedded), joined_keys(unseen, unread)
    whole = originals[0].source_node if originals else None
    return node_of_slice(segment, metadata, *keys, source=whole, **templates)


def _positions(segment: Segment) -> dict[str, int]:
    if segment.positions is None:
        return {}
    return {FIRST_POSITION: segment.positions[0], LAST_POSITION: segment.positions[1]}


def _provenance(hit: SegmentHit, found: Extraction) -> str:
    about = Ranking((), Scale.VALUE, found.degraded, found.unknown)
    ways = [asdict(way) for one in found.ranking().hits if one.chunk.id == hit.segment.id for way in one.provenance]
    return written_provenance(about, chunk_id=hit.segment.id, routes=ways)


def _templates(node: BaseNode | None) -> Mapping[str, Any]:
    if not isinstance(node, TextNode):
        return {}
    names = ("metadata_template", "metadata_separator", "text_template", "mimetype")
    return {name: getattr(node, name) for name in names}


def to_segment(node: BaseNode) -> Segment:
    """Return a node as a segment, as `segment_node` made it; any other node as a segment of one chunk."""
    chunk = linked_chunk(node).chunk
    own = (CHUNK_IDS, QUERIES, FIRST_POSITION, LAST_POSITION, ORIGINAL)
    metadata = {key: value for key, value in chunk.metadata.items() if key not in own}
    written, first, last = (node.metadata.get(key) for key in (CHUNK_IDS, FIRST_POSITION, LAST_POSITION))
    return replace(
        chunk.as_segment(),
        chunk_ids=tuple(json.loads(written)) if written else (chunk.id,),
        positions=(first, last) if isinstance(first, int) and isinstance(last, int) else None,
        metadata=metadata,
    )


def passage_node(passage: Passage, nodes: Mapping[str, NodeWithScore]) -> NodeWithScore:
    """Return a passage that a model read as a node: the node that it is, else a node of its text and place.

    Args:
        passage: of an integrated context.
        nodes: those that the context was made of, by id; where several became one passage, the first of them that
            lies in it says what else is known.
    """
    segment = passage.segment
    same = nodes.get(segment.id)
    if same is not None and same.node.get_content() == segment.text:
        return same
    of_document = (found for found in nodes.values() if found.node.ref_doc_id == segment.document_id)
    within = (found for found in of_document if _overlaps(found.node, segment))
    first = same or next(within, None)
    own = (CHUNK_IDS, *PLACE_KEYS)
    known = {} if first is None else {k: v for k, v in first.node.metadata.items() if k not in own}
    places = {"document_id": segment.document_id, **place_metadata(segment.place), **_positions(segment)}
    cited = {CITATION: passage.citation, CHUNK_IDS: json.dumps(segment.chunk_ids)}
    metadata = {**known, **places, **cited}
    originals = [] if first is None else [first.node]
    machine = [key for key in metadata if key in {*_MACHINE, *PLACE_KEYS}]
    return NodeWithScore(node=_slice_node(segment, metadata, originals, machine, machine), score=passage.value)


def _overlaps(node: BaseNode, segment: Segment) -> bool:
    start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
    return isinstance(start, int) and isinstance(end, int) and start < segment.end and segment.start < end
