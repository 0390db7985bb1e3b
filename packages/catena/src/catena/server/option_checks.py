"""What the numbers of options must be, so that one which cannot be meant is an error when it is given."""

from __future__ import annotations

from math import isfinite

from catena.errors import ParameterError


def check_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raise `ParameterError` for what is no whole number in [least, most]."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        allowed = f"a whole number >= {least}" if most is None else f"a whole number in [{least}, {most}]"
        raise ParameterError(name, value, allowed)


def check_number(name: str, value: object, least: float) -> None:
    """Raise `ParameterError` for what is no finite number from `least` on."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or value < least:  # type: ignore[arg-type, operator]
        raise ParameterError(name, value, f"a finite number >= {least:g}")
