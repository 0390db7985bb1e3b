"""The fidelity benchmark: which damaged answers of a formatting model are seen, and which right ones are blamed.

Windows come from generated PDFs, whose Markdown is known, and from the Markdown files below a directory of the layout
`similar_docs`, printed as text. Kinds of damage and documents are both cut into two halves: the check was made on one
(`tuning`), and the figures without a prefix are of the other, whose kinds and documents had no say in it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from catena import prompts
from catena.formatting import Fidelity, FidelityOptions, align, fidelity, markdown_words, source_of, source_words
from catena.model import ParameterError
from catena.parsing import parse_bytes
from catena_bench.damaged_answers import Window, blocks_of, damages, text_of
from catena_bench.generated_pdfs import generated_pdfs
from catena_bench.harmless_answers import harmless_kinds, layout_text

WORDS = 900  # of a window at least, then up to the end of the block
DEFAULTS = FidelityOptions()
FILES = 24  # of a directory at most, spread over it
PER_KIND = 4  # windows that each kind is tried on
HARMLESS_PER_KIND = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One answer that was judged."""

    name: str
    family: str
    harmless: bool
    tuning: bool
    judged: Fidelity


def run(
    data: Path | None = None,
    *,
    per_kind: int = PER_KIND,
    options: FidelityOptions = DEFAULTS,
    tell: Callable[[str], None] = lambda message: None,
) -> dict[str, float]:
    """Measure what share of the damaged answers is seen, and what share of the faithful ones is blamed.

    Args:
        data: a directory with Markdown files at any depth; None for generated PDFs only.
        per_kind: windows that each kind of damage is tried on in each half.
        options: of the check.
        tell: is told what is missed, kind by kind.

    Returns:
        `detected`, `detected.FAMILY`, `false_alarms` and their numbers `n.…` on the held-out half, the same under
        `tuning.…`; `kinds` and `harmless_kinds` that could be tried; `milliseconds` per window of `words` words.

    Raises:
        ParameterError: `data` holds no Markdown file.
    """
    windows = [*generated_windows(), *(real_windows(data) if data is not None else ())]
    found = list(trials(windows, per_kind=per_kind, options=options))
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
    return figures | speed(windows, options)


def trials(windows: Sequence[Window], *, per_kind: int, options: FidelityOptions) -> Iterator[Trial]:
    """Judge answers of every kind, on windows of the kind's half: even kinds and even documents are for tuning."""
    halves = [[window for window in windows if window.document % 2 == half] for half in (0, 1)]
    families: dict[str, int] = defaultdict(int)
    for damage in damages():
        half = families[damage.family] % 2
        families[damage.family] += 1
        done = 0
        for window in _spread(halves[half], damage.name):
            answer = damage.applied(window, window.document)
            if answer is not None and done < per_kind:
                done += 1
                judged = judge(replace(window, answer=answer), options)
                yield Trial(name=damage.name, family=damage.family, harmless=False, tuning=half == 0, judged=judged)
    for place, kind in enumerate(harmless_kinds()):
        done = 0
        for window in _spread(halves[place % 2], kind.name):
            varied = kind.applied(window, window.document)
            if varied is not None and done < HARMLESS_PER_KIND:
                done += 1
                judged = judge(varied, options)
                yield Trial(name=kind.name, family="harmless", harmless=True, tuning=place % 2 == 0, judged=judged)
    for window in windows:
        tuning = window.document % 2 == 0
        yield Trial(name="truth", family="harmless", harmless=True, tuning=tuning, judged=judge(window, options))


def judge(window: Window, options: FidelityOptions) -> Fidelity:
    """Return the fidelity of a window's answer."""
    return fidelity(window.source, window.answer, options, prompt=window.rules, previous=window.previous)


def shares(found: Iterable[Trial]) -> dict[str, float]:
    """Return the shares of one half; a family without trials is left out."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for trial in found:
        seen = not trial.judged.faithful
        if trial.harmless:
            groups["false_alarms"].append(seen)
        else:
            groups["detected"].append(seen)
            groups[f"detected.{trial.family}"].append(seen)
    figures = {name: sum(group) / len(group) for name, group in groups.items()}
    return figures | {f"n.{name}": float(len(group)) for name, group in groups.items()}


def speed(windows: Sequence[Window], options: FidelityOptions) -> dict[str, float]:
    """Return how long a faithful window takes, in milliseconds, and how long it is: medians."""
    times = []
    for window in windows:
        start = time.perf_counter()
        judge(window, options)
        times.append(1e3 * (time.perf_counter() - start))
    return {"milliseconds": median(times), "words": float(median(len(window.source.split()) for window in windows))}


def generated_windows() -> Iterator[Window]:
    """Give the windows of the sixteen generated manuals, read back from their PDFs as a model is shown them."""
    rules = prompts.load("markdown_format")
    manuals = list(generated_pdfs())
    for number, manual in enumerate(manuals):
        parsed = parse_bytes(manual.pdf, f"{manual.name}.pdf")
        foreign = manuals[(number + 1) % len(manuals)].markdown
        before = ""
        for source, answer in divided(source_of(parsed).text, manual.markdown):
            yield Window(
                source=source,
                answer=answer,
                previous=before,
                foreign=foreign,
                rules=f"{rules.system}\n{rules.template}",
                document=number,
            )
            before = answer


def real_windows(data: Path) -> Iterator[Window]:
    """Give a window for each of some Markdown files below a directory, printed as text.

    Raises:
        ParameterError: there is no Markdown file.
    """
    files = sorted(data.rglob("*.md"))
    if not files:
        raise ParameterError("data", str(data), "a directory that holds Markdown files")
    rules = prompts.load("markdown_format")
    chosen = files[:: max(1, len(files) // FILES)][:FILES]
    texts = [file.read_text(encoding="utf-8") for file in chosen]
    for number, text in enumerate(texts):
        yield Window(
            source=layout_text(text),
            answer=text,
            foreign=texts[(number + 1) % len(texts)],
            rules=f"{rules.system}\n{rules.template}",
            document=number,
        )


def divided(source: str, markdown: str, words: int = WORDS) -> Iterator[tuple[str, str]]:
    """Give (source, answer) windows of whole blocks, cut where a line of the source begins a block."""
    lines = [line for line in source.splitlines() if source_words([line]).words]
    there = source_words([source])
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


def _spread(windows: Sequence[Window], name: str) -> Iterator[Window]:
    """Give all windows, beginning at one that the name chooses."""
    start = sum(map(ord, name)) % max(1, len(windows))
    yield from windows[start:]
    yield from windows[:start]
