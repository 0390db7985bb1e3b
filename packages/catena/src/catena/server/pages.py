"""A listing of any length in pages: each is one step, so that no more than one page is held.

    page = run(documents(layout, flavour))
    while page.cursor is not None:
        page = run(documents(layout, flavour, page.cursor))

All pages are of one moment: that of the first, as its searches saw it (a point in time, which a server forgets when
nothing is asked of it for some minutes).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from catena.effects.steps import Step, ask
from catena.model.errors import LibraryError, ServerError
from catena.server.call import Call, Flavour
from catena.server.layout import quoted

T = TypeVar("T")

WHOLE: Final[Mapping[str, str | int | bool]] = {"allow_partial_search_results": False}  # a lost shard is an error
KEPT = "5m"  # for which a server keeps a point in time after each page
_FORGOTTEN = "search_context_missing_exception"


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a listing goes on: a point in time on the server, and after which of its rows."""

    pit: str
    after: tuple[Any, ...]
    flavour: Flavour


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of the items of a listing, in order; `cursor` is None after the last of them."""

    items: tuple[T, ...]
    cursor: Cursor | None = None


Hit: TypeAlias = Mapping[str, Any]
Listing: TypeAlias = Callable[[Cursor | None], "Step[Page[T]]"]


def items(listing: Listing[T], run: Callable[[Step[Any]], Any]) -> Iterator[T]:
    """Yield the items of a listing, page by page; what it holds on the server is given back at the end."""
    cursor: Cursor | None = None
    try:
        while True:
            page: Page[T] = run(listing(cursor))
            cursor = page.cursor
            yield from page.items
            if cursor is None:
                return
    finally:
        if cursor is not None:
            run(close(cursor))


async def aitems(listing: Listing[T], run: Callable[[Step[Any]], Awaitable[Any]]) -> AsyncIterator[T]:
    """As `items`, with asyncio."""
    cursor: Cursor | None = None
    try:
        while True:
            page: Page[T] = await run(listing(cursor))
            cursor = page.cursor
            for item in page.items:
                yield item
            if cursor is None:
                return
    finally:
        if cursor is not None:
            await run(close(cursor))


def page_of(
    alias: str, flavour: Flavour, cursor: Cursor | None, body: Mapping[str, Any], *, sort: Sequence[str], size: int
) -> Step[Page[Hit]]:
    """Return the next page of what a search finds, sorted by fields that together tell all its hits apart.

    Raises:
        LibraryError: the server has forgotten the listing.
    """
    if cursor is None:
        cursor = Cursor((yield from _open(alias, flavour)), (), flavour)
    asked = {
        **body,
        "size": size,
        "sort": [{field: "asc"} for field in sort],
        "pit": {"id": cursor.pit, "keep_alive": KEPT},
        "track_total_hits": False,
        **({"search_after": list(cursor.after)} if cursor.after else {}),
    }
    try:
        (found,) = yield from ask([Call(method="POST", path="/_search", params=WHOLE, body=asked, purpose="listing")])
    except ServerError as error:
        if error.kind == _FORGOTTEN or error.status == 404:
            what = "the server has forgotten the listing: nothing was asked of it for too long; nothing was changed"
            raise LibraryError(alias, what, "the listing from its beginning, in smaller pages") from None
        raise
    hits = tuple(found["hits"]["hits"])
    going_on = Cursor(found.get("pit_id", cursor.pit), tuple(hits[-1]["sort"]) if hits else (), flavour)
    if len(hits) == size:
        return Page(hits, going_on)
    yield from close(going_on)
    return Page(hits)


def close(cursor: Cursor) -> Step[None]:
    """Let the server forget a listing that is not read to its end."""
    if cursor.flavour == "elasticsearch":
        path, body = "/_pit", {"id": cursor.pit}
    else:
        path, body = "/_search/point_in_time", {"pit_id": [cursor.pit]}  # type: ignore[dict-item]
    yield from ask([Call(method="DELETE", path=path, body=body, missing_ok=True, purpose="listing")])


def _open(alias: str, flavour: Flavour) -> Step[str]:
    elastic = flavour == "elasticsearch"
    path = f"/{quoted(alias)}/{'_pit' if elastic else '_search/point_in_time'}"
    call = Call(method="POST", path=path, params={"keep_alive": KEPT}, purpose="listing")
    (reply,) = yield from ask([call])
    return str(reply["id" if elastic else "pit_id"])
