"""Make and open the indices of a set, add fields for kinds of view, set it for loading, and refresh it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from catena.effects import Step, ask
from catena.model import LibraryError, ModelMismatchError, ServerError, ServiceError
from catena_server.calls import Call, Flavour, quoted
from catena_server.index_layout import META, PARTS, IndexLayout, Part, index_body, kept_as, kinds_body, other_fields

T = TypeVar("T")

FIRST = 1  # generation
_EXISTS = "resource_already_exists_exception"
_TAKEN = "invalid_alias_name_exception"
_PACKED_SINCE = 9_060_000  # as Elasticsearch 9.3 calls its indices (IndexVersions.csv)
_OPENSEARCH = 0x0800_0000  # from here on versions are those of OpenSearch, which takes lists
_LOADED: tuple[Part, ...] = ("chunks", "documents")


def index_name(alias: str, generation: int) -> str:
    """Return the name of the index behind an alias."""
    return f"{alias}-{generation}"


def create(layout: IndexLayout, flavour: Flavour) -> Step[IndexLayout]:
    """Make the indices of a set, with their aliases, and return the layout that is there now.

    What a run that was killed has made is taken over: the chunks are made last, and only they say that a set is
    there.

    Raises:
        ParameterError: the server cannot keep vectors as the layout says.
        LibraryError: a set of another layout, or something else, is there already.
        ModelMismatchError: so is a set of another model.
    """
    layout = kept_as(layout, flavour)
    for part in PARTS:
        yield from make_index(part, layout, flavour, index_name(layout.alias(part), FIRST), layout.alias(part))
    found = yield from open_layout(layout.name)
    if found is None:
        raise LibraryError(layout.name, "its indices were made, and are gone again", "the same again")
    check_layout(found, layout)
    return found


def make_index(part: Part, layout: IndexLayout, flavour: Flavour, index: str, alias: str) -> Step[None]:
    """Make one index behind an alias; one of that name that is there stays as it is."""
    body = index_body(part, layout, flavour) | {"aliases": {alias: {}}}
    try:
        yield from ask([Call(method="PUT", path=f"/{quoted(index)}", body=body, purpose="making an index")])
    except ServerError as error:
        if error.kind == _TAKEN:
            what = "an index of others has this name; nothing of it was changed"
            raise LibraryError(alias, what, "another name for the set") from None
        if error.kind != _EXISTS:
            raise


def open_layout(name: str) -> Step[IndexLayout | None]:
    """Return what the set of a name says it is, None where there is none.

    Raises:
        LibraryError: there is something of that name which is no set of Catena, or one of another format or
            of other fields.
    """
    alias = f"{name}-chunks"
    (found,) = yield from ask([Call(method="GET", path=f"/{quoted(alias)}", missing_ok=True, purpose="opening")])
    if not found:
        return None
    if len(found) > 1:
        what = f"its alias leads to {len(found)} indices ({', '.join(sorted(found))}); nothing was changed"
        raise LibraryError(alias, what, "leave the alias on one of them")
    about: Mapping[str, Any] = next(iter(found.values()))
    layout = IndexLayout.from_meta(alias, (about.get("mappings", {}).get("_meta") or {}).get(META))
    if others := other_fields(about.get("mappings", {}), layout):
        what = f"others have mapped its {', '.join(others)} otherwise than Catena does; nothing was changed"
        raise LibraryError(alias, what, "another name, or index the files anew")
    # after `rebuilding`, the index still says under which name it was built
    return replace(layout, name=name, packed=takes_packed(about.get("settings", {})))


def takes_packed(settings: Mapping[str, Any]) -> bool:
    """Return whether vectors of an index may be written packed, by what it says of the version it was made in.

    An index is made in the oldest version of its cluster, and no older node can join later; so that is what all nodes
    know at least. Who may read the index's settings may read it, where the server's own version is often forbidden.
    """
    version = settings.get("index", {}).get("version", {})
    made = str(version.get("created", "")) if isinstance(version, Mapping) else ""
    return made.isdecimal() and _PACKED_SINCE <= int(made) < _OPENSEARCH


def open_or_create(
    name: str, wanted: IndexLayout | None, flavour: Flavour, *, make: bool = True
) -> Step[IndexLayout]:
    """Return the layout of the set that is there, or make it where there is none.

    Args:
        name: of the set.
        wanted: how a set is made, and which model its vectors are of; None takes the one that is there.
        flavour: of the server.
        make: False refuses to make one.

    Raises:
        LibraryError: something else is there, or there is nothing and nothing may be made.
        ModelMismatchError: it holds vectors of another model.
    """
    found = yield from open_layout(name)
    if found is None:
        if wanted is None or not make:
            what = "the server has no index set of this name; nothing was made"
            raise LibraryError(name, what, "create=True, with the embedder whose vectors it is to hold")
        return (yield from create(wanted, flavour))
    if wanted is not None:
        check_model(found, embedder=wanted.embedder, dim=wanted.dim)
    return found


def check_model(found: IndexLayout, *, embedder: str, dim: int) -> None:
    """Raise `ModelMismatchError` unless a set is for the vectors of this model."""
    if (found.embedder, found.dim) != (embedder, dim):
        what = (
            f"it holds vectors of {found.embedder!r} ({found.dim} numbers each), the given model is {embedder!r}"
            f" ({dim}); nothing was changed"
        )
        raise ModelMismatchError(found.name, what, f"{found.embedder!r}, another name, or rebuild: all files anew")


def check_layout(found: IndexLayout, wanted: IndexLayout) -> None:
    """Raise unless a set lies as is wanted."""
    check_model(found, embedder=wanted.embedder, dim=wanted.dim)
    if found != wanted:
        fields = ("vector_index", "several", "shards", "replicas")
        differ = [
            f"{name} is {getattr(found, name)!r}, not {getattr(wanted, name)!r}"
            for name in fields
            if getattr(found, name) != getattr(wanted, name)
        ]
        what = f"it is there already, and {'; '.join(differ)}; nothing was changed"
        raise LibraryError(found.name, what, "open it as it is, take another name, or rebuild")


def ensure_kinds(kinds: Collection[str], layout: IndexLayout, flavour: Flavour) -> Step[None]:
    """Add the fields of kinds of view to the chunks; those that are there stay as they are."""
    if kinds:
        body = kinds_body(kinds, layout, flavour)
        path = f"/{quoted(layout.alias('chunks'))}/_mapping"
        yield from ask([Call(method="PUT", path=path, body=body, purpose="kinds of view")])


def refresh(layout: IndexLayout, parts: Sequence[Part] = PARTS) -> Step[None]:
    """Let searches see all that was written."""
    aliases = ",".join(quoted(layout.alias(part)) for part in PARTS if part in parts)
    yield from ask([Call(method="POST", path=f"/{aliases}/_refresh", purpose="refresh")])


def loading(step: Step[T], layout: IndexLayout) -> Step[T]:
    """Do much writing: without refreshes and replicas, which `settle` brings back whether it succeeds or fails.

    A run that is killed leaves the set without them: the next `loading`, or `settle` alone, brings them back.
    """
    yield from _set(layout, refresh_interval="-1", replicas=0)
    try:
        result = yield from step
    except GeneratorExit:  # the run was given up: nothing can be asked any more
        raise
    except BaseException:
        with suppress(ServiceError):  # the first error says more
            yield from settle(layout)
        raise
    yield from settle(layout)
    return result


def settle(layout: IndexLayout) -> Step[None]:
    """Set refreshes and replicas as the layout says, and let searches see all that was written."""
    yield from _set(layout, refresh_interval=None, replicas=layout.replicas)
    yield from refresh(layout)


def _set(layout: IndexLayout, *, refresh_interval: str | None, replicas: int) -> Step[None]:
    index = {"refresh_interval": refresh_interval, "number_of_replicas": replicas}
    path = "/" + ",".join(quoted(layout.alias(part)) for part in _LOADED) + "/_settings"
    yield from ask([Call(method="PUT", path=path, body={"index": index}, purpose="settings")])
