"""The bench of the paper's tables: their arithmetic by hand, their form, and the command with a scripted model."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result
from written_rows import write_rows

from catena import prompts
from catena.effects import Complete, Services
from catena.effects import run as drive
from catena.evaluation import Span
from catena.library import prepare
from catena.model import Document, EvaluationError, MissingExtraError, ParameterError
from catena.testing import ChatServer
from catena.testing.chat_server import Body
from catena_bench import views_retrievers as tables_retrievers
from catena_bench.baselines import planned_answer
from catena_bench.judges.judging import Round, verdict_of
from catena_bench.questions import ScopeDataset, ScopeQuestion, write_scope_dataset
from catena_bench.tables import TABLES, TableChoice, app, make
from catena_bench.tables_forms import PaperRow, PaperTable, figure_3, figures_of, markdown_of
from catena_bench.tables_schemes import Cell
from catena_bench.views_data import read_asked_documents
from catena_bench.views_retrievers import KNOWN, Scores, embedder_of, retrievers_of

GULLS, VIOLINS = "Gulls nest there.", "Violins are varnished."  # 15 and 20 visible characters
BOOK = (
    f"# Kettles\n\nKettles boil water. They hum.\n\n# Cliffs\n\nCliffs face water. {GULLS}\n\n"
    f"# Instruments\n\n{VIOLINS} Makers wait.\n"
)
EVIDENCE = {"kettles boil": ("Kettles boil water.",), "gulls varnished": (GULLS, VIOLINS)}
SHARE = 100 * 15 / 35  # of the second question, by its first section or sentence

TOPICS = ("kettle", "granite", "violin", "glacier", "orchard", "harbour", "lantern", "meadow", "compass", "saddle")
SENTENCES = (
    "The {0} of the valley was described by travellers in the year {1}.",
    "Nobody who has seen a {0} made by hand will forget its colour.",
    "In winter the {0} is kept in a dry room beside the stove.",
    "A repaired {0} costs about {1} crowns at the market.",
)


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are tested where they are made; here they only take time."""
    monkeypatch.setattr("catena_bench.tables_schemes.ROUNDS", 20)


class Overlap:
    """Scores a text by the words of the question that stand in it."""

    name = "overlap"

    def scores(self, texts: Sequence[str], questions: Sequence[str], *, truncated: bool) -> Scores:
        held = [set(re.findall(r"\w+", text.lower())) for text in texts]
        found = np.array([[len(words & set(asked.split())) for words in held] for asked in questions], float)
        return np.where(found > 0, found, -np.inf)


def written(folder: Path, texts: dict[str, str], evidence: dict[str, dict[str, tuple[str, ...]]]) -> Path:
    """Write a data set of documents with their own headings, and of questions with the sentences that answer them."""

    def spans(name: str, said: tuple[str, ...]) -> tuple[Span, ...]:
        return tuple(sorted((texts[name].index(each), texts[name].index(each) + len(each)) for each in said))

    documents = [Document(id=name, text=text, title=name, media_type="text/markdown") for name, text in texts.items()]
    questions = [
        ScopeQuestion(id=f"{name}-{number}", document=name, text=question, evidence=spans(name, said))
        for name, asked in evidence.items()
        for number, (question, said) in enumerate(asked.items())
    ]
    entries = [(document, prepare(document).sections) for document in documents]
    write_scope_dataset(folder, ScopeDataset.of(entries, questions))
    return folder


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """Three sections and two questions, the second of which is answered in two of them."""
    return written(tmp_path / "book", {"book": BOOK}, {"book": EVIDENCE})


def chapters(count: int) -> str:
    """Return a document of sections of about 350 word pieces, each about a thing of its own."""
    parts = []
    for number, topic in enumerate(TOPICS[:count]):
        said = [SENTENCES[at % 4].format(topic, 1800 + 20 * number + at) for at in range(26)]
        parts.append(f"# The {topic}\n\n" + " ".join(said) + f" The {topic} number {number} hangs in the hall.\n")
    return "\n".join(parts)


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """Two documents: one long enough for RAPTOR to summarise, one that is not."""
    hangs = [(topic, f"The {topic} number {at} hangs in the hall.") for at, topic in enumerate(TOPICS[:3])]
    of_long = {f"Which {topic} hangs in the hall?": (said,) for topic, said in hangs}
    asked = {"long": of_long, "short": {"Where is the granite?": (hangs[1][1],)}}
    return written(tmp_path / "shelf", {"long": chapters(10), "short": chapters(2)}, asked)


