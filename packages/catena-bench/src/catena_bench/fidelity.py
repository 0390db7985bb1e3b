"""Measure the fidelity check: damaged answers of a formatting model that are seen, and right ones that are blamed.

Windows come from generated PDFs, whose Markdown is known, and from the Markdown files below a directory of the layout
`similar_docs`, printed as text. Kinds of damage and documents are both cut into two halves: the check was made on one
(`tuning`), and the figures without a prefix are of the other, whose kinds and documents had no say in it.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from itertools import islice
from pathlib import Path
from random import Random
from statistics import median
from typing import TypeAlias

from catena import ParameterError, prompts
from catena.formatting import Fidelity, align, fidelity, markdown_words, source_of, source_words
from catena.parsing import parse_bytes
from catena_bench.damaged_answers import AnswerDamage, AnswerWindow, blocks_of, damages, kind_of, text_of
from catena_bench.figures import Figures, Tell, seconds_of, silent
from catena_bench.generated_pdfs import generated_pdfs

Vary: TypeAlias = Callable[[AnswerWindow, Random], AnswerWindow | None]


WORDS = 900  # of a window at least, then up to the end of the block
FILES = 24  # of a directory at most, spread over it
PER_KIND = 4  # windows that each kind is tried on
HARMLESS_PER_KIND = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Harmless:
    """One harmless kind: `vary` gives another window, or None where there is nothing to vary."""

    name: str
    vary: Vary
    family: str = "harmless"

    def applied(self, window: AnswerWindow, seed: int) -> AnswerWindow | None:
        """Return a window that is still faithful, or None where the variation changes nothing."""
        varied = self.vary(window, Random(f"{self.name}/{seed}"))
        return None if varied is None or varied == window else varied


def layout_text(markdown: str) -> str:
    """Return Markdown as a page would print it: no marks, paragraphs broken into lines, rows as lines of cells."""
    return "\n".join(line for block in blocks_of(markdown) for line in _printed(block))


def _printed(block: str, width: int = 90) -> Iterator[str]:
    kind = kind_of(block)
    if kind == "code":
        yield from (line for line in block.splitlines() if not line.startswith("```"))
    elif kind == "table":
        for line in block.splitlines():
            if not re.fullmatch(r"[\s|:-]+", line):
                yield "   ".join(_bare(cell.strip()) for cell in line.strip().strip("|").split("|")).rstrip()
    elif kind == "list":
        for line in block.splitlines():
            yield from _wrapped(re.sub(r"^[-*] ", "• ", _bare(line)), width)
    else:
        lines = [_bare(re.sub(r"^(?:#+|>) ", "", line)) for line in block.splitlines()]
        yield from _wrapped(" ".join(lines), width)


def _bare(text: str) -> str:
    """Return a line without the marks of emphasis, code and links."""
    text = re.sub(r"!?\[([^\[\]]*)\]\([^()]*\)", r"\1", text)
    return re.sub(r"\\([*_|#])", r"\1", re.sub(r"\*\*|`", "", text))


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


# --- the answer differs ------------------------------------------------------------------------------------------


def _answer(window: AnswerWindow, _: Random, *, how: Callable[[str], str]) -> AnswerWindow:
    return replace(window, answer=how(window.answer))


def _blocks(window: AnswerWindow, _: Random, *, kind: str, how: Callable[[str], str]) -> AnswerWindow:
    blocks = [how(block) if kind_of(block) == kind else block for block in blocks_of(window.answer)]
    return replace(window, answer=text_of(blocks))


def _lines(block: str, how: Callable[[str], str]) -> str:
    return "\n".join(how(line) for line in block.splitlines())


def _padded(block: str) -> str:
    return _lines(
        block, lambda line: "|" + "|".join(cell.ljust(24) for cell in line.strip().strip("|").split("|")) + "|"
    )


def _titled(window: AnswerWindow, draw: Random) -> AnswerWindow | None:
    blocks = blocks_of(window.answer)
    places = [i for i, block in enumerate(blocks) if kind_of(block) == "paragraph"]
    if not places:
        return None
    place = draw.choice(places)
    return replace(window, answer=text_of([*blocks[:place], "## Further remarks", *blocks[place:]]))


def _captions_below(window: AnswerWindow, _: Random) -> AnswerWindow | None:
    """Print titles of tables below their tables, as some manuals do; the answer has them above."""
    blocks = blocks_of(window.answer)
    printed, place = list(blocks), 0
    while place + 1 < len(printed):
        if printed[place].startswith("Table ") and kind_of(printed[place + 1]) == "table":
            printed[place], printed[place + 1] = printed[place + 1], printed[place]
            place += 1
        place += 1
    return replace(window, source=layout_text(text_of(printed))) if printed != blocks else None


# --- the page is printed differently -----------------------------------------------------------------------------


def _source(window: AnswerWindow, _: Random, *, how: Callable[[str], str]) -> AnswerWindow:
    return replace(window, source=how(window.source))


def _hyphenated(source: str, *, hyphen: str = "-") -> str:
    """Divide the last long word of every third line."""
    lines = source.splitlines()
    for place in range(0, len(lines) - 1, 3):
        match = re.search(r"(?<![\w-])([a-z]{4})([a-z]{3,})$", lines[place])
        if match:
            lines[place] = lines[place][: match.start()] + match[1] + hyphen
            lines[place + 1] = match[2] + " " + lines[place + 1]
    return "\n".join(lines)


def _page_ends(source: str, *, every: int, footer: str, header: str) -> str:
    """Put running lines between the pages of a source."""
    lines = source.splitlines()
    if len(lines) < 2 * every:
        return source  # what stands on one page only does not run
    shown: list[str] = [header] if header else []
    for number, start in enumerate(range(0, len(lines), every), 14):
        shown += [*lines[start : start + every], footer.format(number), "", *([header] if header else [])]
    return "\n".join(shown)


def _split_words(window: AnswerWindow, draw: Random) -> AnswerWindow:
    """Print a space within every thirtieth long word, as bad fonts do."""
    words = window.source.split(" ")
    long = [i for i, word in enumerate(words) if word.isalpha() and len(word) > 7]
    for place in long[:: max(1, len(long) // 5)]:
        cut = draw.randrange(3, 5)
        words[place] = words[place][:cut] + " " + words[place][cut:]
    return replace(window, source=" ".join(words))


def _misspelt(window: AnswerWindow, draw: Random) -> AnswerWindow:
    """Misspell two long words on the page; the answer has them right."""
    words = window.source.split(" ")
    long = [i for i, word in enumerate(words) if word.isalpha() and word.islower() and len(word) > 6]
    for place in draw.sample(long, 2):
        words[place] = words[place][:3] + words[place][4] + words[place][3] + words[place][5:]
    return replace(window, source=" ".join(words))


def _cells_below(window: AnswerWindow, _: Random) -> AnswerWindow | None:
    """Print the cells of every table one below the other."""
    blocks = [
        "\n\n".join(line.strip() for row in block.splitlines()[::1] if not re.fullmatch(r"[\s|:-]+", row)
                    for line in row.strip().strip("|").split("|") if line.strip())
        if kind_of(block) == "table" else block
        for block in blocks_of(window.answer)
    ]  # fmt: skip
    return replace(window, source=layout_text(text_of(blocks)))


def _wrapped_cells(window: AnswerWindow, _: Random) -> AnswerWindow | None:
    """Print the last word of each first cell on a line of its own, below its row."""
    shown: list[str] = []
    found = False
    for block in blocks_of(window.answer):
        if kind_of(block) != "table":
            shown += _printed(block)
            continue
        for line in _printed(block):
            first, *rest = line.split("   ")
            words = first.split(" ")
            if len(words) > 1 and rest and words[-1].isalpha():
                shown += ["   ".join([" ".join(words[:-1]), *rest]), words[-1]]
                found = True
            else:
                shown.append(line)
    return replace(window, source="\n".join(shown)) if found else None


def _across_columns(window: AnswerWindow, _: Random) -> AnswerWindow | None:
    """Print two paragraphs side by side and read them line by line."""
    blocks = blocks_of(window.answer)
    for place in range(len(blocks) - 1):
        pair = blocks[place : place + 2]
        if all(kind_of(block) == "paragraph" and len(block.split()) > 45 for block in pair):
            left, right = (list(_printed(block, 40)) for block in pair)
            turns = [line for both in zip(left, right, strict=False) for line in both]
            rest = [*left[len(right) :], *right[len(left) :]]
            before, after = text_of(blocks[:place]), text_of(blocks[place + 2 :])
            return replace(window, source="\n".join([layout_text(before), *turns, *rest, layout_text(after)]))
    return None


def _table_over_pages(window: AnswerWindow, _: Random) -> AnswerWindow | None:
    """Print the header of a table again in its middle, as over a page break; the answer has it once."""
    shown: list[str] = []
    found = False
    for block in blocks_of(window.answer):
        lines = list(_printed(block))
        if over := kind_of(block) == "table" and len(lines) > 3:
            lines[3:3] = ["Page 7", lines[0]]
        found |= over
        shown += lines
    return replace(window, source="\n".join(shown)) if found else None


def _unnumbered(window: AnswerWindow, _: Random) -> AnswerWindow | None:
    """Print the deepest numbered headings without their number; the answer infers it from its neighbours."""
    numbers = re.findall(r"^#+ (\d+\.\d+\.\d+) (.+)$", window.answer, re.MULTILINE)
    lines = window.source.splitlines()
    for number, title in numbers[1::2]:
        lines = [line[len(number) + 1 :] if line.startswith(f"{number} {title[:20]}") else line for line in lines]
    return replace(window, source="\n".join(lines)) if numbers[1::2] else None


def _capital_headings(window: AnswerWindow, _: Random) -> AnswerWindow:
    titles = {line.lstrip("# ") for line in window.answer.splitlines() if line.startswith("#")}
    lines = [line.upper() if line in titles else line for line in window.source.splitlines()]
    return replace(window, source="\n".join(lines))


def harmless_kinds() -> tuple[Harmless, ...]:
    """Return all harmless kinds, in a fixed order, names unique."""
    kinds: dict[str, Vary] = {"same": lambda window, _: replace(window, source=window.source + "\n")}
    in_answer: dict[str, Callable[[str], str]] = {
        "crlf": lambda text: text.replace("\n", "\r\n"),
        "trailing-space": lambda text: text.replace("\n", "  \n"),
        "emphasis": lambda text: text.replace("**", "__"),
        "no-emphasis": lambda text: text.replace("**", ""),
        "bold-numbers": lambda text: re.sub(r"(?<=value of )(\d+)", r"**\1**", text),
        "italic-words": lambda text: text.replace(" main bearing", " *main bearing*").replace(" mode", " *mode*"),
        "typographic-quotes": lambda text: text.replace('"', "“").replace("'", "’"),
        "narrow-spaces": lambda text: re.sub(r"(\d) (mm|N|h)\b", "\\1\u202f\\2", text),
        "no-space-before-unit": lambda text: re.sub(r"(\d) (mm|N|h|MHz|KB)\b", r"\1\2", text),
        "entities": lambda text: text.replace("·", "&middot;").replace("&m", "&m"),
        "escaped": lambda text: text.replace("_", r"\_").replace(".", r"\.", 3),
        "page-comments": lambda text: text.replace("\n\n", "\n\n<!-- page 3 -->\n\n", 2),
        "rules": lambda text: text.replace("\n\n", "\n\n---\n\n", 3),
        "math-units": lambda text: re.sub(r"(?<!\d)(\d++) N·m", r"$\1 \\mathrm{N \\cdot m}$", text, count=2),
        "soft-hyphens": lambda text: text.replace("bearing", "bear\u00ading").replace("Platform", "Plat\u00adform"),
        "hard-wrapped": lambda text: text_of(
            [textwrap.fill(b, 60) if kind_of(b) == "paragraph" else b for b in blocks_of(text)]
        ),
        "loose": lambda text: text.replace("\n\n", "\n\n\n\n"),
        "no-final-newline": str.rstrip,
    }
    by_kind: dict[str, tuple[str, Callable[[str], str]]] = {
        "closed-headings": ("heading", lambda block: f"{block} {'#' * 2}"),
        "bold-headings": ("heading", lambda block: re.sub(r"^(#+) (.*)$", r"\1 **\2**", block)),
        "headings-with-stop": ("heading", lambda block: re.sub(r"^(#+ \d[\d.]*) ", r"\1. ", block)),
        "star-bullets": ("list", lambda block: re.sub(r"^[-*] ", "* ", block, flags=re.MULTILINE)),
        "plus-bullets": ("list", lambda block: re.sub(r"^[-*] ", "+ ", block, flags=re.MULTILINE)),
        "ones": ("list", lambda block: re.sub(r"^\d+\. ", "1. ", block, flags=re.MULTILINE)),
        "brackets": ("list", lambda block: re.sub(r"^(\d+)\. ", r"\1) ", block, flags=re.MULTILINE)),
        "indented-lists": ("list", lambda block: _lines(block, lambda line: "  " + line)),
        "loose-lists": ("list", lambda block: block.replace("\n", "\n\n")),
        "padded-tables": ("table", _padded),
        "aligned-tables": ("table", lambda block: block.replace("---", ":---:")),
        "broken-cells": ("table", lambda block: re.sub(r"(?<=[a-z]) (?=[a-z])", "<br>", block)),
        "bold-header": ("table", lambda block: re.sub(r"^\| ([^|]+?) \|", r"| **\1** |", block)),
        "bold-captions": ("caption", lambda block: f"**{block}**"),
        "colon-captions": ("caption", lambda block: re.sub(r"^(\w+ \d+)\.", r"\1:", block)),
        "quoted-notes": ("paragraph", lambda block: f"> {block}" if block.startswith("**") else block),
        "no-code-language": ("code", lambda block: re.sub(r"^```\w+", "```", block)),
    }
    in_source: dict[str, Callable[[str], str]] = {
        "hyphenated": _hyphenated,
        "hyphenated-softly": partial(_hyphenated, hyphen="\u00ad"),
        "ligatures": lambda text: text.replace("ffi", "ﬃ").replace("fi", "ﬁ").replace("fl", "ﬂ"),
        "dashes": lambda text: text.replace("•", "–"),
        "other-bullets": lambda text: text.replace("•", "▪"),
        "wide-spaces": lambda text: text.replace(" ", "\u00a0"),
        "empty-lines": lambda text: text.replace(".\n", ".\n\n"),
        "page-numbers": partial(_page_ends, every=30, footer="Page {}", header=""),
        "page-of-pages": partial(_page_ends, every=30, footer="{} / 96", header=""),
        "running-header": partial(_page_ends, every=14, footer="Seite {}", header="Betriebsanleitung HX-200"),
        "numbered-header": partial(_page_ends, every=14, footer="Service manual {}", header=""),
    }
    kinds |= {name: partial(_answer, how=how) for name, how in in_answer.items()}
    kinds |= {name: partial(_blocks, kind=kind, how=how) for name, (kind, how) in by_kind.items()}
    kinds |= {name: partial(_source, how=how) for name, how in in_source.items()}
    kinds |= {
        "entities-of-html": partial(_answer, how=partial(escape, quote=False)),
        "added-title": _titled,
        "captions-below": _captions_below,
        "split-words": _split_words,
        "misspelt": _misspelt,
        "cells-below": _cells_below,
        "wrapped-cells": _wrapped_cells,
        "across-columns": _across_columns,
        "table-over-pages": _table_over_pages,
        "inferred-numbers": _unnumbered,
        "capital-headings": _capital_headings,
    }
    return tuple(Harmless(name=name, vary=vary) for name, vary in kinds.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One answer that was judged."""

    name: str
    family: str
    harmless: bool
    tuning: bool
    judged: Fidelity


