"""Finds many terms in a text at once: the matcher of the keyword route, of expert lists and of detectors."""

from __future__ import annotations

from collections.abc import Iterable

from catena.text.words import is_border, normalise_query, normalise_term


class TermMatcher:
    """The terms of a vocabulary in a text, by Aho-Corasick: in time linear in the text and its matches.

    Terms are compared in the form of `catena.text.words.normalise_term`, and count only between borders (see
    `catena.text.words.is_border`): "STM32F103" is not in "STM32F103R4", and both are in "STM32F103 (STM32F103R4)".

    Args:
        terms: in any form, order and number; those of which normalising leaves nothing are left out.

    Attributes:
        terms: normalised, distinct, sorted.

    Source: Aho and Corasick, CACM 1975, doi:10.1145/360825.360855.
    """

    def __init__(self, terms: Iterable[str]) -> None:
        self.terms = tuple(sorted({normalise_term(term) for term in terms} - {""}))
        self._automaton = None
        if self.terms:
            from daachorse import CharwiseDoubleArrayAhoCorasick

            self._automaton = CharwiseDoubleArrayAhoCorasick(list(self.terms))

    def all_in(self, text: str) -> tuple[str, ...]:
        """Return the distinct terms in a text, those inside longer ones as well.

        In the order of their first places; of two that begin together, the longer first.
        """
        normal = normalise_query(text)
        return tuple(dict.fromkeys(normal[start:end] for start, end in self.spans_in(normal)))

    def longest_in(self, text: str) -> tuple[str, ...]:
        """Return the distinct terms in a text, in order: the longest at each place, from the left.

        So "ESP32 C6 DevKit" names one thing, not the "ESP32" as well.
        """
        normal = normalise_query(text)
        found: dict[str, None] = {}
        free = 0  # everything before it is taken
        for start, end in self.spans_in(normal):
            if start >= free:
                found[normal[start:end]] = None
                free = end
        return tuple(found)

    def spans_in(self, normal: str) -> list[tuple[int, int]]:
        """Return all matches between borders as [start, end), from the left, the longer first.

        The text is one from `normalise_query`. All matches are asked for, not the automaton's leftmost-longest: of
        two that begin together, the longer may end inside a word.
        """
        if self._automaton is None:
            return []
        spans = [
            (start, -end)
            for start, end, _ in self._automaton.find_overlapping(normal)
            if is_border(normal, start) and is_border(normal, end)
        ]
        return [(start, -minus_end) for start, minus_end in sorted(spans)]