def figures(folder: Path, numbers: Sequence[str]) -> dict[str, float]:
    """Return the figures of tables without a model, found by the words shared with the question."""
    sources, overlap = read_asked_documents(folder), Overlap()

    def ask(step: Any) -> Any:
        return drive(step, Services(embedder=embedder_of([])))

    _, found = make(sources, [overlap], TableChoice(tables=tuple(numbers)), ask, lambda message: None)
    return {key: value for table in found for key, value in figures_of(table).items()}


def test_recall_of_sections_units_and_views_is_as_by_hand(book):
    found = figures(book, ["2"])
    # first question: found whole by its first piece; second: half of the time by its first piece alone
    for scheme in ("content_raw", "units"):
        assert found[f"table2.k1.5.overlap.{scheme}"] == pytest.approx((100 + (SHARE + 100) / 2) / 2)
        assert found[f"table2.k1.5.overlap.{scheme}.as_stated"] == 100  # one piece for the first, two for the second
        assert found[f"table2.k3.overlap.{scheme}"] == 100
    # all three views have the same section first: k' = 1 returns it alone, k' = 2 the other one too
    assert found["table2.k1.5.overlap.mc_indexing"] == pytest.approx((100 + SHARE) / 2)
    assert found["table2.k1.5.overlap.mc_indexing.mean_pieces"] == 1
    assert found["table2.k3.overlap.mc_indexing"] == 100
    assert found["table2.k3.overlap.mc_indexing.mean_pieces"] == 1.5
    assert found["table2.k1.5.average.mc_indexing"] == found["table2.k1.5.overlap.mc_indexing"]
    for scheme in ("fixed100", "fixed300", "raptor"):  # the whole document is one chunk, and the only leaf
        assert found[f"table2.k1.5.overlap.{scheme}"] == 100
        assert found[f"table2.k1.5.overlap.{scheme}.mean_pieces"] == 1


def test_at_the_same_length_sections_are_cut_down_to_what_the_views_return(book):
    found = figures(book, ["2", "10"])
    own = found["table2.k1.5.overlap.content_raw.mean_tokens"]
    views = found["table2.k1.5.overlap.mc_indexing.mean_tokens"]
    k = 1.5 * views / own  # between one section and two
    assert 1 < k < 1.5
    assert found["table10.overlap.k1.5.content_raw"] == pytest.approx((100 + SHARE + (k - 1) * (100 - SHARE)) / 2)
    assert found["table10.overlap.k1.5.mc_indexing"] == found["table2.k1.5.overlap.mc_indexing"]


def test_the_best_of_a_block_is_bold_and_the_second_underlined():
    def row(name: str, *cells: float | None) -> PaperRow:
        made = tuple(None if value is None else Cell(value=value) for value in cells)
        return PaperRow(key=name, name=name, cells=made, compared=name != "d")

    rows = (row("a", 90.04, 10.0), row("b", 90.0, 20.0), row("c", 80.0, None), row("d", 95.0, 30.0))
    parts = {"columns": (("x", "x"), ("y", "y|z")), "blocks": (("k3", "k = 3", rows),), "notes": ("A.", "B.")}
    table = PaperTable(key="table2", title="T", best="high", **parts)
    assert markdown_of(table).splitlines() == [
        "## T", "",
        "|  | x | y\\|z |",
        "| --- | --: | --: |",
        "| a | **90.0** | <u>10.0</u> |",  # it prints as the other best
        "| b | **90.0** | **20.0** |",
        "| c | <u>80.0</u> | – |",
        "| d | 95.0 | 30.0 |",
        "", "A. B.",
    ]  # fmt: skip
    assert figures_of(table)["table2.k3.x.a"] == 90.04
    assert "table2.k3.y.c" not in figures_of(table)


