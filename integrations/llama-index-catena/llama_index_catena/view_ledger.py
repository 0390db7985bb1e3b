"""Records of what an index of views has written, as nodes in the docstore itself, beside the parents."""

from __future__ import annotations

from llama_index.core.schema import BaseNode, NodeRelationship, ObjectType, RelatedNodeInfo, TextNode

from catena.enrichment import ViewRecord, record_key
from llama_index_catena.documents import text_of


def as_ledger(record: ViewRecord, prefix: str) -> TextNode:
    """Return the node as which a record is kept; it belongs to the document, and goes with it."""
    source = RelatedNodeInfo(node_id=record.source, node_type=ObjectType.DOCUMENT)
    return TextNode(
        id_=record_key(prefix, record.source),
        text=record.to_json(),
        relationships={NodeRelationship.SOURCE: source},
    )


def as_record(node: BaseNode) -> ViewRecord:
    """Return the record that a node holds.

    Raises:
        ParameterError: it holds none.
    """
    return ViewRecord.from_json(text_of(node), node.node_id)
