"""Walk the operators of a PDF page and give its text as runs with exact positions.

pypdf's own extraction merges show operators into lines before a visitor sees them, so that a column or a
table cell has no left edge any more. Here each operator is placed by itself; pypdf reads the file, decodes
the streams and the fonts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import hypot
from typing import Any, NamedTuple, TypeAlias

from pypdf.generic import ContentStream, DictionaryObject, IndirectObject, StreamObject
from pypdf.generic._font import Font

from catena.parsing.pages import IDENTITY, Matrix, multiply, placed
from catena.parsing.protocol import Unreadable
from catena.parsing.runs import EVERYWHERE, WHITE, Gathered, PageBox, Run, Style, hidden_by, readable_text, style_of

MAX_FORM_DEPTH = 20  # forms inside forms; real files use two or three
MAX_FORMS = 5_000  # drawn forms a page
MAX_CHARACTERS = 2_000_000  # a page; the fullest real ones have some 20,000
MAX_STATES = 1_000  # saved graphics states, nested

_PAINTS = frozenset({b"f", b"F", b"f*", b"S", b"s", b"B", b"B*", b"b", b"b*", b"sh", b"INLINE IMAGE"})
_OPERATORS = frozenset(
    b"b B b* B* BDC BI BMC BT BX c cm CS cs d d0 d1 Do DP EI EMC ET EX f F f* G g gs h i ID j J K k l m M MP n q Q re"
    b" RG rg ri s S SC sc SCN scn sh T* Tc Td TD Tf Tj TJ TL Tm Tr Ts Tw Tz v w W W* y ' \"".split()
) | {b"INLINE IMAGE"}  # ISO 32000-1, annex A, and what pypdf makes of BI
_SILENT = re.compile(rb"(?:[ \t\r\n\f]|%[^\r\n]*+)*+")  # white space and comments


Piece: TypeAlias = tuple[str, float, int, bool]
"""Text, its width in ems, the number of its glyphs, and whether it is space only."""

# codes of WinAnsiEncoding that have no character of their own: each shows a bullet (ISO 32000-1, table D.2,
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
        """True where its glyphs have characters; drawn-only fonts (Type 3 without names) do not."""
        return self.font is not None and self.font.interpretable

    @property
    def spaced_by_tw(self) -> bool:
        """True where word spacing acts: on one-byte codes only (ISO 32000-1, 9.3.3)."""
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
    matrix = entry(resource, "/FontMatrix")
    if font.sub_type == "Type3" and isinstance(matrix, list) and matrix and isinstance(matrix[0], (int, float)):
        unit = abs(float(matrix[0]))
    encoding = entry(resource, "/Encoding")
    base = entry(encoding, "/BaseEncoding") if isinstance(encoding, DictionaryObject) else encoding
    bullets = _WIN_ANSI_BULLETS if base == "/WinAnsiEncoding" else frozenset[str]()
    return GlyphFont(font, style_of(font.name, flags, weight), unit, bullets)


class TextState(NamedTuple):
    """The part of the graphics state, saved by `q` and restored by `Q`, on which text depends."""

    ctm: Matrix
    font: GlyphFont
    size: float = 0.0
    char_space: float = 0.0
    word_space: float = 0.0
    scale: float = 1.0
    leading: float = 0.0
    rise: float = 0.0
    mode: float = 0  # of text rendering
    space: str = "g"  # the operator that sets colours of the kind that `sc` sets now; "" for one that is not known
    white: bool = False  # what is filled now
    alpha: float = 1.0  # of filling


@dataclass(slots=True)
class PageText:
    """The runs and marks that the operators of one page gave so far."""

    runs: list[Run] = field(default_factory=list)
    painted: bool = False  # something other than text is drawn
    unread: int = 0  # bytes that are shown in fonts that are not there
    filled: list[PageBox] = field(default_factory=list)  # where something not white is painted
    meaningless: bool = False  # its content stream holds something, and none of it is an operator
    characters: int = 0
    forms: int = 0


class FontCache:
    """Fonts by their object number: a font shared by all pages is read once a file."""

    def __init__(self) -> None:
        self._fonts: dict[tuple[int, int], GlyphFont] = {}

    def get(self, reference: Any) -> GlyphFont:
        """Return the font that a resource entry points to."""
        if not isinstance(reference, IndirectObject):
            return glyph_font(reference)
        key = (reference.idnum, reference.generation)
        if key not in self._fonts:
            self._fonts[key] = glyph_font(reference.get_object())
        return self._fonts[key]


def page_text(page: Any, base: Matrix, fonts: FontCache) -> PageText:
    """Return the runs of a page in the order of its content stream.

    Args:
        page: a pypdf page.
        base: from PDF user space to points from the top left corner of the page as shown.
        fonts: shared by the pages of one file.
    """
    found = PageText()
    contents = entry(page, "/Contents")
    if contents is not None:
        _Interpreter(found, fonts, page.pdf, base).walk(contents, dictionary(entry(page, "/Resources")), depth=0)
    return found


def raw_entry(node: DictionaryObject, key: str) -> Any:
    """Return an entry as it is written, often a reference, or None."""
    return node.raw_get(key) if key in node else None


def entry(node: DictionaryObject, key: str) -> Any:
    """Return an entry with its reference followed (`get` does not), or None."""
    return node[key] if key in node else None  # noqa: SIM401


def dictionary(value: Any) -> DictionaryObject:
    """Return a value that is a dictionary, or an empty one."""
    return value if isinstance(value, DictionaryObject) else DictionaryObject()


def _numbers(operands: list[Any], count: int) -> list[float] | None:
    """Return the last `count` operands as numbers, or None when they are not."""
    try:
        values = [float(value) for value in operands[-count:]]
    except (TypeError, ValueError):
        return None
    return values if len(values) == count else None


class _Interpreter:
    """The text operators of ISO 32000-1, 9.4, over one content stream and the forms it draws."""

    def __init__(self, found: PageText, fonts: FontCache, pdf: Any, base: Matrix) -> None:
        self.found, self.fonts, self.pdf = found, fonts, pdf
        self.state = TextState(base, GlyphFont())
        self.path: list[tuple[float, float]] = []  # points of the path that is being made, in user space
        self.line: Matrix = IDENTITY
        self.text: Matrix = IDENTITY

    def walk(self, stream: Any, resources: DictionaryObject, depth: int) -> None:
        saved: list[TextState] = []
        content = ContentStream(stream, self.pdf, "bytes")
        data = content.get_data()
        operations = content.operations  # which drop the data
        if depth == 0 and not any(operator in _OPERATORS for _, operator in operations):
            self.found.meaningless = bool(operations) or not _SILENT.fullmatch(data)
        for operands, operator in operations:
            if operator == b"q":
                if len(saved) >= MAX_STATES:
                    raise Unreadable("too-deep", f"more than {MAX_STATES} nested graphics states")
                saved.append(self.state)
            elif operator == b"Q":
                self.state = saved.pop() if saved else self.state
            elif (named := _NAMING.get(operator)) is not None:
                named(self, operands, resources, depth)
            elif (numeric := _NUMERIC.get(operator)) is not None:
                if (numbers := _numbers(operands, numeric[0])) is not None:
                    numeric[1](self, *numbers)
            elif (handle := _HANDLERS.get(operator)) is not None:
                handle(self, operands)

    def _set(self, **changes: Any) -> None:
        self.state = self.state._replace(**changes)

    def set_font(self, operands: list[Any], resources: DictionaryObject, _: int) -> None:
        if len(operands) < 2:
            return
        entries = dictionary(entry(resources, "/Font"))
        size = _numbers(operands, 1)
        name = operands[-2]
        font = self.fonts.get(entries.raw_get(name)) if name in entries else GlyphFont()
        self._set(font=font, size=size[0] if size else self.state.size)

    def draw(self, operands: list[Any], resources: DictionaryObject, depth: int) -> None:
        forms = dictionary(entry(resources, "/XObject"))
        form = forms[operands[-1]] if operands and operands[-1] in forms else None
        if not isinstance(form, StreamObject):
            return
        if entry(form, "/Subtype") != "/Form":
            self.paint([], b"INLINE IMAGE")
            return
        self.found.forms += 1
        if depth >= MAX_FORM_DEPTH:
            raise Unreadable("too-deep", f"more than {MAX_FORM_DEPTH} forms inside each other")
        if self.found.forms > MAX_FORMS:
            raise Unreadable("bomb", f"more than {MAX_FORMS} forms on one page")
        placed = entry(form, "/Matrix")
        matrix = _numbers(list(placed), 6) if isinstance(placed, list) else None
        outside, line, text = self.state, self.line, self.text
        if matrix:
            a, b, c, d, e, f = matrix
            self._set(ctm=multiply((a, b, c, d, e, f), outside.ctm))
        self.walk(form, dictionary(entry(form, "/Resources")) or resources, depth + 1)
        self.state, self.line, self.text = outside, line, text

    def set_space(self, operands: list[Any], resources: DictionaryObject, _: int) -> None:
        self._set(space=_kind_of_space(operands, resources), white=False)

    def set_state(self, operands: list[Any], resources: DictionaryObject, _: int) -> None:
        states = dictionary(entry(resources, "/ExtGState"))
        state = dictionary(entry(states, operands[-1])) if operands and isinstance(operands[-1], str) else {}
        if isinstance(alpha := entry(dictionary(state), "/ca"), (int, float)):
            self._set(alpha=float(alpha))

    def paint(self, _: list[Any], operator: bytes) -> None:
        """Note where something is painted that is not white; what is only drawn as lines leaves the paper white."""
        self.found.painted = True
        points, self.path = self.path, []
        if operator == b"INLINE IMAGE":
            points = [(0.0, 0.0), (1.0, 1.0)]
        elif operator == b"sh":
            self.found.filled.append(EVERYWHERE)  # as far as a clip lets it
        if not points or operator in _LINES_ONLY or (operator != b"INLINE IMAGE" and self.state.white):
            return
        xs, ys = zip(*points, strict=True)
        self.found.filled.append(placed(self.state.ctm, min(xs), min(ys), max(xs), max(ys)))

    def end_path(self, _: list[Any]) -> None:
        self.path = []

    def add_rectangle(self, x: float, y: float, width: float, height: float) -> None:
        self.path += [(x, y), (x + width, y + height)]

    def colour(self, operands: list[Any], space: str | None = None) -> None:
        space = self.state.space if space is None else space
        parts = (_numbers(operands, _COMPONENTS[space]) if space else None) or [0.5]
        white = max(parts) <= 1 - WHITE if space == "k" else min(parts) >= WHITE
        if white != self.state.white or space != self.state.space:
            self._set(white=white, space=space)

    def begin(self, _: list[Any]) -> None:
        self.line = self.text = IDENTITY

    def move(self, x: float, y: float) -> None:
        self.place(*multiply((1.0, 0.0, 0.0, 1.0, x, y), self.line))

    def move_and_lead(self, x: float, y: float) -> None:
        self._set(leading=-y)
        self.move(x, y)

    def next_line(self, _: list[Any]) -> None:
        self.move(0.0, -self.state.leading)

    def place(self, *matrix: *Matrix) -> None:
        self.line = self.text = matrix

    def show(self, operands: list[Any]) -> None:
        if operands and isinstance(operands[-1], (bytes, str)):
            self._show([operands[-1]])

    def show_array(self, operands: list[Any]) -> None:
        if operands and isinstance(operands[-1], list):
            self._show(operands[-1])

    def show_on_next_line(self, operands: list[Any]) -> None:
        self.next_line([])
        self.show(operands)

    def show_spaced(self, operands: list[Any]) -> None:
        if len(operands) >= 3 and (spaces := _numbers(operands[-3:-1], 2)) is not None:
            self._set(word_space=spaces[0], char_space=spaces[1])
            self.show_on_next_line(operands)

    def _show(self, parts: list[Any]) -> None:
        """Place the glyphs of one show operator, and cut its text where a gap is as wide as a cell's."""
        state = self.state
        if state.font.font is None:
            self.found.unread += sum(len(part.strip()) for part in parts if isinstance(part, (bytes, str)))
            return
        if not state.font.readable or not state.size:
            self.found.painted = self.found.painted or not state.font.readable
            return
        place = multiply(self.text, state.ctm)
        gathered = Gathered(em=abs(state.size * state.scale))
        pen, space = 0.0, False  # in text space, along the baseline
        for part in parts:
            if isinstance(part, (int, float)):
                pen -= float(part) / 1000.0 * state.size * state.scale
            elif isinstance(part, (bytes, str)):
                for text, width, count, is_space in state.font.pieces(part):
                    start, pen = pen, pen + (width * state.size + count * state.char_space) * state.scale
                    if is_space:
                        pen += state.word_space * state.scale * state.font.spaced_by_tw
                    else:  # letter spacing after the last glyph is no gap
                        end = pen - state.char_space * state.scale
                        self._emit(gathered.add(text, start, end, spaced=space), place)
                    space = is_space
        self._emit(gathered.take(), place)
        self.text = multiply((1.0, 0.0, 0.0, 1.0, pen, 0.0), self.text)

    def _emit(self, gathered: tuple[str, float, float] | None, place: Matrix) -> None:
        if gathered is None:
            return
        text, start, end = gathered
        self.found.characters += len(text)
        if self.found.characters > MAX_CHARACTERS:
            raise Unreadable("bomb", f"more than {MAX_CHARACTERS} characters on one page")
        a, b, c, d, e, f = place
        state = self.state
        x0, x1 = a * start + c * state.rise + e, a * end + c * state.rise + e
        y = b * start + d * state.rise + f
        turned = a <= 0 or abs(b) > 0.1 * abs(a)
        size = round(abs(state.size) * hypot(c, d), 2)
        if text.strip() and size < 10_000:
            hidden = hidden_by(state.mode, state.white, state.alpha)
            self.found.runs.append(Run(text, min(x0, x1), max(x0, x1), y, size, state.font.style, turned, hidden))


