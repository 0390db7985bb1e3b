"""Shapes in which language models give a right answer or none: a corpus to try a step, or a model's wrapper, with.

for shape in reply_shapes("json"):
    reply = shape.reply(["HX-200 torque"], draft=["wrong"])  # feed it to the step, see what it makes of it
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from catena.model.errors import ParameterError

Kind: TypeAlias = Literal["any", "json", "list", "objects", "text"]
_PLACE = re.compile(r"<<(\w+)>>")
_ITEM_ENDS = re.compile(r'(?<=["\]}\d])(?=\n\s*[\]}])')


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyShape:
    """One way in which a model replies.

    Attributes:
        name: unique.
        kind: of the answers that can have it: "any", "json" (a list or an object), "list", "objects" (a list of
            them), or "text".
        template: the reply, with places for the answer and the draft in some spelling, such as `<<answer>>`.
        answered: whether a reader has to find the answer; otherwise a named failure is right, too, or all that can
            be. A draft is never right.
    """

    name: str
    kind: Kind
    template: str
    answered: bool

    def fits(self, answer: Any) -> bool:
        """Return whether an answer can have this shape."""
        if self.kind == "objects":
            return isinstance(answer, list) and all(isinstance(each, dict) for each in answer)
        kinds = {"any": object, "json": (list, dict), "list": list, "text": str}
        return isinstance(answer, kinds[self.kind])  # type: ignore[arg-type]

    def reply(self, answer: Any, draft: Any) -> str:
        """Return the reply.

        Args:
            answer: what the model means: a text, or JSON as Python has it.
            draft: an answer of the same form that the model thought of and gave up.

        Raises:
            ParameterError: an answer of this form cannot have this shape.
        """
        if not self.fits(answer):
            raise ParameterError("answer", type(answer).__name__, f"one of kind {self.kind!r}")
        spelt = {name: spell(answer) for name, spell in _SPELLINGS.items() if f"<<{name}>>" in self.template}
        if "<<draft>>" in self.template:
            spelt["draft"] = _plain(draft)
        return _PLACE.sub(lambda place: spelt[place[1]], self.template)


def reply_shapes(*kinds: Kind) -> tuple[ReplyShape, ...]:
    """Return the shapes of these kinds, or all."""
    rows = json.loads((files("catena.testing") / "reply_shapes.json").read_text(encoding="utf-8"))
    return tuple(shape for shape in (ReplyShape(**row) for row in rows) if not kinds or shape.kind in kinds)


def _plain(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _pretty(answer: Any) -> str:
    return json.dumps(answer, ensure_ascii=False, indent=2)


def _torn(answer: Any) -> str:
    """Return a list that ends within another item behind the last."""
    more = json.dumps(answer[-1], ensure_ascii=False)
    return f"{_plain(answer)[:-1]}, {more[: len(more) // 2]}"


_SPELLINGS: dict[str, Callable[[Any], str]] = {
    "answer": _plain,
    "ascii": json.dumps,
    "pretty": _pretty,
    "tight": lambda answer: json.dumps(answer, ensure_ascii=False, separators=(",", ":")),
    "spaced": lambda answer: _pretty(answer).replace("\n", "\r\n\r\n"),
    "trailing": lambda answer: _ITEM_ENDS.sub(",", _pretty(answer)),
    "without_commas": lambda answer: re.sub(r'(?<=["\]}]),\n', "\n", _pretty(answer)),
    "commented": lambda answer: _pretty(answer).replace("\n", " // as asked\n"),
    "python": repr,
    "curly": lambda answer: re.sub(r'"([^"]*)"', "“\\1”", _plain(answer)),
    "string": lambda answer: json.dumps(_plain(answer)),
    "lines": lambda answer: "\n".join(map(_plain, answer)),
    "lines_with_commas": lambda answer: ",\n".join(map(_plain, answer)),
    "torn": _torn,
    "unclosed": lambda answer: _plain(answer)[:-1],
}
