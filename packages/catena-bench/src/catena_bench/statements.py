"""Make up statements of account as annual and quarterly reports print them, from a seed, with the truth of each cell.

No value stands twice in a report, so that a cell can be found by its value alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from catena_bench.cell_judge import PickedCell

COMPANIES = ("Northwind Instruments, Inc.", "Halden Materials plc", "Corvus Retail Group", "Aldous & Finch Holdings")
PROSE = (
    "The accompanying notes are an integral part of these statements. Amounts may not add up because of rounding, "
    "and percentages are calculated from amounts before rounding. Some earlier amounts were reclassified.",
    "Revenue grew in all regions, above all because of higher volumes and of a business that was acquired in the "
    "first quarter. Costs of energy and freight rose less. The notes say what was sold and closed.",
    "Management uses these measures to compare periods with one another. They are no substitute for what accounting "
    "standards ask for, and other companies may calculate measures of the same name in other ways.",
)

DASH = "\u2014"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of values: the names above it from the top, printed lines within a name parted by line breaks."""

    path: tuple[str, ...]
    percent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A printed row.

    Attributes:
        label: "" for a subtotal without one.
        values: one per column, as printed; none for a row that names a group.
        group: the label of the group it belongs to.
        note: what stands in the column of notes.
        mark: a footnote mark behind the label.
        total: a line is drawn above its values.
    """

    label: str
    values: tuple[str, ...] = ()
    group: str = ""
    note: str = ""
    mark: str = ""
    total: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatement:
    """A table with its title; `notes` tells if it has a column for numbers of notes."""

    title: str
    unit: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: bool
    footnote: str

    def cells(self) -> Iterator[PickedCell]:
        """Yield the truth about each number."""
        for row in self.rows:
            for column, value in zip(self.columns, row.values, strict=False):
                if value != DASH:
                    path = tuple(name.replace("\n", " ") for name in column.path)
                    yield PickedCell(row=row.label, column=path, value=value, group=row.group)


Part = tuple[str, tuple[str, ...], str]
"""The name of a group, its labels, and the label of its total: "" for one without a label, "-" for no total."""

_KINDS: dict[str, tuple[Part, ...]] = {
    "Consolidated Balance Sheets": (
        ("Current assets:", ("Cash and cash equivalents", "Short-term investments", "Trade receivables, net",
         "Inventories, net", "Prepaid expenses and other current assets"), "Total current assets"),
        ("Non-current assets:", ("Property, plant and equipment, net of accumulated depreciation", "Operating lease "
         "right-of-use assets", "Goodwill", "Other intangible assets, net"), ""),
        ("", ("Total assets",), "-"),
        ("Current liabilities:", ("Accounts payable", "Accrued compensation and related benefits", "Deferred revenue",
         "Current portion of long-term debt"), "Total current liabilities"),
        ("Stockholders' equity:", ("Common stock and additional paid-in capital", "Accumulated other comprehensive "
         "loss", "Retained earnings"), ""),
        ("", ("Total liabilities and stockholders' equity",), "-"),
    ),
    "Consolidated Statements of Income": (
        ("", ("Net sales", "Cost of sales", "Gross profit"), "-"),
        ("Operating expenses:", ("Selling, general and administrative", "Research and development", "Amortization of "
         "acquired intangible assets and impairment of long-lived assets", "Restructuring charges"), ""),
        ("", ("Operating income", "Interest expense, net", "Income before income taxes", "Provision for income taxes",
         "Net income"), "-"),
        ("Net income per common share:", ("Basic", "Diluted"), "-"),
        ("Weighted average shares outstanding:", ("Basic", "Diluted"), "-"),
    ),
    "Consolidated Statements of Cash Flows": (
        ("Operating activities:", ("Net income", "Depreciation and amortization", "Share-based compensation",
         "Deferred income taxes", "Loss on disposal of property, plant and equipment and on other long-lived assets"),
         "Net cash provided by operating activities"),
        ("Investing activities:", ("Purchases of property and equipment", "Acquisitions, net of cash acquired",
         "Proceeds from maturities of investments"), "Net cash used in investing activities"),
        ("Financing activities:", ("Proceeds from issuance of debt", "Repurchases of common stock", "Dividends paid"),
         ""),
        ("", ("Effect of exchange rates on cash", "Cash at end of period"), "-"),
    ),
    "Segment Information": (
        ("Net sales", ("Americas", "Europe, Middle East and Africa", "Asia Pacific"), ""),
        ("Operating income", ("Americas", "Europe, Middle East and Africa", "Asia Pacific"), "Total segments"),
        ("Reconciling items:", ("Corporate and unallocated expenses", "Interest and other, net"), ""),
    ),
    "Long-Term Debt and its Maturities": (
        ("", ("1.750% Senior notes due March 2027", "Term loan, due 2025", "Finance leases"), ""),
        ("Payments due in the years ending December 31:", ("2024", "2025", "2026", "2027", "Thereafter"), "Total"),
    ),
}  # fmt: skip
_UNITS = ("(in thousands, except per share data)", "(in millions)", "($ in millions)", "(Dollars in thousands)")


def statement_of(random: Random, kind: str, columns: tuple[Column, ...], used: set[str]) -> AccountStatement:
    """Make up one statement; each value that it prints is new, and is added to those used."""
    rows: list[Row] = []
    notes, marked = random.random() < 0.3, random.random() < 0.5
    for name, labels, total in _KINDS[kind]:
        if name:
            rows.append(Row(label=name))
        for label in labels:
            last = label.startswith("Total")
            row = Row(
                label=label,
                values=_values(random, columns, used),
                group=name,
                note=str(random.randint(1, 25)) if notes and random.random() < 0.5 else "",
                mark=f"({random.randint(1, 3)})" if marked and not last and random.random() < 0.2 else "",
                total=last,
            )
            rows.append(row)
        if total != "-":
            label = total
            rows.append(Row(label=label, values=_values(random, columns, used), group=name, total=True))
    return AccountStatement(
        title=kind,
        unit=random.choice(_UNITS),
        columns=columns,
        rows=tuple(rows),
        notes=notes,
        footnote="(1) See the notes to these statements for what this amount includes." if marked else "",
    )


def _values(random: Random, columns: tuple[Column, ...], used: set[str]) -> tuple[str, ...]:
    """Return values that are not used yet, some negative, and a dash here and there."""
    row: list[str] = []
    size = random.choice((1_000, 100_000, 10_000_000))
    for column in columns:
        if row and random.random() < 0.04:
            row.append(DASH)
            continue
        while True:
            number = random.randint(1, 9999) / 10 if column.percent else random.randint(100, size)
            printed = f"{number:.1f}" if column.percent else f"{number:,}"
            if printed not in used and not (1900 <= number < 2100):
                break
        used.add(printed)
        printed = f"({printed})" if random.random() < 0.2 else printed
        row.append(f"{printed}%" if column.percent else printed)
    return tuple(row)


def column_sets(random: Random) -> tuple[Column, ...]:
    """Return columns as one of the usual kinds of heads names them."""
    year = random.randint(2008, 2023)
    month, day = random.choice((("December", 31), ("June", 30), ("January", 28), ("July", 29)))
    date = f"{month} {day},"
    years = [str(year - back) for back in range(random.choice((2, 3)))]
    two = years[:2]
    standing = random.choice(("As of", "At"))
    word = random.choice(("Three Months Ended", "13 Weeks Ended", "Quarter Ended"))
    longer = "26 Weeks Ended" if word.startswith("13") else "Six Months Ended"
    kinds: tuple[tuple[tuple[str, ...], ...], ...] = (
        tuple((of,) for of in years),
        tuple((f"{standing} {date}", of) for of in two),
        tuple((f"Year ended {date}", of) for of in years),
        tuple((span, f"{date}\n{of}") for span in (word, longer) for of in two),
        tuple((span, f"{date} {of}") for span in (word, longer) for of in two),
        tuple((f"{date}\n{of}\n(Unaudited)",) for of in two),
        tuple((of, name) for of in two for name in ("Americas", "Asia\nPacific", "Total")),
        tuple((of, name) for of in two for name in ("Amount", "% of net\nsales")),
        (*((word, of) for of in two), (word, "%\nChange")),
        tuple((f"{word} {date}", of, name) for of in two for name in ("As\nreported", "Adjusted")),
        (("Balance at\nbeginning\nof year",), ("Additions",), ("Deductions",), ("Balance at\nend of\nyear",)),
        (*((f"Fiscal {of}",) for of in two), ("Change",), ("% Change",)),
    )
    head = random.choice(kinds)
    return tuple(Column(path=path, percent="%" in path[-1]) for path in head)


def report(seed: int, of: int = 4) -> tuple[str, tuple[AccountStatement, ...]]:
    """Return a company and its statements; equal seeds give equal reports."""
    random = Random(seed)
    used: set[str] = set()
    kinds = [random.choice(sorted(_KINDS)) for _ in range(of)]
    return random.choice(COMPANIES), tuple(statement_of(random, kind, column_sets(random), used) for kind in kinds)
