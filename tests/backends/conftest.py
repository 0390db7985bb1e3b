"""Recorded HTTP: replayed only, with method, address and body compared, and with no network behind it."""

from typing import Any

import pytest


def pytest_recording_configure(config: pytest.Config, vcr: Any) -> None:
    """Compare methods without case: aiohttp is given "post" by Voyage's SDK, and writes it large itself."""
    vcr.register_matcher("method", lambda one, other: one.method.upper() == other.method.upper())


@pytest.fixture
def vcr_config() -> dict[str, Any]:
    return {
        "record_mode": "none",
        "match_on": ["method", "uri", "body"],
        "filter_headers": ["authorization"],
        "allow_playback_repeats": False,
    }
