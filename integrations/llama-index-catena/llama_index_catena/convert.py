"""Convert nodes to chunks and rankings at entry, and hits to nodes with scores at exit.

All metadata that Catena writes is flat (stores need flat values): provenance is one JSON string. What is
for machines is excluded from the texts that models read; what is for readers is not.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any, cast

from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    IndexNode,
    NodeRelationship,
    NodeWithScore,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
)

from catena import model
from catena.library import CHUNK_KEYS
from catena.model import (
    CAPTION,
    FILE_IN_CITATION,
    GENERATED_TITLE,
    PLACE_KEYS,
    SEPARATOR,
    SOURCE,
    TITLE,
    as_uuid,
    citation,
    digest,
    place_in,
    place_metadata,
)
from catena.structure import titles_above
from llama_index_catena.documents import DOCUMENT_KEYS, text_of

PROVENANCE = "catena"
"""Metadata key of what `provenance` reads: by which routes a node was found, the scale, what was degraded."""

HEADER_PATH = "header_path"
"""Metadata key of the headings above a chunk, its own section's last, as `header_path` writes them."""

HEADINGS = "headings"
"""Metadata key of the document's title and the headings, as the first line of the core's headed view."""

CITATION = "citation"
"""Metadata key of where a retrieved node stands, in words."""

UNKNOWN = "unknown_names"
"""Metadata key of names in the question that stand nowhere, in words; models that answer read it."""

NOTICE = "notice"
"""The `kind` in the metadata of a node that is no passage, but says why there is none."""

NOTE = "note"
"""Title and citation of a node that is no passage."""

FIGURE_TITLE = "figure_title"
"""Metadata key of what the printed caption of a figure begins with."""

_CHUNK_KEYS = ("kind", "position", "section", *PLACE_KEYS, HEADER_PATH)
_FOUND_KEYS = ("document_id", HEADINGS, CITATION, PROVENANCE, UNKNOWN)
ORIGINAL = "llama_index_node"
"""Metadata key under which a foreign node travels through the core."""

_LEAST = 5e-324  # in place of 0, which LlamaIndex takes for no score where an IndexNode leads on, and makes 1
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_STEP = re.compile(r"((?:[^\\/]++|\\.)*+)(/?)", re.DOTALL)


def header_path(path: Sequence[str]) -> str:
    r"""Return headings as one string, e.g. ("A", "B/C") -> "/A/B\/C/"; no headings are "/".

    As LlamaIndex's Markdown parser writes it, but for two things: the chunk's own heading is in it, and "/"
    and "\" inside a heading are preceded by "\", so that `headings_of` gives the headings back.
    """
    return "/" + "".join(re.sub(r"([\\/])", r"\\\1", title) + "/" for title in path)


def headings_of(written: str) -> tuple[str, ...]:
    """Return the headings that `header_path` wrote."""
    return tuple(_ESCAPED.sub(r"\1", step[1]) for step in _STEP.finditer(written, 1) if step[2])


def chunk_metadata(chunk: model.Chunk) -> dict[str, Any]:
    """Return what is known of a chunk under flat keys; pages and lines are counted from 1, first and last."""
    own = {"kind": chunk.kind, "position": chunk.position, "section": chunk.section}
    return {**chunk.metadata, **own, HEADER_PATH: header_path(chunk.path), **place_metadata(chunk.place)}


def machine_keys(metadata: Mapping[str, Any], *, shown: Iterable[str]) -> list[str]:
    """Return the keys of Catena's in some metadata that no model shall read, i.e. all that are not shown."""
    ours = {*_CHUNK_KEYS, *_FOUND_KEYS, *DOCUMENT_KEYS, FILE_IN_CITATION, GENERATED_TITLE} - set(shown)
    return [key for key in metadata if key in ours]


def to_node(hit: model.Hit, ranking: model.Ranking) -> NodeWithScore:
    """Return a hit as a node with its score; the id is the chunk's.

    A node that a LlamaIndex retriever gave to the core comes back as it was, copied, with the provenance added.
    """
    original = hit.chunk.metadata.get(ORIGINAL)
    if isinstance(original, BaseNode):
        score = hit.score or (_LEAST if isinstance(original, IndexNode) else 0.0)
        return NodeWithScore(node=_with_found(original, _found(hit, ranking)), score=score)
    return NodeWithScore(node=_node(hit.chunk, _cited(hit, ranking)), score=hit.score)


def figure_node(hit: model.Hit, ranking: model.Ranking, figure: model.Figure, file: Path | None) -> NodeWithScore:
    """Return a hit that shows a figure as an image node, of its file or else of the picture; the text is the chunk's.

    Its metadata say what the figure is called (`figure`, `figure_title`), what a model said of it (`caption`) and
    where it stands (`citation`, `first_page`).
    """
    named = {FIGURE_TITLE: figure.title, CAPTION: figure.caption}
    metadata = {**_cited(hit, ranking), **{key: value for key, value in named.items() if value}}
    plain = _node(hit.chunk, metadata)
    picture = {"image": b64encode(figure.png).decode("ascii")} if file is None else {"image_path": str(file)}
    image = ImageNode(**{**dict(plain), **picture, "image_mimetype": "image/png"})
    return NodeWithScore(node=image, score=hit.score)


