"""Record the views and parents that an index has written of one source, in any store of texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from catena.model import Degraded, ParameterError, View, digest

LEDGER = "catena-views"
"""Prefix of the keys of records; a folder of its own where the store is a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRecord:
    """The content of the stores for one source.

    Attributes:
        source: the name of the file or text, or the id of the whole document.
        fingerprint: of all that its views are made from; "" where asking a model again may help.
        whole: whether the last change ended; else any of what is named here may be missing.
        parents: id -> hash of the parent as it was written.
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
        """Return the texts that a model wrote, as `catena.enrichment.views.with_views` takes them over."""
        return {
            made: tuple(View(chunk_id="", kind=kind, text=text, made=made) for kind, text in texts)
            for made, texts in self.written.items()
        }

    def and_then(self, later: ViewRecord) -> ViewRecord:
        """Return the record of all that the stores may hold while they go from this record to a later one."""
        return ViewRecord(
            source=self.source,
            whole=False,
            parents={**self.parents, **later.parents},
            views=tuple(dict.fromkeys((*self.views, *later.views))),
            written={**self.written, **later.written},
        )

    def to_json(self) -> str:
        """Return the record as text, equal for equal records."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, key: str) -> ViewRecord:
        """Return the record that a text holds.

        Args:
            text: as `to_json` gives it.
            key: under which it was kept, for the error.

        Raises:
            ParameterError: it holds none.
        """
        try:
            kept: dict[str, Any] = json.loads(text)
            written = {made: tuple((kind, said) for kind, said in texts) for made, texts in kept["written"].items()}
            plain = {name: kept[name] for name in ("source", "fingerprint", "whole", "parents")}
            return cls(**plain, views=tuple(kept["views"]), written=written)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            allowed = "a record of CatenaViewIndex; another ledger=… keeps away from what else is under such keys"
            raise ParameterError(f"docstore[{key!r}]", text[:40], allowed) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """The changes that take stores from one record to another; all is written before anything is deleted.

    Attributes:
        parents_written: ids of parents that are new or changed, or may be missing.
        views_added, views_deleted: ids of views that come and go; of those that come, some may be there already where
            the change before this one did not end.
        parents_deleted: ids of parents that are gone.
    """

    parents_written: tuple[str, ...]
    views_added: tuple[str, ...]
    views_deleted: tuple[str, ...]
    parents_deleted: tuple[str, ...]

    @classmethod
    def between(cls, old: ViewRecord, new: ViewRecord) -> Moves:
        """Return the differences; of an old record that is not whole nothing is taken to be there."""
        known = old.parents if old.whole else {}
        standing, staying = set(old.views) if old.whole else set[str](), set(new.views)
        return cls(
            parents_written=tuple(name for name, made in new.parents.items() if known.get(name) != made),
            views_added=tuple(name for name in new.views if name not in standing),
            views_deleted=tuple(name for name in old.views if name not in staying),
            parents_deleted=tuple(name for name in old.parents if name not in new.parents),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewChanges:
    """The changes of one call: numbers of views in the index and of parents beside it.

    Attributes:
        views_added, views_deleted, views_kept: a kept one was neither embedded nor written.
        parents_written, parents_deleted: a parent that only moved is written anew, with its new place.
        degraded: views that a model did not give; the next call for the same source asks again.
    """

    views_added: int = 0
    views_deleted: int = 0
    views_kept: int = 0
    parents_written: int = 0
    parents_deleted: int = 0
    degraded: tuple[Degraded, ...] = ()

    def __add__(self, other: ViewChanges) -> ViewChanges:
        """Return both together."""
        return ViewChanges(
            **{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)}
        )


def record_key(prefix: str, source: str) -> str:
    """Return the key of a source's record; any store of files takes it."""
    return f"{prefix}/{digest(source, length=32)}"


def written_by_model(views: Iterable[View]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return `View.made` -> (kind, text) of what a language model wrote; of equal chunks, that of the first."""
    written: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    for view in views:
        if view.made:
            chunk_id, texts = written.setdefault(view.made, (view.chunk_id, []))
            if chunk_id == view.chunk_id:
                texts.append((view.kind, view.text))
    return {made: tuple(texts) for made, (_, texts) in written.items()}
