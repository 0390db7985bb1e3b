"""A model's atomic units, mapped back to runs of the original sentences by edit distance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from catena.structure.sentences import sentence_ends

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UnitRepairKind: TypeAlias = Literal[
    "unlike",  # a unit that is like no sentence of the window: a label, a remark; it takes no part
    "no_sentence",  # a unit to which no sentence was mapped: it vanishes
    "reworded",  # a unit that is not word for word the sentences mapped to it
]

_FENCE = re.compile(r"`{3,}\w*|~{3,}\w*")
_FRAGMENT = 20  # characters from which on a part of a sentence, copied, is like it


class Note(NamedTuple):
    """What became of a unit: sentences [first, end) of the window."""

    kind: UnitRepairKind
    unit: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Mapped:
    """Where the runs of sentences end, ascending and each once, the last at the number of sentences; and notes."""

    ends: tuple[int, ...]
    notes: tuple[Note, ...] = ()


def read_units(reply: str) -> tuple[str, ...]:
    """Return the units in a reply, one per line, white space folded; fences and blank lines are none."""
    lines = (folded(line) for line in reply.splitlines())
    return tuple(line for line in lines if line and not _FENCE.fullmatch(line))


def folded(text: str) -> str:
    """Return the text with each run of white space as one space, and none around it."""
    return " ".join(text.split())


def sentences_of(unit: str, undotted: re.Pattern[str] | None = None) -> list[str]:
    """Return the sentences of a text that is not blank, trimmed.

    Args:
        unit: folded, so that no empty line tells a heading in it from what follows.
        undotted: finds the sentences of the window that end without a mark, as headings do; see `undotted_of`.
    """
    if undotted is None:
        borders = [0, *sentence_ends(unit, 0, len(unit)), len(unit)]
        return [unit[start:end].strip() for start, end in pairwise(borders)]
    return [sentence for part in undotted.split(unit) if part.strip() for sentence in sentences_of(part.strip())]


def undotted_of(sentences: Sequence[str]) -> re.Pattern[str]:
    """Return what finds, in one group, those of the sentences whose end cannot be seen when a space follows."""
    passage = " ".join(sentences)
    seen = {*sentence_ends(passage, 0, len(passage))}
    nexts = accumulate(len(sentence) + 1 for sentence in sentences)
    unseen = {sentence for sentence, after in zip(sentences, nexts, strict=True) if after not in seen}
    choices = "|".join(map(re.escape, sorted(unseen, key=lambda sentence: (-len(sentence), sentence))))
    return re.compile(rf"(?<!\S)({choices})(?!\S)")


def map_units(
    sentences: Sequence[str], units: Sequence[str], *, unlike: float = 0.65, least_kept: float = 0.5
) -> Mapped:
    """Return which run of consecutive sentences each unit stands for.

    Units that are the sentences, word for word, keep their own borders. Otherwise units that are like no sentence
    are left out first: the rule of `unit_ends` compares neighbours only, so that one invented line would hold up
    all that follow. A sentence of a unit and one of the window are alike where their edit distance over the length
    of the longer one is at most `unlike`, or one (of 20 characters or more) is a part of the other side's text.

    Cost: one edit distance per pair of sentences, about `characters of the window * characters of the units / 64`
    steps.

    Args:
        sentences: of the window, folded, none blank.
        units: of the answer, folded, none blank.
        unlike: in (0, 1]; 1 leaves no unit out, which is the paper's procedure.
        least_kept: share of the window's characters, in [0, 1], whose sentences must be like one of the answer.

    Raises:
        ValueError: there are no units, or they are no copy of the window.
    """
    import numpy as np

    if not units:
        raise ValueError("it holds no unit")
    if (own := own_ends(sentences, units)) is not None:
        return Mapped(own)
    undotted = undotted_of(sentences)
    parts = [sentences_of(unit, undotted) for unit in units]
    flat = [part for of_unit in parts for part in of_unit]
    starts = [0, *accumulate(map(len, parts))][:-1]
    distances = edit_distances(sentences, flat)
    lengths, others = np.array([*map(len, sentences)]), np.array([*map(len, flat)])
    alike = distances <= unlike * np.maximum.outer(lengths, others)

    found = alike.any(axis=1) | _inside(sentences, " ".join(units))
    kept = float(lengths[found].sum() / lengths.sum())
    if kept < least_kept:
        raise ValueError(f"it holds {kept:.0%} of the passage, where a copy was asked for")
    taking = np.logical_or.reduceat(alike.any(axis=0) | _inside(flat, " ".join(sentences)), starts)
    places = [int(place) for place in np.flatnonzero(taking)]
    if not places:
        raise ValueError("none of its lines is like a sentence of the passage")
    ends = unit_ends(np.minimum.reduceat(distances, starts, axis=1)[:, places])
    return _noted(sentences, units, places, ends)


def own_ends(sentences: Sequence[str], units: Sequence[str]) -> tuple[int, ...] | None:
    """Return where the units end among the sentences, if they are these, white space apart; else None."""
    marks = list(accumulate(len(_condensed(sentence)) for sentence in sentences))
    own = list(accumulate(len(_condensed(unit)) for unit in units))
    if _condensed("".join(sentences)) != _condensed("".join(units)):
        return None
    after = {mark: place for place, mark in enumerate(marks, start=1)}
    return tuple(after[mark] for mark in own) if set(own) <= set(marks) else None


def edit_distances(sentences: Sequence[str], others: Sequence[str]) -> NDArray[np.int32]:
    """Return the Levenshtein distances in characters, shape (len(sentences), len(others))."""
    import numpy as np
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    return np.asarray(cdist(sentences, others, scorer=Levenshtein.distance, dtype=np.int32), dtype=np.int32)


def unit_ends(distances: NDArray[np.int32]) -> tuple[int, ...]:
    """Return, per unit, one after the last sentence that goes to it.

    With D(y_j, S_i) the least edit distance between sentence y_j and a sentence of unit S_i, j_0 = 1 and
    `j_i = the first j >= j_(i-1) with D(y_j, S_i) > D(y_j, S_(i+1))`, unit S_i is given y_(j_(i-1)) … y_(j_i - 1):
    it goes on until a sentence is nearer to the next unit, and keeps those that are as near to both.

    What the paper leaves open: without such a j, unit S_i takes all that remains and those behind it nothing; the
    last unit takes what remains; a unit with j_i = j_(i-1) gets no sentence.

    Args:
        distances: D, shape (sentences, units), with at least one unit.

    Returns:
        j_1 - 1, j_2 - 1, …, number of sentences; ascending. Unit i (0-based) has sentences [ends[i - 1], ends[i]).

    Source: MC-indexing (Dong et al., 2024), appendix C.3.
    """
    rows = distances.tolist()
    ends: list[int] = []
    at = 0
    for unit in range(distances.shape[1] - 1):
        while at < len(rows) and rows[at][unit] <= rows[at][unit + 1]:
            at += 1
        ends.append(at)
    return (*ends, len(rows))


def _noted(sentences: Sequence[str], units: Sequence[str], places: Sequence[int], ends: Sequence[int]) -> Mapped:
    """Return the runs that are not empty, and what became of each unit of the answer, in its order."""
    runs = dict(zip(places, pairwise((0, *ends)), strict=True))
    notes: list[Note] = []
    for unit, text in enumerate(units):
        if unit not in runs:
            notes.append(Note("unlike", unit, 0, 0))
            continue
        first, end = runs[unit]
        if first == end:
            notes.append(Note("no_sentence", unit, first, end))
        elif _condensed(text) != _condensed("".join(sentences[first:end])):
            notes.append(Note("reworded", unit, first, end))
    return Mapped(tuple(end for first, end in runs.values() if first < end), tuple(notes))


def _inside(sentences: Sequence[str], text: str) -> NDArray[np.bool_]:
    import numpy as np

    return np.array([len(sentence) >= _FRAGMENT and sentence in text for sentence in sentences], dtype=np.bool_)


def _condensed(text: str) -> str:
    return "".join(text.split())
