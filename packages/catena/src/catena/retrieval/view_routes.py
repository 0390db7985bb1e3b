"""Routes over one kind of view: any route asks for the view it is used on, and a question is embedded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from catena.effects import Request, Search, Step
from catena.retrieval.routes import Route

T = TypeVar("T")


def of_view(route: Route, kind: str) -> Route:
    """Return the route, asking for the views of this kind where it names none itself."""

    def over_view(query: str) -> Step[Search]:
        request = yield from route(query)
        return request if request.view is not None else replace(request, view=kind)

    return over_view


def asked_once(step: Step[T]) -> Step[T]:
    """Run a step so that equal requests of one batch are asked once: each view's route embeds the same question."""
    replies: Sequence[Any] | None = None
    try:
        while True:
            requests = step.send(replies)  # type: ignore[arg-type]
            firsts = _first_of_equals(requests)
            asked = sorted(set(firsts))
            answers = dict(zip(asked, (yield [requests[place] for place in asked]), strict=True))
            replies = [answers[place] for place in firsts]
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        step.close()


def _first_of_equals(requests: Sequence[Request]) -> list[int]:
    """Return for each request the place of the first that equals it; one that holds a vector equals none."""
    known: dict[Request, int] = {}
    firsts = []
    for place, request in enumerate(requests):
        try:
            firsts.append(known.setdefault(request, place))
        except TypeError:  # not hashable
            firsts.append(place)
    return firsts
