"""Describe requests to a search server as values, and ask the common ones: searches, documents by id, listings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Generic, Literal, Protocol, Self, TypeAlias, TypeVar
from urllib.parse import quote

from catena.effects import Step, all_together, ask
from catena.model import LibraryError, ServerError

Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE", "HEAD"]
Flavour: TypeAlias = Literal["elasticsearch", "opensearch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Send one HTTP request to the server; the reply is the body of its answer, as JSON values.

    Attributes:
        path: with its leading "/"; names in it are quoted already (`quoted`).
        params: of the query string; True and False are sent as "true" and "false".
        body: sent as JSON; None for none.
        lines: sent as NDJSON, one value a line, instead of `body`.
        missing_ok: whether an answer 404 is the reply None instead of an error.
        seconds: after which the caller gives up; None for the client's own limit.
    """

    method: Method
    path: str
    params: Mapping[str, str | int | bool] = field(default_factory=dict)
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    lines: Sequence[Mapping[str, Any]] | None = field(default=None, repr=False)
    missing_ok: bool = False
    seconds: float | None = None
    purpose: str = field(default="server", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Wait; the reply is None."""

    seconds: float
    purpose: str = field(default="pause", compare=False)


def quoted(name: str) -> str:
    """Return a name as it stands in the path of a call."""
    return quote(name, safe="")


class Transport(Protocol):
    """Sends calls: a client of Elasticsearch or of OpenSearch, sync, async or both.

    Where it also has `aperform`, asyncio drivers await that; otherwise they run `perform` in a thread.
    """

    @property
    def identity(self) -> str:
        """The addresses, without credentials: for messages."""
        ...

    @property
    def flavour(self) -> Flavour:
        """The dialect that the server speaks."""
        ...

    def perform(self, call: Call) -> Any:
        """Return the body of the answer.

        Raises:
            ServerError: the server refused, or could not be reached; `status` and `kind` say how.
        """
        ...


class Closing(ABC):
    """Holds connections, which the end of its `with` or `async with` closes."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections, those of this event loop, too."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


T = TypeVar("T")

WHOLE: Final[Mapping[str, str | int | bool]] = {"allow_partial_search_results": False}  # a lost shard is an error
_AT_ONCE = 200  # documents fetched by id in one call
KEPT = "5m"  # for which a server keeps a point in time after each page
_FORGOTTEN = "search_context_missing_exception"


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place at which a listing continues: a point in time on the server, and its last row."""

    pit: str
    after: tuple[Any, ...]
    flavour: Flavour


@dataclass(frozen=True, slots=True)
class ResultPage(Generic[T]):
    """Some of the items of a listing, in order; `cursor` is None after the last of them.

    All pages are of one moment: that of the first (a point in time, which a server forgets when nothing is asked of
    it for some minutes).
    """

    items: tuple[T, ...]
    cursor: Cursor | None = None


Row: TypeAlias = Mapping[str, Any]
Listing: TypeAlias = Callable[[Cursor | None], "Step[ResultPage[T]]"]


def items(listing: Listing[T], run: Callable[[Step[Any]], Any]) -> Iterator[T]:
    """Yield the items of a listing, page by page; what it holds on the server is given back at the end."""
    cursor: Cursor | None = None
    try:
        while True:
            page: ResultPage[T] = run(listing(cursor))
            cursor = page.cursor
            yield from page.items
            if cursor is None:
                return
    finally:
        if cursor is not None:
            run(close(cursor))


def page_by_page(listing: Listing[T], take: Callable[[tuple[T, ...]], Step[None]]) -> Step[None]:
    """Do a step with the items of each page of a listing."""
    cursor: Cursor | None = None
    while True:
        page = yield from listing(cursor)
        yield from take(page.items)
        cursor = page.cursor
        if cursor is None:
            return


def search_call(
    alias: str, body: Mapping[str, Any], *, params: Mapping[str, Any] | None = None, purpose: str = "search"
) -> Call:
    """Return the call that searches an index."""
    path = f"/{quoted(alias)}/_search"
    return Call(method="POST", path=path, params={**WHOLE, **(params or {})}, body=body, purpose=purpose)


def searched(alias: str, body: Mapping[str, Any], *, purpose: str) -> Step[Any]:
    """Ask one search, and return its answer."""
    (answer,) = yield from ask([search_call(alias, body, purpose=purpose)])
    return answer


def sorted_rows(alias: str, body: Mapping[str, Any], *, size: int, purpose: str) -> Step[list[Row]]:
    """Return all rows of a search whose `sort` tells them apart, asked for in pages of a size."""
    rows: list[Row] = []
    while True:
        after = {"search_after": rows[-1]["sort"]} if rows else {}
        paged = {**body, "size": size, "track_total_hits": False, **after}
        page = (yield from searched(alias, paged, purpose=purpose))["hits"]["hits"]
        rows += page
        if len(page) < size:
            return rows


def kept_by_id(
    alias: str, ids: Iterable[str], params: Mapping[str, Any], *, purpose: str, at_once: int = _AT_ONCE
) -> Step[dict[str, Row]]:
    """Return the sources of documents by id, as last written; one that is not there is left out.

    Raises:
        ServerError: the server cannot be reached, or cannot read one of them.
    """
    wanted, path = list(dict.fromkeys(ids)), f"/{quoted(alias)}/_mget"
    blocks = [{"ids": wanted[at : at + at_once]} for at in range(0, len(wanted), at_once)]
    calls = [Call(method="POST", path=path, params=params, body=block, purpose=purpose) for block in blocks]
    replies = (yield from ask(calls)) if calls else []
    found: dict[str, Row] = {}
    for key, answer in zip(wanted, chain.from_iterable(reply["docs"] for reply in replies), strict=True):
        if error := answer.get("error"):
            what = (
                f"one of {len(wanted)} documents cannot be read ({error.get('reason', error)}); nothing was changed"
            )
            raise ServerError(alias, what, kind=str(error.get("type", "")))
        if answer.get("found"):
            found[key] = answer.get("_source", {})
    return found


def side_by_side(*steps: Step[Any]) -> Step[list[Any]]:
    """Return the results of steps that need not wait for each other; the first failure is raised."""
    return (yield from all_together(steps))


def page_of(
    alias: str, flavour: Flavour, cursor: Cursor | None, body: Mapping[str, Any], *, sort: Sequence[str], size: int
) -> Step[ResultPage[Row]]:
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
        return ResultPage(hits, going_on)
    yield from close(going_on)
    return ResultPage(hits)


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
