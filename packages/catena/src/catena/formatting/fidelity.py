"""Whether a model's Markdown says what its source says: recall, precision and order of the words, and named faults."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass

_TOKEN = re.compile(r"[^\W_]+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityOptions:
    """Thresholds below which an answer is not taken.

    Attributes:
        recall: least share of the source's weight that the answer has.
        precision: least share of the answer's weight that the source has.
        order: least share of the shared weight that stands in the source's order.
        number_weight: weight of a word with a digit in it, in plain words.
    """

    recall: float = 0.98
    precision: float = 0.98
    order: float = 0.95
    number_weight: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with an answer: its kind and, in a few words, what and where."""

    kind: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """How faithful an answer is.

    Attributes:
        recall: share of the source's weight that the answer has.
        precision: share of the answer's weight that the source has.
        order: share of the shared weight that stands in the source's order.
        missing: what the source says and the answer does not, as printed, in the order of the source.
        invented: what the answer says and the source does not, in the order of the answer.
        faults: why the answer should not be taken; empty when it should.
    """

    recall: float
    precision: float
    order: float
    missing: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def faithful(self) -> bool:
        """Whether nothing is wrong with the answer."""
        return not self.faults


def fidelity(
    source: str,
    markdown: str,
    options: FidelityOptions = FidelityOptions(),  # noqa: B008 - frozen
    *,
    prompt: str = "",
    previous: str = "",
) -> Fidelity:
    """Compare the words of a window with the Markdown that a model made of them.

    Args:
        source: the words as the parser saw them.
        markdown: the model's answer.
        options: thresholds and weights.
        prompt: the rules that the model was given, to know an echo of them.
        previous: the answer for the window before, to know a drift of heading levels.
    """
    there, here = (_TOKEN.findall(text.casefold()) for text in (source, markdown))
    count_there, count_here = Counter(there), Counter(here)
    shared = sum((count_there & count_here).values())
    recall, precision = (shared / len(words) if words else 1.0 for words in (there, here))
    missing = tuple(sorted((count_there - count_here).elements()))
    invented = tuple(sorted((count_here - count_there).elements()))
    places = {word: index for index, word in enumerate(there) if count_there[word] == count_here[word] == 1}
    line = [places[word] for word in here if word in places]
    tails: list[int] = []
    for place in line:
        tails[bisect_left(tails, place) : bisect_left(tails, place) + 1] = [place]
    order = len(tails) / len(line) if line else 1.0
    faults = tuple(
        Fault(kind=kind, detail=f"{name} {value:.3f} is below {least:g}")
        for kind, name, value, least in (
            ("omission", "recall", recall, options.recall),
            ("invention", "precision", precision, options.precision),
            ("order", "order", order, options.order),
        )
        if value < least
    )
    return Fidelity(
        recall=recall, precision=precision, order=order, missing=missing, invented=invented, faults=faults
    )
