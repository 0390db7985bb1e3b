"""Ask ordinary questions of ordinary documents: what each method finds in its first k pieces and within tokens.

`run` reads folders of the layout "everyday": `docs/*`, and `questions.jsonl` with `qid`, `question`, `docs` (file
names of the documents that answer it) and `evidence` (a list of `{doc, text}`, each text a slice of that file).

An evidence is found when at least 90% of its visible characters lie in the union of the returned spans of its
document, at any of the places where its text stands there. `filings` asks of PDFs whose evidence pages are known.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from catena import Document, ParameterError
from catena.evaluation import Span, compare, coverage
from catena.retrieval import within_tokens
from catena_bench.collection import of_layout, rows
from catena_bench.figures import ROUNDS, Figures, Tell, silent
from catena_bench.ranked_pieces import Corpus, Method, alone, as_ranking, asking, frameworks, hits, usual_pipelines
from catena_bench.ranked_pieces import minilm as minilm_embedder
from catena_bench.segments import tokens_of
from catena_bench.views_retrievers import Dense

ENOUGH = 0.9  # of an evidence's characters
BUDGETS = (500, 1_500)  # tokens
WHOLE = BUDGETS[0]
MEASURES = ("r1", "r5", "r10", "doc1", "doc5", *(f"t{budget}" for budget in BUDGETS), f"w{WHOLE}")
PAGE_BUDGETS = (1_000, 3_000)  # tokens
CUTOFFS = (1, 3, 5, 10)
AGAINST = ("default", "default_minilm")  # whose differences from all others are told
_LAYOUT = "a folder with docs and questions.jsonl, or a folder of such"


@dataclass(frozen=True, kw_only=True)
class EverydayQuestion:
    """A question, and what answers it.

    Attributes:
        documents: ids of those that hold the answer.
        evidence: for each piece of evidence the spans of the corpus where its text stands; none where it is lost.
    """

    text: str
    documents: frozenset[str]
    evidence: tuple[tuple[Span, ...], ...]


def run(data: Path, *, minilm: bool = False, questions: int | None = None, tell: Tell = silent) -> Figures:
    """Index each set, ask its questions by every method, and return the figures; see `ranked_pieces`.

    Args:
        data: a folder of the layout, or a folder of such folders.
        minilm: ask the methods too that need all-MiniLM-L6-v2.
        questions: ask only so many of each set.
        tell: is told how far the run is.

    Returns:
        Means over the questions of a set, in [0, 1]:
        `<set>.<method>.r1`, `.r5`, `.r10`: the share of a question's evidence found in the first k pieces;
        `.doc1`, `.doc5`: the share of its documents among those of the first k pieces (not: the first k documents);
        `.t500`, `.t1500`: the share of its evidence found in so many tokens of the ranking, the last piece cut;
        `.w500`: the same, whole pieces only, one that does not fit passed over for shorter ones;
        `mean.<method>.<measure>`: the mean over the sets;
        `<set>.default_minus.<method>.<measure>.mean`, `.low`, `.high`: the paired difference and its 95% interval,
        and `default_minilm_minus` alike; `<set>.questions`, `<set>.skipped` (without documents or evidence),
        `<set>.documents`, `<set>.chunks` and `<set>.lost` (evidence whose text stands nowhere as it was parsed).

    Raises:
        ParameterError: there is no such folder, or a file or a field of one is missing.
        MissingExtraError: MiniLM is asked for, and its package is not installed.
    """
    embedder = minilm_embedder() if minilm else None
    found: dict[str, float] = {}
    means: defaultdict[str, list[float]] = defaultdict(list)
    for name, folder in find_sets(data).items():
        of_set, values = _of_set(folder, embedder, questions, partial(_told_of, tell, name))
        for (method, measure), each in values.items():
            of_set[f"{method}.{measure}"] = fmean(each)
            means[f"mean.{method}.{measure}"].append(fmean(each))
        found |= {f"{name}.{key}": value for key, value in (of_set | differences(values)).items()}
    return found | {key: fmean(each) for key, each in means.items()}


def _told_of(tell: Tell, name: str, message: str) -> None:
    tell(f"{name}: {message}")


Row = tuple[str, str, frozenset[str], tuple[tuple[str, str], ...]]
"""A question's id and text, its documents, and (document, text) of its evidence."""


def _row(row: Mapping[str, Any]) -> Row:
    evidence = tuple((each["doc"], each["text"]) for each in row["evidence"] or ())
    return str(row["qid"]), row["question"], frozenset(row["docs"] or ()), evidence


