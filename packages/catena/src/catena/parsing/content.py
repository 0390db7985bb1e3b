"""Walk the operators of a PDF page and give its text as runs with exact positions.

pypdf's own extraction merges show operators into lines before a visitor sees them, so that a column or a
table cell has no left edge any more. Here each operator is placed by itself; pypdf reads the file, decodes
the streams and the fonts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import hypot
from typing import Any

from pypdf.generic import ContentStream, DictionaryObject, IndirectObject, StreamObject

from catena.parsing.failures import Unreadable
from catena.parsing.frames import IDENTITY, Matrix, multiply
from catena.parsing.glyphs import GlyphFont, glyph_font
from catena.parsing.hidden import EVERYWHERE, WHITE, Box, hidden_by
from catena.parsing.runs import Gathered, Run

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


@dataclass(frozen=True, slots=True)
class TextState:
    """What `q` saves and `Q` restores, as far as text depends on it."""

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
    """What the operators of one page gave so far."""

    runs: list[Run] = field(default_factory=list)
    painted: bool = False  # something other than text is drawn
    unread: int = 0  # bytes that are shown in fonts that are not there
    filled: list[Box] = field(default_factory=list)  # where something not white is painted
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
    contents = _entry(page, "/Contents")
    if contents is not None:
        _Interpreter(found, fonts, page.pdf, base).walk(contents, _dictionary(_entry(page, "/Resources")), depth=0)
    return found


def _entry(node: DictionaryObject, key: str) -> Any:
    """Return an entry with its reference followed (`get` does not), or None."""
    return node[key] if key in node else None  # noqa: SIM401


def _dictionary(value: Any) -> DictionaryObject:
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
            elif operator in _PAINTS:
                self._paint(operator)
            else:
                handle = _HANDLERS.get(operator)
                if handle is not None:
                    handle(self, operands)

    def _set(self, **changes: Any) -> None:
        state = self.state
        values = {name: getattr(state, name) for name in _STATE_FIELDS}
        self.state = TextState(**{**values, **changes})

    def set_font(self, operands: list[Any], resources: DictionaryObject, _: int) -> None:
        if len(operands) < 2:
            return
        entries = _dictionary(_entry(resources, "/Font"))
        size = _numbers(operands, 1)
        name = operands[-2]
        font = self.fonts.get(entries.raw_get(name)) if name in entries else GlyphFont()
        self._set(font=font, size=size[0] if size else self.state.size)

    def draw(self, operands: list[Any], resources: DictionaryObject, depth: int) -> None:
        forms = _dictionary(_entry(resources, "/XObject"))
        form = forms[operands[-1]] if operands and operands[-1] in forms else None
        if not isinstance(form, StreamObject):
            return
        if _entry(form, "/Subtype") != "/Form":
            self._paint(b"INLINE IMAGE")
            return
        self.found.forms += 1
        if depth >= MAX_FORM_DEPTH:
            raise Unreadable("too-deep", f"more than {MAX_FORM_DEPTH} forms inside each other")
        if self.found.forms > MAX_FORMS:
            raise Unreadable("bomb", f"more than {MAX_FORMS} forms on one page")
        placed = _entry(form, "/Matrix")
        matrix = _numbers(list(placed), 6) if isinstance(placed, list) else None
        outside, line, text = self.state, self.line, self.text
        if matrix:
            a, b, c, d, e, f = matrix
            self._set(ctm=multiply((a, b, c, d, e, f), outside.ctm))
        inner = _dictionary(_entry(form, "/Resources")) or resources
        self.walk(form, inner, depth + 1)
        self.state, self.line, self.text = outside, line, text

    def set_space(self, operands: list[Any], resources: DictionaryObject, _: int) -> None:
        self._set(space=_kind_of_space(operands, resources), white=False)

    def set_state(self, operands: list[Any], resources: DictionaryObject, _: int) -> None:
        states = _dictionary(_entry(resources, "/ExtGState"))
        state = _dictionary(_entry(states, operands[-1])) if operands and isinstance(operands[-1], str) else {}
        if isinstance(alpha := _entry(_dictionary(state), "/ca"), (int, float)):
            self._set(alpha=float(alpha))

    def _paint(self, operator: bytes) -> None:
        """Note where something is painted that is not white; what is only drawn as lines leaves the paper white."""
        self.found.painted = True
        points, self.path = self.path, []
        if operator == b"INLINE IMAGE":
            points = [(0.0, 0.0), (1.0, 1.0)]
        elif operator == b"sh":
            self.found.filled.append(EVERYWHERE)  # as far as a clip lets it
        if not points or operator in _LINES_ONLY or (operator != b"INLINE IMAGE" and self.state.white):
            return
        a, b, c, d, e, f = self.state.ctm
        xs, ys = [x for x, _ in points], [y for _, y in points]
        corners = [(x, y) for x in (min(xs), max(xs)) for y in (min(ys), max(ys))]
        across, down = [a * x + c * y + e for x, y in corners], [b * x + d * y + f for x, y in corners]
        self.found.filled.append((min(across), min(down), max(across), max(down)))

    def end_path(self, _: list[Any]) -> None:
        self.path = []

    def add_point(self, operands: list[Any]) -> None:
        if (p := _numbers(operands, 2)) is not None:
            self.path.append((p[0], p[1]))

    def add_rectangle(self, operands: list[Any]) -> None:
        if (r := _numbers(operands, 4)) is not None:
            self.path += [(r[0], r[1]), (r[0] + r[2], r[1] + r[3])]

    def grey(self, operands: list[Any]) -> None:
        self._colour("g", operands)

    def red_green_blue(self, operands: list[Any]) -> None:
        self._colour("rg", operands)

    def inks(self, operands: list[Any]) -> None:
        self._colour("k", operands)

    def colour(self, operands: list[Any]) -> None:
        self._colour(self.state.space, operands)

    def _colour(self, space: str, operands: list[Any]) -> None:
        parts = (_numbers(operands, _COMPONENTS[space]) if space else None) or [0.5]
        white = max(parts) <= 1 - WHITE if space == "k" else min(parts) >= WHITE
        if white != self.state.white or space != self.state.space:
            self._set(white=white, space=space)

    def concatenate(self, operands: list[Any]) -> None:
        if (m := _numbers(operands, 6)) is not None:
            self._set(ctm=multiply((m[0], m[1], m[2], m[3], m[4], m[5]), self.state.ctm))

    def begin(self, _: list[Any]) -> None:
        self.line = self.text = IDENTITY

    def move(self, operands: list[Any]) -> None:
        if (t := _numbers(operands, 2)) is not None:
            self.line = self.text = multiply((1.0, 0.0, 0.0, 1.0, t[0], t[1]), self.line)

    def move_and_lead(self, operands: list[Any]) -> None:
        if (t := _numbers(operands, 2)) is not None:
            self._set(leading=-t[1])
            self.move(operands)

    def next_line(self, _: list[Any]) -> None:
        self.move([0.0, -self.state.leading])

    def place(self, operands: list[Any]) -> None:
        if (m := _numbers(operands, 6)) is not None:
            self.line = self.text = (m[0], m[1], m[2], m[3], m[4], m[5])

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
                        self._emit(
                            gathered.add(text, start, pen - state.char_space * state.scale, spaced=space), place
                        )
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
    named = _dictionary(_entry(resources, "/ColorSpace"))
    space: Any = named[name] if name in named else name  # noqa: SIM401  get keeps references
    family = space[0] if isinstance(space, list) and space else space
    if family == "/ICCBased" and len(space) > 1:
        profile = space[1].get_object()
        parts = _entry(profile, "/N") if isinstance(profile, DictionaryObject) else None
        return {1: "g", 3: "rg", 4: "k"}.get(parts if isinstance(parts, int) else 0, "")
    return _SPACES.get(str(family), "")


_COMPONENTS = {"g": 1, "rg": 3, "k": 4}
_SPACES = {
    "/DeviceGray": "g", "/CalGray": "g", "/DeviceRGB": "rg", "/CalRGB": "rg", "/DeviceCMYK": "k",
}  # fmt: skip
_LINES_ONLY = frozenset({b"S", b"s"})
_STATE_FIELDS = (
    "ctm", "font", "size", "char_space", "word_space", "scale", "leading", "rise", "mode", "space", "white", "alpha",
)  # fmt: skip


def _setter(name: str, factor: float = 1.0) -> Any:
    def set_number(self: _Interpreter, operands: list[Any]) -> None:
        if (value := _numbers(operands, 1)) is not None:
            self._set(**{name: value[0] * factor})

    return set_number


_NAMING: Mapping[bytes, Any] = {  # operators that name a resource
    b"Tf": _Interpreter.set_font,
    b"Do": _Interpreter.draw,
    b"cs": _Interpreter.set_space,
    b"gs": _Interpreter.set_state,
}
_HANDLERS: Mapping[bytes, Any] = {
    b"cm": _Interpreter.concatenate,
    b"BT": _Interpreter.begin,
    b"Td": _Interpreter.move,
    b"TD": _Interpreter.move_and_lead,
    b"T*": _Interpreter.next_line,
    b"Tm": _Interpreter.place,
    b"Tj": _Interpreter.show,
    b"TJ": _Interpreter.show_array,
    b"'": _Interpreter.show_on_next_line,
    b'"': _Interpreter.show_spaced,
    b"Tc": _setter("char_space"),
    b"Tw": _setter("word_space"),
    b"Tz": _setter("scale", 0.01),
    b"TL": _setter("leading"),
    b"Ts": _setter("rise"),
    b"Tr": _setter("mode"),
    b"m": _Interpreter.add_point,
    b"l": _Interpreter.add_point,
    b"c": _Interpreter.add_point,
    b"v": _Interpreter.add_point,
    b"y": _Interpreter.add_point,
    b"re": _Interpreter.add_rectangle,
    b"n": _Interpreter.end_path,
    b"g": _Interpreter.grey,
    b"rg": _Interpreter.red_green_blue,
    b"k": _Interpreter.inks,
    b"sc": _Interpreter.colour,
    b"scn": _Interpreter.colour,
}
