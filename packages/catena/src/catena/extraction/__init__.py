"""From calibrated rankings to segments: runs of adjacent chunks that answer, within a budget."""

from catena.extraction.budgeted import within_budget
from catena.extraction.explaining import Explanation, explain
from catena.extraction.extracting import extract
from catena.extraction.params import (
    BALANCED,
    FIND_ALL,
    PRECISION,
    ExtractionParams,
    dsrag_compatible,
    length_for_penalty,
    penalty_for_length,
    preset,
)
from catena.extraction.results import Extraction, SegmentHit

__all__ = [
    "BALANCED",
    "FIND_ALL",
    "PRECISION",
    "Explanation",
    "Extraction",
    "ExtractionParams",
    "SegmentHit",
    "dsrag_compatible",
    "explain",
    "extract",
    "length_for_penalty",
    "penalty_for_length",
    "preset",
    "within_budget",
]
