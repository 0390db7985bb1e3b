"""Define what both processes share: limits and refusals, and frames on the pipes.

A frame is two lengths, JSON, then raw bytes. No pickle: what comes back was made by a process that read an
untrusted file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import IO, Annotated, Any, Literal

from annotated_types import Gt, Le

from catena.model import Checked, ParseError

LONGEST = 1e8  # seconds that clocks count to, three years
MOST = 2**62  # of anything: systems and files count in 64 bits
PAGE_BYTES = 50_000  # of a text file or a web page: they take about as long to read as one page of a PDF


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Checked):
    """The cost that reading one file may have; past it the file, or a page of it, ends in a named state.

    The time grows with the file: all of it may take `seconds + seconds_per_page * pages` of wall clock, and no step
    of it, which is opening it or reading one page, more than `seconds`. Text files and web pages longer than 50,000
    bytes have a page for each of these, and are read in one step that may take as long as the whole.

    Attributes:
        seconds: for one step, and of the whole before its pages are counted.
        seconds_per_page: what each page adds to the time of the whole.
        memory_bytes: address space of the reading process, where the platform can cap it (Linux).
        pages: pages of a PDF; a longer one is refused before any page is read.
        bytes: size of the file; a larger one is refused unread.
        sections: headings of a document; one with more is refused before it is divided.
        chunks: of a document; one with more is refused before anything is made of them.

    Where pages without text are read by OCR, the memory is three times that, and a page adds 15 times its seconds.
    """

    seconds: Annotated[float, Gt(0)] = 60.0
    seconds_per_page: Annotated[float, Gt(0)] = 2.0
    memory_bytes: Annotated[int, Gt(0), Le(MOST)] = 1_000_000_000
    pages: Annotated[int, Gt(0), Le(MOST)] = 10_000
    bytes: Annotated[int, Gt(0), Le(MOST)] = 200_000_000
    sections: Annotated[int, Gt(0), Le(MOST)] = 50_000
    chunks: Annotated[int, Gt(0), Le(MOST)] = 200_000

    def check_count(self, what: Literal["sections", "chunks"], found: int, source: str) -> None:
        """Raise where a document has more sections or chunks than allowed.

        Raises:
            ParseError: "limit"; says how many there are, how many may be, and what to do.
        """
        most: int = getattr(self, what)
        if found > most:
            said = f"it has {found:,} {what}, more than the limit of {most:,}"
            raise ParseError(source, "limit", said, f"splitting it, or Limits({what}={found})")

    def for_ocr(self) -> Limits:
        """Return the limits of a file that is read by OCR: it takes models, and seconds for each page."""
        return replace(self, memory_bytes=3 * self.memory_bytes, seconds_per_page=15 * self.seconds_per_page)

    def of_pages(self, pages: int) -> float:
        """Return the seconds that a file of so many pages may take."""
        return self.seconds + self.seconds_per_page * pages

    def of_text(self, size: int) -> float:
        """Return the seconds that a text file or a web page of so many bytes may take."""
        return self.of_pages(-(-size // PAGE_BYTES))


PART_PAGES = 40  # worth a process of their own: opening a long file takes about as long as reading these


def part_of(pages: int, part: int, parts: int) -> range:
    """Return the pages, from 1, that one of several processes reads; the first ones read all of a short file."""
    parts = max(1, min(parts, pages // PART_PAGES))
    return range(part * pages // parts + 1, (part + 1) * pages // parts + 1) if part < parts else range(pages, pages)


class Unreadable(Exception):
    """A file that an engine refuses with a known state."""

    def __init__(self, state: str, what: str, do_next: str = "") -> None:
        super().__init__(state, what, do_next)
        self.state, self.what, self.do_next = state, what, do_next


def too_large(size: int, at_most: int) -> Unreadable:
    """Return the refusal of a file of `size` bytes."""
    return Unreadable("limit", f"it has {size} bytes, more than {at_most}", "a higher Limits(bytes=...)")


# What pypdf's one error for all limits says, and what it means; the first words that are found decide.
_LIMITS = (
    ("loop", "malformed", "its objects refer to themselves"),
    ("cycl", "malformed", "its objects refer to themselves"),
    ("Read stream length", "malformed", "a number or name in it does not end"),
    ("depth", "too-deep", "its objects are nested too deeply"),
    ("page tree", "limit", "it claims more pages than any document has"),
    ("array element", "limit", "a list in it is longer than any document needs"),
)

# class names rather than classes: only the engine that raised one has been imported
_STATES = {
    "RecursionError": ("too-deep", "its objects are nested too deeply"),
    "MemoryError": ("memory", "reading it needs more memory than allowed"),
    "LimitReachedError": ("bomb", "it unpacks to far more than a document holds"),
    "FileNotDecryptedError": ("encrypted", "it is encrypted"),
    "WrongPasswordError": ("encrypted", "the password does not open it"),
    "DependencyError": ("encrypted", "its encryption needs a package that is missing"),
    "EmptyFileError": ("empty", "it holds no bytes"),
}


def failure_of(error: BaseException) -> tuple[str, str, str]:
    """Return the state, what is wrong, and what to do next."""
    if isinstance(error, Unreadable):
        return error.state, error.what, error.do_next
    for kind in type(error).__mro__:
        if kind.__name__ == "LimitReachedError":
            for words, state, what in _LIMITS:
                if words in str(error):
                    return state, what, _ADVICE.get(state, "")
        if kind.__name__ in _STATES:
            state, what = _STATES[kind.__name__]
            return state, what, _ADVICE.get(state, "")
    return "malformed", f"it cannot be read ({reason(error)})", _ADVICE["malformed"]


_OBJECT = re.compile(r"IndirectObject\((\d+), \d+, \d+\)")  # its last number is an address in memory


def reason(error: BaseException) -> str:
    """Return an exception in one short line, without control codes."""
    text = _OBJECT.sub(r"object \1", " ".join(str(error).split()))
    text = "".join(character for character in text if character.isprintable())
    return f"{type(error).__name__}: {text[:120]}" if text else type(error).__name__


SAVE_ANEW = "opening it in its program and saving it anew"
_ADVICE = {
    "too-deep": "printing it to a new PDF", "memory": "a higher Limits(memory_bytes=...)",
    "bomb": "nothing, unless the file comes from someone you trust: then print it to a new PDF",
    "encrypted": "parse(path, password=...)",
    "malformed": "opening it in a viewer and printing it to a new PDF", "limit": "splitting it",
}  # fmt: skip


HEADER = 8  # bytes of each of the two lengths, big-endian
MAX_FRAME = 64_000_000  # bytes of the JSON of one frame; the fullest page gives some 100,000


def write_frame(pipe: IO[bytes], value: Mapping[str, Any], data: bytes = b"") -> None:
    """Send one JSON object, and raw bytes with it; the caller flushes the pipe."""
    told = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    pipe.write(len(told).to_bytes(HEADER, "big") + len(data).to_bytes(HEADER, "big") + told)
    if data:
        pipe.write(data)


def read_frame(pipe: IO[bytes], at_most: int) -> tuple[dict[str, Any], int] | None:
    """Return the next JSON object and the size of its frame, or None at the end of the pipe (also inside a frame).

    Raw bytes that came with it are under "data".

    Raises:
        ValueError: it is longer than `MAX_FRAME`, has more than `at_most` raw bytes, or is no frame.
    """
    header = _exactly(pipe, 2 * HEADER)
    if header is None:
        return None
    lengths = int.from_bytes(header[:HEADER], "big"), int.from_bytes(header[HEADER:], "big")
    if lengths[0] > MAX_FRAME or lengths[1] > at_most:
        raise ValueError(f"a frame of {lengths[0]} and {lengths[1]} bytes")
    told, data = _exactly(pipe, lengths[0]), _exactly(pipe, lengths[1])
    if told is None or data is None:
        return None
    value = json.loads(told)
    if not isinstance(value, dict):
        raise ValueError("a frame holds one JSON object")  # noqa: TRY004  the pipe is broken, not a type
    if data:
        value["data"] = data
    return value, len(told) + len(data)


def _exactly(pipe: IO[bytes], length: int) -> bytes | None:
    """Read in pieces: an unbuffered pipe gives what it has."""
    parts: list[bytes] = []
    while length > 0:
        part = pipe.read(length)
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
