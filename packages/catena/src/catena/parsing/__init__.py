"""From a file to a document, whatever the file does."""

from catena.parsing.files import Engine, parse, parse_bytes
from catena.parsing.limits import Limits
from catena.parsing.sniff import SUPPORTED_SUFFIXES

__all__ = ["SUPPORTED_SUFFIXES", "Engine", "Limits", "parse", "parse_bytes"]
