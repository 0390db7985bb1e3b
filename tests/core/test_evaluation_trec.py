"""TREC files: what is written reads back in the same order, here and in ir_measures; every error names its line."""

from __future__ import annotations

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.evaluation import evaluate, read_qrels, read_run, write_qrels, write_run
from catena.model import EvaluationError

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).filter(
    lambda name: not any(character.isspace() for character in name) and not name.startswith("\ufeff")
)


def test_files_to_the_letter(tmp_path):
    write_qrels({"q2": {"b": 0, "a": 2}, "q1": {"a": 1}}, tmp_path / "qrels")
    assert (tmp_path / "qrels").read_bytes() == b"q1 0 a 1\nq2 0 a 2\nq2 0 b 0\n"
    write_run({"q2": {"b": 0.5, "a": 0.5, "c": 0.9}, "q1": ["x"], "q3": []}, tmp_path / "run", tag="bm25")
    written = b"q1 Q0 x 1 1 bm25\nq2 Q0 c 1 3 bm25\nq2 Q0 a 2 2 bm25\nq2 Q0 b 3 1 bm25\n"
    assert (tmp_path / "run").read_bytes() == written


def test_files_of_others_are_read(tmp_path):
    (tmp_path / "qrels").write_bytes("\ufeffq1\t0\ta\t1\r\n\r\n q1 0  b -1\r\n".encode())
    assert read_qrels(tmp_path / "qrels") == {"q1": {"a": 1, "b": -1}}
    (tmp_path / "run").write_bytes(b"q1 Q0 b 1 .5 t\nq1 Q0 c 2 2e0 t\nq1 Q0 a 9 0.5 t\n")  # ranks are not used
    assert list(read_run(str(tmp_path / "run"))["q1"].items()) == [("c", 2.0), ("a", 0.5), ("b", 0.5)]


@given(qrels=st.dictionaries(ids, st.dictionaries(ids, st.integers(-2, 1000), min_size=1, max_size=4), max_size=4))
def test_qrels_survive_a_round_trip(tmp_path_factory, qrels):
    path = tmp_path_factory.mktemp("trec") / "qrels"
    write_qrels(qrels, path)
    assert read_qrels(path) == qrels


@given(run=st.dictionaries(ids, st.lists(ids, unique=True, min_size=1, max_size=6), max_size=4))
def test_order_of_a_run_survives_a_round_trip(tmp_path_factory, run):
    path = tmp_path_factory.mktemp("trec") / "run"
    write_run(run, path)
    assert {query: list(scores) for query, scores in read_run(path).items()} == run


def test_others_compute_the_same_from_our_files(tmp_path):
    qrels = {"q1": {"b": 1, "c": 2}, "q2": {"a": 1}, "q3": {"a": 1}}
    run = {"q1": dict.fromkeys("abc", 0.5), "q2": {"z": 1.0, "a": 1.0}}
    write_qrels(qrels, tmp_path / "qrels")
    write_run(run, tmp_path / "run")
    outside = ir_measures.calc_aggregate(
        [ir_measures.nDCG @ 10, ir_measures.AP],
        ir_measures.read_trec_qrels(str(tmp_path / "qrels")),
        ir_measures.read_trec_run(str(tmp_path / "run")),
    )
    ours = evaluate(qrels, run, ["ndcg@10", "map"])
    theirs = [outside[ir_measures.nDCG @ 10], outside[ir_measures.AP]]
    assert [result.value for result in ours.values()] == pytest.approx(theirs)


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_qrels, "q 0 a 1\nq 0 b\n", r"line 2: expected 4 fields \(query iteration piece grade\), got 3"),
        (read_qrels, "\n\nq 0 a b 1\n", "line 3: expected 4 fields .* got 5"),
        (read_qrels, "q 0 a 1.0", "line 1: the grade must be a small integer, got '1.0'"),
        (read_qrels, "q 0 a ١", "the grade must be a small integer"),
        (read_qrels, "q 0 a 99999999999", "the grade must be a small integer"),
        (read_qrels, "q 0 a 1\nq 0 a 1", "line 2: piece 'a' is judged twice for query 'q'"),
        (read_run, "q Q0 a 1 0.5", r"line 1: expected 6 fields \(query Q0 piece rank score tag\), got 5"),
        (read_run, "q Q0 a 1 0.5 t\nq Q0 b 2 high t", "line 2: the score must be a finite number, got 'high'"),
        (read_run, "q Q0 a 1 1e999 t", "the score must be a finite number"),
        (read_run, "q Q0 a 1 1_0 t", "the score must be a finite number"),
        (read_run, "q Q0 a 1 2 t\nr Q0 a 1 2 t\nq Q0 a 2 1 t", "line 3: piece 'a' is ranked twice for query 'q'"),
    ],
)
def test_malformed_files_name_the_line(tmp_path, read, text, message):
    (tmp_path / "file").write_text(text, encoding="utf-8")
    with pytest.raises(EvaluationError, match=f"file, {message}" if message.startswith("line") else message):
        read(tmp_path / "file")


@pytest.mark.parametrize("name", ["", "a b", "a\tb", "a\nb", "a\u00a0b", "a\u2028b"])
def test_ids_that_would_break_the_lines_are_refused_and_nothing_is_written(tmp_path, name):
    for write in (
        lambda: write_qrels({"q": {name: 1}}, tmp_path / "out"),
        lambda: write_qrels({name: {"a": 1}}, tmp_path / "out"),
        lambda: write_run({"q": ["a", name]}, tmp_path / "out"),
        lambda: write_run({name: ["a"]}, tmp_path / "out"),
        lambda: write_run({"q": ["a"]}, tmp_path / "out", tag=name),
    ):
        with pytest.raises(EvaluationError, match="cannot stand in a TREC file"):
            write()
    assert not (tmp_path / "out").exists()


def test_ids_that_are_not_strings_are_refused(tmp_path):
    with pytest.raises(EvaluationError, match="id 1 is of type int"):
        write_run({1: ["a"]}, tmp_path / "out")
    with pytest.raises(EvaluationError, match="id 1 is of type int"):
        write_qrels({"q": {1: 1}}, tmp_path / "out")
    with pytest.raises(EvaluationError, match="query 'q' has no judgement"):
        write_qrels({"q": {}}, tmp_path / "out")


def test_files_that_cannot_be_read_or_written_do_not_show_their_folder(tmp_path):
    (tmp_path / "latin").write_bytes(b"q 0 \xe9 1\n")
    for act, name in (
        (lambda: read_qrels(tmp_path / "absent"), "cannot read absent: No such file"),
        (lambda: read_qrels(tmp_path), "cannot read "),
        (lambda: read_run(tmp_path / "latin"), "cannot read latin: not UTF-8"),
        (lambda: write_run({"q": ["a"]}, tmp_path / "no" / "run"), "cannot write run: No such file"),
        (lambda: write_run({"q": ["\ud800"]}, tmp_path / "run"), "cannot write run: not UTF-8"),
    ):
        with pytest.raises(EvaluationError, match=name) as caught:
            act()
        assert str(tmp_path.parent) not in str(caught.value)
