"""A region of a page as a PNG: rendered by PDFium, bounded in pixels, encoded with the standard library alone."""

from __future__ import annotations

import struct
import zlib
from math import sqrt
from typing import Any

from catena.parsing.figure_shapes import Box

MARGIN = 4.0  # points around a figure, so that no line on its border is cut
MAX_PIXELS = 4_000_000  # of one figure: a larger one is rendered at fewer dots per inch


def cropped(page: Any, box: Box, dpi: float, *, photo: bool) -> tuple[bytes, int, int]:
    """Return a region as PNG, with its width and height in pixels.

    Args:
        page: of pypdfium2.
        box: in points, from the top left corner of the page as shown.
        dpi: dots per inch.
        photo: whether it is a bitmap rather than a drawing, which decides how it is packed.
    """
    width, height = page.get_size()
    scale = dpi / 72
    area = max(1.0, (box.width + 2 * MARGIN) * (box.height + 2 * MARGIN))
    scale = min(scale, sqrt(MAX_PIXELS / area))
    cut = (
        max(0.0, box.x0 - MARGIN),
        max(0.0, height - box.bottom - MARGIN),
        max(0.0, width - box.x1 - MARGIN),
        max(0.0, box.top - MARGIN),
    )
    bitmap = page.render(scale=scale, crop=cut, rev_byteorder=True)
    try:
        return png(bytes(bitmap.buffer), bitmap.width, bitmap.height, stride=bitmap.stride, photo=photo)
    finally:
        bitmap.close()


def png(pixels: bytes, width: int, height: int, *, stride: int, photo: bool) -> tuple[bytes, int, int]:
    """Encode rows of red, green and blue bytes; a photo's rows as differences from the row above (filter "Up").

    Args:
        pixels: `height` rows of `stride` bytes, of which the first 3 * width count.
        width: in pixels.
        height: in pixels.
        stride: bytes from one row to the next.
        photo: whether neighbouring rows are alike rather than equal.
    """
    row = 3 * width
    body = pixels if stride == row else b"".join(pixels[y * stride : y * stride + row] for y in range(height))
    if photo:
        body = _minus(body, bytes(row) + body[:-row])
    kind = b"\x02" if photo else b"\x00"
    lines = b"".join(kind + body[y * row : (y + 1) * row] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, red green blue
    parts = (_part(b"IHDR", header), _part(b"IDAT", zlib.compress(lines, 6)), _part(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts), width, height


def _minus(left: bytes, right: bytes) -> bytes:
    """Return left - right modulo 256, byte by byte: one subtraction of two long numbers without a borrow."""
    high = int.from_bytes(b"\x80" * len(left), "big")
    a, b = int.from_bytes(left, "big"), int.from_bytes(right, "big")
    difference = ((a | high) - (b & ~high)) ^ ((a ^ ~b) & high)
    return difference.to_bytes(len(left), "big")


def _part(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
