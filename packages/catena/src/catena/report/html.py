"""The page around a report's values: template, style and script, under a policy that forbids everything else."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import asdict
from hashlib import sha256
from html import escape
from importlib.resources import files

from catena import __version__
from catena.report.values import Contents

_SCRIPTS = ("dom.js", "tree.js", "ranking.js", "segments.js", "graph_canvas.js", "graph.js", "studies.js", "page.js")
_ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}  # so that no text can end the script element


def page_of(contents: Contents) -> str:
    """Return the whole page.

    The policy allows exactly this script and this style, by their hashes, and pictures that are inside the page:
    no address is ever asked, and text of documents can be no script even if it were taken for markup.
    """
    style, script = _read("page.css"), "\n".join(map(_read, _SCRIPTS))
    places = {
        "policy": _policy(style, script),
        "title": _in_markup(f"{contents.question} · Catena report"),
        "version": escape(__version__),
        "style": style,
        "data": data_of(contents),
        "script": script,
    }
    return "".join(places[part] if number % 2 else part for number, part in enumerate(_read("page.html").split("%%")))


def data_of(contents: Contents) -> str:
    """Return the values as JSON in ASCII, without a character that means anything to HTML."""
    text = json.dumps(asdict(contents), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPED)


def _in_markup(text: str) -> str:
    """Return a text as HTML, in ASCII: of a broken character, which no file could hold, only its number is left."""
    return escape(text).encode("ascii", "xmlcharrefreplace").decode("ascii")


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode('ascii')}'"


def _read(name: str) -> str:
    return files("catena.report").joinpath("page", name).read_text(encoding="utf-8")
