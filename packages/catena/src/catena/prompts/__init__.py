"""Prompts, one versioned file each.

A file begins with front matter (`version: 1`), then holds what the model is told about its task under
`# System` and what it is asked under `# Prompt`, with places like {question} to fill. Where the answer is JSON,
a file `.json` beside it is its JSON Schema.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from catena.model.errors import ParameterError

_FILE = re.compile(
    r"---\nversion: (?P<version>\d+)\n---\n++# System\n++(?P<system>.+?)(?<!\n)\n++# Prompt\n++(?P<template>.+)\Z",
    re.DOTALL,
)
_PLACE = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Hold the text that a model is given; `version` names file and version, as the journal keeps it.

    `schema` is the JSON Schema of the answer as text, "" where that is no JSON.
    """

    version: str
    system: str
    template: str
    schema: str = ""

    def filled(self, **values: str) -> str:
        """Return the prompt with every place filled; what is filled in is never searched for places.

        Raises:
            ParameterError: a place has no value, or a value no place.
        """
        places = set(_PLACE.findall(self.template))
        if places != set(values):
            raise ParameterError(f"values of prompt {self.version}", sorted(values), f"exactly {sorted(places)}")
        return _PLACE.sub(lambda place: values[place[1]], self.template)


@cache
def load(name: str) -> Prompt:
    """Return the prompt of this name.

    Raises:
        ParameterError: there is no such prompt, or its file is malformed.
    """
    file = files("catena.prompts") / f"{name}.md"
    known = sorted(
        each.name.removesuffix(".md") for each in files("catena.prompts").iterdir() if each.name.endswith(".md")
    )
    if name not in known:
        raise ParameterError("prompt", name, f"one of {', '.join(known)}")
    match = _FILE.match(file.read_text(encoding="utf-8"))
    if match is None:
        raise ParameterError(f"prompt file {name}.md", "another form", "front matter, # System and # Prompt")
    schema = files("catena.prompts") / f"{name}.json"
    return Prompt(
        version=f"{name}/{match['version']}",
        system=match["system"],
        template=match["template"].rstrip("\n"),
        schema=schema.read_text(encoding="utf-8") if schema.is_file() else "",
    )


def shut_in(text: str, *tags: str) -> str:
    """Return a text that can neither end one of these tags nor begin another one: its "<" becomes "‹" there.

    Nothing else changes, so that what is fixed by its place, such as a table of plain text, stays as it is.
    """
    return re.sub(rf"<(?=\s*(?:/\s*)?(?:{'|'.join(tags)})\b)", "‹", text, flags=re.IGNORECASE)  # linear
