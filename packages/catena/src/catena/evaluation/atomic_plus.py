"""Atomic Plus: how many atomic units are retrieved in place of one section, so that the tokens are about equal."""

from __future__ import annotations

from math import floor, isfinite

from catena.model.errors import ParameterError


def plus_factor(section_tokens: float, unit_tokens: float) -> int:
    """Return by how much k is multiplied for units to cost about as many tokens as k sections.

    `factor = max(1, round(section_tokens / unit_tokens))`, halves rounded up: 375 / 94 -> 4 (WikiWeb2M) and
    510 / 233 -> 2 (NQ) in the paper.

    Args:
        section_tokens: mean tokens of a section, above 0.
        unit_tokens: mean tokens of an atomic unit, above 0, counted in the same way.

    Raises:
        ParameterError: a mean is not a finite number above 0.

    Source: MC-indexing (Dong et al., 2024), appendix C.3, "Atomic Unit: Plus".
    """
    for name, value in (("section_tokens", section_tokens), ("unit_tokens", unit_tokens)):
        if not (isfinite(value) and value > 0):
            raise ParameterError(name, value, "a finite number above 0")
    ratio = section_tokens / unit_tokens
    if not isfinite(ratio):
        raise ParameterError("unit_tokens", unit_tokens, "not so small that the factor has no bound")
    return max(1, floor(ratio + 0.5))
