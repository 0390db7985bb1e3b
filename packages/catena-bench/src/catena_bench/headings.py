"""Measure headings found without a model: on generated PDFs against the truth, on real ones against outlines."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import fmean

from catena import Document, ParameterError, ParseError
from catena.formatting import LayoutOptions, format_layout
from catena.model import Parsed
from catena.parsing import Engine, parse, parse_bytes
from catena.structure import outline
from catena_bench.figures import Figures, Tell, silent
from catena_bench.generated_pdfs import GeneratedPdf, Heading, generated_pdfs

_NUMBER = re.compile(
    r"^(?:(?:chapter|appendix|part|section)\s+\w{1,5}|(?:[A-Z]\.)?\d+(?:\.\d+)*)[.):]?\s+(?=\S)", re.IGNORECASE
)
_LETTER = re.compile(r"^(?:[A-Z]|[IVX]+)[.):]?\s+(?=\S)")
_HIDDEN = LayoutOptions(outline=False)
_ENGINE: Engine = "pypdf"  # which parser reads the files
_COLUMNS = {1: "generated_one_column", 2: "generated_two_columns"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of headings that two lists of titles share; sums over files are micro averages."""

    truth: int = 0
    found: int = 0
    outlined: int = 0  # of those found, the ones at levels that the truth has at all
    shared: int = 0
    level: int = 0  # of those shared, the ones whose level differs by the file's commonest difference

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})

    def metrics(self, name: str) -> dict[str, float]:
        """Return recall, precision and level accuracy under `metric.name`."""
        return {
            f"recall.{name}": _share(self.shared, self.truth),
            f"precision.{name}": _share(self.shared, self.found),
            f"precision_outlined.{name}": _share(self.shared, self.outlined),
            f"level_accuracy.{name}": _share(self.level, self.shared),
        }


def run(data: Path | None = None, *, tell: Tell = silent) -> Figures:
    """Measure the headings that `format_layout` finds.

    `recall = shared / true`, `precision = shared / found`. A heading is shared when its letters and digits are
    the same (case folded, with or without the number), as often, and on the same page or the next one to it.
    The file's own outline is hidden from the formatter. An outline leaves deep headings out, so that
    `precision_outlined` counts only headings found at levels the outline has.

    Args:
        data: a folder of PDFs, or one with a folder `pdfs`; None measures generated PDFs alone.
        tell: is told of each real file.

    Returns:
        `recall`, `precision`, `precision_outlined` and `level_accuracy` (share of the shared headings whose
        level differs by the file's commonest difference), each in [0, 1], for `generated_one_column`,
        `generated_two_columns`, every real file with an outline by its stem, and `real_mean` over these; and
        how many files there were: `n_generated`, `n_with_outline`, `n_without_outline`, `n_failed`.

    Raises:
        ParameterError: `data` is not a folder.
    """
    folder = None if data is None else _folder(data)
    generated: dict[str, Counts] = {name: Counts() for name in _COLUMNS.values()}
    n_generated = 0
    tell("generated PDFs")
    for pdf in generated_pdfs():
        n_generated += 1
        generated[_COLUMNS[pdf.columns]] += score_generated(pdf)
    results = {"n_generated": float(n_generated)}
    for name, counts in generated.items():
        results |= counts.metrics(name)
    return results if folder is None else results | _real(folder, tell)


def score_generated(pdf: GeneratedPdf) -> Counts:
    """Format one generated PDF with its outline hidden, and compare with the truth."""
    parsed = parse_bytes(pdf.pdf, f"{pdf.name}.pdf", engine=_ENGINE)
    return compare(pdf.headings, headings_of(format_layout(parsed, _HIDDEN)))


def score_outline(parsed: Parsed) -> Counts | None:
    """Compare with the file's own outline, which the formatter does not see; None without an outline."""
    if parsed.layout is None or not parsed.layout.outline:
        return None
    truth = [Heading(item.level, item.title, item.page) for item in parsed.layout.outline]
    blind = replace(parsed, layout=replace(parsed.layout, outline=()))
    return compare(truth, headings_of(format_layout(blind, _HIDDEN)))


def _folder(data: Path) -> Path:
    folder = data / "pdfs" if (data / "pdfs").is_dir() else data
    if not folder.is_dir():
        raise ParameterError("data", str(data), "a folder of PDF files")
    return folder


def _real(folder: Path, tell: Tell) -> Figures:
    results: dict[str, float] = {}
    states: Counter[str] = Counter()
    for path in sorted(folder.glob("*.pdf")):
        tell(path.name)
        try:
            counts = score_outline(parse(path, engine=_ENGINE))
        except ParseError:
            states["n_failed"] += 1
            continue
        states["n_without_outline" if counts is None else "n_with_outline"] += 1
        if counts is not None:
            results |= counts.metrics(path.stem.replace(".", "_"))
    for metric in ("recall", "precision", "precision_outlined", "level_accuracy"):
        values = [value for key, value in results.items() if key.startswith(f"{metric}.")]
        if values:
            results[f"{metric}.real_mean"] = fmean(values)
    return results | {name: float(states[name]) for name in ("n_with_outline", "n_without_outline", "n_failed")}


def headings_of(document: Document) -> list[Heading]:
    """Return the headings of a Markdown document, with their pages."""
    sections = (section for section in outline(document) if section.level)
    return [Heading(each.level, each.title, document.page_at(each.start) or 1) for each in sections]


def compare(truth: Sequence[Heading], found: Sequence[Heading]) -> Counts:
    """Count the headings that two lists share, each at most once, on pages at most one apart."""
    pairs = _pairs(truth, found)
    differences = Counter(two.level - one.level for one, two in pairs)
    usual = min(differences, key=lambda d: (-differences[d], d), default=0)
    deepest = max((title.level for title in truth), default=0)
    highest = min((title.level for title in truth), default=0)
    matched = {id(two) for _, two in pairs}
    outlined = sum(id(two) in matched or highest <= two.level - usual <= deepest for two in found)
    return Counts(truth=len(truth), found=len(found), outlined=outlined, shared=len(pairs), level=differences[usual])


def _pairs(truth: Iterable[Heading], found: Iterable[Heading]) -> list[tuple[Heading, Heading]]:
    ordered = sorted(found, key=lambda title: title.page)
    by_form: dict[str, list[int]] = defaultdict(list)
    for index, title in enumerate(ordered):
        for form in _forms(title.text):
            by_form[form].append(index)
    used: set[int] = set()
    pairs = []
    for title in sorted(truth, key=lambda title: title.page):
        alike = sorted({index for form in _forms(title.text) for index in by_form[form]} - used)
        near = next((index for index in alike if abs(ordered[index].page - title.page) <= 1), None)
        if near is not None:
            used.add(near)
            pairs.append((title, ordered[near]))
    return pairs


def _forms(text: str) -> set[str]:
    """Return the letters and digits of a title with its number and without; "A" may be a number or a word."""
    bare = {text.strip(), _NUMBER.sub("", text.strip(), count=1), _LETTER.sub("", text.strip(), count=1)}
    folded = (unicodedata.normalize("NFKC", form).casefold() for form in bare)
    return {"".join(character for character in form if character.isalnum()) for form in folded}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
