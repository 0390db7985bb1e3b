"""`catena questions` and `catena judge` against a server on this machine: what they write, ask, keep and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_calls import at_home, call, plain, value

from catena.testing import ChatServer
from catena_bench.questions import EIGHT_TYPES, read_scope_dataset

PARTS = ("rotor", "shroud", "bearing")
BODY = (
    "The {part} of the {name} turns slowly. " + "It is made of cast iron and is looked at once a year by staff. " * 4
)


def manual(name: str) -> str:
    sections = (f"## {part.title()}\n\n{BODY.format(part=part, name=name).strip()}\n\n" for part in PARTS)
    return f"# {name}\n\n## Note\n\nToo short to be asked about.\n\n{''.join(sections)}"


def answered(body) -> str:
    """Answer as a model that writes a good question of each section, and two that are of no use."""
    prompt = body["messages"][-1]["content"]
    section = prompt.split("<section>")[1].split("</section>")[0]
    part = next(part for part in PARTS if part in section)
    first = next(line for line in section.split("\n") if line.startswith("The ")).split(". ")[0] + "."
    name = first.split(" of the ")[1].split(" ")[0]
    rows = [
        (f"What does the {part} of the {name} do?", "Explanatory", "It turns slowly.", first),
        ("What does this section say?", "synthesis", "It turns.", first),
        (f"Is the {part} of the {name} red?", "inferential", "It is not.", "It is painted blue."),
    ]
    rows = [dict(zip(("question", "type", "answer", "support"), row, strict=True)) for row in rows]
    return json.dumps(rows)


def judged(body) -> str:
    """Answer as a judge that gives 9 to what holds the reference, 4 to anything else, and 1 more to the first."""
    prompt = body["messages"][-1]["content"]

    def part(tag: str) -> str:
        return prompt.split(f"<{tag}>")[1].split(f"</{tag}>")[0].strip()

    one, two = (9 if part("reference_answer") in part(f"answer_{number}") else 4 for number in (1, 2))
    return f'Compared.\n{{"answer_1_score": {one + 1}, "answer_2_score": {two}}}'


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    at_home(tmp_path, monkeypatch)
    (tmp_path / "files" / "old").mkdir(parents=True)
    (tmp_path / "files" / "pump.md").write_text(manual("P100"), encoding="utf-8")
    (tmp_path / "files" / "old" / "fan.md").write_text(manual("F20"), encoding="utf-8")
    return tmp_path


# questions


def test_a_data_set_is_made_of_ones_own_documents(shelf, server, model):
    told = value("questions", "files", "--out", "made", *model)
    assert (told["documents"], told["sections"], told["too_short"], told["questions"]) == (2, 8, 2, 6)
    assert len(server.bodies) == 6
    assert list(told["types"]) == [each.name for each in EIGHT_TYPES]
    assert told["types"]["explanatory"] == {"count": 6, "share": 1.0}
    assert len(told["rejected"]) == 12
    made = read_scope_dataset("made")
    assert [document.id for document in made.documents] == ["pump.md", "old/fan.md"]
    assert made.document("pump.md").title == "P100"
    for question in made.questions:
        ((start, end),) = question.evidence
        name = "P100" if question.document == "pump.md" else "F20"
        part = next(part for part in PARTS if part in question.text)
        assert made.document(question.document).text[start:end] == f"The {part} of the {name} turns slowly."
        assert (question.answer, question.type) == ("It turns slowly.", "explanatory")
        assert any(section.start <= start < end <= section.end for section in made.sections[question.document])


def test_the_types_are_shown_and_what_was_not_used_with_the_reason(shelf, server, model):
    shown = plain(call("questions", "files/pump.md", "--out", "made", *model).stdout)
    for part in (
        *("Type Questions Share", "explanatory 3 100%", "synthesis 0 0%", "Is the rotor of the P100 red?"),
        "it speaks of the text it was made from: 'this section'",
        "3 questions about 4 sections of 1 document; 1 section of fewer than 40 words not asked about",
        "6 questions not used. Written: made",
    ):
        assert part in shown


def test_an_older_data_set_is_replaced_only_when_that_is_said(shelf, server, model):
    call("questions", "files/pump.md", "--out", "made", *model)
    before = {path.name: path.read_bytes() for path in Path("made").iterdir()}
    refused = call("questions", "files", "--out", "made", *model, code=2).stderr
    assert "made holds documents.jsonl.gz already" in refused
    assert "--force" in refused
    assert len(server.bodies) == 3
    assert {path.name: path.read_bytes() for path in Path("made").iterdir()} == before
    assert value("questions", "files", "--out", "made", *model, "--force")["questions"] == 6
    assert len(server.bodies) == 6  # what the journal holds is not asked again
    assert "is no folder" in call("questions", "files", "--out", "files/pump.md", *model, code=2).stderr


def test_types_number_and_guidance_are_told_to_the_model(shelf, server, model):
    options = ["--types", "Comparative,cause and effect", "--types", "definition=asks what a term means, in short"]
    options += ["--per-section", "2", "--guidance", "For fitters."]
    refused = call("questions", "files/pump.md", "--out", "made", *model, *options, code=1).stderr
    assert "'Explanatory' is none of the types" in refused
    prompt = server.prompts[0]
    told = ("- comparative: ", "- cause and effect: ", "- definition: asks what a term means, in short")
    assert all(part in prompt for part in (*told, "The user adds: For fitters.", "Write 2 questions."))
    assert "- synthesis: " not in prompt
    server.answer = lambda body: answered(body).replace("Explanatory", "definition")
    own = ["--types", "definition=asks what a term means"]
    made = value("questions", "files/pump.md", "--out", "made", *model, *own)
    assert made["types"] == {"definition": {"count": 3, "share": 1.0}}


def test_of_sections_where_the_model_fails_there_is_word_and_the_rest_is_written(shelf, server, model):
    server.answer = lambda body: "no" if "rotor" in body["messages"][-1]["content"] else answered(body)
    Path("files/broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    result = call("questions", "files/pump.md", "files/broken.pdf", "--out", "made", *model, code=1)
    assert "not read: broken.pdf" in result.stderr
    assert "no questions about section 2 of pump.md" in result.stderr
    assert "no questions about 1 section; the same command" in result.stderr
    assert len(read_scope_dataset("made").questions) == 2
    server.answer = answered
    assert value("questions", "files/pump.md", "--out", "made", *model, "--force")["questions"] == 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "the data set needs a place"),
        (["--out", "made", "--types", "riddles"], "--types riddles: there is no such type"),
        (["--out", "made", "--types", ","], "--types names no type of question"),
        (["--out", "made", "--types", "tone="], "--types tone=: there is no such type"),
        (["--out", "made", "--types", "=x"], "a name with letters in it"),
        (["--out", "made", "--budget", "1"], "--budget needs prices"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_questions_refuses_what_is_wrong_before_anything_is_asked(shelf, server, model, options, told):
    assert told in call("questions", "files", *model, *options, code=2).stderr
    assert not server.bodies
    assert sorted(path.name for path in shelf.iterdir()) == ["files"]


# judge


def pairs(*rows: dict[str, object]) -> str:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    Path("pairs.jsonl").write_text(text, encoding="utf-8")
    return "pairs.jsonl"


def row(number: int, a: str, b: str, **more: object) -> dict[str, object]:
    return {"id": number, "question": f"Question {number}?", "reference": "right", "a": a, "b": b, **more}


@pytest.fixture
def judge(server: ChatServer, shelf: Path) -> ChatServer:
    server.answer = judged
    return server


FOUR = [row(1, "right", "wrong"), row(2, "right", "other"), row(3, "wrong", "right"), row(4, "same", "Same. ")]


def test_pairs_are_judged_in_both_orders_and_counted(judge, model):
    told = value("judge", "--pairs", pairs(*FOUR), *model)
    assert len(judge.bodies) == 8
    assert {name: told["by_score"][name]["count"] for name in ("win", "tie", "lose")} == {
        "win": 2, "tie": 1, "lose": 1,
    }  # fmt: skip
    assert told["by_round"]["win"]["count"] == 2
    assert (told["n"], told["same"], told["undecided"], told["clusters"]) == (4, 0, [], 0)
    assert told["position_bias"]["value"] == pytest.approx(1.0)
    first = told["verdicts"][0]
    assert (first["question"], first["by_score"], [each["score_a"] for each in first["rounds"]]) == (
        "1", "win", [10.0, 9.0],
    )  # fmt: skip
    assert first["rounds"][0]["reasoning"] == "Compared."


def test_the_table_says_who_wins_with_intervals_and_what_the_place_is_worth(judge, model):
    shown = plain(call("judge", "--pairs", pairs(*FOUR), *model).stdout)
    assert "a against b, with 95% intervals" in shown
    assert "Rule a wins tie b wins margin p" in shown
    assert "by score 50.0% [15.0%, 85.0%] 25.0% [4.6%, 69.9%] 25.0% [4.6%, 69.9%] +25.0" in shown
    assert "Position bias: +1.00" in shown
    assert "90% intervals" in call("judge", "--pairs", "pairs.jsonl", *model, "--level", "0.9").stdout
    assert len(judge.bodies) == 8


@pytest.mark.slow
def test_questions_that_are_not_judged_are_named_and_count_in_no_rate(judge, model):
    judge.answer = lambda body: "7" if "Question 2?" in body["messages"][-1]["content"] else judged(body)
    result = call("judge", "--pairs", pairs(*FOUR[:3]), *model, "--json")
    assert json.loads(result.stdout)["undecided"] == ["2"]
    assert "not judged: question 2: " in result.stderr
    assert "1 not judged, which count in no rate" in plain(call("judge", "--pairs", "pairs.jsonl", *model).stdout)
    judge.answer = lambda body: "7"
    told = call("judge", "--pairs", pairs(*(row(number, "x", "y") for number in range(9))), *model, code=2).stderr
    assert "the model judged none of 9 questions" in told
    assert "… and 4 more" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "pairs.jsonl holds no pairs"),
        ("\n\n{", "pairs.jsonl, line 3: not JSON"),
        ("[1]", "line 1: not an object"),
        ('{"id": "1", "question": "q", "reference": "r", "a": "x"}', "line 1: 'b' must be a text"),
        (json.dumps(row(True, "x", "y")), "line 1: 'id' must be a text"),
        (json.dumps(row(1, "x", "y", document=3)), "'document' must be"),
        (json.dumps(row(1, "x", "y") | {"question": " "}), "has an empty question"),
        (f"{json.dumps(row(1, 'x', 'y'))}\n" * 2, "question '1' stands twice"),
    ],
)
def test_rows_that_are_wrong_are_named(judge, model, text, told):
    Path("pairs.jsonl").write_text(text, encoding="utf-8")
    assert told in call("judge", "--pairs", "pairs.jsonl", *model, code=2).stderr
    assert not judge.bodies


def test_files_and_levels_that_are_wrong_are_refused(judge, model):
    Path("bad.jsonl").write_bytes(b"\xff\xfe\xfd")
    good = pairs(*FOUR)
    for options, told in (
        (["gone.jsonl"], "gone.jsonl"),
        (["bad.jsonl"], "bad.jsonl is not UTF-8"),
        ([good, "--level", "1"], "--level must be in (0, 1)"),
    ):
        assert told in call("judge", "--pairs", *options, *model, code=2).stderr
