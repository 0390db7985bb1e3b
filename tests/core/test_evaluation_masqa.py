"""Question banks: MasQA's layout in our own files, JSON lines, and gold matched to chunks of any chunking."""

from __future__ import annotations

import json

import openpyxl
import pytest
from retrieval_cases import chunk
from written_rows import write_rows

from catena.evaluation import (
    BankQuestion,
    DocumentNames,
    Gold,
    chunks_of_gold,
    judge,
    read_questions,
    retrieval_report,
)
from catena.model import Document, Entry, EvaluationError, ParameterError
from catena_bench.judges.grading import read_masqa

QAC = """\
Question,Answer,Context,Type
"The top rate is ()
A: 10 Mbps B: 20 Mbps C, 50 Mbps D: 100 Mbps",B,"Rates up to
20 Mbps.",Single Choice
"Which hold? A: heat B: cold",C,Both.,Multiple Choice
"Which is it? A: heat B: cold",A: cold,,Single Choice
何为隔离？,,数字隔离器,简答
"""


def write(folder, text, name="qac.csv", encoding="utf-8"):
    (folder / name).write_text(text, encoding=encoding)
    return folder / name


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030"])
def test_a_qac_table_keeps_every_row_and_remarks_what_is_wrong(tmp_path, encoding):
    bank = read_masqa(write(tmp_path, QAC, encoding=encoding))
    assert bank.has_contexts
    assert [question.id for question in bank.questions] == ["row 2", "row 3", "row 4", "row 5"]
    assert bank.questions[0].gold == (Gold(name="context", text="Rates up to\n20 Mbps."),)
    assert bank.questions[0].kind == "Single Choice"
    assert bank.questions[3].text == "何为隔离？"
    assert [(remark.row, remark.what) for remark in bank.remarks] == [
        (3, "the answer names C, the options are A, B"),
        (4, "the context is missing"),
        (4, "the answer says A with the words of B"),
        (5, "the answer is missing"),
    ]


def test_a_qa_table_has_no_gold_and_one_without_a_header_is_question_answer_context(tmp_path):
    found = read_masqa(write(tmp_path, "问题,答案\n多大？,8 V\n"))
    assert (found.has_contexts, found.remarks) == (False, ())
    assert found.questions == (BankQuestion(id="row 2", text="多大？", answer="8 V"),)
    (asked,) = read_masqa(write(tmp_path, "How big?,8 V,It is 8 V.\n")).questions
    assert (asked.id, asked.answer, asked.gold[0].text) == ("row 1", "8 V", "It is 8 V.")


def test_a_workbook_is_read_as_a_table(tmp_path):
    book = openpyxl.Workbook()
    for row in (["Question", "Answer"], ["How big?", 8], [None, None], ["多大？", None]):
        book.active.append(row)
    book.save(tmp_path / "qa.xlsx")
    bank = read_masqa(tmp_path / "qa.xlsx")
    assert [(question.id, question.answer) for question in bank.questions] == [("row 2", "8"), ("row 4", "")]
    assert [remark.row for remark in bank.remarks] == [4]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no rows"),
        ("question,answer\n", "no row has a question"),
        ("only\n", "row 1: no columns"),
        ("id,question,answer\n1,a,b\n1,c,d\n", "row 3: the id '1' stands twice"),
        ('question,answer\n"open,b\n', "not CSV"),
    ],
)
def test_what_is_no_bank_is_refused_with_its_row(tmp_path, text, told):
    with pytest.raises(EvaluationError, match=told):
        read_masqa(write(tmp_path, text))


@pytest.mark.parametrize(("name", "data"), [("a.csv", b"\xff\xff\xff"), ("a.xlsx", b"no zip"), ("gone.csv", None)])
def test_files_that_cannot_be_read_are_refused_without_their_folder(tmp_path, name, data):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(EvaluationError, match=name) as caught:
        read_masqa(tmp_path / name)
    assert str(tmp_path) not in str(caught.value)


