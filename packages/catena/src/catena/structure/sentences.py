"""Where sentences end: what chunks and segments are cut by."""

from catena.text.sentences import sentence_ends

__all__ = ["sentence_ends"]
