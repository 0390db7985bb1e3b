"""How much of the machine one file may use while it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Gt, Le

from catena.model.errors import ParseError
from catena.model.options import check_options

LONGEST = 1e8  # seconds that clocks count to, three years
MOST = 2**62  # of anything: systems and files count in 64 bits
PAGE_BYTES = 50_000  # of a text file or a web page: they take about as long to read as one page of a PDF


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one file may cost to read; past them it, or a page of it, ends in a named state instead of going on.

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

    def __post_init__(self) -> None:
        check_options(self)

    def of_pages(self, pages: int) -> float:
        """Return the seconds that a file of so many pages may take."""
        return self.seconds + self.seconds_per_page * pages

    def of_text(self, size: int) -> float:
        """Return the seconds that a text file or a web page of so many bytes may take."""
        return self.of_pages(-(-size // PAGE_BYTES))
