"""What an index of views has written of each document: one record in the docstore itself, beside the parents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.schema import BaseNode, NodeRelationship, ObjectType, RelatedNodeInfo, TextNode

from catena.errors import ParameterError
from catena.ids import digest
from catena.model import View
from llama_index_catena.documents import text_of

LEDGER = "catena-views"
"""What the ids of records begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What stands in index and docstore for one document.

    Attributes:
        source: the id of the whole document.
        fingerprint: of all that its views are made from; "" where asking a model again may help.
        whole: whether the last change ended; else any of what is named here may be missing.
        parents: id -> hash of the node as it was written.
        views: ids of the views in the index.
        written: `View.made` -> (kind, text) of what a language model wrote, so that it is asked for once.
    """

    source: str
    fingerprint: str = ""
    whole: bool = True
    parents: Mapping[str, str] = field(default_factory=dict)
    views: tuple[str, ...] = ()
    written: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    @property
    def held(self) -> dict[str, tuple[View, ...]]:
        """What a model wrote, as `catena.view_making.with_views` takes it over."""
        return {
            made: tuple(View(chunk_id="", kind=kind, text=text, made=made) for kind, text in texts)
            for made, texts in self.written.items()
        }

    def and_then(self, later: Record) -> Record:
        """Return what may stand in index and docstore while they go from this record to a later one."""
        return Record(
            source=self.source,
            whole=False,
            parents={**self.parents, **later.parents},
            views=tuple(dict.fromkeys((*self.views, *later.views))),
            written={**self.written, **later.written},
        )

    def as_node(self, prefix: str) -> TextNode:
        """Return the node as which the record is kept; it belongs to the document, and goes with it."""
        fields = {
            "source": self.source,
            "fingerprint": self.fingerprint,
            "whole": self.whole,
            "parents": dict(self.parents),
            "views": list(self.views),
            "written": {made: [list(text) for text in texts] for made, texts in self.written.items()},
        }
        source = RelatedNodeInfo(node_id=self.source, node_type=ObjectType.DOCUMENT)
        return TextNode(
            id_=record_id(prefix, self.source),
            text=json.dumps(fields, ensure_ascii=False),
            relationships={NodeRelationship.SOURCE: source},
        )


def record_id(prefix: str, source: str) -> str:
    """Return the id of a document's record."""
    return f"{prefix}/{digest(source, length=32)}"


def as_record(node: BaseNode) -> Record:
    """Return the record that a node holds.

    Raises:
        ParameterError: it holds none.
    """
    try:
        fields: dict[str, Any] = json.loads(text_of(node))
        return Record(
            source=fields["source"],
            fingerprint=fields["fingerprint"],
            whole=fields["whole"],
            parents=fields["parents"],
            views=tuple(fields["views"]),
            written={made: tuple((kind, text) for kind, text in texts) for made, texts in fields["written"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        allowed = "a record of CatenaViewIndex; another ledger=… keeps away from what else has such ids"
        raise ParameterError(f"docstore[{node.node_id!r}]", text_of(node)[:40], allowed) from error


def written_by_model(views: tuple[View, ...]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return `View.made` -> (kind, text) of what a language model wrote; of equal chunks, that of the first."""
    written: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    for view in views:
        if view.made:
            chunk_id, texts = written.setdefault(view.made, (view.chunk_id, []))
            if chunk_id == view.chunk_id:
                texts.append((view.kind, view.text))
    return {made: tuple(texts) for made, (_, texts) in written.items()}
