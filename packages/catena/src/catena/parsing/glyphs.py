"""Fonts of a PDF: from the bytes of a show operator to characters and widths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pypdf.generic import DictionaryObject
from pypdf.generic._font import Font

from catena.parsing.runs import Style, readable_text, style_of

Piece: TypeAlias = tuple[str, float, int, bool]
"""Text, its width in ems, the number of its glyphs, and whether it is space only."""

# codes of WinAnsiEncoding that stand for no character of their own: each shows a bullet (ISO 32000-1, table D.2,
# note 3), and reportlab writes its bullets so; pypdf takes them for control codes
_WIN_ANSI_BULLETS = frozenset("\x7f\x81\x8d\x8f\x90\x9d")

MAX_MEMO = 20_000  # distinct strings kept per font; TeX shows the same short ones again and again


@dataclass(slots=True, eq=False)
class GlyphFont:
    """A font ready for use; without arguments, the font of a page that never chose one."""

    font: Font | None = None
    style: Style = field(default_factory=Style)
    unit: float = 0.001  # one glyph unit in ems; Type 3 fonts have their own
    bullets: frozenset[str] = frozenset()  # characters of its encoding that are shown as bullets
    _glyphs: dict[str, tuple[str, float]] = field(default_factory=dict)
    _memo: dict[bytes, tuple[Piece, ...]] = field(default_factory=dict)

    @property
    def readable(self) -> bool:
        """Whether its glyphs stand for characters; drawn-only fonts (Type 3 without names) do not."""
        return self.font is not None and self.font.interpretable

    @property
    def spaced_by_tw(self) -> bool:
        """Whether word spacing acts: on one-byte codes only (ISO 32000-1, 9.3.3)."""
        return self.font is not None and not isinstance(self.font.encoding, str)

    def pieces(self, shown: bytes | str) -> tuple[Piece, ...]:
        """Cut what is shown into words and single spaces."""
        data = shown if isinstance(shown, bytes) else shown.encode("latin-1", "replace")
        known = self._memo.get(data)
        if known is None:
            if len(self._memo) >= MAX_MEMO:
                self._memo.clear()
            known = self._memo[data] = tuple(self._cut(data))
        return known

    def _cut(self, data: bytes) -> Iterator[Piece]:
        word: list[str] = []
        width, count = 0.0, 0
        for code in self._codes(data):
            text, advance = self._glyph(code)
            if text and not text.isspace():
                word.append(text)
                width, count = width + advance, count + 1
                continue
            if word:
                yield "".join(word), width, count, False
                word, width, count = [], 0.0, 0
            if text:
                yield " ", advance, 1, True
        if word:
            yield "".join(word), width, count, False

    def _codes(self, data: bytes) -> str:
        """Return one character per glyph code."""
        if self.font is not None and isinstance(self.font.encoding, str):
            try:
                return data.decode(self.font.encoding, "surrogatepass")
            except (UnicodeDecodeError, LookupError):  # an odd byte at the end, or a codec Python does not have
                return data.decode("utf-16-be", "replace")
        return data.decode("latin-1")

    def _glyph(self, code: str) -> tuple[str, float]:
        known = self._glyphs.get(code)
        if known is None:
            known = self._glyphs[code] = self._look_up(code)
        return known

    def _look_up(self, code: str) -> tuple[str, float]:
        font = self.font
        if font is None:
            return "", 0.0
        character = font.encoding.get(ord(code), code) if isinstance(font.encoding, dict) else code
        default = "\u2022" if character in self.bullets else character
        text = str(font.character_map.get(character, default))
        width = font.character_widths.get(code, font.character_widths.get("default", 500))
        return readable_text(text), float(width) * self.unit


def glyph_font(resource: Any) -> GlyphFont:
    """Prepare the font that a page's resources name."""
    resource = resource.get_object() if resource is not None else None
    if not isinstance(resource, DictionaryObject):
        return GlyphFont()
    font = Font.from_font_resource(resource)
    descriptor = font.font_descriptor
    flags = int(descriptor.flags) if isinstance(descriptor.flags, (int, float)) else 0
    weight = float(descriptor.weight) if isinstance(descriptor.weight, (int, float)) else 0.0
    unit = 0.001
    matrix = resource["/FontMatrix"] if "/FontMatrix" in resource else None  # noqa: SIM401  get keeps references
    if font.sub_type == "Type3" and isinstance(matrix, list) and matrix and isinstance(matrix[0], (int, float)):
        unit = abs(float(matrix[0]))
    bullets = _WIN_ANSI_BULLETS if _base_encoding(resource) == "/WinAnsiEncoding" else frozenset[str]()
    return GlyphFont(font, style_of(font.name, flags, weight), unit, bullets)


def _base_encoding(resource: DictionaryObject) -> Any:
    """Return the name of the encoding that a simple font has or changes, or None."""
    encoding = resource["/Encoding"] if "/Encoding" in resource else None  # noqa: SIM401
    if isinstance(encoding, DictionaryObject):
        return encoding["/BaseEncoding"] if "/BaseEncoding" in encoding else None  # noqa: SIM401
    return encoding