def test_figure_3_counts_wins_by_both_rules():
    won, swapped = (Round(first=first, score_a=9, score_b=1, reasoning="so") for first in "ab")
    lost = Round(first="b", score_a=4, score_b=5, reasoning="so")
    verdicts = (
        verdict_of("1", [won, swapped], document="d"),
        verdict_of("2", [won, lost], document="e"),  # more points, one round each
        verdict_of("3", [Round(first="a", failure="no scores"), lost], document="f"),
    )
    found = figures_of(figure_3({(1.5, "bm25"): verdicts, (3.0, "bm25"): verdicts[2:]}))
    assert found["figure3.k1.5.bm25.win.by_score"] == 100
    assert found["figure3.k1.5.bm25.win.by_round"] == 50
    assert found["figure3.k1.5.bm25.tie.by_round.n"] == 2
    assert found["figure3.k3.bm25.undecided.by_score"] == 1
    assert "figure3.k3.bm25.win.by_score" not in found


# the whole command


class Model:
    """Answers as a good model would, and counts what it is asked for."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        names = ("view_keywords", "view_summary", "atomic_units", "tree_summary", "short_answer", "judge_pair")
        self._purposes = {prompts.load(name).system: name for name in names}

    def __call__(self, body: Body) -> str:
        system, prompt = (message["content"] for message in body["messages"])
        purpose = self._purposes[system]
        self.asked[purpose] += 1
        words = re.findall(r"[a-z]{5,}", prompt.partition("<content>")[2].partition("</content>")[0].lower())
        if purpose == "view_keywords":
            return json.dumps([word for word, _ in Counter(words).most_common(8)])
        if purpose == "atomic_units":
            return planned_answer(Complete(prompt=prompt, purpose="")).text
        if purpose in ("view_summary", "tree_summary"):
            return re.findall(r"The \w+ of the valley [^.]+\.", prompt)[0]
        judged = 'The first is shorter. {"answer_1_score": 6, "answer_2_score": 5}'
        return judged if purpose == "judge_pair" else f"In the hall, after {len(prompt)} characters."


@pytest.fixture
def model() -> Iterator[tuple[Model, ChatServer]]:
    """A model behind an address on this machine."""
    scripted = Model()
    with ChatServer(scripted) as server:
        yield scripted, server


def command(folder: Path, *options: object) -> Result:
    return CliRunner().invoke(app, ["--data", str(folder), *map(str, options)])


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
def test_without_a_model_the_tables_say_what_stands_in(shelf, tmp_path):
    target, text = tmp_path / "o.json", tmp_path / "o.md"
    result = command(shelf, "--retrievers", "bm25,tfidf,static", "--json", target, "--markdown", text)
    assert result.exit_code == 0, result.stderr
    assert "documents searched" in result.stderr
    found, shown = read(target), text.read_text(encoding="utf-8")
    assert (found["n_documents"], found["n_questions"], found["about.views_by"]) == (2, 4, "offline")
    assert found["table2.k3.bm25.content_raw"] == 100
    assert found["table2.k3.static.catena"] == 100
    assert "table2.k3.average.catena" not in found
    by_document = [found[f"table2.k3.tfidf.fixed100.of.{name}"] for name in ("long", "short")]
    assert found["table2.k3.tfidf.fixed100"] == pytest.approx((3 * by_document[0] + by_document[1]) / 4)
    assert found["table2.k3.bm25.fixed100.low"] <= found["table2.k3.bm25.fixed100"]
    for word in ("RAPTOR (offline)", "Sentence unit: Plus (×", "MC-indexing (offline)", "which a model cuts (--llm)"):
        assert word in shown
    assert "Atomic Unit" not in shown
    headings = [line for line in shown.splitlines() if line.startswith("## ")]
    assert [heading.split(":")[0] for heading in headings] == [
        *("## Table 1", "## Table 2", "## Tables 4 and 11", "## Table 6", "## Table 7", "## Table 10")
    ]


@pytest.mark.slow
def test_a_plan_is_what_is_then_asked_and_nothing_is_asked_twice(shelf, tmp_path, model):
    scripted, server = model
    journal, target = tmp_path / "journal.db", tmp_path / "o.json"
    options = ["--retrievers", "bm25", "--llm", "m", "--base-url", server.url, "--journal", journal, "--json", target]
    options += ["--table", ",".join(TABLES), "--judge", "--judge-at", "1.5,3"]
    planned = command(shelf, *options, "--plan")
    assert planned.exit_code == 0, planned.stderr
    assert not server.bodies
    assert not journal.exists()
    plan = {key: value for key, value in read(target).items() if key.endswith(".calls")}
    assert "view summary: " in planned.stdout
    done = command(shelf, *options)
    assert done.exit_code == 0, done.stderr
    of_plan = {key.split(".")[1].replace("judge", "judge_pair"): calls for key, calls in plan.items()}
    answers = (of_plan.pop("short_answer"), scripted.asked.pop("short_answer"))
    assert max(answers) - min(answers) <= 1  # two schemes that return the same are answered once: of stand-ins others
    assert of_plan == scripted.asked
    assert of_plan["tree_summary"] >= 2
    first = read(target)
    assert first["table5.requests.atomic_units"] == of_plan["atomic_units"]
    assert first["table5.seconds.view_keywords"] > 0
    assert first["figure3.k1.5.bm25.tie.by_round"] == 100  # the judge likes whatever stands first
    assert first["n_degraded"] == 0
    assert (first["about.units_by"], first["about.model"]) == ("llm", "m")
    again, before = command(shelf, *options), len(server.bodies)
    assert again.exit_code == 0
    assert len(server.bodies) == before
    assert all(".seconds." in key for key, value in read(target).items() if value != first[key])
    assert "Atomic Unit: Plus" in again.stdout
    replanned = command(shelf, *options, "--plan")
    assert replanned.stdout.startswith("0 calls in all")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--retrievers", "bm52"], "Did you mean 'bm25'?"),
        (["--retrievers", ","], "at least one of bm25"),
        (["--table", ","], "at least one of 1, 2"),
        (["--table", "3"], "for Table 3, run once per --llm"),
        (["--table", "8"], "of 1, 2, 4"),
        (["--table", "5"], "left out without a model"),
        (["--judge"], "left out without a model"),
        (["--judge", "--judge-at", "2", "--llm", "m", "--base-url", "http://127.0.0.1:1/v1"], "of 1.5, 3, 5 and 10"),
        (["--views-by", "llm"], "Try: --llm NAME"),
        (["--plan"], "--plan needs the name of a model"),
        (["--json", "/nowhere/o.json"], "its folder is not there"),
    ],
)
def test_wrong_use_is_told_before_any_work(book, options, says):
    result = command(book, *options)
    assert result.exit_code == 2
    assert says in result.stderr
    assert "cutting" not in result.stderr


def test_data_without_questions_or_with_evidence_elsewhere_is_refused(tmp_path, book):
    with pytest.raises(EvaluationError, match=r"holds no documents\.jsonl\.gz"):
        read_asked_documents(tmp_path / "nowhere")
    (book / "questions.jsonl.gz").unlink()
    for start, end, says in ((0, 9_999, "line 1: question 'q' must have evidence within the"), (9, 11, "is blank")):
        row = {"id": "q", "doc_id": "book", "question": "why", "evidence": [{"start": start, "end": end}]}
        write_rows(book / "questions.jsonl", [row])
        assert says in command(book).stderr
    write_rows(book / "questions.jsonl", [])
    assert "book holds no question" in command(book).stderr


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(tables_retrievers, "find_spec", lambda name: None)
    for names, embedder in ((["minilm"], None), (["bm25"], "model")):
        with pytest.raises(MissingExtraError, match="sentence-transformers"):
            retrievers_of(names, embedder)
    present = {tables_retrievers.MINILM: None}
    monkeypatch.setattr(tables_retrievers, "find_spec", lambda name: present.get(name, name))
    with pytest.raises(ParameterError, match="--embedder PATH"):
        retrievers_of(["minilm"])
    assert [each.name for each in retrievers_of(["static", "bm25", "static"])] == ["static", "bm25"]
    assert set(KNOWN) == {"bm25", "tfidf", "static", "minilm"}
