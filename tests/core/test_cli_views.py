"""Sections and views on the command line: indexed, searched, and shown without a library."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_calls import call, plain, refused, value

from catena.library import Library
from catena.retrieval import SECTION_FUSION, ExactUnion, PaperQuota, ScoreFusion, ViewRankFusion, ViewSearch
from catena.retrieval.view_search import ViewScoreFusion
from catena.text import count_tokens

MOUNTING = " ".join(f"Sentence {i} tells of bracket {i * 7 % 13} and of the lamp in room {i}." for i in range(40))
MANUAL = """# {name} manual

## 1 Mounting

Mount the {name} upright. {mounting}

## 2 Cover

Tighten the cover screws of the {name} to {torque} N·m, crosswise, in two passes.

## 3 Fuse

The fuse is rated {fuse} mA, slow. Pull the plug before you open the holder.
"""
TORQUE = "To what torque are the cover screws of the HX210 tightened?"
LAMP = "bracket of the lamp in room 7"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    for name, torque, fuse in (("HX200", "1.8", "250"), ("HX210", "2.4", "400")):
        text = MANUAL.format(name=name, torque=torque, fuse=fuse, mounting=MOUNTING)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    files = ["index", folder / "HX200.md", folder / "HX210.md"]
    call(*files, "-l", folder / "sections", "--chunks", "sections", "--views", "keywords,summary")
    call(*files, "-l", folder / "plain")
    return folder


def answered(body) -> str:
    """Answer as a model that makes views: the first words of the content, as whatever is asked for."""
    system, prompt = (message["content"] for message in body["messages"])
    content = prompt.split("<content>")[1].split("</content>")[0]
    words = re.findall(r"[A-Za-z]{5,}", content)
    if system.startswith("You summarise"):
        return " ".join(content.split()[:20])
    return json.dumps([f"Which {words[0]} is it?"] if "question" in system[:80] else words[:4])


def chunks(library: str, *options: str) -> list[str]:
    """Return the chunks of one manual in a library that is filled with these options."""
    call("index", "HX210.md", "-l", library, *options)
    with Library.open(library, create=False) as opened:
        return [chunk.text for chunk in opened.get("HX210.md").chunks]


# index


def test_a_chunk_is_a_section_or_of_the_length_asked_for(shelf):
    kinds = value("status", "-l", "sections")["holds"]["views"]
    assert (kinds["keywords"], kinds["summary"]) == (6, 6)
    assert kinds["passage"] > kinds["headed"] == 6
    first, cover, fuse = chunks("whole", "--chunks", "sections")
    assert (first.startswith("## 1 Mounting"), first.endswith("room 39.")) == (True, True)
    assert (cover.startswith("## 2 Cover"), fuse.startswith("## 3 Fuse")) == (True, True)
    longest = {
        options: max(map(count_tokens, chunks(f"lib{at}", *options.split())))
        for at, options in enumerate(("", "--max-tokens 40", "--max-tokens 10", "--chunks fixed"))
    }
    assert longest["--max-tokens 10"] <= 10 < longest["--max-tokens 40"] <= 40 < longest[""]
    assert 200 < longest["--chunks fixed"] <= 300
    fixed = ("--chunks", "fixed", "--max-tokens", "60")
    inside, across = chunks("fixed", *fixed), chunks("fixed", *fixed, "--across-sections")
    assert max(map(count_tokens, [*inside, *across])) <= 60
    assert not any("room 39" in text and "## 2 Cover" in text for text in inside)
    assert any("room 39" in text and "## 2 Cover" in text for text in across)


def test_the_same_options_skip_and_others_index_anew(shelf):
    usual = ["index", "HX200.md", "HX210.md", "-l", "sections", "--chunks", "sections"]
    assert value(*usual, "--views", "keywords", "--views", "summary,")["states"] == {"skipped": 2}
    assert value(*usual, "--views", "keywords")["states"] == {"indexed": 2}
    assert "summary" not in value("status", "-l", "sections")["holds"]["views"]


def test_a_model_makes_views_is_planned_for_and_paid_once(shelf, server, model):
    by = ["index", "HX210.md", "-l", "new", "--chunks", "sections", "--views", "keywords,summary,questions"]
    by += ["--views-by", "llm", *model, "--language", "French"]
    plan = value(*by, "--plan")
    assert (plan["calls"], plan["kept"], Path("new").exists()) == (7, 0, False)
    shown = plain(call(*by, "--plan").stdout)
    assert all(f"view {kind} {n} " in shown for kind, n in (("keywords", 3), ("summary", 1), ("questions", 3)))
    assert not server.bodies
    assert value(*by)["states"] == {"indexed": 1}
    assert len(server.bodies) == 7
    assert all("French" in prompt for prompt in server.prompts)
    views = value("status", "-l", "new")["holds"]["views"]
    assert (views["keywords"], views["summary"], views["questions"]) == (3, 3, 3)
    text = Path("HX210.md").read_text(encoding="utf-8")
    Path("HX210.md").write_text(text.replace("400 mA", "500 mA"), encoding="utf-8")
    Path("catena-journal.db").unlink()
    assert value(*by)["states"] == {"indexed": 1}
    assert len(server.bodies) == 9  # the keywords and the questions of the one section that changed
    found = value("search", "Which Mount is it?", "-l", "new", "--views", "questions", "-k", "1.5")
    assert [hit["views"] for hit in found["hits"]] == [{"questions": 1}]


# search


def scores(library: str, *options: str) -> list[tuple[str, Any]]:
    found = value("search", LAMP, "-l", library, "--no-names", *options)
    return [(hit["chunk"]["id"], pytest.approx(hit["score"])) for hit in found["hits"]]


def in_python(library: str, **options: Any) -> list[tuple[str, float]]:
    with Library.open(library, create=False) as opened:
        found = opened.search(LAMP, by_name=False, **options)
    return [(hit.chunk.id, hit.score) for hit in found.hits]


def test_a_library_of_sections_is_searched_by_its_own_formula_and_a_weight_changes_only_itself(shelf):
    assert scores("sections") == in_python("sections") == in_python("sections", fusion=SECTION_FUSION)
    assert in_python("sections") != in_python("sections", fusion=ScoreFusion())
    assert scores("plain") == in_python("plain", fusion=ScoreFusion())
    for given in ({"alpha": 0.9}, {"beta": 0.0}, {"alpha": 0.2, "beta": 1.0}):
        options = [part for name, weight in given.items() for part in (f"--{name}", str(weight))]
        assert scores("sections", *options) == in_python("sections", fusion=replace(SECTION_FUSION, **given))
        assert scores("plain", *options) == in_python("plain", fusion=ScoreFusion(**given))
    named = ["--route", "lexical", "--route", "dense"]  # without passages, theirs is no part of the formula
    assert scores("sections", *named) == in_python("sections", routes=("lexical", "dense"), fusion=ScoreFusion())
    found = value("search", LAMP, "-l", "sections", "--route", "passages")
    assert found["hits"][0]["provenance"][0]["view"] == "passage"
    assert "passages #1" in call("search", LAMP, "-l", "sections", "--no-names").stdout


def test_evaluate_and_calibrate_search_as_the_library_does(shelf, monkeypatch):
    gold = {"question": TORQUE, "gold": {"document": "HX210.md", "text": "Tighten the cover screws of the HX210"}}
    Path("gold.jsonl").write_text(json.dumps(gold), encoding="utf-8")
    for options in ([], ["--fusion", "rank"], ["--route", "passages"]):
        kinds = value("evaluate", "sections", "gold.jsonl", *options)["kinds"]
        assert kinds["all"]["recall"]["score"]["value"] == 1.0
    rows = [
        {"question": f"{what} of the {name}", "gold": {"document": f"{name}.md", "heading": what}}
        for name in ("HX200", "HX210")
        for what in ("1 Mounting", "2 Cover", "3 Fuse")
    ]
    Path("gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    search, seen = Library.search, []

    def watched(self, query, **options):
        found = search(self, query, **options)
        seen.append([(hit.chunk.id, hit.score) for hit in found.hits])
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Library, "search", watched)
        call("calibrate", "sections", "gold.jsonl", "--out", "fit.json")
    whole = {"by_name": False, "k": 100, "depth": 100, "routes": ("lexical", "dense", "keyword")}
    with Library.open("sections", create=False) as opened:  # the scores that segments are made of
        usual = [opened.search(row["question"], **whole, fusion=ScoreFusion()) for row in rows]
    assert seen == [[(hit.chunk.id, hit.score) for hit in found.hits] for found in usual]


def test_each_hit_says_which_view_found_it_at_which_rank(shelf):
    found = value("search", TORQUE, "-l", "sections", "--views", "headed,keywords,summary")
    assert (found["views"], found["rule"]) == (["headed", "keywords", "summary"], "paper")
    best = found["hits"][0]
    assert best["chunk"]["text"].startswith("## 2 Cover")
    assert (best["chunk"]["document_id"], best["views"]["headed"]) == ("HX210.md", 1)
    assert all(set(hit["views"]) <= set(found["views"]) for hit in found["hits"])
    told = call("search", TORQUE, "-l", "sections", "--views", "all").stdout
    head = next(line for line in told.splitlines() if "headed" in line)
    assert head.split() == ["headed", "keywords", "summary", "Found"]
    row = next(line for line in told.splitlines() if "2 Cover" in line and "HX210" in line)
    assert row.split()[:3] == ["1", str(best["views"]["headed"]), str(best["views"]["keywords"])]
    assert "## 2 Cover" in call("search", TORQUE, "-l", "sections", "--views", "all", "--section").stdout


def test_rules_return_what_they_are_defined_to(shelf):
    def found(*options: str) -> Any:
        return value("search", LAMP, "-l", "sections", "--views", "all", *options)

    assert found() == found("--rule", "paper", "-k", "3")
    where = {"document_id": "HX200.md"}
    with Library.open("sections", create=False) as opened:
        for name, rule, k in (
            ("paper", PaperQuota(), 1.5),
            ("exact", ExactUnion(), 2),
            ("rank", ViewRankFusion(), 2),
            ("score", ViewScoreFusion(), 2),
        ):
            ranking = opened.search_views(LAMP, ViewSearch(rule=rule), k=k, where=where)
            told = found("--rule", name, "-k", str(k), "--where", json.dumps(where))
            assert [hit["chunk"]["id"] for hit in told["hits"]] == [hit.chunk.id for hit in ranking.hits] != []
            assert [hit["score"] for hit in told["hits"]] == pytest.approx([hit.score for hit in ranking.hits])
            assert (told["scale"], told["rule"]) == (ranking.scale.value, name)
    alone = value("search", LAMP, "-l", "sections", "--views", "keywords", "--rule", "exact", "--route", "lexical")
    assert {way["route"] for hit in alone["hits"] for way in hit["provenance"]} == {"lexical"}
    assert found("--alpha", "0")["hits"] != found("--alpha", "1")["hits"]
    ranks, by_score = (found("--fusion", fusion, "--rule", "score")["hits"] for fusion in ("rank", "score"))
    assert [hit["score"] for hit in ranks] != [hit["score"] for hit in by_score]


def test_passages_are_read_within_a_budget(shelf):
    line = ("search", LAMP, "-l", "sections", "--passages")
    found = value(*line, "--budget-tokens", "150")
    texts = [hit["chunk"]["text"] for hit in found["hits"]]
    assert found["tokens"] == sum(map(count_tokens, texts)) <= found["budget_tokens"] == 150
    assert "room 7." in texts[0]
    shown = call(*line, "--budget-tokens", "150").stdout
    assert f"{len(texts)} passages, {found['tokens']} of 150 tokens" in shown
    assert "room 7." in plain(shown)
    assert value(*line)["budget_tokens"] == 1_000
    asked = value("ask", "HX200.md", LAMP, "--budget-tokens", "60")
    assert "room 7." in asked["hits"][0]["chunk"]["text"]


# views


def test_views_of_files_are_shown_without_a_library_as_they_are_indexed(shelf):
    found = value("views", "HX200.md", "HX210.md")
    assert [each["source"] for each in found["documents"]] == ["HX200.md", "HX210.md"]
    shown = found["documents"][1]["sections"]
    first, cover, fuse = shown
    assert [each["path"][-1] for each in (first, cover, fuse)] == ["1 Mounting", "2 Cover", "3 Fuse"]
    assert (first["tokens"] > 200, bool(first["views"]["summary"])) == (True, True)
    assert (len(cover["views"]["summary"]), "crosswise" in cover["views"]["keywords"][0]) == (1, True)
    text = Path("HX210.md").read_text(encoding="utf-8")
    assert cover["views"]["summary"] == [text[cover["start"] : cover["end"]]]
    told = plain(call("views", "HX210.md").stdout)
    assert f"HX210 manual › 2 Cover, lines 7-9 {cover['tokens']} tokens keywords " in told
    assert "summary (its own text)" in told
    assert "keywords" not in value("views", "HX210.md", "--views", "summary")["kinds"]
    assert sorted(each.name for each in shelf.iterdir()) == ["HX200.md", "HX210.md", "plain", "sections"]
    with Library.open("sections", create=False) as opened:
        entry = opened.get("HX210.md")
    for kind in ("keywords", "summary"):
        kept = {view.chunk_id: [view.text] for view in entry.views if view.kind == kind}
        assert [each["views"][kind] for each in shown] == [kept.get(chunk.id, []) for chunk in entry.chunks]


def test_a_model_writes_the_views_that_are_shown(shelf, server, model):
    by = ["views", "HX210.md", "--by", "llm", *model, "--views", "keywords,questions"]
    assert value(*by, "--plan")["calls"] == 6
    assert not server.bodies
    assert value(*by)["documents"][0]["sections"][2]["views"]["questions"] == ["Which rated is it?"]
    assert "Which Cover is it?" in call(*by).stdout
    assert len(server.bodies) == 6
    assert value(*by, "--plan")["kept"] == 6
    server.answer = lambda body: ""
    told = refused("views", "HX200.md", "--by", "llm", *model, "--views", "questions", code=1)
    assert "without questions of chunk" in told
    assert "no view was made" in told


def test_files_that_cannot_be_read_are_named_and_the_others_shown(shelf):
    Path("broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    told = call("views", "HX210.md", "broken.pdf", code=1)
    assert "2 Cover" in told.stdout
    assert "not read: broken.pdf" in told.stderr
    assert "1 of 2 files were not read" in told.stderr
