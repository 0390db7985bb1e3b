"""`catena evaluate` and `tune`: questions with gold, asked of a library; what is said of them, and weights kept."""

from __future__ import annotations

import json

import cli_calls
import pytest
from cli_calls import MANUALS, filled, plain, refused, value

HX200_FUSE = {"document": "hx200.md", "heading": "Fuse"}
HX210_FUSE = {"source": "manuals/hx210.md", "text": "400 mA"}
HX220_COVER = {"text": "Tighten it\nto 3.1 N·m."}
QUESTIONS = [
    {"id": "a", "question": "How is the fuse of the HX200 rated?", "gold": HX200_FUSE, "kind": "fuse"},
    {"id": "b", "question": "How is the fuse of the HX210 rated?", "gold": HX210_FUSE, "kind": "fuse"},
    {"id": "c", "question": "HX220 Cover: tighten it to what?", "gold": [HX220_COVER], "kind": "cover"},
    {"id": "d", "question": "What is the colour of the HX999?"},
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = filled(tmp_path_factory.mktemp("made"), MANUALS)
    ask(folder, QUESTIONS)
    return folder


def ask(folder, questions):
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")


def call(*arguments: str, code: int = 0):
    return cli_calls.call("evaluate", "lib", "q.jsonl", *arguments, code=code)


@pytest.mark.slow
def test_the_table_names_gamma_n_and_what_can_be_detected(shelf):
    printed = " ".join(call().stdout.split())
    assert "γ = 1, N = 6 chunks" in printed
    assert "3 of 4 questions have gold; 1 without are left out" in printed
    assert "Smallest difference" in printed
    assert printed.index("all 3") < printed.index("cover 1") < printed.index("fuse 2")


def test_json_holds_every_measure_with_its_interval_by_kind(shelf):
    found = json.loads(call("--json", "--gamma", "10", "-k", "1").stdout)
    assert (found["k"], found["n"], found["gamma"], found["depth"]) == (1, 6, 10.0, 6)
    assert found["counts"] == {"questions": 4, "judged": 3, "lost": 0}
    assert set(found["kinds"]) == {"all", "fuse", "cover"}
    assert set(found["kinds"]["fuse"]) == {"geometric_mean_rank", "recall", "lri", "ndcg@10", "mrr@10"}
    assert found["kinds"]["all"]["recall"]["score"]["value"] == 1.0
    assert found["kinds"]["all"]["lri"]["score"]["value"] == 1.0
    assert found["kinds"]["cover"]["recall"] == {
        "score": {"value": 1.0, "interval": None, "level": 0.95, "n": 1},
        "detectable": None,
    }


def test_gold_sections_beside_the_questions_are_read(shelf):
    start = MANUALS["hx210.md"].index("## Fuse")
    section = {"section_id": "s1", "doc_id": "hx210", "start": start, "end": MANUALS["hx210.md"].index("## Cover")}
    (shelf / "sections.jsonl").write_text(json.dumps(section), encoding="utf-8")
    ask(shelf, [{"qid": "x", "question": "What fuse has the HX210?", "gold": ["s1"], "kind": "field"}])
    assert json.loads(call("--json").stdout)["kinds"]["field"]["recall"]["score"]["value"] == 1.0


def test_gold_that_is_nowhere_counts_as_not_found_and_is_named(shelf):
    ask(shelf, [*QUESTIONS[:1], {"id": "z", "question": "x", "gold": {"document": "gone.pdf", "page": 7}}])
    result = call(code=1)
    assert "not in the library: gone.pdf, page 7 (question z)" in result.stderr
    found = json.loads(call("--json", code=1).stdout)
    assert found["kinds"]["all"]["recall"]["score"]["value"] == 0.5
    assert found["lost"] == [{"question": "z", "gold": "gone.pdf, page 7"}]


def test_pictures_are_written_and_named(shelf):
    result = call("--plot", "kinds.png", "--curve", "ranks.html")
    assert (shelf / "kinds.png").read_bytes().startswith(b"\x89PNG")
    assert "<html>" in (shelf / "ranks.html").read_text(encoding="utf-8")
    assert "kinds.png" in result.stderr


@pytest.mark.parametrize(
    ("gold", "told"),
    [({"document": "other.pdf"}, "no gold place is in this collection"), (None, "nothing can be measured")],
)
def test_questions_that_measure_nothing_are_refused(shelf, gold, told):
    ask(shelf, [{"question": "x", "gold": gold}])
    assert told in call(code=2).stderr


# tune


def test_weights_are_chosen_told_kept_and_used_for_their_own_model_alone(shelf):
    names = ("HX200", "HX210", "HX220")
    gold = [{"document": f"{name.lower()}.md", "heading": "Fuse"} for name in names]
    rows = zip(names, gold, strict=True)
    ask(shelf, [{"question": f"What fuse has the {name}?", "gold": place} for name, place in rows])
    tune = ("tune", "lib", "q.jsonl", "--folds")
    told = plain(cli_calls.call(*tune, 2, "--out", "tuned.json").stdout)
    for part in ("3 questions in 3 groups", "alpha as routes agree and beta 0.1 stay", "chosen: alpha"):
        assert part in told
    written = json.loads((shelf / "tuned.json").read_text())
    assert (written["questions"], written["adopted"], bool(written["model"])) == (3, False, True)
    search = ("search", "fuse of the HX210", "-l", "lib")
    assert value(*search, "--tuned", "tuned.json") == value(*search)
    (shelf / "tuned.json").write_text(json.dumps({**written, "model": "another"}))
    assert "'another'" in refused(*search, "--tuned", "tuned.json")
    assert value(*tune, 2)["tuned"]["objective"] == "log-rank"
    assert "fewer folds" in refused(*tune, 4)
