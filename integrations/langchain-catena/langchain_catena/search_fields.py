"""The options of the search, as fields of every retriever that searches a library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, InstanceOf, StrictBool

from catena.library import SearchOptions, SegmentSearchOptions
from catena.retrieval import QuestionLimits, RankFusion, Route, ScoreFusion, Tuned


class SearchFields(BaseModel):
    """What the core's `SegmentSearchOptions` say, as fields; None stands for the default of each.

    Attributes:
        routes: the routes asked side by side: their names, or name -> step as in `catena.retrieval.routes`. None asks
            as `Library.search` does: for the best passages of whole sections, too, where the library holds them.
        where: a filter that every route obeys, e.g. `{"document_id": "manuals/hx210.pdf"}`.
        fusion: by score (`ScoreFusion`, the default; `adapted(...)` gives one), by score with weights that were tuned
            on questions (`Tuned`, refused with another embedding model than theirs), or by rank (`RankFusion`).
        on_route_error: "degrade" ranks by the other routes, says so in each document's metadata, in the log
            and in a custom event; "raise" raises.
        by_name: each name of documents that a question says gets its share of the ranking.
        entities: names to be taken as such, besides those found without a model; meant for `invoke`.
        on_unknown: "empty" returns no hits where the question says no known name but one that is like a known one
            and stands nowhere; "keep" returns its neighbours.
        limits: of the question's length and of the filter's width.
        embedded_texts: embedded in place of the question (HyDE); meant for `invoke`.
        tell_unknown: the first document names what stands nowhere and what is like it; its metadata has
            `kind="unknown"`. It comes on top of k.
    """

    routes: tuple[str, ...] | dict[str, Route] | None = None
    where: dict[str, Any] | None = None
    fusion: InstanceOf[ScoreFusion] | InstanceOf[RankFusion] | InstanceOf[Tuned] | None = None
    on_route_error: Literal["raise", "degrade"] | None = None
    by_name: StrictBool | None = None
    entities: tuple[str, ...] | None = None
    on_unknown: Literal["empty", "keep"] | None = None
    limits: InstanceOf[QuestionLimits] | None = None
    embedded_texts: tuple[str, ...] | None = None
    tell_unknown: bool = False

    def given_options(self, *, without: str) -> list[str]:
        """Return the names of the options that are given, but for one."""
        return [
            name
            for name in SegmentSearchOptions.__annotations__
            if name != without and getattr(self, name) is not None
        ]

    def search_options(self, asked: Mapping[str, Any]) -> SearchOptions:
        """Return the options of one search: what `invoke` was given goes before the fields."""
        own = {name: getattr(self, name) for name in SegmentSearchOptions.__annotations__}
        given = {name: value for name, value in asked.items() if value is not None}
        return {**own, **given}  # type: ignore[typeddict-item]
