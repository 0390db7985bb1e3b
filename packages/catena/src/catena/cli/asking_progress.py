"""A bar on stderr of how many requests to a model are done, and how many of the answers were kept already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from catena.cli.progress import progress

if TYPE_CHECKING:
    from catena.effects import Event


@contextmanager
def asking_bar(what: str, noun: str) -> Iterator[Callable[[Event], None]]:
    """Show how far a run is.

    Args:
        what: is being done.
        noun: of what one request is about, in the plural.

    Yields:
        What to tell of each request.
    """
    kept = failed = 0
    with progress(what, noun) as show:

        def tell(event: Event) -> None:
            nonlocal kept, failed
            kept, failed = kept + (event.kind == "cached"), failed + (event.kind == "failed")
            notes = [f"{kept} kept"] * bool(kept) + [f"{failed} failed"] * bool(failed)
            show(completed=event.done, total=event.total, notes=", ".join(notes))

        yield tell