def notice_node(query: str, ranking: model.Ranking) -> NodeWithScore:
    """Return a node that says which names of a question stand nowhere; its score is 0.

    It has the keys that prompts ask of every passage, of no passage's value.
    """
    text = model.nowhere_in_words(ranking.unknown)
    neutral = {CITATION: NOTE, TITLE: NOTE, SOURCE: ""}
    metadata = {**neutral, "kind": NOTICE, **_unknown(ranking), PROVENANCE: written_provenance(ranking)}
    node = TextNode(id_=digest(NOTICE, query, text), text=text, metadata=metadata)
    node.excluded_embed_metadata_keys = node.excluded_llm_metadata_keys = list(metadata)
    return NodeWithScore(node=node, score=0.0)


def _cited(hit: model.Hit, ranking: model.Ranking) -> dict[str, Any]:
    chunk = hit.chunk
    cited = {"document_id": chunk.document_id, CITATION: citation(chunk)}
    headings = headings_metadata(chunk, str(chunk.metadata.get(TITLE, "")))
    return {**chunk_metadata(chunk), **headings, **cited, **_found(hit, ranking)}


def _found(hit: model.Hit, ranking: model.Ranking) -> dict[str, str]:
    ways = [asdict(way) for way in hit.provenance]
    return {**_unknown(ranking), PROVENANCE: written_provenance(ranking, chunk_id=hit.chunk.id, routes=ways)}


def _unknown(ranking: model.Ranking) -> dict[str, str]:
    return {UNKNOWN: ". ".join(map(str, ranking.unknown))} if ranking.unknown else {}


def section_node(segment: model.Segment, hit: model.Hit, ranking: model.Ranking) -> NodeWithScore:
    """Return the whole section of a hit as a node with the hit's score, provenance and best chunk (`chunk_id`)."""
    title = str(hit.chunk.metadata.get(TITLE, ""))
    metadata = {
        **segment.metadata,
        "section": hit.chunk.section,
        HEADER_PATH: header_path(segment.path),
        **place_metadata(segment.place),
        **headings_metadata(hit.chunk, title),
        "document_id": segment.document_id,
        CITATION: citation(segment, title=title),
        **_found(hit, ranking),
    }
    return NodeWithScore(node=_node(segment, metadata), score=hit.score)


def _node(found: model.Chunk | model.Segment, metadata: dict[str, Any]) -> TextNode:
    of_document = [key for key in found.metadata if key not in CHUNK_KEYS]
    unembedded = joined_keys(machine_keys(metadata, shown=[HEADINGS]), of_document)
    unread = joined_keys(machine_keys(metadata, shown=[CITATION, UNKNOWN]), of_document)
    return node_of_slice(found, metadata, unembedded, unread)


def node_of_slice(
    found: model.Chunk | model.Segment,
    metadata: dict[str, Any],
    unembedded: list[str],
    unread: list[str],
    *,
    source: RelatedNodeInfo | None = None,
    **templates: Any,
) -> TextNode:
    """Return a chunk or a segment as a node, some of whose metadata embeddings and models do not read.

    Args:
        found: an exact slice.
        metadata: of the node.
        unembedded: keys that embeddings do not read.
        unread: keys that models do not read.
        source: the document; by default that of the slice.
        templates: further fields.
    """
    whole = source or RelatedNodeInfo(node_id=found.document_id, node_type=ObjectType.DOCUMENT)
    return TextNode(
        id_=found.id,
        text=found.text,
        start_char_idx=found.start,
        end_char_idx=found.end,
        metadata=metadata,
        excluded_embed_metadata_keys=unembedded,
        excluded_llm_metadata_keys=unread,
        relationships={NodeRelationship.SOURCE: whole},
        **templates,
    )


def headings_metadata(chunk: model.Chunk, title: str) -> dict[str, str]:
    """Return the readable line of the document's title and the headings above a chunk; {} where there are none."""
    names = titles_above(model.Document(id=chunk.document_id, text="", title=title), chunk)
    return {HEADINGS: SEPARATOR.join(names)} if names else {}


def _with_found(node: BaseNode, found: Mapping[str, Any]) -> BaseNode:
    return node.model_copy(
        update={
            "metadata": {**node.metadata, **found},
            "excluded_embed_metadata_keys": joined_keys(node.excluded_embed_metadata_keys, found),
            "excluded_llm_metadata_keys": joined_keys(node.excluded_llm_metadata_keys, [PROVENANCE]),
        }
    )


def joined_keys(keys: Iterable[str], more: Iterable[str]) -> list[str]:
    """Return both lists of keys as one, each key once."""
    return list(dict.fromkeys((*keys, *more)))


def with_told(found: NodeWithScore, **more: Any) -> NodeWithScore:
    """Add to what a retrieved node says of how it was found; it is changed in place."""
    found.node.metadata[PROVENANCE] = json.dumps({**provenance(found.node), **more}, ensure_ascii=False)
    return found


