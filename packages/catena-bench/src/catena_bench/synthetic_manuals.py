"""Write manuals of invented machines as Markdown, grown from a seed: headings, prose, lists, tables, captions.

The prose is put together from parts and carries no meaning of its own; its shape is that of real manuals,
with the things that a heading detector takes for headings and must not: bold words, bold sentences, captions
and short list items.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from catena import ParameterError

CHAPTERS = (
    "Safety", "Overview", "Technical data", "Transport and storage", "Installation", "Electrical connection",
    "Commissioning", "Operation", "Cleaning", "Maintenance", "Troubleshooting", "Spare parts", "Disposal",
)  # fmt: skip
DEEDS = (
    "Adjusting", "Checking", "Cleaning", "Closing", "Connecting", "Draining", "Filling", "Fitting", "Lubricating",
    "Opening", "Removing", "Replacing", "Setting", "Testing", "Venting",
)  # fmt: skip
PARTS = (
    "belt guard", "coolant pump", "control panel", "cover plate", "drive shaft", "feed hopper", "filter housing",
    "gear box", "guide rail", "inlet valve", "limit switch", "main bearing", "motor flange", "outlet valve",
    "pressure gauge", "return spring", "safety latch", "sensor head", "terminal box", "tool holder",
)  # fmt: skip
CIRCUMSTANCES = (
    "after a long period without use and before the first start of the season",
    "when the machine has been moved to another place or connected to another supply",
    "in rooms with high humidity, dust, or frequent changes of temperature",
    "on machines that were delivered with the extended set of accessories",
)
OPENINGS = (
    "Before work begins,", "In normal service,", "Once a week,", "If the reading differs,", "After the first hour,",
    "On cold days,", "When the lamp is lit,", "As a rule,",
)  # fmt: skip
ACTIONS = (
    "make sure that the {part} sits firmly on its seat and shows no trace of wear",
    "the {part} must be held in place until the {other} has come to rest",
    "loosen the {part} by half a turn and wait until the {other} has cooled down",
    "compare the mark on the {part} with the value of {number} mm given on the plate",
    "the load on the {part} should not rise above {number} N for more than a minute",
    "keep the {part} and the {other} free from oil, since both of them transmit force by friction",
    "note the position of the {part}, because the {other} can be fitted in two ways",
    "an interval of {number} hours has proved to be sufficient for the {part} in most plants",
)
REMARKS = (
    "Damage found in this way is to be reported at once.",
    "The work takes two persons about {number} minutes.",
    "Neither force nor heat is needed for it.",
    "A torque of {number} N·m is right for all sizes.",
    "The {part} of older machines differs in colour only.",
    "Later chapters return to this point.",
)
WARNINGS = (
    "Never reach into the opening of the {part} while the {other} turns, even if it turns slowly.",
    "The {part} remains hot for a long time after the machine has been switched off at the {other}.",
)


@dataclass(slots=True)
class _Writer:
    """Draws the words; counts headings, tables and figures, and never gives two headings one title."""

    draw: Random
    numbered: bool
    levels: int  # deepest level of a heading
    _used: set[str] = field(default_factory=set)
    _numbers: list[int] = field(default_factory=list)
    _tables: int = 0
    _figures: int = 0

    def _fill(self, template: str) -> str:
        part, other = self.draw.sample(PARTS, 2)
        return template.format(part=part, other=other, number=self.draw.randrange(12, 480))

    def _sentence(self) -> str:
        if self.draw.random() < 0.3:
            return self._fill(self.draw.choice(REMARKS))
        return f"{self.draw.choice(OPENINGS)} {self._fill(self.draw.choice(ACTIONS))}."

    def _paragraph(self) -> str:
        sentences = [self._sentence() for _ in range(self.draw.randrange(2, 5))]
        chance = self.draw.random()
        if chance < 0.2:
            sentences[0] = f"**Note:** {sentences[0]}"
        elif chance < 0.4:
            place = self.draw.randrange(1, len(sentences))
            sentences[place] = f"**{sentences[place]}**"
        return " ".join(sentences)

    def _list(self) -> str:
        numbered = self.draw.random() < 0.5
        items = [self._fill(self.draw.choice(ACTIONS)) for _ in range(self.draw.randrange(3, 6))]
        marks = [f"{number}." if numbered else "-" for number in range(1, len(items) + 1)]
        return "\n".join(f"{mark} {item[0].upper()}{item[1:]}." for mark, item in zip(marks, items, strict=True))

    def _table(self) -> Iterator[str]:
        self._tables += 1
        yield f"Table {self._tables}. Values for the {self.draw.choice(PARTS)}"
        rows = ["| Part | Limit | Interval |", "| --- | --- | --- |"]
        for part in self.draw.sample(PARTS, self.draw.randrange(3, 6)):
            limit, hours = self.draw.randrange(2, 90), self.draw.randrange(10, 900)
            rows.append(f"| {part.capitalize()} | {limit} N·m | {hours} h |")
        yield "\n".join(rows)

    def _figure(self) -> str:
        self._figures += 1
        return f"Figure {self._figures}. {self._fill('Position of the {part} beside the {other}')}"

    def _title(self, level: int) -> str:
        while True:
            deed, part = self.draw.choice(DEEDS), self.draw.choice(PARTS)
            title = f"{deed} the {part}"
            if level == 1 < self.levels:
                title = self.draw.choice(CHAPTERS)
            elif self.draw.random() < 0.2:
                title = f"{title} {self.draw.choice(CIRCUMSTANCES)}"
            if title not in self._used:
                self._used.add(title)
                return title

    def _heading(self, level: int) -> str:
        above = [*self._numbers, 0, 0, 0][: level - 1]
        last = self._numbers[level - 1] if len(self._numbers) >= level else 0
        self._numbers = [*above, last + 1]
        number = ".".join(map(str, self._numbers)) + " " if self.numbered else ""
        return f"{'#' * level} {number}{self._title(level)}"

    def _body(self) -> Iterator[str]:
        for _ in range(self.draw.randrange(1, 3)):
            yield self._paragraph()
        extra = self.draw.random()
        if extra < 0.25:
            yield self._list()
        elif extra < 0.4:
            yield from self._table()
        elif extra < 0.5:
            yield self._figure()
        elif extra < 0.6:
            yield f"**{self._fill(self.draw.choice(WARNINGS))}**"

    def section(self, level: int) -> Iterator[str]:
        """Give the blocks of one section and of all below it."""
        yield self._heading(level)
        yield from self._body()
        if level < self.levels:
            fewest, most = {1: (2, 4), 2: (0, 3)}.get(level, (0, 2))
            for _ in range(self.draw.randrange(fewest, most)):
                yield from self.section(level + 1)


def manual_markdown(seed: int, *, numbered: bool, levels: int = 4, words: int = 2_600) -> str:
    """Return a manual in Markdown, of whole chapters and about `words` words.

    Args:
        seed: equal seeds give equal manuals.
        numbered: whether headings begin with their number ("3.2 Checking the gear box").
        levels: of headings, from 1 to 4.
        words: the length, in words, after which no chapter is begun; there are at most 13 chapters, or 60 where
            chapters are all there is.

    Raises:
        ParameterError: `levels` is not one of 1 to 4.
    """
    if levels not in range(1, 5):
        raise ParameterError("levels", levels, "an integer from 1 to 4")
    writer = _Writer(Random(seed), numbered, levels)
    blocks: list[str] = []
    for _ in range(60 if levels == 1 else len(CHAPTERS)):
        blocks.extend(writer.section(1))
        if sum(len(block.split()) for block in blocks) >= words:
            break
    return "\n\n".join(blocks) + "\n"