def _kind_of_space(operands: list[Any], resources: DictionaryObject) -> str:
    """Return the operator that sets colours of the space that `cs` names, as far as white can be told in it."""
    name = operands[-1] if operands else ""
    named = dictionary(entry(resources, "/ColorSpace"))
    space: Any = named[name] if name in named else name  # noqa: SIM401  get keeps references
    family = space[0] if isinstance(space, list) and space else space
    if family == "/ICCBased" and len(space) > 1:
        profile = space[1].get_object()
        parts = entry(profile, "/N") if isinstance(profile, DictionaryObject) else None
        return {1: "g", 3: "rg", 4: "k"}.get(parts if isinstance(parts, int) else 0, "")
    return _SPACES.get(str(family), "")


_COMPONENTS = {"g": 1, "rg": 3, "k": 4}
_SPACES = {"/DeviceGray": "g", "/CalGray": "g", "/DeviceRGB": "rg", "/CalRGB": "rg", "/DeviceCMYK": "k"}
_LINES_ONLY = frozenset({b"S", b"s"})

_NUMERIC: Mapping[bytes, tuple[int, Callable[..., None]]] = {  # of which only the last numbers count: how many
    b"cm": (6, lambda self, *m: self._set(ctm=multiply(m, self.state.ctm))),
    b"Td": (2, _Interpreter.move), b"TD": (2, _Interpreter.move_and_lead), b"Tm": (6, _Interpreter.place),
    b"Tc": (1, lambda self, width: self._set(char_space=width)),
    b"Tw": (1, lambda self, width: self._set(word_space=width)),
    b"Tz": (1, lambda self, percent: self._set(scale=percent * 0.01)),
    b"TL": (1, lambda self, height: self._set(leading=height)),
    b"Ts": (1, lambda self, height: self._set(rise=height)),
    b"Tr": (1, lambda self, mode: self._set(mode=mode)),
    **dict.fromkeys((b"m", b"l", b"c", b"v", b"y"), (2, lambda self, x, y: self.path.append((x, y)))),
    b"re": (4, _Interpreter.add_rectangle),
}  # fmt: skip
_NAMING: Mapping[bytes, Callable[..., None]] = {  # that name a resource
    b"Tf": _Interpreter.set_font, b"Do": _Interpreter.draw, b"cs": _Interpreter.set_space,
    b"gs": _Interpreter.set_state,
}  # fmt: skip
_HANDLERS: Mapping[bytes, Callable[..., None]] = {
    **{name: partial(_Interpreter.paint, operator=name) for name in _PAINTS}, b"BT": _Interpreter.begin,
    b"T*": _Interpreter.next_line, b"Tj": _Interpreter.show, b"TJ": _Interpreter.show_array,
    b"'": _Interpreter.show_on_next_line, b'"': _Interpreter.show_spaced, b"n": _Interpreter.end_path,
    b"sc": _Interpreter.colour, b"scn": _Interpreter.colour, b"g": partial(_Interpreter.colour, space="g"),
    b"rg": partial(_Interpreter.colour, space="rg"), b"k": partial(_Interpreter.colour, space="k"),
}  # fmt: skip