def run(data: Path | None = None, *, per_kind: int = PER_KIND, tell: Tell = silent) -> Figures:
    """Measure what share of the damaged answers is seen, and what share of the faithful ones is blamed.

    Args:
        data: a directory with Markdown files at any depth; None for generated PDFs only.
        per_kind: windows that each kind of damage is tried on in each half.
        tell: is told what is missed, kind by kind.

    Returns:
        `detected`, `detected.FAMILY`, `false_alarms` and their numbers `n.…` on the held-out half, the same under
        `tuning.…`; `kinds` and `harmless_kinds` that could be tried; `milliseconds` per window of `words` words.

    Raises:
        ParameterError: `data` holds no Markdown file.
    """
    windows = [*generated_windows(), *(real_windows(data) if data is not None else ())]
    found = list(trials(windows, per_kind=per_kind))
    for trial in found:
        if trial.judged.faithful != trial.harmless:
            half = "tuning" if trial.tuning else "held out"
            why = "; ".join(f"{fault.kind} {fault.detail}" for fault in trial.judged.faults[:3])
            tell(f"{half}: {trial.name}: {why or 'missed'}")
    figures: dict[str, float] = {
        "windows": len(windows),
        "kinds": len({trial.name for trial in found if not trial.harmless}),
        "harmless_kinds": len({trial.name for trial in found if trial.harmless}),
    }
    figures |= shares([trial for trial in found if not trial.tuning])
    figures |= {f"tuning.{name}": value for name, value in shares([t for t in found if t.tuning]).items()}
    return figures | speed(windows)


