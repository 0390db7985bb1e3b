"""Names in a call that a method has no place for: refused before anything is asked, with the name that was meant."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from inspect import Parameter, iscoroutinefunction, signature
from typing import Any, Final, ParamSpec, TypeVar, cast

from catena.model.errors import ParameterError

P = ParamSpec("P")
T = TypeVar("T")

# what others call it -> what it is called here
_ELSEWHERE: Final = {
    **dict.fromkeys(("top_k", "topk", "n", "n_results", "num_results", "limit", "size", "similarity_top_k"), "k"),
    **dict.fromkeys(("filter", "filters", "metadata_filter", "metadata_filters"), "where"),
}


def checked_names(more: Collection[str] = ()) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Have a method refuse names that it has no place for; Python would name the function that it calls in turn.

    Args:
        more: names that it takes besides its own, as the keys of the `TypedDict` of its `**options`.
    """

    def decorated(method: Callable[P, T]) -> Callable[P, T]:
        named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        own = [each.name for each in signature(method).parameters.values() if each.kind in named]
        known = (*own[1:], *more)  # the first is self

        if iscoroutinefunction(method):

            @wraps(method)
            async def checked_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                _refuse_unknown(f"{type(args[0]).__name__}.{method.__name__}", kwargs, known)
                return await method(*args, **kwargs)

            return cast("Callable[P, T]", checked_async)

        @wraps(method)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            _refuse_unknown(f"{type(args[0]).__name__}.{method.__name__}", kwargs, known)
            return method(*args, **kwargs)

        return checked

    return decorated


def _refuse_unknown(owner: str, given: Collection[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            here = _ELSEWHERE.get(name.lower())
            told = f" (here it is called {here!r})" if here in known else ""
            raise ParameterError(f"argument of {owner}", name, f"one of {', '.join(map(repr, known))}{told}")
