"""Build a set anew beside the one that is searched, and put it in its place by one call.

The next generation lies behind the aliases `N-next-PART`, so that all writing works on it as on any set, by the
layout that `begin` returns. `finish` moves the aliases `N-PART` to it in one call, which the server does as a whole
or not at all, and then drops the older generation. A kill on the way is mended by the same again, or by `abandon`:
before the move the older generation is untouched, after it only its indices are left over. The graph of a set stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from catena.effects import Step, ask
from catena.model import LibraryError, ViewVectors
from catena.store import DocumentInfo
from catena_server.bulk import BulkOptions
from catena_server.calls import Call, Flavour, page_by_page, quoted
from catena_server.contents import documents, get, ledger, stored_chunks
from catena_server.index_layout import (
    FIRST,
    PARTS,
    IndexLayout,
    Part,
    check_model,
    kept_as,
    loading,
    make_all,
    open_layout,
    refresh,
    settle,
)
from catena_server.restoring import StoredChunk
from catena_server.writing import put, record

_FEW = 20  # documents copied before the server is asked for more of them


@dataclass(frozen=True, slots=True)
class _Generation:
    part: Part
    index: str
    number: int
    live: bool
    building: bool


def next_layout(layout: IndexLayout) -> IndexLayout:
    """Return the layout under which the next generation of a set is written."""
    return replace(layout, name=f"{layout.name}-next")


def begin(wanted: IndexLayout, flavour: Flavour) -> Step[IndexLayout]:
    """Make the next generation of the set `wanted.name`, or take up the one that is there, and return its layout.

    Args:
        wanted: how the set is to lie: of another model, other shards, or the same.
        flavour: of the server.

    Raises:
        LibraryError: there is no such set, or another generation is being built.
        ModelMismatchError: one of another model is.
    """
    building = next_layout(kept_as(wanted, flavour))
    known = yield from _generations(wanted.name)
    if not any(each.live for each in known):
        raise LibraryError(wanted.name, "there is no such set to build anew", "create")
    number = next((each.number for each in known if each.building), 1 + max(each.number for each in known))
    return (yield from make_all(building, flavour, wanted, number))


def finish(name: str) -> Step[IndexLayout]:
    """Put the next generation of a set in the place of the older one, drop that, and return the layout.

    Raises:
        LibraryError: none is being built, or it lacks a part.
    """
    known = yield from _generations(name)
    coming, live = ({each.part: each for each in known if getattr(each, what)} for what in ("building", "live"))
    if coming:
        if missing := sorted(set(PARTS).difference(coming)):
            what = f"its next generation has no {', '.join(missing)}; nothing was changed"
            raise LibraryError(name, what, "begin again, or abandon it")
        building = yield from open_layout(f"{name}-next")
        if building is not None:
            yield from settle(building)
        yield from ask([_swap(name, coming, live)])
        known = yield from _generations(name)
    elif not _left_over(known):
        raise LibraryError(name, "no next generation is being built; nothing was changed", "begin")
    yield from _drop(_left_over(known))
    found = yield from open_layout(name)
    if found is None:
        raise LibraryError(name, "it is gone: something else changed it meanwhile", "create")
    return found


def abandon(name: str) -> Step[None]:
    """Drop the next generation of a set, as far as it was built; the one that is searched stays as it is."""
    known = yield from _generations(name)
    yield from _drop([each.index for each in known if each.building])


def rebuild(
    layout: IndexLayout,
    wanted: IndexLayout,
    flavour: Flavour,
    options: BulkOptions | None = None,
    tell: Callable[[int], None] = lambda done: None,
) -> Step[IndexLayout]:
    """Build a set anew from what it holds, with other shards, replicas or kinds of index, and put it in place.

    What is put into the set meanwhile is not in the new generation. A run that was killed is taken up by the same.

    Args:
        layout: of the set.
        wanted: how it is to lie.
        flavour: of the server.
        options: of the writing.
        tell: told after each document how many are copied.

    Raises:
        ModelMismatchError: `wanted` is of another model, whose vectors the set does not hold.
        ServerError: the server refused something; the set is searched as before.
    """
    check_model(layout, embedder=wanted.embedder, dim=wanted.dim)
    building = yield from begin(wanted, flavour)
    yield from refresh(layout)
    yield from loading(_copy(layout, building, flavour, options, tell), building)
    return (yield from finish(layout.name))


def _copy(
    layout: IndexLayout,
    building: IndexLayout,
    flavour: Flavour,
    options: BulkOptions | None,
    tell: Callable[[int], None],
) -> Step[None]:
    done = 0

    def copied(page: tuple[DocumentInfo, ...]) -> Step[None]:
        nonlocal done
        for info in page:
            if not info.whole:
                what = f"the writing of document {info.id!r} did not end; the set is searched as before"
                raise LibraryError(layout.name, what, "put it again, or delete it, and then the same")
            entry = yield from get(info.id, layout)
            vectors = vectors_of((yield from stored_chunks(info.id, layout, flavour)), layout.dim)
            report = yield from put([(entry, vectors)], building, flavour, options=options)
            report.check()
            done += 1
            tell(done)

    yield from page_by_page(lambda cursor: documents(layout, flavour, cursor, size=_FEW), copied)
    yield from page_by_page(
        lambda cursor: ledger(layout, flavour, cursor), lambda lines: record(lines, building, options)
    )


def vectors_of(chunks: Sequence[StoredChunk], dim: int) -> ViewVectors:
    """Return the vectors of a document's chunks, chunk by chunk."""
    return ViewVectors(
        rows=np.concatenate([np.zeros((0, dim), np.float32), *(each.rows for each in chunks)]),
        chunks=tuple(each.chunk.position for each in chunks for _ in each.kinds),
        kinds=tuple(kind for each in chunks for kind in each.kinds),
        digests=tuple(digest for each in chunks for digest in each.digests),
    )


