"""What an index of views has written of each source: one record in the docstore itself, beside the parents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.documents import Document

from catena.errors import ParameterError
from catena.ids import digest
from catena.model import View

LEDGER = "catena-views"
"""Prefix of the keys of records; a folder of its own where the docstore is a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What stands in both stores for one source.

    Attributes:
        source: the name of the file or text.
        fingerprint: of all that its views are made from; "" where asking a model again may help.
        whole: whether the last change ended; else any of what is named here may be missing.
        parents: id -> hash of the document as it was written.
        views: ids of the views in the vector store.
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
        """Return what may stand in the stores while they go from this record to a later one."""
        return Record(
            source=self.source,
            whole=False,
            parents={**self.parents, **later.parents},
            views=tuple(dict.fromkeys((*self.views, *later.views))),
            written={**self.written, **later.written},
        )

    def as_document(self, prefix: str) -> tuple[str, Document]:
        """Return the key and the document under which the record is kept."""
        fields = {
            "source": self.source,
            "fingerprint": self.fingerprint,
            "whole": self.whole,
            "parents": dict(self.parents),
            "views": list(self.views),
            "written": {made: [list(text) for text in texts] for made, texts in self.written.items()},
        }
        key = record_key(prefix, self.source)
        content = json.dumps(fields, ensure_ascii=False)
        return key, Document(id=key, page_content=content, metadata={"kind": "ledger"})


def record_key(prefix: str, source: str) -> str:
    """Return the key of a source's record; any store of files takes it."""
    return f"{prefix}/{digest(source, length=32)}"


def as_record(document: Document) -> Record:
    """Return the record that a document holds.

    Raises:
        ParameterError: it holds none.
    """
    try:
        fields: dict[str, Any] = json.loads(document.page_content)
        return Record(
            source=fields["source"],
            fingerprint=fields["fingerprint"],
            whole=fields["whole"],
            parents=fields["parents"],
            views=tuple(fields["views"]),
            written={made: tuple((kind, text) for kind, text in texts) for made, texts in fields["written"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        allowed = "a record of CatenaViewIndex; another ledger=… keeps away from what else is under such keys"
        raise ParameterError(f"docstore[{document.id!r}]", document.page_content[:40], allowed) from error


def written_by_model(views: Iterable[View]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return `View.made` -> (kind, text) of what a language model wrote; of equal chunks, that of the first."""
    written: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    for view in views:
        if view.made:
            chunk_id, texts = written.setdefault(view.made, (view.chunk_id, []))
            if chunk_id == view.chunk_id:
                texts.append((view.kind, view.text))
    return {made: tuple(texts) for made, (_, texts) in written.items()}
