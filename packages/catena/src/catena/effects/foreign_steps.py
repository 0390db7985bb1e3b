"""Steps of somebody else's code: what goes wrong in it becomes one of our errors, by the name of whose code it is."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any

from catena.effects.faults import service_error
from catena.effects.steps import Step
from catena.model.errors import CatenaError, ParameterError


def guarded(begin: Callable[[], object], name: str) -> Step[Any]:
    """Go through a step that anybody wrote, and return what it returns; nobody has looked at that yet.

    Args:
        begin: calls the code that is to give a step.
        name: whose code it is, for errors.

    Raises:
        ParameterError: it is no step, or yields something else than requests.
        ServiceError: its code raised an error that is none of ours.
        CatenaError: what its code let out of ours.
    """
    try:
        step: Any = begin()
    except CatenaError:
        raise
    except Exception as error:
        raise service_error(error, name) from error
    if not isinstance(step, Generator):
        raise ParameterError(f"what {name} makes", type(step).__name__, "a step: a generator that yields requests")
    replies: Any = None
    with closing(step):
        while True:
            try:
                requests = step.send(replies)
            except StopIteration as done:
                return done.value
            except CatenaError:
                raise
            except Exception as error:
                raise service_error(error, name) from error
            if not isinstance(requests, Sequence) or isinstance(requests, str):
                raise ParameterError(f"what {name} yields", type(requests).__name__, "a list of requests")
            replies = yield requests
