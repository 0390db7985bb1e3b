"""Ids that every vector store takes: UUIDs, derived from the nodes' own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llama_index.core.schema import BaseNode, IndexNode, NodeRelationship, RelatedNodeInfo

from catena.model import as_uuid

_OF_NODES = (NodeRelationship.PREVIOUS, NodeRelationship.NEXT, NodeRelationship.PARENT, NodeRelationship.CHILD)


def with_uuids(nodes: Iterable[BaseNode]) -> list[BaseNode]:
    """Return nodes under ids for vector stores that take only UUIDs, as Qdrant does.

        nodes = with_uuids(CatenaNodeParser().get_nodes_from_documents(documents))

    An id is derived from the one before, so that equal nodes have equal ids; one that is a UUID stays. The id of the
    whole document stays, too. Give these same nodes to a graph, a docstore and other retrievers.

    Returns:
        Copies; PREVIOUS, NEXT, PARENT, CHILD and the `index_id` of an `IndexNode` name the new ids.
    """
    return [_renamed(node) for node in nodes]


def _renamed(node: BaseNode) -> BaseNode:
    links = {kind: _link(at) if kind in _OF_NODES else at for kind, at in node.relationships.items()}
    leads = {"index_id": as_uuid(node.index_id)} if isinstance(node, IndexNode) else {}
    return node.model_copy(update={"id_": as_uuid(node.node_id), "relationships": links, **leads})


def _link(at: RelatedNodeInfo | Sequence[RelatedNodeInfo]) -> RelatedNodeInfo | list[RelatedNodeInfo]:
    if isinstance(at, RelatedNodeInfo):
        return at.model_copy(update={"node_id": as_uuid(at.node_id)})
    return [each.model_copy(update={"node_id": as_uuid(each.node_id)}) for each in at]
