"""Documents for a server and for the embedded library: boards that have names, and texts to be read back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from entry_cases import whole_section
from hypothesis import strategies as st

from catena.model import Chunk, Document, Entry, View, ViewVectors

ROWS = "| Part | Value |\n|---|---|\n"
BOARDS = {  # title -> the rows of its table, and its critical terms
    "Pump HX-200": ("| MCU | ESP32 |\n", ("hx 200", "esp32", "stm32f407ve", "stm32f407ve")),
    "Pump HX-210": ("| MCU | ESP32 |\n", ("hx 210", "esp32")),
    "ESP32 board": ("| RAM | 4 |\n", ("esp32", *["x 9"] * 6)),
    "LoPy4": ("| Pump HX-210 | as a label |\n", ("lopy4", "pump hx 210")),
    "Annual report 2030": ("| Pump | HX-200 |\n", ("hx 200",)),
    "Annual report 2029": ("| a | b |\n", ()),
    "scan_001": ("| a | b |\n", ("c++", "a*b", "tf 9")),
    "\ud800 Ünï 7漢字": ("| a | b |\n", ("漢字",)),
    "": ("| a | b |\n", ()),
    "GY-1": ("| Type | GY-1 |\n", ("gy 1",)),
    "ESP32 board 7": ("| a | b |\n", ()),
}
WORDS = [
    *BOARDS, "ESP32 board 8", "HX-2", "HX-20", "hx200", "the", "LoPy11", "report 2031", "F407VE", "9", "2", "QX-77",
    "7漢", "C++", "a*b", ",",
]  # fmt: skip
name_questions = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)


def boards() -> list[tuple[Entry, ViewVectors]]:
    return [board(f"d{place}", title, rows, terms) for place, (title, (rows, terms)) in enumerate(BOARDS.items())]


def board(key: str, title: str, rows: str, terms: Sequence[str]) -> tuple[Entry, ViewVectors]:
    text = ROWS + rows
    chunk = Chunk(id=f"{key}-c", document_id=key, position=0, start=0, end=len(text), text=text, kind="table")
    views = (View(chunk_id=chunk.id, kind="headed", text=text),)
    document = Document(id=key, text=text, title=title)
    entry = Entry(
        document=document, sections=(whole_section(key, text),), chunks=(chunk,), views=views, terms=(tuple(terms),)
    )
    return entry, ViewVectors.default(np.array([[1, 0]], np.float32))


TEXTS = {"long": "aé\ud800😀漢\uffff z" * 4, "whole": "x" * 14, "short": "ab", "other": "abcdefgh"}


def text_entry(key: str, text: str) -> tuple[Entry, ViewVectors]:
    """Return an entry whose chunks are of two characters, with all that a chunk may say."""
    made = tuple(
        Chunk(
            id=f"{key}-{start}", document_id=key, position=start // 2, start=start, end=min(start + 2, len(text)),
            text=text[start : start + 2], path=("Top", "\ud800"), pages=(1, 2) if start % 4 else None,
            lines=(start + 1, start + 1), metadata={"a": 1.5, "b": "\udfff", "c": True},
        )
        for start in range(0, len(text), 2)
    )  # fmt: skip
    views = tuple(View(chunk_id=chunk.id, kind="headed", text=chunk.text) for chunk in made)
    document = Document(id=key, text=text)
    entry = Entry(document=document, sections=(whole_section(key, text),), chunks=made, views=views)
    return entry, ViewVectors.default(np.tile(np.array([[0, 1]], np.float32), (len(made), 1)))