def _of_set(folder: Path, embedder: Dense | None, most: int | None, tell: Tell) -> tuple[Figures, Values]:
    """Return the counts of one set, and what was measured."""
    with of_layout(folder, "rows of questions with qid, question, docs, and evidence with doc and text"):
        asked = [_row(each) for each in rows(folder / "questions.jsonl")]
    answered = [row for row in asked if row[2] and row[3]]
    if not answered:
        raise ParameterError("data", str(folder), "questions with docs and evidence")
    files = sorted(path for path in (folder / "docs").iterdir() if path.is_file())
    with asking(files, embedder, WHOLE, tell) as (corpus, own):
        some = [_question(row, corpus, folder) for row in answered[:most]]
        methods = own | usual_pipelines(corpus, embedder, tell)
        values = ask_all(methods, some, partial(measured, corpus=corpus), tell)
    lost = sum(not places for question in some for places in question.evidence)
    skipped = len(asked) - len(answered)
    return {"questions": len(some), "skipped": skipped, "lost": lost, **corpus.counts}, values


def find_sets(data: Path) -> dict[str, Path]:
    """Return the folder itself where it holds questions, else all folders in it that do, by name.

    Raises:
        ParameterError: there is none, or one has no documents beside its questions.
    """
    below = sorted(data.iterdir()) if data.is_dir() else []
    folders = [each for each in (data, *below) if (each / "questions.jsonl").is_file()]
    folders = folders[:1] if data in folders else folders
    for folder in folders or [data]:
        docs = folder / "docs"
        if not docs.is_dir() or not any(docs.iterdir()):
            raise ParameterError("data", str(folder), _LAYOUT)
    return {folder.resolve().name: folder for folder in folders}


def _question(row: Row, corpus: Corpus, folder: Path) -> EverydayQuestion:
    """Return a question with the places of its evidence.

    Raises:
        ParameterError: a document that it names is not there.
    """
    name, text, documents, evidence = row
    for document in {*documents, *(of for of, _ in evidence)}:
        if not (folder / "docs" / document).is_file():
            raise ParameterError(f"document of question {name}", document, f"a file in {folder / 'docs'}")
    places = tuple(_places(corpus, of, slice_of) for of, slice_of in evidence)
    return EverydayQuestion(text=text, documents=documents, evidence=places)


def _places(corpus: Corpus, name: str, text: str) -> tuple[Span, ...]:
    """Return where a text stands in a document, white space of any kind alike; nowhere if that was not indexed."""
    if name not in corpus.entries or not text.strip():
        return ()
    start = corpus.starts[name]
    found = re.finditer(r"\s+".join(map(re.escape, text.split())), corpus.entries[name].document.text)
    return tuple((start + each.start(), start + each.end()) for each in found)


def measured(question: EverydayQuestion, method: Method, corpus: Corpus) -> dict[str, float]:
    """Return the measures of one method on one question."""
    first, within = method.asked(question.text)

    def found(spans: Iterable[Span]) -> float:
        union = list(spans)
        return fmean(
            any(coverage(union, [place], corpus.text) >= ENOUGH for place in places) for places in question.evidence
        )

    documents = {k: {each.document_id for each in first[:k]} & question.documents for k in (1, 5)}
    whole = hits(within_tokens(as_ranking(within(WHOLE)), WHOLE, tokens_of))
    return {
        **{f"r{k}": found(corpus.spans(first[:k])) for k in (1, 5, 10)},
        **{f"doc{k}": len(each) / len(question.documents) for k, each in documents.items()},
        **{f"t{budget}": found(corpus.read(within(budget), budget)) for budget in BUDGETS},
        f"w{WHOLE}": found(corpus.spans(whole)),
    }


Values = Mapping[tuple[str, str], Sequence[float]]
"""By method and measure, one value per question."""


def ask_all(
    methods: Mapping[str, Method],
    questions: Sequence[Any],
    measure: Callable[[Any, Method], Mapping[str, float]],
    tell: Tell,
) -> Values:
    """Ask every question by every method."""
    values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for name, method in methods.items():
        tell(f"{len(questions):,} questions by {name}")
        for question in questions:
            for key, value in measure(question, method).items():
                values[name, key].append(value)
    return values


def differences(values: Values) -> dict[str, float]:
    """Return what the default has over each other method, question by question."""
    found: dict[str, float] = {}
    for one in AGAINST:
        for (other, measure), of_other in values.items():
            if other == one or (one, measure) not in values:
                continue
            pair = [{str(at): each for at, each in enumerate(of)} for of in (values[one, measure], of_other)]
            test = compare(*pair, rounds=ROUNDS)
            told = zip(("mean", "low", "high"), (test.difference, *test.interval), strict=True)
            found |= {f"{one}_minus.{other}.{measure}.{end}": value for end, value in told}
    return found


@dataclass(frozen=True, kw_only=True)
class PageQuestion:
    """A question, the ids of its documents, and the spans of its evidence pages in the corpus."""

    text: str
    documents: frozenset[str]
    pages: tuple[Span, ...]


