"""Units as documents print them, each with its dimension and its size: enough to see that 250 N cm is 2.5 N·m."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

Unit: TypeAlias = tuple[str, float]
"""Dimension, and how many of its base units one of this unit is."""

_GAP = r"[ \u00a0\u202f·⋅*.-]?"  # between the factors of a product: "N m", "N·m", "Nm"

# dimension: spelling and size of each unit; units of unlike dimensions are never compared. Months and years are no
# fixed number of days; bytes are counted by 1024, as most data sheets mean it.
_TABLE = """
length: m 1, mm 1e-3, cm 1e-2, km 1e3, µm 1e-6, nm 1e-9, inch 0.0254, inches 0.0254, ft 0.3048
area: mm2 1e-6, cm2 1e-4, m2 1
volume: l 1, L 1, ml 1e-3, mL 1e-3, m3 1e3, cm3 1e-3, litre 1, litres 1, liter 1, liters 1
mass: kg 1, g 1e-3, mg 1e-6, t 1e3, lb 0.45359237, lbs 0.45359237
time: s 1, ms 1e-3, µs 1e-6, ns 1e-9, sec 1, second 1, seconds 1, Sekunde 1, Sekunden 1, min 60, minute 60,
 minutes 60, Minute 60, Minuten 60, h 3600, hour 3600, hours 3600, Stunde 3600, Stunden 3600, day 86400,
 days 86400, Tag 86400,
 Tage 86400, Tagen 86400, week 604800, weeks 604800, Woche 604800, Wochen 604800
months: month 1, months 1, Monat 1, Monate 1, Monaten 1, year 12, years 12, Jahr 12, Jahre 12, Jahren 12
voltage: V 1, mV 1e-3, kV 1e3, VDC 1, VAC 1, volt 1, volts 1, Volt 1
current: A 1, mA 1e-3, µA 1e-6, kA 1e3
power: W 1, mW 1e-3, kW 1e3, MW 1e6
frequency: Hz 1, kHz 1e3, MHz 1e6, GHz 1e9
resistance: Ω 1, kΩ 1e3, MΩ 1e6, ohm 1, ohms 1, kohm 1e3, Ohm 1, kOhm 1e3
capacitance: F 1, µF 1e-6, nF 1e-9, pF 1e-12
pressure: Pa 1, hPa 100, kPa 1e3, MPa 1e6, bar 1e5, mbar 100, psi 6894.757293168
torque: N_m 1, N_cm 1e-2, c_N_m 1e-2, m_N_m 1e-3, k_N_m 1e3
force: N 1, kN 1e3, mN 1e-3
temperature: °C 1
fahrenheit: °F 1
kelvin: K 1
data: B 1, KB 1024, kB 1024, KiB 1024, MB 1048576, MiB 1048576, GB 1073741824, GiB 1073741824, byte 1, bytes 1
bits: bit 1, bits 1, Bit 1
rate: baud 1, Bd 1, kBd 1e3
bitrate: bit/s 1, kbit/s 1e3, Mbit/s 1e6, kbps 1e3, Mbps 1e6
share: % 1, percent 1, per_cent 1, Prozent 1
rotation: rpm 1, 1/min 1
level: dB 1
"""


def _read(table: str) -> tuple[Mapping[str, Unit], str]:
    units: dict[str, Unit] = {}
    patterns: dict[str, str] = {}
    for line in table.replace("\n ", " ").strip().splitlines():
        dimension, _, listed = line.partition(": ")
        for each in listed.split(", "):
            written, _, size = each.rpartition(" ")
            parts = written.replace("µ", "μ").split("_")  # NFKC writes the micro sign as a Greek letter
            units["".join(parts)] = (dimension, float(size))
            patterns["".join(parts)] = _GAP.join(map(re.escape, parts))
    longest_first = sorted(patterns, key=lambda written: (-len(written), written))
    return units, "|".join(patterns[written] for written in longest_first)


UNITS, UNIT_PATTERN = _read(_TABLE)
"""Unit by its spelling without gaps, after NFKC; and a regular expression of all spellings, the longest first."""

_GAPS = re.compile(_GAP.removesuffix("?") + "+")


def unit_of(written: str) -> Unit | None:
    """Return the unit of a spelling (NFKC), or None; what is not known may still be a unit."""
    bare = written.strip()
    return UNITS.get(bare) or UNITS.get(_GAPS.sub("", bare))
