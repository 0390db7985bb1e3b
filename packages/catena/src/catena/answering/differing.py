"""Where a quote with some words changed stands in its source, and which words these are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from heapq import nsmallest

from catena.answering.locating import NEGATING, Difference, Located, cuts_at, what_is_cut
from catena.answering.wording import Token, Wording

_LONGEST_NEAR = 400  # words; beyond, a quote is found as printed or not at all
_LEAST_EQUAL = 3  # words of a quote that is near
_HYPHENATED = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1))  # words on either side
_TRIED = 16  # places that are looked at more closely
_MANY = 1000  # votes of a word that stands once; of one that stands n times, each place has 1/n of it


def nearest(quote: Wording, source: Wording) -> Located | None:
    """Return where a quote with changed words stands in a source, or None where it does not.

    `near`: at most one word in five (and always one) was changed, left out or added, and none of them is a number, a
    code, a unit, a sign or a negation. `altered`: one of them is, and at least six words in ten agree.
    """
    length = len(quote)
    if not 2 <= length <= _LONGEST_NEAR:
        return None
    found = [_compared(quote, source, diagonal) for diagonal in _diagonals(quote, source)]
    ranked = sorted((each for each in found if each is not None), key=lambda each: each[:2])
    return ranked[0][2] if ranked else None


def _reach(length: int) -> int:
    return 2 + length // 6


def _diagonals(quote: Wording, source: Wording) -> list[int]:
    """Return up to three differences of place (source less quote) at which most words agree, rare words first."""
    votes: Counter[int] = Counter()
    for word, mine in quote.indexes.items():
        places = source.indexes.get(word, ())
        for place in places:
            for index in mine:
                votes[place - index] += _MANY // len(places)
    reach = _reach(len(quote))
    best = nsmallest(_TRIED, votes, key=lambda d: (-votes[d], d))
    ranked = sorted(best, key=lambda d: (-sum(votes[near] for near in range(d - reach, d + reach + 1)), d))
    chosen: list[int] = []
    for diagonal in ranked:
        if all(abs(diagonal - other) > reach for other in chosen):
            chosen.append(diagonal)
        if len(chosen) == 3:
            break
    return chosen


def _compared(quote: Wording, source: Wording, diagonal: int) -> tuple[int, int, Located] | None:
    """Return how many words differ, where, and the place; None where too many do."""
    length = len(quote)
    reach = _reach(length)
    low, high = max(0, diagonal - reach), max(0, diagonal + length + reach + 1)
    window = source.run(low, high)
    matcher = SequenceMatcher(None, [t.key for t in quote.tokens], [t.key for t in window], autojunk=False)
    codes = matcher.get_opcodes()
    equal = sum(i2 - i1 for tag, i1, i2, _, _ in codes if tag == "equal")
    pairs: list[tuple[Sequence[Token], Sequence[Token]]] = []
    ours: list[int] = []  # indexes in the window that the quote covers
    for tag, i1, i2, j1, j2 in codes:
        first, last = j1, j2
        if tag != "equal" and i1 == 0:  # what stands before the quote is no part of it
            first = max(j1, j2 - (i2 - i1))
        elif tag != "equal" and i2 == length:
            last = min(j2, j1 + (i2 - i1))
        ours += (first, last) if last > first else ()
        if tag == "equal":
            continue
        said, printed = _unlike(quote.tokens[i1:i2], window[first:last])
        equal += i2 - i1 - len(said)
        if said or printed:
            pairs.append((said, printed))
    if not pairs or not ours:
        return None
    first, last = window[min(ours)].start, window[max(ours) - 1].end
    differences = [Difference(_text(quote, said), _text(source, printed)) for said, printed in pairs]
    cut = [each for each in cuts_at(source, first, last) if each.value]
    differences += what_is_cut(source, cut, first, last)
    first, last = min([first, *(each.start for each in cut)]), max([last, *(each.end for each in cut)])
    changed = sum(max(len(said), len(printed)) for said, printed in pairs)
    value = bool(cut) or any(_changes_value(said, printed) for said, printed in pairs)
    near = not value and changed <= max(1, length // 5) and equal >= _LEAST_EQUAL
    altered = value and changed <= max(3, length // 3) and equal * 10 >= length * 6
    if not (near or altered):
        return None
    return changed, first, Located(*source.span(first, last), "near" if near else "altered", tuple(differences))


def _unlike(said: Sequence[Token], printed: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Token]]:
    """Return two runs without what is alike at their ends but for hyphens in words: "crosswise", "cross-wise"."""
    alike = True
    while alike and said and printed:
        alike = False
        for mine, theirs in _HYPHENATED:
            if _joined(said[-mine:]) == _joined(printed[-theirs:]) is not None:
                said, printed, alike = said[:-mine], printed[:-theirs], True
            elif _joined(said[:mine]) == _joined(printed[:theirs]) is not None:
                said, printed, alike = said[mine:], printed[theirs:], True
    return said, printed


def _joined(run: Sequence[Token]) -> str | None:
    return "".join(token.key for token in run) if all(token.soft for token in run[1:]) else None


def _text(words: Wording, run: Sequence[Token]) -> str:
    return words.text[slice(*words.span(run[0].start, run[-1].end))] if run else ""


def _changes_value(said: Sequence[Token], printed: Sequence[Token]) -> bool:
    if any(token.kind != "word" for token in (*said, *printed)):
        return True
    return len(said) == len(printed) and any(map(_opposed, said, printed))


def _opposed(said: Token, printed: Token) -> bool:
    """Return whether two words differ by a negating prefix, or by the capitals of a unit."""
    short, long = sorted((said.key.lower(), printed.key.lower()), key=len)
    if short == long:
        return said.key != printed.key
    return long.endswith(short) and NEGATING.fullmatch(long[: len(long) - len(short)]) is not None
