"""What is wrong with an answer beyond single words: loops, refusals, echoes, translations, drifting levels."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from catena.formatting.fidelity_words import Line, Words

SHINGLE = 4  # words; a run this long is no coincidence
_LEVEL_NUMBER = re.compile(
    r"^(?:(?:chapter|appendix|part|section|kapitel|abschnitt|chapitre|capítulo)\s+)?"
    r"(?P<number>(?:\d{1,3}|[A-Z](?=\.\d))(?:\.\d{1,3})*)[.)]?(?:\s|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with an answer: its kind and, in a few words, what and where.

    Kinds: "omission", "truncation", "changed-value", "changed-word", "invention", "repetition", "echo", "refusal",
    "translation", "summary", "order", "heading-drift", "heading-number", "fence", "merged-words", "low-recall",
    "low-precision".
    """

    kind: str
    detail: str


def shingles(keys: Sequence[str], size: int = SHINGLE) -> frozenset[tuple[str, ...]]:
    """Return every run of `size` words."""
    return frozenset(tuple(keys[index : index + size]) for index in range(len(keys) - size + 1))


def origin(run: Sequence[str], known: frozenset[tuple[str, ...]], prompt: frozenset[tuple[str, ...]]) -> str:
    """Return what an added run is: said twice or in a loop ("repetition"), the rules ("echo"), or an "invention".

    Args:
        run: the words.
        known: the runs of `SHINGLE` words of the source.
        prompt: the same of the rules that the model was given.
    """
    own = shingles(run) or frozenset([tuple(run)])
    if len(run) > 2 * SHINGLE and len(own) <= len(run) / 2:
        return "repetition"
    if len(own & prompt) > 0.5 * len(own):
        return "echo"
    return "repetition" if len(own & known) > 0.5 * len(own) else "invention"


def wholesale(recall: float, precision: float, value_recall: float, length: float) -> Fault | None:
    """Return what happened to an answer that as a whole does not say what its source says.

    Only shares are looked at, so that a refusal in any language is one: few words, and hardly any the source's.

    Args:
        recall: share of the source's plain words that the answer has, from 0 to 1.
        precision: share of the answer's words that are the source's, from 0 to 1.
        value_recall: the recall of numbers, codes and units; 0 in a source without any.
        length: words of the answer per word of the source.
    """
    if recall < 0.2 and precision < 0.6 and length < 0.5 and value_recall < 0.5:
        return Fault(kind="refusal", detail=f"{recall:.0%} of the words, {length:.0%} of the length")
    if recall < 0.4 and length >= 0.5 and value_recall - recall > 0.3:
        return Fault(kind="translation", detail=f"{recall:.0%} of the words, but {value_recall:.0%} of the values")
    if recall < 0.75 and length < 0.75 and precision < 0.98:
        return Fault(kind="summary", detail=f"{recall:.0%} of the words in {length:.0%} of the length")
    return None


def heading_faults(answer: Words, previous: Words) -> Iterator[Fault]:
    """Give headings whose level does not agree with their number, with each other or with the answer before.

    One depth of number has one level ("2.1" and "3.4" are alike), a deeper one no higher level, and a heading that
    stands in the overlap of two windows has the same level in both.
    """
    known: dict[tuple[str, ...], int] = {}
    for line, _, keys in _headings(previous):
        known[keys] = line.level
    levels: dict[int, int] = {}
    for line, depth, _ in _headings(previous):
        if depth:
            levels.setdefault(depth, line.level)
    for line, depth, keys in _headings(answer):
        expected = levels.setdefault(depth, line.level) if depth else known.get(keys, line.level)
        if expected != line.level:
            yield Fault(
                kind="heading-drift", detail=f"{_short(line.text)!r} is of level {line.level}, not {expected}"
            )
    depths = sorted(levels)
    for shallow, deep in pairwise(depths):
        if levels[deep] < levels[shallow]:
            detail = f"numbers of depth {deep} have level {levels[deep]}, those of depth {shallow} {levels[shallow]}"
            yield Fault(kind="heading-drift", detail=detail)


def number_of(text: str) -> tuple[int, ...] | None:
    """Return the number that opens a heading, letters as their place in the alphabet, or None."""
    match = _LEVEL_NUMBER.match(text)
    if match is None:
        return None
    return tuple(int(part) if part.isdigit() else ord(part.upper()) - 64 for part in match["number"].split("."))


def added_numbers(answer: Words, previous: Words, added: Collection[int]) -> Iterator[Fault]:
    """Give added heading numbers that do not go on with the heading numbers before them.

    Args:
        answer: the words of the answer.
        previous: those of the answer before, whose headings come first.
        added: word indexes of the numbers in the answer that the source does not have.
    """
    last: tuple[int, ...] = ()
    for words, checked in ((previous, False), (answer, True)):
        for line in words.lines:
            number = number_of(line.text) if line.kind == "heading" else None
            if number is None:
                continue
            if checked and line.start in added and last and not _follows(last, number):
                yield Fault(
                    kind="heading-number", detail=f"{_short(line.text)!r} cannot follow {'.'.join(map(str, last))}"
                )
            last = number


def _follows(last: tuple[int, ...], number: tuple[int, ...]) -> bool:
    """Whether a number is the first below the last one, or the next of one of its parts."""
    return number == (*last, 1) or any(number == (*last[:size], last[size] + 1) for size in range(len(last)))


def _headings(words: Words) -> Iterator[tuple[Line, int, tuple[str, ...]]]:
    """Give (line, depth of its number or 0, keys of its words) of each heading."""
    for line in words.lines:
        if line.kind == "heading":
            number = number_of(line.text)
            yield line, len(number or ()), tuple(word.key for word in words.words[line.start : line.end])


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def first_of_each(faults: Iterable[Fault], most: int) -> tuple[Fault, ...]:
    """Return the faults in order, at most `most` of a kind; the last one says how many more there are."""
    found = tuple(faults)
    totals: dict[str, int] = {}
    for fault in found:
        totals[fault.kind] = totals.get(fault.kind, 0) + 1
    seen: dict[str, int] = {}
    kept = []
    for fault in found:
        seen[fault.kind] = seen.get(fault.kind, 0) + 1
        if seen[fault.kind] < most or totals[fault.kind] == most == seen[fault.kind]:
            kept.append(fault)
        elif seen[fault.kind] == most:
            kept.append(Fault(kind=fault.kind, detail=f"{fault.detail} and {totals[fault.kind] - most} more"))
    return tuple(kept)
