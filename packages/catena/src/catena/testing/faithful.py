"""A formatting model without a fault: it knows the true Markdown, and gives that of the window it is shown."""

from __future__ import annotations

import re
from collections.abc import Callable

from catena.effects.ports import Completion
from catena.effects.steps import Complete
from catena.formatting.alignment import atom_keys, atoms_of
from catena.formatting.drafts import planned_answer
from catena.formatting.numbered_headings import flat
from catena.model.errors import ServiceError
from catena.testing.fakes import Recorder

_REST = re.compile(r"[^\w\n]*(?=\n|\Z)|[^\w\s]*")


class FaithfulFormatter(Recorder):
    """Answers requests of `format_markdown` with the part of the truth that has exactly the words of the window.

    Every numbered heading is one of the first level, as the prompt asks.

    Args:
        truth: the whole file in Markdown.
        damage: (request, its true answer) -> what is answered instead.
        identity: service and model.
    """

    def __init__(
        self,
        truth: str,
        damage: Callable[[Complete, str], str | Completion] | None = None,
        identity: str = "faithful-formatter",
    ) -> None:
        super().__init__()
        self.identity = identity
        self._truth = flat(truth)
        self._spans = tuple(atoms_of(self._truth))
        self._keys = atom_keys(self._truth, self._spans)
        self._damage = damage

    def complete(self, request: Complete) -> Completion:
        """Return the Markdown of the words in the request's window."""
        self.record(request)
        answer = self.answer(planned_answer(request).text)
        damaged = self._damage(request, answer) if self._damage else answer
        return damaged if isinstance(damaged, Completion) else Completion(text=damaged)

    def answer(self, window: str) -> str:
        """Return the Markdown of a window.

        Raises:
            ServiceError: the truth does not have its words in this order.
        """
        keys = atom_keys(window, tuple(atoms_of(window)))
        for first in range(len(self._keys) - len(keys) + 1):
            if self._keys[first] == keys[0] and self._keys[first : first + len(keys)] == keys:
                return self._slice(first, first + len(keys))
        raise ServiceError(self.identity, f"the truth does not hold these words: {window[:200]!r}")

    def _slice(self, first: int, last: int) -> str:
        """Return the truth from one word to another, with the marks that belong to both ends."""
        start, end = self._spans[first][0], self._spans[last - 1][1]
        before = self._truth[self._spans[first - 1][1] if first else 0 : start]
        own_line = before.rpartition("\n")[2]
        opening = own_line if "\n" in before or not first else own_line.rpartition(" ")[2]
        rest = _REST.match(self._truth, end)
        return opening + self._truth[start : rest.end() if rest else end]