def trials(windows: Sequence[AnswerWindow], *, per_kind: int) -> Iterator[Trial]:
    """Judge answers of every kind, on windows of the kind's half: even kinds and even documents are for tuning."""
    halves = [[window for window in windows if window.document % 2 == half] for half in (0, 1)]
    families: Counter[str] = Counter()
    kinds: list[tuple[AnswerDamage | Harmless, int, int]] = []
    for damage in damages():
        kinds.append((damage, families[damage.family] % 2, per_kind))
        families[damage.family] += 1
    kinds += [(kind, place % 2, HARMLESS_PER_KIND) for place, kind in enumerate(harmless_kinds())]
    for kind, half, most in kinds:
        changed = (kind.applied(window, window.document) for window in _spread(halves[half], kind.name))
        for window in islice(filter(None, changed), most):
            yield Trial(
                name=kind.name, family=kind.family, harmless=isinstance(kind, Harmless), tuning=half == 0,
                judged=judge(window),
            )  # fmt: skip
    for window in windows:
        tuning = window.document % 2 == 0
        yield Trial(name="truth", family="harmless", harmless=True, tuning=tuning, judged=judge(window))


def judge(window: AnswerWindow) -> Fidelity:
    """Return the fidelity of a window's answer."""
    return fidelity(window.source, window.answer, prompt=window.rules, previous=window.previous)