def _generations(name: str) -> Step[list[_Generation]]:
    """Return the indices of all generations of a set, by part and number."""
    patterns = ",".join(f"{quoted(f'{name}-{part}')}-*" for part in PARTS)
    call = Call(method="GET", path=f"/{patterns}/_alias", missing_ok=True, purpose="generations")
    (found,) = yield from ask([call])
    generations = []
    for index, about in sorted((found or {}).items()):
        for part in PARTS:
            match = re.fullmatch(rf"{re.escape(name)}-{part}-(\d+)", index)
            if match and int(match.group(1)) >= FIRST:
                aliases: Mapping[str, object] = about.get("aliases", {})
                live, building = f"{name}-{part}" in aliases, f"{name}-next-{part}" in aliases
                generations.append(_Generation(part, index, int(match.group(1)), live, building))
    return generations


def _left_over(known: Sequence[_Generation]) -> list[str]:
    """Return the indices of generations older than the one that is searched, to which no alias leads."""
    live = {each.part: each.number for each in known if each.live}
    return [
        each.index
        for each in known
        if not each.live and not each.building and each.part in live and each.number < live[each.part]
    ]


def _swap(name: str, coming: Mapping[Part, _Generation], live: Mapping[Part, _Generation]) -> Call:
    actions: list[dict[str, dict[str, str]]] = []
    for part in PARTS:
        alias = f"{name}-{part}"
        if part in live:
            actions.append({"remove": {"index": live[part].index, "alias": alias}})
        actions.append({"add": {"index": coming[part].index, "alias": alias}})
        actions.append({"remove": {"index": coming[part].index, "alias": f"{name}-next-{part}"}})
    return Call(method="POST", path="/_aliases", body={"actions": actions}, purpose="swap")


def _drop(indices: Sequence[str]) -> Step[None]:
    yield from ask(
        [Call(method="DELETE", path=f"/{quoted(index)}", missing_ok=True, purpose="drop") for index in indices]
    )
