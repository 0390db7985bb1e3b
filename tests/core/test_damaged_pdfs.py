"""Damaged PDFs: what their damage costs is told, and what it leaves is read, with both engines."""

from __future__ import annotations

import random
import re
import zlib
from collections import Counter
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import get_args

import pytest
from hostile import FONT, RESOURCES, assemble, changed, forms, one_page, show, sound, stream, with_pages
from pypdf import PdfReader

from catena.model import Parsed, ParseError
from catena.parsing import Engine, parse_bytes
from catena.parsing.pdf_damage import Damage, StreamCheck, found_objects, rebuilt
from catena.parsing.protocol import Unreadable

ENGINES = get_args(Engine)
NAMES = ("halden-field-reliability-report-2025", "halden-hx200-manual", "halden-hx210-manual")
BITS, SEEDS = (1, 2, 4, 8, 16), range(6)
TOLD_BELOW = 0.97  # of the text: less of it, and it must be said


@cache
def bundled(name: str) -> bytes:
    return files("catena").joinpath("data", "demo", f"{name}.pdf").read_bytes()


@cache
def whole_text(name: str, engine: Engine) -> Counter[str]:
    return Counter(parse_bytes(bundled(name), "whole.pdf", engine=engine).document.text.split())


def flipped(data: bytes, bits: int, seed: int) -> bytes:
    draw, damaged = random.Random(1_000 * seed + bits), bytearray(data)
    for _ in range(bits):
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def end_of(data: bytes, engine: Engine) -> Parsed | ParseError:
    try:
        return parse_bytes(data, "damaged.pdf", engine=engine)
    except ParseError as error:
        return error


def read(data: bytes, engine: Engine) -> Parsed:
    end = end_of(data, engine)
    assert isinstance(end, Parsed), end
    return end


def share(parsed: Parsed, whole: Counter[str]) -> float:
    """Return how many characters of the words of a text are still there."""
    left = whole & Counter(parsed.document.text.split())
    return sum(len(word) * count for word, count in left.items()) / sum(len(word) * n for word, n in whole.items())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("bits", "seed"),
    [
        pytest.param(bits, seed, marks=[] if (bits, seed) in {(1, 1), (4, 5), (16, 0)} else pytest.mark.slow)
        for bits in BITS
        for seed in SEEDS
    ],
)
def test_text_that_flipped_bits_cost_is_told(name: str, bits: int, seed: int, engine: Engine) -> None:
    end = end_of(flipped(bundled(name), bits, seed), engine)
    if isinstance(end, Parsed) and not [note for note in end.notes if note.state not in {"blank", "hidden"}]:
        assert share(end, whole_text(name, engine)) >= TOLD_BELOW


@cache
def ends_of_content(name: str) -> tuple[int, ...]:
    """Return where the content stream of each page ends; the bundled files hold nothing else behind their pages."""
    return tuple(found.end() for found in re.finditer(rb"/ASCII85Decode.*?endstream", bundled(name), re.DOTALL))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("name", "percent"),
    [
        pytest.param(name, percent, marks=[] if percent in {10, 62, 98} else pytest.mark.slow)
        for name in NAMES[:2]
        for percent in range(0, 100, 2)
    ],
)
def test_a_pdf_without_its_end_gives_each_page_that_is_whole(name: str, percent: int, engine: Engine) -> None:
    data = bundled(name)
    cut = len(data) * percent // 100
    whole = sum(end <= cut for end in ends_of_content(name))
    if not whole:
        assert isinstance(end_of(data[:cut], engine), ParseError)
        return
    end = read(data[:cut], engine)
    assert len([page for page in end.layout.pages if page.lines]) == whole
    assert (end.state == "parsed") is (whole == len(ends_of_content(name)))


def without_table(texts: list[str]) -> bytes:
    """Return pages that lie in an object stream, without the catalog, the list of pages and the table behind them."""
    contents = {10 + place: stream(show(text)) for place, text in enumerate(texts)}
    page = b"<< /Type /Page /MediaBox [0 0 595 842] /Resources << /Font << /F1 4 0 R >> >> /Contents %d 0 R >> "
    pages = [page % number for number in contents]
    places = [sum(map(len, pages[:place])) for place in range(len(pages))]
    head = b"".join(b"%d %d " % (20 + place, at) for place, at in enumerate(places))
    entries = b"/Type /ObjStm /N %d /First %d /Filter /FlateDecode" % (len(pages), len(head))
    objects = {4: FONT, **contents, 3: stream(zlib.compress(head + b"".join(pages)), entries)}
    return b"%PDF-1.7\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % item for item in objects.items())


