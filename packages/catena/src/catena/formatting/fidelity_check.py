"""Compare a model's Markdown with its source: recall, precision and order of words, and named faults."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import fsum, inf
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

from annotated_types import Ge, Le, Lt

from catena.formatting import fidelity_excuses as excuses
from catena.formatting.fidelity_alignment import Alignment, align, gaps
from catena.formatting.fidelity_words import ComparedLine, Kind, Word, Words, markdown_words, source_words
from catena.model.options import Checked
from catena.text.headings import heading_number
from catena.text.words import runs_of

SHINGLE = 4  # words; a run this long is no coincidence
_CHANGED = 6  # words; a longer difference is an omission and an invention
_LONGEST = 80  # characters that a fault quotes
_CUT = 3  # words missing at the end of a source, from where on an answer was cut
_SHARES = ("recall", "precision", "order")
_VALUES: frozenset[Kind] = frozenset(("number", "unit", "symbol", "negation"))


PageSource: TypeAlias = Literal["llm", "re-asked", "layout"]
"""The model's first answer was taken; its second; none, and the page is as the layout formatter wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with an answer: its kind and, in a few words, what and where.

    Kinds: "omission", "truncation", "changed-value", "changed-word", "invention", "repetition", "echo", "refusal",
    "translation", "summary", "order", "heading-drift", "heading-number", "fence", "merged-words", "low-recall",
    "low-precision".
    """

    kind: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityOptions(Checked):
    """Weights of words, thresholds, and differences that are let pass.

    A value, a negation or a word that is lost, changed or added is a fault at once: one digit may be all that matters
    on a page. The thresholds hold against the sum of what is let pass one by one (corrected spelling, added titles).

    Attributes:
        recall: least share of the source's weight that the answer must have.
        precision: least share of the answer's weight that must be the source's.
        slack: weight, in plain words, that may be lost or added in spite of the two, as a page may be short.
        number: weight of a number or a code with digits, in plain words.
        unit: weight of a unit behind a number, of a percent or comparison sign, in plain words.
        negation: weight of "not" and its like, in plain words.
        cell: factor on the weight of words in the cells of a table.
        stray_words: plain words that may be missing, added or changed in a window; values may never.
        added_titles: headings that a window may get where a part has none (a rule of HiQA's formatter).
        title_words: length of such a heading at most, in words.
        most_faults: of one kind that are listed; the last says how many more there are.
    """

    recall: Annotated[float, Ge(0), Le(1)] = 0.95
    precision: Annotated[float, Ge(0), Le(1)] = 0.95
    slack: Annotated[float, Ge(0), Lt(inf)] = 12.0
    number: Annotated[float, Ge(1), Lt(inf)] = 3.0
    unit: Annotated[float, Ge(1), Lt(inf)] = 2.0
    negation: Annotated[float, Ge(1), Lt(inf)] = 3.0
    cell: Annotated[float, Ge(1), Lt(inf)] = 1.5
    stray_words: Annotated[int, Ge(0)] = 0
    added_titles: Annotated[int, Ge(0)] = 2
    title_words: Annotated[int, Ge(1)] = 8
    most_faults: Annotated[int, Ge(1)] = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """The fidelity of one answer.

    Attributes:
        recall: share of the source's weight that the answer has; page furniture does not count.
        precision: share of the answer's weight that the source has.
        order: share of the weight of the shared words that is in the source's order, or is out of it for a good
            reason (a caption put above its table, a wrapped cell, columns that were read line by line).
        missing: what the source says and the answer does not, as printed, in the order of the source.
        invented: what the answer says and the source does not, in the order of the answer; additions that are let
            pass (a title, a chapter number) included.
        faults: why the answer should not be taken; empty when it should.
    """

    recall: float
    precision: float
    order: float
    missing: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def faithful(self) -> bool:
        """Tell if nothing is wrong with the answer."""
        return not self.faults

    @property
    def worst(self) -> float:
        """Return the least of the three shares."""
        return min(self.recall, self.precision, self.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFidelity:
    """The fidelity of the Markdown of one page.

    Attributes:
        page: counted from 1.
        recall, precision, order: shares from 0 to 1, as in `Fidelity`, of the answer that was judged last.
        state: whose text the page has in the end.
        faults: what was wrong with the answers that were not taken; kept although the page was mended.
    """

    page: int
    recall: float
    precision: float
    order: float
    state: PageSource = "llm"
    faults: tuple[Fault, ...] = ()

    @property
    def worst(self) -> float:
        """Return the least of the three shares."""
        return min(self.recall, self.precision, self.order)

    def as_json(self) -> dict[str, Any]:
        """Return the page as an object of `FidelityReport.as_json`."""
        shares = {name: round(getattr(self, name), 6) for name in _SHARES}
        return {"page": self.page, **shares, "state": self.state, "faults": [asdict(fault) for fault in self.faults]}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> PageFidelity:
        """Return the page that `as_json` gave; KeyError, TypeError or ValueError where it is another object."""
        shares = {name: float(kept[name]) for name in _SHARES}
        faults = tuple(Fault(kind=fault["kind"], detail=fault["detail"]) for fault in kept["faults"])
        return cls(page=int(kept["page"]), **shares, state=kept["state"], faults=faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityReport:
    """The fidelity of one document.

    Attributes:
        document_id: of the document in the library.
        source: where it was read from.
        pages: in order.
    """

    document_id: str
    source: str
    pages: tuple[PageFidelity, ...]

    def worst(self, n: int = 5) -> tuple[PageFidelity, ...]:
        """Return at most `n` pages, the least faithful first; equal ones in order."""
        return tuple(sorted(self.pages, key=lambda page: (page.worst, page.page))[:n])

    @property
    def states(self) -> dict[PageSource, int]:
        """Return the number of pages in each state."""
        counts = Counter(page.state for page in self.pages)
        return {"llm": counts["llm"], "re-asked": counts["re-asked"], "layout": counts["layout"]}

    def as_metadata(self) -> dict[str, int | float]:
        """Return what a document's metadata say of it, `pages_by_model`, …; {} where no model wrote a page.

        `fidelity_recall`, `fidelity_precision` and `fidelity_order` are those of the least faithful answer.
        """
        if not self.pages:
            return {}
        counts = self.states
        return {
            "pages_by_model": counts["llm"],
            "pages_asked_again": counts["re-asked"],
            "pages_from_layout": counts["layout"],
            **{f"fidelity_{name}": _summary(getattr(page, name) for page in self.pages)["min"] for name in _SHARES},
        }

    def as_json(self) -> dict[str, Any]:
        """Return a stable object of plain JSON values.

        `{"version": 1, "document_id": str, "source": str, "summary": {"pages": int, "states": {"llm": int,
        "re-asked": int, "layout": int}, "recall": {"mean": float, "min": float}, "precision": …, "order": …,
        "faults": {kind: count}}, "worst": [page, …], "pages": [{"page": int from 1, "recall": float, "precision":
        float, "order": float, "state": str, "faults": [{"kind": str, "detail": str}, …]}, …]}`. Shares are rounded
        to six places; those of a document without pages are 1. `worst` holds at most five page numbers.
        """
        return {
            "version": 1, "document_id": self.document_id, "source": self.source,
            "summary": {
                "pages": len(self.pages), "states": dict(self.states),
                **{share: _summary(getattr(page, share) for page in self.pages) for share in _SHARES},
                "faults": dict(sorted(Counter(fault.kind for page in self.pages for fault in page.faults).items())),
            },
            "worst": [page.page for page in self.worst()], "pages": [page.as_json() for page in self.pages],
        }  # fmt: skip

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> FidelityReport:
        """Return the report that `as_json` gave; KeyError, TypeError or ValueError where it is another object."""
        pages = tuple(map(PageFidelity.from_json, kept["pages"]))
        return cls(document_id=kept.get("document_id", ""), source=str(kept["source"]), pages=pages)


def _summary(values: Iterable[float]) -> dict[str, float]:
    shares = tuple(values) or (1.0,)
    return {"mean": round(sum(shares) / len(shares), 6), "min": round(min(shares), 6)}


class _Found(NamedTuple):
    """A fault, and the word of the source at which it was found, from 0."""

    kind: str
    detail: str
    at: int
    words: int = 0  # plain words that it is about; 0 where a value or more is at stake


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """An answer laid beside its source: what is matched, and which differences are let pass."""

    source: Words
    answer: Words
    aligned: Alignment
    gaps: tuple[tuple[range, range], ...]  # what lies between neighbouring matches on both sides
    dropped: frozenset[int]  # words of the source that are page furniture or said twice
    marks: tuple[frozenset[int], frozenset[int]]  # small marks of source and answer
    titles: frozenset[int]  # words of the answer
    numbers: frozenset[int]
    settled: frozenset[int]  # moved words of the answer
    spelling: tuple[frozenset[int], frozenset[int]]  # corrected words

    def lost(self, index: int) -> bool:
        """Tell if a word of the source is missing without an excuse."""
        excused = index in self.dropped or index in self.marks[0] or index in self.spelling[0]
        return self.aligned.there[index] < 0 and not excused

    def new(self, index: int) -> bool:
        """Tell if a word of the answer is added without an excuse."""
        excused = any(index in words for words in (self.marks[1], self.titles, self.numbers, self.spelling[1]))
        return self.aligned.here[index] < 0 and not excused


def fidelity(
    source: str,
    markdown: str,
    options: FidelityOptions = FidelityOptions(),
    *,
    prompt: str = "",
    previous: str = "",
    furniture: Sequence[str] = (),
) -> Fidelity:
    """Compare the words of a window with the Markdown that a model made of them.

    `recall = w(shared) / w(source)`, `precision = w(shared) / w(answer)`, `order = w(in order) / w(shared)`, where w
    sums the weights of words. Words are matched by an alignment anchored at runs that both sides have once, so that
    a value beside another label is a difference although both sides have the same words.

    Args:
        source: the words as the parser saw them: printed lines, one below the other; empty lines between pages help
            to know running headers.
        markdown: the model's answer.
        options: weights, and what is let pass.
        prompt: the rules that the model was given, to know an echo of them.
        previous: the answer for the window before, to know a drift of heading levels.
        furniture: lines known to be running headers or footers, which may be dropped anywhere.

    Returns:
        Shares from 0 to 1, and the faults in the order of the source.
    """
    side = _compare(source_words(source), markdown_words(markdown), options, furniture)
    return _shares(side, options, _faults(side, options, prompt, markdown_words(previous, headings_only=True)))


def _compare(source: Words, answer: Words, options: FidelityOptions, furniture: Sequence[str]) -> _Comparison:
    aligned = _aligned(source, answer)
    if any(aligned.moved):
        reread = excuses.unread_across(source, answer)
        if reread is not None:
            source, aligned = reread, _aligned(reread, answer)
    dropped = excuses.furniture(source, aligned, furniture) | excuses.repeated_heads(source, answer, aligned)
    titles, numbers = excuses.added_titles(answer, aligned, options.added_titles, options.title_words)
    between = tuple(gaps(aligned))
    for there, here in between:
        if any(source.words[i].kind == "number" and aligned.there[i] < 0 and i not in dropped for i in there):
            numbers -= set(here)  # the source has another number in its place
    return _Comparison(
        source=source, answer=answer, aligned=aligned, gaps=between, dropped=dropped,
        marks=excuses.small_marks(source, answer, aligned, between), titles=titles, numbers=numbers,
        settled=excuses.settled_moves(source, answer, aligned),
        spelling=_corrected(source, answer, aligned, between),
    )  # fmt: skip


def _aligned(source: Words, answer: Words) -> Alignment:
    starts = frozenset(line.start for line in source.lines)
    return align([word.key for word in source.words], [word.key for word in answer.words], starts)


def _corrected(
    source: Words, answer: Words, aligned: Alignment, between: Sequence[tuple[range, range]]
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the words, on both sides, that differ by one letter only and have the same place."""
    there: set[int] = set()
    here: set[int] = set()
    for lost, new in between:
        if len(lost) == len(new) <= 3:
            for one, other in zip(lost, new, strict=True):
                free = aligned.there[one] < 0 and aligned.here[other] < 0
                words = source.words[one], answer.words[other]
                if free and words[0].kind == words[1].kind == "word" and excuses.similar(words[0].key, words[1].key):
                    there.add(one)
                    here.add(other)
    return frozenset(there), frozenset(here)


def _faults(side: _Comparison, options: FidelityOptions, prompt: str, previous: Words) -> list[Fault]:
    found = list(_residues(side, prompt))
    if sum(one.words for one in found) <= options.stray_words:
        found = [one for one in found if not one.words]
    found += [_Found(fault.kind, fault.detail, 0) for fault in _of_the_whole(side, previous)]
    return [Fault(kind=one.kind, detail=one.detail) for one in sorted(found, key=lambda one: one.at)]


def _residues(side: _Comparison, prompt: str) -> Iterator[_Found]:
    """Give what is lost, changed, added or moved, gap by gap."""
    differences = [
        ([i for i in there if side.lost(i)], [i for i in here if side.new(i)], there.start)
        for there, here in side.gaps
    ]
    known: frozenset[tuple[str, ...]] = frozenset()
    rules = known
    if any(new for _, new, _ in differences):
        known = shingles([word.key for word in side.source.words])
        rules = shingles([word.key for word in markdown_words(prompt).words]) - known
    for lost, new, at in differences:
        yield from _residue(side, lost, new, at, (known, rules))
    yield from _disorder(side)
    yield from _merged(side)
    yield from _changed_units(side)


def _residue(
    side: _Comparison,
    lost: list[int],
    new: list[int],
    at: int,
    known: tuple[frozenset[tuple[str, ...]], frozenset[tuple[str, ...]]],
) -> Iterator[_Found]:
    gone = [side.source.words[i] for i in lost]
    come = [side.answer.words[i] for i in new]
    plain = all(word.kind not in _VALUES for word in (*gone, *come))
    if gone and come and max(len(gone), len(come)) <= _CHANGED:
        kind, words = ("changed-word", max(len(gone), len(come))) if plain else ("changed-value", 0)
        yield _Found(kind, f"{_phrase(gone)} → {_phrase(come)}", lost[0], words)
        return
    if gone:
        cut = len(gone) >= _CUT and not come and lost[-1] == len(side.source.words) - 1
        yield _Found("truncation" if cut else "omission", _phrase(gone), lost[0], len(gone) if plain else 0)
    if come:
        kind = origin([word.key for word in come], *known)
        yield _Found(kind, _phrase(come), at, len(come) if plain else 0)


def _disorder(side: _Comparison) -> Iterator[_Found]:
    for run in excuses.moved_runs(side.aligned):
        if not side.settled.issuperset(run):
            yield _Found("order", _phrase([side.answer.words[i] for i in run]), side.aligned.here[run[0]])


def _merged(side: _Comparison) -> Iterator[_Found]:
    """Give words that the answer joined although both are words of the source elsewhere and the whole is none."""
    words, there = side.source.words, side.aligned.there
    times = Counter(there)
    joined: dict[int, list[int]] = defaultdict(list)
    for one, place in enumerate(there):
        if place >= 0 and times[place] > 1:
            joined[place].append(one)
    counts = Counter(word.key for word in words)
    counts.subtract(words[one].key for parts in joined.values() for one in parts)
    for place, parts in joined.items():
        broken = any(side.source.lines[words[one].line].broken for one in parts[:-1])
        whole = side.answer.words[place].key
        if not broken and counts[whole] <= 0 and all(counts[words[one].key] > 0 for one in parts):
            detail = f"{_phrase([words[one] for one in parts])} → {whole!r}"
            yield _Found("merged-words", detail, parts[0])


def _changed_units(side: _Comparison) -> Iterator[_Found]:
    """Give units whose capitals changed: "mA" and "MA" are not the same; titles may change theirs."""
    for index, place in enumerate(side.aligned.here):
        word = side.answer.words[index]
        if word.kind != "unit" or place < 0 or side.answer.lines[word.line].kind == "heading":
            continue
        printed = side.source.words[place]
        capitals = side.source.lines[printed.line].text.isupper()
        if printed.key == word.key and printed.text != word.text and not capitals:
            yield _Found("changed-value", f"{printed.text} → {word.text}", place)


def _of_the_whole(side: _Comparison, previous: Words) -> Iterator[Fault]:
    source, answer, aligned = side.source.words, side.answer.words, side.aligned
    plain = [i for i, word in enumerate(source) if word.kind not in _VALUES and i not in side.dropped]
    values = [i for i, word in enumerate(source) if word.kind in _VALUES and i not in side.dropped]
    kept = sum(aligned.there[i] >= 0 for i in plain)
    if plain:
        fault = wholesale(
            kept / len(plain),
            sum(place >= 0 for place in aligned.here) / max(1, len(answer)),
            sum(aligned.there[i] >= 0 for i in values) / len(values) if values else 0.0,
            len(answer) / len(source),
        )
        if fault:
            yield fault
    if side.answer.fenced:
        yield Fault(kind="fence", detail="the whole answer is one code block")
    yield from heading_faults(side.answer, previous)
    yield from added_numbers(side.answer, previous, side.numbers)


def _shares(side: _Comparison, options: FidelityOptions, faults: Sequence[Fault]) -> Fidelity:
    source, answer, aligned = side.source, side.answer, side.aligned
    there = [i for i in range(len(source.words)) if i not in side.dropped]
    here = range(len(answer.words))
    in_row = {i: answer.lines[answer.words[i].line].kind == "row" for i in here}
    in_table = {source.words[aligned.here[i]].line for i in here if aligned.here[i] >= 0 and in_row[i]}
    values = {"number": options.number, "unit": options.unit, "symbol": options.unit, "negation": options.negation}
    weights = dict.fromkeys(get_args(Kind), 1.0) | values

    def weight(word: Word, table: bool) -> float:
        return weights[word.kind] * options.cell if table else weights[word.kind]

    printed = {i: weight(source.words[i], source.words[i].line in in_table) for i in there}
    said = {i: weight(answer.words[i], in_row[i]) for i in here}
    gone, come = side.marks
    recall = _share((printed[i] for i in there if aligned.there[i] >= 0 or i in gone), printed.values())
    precision = _share((said[i] for i in here if aligned.here[i] >= 0 or i in come), said.values())
    shared = [i for i in here if aligned.here[i] >= 0]
    ordered = (said[i] for i in shared if not aligned.moved[i] or i in side.settled)
    order = _share(ordered, (said[i] for i in shared))
    faults = list(faults)
    for kind, value, least, weights_of in (
        ("low-recall", recall, options.recall, printed),
        ("low-precision", precision, options.precision, said),
    ):
        if not faults and value < least and (1 - value) * fsum(weights_of.values()) > options.slack:
            faults.append(Fault(kind=kind, detail=f"{value:.3f} is below {least:g}"))
    return Fidelity(
        recall=recall, precision=precision, order=order,
        missing=tuple(_phrases(source, [i for i in there if side.lost(i)])),
        invented=tuple(_phrases(answer, [i for i in here if aligned.here[i] < 0 and i not in come])),
        faults=first_of_each(faults, options.most_faults),
    )  # fmt: skip


def _share(part: Iterable[float], whole: Iterable[float]) -> float:
    total = fsum(whole)
    return fsum(part) / total if total else 1.0


def _phrases(side: Words, indexes: Sequence[int]) -> Iterator[str]:
    """Give runs of neighbouring words as printed."""
    for run in runs_of(indexes, lambda one, other: other == one + 1):
        yield side.phrase(run[0], run[-1] + 1)


def _phrase(words: Sequence[Word]) -> str:
    return repr(_short(" ".join(word.text for word in words)))


def shingles(keys: Sequence[str], size: int = SHINGLE) -> frozenset[tuple[str, ...]]:
    """Return every run of `size` words."""
    return frozenset(tuple(keys[index : index + size]) for index in range(len(keys) - size + 1))


def origin(run: Sequence[str], known: frozenset[tuple[str, ...]], prompt: frozenset[tuple[str, ...]]) -> str:
    """Name an added run: said twice or in a loop ("repetition"), the rules ("echo"), or an "invention".

    Args:
        run: the words.
        known: the runs of `SHINGLE` words of the source.
        prompt: the same of the rules that the model was given.
    """
    own = shingles(run) or frozenset([tuple(run)])
    if len(run) > 2 * SHINGLE and len(own) <= len(run) / 2:
        return "repetition"
    if len(own & prompt) > 0.5 * len(own):
        return "echo"
    return "repetition" if len(own & known) > 0.5 * len(own) else "invention"


def wholesale(recall: float, precision: float, value_recall: float, length: float) -> Fault | None:
    """Name the fault of an answer that as a whole says something else than its source.

    Only shares are looked at, so that a refusal in any language is one: few words, and hardly any the source's.

    Args:
        recall: share of the source's plain words that the answer has, from 0 to 1.
        precision: share of the answer's words that are the source's, from 0 to 1.
        value_recall: the recall of numbers, codes and units; 0 in a source without any.
        length: words of the answer per word of the source.
    """
    if recall < 0.2 and precision < 0.6 and length < 0.5 and value_recall < 0.5:
        return Fault(kind="refusal", detail=f"{recall:.0%} of the words, {length:.0%} of the length")
    if recall < 0.4 and length >= 0.5 and value_recall - recall > 0.3:
        return Fault(kind="translation", detail=f"{recall:.0%} of the words, but {value_recall:.0%} of the values")
    if recall < 0.75 and length < 0.75 and precision < 0.98:
        return Fault(kind="summary", detail=f"{recall:.0%} of the words in {length:.0%} of the length")
    return None


def heading_faults(answer: Words, previous: Words) -> Iterator[Fault]:
    """Give headings whose level does not agree with their number, with each other or with the answer before.

    One depth of number has one level ("2.1" and "3.4" are alike), a deeper one no higher level, and a heading that
    is in the overlap of two windows has the same level in both.
    """
    known: dict[tuple[str, ...], int] = {}
    levels: dict[int, int] = {}
    for line, depth, keys in _headings(previous):
        known[keys] = line.level
        if depth:
            levels.setdefault(depth, line.level)
    for line, depth, keys in _headings(answer):
        expected = levels.setdefault(depth, line.level) if depth else known.get(keys, line.level)
        if expected != line.level:
            detail = f"{_short(line.text)!r} is of level {line.level}, not {expected}"
            yield Fault(kind="heading-drift", detail=detail)
    for shallow, deep in pairwise(sorted(levels)):
        if levels[deep] < levels[shallow]:
            detail = f"numbers of depth {deep} have level {levels[deep]}, those of depth {shallow} {levels[shallow]}"
            yield Fault(kind="heading-drift", detail=detail)


def number_of(text: str) -> tuple[int, ...] | None:
    """Return the number that opens a heading, letters as their place in the alphabet, or None."""
    found = heading_number(text)
    if found is None or not (found.key[0].isdigit() or len(found.key) > 1 == len(found.key[0])):
        return None
    return tuple(int(part) if part.isdigit() else ord(part) - 64 for part in found.key)


def added_numbers(answer: Words, previous: Words, added: Collection[int]) -> Iterator[Fault]:
    """Give added heading numbers that do not go on with the heading numbers before them.

    Args:
        answer: the words of the answer.
        previous: those of the answer before, whose headings come first.
        added: word indexes of the numbers in the answer that the source does not have.
    """
    last: tuple[int, ...] = ()
    for words, checked in ((previous, False), (answer, True)):
        for line in words.lines:
            number = number_of(line.text) if line.kind == "heading" else None
            if number is None:
                continue
            following = [(*last, 1), *((*last[:size], last[size] + 1) for size in range(len(last)))]
            if checked and line.start in added and last and number not in following:
                detail = f"{_short(line.text)!r} cannot follow {'.'.join(map(str, last))}"
                yield Fault(kind="heading-number", detail=detail)
            last = number


def _headings(words: Words) -> Iterator[tuple[ComparedLine, int, tuple[str, ...]]]:
    """Give (line, depth of its number or 0, keys of its words) of each heading."""
    for line in words.lines:
        if line.kind == "heading":
            number = number_of(line.text)
            yield line, len(number or ()), tuple(word.key for word in words.words[line.start : line.end])


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def first_of_each(faults: Iterable[Fault], most: int) -> tuple[Fault, ...]:
    """Return the faults in order, at most `most` of a kind; the last one says how many more there are."""
    found = tuple(faults)
    totals = Counter(fault.kind for fault in found)
    seen: Counter[str] = Counter()
    kept = []
    for fault in found:
        seen[fault.kind] += 1
        if seen[fault.kind] == most < totals[fault.kind]:
            kept.append(Fault(kind=fault.kind, detail=f"{fault.detail} and {totals[fault.kind] - most} more"))
        elif seen[fault.kind] <= most:
            kept.append(fault)
    return tuple(kept)