def shares(found: Iterable[Trial]) -> dict[str, float]:
    """Return the shares of one half; a family without trials is left out."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for trial in found:
        for name in ("false_alarms",) if trial.harmless else ("detected", f"detected.{trial.family}"):
            groups[name].append(not trial.judged.faithful)
    figures = {name: sum(group) / len(group) for name, group in groups.items()}
    return figures | {f"n.{name}": float(len(group)) for name, group in groups.items()}


def speed(windows: Sequence[AnswerWindow]) -> dict[str, float]:
    """Return how long a faithful window takes, in milliseconds, and how long it is: medians."""
    times = [1e3 * seconds_of(partial(judge, window)) for window in windows]
    return {"milliseconds": median(times), "words": float(median(len(window.source.split()) for window in windows))}


def generated_windows() -> Iterator[AnswerWindow]:
    """Give the windows of the sixteen generated manuals, read back from their PDFs as a model is shown them."""
    manuals = list(generated_pdfs())
    for number, manual in enumerate(manuals):
        parsed = parse_bytes(manual.pdf, f"{manual.name}.pdf")
        foreign = manuals[(number + 1) % len(manuals)].markdown
        before = ""
        for source, answer in divided(source_of(parsed).text, manual.markdown):
            yield _window(source, answer, foreign, number, before)
            before = answer


def real_windows(data: Path) -> Iterator[AnswerWindow]:
    """Give a window for each of some Markdown files below a directory, printed as text.

    Raises:
        ParameterError: there is no Markdown file.
    """
    files = sorted(data.rglob("*.md"))
    if not files:
        raise ParameterError("data", str(data), "a directory that holds Markdown files")
    chosen = files[:: max(1, len(files) // FILES)][:FILES]
    texts = [file.read_text(encoding="utf-8") for file in chosen]
    for number, text in enumerate(texts):
        yield _window(layout_text(text), text, texts[(number + 1) % len(texts)], number)


def _window(source: str, answer: str, foreign: str, document: int, previous: str = "") -> AnswerWindow:
    rules = prompts.load("markdown_format")
    rules_text = f"{rules.system}\n{rules.template}"
    return AnswerWindow(
        source=source, answer=answer, previous=previous, foreign=foreign, rules=rules_text, document=document
    )


def divided(source: str, markdown: str, words: int = WORDS) -> Iterator[tuple[str, str]]:
    """Give (source, answer) windows of whole blocks, cut where a line of the source begins a block."""
    lines = [line for line in source.splitlines() if source_words(line).words]
    there = source_words(source)
    blocks = blocks_of(markdown)
    sides = [[word.key for word in markdown_words(block).words] for block in blocks]
    aligned = align([word.key for word in there.words], [key for side in sides for key in side])
    begin = at = 0
    first = 0
    for place, side in enumerate(sides):
        line = there.words[aligned.here[at]].line if side and aligned.here[at] >= 0 else None
        if line is not None and there.lines[line].start - there.lines[begin].start >= words:
            yield "\n".join(lines[begin:line]), text_of(blocks[first:place])
            begin, first = line, place
        at += len(side)
    yield "\n".join(lines[begin:]), text_of(blocks[first:])


def _spread(windows: Sequence[AnswerWindow], name: str) -> Iterator[AnswerWindow]:
    """Give all windows, beginning at one that the name chooses."""
    start = sum(map(ord, name)) % max(1, len(windows))
    yield from windows[start:]
    yield from windows[:start]
