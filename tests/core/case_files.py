"""Read files of cases: what goes in, and what must come out, as both look."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest


def cases_of(name: str) -> list[Any]:
    """Return the cases of a file beside this one, each (what goes in, what comes out), named as there.

    A case is a line "%%%% name", what goes in, a line "====", and what must come out.
    """
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    found = re.findall(r"^%%%% (.+)\n((?:.*\n)*?)====\n((?:(?!%%%% ).*\n)*)", text, re.MULTILINE)
    return [pytest.param(given.removesuffix("\n"), made.rstrip("\n"), id=case) for case, given, made in found]