def filings(data: Path, *, minilm: bool = False, questions: int | None = None, tell: Tell = silent) -> Figures:
    """Index the PDFs, ask every question by every method, and return the figures; see `ranked_pieces`.

    The folder has `pdfs/*.pdf`, and `questions.jsonl` with `question`, `doc_name` (a PDF's name without its ending)
    and `evidence`: a list of `{evidence_page_num}`, 0-based, with a `doc_name` where it is another document's.

    Besides the library's own ways: `bm25s_1000` and `minilm_1000`, each page's text cut by LangChain's splitter.

    Args:
        data: a folder of the layout.
        minilm: ask the methods too that need all-MiniLM-L6-v2.
        questions: ask only so many.
        tell: is told how far the run is.

    Returns:
        Shares of the questions: `hit.<method>.1`, `.3`, `.5`, `.10`: one of the first k hits shares a character with
        an evidence page of its document; `doc.<method>.1`: the first hit is of a document that answers;
        `t1000.<method>`, `t3000.<method>`: a hit lies on an evidence page in so many tokens of the ranking, the last
        one cut. `questions`, `skipped` (without evidence), `documents`, `chunks`, and `lost`: evidence pages that
        the documents, as they were parsed, do not have.

    Raises:
        ParameterError: a file or a field of the layout is missing.
        MissingExtraError: MiniLM is asked for, and its package is not installed.
    """
    embedder = minilm_embedder() if minilm else None
    with of_layout(data, "questions.jsonl, rows with question, doc_name, and evidence with evidence_page_num"):
        asked = [_page_row(each) for each in rows(data / "questions.jsonl")]
    answered = [row for row in asked if row[1]][:questions]
    files = sorted((data / "pdfs").glob("*.pdf"))
    if missing := sorted({name for _, pages in answered for name, _ in pages} - {file.name for file in files}):
        raise ParameterError("data", str(data), f"a folder with pdfs/{missing[0]}, which a question names")
    if not answered:
        raise ParameterError("data", str(data), "questions with evidence")
    with asking(files, embedder, PAGE_BUDGETS[0], tell) as (corpus, own):
        methods = dict(own)
        if (peers := frameworks(tell)) is not None:
            documents = [entry.document for entry in corpus.entries.values()]
            cut = [chunk for each in documents for chunk in peers.recursive_chunks(each, list(_pages(each)))]
            methods |= alone("1000", cut, [chunk.text for chunk in cut], embedder)
        some = [_page_question(*row, corpus) for row in answered]
        values = ask_all(methods, some, partial(measured_pages, corpus=corpus), tell)
    lost = sum(len(pages) for _, pages in answered) - sum(len(question.pages) for question in some)
    skipped = sum(not pages for _, pages in asked)
    found: dict[str, float] = {"questions": len(some), "skipped": skipped, "lost": lost, **corpus.counts}
    for (method, measure), each in values.items():
        kind, _, k = measure.partition(".")
        found[f"{kind}.{method}{k and '.'}{k}"] = fmean(each)
    return found


PdfPages = tuple[tuple[str, int], ...]  # file and 0-based page


def _page_row(row: Mapping[str, Any]) -> tuple[str, PdfPages]:
    named = [(each.get("doc_name") or row["doc_name"], each) for each in row["evidence"] or ()]
    return row["question"], tuple((f"{name}.pdf", int(each["evidence_page_num"])) for name, each in named)


def _pages(document: Document) -> Iterator[Span]:
    """Yield the spans of the pages."""
    yield from zip(document.page_starts, (*document.page_starts[1:], len(document.text)), strict=True)


def _page_question(text: str, evidence: PdfPages, corpus: Corpus) -> PageQuestion:
    pages = []
    for name, number in evidence:
        found = list(_pages(corpus.entries[name].document)) if name in corpus.entries else []
        start = corpus.starts.get(name, 0)
        pages += [(start + first, start + last) for first, last in found[number : number + 1]]
    return PageQuestion(text=text, documents=frozenset(name for name, _ in evidence), pages=tuple(pages))


def measured_pages(question: PageQuestion, method: Method, corpus: Corpus) -> dict[str, float]:
    """Return the measures of one method on one question."""
    first, within = method.asked(question.text)

    def hit(spans: Iterable[Span]) -> float:
        return float(any(start < last and begin < end for start, end in spans for begin, last in question.pages))

    return {
        **{f"hit.{k}": hit(corpus.spans(first[:k])) for k in CUTOFFS},
        "doc.1": float(any(each.document_id in question.documents for each in first[:1])),
        **{f"t{budget}": hit(corpus.read(within(budget), budget)) for budget in PAGE_BUDGETS},
    }
