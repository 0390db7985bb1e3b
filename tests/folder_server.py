"""A search server as a folder: one file per document, so that several processes can write to it and be killed.

It knows what writing an index set asks, and of searching only to look up values. A bulk call that is killed has done
a part of its work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catena.model import ServerError, digest
from catena_server import Call


@dataclass(frozen=True)
class FolderServer:
    """A transport; picklable, so it is its own factory under `partial(FolderServer, folder)`.

    Args:
        folder: holds a folder per index.
        refuses: a word; a document that holds it is refused.
        closed: whether every writing is refused, as with a key that may only read.
    """

    folder: Path
    refuses: str = ""
    closed: bool = False
    identity = "a folder"
    flavour = "elasticsearch"

    def perform(self, call: Call) -> Any:
        """Answer one call."""
        method, (first, *rest) = call.method, call.path.strip("/").split("/")
        if first == "_bulk":
            return self._bulk(list(call.lines or ()))
        if method == "PUT" and not rest:
            return self._make(first, call.body or {})
        if method == "GET" and not rest:
            return self._about(first)
        if rest == ["_mget"]:
            return {"docs": [self._got(first, key) for key in (call.body or {})["ids"]]}
        if rest == ["_search"]:
            return self._found(first, call.body or {})
        if rest in (["_mapping"], ["_refresh"]):
            return {}
        raise AssertionError(f"the folder does not know {method} {call.path}")

    def documents(self, alias: str) -> dict[str, Any]:
        """Return all documents of an index by id."""
        files = sorted((self.folder / alias).glob("*.json"))
        return {path.stem: json.loads(path.read_text()) for path in files}

    def _make(self, index: str, body: Mapping[str, Any]) -> dict[str, Any]:
        (alias,) = body["aliases"]
        try:
            (self.folder / alias).mkdir(parents=True)
        except FileExistsError:
            raise ServerError("folder", "it is there", status=400, kind="resource_already_exists_exception") from None
        (self.folder / f"{alias}.mapping").write_text(json.dumps({index: {"mappings": body["mappings"]}}))
        return {}

    def _about(self, alias: str) -> Any:
        path = self.folder / f"{alias}.mapping"
        return json.loads(path.read_text()) if path.exists() else None

    def _got(self, alias: str, key: str) -> dict[str, Any]:
        path = self.folder / alias / f"{key}.json"
        if not path.exists():
            return {"found": False}
        return {"found": True, "_source": json.loads(path.read_text())}

    def _found(self, alias: str, body: Mapping[str, Any]) -> dict[str, Any]:
        ((field, values),) = body["query"]["terms"].items()
        (by,) = body["sort"][0]
        found = [source for source in self.documents(alias).values() if source[field] in values]
        return {"hits": {"hits": [{"_source": source} for source in sorted(found, key=lambda source: source[by])]}}

    def _bulk(self, lines: list[Mapping[str, Any]]) -> dict[str, Any]:
        if self.closed:
            raise ServerError("folder", "this key may only read", status=403, kind="security_exception")
        items = []
        waiting = iter(lines)
        for line in waiting:
            ((op, where),) = line.items()
            path = self.folder / where["_index"] / f"{where['_id']}.json"
            item: dict[str, Any] = {"status": 200}
            if op == "delete":
                path.unlink(missing_ok=True)
            else:
                text = json.dumps(next(waiting))
                if self.refuses and self.refuses in text:
                    error = {"type": "document_parsing_exception", "reason": "it cannot be parsed"}
                    item = {"status": 400, "error": error}
                else:
                    half = path.with_suffix(f".{digest(str(os.getpid()))}")
                    half.write_text(text)
                    half.replace(path)
            items.append({op: item})
        return {"errors": any("error" in each for item in items for each in item.values()), "items": items}
