"""Views as nodes that lead to their parent, and parents under ids that an edit elsewhere leaves as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from llama_index.core.schema import BaseNode, IndexNode, NodeRelationship, ObjectType, RelatedNodeInfo

from catena import model
from catena.model import SOURCE, TITLE, digest
from catena.structure import TABLE_HEADER
from llama_index_catena.convert import joined_keys, to_chunk
from llama_index_catena.documents import scalars

VIEW = "view"
"""Metadata key of a view's kind."""

FILTERS = (TITLE, SOURCE, "file_name", "file_path")
"""Metadata that views repeat of their parents, for the filters of vector stores; these add the document's id."""

_LINKS = (NodeRelationship.PREVIOUS, NodeRelationship.NEXT)


def view_node(
    parent: BaseNode, view: model.View, number: int, *, metadata_keys: Sequence[str] = FILTERS, inside: bool = False
) -> IndexNode:
    """Return a view as a node that leads to its parent: by `index_id` and PARENT, and with it to the whole document.

    Embeddings are given the view's text alone. The id is made of parent, kind, number and text: an equal view
    replaces itself. Of parent and document only the ids are noted, so that a view stays equal while these move.

    Args:
        parent: the node that is found by the view.
        view: its kind and text.
        number: among the parent's views of this kind, from 0.
        metadata_keys: of the parent's metadata that the view repeats, where flat.
        inside: whether the view carries its parent as `obj`.
    """
    known = {key: value for key, value in scalars(parent.metadata, without=()).items() if key in metadata_keys}
    metadata = {**known, VIEW: view.kind}
    unread = [key for key in parent.excluded_llm_metadata_keys if key in known]
    return IndexNode(
        id_=digest("view", parent.node_id, view.kind, str(number), view.text, length=32),
        index_id=parent.node_id,
        obj=parent if inside else None,
        text=view.text,
        extra_info=metadata,
        excluded_embed_metadata_keys=list(metadata),
        excluded_llm_metadata_keys=joined_keys(unread, [VIEW]),
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document_of(parent), node_type=ObjectType.DOCUMENT),
            NodeRelationship.PARENT: RelatedNodeInfo(node_id=parent.node_id, node_type=parent.get_type()),
        },
    )


def document_of(node: BaseNode) -> str:
    """Return the id of the whole document; a node that names none is one itself."""
    return node.ref_doc_id or node.node_id


def parent_of(node: BaseNode) -> str | None:
    """Return the id of the node that a found one leads to; None for one that leads nowhere.

    Stores that give a view back as a plain node keep its metadata and relationships.
    """
    if isinstance(node, IndexNode):
        return node.index_id
    return node.parent_node.node_id if VIEW in node.metadata and node.parent_node is not None else None


def title_of(nodes: Iterable[BaseNode]) -> str:
    """Return the title of the document that nodes are of: that of their metadata, or else the file's name."""
    metadata = [node.metadata for node in nodes]
    named = next((str(each[TITLE]) for each in metadata if each.get(TITLE)), "")
    return named or next((PurePath(str(each["file_name"])).stem for each in metadata if each.get("file_name")), "")


def with_content_ids(nodes: Iterable[BaseNode], *, metadata_keys: Sequence[str] = FILTERS) -> list[BaseNode]:
    """Return parents under ids that say what they are, and not where: an edit elsewhere leaves them as they are.

    Nodes of Catena are named by their offsets, so that a line added to the first section renames all others. For
    views in a vector store, where a new name means a new embedding, name parents by document, titles and text:

        parser = CatenaNodeParser(chunks=SectionChunkOptions())
        sections = with_content_ids(parser.get_nodes_from_documents(documents))

    Args:
        nodes: all parents of each whole document, in reading order; one that names no document keeps its id.
        metadata_keys: of metadata that views repeat: another value is another parent.

    Returns:
        Copies; PREVIOUS and NEXT name the new ids. Of equal ones the first, the second, … differ.
    """
    given = list(nodes)
    seen: Counter[str] = Counter()
    ids = []
    for node in given:
        said = _said(node, metadata_keys)
        ids.append(digest(said, str(seen[said]), length=32) if node.ref_doc_id else node.node_id)
        seen[said] += 1
    renamed = {node.node_id: name for node, name in zip(given, ids, strict=True)}
    return [_renamed(node, name, renamed) for node, name in zip(given, ids, strict=True)]


def _said(node: BaseNode, metadata_keys: Sequence[str]) -> str:
    """Return the hash of all that the views of a parent are made from."""
    chunk = to_chunk(node)
    known = {key: repr(node.metadata.get(key)) for key in sorted({TITLE, TABLE_HEADER, "file_name", *metadata_keys})}
    return digest(chunk.document_id, repr(chunk.path), chunk.kind, repr(known), chunk.text, length=32)


def _renamed(node: BaseNode, name: str, renamed: dict[str, str]) -> BaseNode:
    links = dict(node.relationships)
    for link in _LINKS:
        at = links.get(link)
        if isinstance(at, RelatedNodeInfo) and at.node_id in renamed:
            links[link] = at.model_copy(update={"node_id": renamed[at.node_id]})
    return node.model_copy(update={"id_": name, "relationships": links})