# JSON lines


def bank(folder, *rows):
    return read_questions(write_rows(folder / "q.jsonl", rows))


def test_simple_rows_name_gold_by_page_heading_or_text(tmp_path):
    rows = [
        {"question": "a", "gold": {"document": "m.pdf", "page": 3}},
        {"id": "x", "question": "b", "kind": "k", "gold": [{"source": "m.pdf", "heading": "Fuse"}, {"text": "8 V"}]},
        {"question": "c", "gold": None, "answer": "none"},
    ]
    page, fuse = Gold(name="gold 1", document="m.pdf", page=3), Gold(name="gold 1", document="m.pdf", heading="Fuse")
    assert bank(tmp_path, *rows) == (
        BankQuestion(id="row 1", text="a", gold=(page,)),
        BankQuestion(id="x", text="b", kind="k", gold=(fuse, Gold(name="gold 2", text="8 V"))),
        BankQuestion(id="row 3", text="c", answer="none"),
    )


def test_rows_with_section_ids_take_spans_and_paths_from_the_files_beside(tmp_path):
    write_rows(tmp_path / "sections.jsonl", [{"section_id": "s", "doc_id": "d", "start": 2, "end": 9}])
    row = {"qid": "q", "question": "a", "gold": ["s"], "kind": "k"}
    assert bank(tmp_path, row)[0].gold == (Gold(name="s", document="d", span=(2, 9)),)
    (tmp_path / "documents.json").write_text(json.dumps([{"doc_id": "d", "path": "docs/d.md"}]), encoding="utf-8")
    assert bank(tmp_path, row)[0].gold[0].document == "docs/d.md"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"gold": None}, "line 1: 'question'"),
        ({"question": "a", "gold": {"page": 3}}, "names no document"),
        ({"question": "a", "gold": {"document": "m", "page": 0}}, "1 or more, got 0"),
        ({"question": "a", "gold": {"document": "m", "page": 1, "text": "x"}}, "page and text"),
        ({"question": "a", "gold": {"text": ""}}, "'text'"),
        ({"question": "a", "gold": "m.pdf"}, "an object or a list"),
        ({"question": "a", "gold": ["s"]}, r"cannot read sections\.jsonl"),
        (["a"], "expected an object"),
    ],
)
def test_rows_that_are_not_of_the_layout_are_refused_with_their_line(tmp_path, row, told):
    with pytest.raises(EvaluationError, match=told):
        bank(tmp_path, row)


def test_two_questions_of_one_id_and_no_json_are_refused(tmp_path):
    with pytest.raises(EvaluationError, match="stands twice"):
        bank(tmp_path, {"id": "a", "question": "x"}, {"id": "a", "question": "y"})
    with pytest.raises(EvaluationError, match="line 1: not JSON"):
        bank(tmp_path, "{")


# gold to chunks


def entry(document_id="m.md"):
    text = "Fuse: 8 V.\nCover: 2 N.\nRest of\n  it."
    chunks = []
    for n, (start, end, *path) in enumerate([(0, 11, "M", "Fuse"), (11, 23, "M", "Cover"), (23, len(text), "M")]):
        placed = {"document_id": document_id, "position": n, "path": tuple(path), "pages": (n + 1, n + 1)}
        chunks.append(chunk(f"{document_id}#{n}", text[start:end], start=start, **placed))
    return Entry(document=Document(id=document_id, text=text), sections=(), chunks=tuple(chunks), views=())


@pytest.mark.parametrize(
    ("gold", "places"),
    [
        *(({}, [0, 1, 2]), ({"page": 2}, [1]), ({"page": 9}, []), ({"span": (0, 11)}, [0])),
        *(({"heading": "fuse"}, [0]), ({"heading": "M"}, [0, 1, 2]), ({"text": "nowhere"}, [])),
        *(({"text": "Cover:\t2   N."}, [1]), ({"text": "Rest of it."}, [2])),
    ],
)
def test_a_gold_place_is_held_by_these_chunks(gold, places):
    assert chunks_of_gold(Gold(name="g", **gold), [entry()]) == {f"m.md#{place}" for place in places}