@pytest.mark.parametrize("engine", ENGINES)
def test_pages_in_object_streams_are_found_without_any_table_up_to_where_the_file_breaks_off(engine: Engine) -> None:
    end = read(without_table(["Page one", "Page two"]), engine)
    assert end.document.text.split("\n\n") == ["Page one", "Page two"]
    assert end.state == "partial"  # how many pages there were, nobody knows
    pages = [f"Page {number}" for number in range(1, 9)]
    assert read(without_table(pages)[:-30], engine).document.text.split("\n\n")[:5] == pages[:5]


@pytest.mark.parametrize("own_pages", [False, True])
def test_a_new_table_says_where_each_object_is(own_pages: bool) -> None:
    new = rebuilt(found_objects(sound()), own_pages=own_pages)
    reader = PdfReader(BytesIO(new), strict=True)
    places = reader.xref[0]
    assert all(new[at:].startswith(b"%d 0 obj" % number) for number, at in places.items())
    assert (reader.trailer["/Size"], sorted(places)) == (max(places) + 1, [*range(1, max(places) + 1)])
    assert [page.extract_text() for page in reader.pages] == [
        page.extract_text() for page in PdfReader(BytesIO(sound())).pages
    ]


FLATE = b"/Filter /FlateDecode"
NULLS = zlib.compress(b"99 0 98 5 null null" + random.Random(0).randbytes(9_000))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "more",
    [
        pytest.param(b"<< /Type /ObjStm /N 5 /First 30 %s /Length 500 >>\nstream\n" % FLATE, id="cut"),
        pytest.param(stream(b"", b"/Type /ObjStm /N 0 /First 0"), id="empty"),
        pytest.param(stream(b"6 900", b"/Type /ObjStm /N 1 /First 5"), id="elsewhere"),
        pytest.param(stream(b"999999999 0 1", b"/Type /ObjStm /N 1 /First 12"), id="number"),
        pytest.param(stream(b"98 0 " * 70_000 + b"1", b"/Type /ObjStm /N 70000 /First 350000"), id="many"),
        pytest.param(b"null\nendobj\n98 99999 obj\nnull", id="generation"),
    ],
)
def test_what_is_wrong_with_one_object_costs_no_page_of_a_file_without_a_table(more: bytes, engine: Engine) -> None:
    body = sound()[: sound().rindex(b"xref\n0 ")]
    end = read(body + b"99 0 obj\n%s\nendobj\n" % more, engine)
    assert end.document.text == parse_bytes(sound(), "sound.pdf", engine=engine).document.text


def test_what_comes_before_the_damage_to_a_stream_of_objects_is_found() -> None:
    packed = NULLS[:6_000] + b"\xff\x00" * 500 + NULLS[7_000:]
    held = b"99 0 obj\n%s\nendobj\n" % stream(packed, b"/Type /ObjStm /N 2 /First 10 " + FLATE)
    assert {98: (2, 99, 1)}.items() <= found_objects(b"%PDF-1.7\n" + held).entries.items()


