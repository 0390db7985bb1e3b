"""Asking a model about many texts: in bounded batches, and again one by one where a batch was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from annotated_types import Ge

from catena.effects import Failed, Request, Step
from catena.model.errors import CatenaError, InvalidReplyError, ServiceError
from catena.model.options import check_options

Names: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much goes into one request; a text longer than `characters` goes alone, and whole."""

    texts: Annotated[int, Ge(1)]
    characters: Annotated[int, Ge(1)]

    def __post_init__(self) -> None:
        check_options(self)


def batches(texts: Sequence[str], bounds: Bounds) -> Iterator[tuple[str, ...]]:
    """Yield the texts in order, in as few tuples as the bounds allow when filled one after the other."""
    batch: list[str] = []
    for text in texts:
        if batch and (len(batch) == bounds.texts or sum(map(len, batch)) + len(text) > bounds.characters):
            yield tuple(batch)
            batch = []
        batch.append(text)
    if batch:
        yield tuple(batch)


def names_by_text(
    texts: Sequence[str],
    bounds: Bounds,
    request_of: Callable[[tuple[str, ...]], Request],
    names_of: Callable[[Any, int], Sequence[Names]],
) -> Step[dict[str, Names | CatenaError]]:
    """Return per distinct text the names that the model gave, or why there are none.

    One text that the model refuses, or that breaks its reply, loses none of those that shared its request: these
    are asked for again, each alone. That is not done when the service is merely out of reach.

    Args:
        texts: blank ones are not asked about.
        bounds: of one request.
        request_of: the request for a batch.
        names_of: (reply, number of texts) -> the names in each; raises ValueError where the reply holds none.

    Raises:
        CatenaError: not a failure of the service, but of what surrounds it (nobody answers, a broken journal).
    """
    found: dict[str, Names | CatenaError] = {text: () for text in texts}
    pending = list(batches([text for text in found if text.strip()], bounds))
    while pending:
        again: list[tuple[str, ...]] = []
        replies = yield [request_of(batch) for batch in pending]
        for batch, reply in zip(pending, replies, strict=True):
            if not isinstance(reply, Failed):
                found.update(_read(batch, reply, names_of))
            elif not isinstance(reply.error, ServiceError):
                raise reply.error
            elif len(batch) > 1 and not reply.error.retry:
                again.extend((text,) for text in batch)
            else:
                found.update(dict.fromkeys(batch, reply.error))
        pending = again
    return found


def _read(
    batch: tuple[str, ...], reply: Any, names_of: Callable[[Any, int], Sequence[Names]]
) -> dict[str, Names | CatenaError]:
    """Return the names of each text; a reply that nobody checked, as in a dry run, may hold none."""
    try:
        lists = names_of(reply, len(batch))
        if len(lists) != len(batch):
            raise ValueError(f"names in {len(lists)} texts were given for {len(batch)}")
    except ValueError as error:
        return dict.fromkeys(batch, InvalidReplyError("model", str(error)))
    return dict(zip(batch, lists, strict=True))
