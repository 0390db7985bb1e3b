"""From a file to a document, whatever the file does."""

from catena.parsing.files import Engine, file_bytes, parse, parse_bytes
from catena.parsing.limits import Limits
from catena.parsing.sniff import SUPPORTED_SUFFIXES

__all__ = ["SUPPORTED_SUFFIXES", "Engine", "Limits", "file_bytes", "parse", "parse_bytes"]
