"""Which views are made: those of the nodes themselves by name, all others by their makers, also as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, Literal, TypeAlias

from catena.enrichment import Questions
from catena.enrichment.views import Keywords, Summaries, ViewMaker
from catena.model import ParameterError
from catena.structure import PASSAGE

OwnView: TypeAlias = Literal["raw", "headed", "passage"]
"""What a node itself says: its exact text, this under its titles, or slices of this that any encoder reads whole."""

_OWN: tuple[OwnView, ...] = ("raw", "headed", "passage")
_KNOWN: dict[Any, type[Any]] = {kind.__name__: kind for kind in (Keywords, Summaries, Questions)}


def written_view(view: Any) -> Any:
    """Return a view as plain data: its name, or its maker with its options; a maker of one's own as what it makes."""
    if isinstance(view, str):
        return view
    name = type(view).__name__
    if type(view) is _KNOWN.get(name):
        return {"maker": name, **asdict(view)}
    known_by = repr(view) if is_dataclass(view) else type(view).__qualname__
    return {"maker": known_by, "kind": view.kind, "version": view.version}


def revived_views(views: Any, by: Literal["llm", "offline"]) -> tuple[ViewMaker | OwnView, ...]:
    """Return names of own views, then makers, out of both in any order, written or not; by default the usual ones.

    Args:
        views: names and makers; None takes passages, keywords and summaries.
        by: who makes the last two.

    Raises:
        ParameterError: one is neither, or a maker of one's own is given as plain data.
    """
    if isinstance(views, str) or (views is not None and (not isinstance(views, Sequence) or not views)):
        raise ParameterError("views", views, "a sequence of at least one view")
    given = (PASSAGE, Keywords(by=by), Summaries(by=by)) if views is None else tuple(map(_revived, views))
    for view in given:
        is_maker = isinstance(view, ViewMaker) and not isinstance(view, type)
        if view not in _OWN and not is_maker:
            raise ParameterError("views", view, "'raw', 'headed', 'passage' or a maker such as Keywords()")
    own = tuple(kind for kind in _OWN if kind in given)
    return (*own, *(view for view in given if not isinstance(view, str)))


def _revived(view: Any) -> Any:
    if not isinstance(view, dict):
        return view
    if view.get("maker") not in _KNOWN:
        raise ParameterError("views", view.get("maker"), "given again: a maker of your own is not written down")
    return _KNOWN[view["maker"]](**{key: value for key, value in view.items() if key != "maker"})
