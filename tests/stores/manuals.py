"""What both sides' cases share: look-alike documents, questions about them, and calls that are made or awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blockbuster import blockbuster_ctx

HX210 = """# HX210 manual

## Mounting

The cover of the HX210 takes six screws.

Tighten them to 14 Nm, crosswise, with the long key.

## Wiring

The red wire of the HX210 carries 24 volts.

| pin | signal |
|---|---|
| 1 | supply |
| 2 | ground |

## Service

The HX210 is made by Krona Works.
"""
HX200 = """# HX200 manual

## Mounting

The cover of the HX200 takes four screws.

Tighten them to 12 Nm, crosswise, with the short key.

## Wiring

The red wire of the HX200 carries 12 volts.
"""
KRONA = """# Krona Works

## History

Smiths founded Krona Works in Uppsala.
"""
TEXTS = {"hx210": HX210, "hx200": HX200, "krona": KRONA}
TITLES = {"hx210": "HX210 manual", "hx200": "HX200 manual", "krona": "Krona Works"}
PAGES = {name: (0, text.index("## Wiring")) if "## Wiring" in text else (0,) for name, text in TEXTS.items()}
CHANGED = HX210.replace("six screws", "eight screws")

SCREWS = "How many screws does the cover of the HX210 take?"
FOUNDED = "In which town were the makers of the HX210 founded?"
SLICES = {
    "first": "The cover of the HX210 takes six screws.",
    "made": "The HX210 is made by Krona Works.",
    "town": "Smiths founded Krona Works in Uppsala.",
}

_AWAITED = {"retrieve": "aretrieve", "postprocess_nodes": "apostprocess_nodes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a store may put what it has.

    Attributes:
        name: of a collection or table, of this test alone.
        folder: empty.
        postgres: folder of the socket of a server; "" where there is none.
        awaited: whether the store is to be awaited.
    """

    name: str
    folder: Path
    postgres: str
    awaited: bool = False

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://postgres@/postgres?host={self.postgres}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A vector store of one of the frameworks, and what it can and cannot do.

    Attributes:
        name: of the class, as the page names it.
        package: whose version the page names.
        make: makes an empty one.
        where: of LangChain: from key and value to what its search takes for documents whose metadata say so.
        postgres: whether it needs a server.
        uuids: whether it refuses other ids.
        loses_ids: whether documents come back without theirs.
        by_id: whether it gives, and of LlamaIndex deletes, by id.
        distances: whether its scores rise down a list.
        adds: metadata keys that it writes itself.
        nodes: of LlamaIndex: whether it holds nodes and gives them by id and by filter; else the docstore does.
        filters: whether it filters by metadata.
        loses_nodes: whether nodes that come after others went push some out.
    """

    name: str
    package: str
    make: Callable[[Place], Any]
    where: Callable[[str, str], Mapping[str, Any]] = lambda key, value: {"filter": {key: value}}
    postgres: bool = False
    uuids: bool = False
    loses_ids: bool = False
    by_id: bool = True
    distances: bool = False
    adds: frozenset[str] = frozenset()
    nodes: bool = True
    filters: bool = True
    loses_nodes: bool = False


@dataclass(frozen=True, slots=True)
class Calls:
    """Makes a call of a framework, or awaits its asynchronous form while nothing of ours may block the event loop."""

    awaited: bool

    async def __call__(self, thing: Any, method: str, *given: Any, **options: Any) -> Any:
        if not self.awaited:
            return await asyncio.to_thread(getattr(thing, method), *given, **options)
        with blockbuster_ctx(["catena", "langchain_catena", "llama_index_catena"]):
            return await getattr(thing, _AWAITED.get(method, f"a{method}"))(*given, **options)