def test_documents_are_found_by_any_unambiguous_end_of_their_path():
    names = DocumentNames(["docs/a/m.md", "docs/b/m.md", "../x/hx200.pdf"])
    assert names.find("docs/a/m.md") == "docs/a/m.md"
    assert names.find("elsewhere/b/m.md") == "docs/b/m.md"
    assert names.find("b/m") == "docs/b/m.md"
    assert names.find("hx200") == names.find(r"C:\manuals\hx200.pdf") == "../x/hx200.pdf"
    assert names.find("hx") is None
    with pytest.raises(EvaluationError, match="may be any of 2"):
        names.find("m.md")


# reports


def report_of(questions, top, deep=None, n=6, **options):
    entries = {name: entry(name) for name in ("m.md", "o.md")}
    judgement = judge(questions, entries, entries.__getitem__)
    return retrieval_report(questions, judgement, top=top, deep=deep or top, n=n, **options)


FUSE = BankQuestion(id="1", text="a", kind="x", gold=(Gold(name="g", document="m.md", heading="Fuse"),))
TWO_PLACES = (Gold(name="g", document="m.md", page=1), Gold(name="h", document="o.md", page=1))
BOTH = BankQuestion(id="2", text="b", kind="y", gold=TWO_PLACES)
OPEN = BankQuestion(id="3", text="c")
LOST = BankQuestion(id="9", text="d", gold=(Gold(name="g", document="gone.md"),))


def test_a_report_by_hand():
    top = {"1": ["o.md#0", "m.md#0"], "2": ["m.md#0", "m.md#1", "o.md#0"]}
    found = report_of([FUSE, BOTH, OPEN], top, k=2)
    assert (found.n_questions, found.n_judged, found.n_lost) == (3, 2, 0)
    assert {kind: row["recall"].score.value for kind, row in found.measures.items()} == {"": 0.75, "x": 1.0, "y": 0.5}
    assert found.ranks == {"1": (2.0,), "2": (1.0, 3.0)}
    assert found.measures["x"]["lri"].score.value == pytest.approx(1 - 0.6931 / 1.7918, abs=1e-4)  # 1 - ln 2 / ln 6
    assert found.measures["x"]["mrr@10"].score.value == 0.5
    assert found.geometric_mean_rank["y"] == pytest.approx(3**0.5)
    assert found.measures[""]["recall"].detectable is not None
    assert found.measures["x"]["recall"].detectable is None
    unanswered = report_of([FUSE, BOTH], {"1": ["m.md#0"]}, k=2).measures["y"]
    assert unanswered["recall"].score.value == unanswered["lri"].score.value == 0.0


def test_lost_gold_counts_as_not_found_even_in_a_whole_ranking():
    everything = [f"{name}#{place}" for name in ("m.md", "o.md") for place in range(3)]
    found = report_of([FUSE, LOST], {"1": everything, "9": everything})
    assert found.n_lost == 1
    assert found.measures["other"]["lri"].score.value == 0.0
    assert found.measures["x"]["lri"].score.value == 1.0


def test_reports_need_gold_the_collection_and_a_cutoff():
    with pytest.raises(EvaluationError, match="no question has gold"):
        report_of([OPEN], {})
    with pytest.raises(EvaluationError, match="no gold place is in this collection"):
        report_of([LOST], {})
    with pytest.raises(ParameterError):
        report_of([FUSE], {}, k=0)


def test_without_ir_measures_the_rest_is_reported_and_the_lack_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ir_measures", None)
    found = report_of([FUSE], {"1": ["m.md#0"]})
    assert set(found.measures[""]) == {"recall", "lri"}
    assert "[eval]" in found.without