def written_provenance(ranking: model.Ranking, **found: Any) -> str:
    """Return what `provenance` reads: how a node was found, and what its ranking tells."""
    said = {name: [asdict(part) for part in getattr(ranking, name)] for name in ("degraded", "unknown")}
    return json.dumps({"scale": ranking.scale.value, **found, **said}, ensure_ascii=False)


def provenance(node: BaseNode) -> dict[str, Any]:
    """Return how a retrieved node was found, {} for other nodes.

    Its keys are `scale`, `chunk_id`, `routes`, `degraded` (what failed), and `unknown` (what stands nowhere).
    """
    written = node.metadata.get(PROVENANCE)
    try:
        found = json.loads(written) if isinstance(written, str) else {}
    except ValueError:  # somebody else's key of that name
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def to_chunk(node: BaseNode) -> model.Chunk:
    """Return a node as a chunk; a node of ours gives the chunk that it was made of.

    A node without offsets is a slice that begins at 0 of a document of its own or of its source.
    """
    text, metadata = text_of(node), node.metadata
    start = node.start_char_idx if isinstance(node, TextNode) else None
    kind = metadata.get("kind")
    written, place = str(metadata.get(HEADER_PATH, "/")), place_in(metadata)
    return model.Chunk(
        id=node.node_id,
        document_id=node.ref_doc_id or node.node_id,
        position=_integer(metadata, "position"),
        start=start or 0,
        end=(start or 0) + len(text),
        text=text,
        kind=kind if kind in ("text", "table", "figure") else "text",
        path=headings_of(written),
        section=_integer(metadata, "section"),
        **place.parts,
        metadata=cast("model.Metadata", {k: v for k, v in metadata.items() if k not in (*_CHUNK_KEYS, *_FOUND_KEYS)}),
    )


def to_ranking(nodes: Sequence[NodeWithScore]) -> model.Ranking:
    """Return what a LlamaIndex retriever found, best first; `to_node` gives each node back as it was.

    Where a score is missing, only the order of the nodes counts, and the scale says so. Distances, as FAISS gives
    them, count as negative numbers, see `scores_of`.
    """
    scores, scale = scores_of(nodes)
    hits = (model.Hit(_carrying(found.node), score) for found, score in zip(nodes, scores, strict=True))
    return model.Ranking.of(hits, scale)


def scores_of(nodes: Sequence[NodeWithScore]) -> tuple[list[float], model.Scale]:
    """Return the scores of nodes that a retriever found, larger ones for better ones; 1 / rank where one is missing.

    LlamaIndex has no field that says what a score is. Scores that rise all the way down the list are distances, and
    count as negative numbers.
    """
    scores = [score for found in nodes if (score := score_of(found)) is not None]
    if len(scores) < len(nodes):
        return [1.0 / rank for rank in range(1, len(nodes) + 1)], model.Scale.RANK
    rising = len(scores) > 1 and scores[0] < scores[-1] and scores == sorted(scores)
    return [-score for score in scores] if rising else scores, model.Scale.SIMILARITY


def score_of(found: NodeWithScore) -> float | None:
    """Return the score of a node, None where it has none or it is no finite number, which tells nothing."""
    return None if found.score is None or not isfinite(found.score) else float(found.score)


def _carrying(node: BaseNode) -> model.Chunk:
    text = text_of(node)
    return model.Chunk(
        id=node.node_id,
        document_id=node.ref_doc_id or node.node_id,
        position=0,
        start=0,
        end=len(text),
        text=text,
        metadata=cast("model.Metadata", {ORIGINAL: node}),
    )


def _integer(metadata: Mapping[str, Any], key: str) -> int:
    value = metadata.get(key)
    return value if isinstance(value, int) else 0


_OF_NODES = {NodeRelationship.PREVIOUS, NodeRelationship.NEXT, NodeRelationship.PARENT, NodeRelationship.CHILD}


def with_uuids(nodes: Iterable[BaseNode]) -> list[BaseNode]:
    """Return nodes under ids for vector stores that take only UUIDs, as Qdrant does.

        nodes = with_uuids(CatenaNodeParser().get_nodes_from_documents(documents))

    An id is derived from the one before, so that equal nodes have equal ids; one that is a UUID stays. The id of the
    whole document stays, too. Give these same nodes to a graph, a docstore and other retrievers.

    Returns:
        Copies; PREVIOUS, NEXT, PARENT, CHILD and the `index_id` of an `IndexNode` name the new ids.
    """
    return [renamed(node, as_uuid(node.node_id), as_uuid) for node in nodes]


def renamed(node: BaseNode, name: str, name_of: Callable[[str], str]) -> BaseNode:
    """Return a copy under another id, which names other nodes by theirs."""

    def link(at: RelatedNodeInfo) -> RelatedNodeInfo:
        return at.model_copy(update={"node_id": name_of(at.node_id)})

    links = dict(node.relationships)
    for kind in _OF_NODES & links.keys():
        at = links[kind]
        links[kind] = link(at) if isinstance(at, RelatedNodeInfo) else [link(each) for each in at]
    leads = {"index_id": name_of(node.index_id)} if isinstance(node, IndexNode) else {}
    return node.model_copy(update={"id_": name, "relationships": links, **leads})
