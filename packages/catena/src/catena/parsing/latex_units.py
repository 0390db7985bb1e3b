r"""What siunitx prints for a unit: \SI{5}{\milli\watt} is 5 mW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catena.parsing.latex_tokens import Token

_PRINTED: Mapping[str, str] = {
    **{"pico": "p", "nano": "n", "micro": "µ", "milli": "m", "centi": "c", "deci": "d", "hecto": "h", "kilo": "k"},
    **{"mega": "M", "giga": "G", "tera": "T", "kibi": "Ki", "mebi": "Mi", "gibi": "Gi", "tebi": "Ti"},
    **{"metre": "m", "meter": "m", "gram": "g", "kilogram": "kg", "second": "s", "ampere": "A", "kelvin": "K"},
    **{"mole": "mol", "candela": "cd", "hertz": "Hz", "newton": "N", "pascal": "Pa", "joule": "J", "watt": "W"},
    **{"coulomb": "C", "volt": "V", "farad": "F", "ohm": "Ω", "siemens": "S", "weber": "Wb", "tesla": "T"},
    **{"henry": "H", "lumen": "lm", "lux": "lx", "becquerel": "Bq", "gray": "Gy", "sievert": "Sv", "litre": "L"},
    **{"liter": "L", "minute": "min", "hour": "h", "day": "d", "degree": "°", "arcminute": "′", "arcsecond": "″"},
    **{"celsius": "°C", "degreeCelsius": "°C", "percent": "%", "bar": "bar", "tonne": "t", "hectare": "ha"},
    **{"electronvolt": "eV", "decibel": "dB", "bit": "bit", "byte": "B", "radian": "rad", "angstrom": "Å"},
}
_PREFIXES = frozenset(list(_PRINTED)[:15])
_POWERS = {"squared": "²", "cubed": "³"}


def unit(tokens: Sequence[Token]) -> str:
    r"""Return a unit as it is printed, with "·" between its parts and "/" before those behind \per.

    Of a command that is no unit known here, the name is printed.
    """
    printed, between = "", ""
    for token in tokens:
        if token.kind not in {"command", "text"}:
            continue
        name = token.text.rstrip("*") if token.kind == "command" else ""
        if name == "per":
            between = "/"
        elif name in _POWERS:
            printed += _POWERS[name]
        else:
            printed += (between if printed or between == "/" else "") + (_PRINTED.get(name, name) or token.text)
            between = "" if name in _PREFIXES or not name else "·"
    return printed
