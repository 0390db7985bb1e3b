"""What all tests share: where the large public data lies, if it is there at all."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background: children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("catena", deadline=None)  # speed is measured in benchmarks, not in tests
settings.load_profile("catena")

ROOT = Path(__file__).resolve().parent.parent


def needs_data(*parts: str) -> Path:
    """Return the path of a data file or folder, or skip the test by name where it is absent.

    The data lies in the folder that CATENA_DATA names, else beside the repository in `shared/data`.
    """
    root = Path(os.environ.get("CATENA_DATA") or ROOT.parent / "shared" / "data")
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs data: {'/'.join(parts)}")
    return path
