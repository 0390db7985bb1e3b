"""A search server of a few lines, in memory: what the graph asks of one, by the meaning of the requests."""

from __future__ import annotations

import copy
import fnmatch
import json
from typing import Any
from urllib.parse import unquote

from catena.model import ServerError
from catena_server import Call, Flavour


class GraphServer:
    """Indices behind aliases, look-ups by id, and the searches of `catena_server.graph_nodes`; calls are recorded.

    Attributes:
        fails: called before each request; may raise.
    """

    identity = "fake server"
    flavour: Flavour = "elasticsearch"

    def __init__(self) -> None:
        self.indices: dict[str, dict[str, Any]] = {}
        self.calls: list[Call] = []
        self.fails: Any = lambda call: None

    @property
    def paths(self) -> list[str]:
        return [call.path for call in self.calls]

    def perform(self, call: Call) -> Any:
        self.calls.append(call)
        self.fails(call)
        answer = self._answer(call, unquote(call.path).strip("/").split("/"))
        if answer is None and not call.missing_ok:
            raise ServerError(self.identity, "no such index", status=404, kind="index_not_found_exception")
        return json.loads(json.dumps(answer))

    def _answer(self, call: Call, path: list[str]) -> Any:
        body: Any = call.body
        match call.method, path:
            case "POST", ["_bulk"]:
                return self._bulk(call)
            case "POST", ["_aliases"]:
                return self._aliases(body["actions"])
            case "GET", [name]:
                return self._described(name)
            case "PUT", [name]:
                return self._created(name, body)
            case "POST", [name, "_mget"]:
                return {"docs": [self._looked_up(name, self._named(name), key) for key in body["ids"]]}
            case _, [name, what]:
                found = self._named(name)
                return getattr(self, what)(found[0], body) if found else None
            case unknown:
                raise AssertionError(unknown)

    def _named(self, name: str) -> list[str]:
        return [each for each, index in sorted(self.indices.items()) if name == each or name in index["aliases"]]

    def _described(self, name: str) -> Any:
        names = fnmatch.filter(sorted(self.indices), name) if "*" in name else self._named(name)
        kept = ("aliases", "mappings", "settings")
        return {each: {key: self.indices[each][key] for key in kept} for each in names} or (
            {} if "*" in name else None
        )

    def _created(self, name: str, body: Any) -> Any:
        if name in self.indices:
            raise ServerError(self.identity, "there already", status=400, kind="resource_already_exists_exception")
        self.indices[name] = {"aliases": {}, "docs": {}, **copy.deepcopy({"mappings": {}, "settings": {}} | body)}
        return {"acknowledged": True}

    def _bulk(self, call: Call) -> Any:
        items = []
        lines = iter(call.lines or ())
        for line in lines:
            where, source = line["index"], next(lines)
            found = [each for each in self._named(where["_index"]) if each != where["_index"]]
            assert call.params["require_alias"]
            if not found:
                error = {"type": "index_not_found_exception", "reason": "no such alias"}
                items.append({"index": {**where, "status": 404, "error": error}})
                continue
            assert not self.indices[found[0]]["settings"].get("index", {}).get("blocks.write")
            self.indices[found[0]]["docs"][where["_id"]] = json.loads(json.dumps(source))
            items.append({"index": {**where, "status": 201}})
        return {"errors": any("error" in item["index"] for item in items), "items": items}

    def _aliases(self, actions: list[Any]) -> Any:
        for action in actions:
            if "add" in action:
                self.indices[action["add"]["index"]]["aliases"][action["add"]["alias"]] = {}
            elif "remove" in action:
                del self.indices[action["remove"]["index"]]["aliases"][action["remove"]["alias"]]
            else:
                del self.indices[action["remove_index"]["index"]]
        return {"acknowledged": True}

    def _looked_up(self, name: str, found: list[str], key: str) -> Any:
        if not found:
            return {"_index": name, "_id": key, "error": {"type": "index_not_found_exception", "reason": "none"}}
        source = self.indices[found[0]]["docs"].get(key)
        return {"_index": found[0], "_id": key, "found": source is not None, "_source": source}

    def _mapping(self, name: str, body: Any) -> Any:
        self.indices[name]["mappings"].update(body)
        return {"acknowledged": True}

    def _settings(self, name: str, body: Any) -> Any:
        self.indices[name]["settings"].update(body)
        return {"acknowledged": True}

    def _refresh(self, name: str, body: Any) -> Any:
        return {"_shards": {"failed": 0}}

    def _search(self, name: str, body: Any) -> Any:
        docs = self.indices[name]["docs"]
        if "aggs" in body:
            return self._counted(docs, body["aggs"])
        query = body.get("query", {"match_all": {}})
        rows = [
            {"_index": name, "_id": key, "_score": score, "_source": doc, "sort": self._sort(body, doc, score)}
            for key, doc in docs.items()
            if (score := 1.0 if "match_all" in query else _covered(query, doc))
        ]
        rows.sort(key=lambda row: _order(row["sort"]))
        after = body.get("search_after")
        rows = [row for row in rows if after is None or _order(row["sort"]) > _order(after)]
        return {"hits": {"total": {"value": len(docs)}, "hits": rows[: body["size"]]}}

    @staticmethod
    def _sort(body: Any, doc: Any, score: float) -> list[Any]:
        return [score if "_score" in by else doc["id"] for by in body["sort"]]

    @staticmethod
    def _counted(docs: dict[str, Any], aggs: Any) -> Any:
        asked = [each["term"]["words"] for each in aggs.get("words", {}).get("filters", {}).get("filters", ())]
        found = {
            "length": {"value": float(sum(doc["length"] for doc in docs.values()))},
            "words": {
                "buckets": [{"doc_count": sum(word in doc["words"] for doc in docs.values())} for word in asked]
            },
        }
        return {"hits": {"total": {"value": len(docs)}, "hits": []}, "aggregations": found}


def _covered(query: Any, doc: Any) -> float:
    terms = [each["constant_score"]["filter"]["bool"]["filter"] for each in query["bool"]["should"]]
    return float(sum(all(word["term"]["words"] in doc["words"] for word in term) for term in terms))


def _order(sort: list[Any]) -> tuple[Any, ...]:
    """Return by what hits are ordered: scores downwards, all else upwards."""
    return tuple(-value if isinstance(value, float) else value for value in sort)