PACKED = zlib.compress(show("Text of a page"))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("content", "state"),
    [
        pytest.param(stream(PACKED, FLATE), "text", id="sound"),
        pytest.param(stream(PACKED[:-4], FLATE), "text", id="checksum-not-there"),
        pytest.param(stream(PACKED[:-4] + b"\0\0\0\0", FLATE), "failed", id="checksum-of-something-else"),
        pytest.param(stream(PACKED[:-9], FLATE), "failed", id="end-not-there"),
        pytest.param(stream(PACKED[:9] + b"\xff" + PACKED[10:], FLATE), "failed", id="changed"),
        pytest.param(stream(bytes(200)), "failed", id="zeros"),
        pytest.param(stream(b"\x81\x82 \x91 a zz " * 9), "failed", id="no-operator"),
        pytest.param(b"null", "failed", id="not-there"),
        pytest.param(stream(b""), "blank", id="nothing"),
        pytest.param(stream(b" \n% nothing\n"), "blank", id="a-comment"),
        pytest.param(stream(b"q 1 0 0 1 0 0 cm BT /F1 12 Tf (  ) Tj ET Q"), "blank", id="spaces"),
    ],
)
def test_a_page_whose_content_is_damaged_is_failed_and_not_blank(content: bytes, state: str, engine: Engine) -> None:
    end = read(assemble(with_pages([stream(show("Before")), content, stream(show("After"))])), engine)
    assert [page.state for page in end.layout.pages] == ["text", state, "text"]
    assert end.document.text.split("\n\n")[::2] == ["Before", "After"]
    assert (end.state == "partial") is (state == "failed")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_damaged_form_fails_the_pages_that_draw_it_and_no_others(engine: Engine) -> None:
    form = stream(PACKED[:-4] + b"\0\0\0\0", FLATE + b" /Type /XObject /Subtype /Form /BBox [0 0 595 842]")
    page = b"/Resources << /Font << /F1 4 0 R >> /XObject << /Fm 9 0 R >> >>"
    contents = [stream(show("Own text") + b" /Fm Do"), stream(show("Own text"))]
    end = read(assemble(with_pages(contents, page=page, more={9: form})), engine)
    assert [page.state for page in end.layout.pages] == ["failed", "text"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("entries", "missing"),
    [
        (b"/ToUnicode 90 0 R", "ToUnicode"),
        (b"/Encoding 90 0 R", "Encoding"),
        (b"/FontDescriptor 90 0 R", "FontDescriptor"),
        (b"/FontDescriptor << /Type /FontDescriptor /FontFile2 90 0 R >>", "FontFile2"),
        (b"/DescendantFonts 90 0 R", "DescendantFonts"),
        (b"/DescendantFonts [90 0 R]", "DescendantFonts"),
        (b"/DescendantFonts [<< /Type /Font /FontDescriptor 90 0 R >>]", "FontDescriptor"),
        (b"/ToUnicode null", ""),  # as if it were not written (ISO 32000-1, 7.3.7)
    ],
)
def test_a_font_or_a_part_of_it_that_is_not_there_is_told(entries: bytes, missing: str, engine: Engine) -> None:
    end = read(one_page(show("Set in a lost font"), more={4: FONT.replace(b">>", b"%s >>" % entries)}), engine)
    assert (end.state == "partial") is bool(missing)
    assert not missing or f"font F1 is damaged ({missing} is not there)" in end.notes[0].why
    end = read(one_page(show("Set in a lost font"), more={4: b"null"}), engine)
    assert (end.document.text, end.state) == ("Set in a lost font", "partial")
    assert "font F1 is not there" in end.notes[0].why


@pytest.mark.parametrize("engine", ENGINES)
def test_what_an_engine_refuses_the_other_reads_and_a_wrong_table_or_list_costs_no_page(engine: Engine) -> None:
    end = read(one_page(show("Before an odd word") + b" ) " + show("After it")), "pypdf")
    assert ("Before an odd word" in end.document.text, end.state) == (True, "partial")
    assert "read by pypdfium2" in end.notes[0].why
    end = read(sound().replace(b"00000 n ", b"00001 n "), engine)
    assert (len(end.document.page_starts), end.state) == (5, "parsed")
    end = read(changed(2, b"<< /Type /Pages /Kids [5 0 R 4 0 R 9 0 R] /Count 3 >>", pages=3), engine)
    assert end.document.text.count("sound text") == 3
    assert (end.state, "list of its pages" in end.notes[0].why) == ("partial", True)


def test_more_forms_than_a_page_may_draw_are_refused_and_three_faults_of_a_page_are_told(monkeypatch):
    monkeypatch.setattr("catena.parsing.pdf_damage.MAX_FORMS", 2)
    assert StreamCheck().page(PdfReader(BytesIO(forms(2, 1))).pages[0]) == Damage()
    with pytest.raises(Unreadable, match="more than 2 forms on one page"):
        StreamCheck().page(PdfReader(BytesIO(forms(3, 1))).pages[0])
    lost = assemble(with_pages([stream(b"")]) | {6: b"[90 0 R 91 0 R 92 0 R 93 0 R]"})
    told = "; ".join(f"content stream {number} is not there" for number in (90, 91, 92))
    assert StreamCheck().page(PdfReader(BytesIO(lost)).pages[0]) == Damage(streams=told)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_page_whose_box_says_nothing_is_a_letter_page(engine: Engine) -> None:
    lost = b"<< /Type /Page /Parent 2 0 R /MediaBox [/a (b) null] %s /Contents 6 0 R >>" % RESOURCES
    (page,) = read(changed(5, lost), engine).layout.pages
    assert (page.width, page.height, page.lines[0].x0) == (612.0, 792.0, 72.0)
