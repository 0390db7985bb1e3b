"""Tables of invented machines with known truth: which question is answered by which table, and by what part of it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from catena.model import Document
from catena_bench.synthetic_manuals import PARTS

_MACHINES = ("AX", "BR", "CT", "DL", "EK", "FM", "GN", "HP")
_QUANTITIES = (
    ("Supply voltage", "V"), ("Rated current", "A"), ("Output torque", "N·m"), ("Operating pressure", "bar"),
    ("Flow rate", "l/min"), ("Ambient temperature", "°C"), ("Noise level", "dB"), ("Rotation speed", "rpm"),
    ("Net weight", "kg"), ("Response time", "ms"), ("Power loss", "W"), ("Belt tension", "N"),
)  # fmt: skip
_LIMITS = ("minimum", "typical", "maximum")
_ROWS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """A question that one table of one document answers.

    Attributes:
        kind: "label": it names the row and the column; "value": it names what stands in the data.
        table: 0-based number of the table in its document.
    """

    text: str
    kind: str
    document_id: str
    table: int


def generated_tables(seed: int = 0, n: int = 40) -> tuple[list[Document], list[TableQuestion]]:
    """Return n data sheets of look-alike machines, two tables each, and their questions.

    The first table has a row per quantity with its limits, under a header of two rows; the second lists spare
    parts by number. All sheets have the same titles and nearly the same rows.

    Args:
        seed: equal seeds give equal documents and questions.
        n: how many machines.
    """
    random = Random(seed)
    documents: list[Document] = []
    questions: list[TableQuestion] = []
    for number in range(n):
        name = f"{_MACHINES[number % len(_MACHINES)]}-{100 + 7 * number}"
        identity = f"machine-{number:03d}"
        rows = random.sample(_QUANTITIES, _ROWS)
        values = [sorted(random.randint(1, 999) for _ in _LIMITS) for _ in rows]
        parts = {part: random.randint(10_000, 99_999) for part in random.sample(PARTS, _ROWS)}
        documents.append(Document(id=identity, text=_sheet(name, rows, values, parts), title=f"Machine {name}"))
        chosen, limit = random.randrange(_ROWS), random.randrange(len(_LIMITS))
        quantity, unit = rows[chosen]
        part = random.choice(list(parts))
        asked = (
            ("label", 0, f"What is the {_LIMITS[limit]} {quantity.lower()} of the machine {name}?"),
            ("value", 0, f"Which machine has a {quantity.lower()} of {values[chosen][limit]} {unit}?"),
            ("label", 1, f"What is the order number of the {part} of the machine {name}?"),
            ("value", 1, f"For which machine is the spare part {parts[part]}?"),
        )
        questions += [TableQuestion(text=t, kind=kind, document_id=identity, table=at) for kind, at, t in asked]
    return documents, questions


def _sheet(name: str, rows: list[tuple[str, str]], values: list[list[int]], parts: dict[str, int]) -> str:
    limits = "".join(
        f"| {quantity} | {' | '.join(map(str, numbers))} | {unit} |\n"
        for (quantity, unit), numbers in zip(rows, values, strict=True)
    )
    listed = "".join(f"| {part} | {number} |\n" for part, number in parts.items())
    return (
        f"# Machine {name}\n\n## Technical data\n\nTable 1. Limits of operation\n\n"
        "| Quantity | Limit | | | Unit |\n|---|--:|--:|--:|---|\n"
        f"| | {' | '.join(_LIMITS)} | |\n{limits}\n"
        f"## Spare parts\n\nTable 2. Parts and their order numbers\n\n| Part | Order number |\n|---|---|\n{listed}"
    )
