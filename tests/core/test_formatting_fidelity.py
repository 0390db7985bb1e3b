"""Fidelity: what a faithful formatter may do, what it may not, and how the shares are counted."""

from __future__ import annotations

import json
import math
import pickle

import pytest
from case_files import cases_of, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.formatting import Fidelity, FidelityOptions, FidelityReport, align, fidelity, markdown_words, source_words
from catena.formatting.fidelity_check import Fault, PageFidelity, origin, shingles, wholesale
from catena.formatting.fidelity_excuses import unread_across
from catena.model import ParameterError

SOURCE, _answer = cases_of("cases_fidelity.txt")[0].values
ANSWER = f"{_answer}\n"


def kinds(answer: str, source: str = SOURCE, **settings: str) -> set[str]:
    return {fault.kind for fault in fidelity(source, answer, **settings).faults}


# --- numbers by hand -------------------------------------------------------------------------------------------


def test_a_faithful_answer_has_all_words_in_order() -> None:
    found = fidelity(SOURCE, ANSWER)
    assert found == Fidelity(recall=1.0, precision=1.0, order=1.0)
    assert found.faithful


def test_shares_weigh_numbers_units_and_cells() -> None:
    # printed: turn 1, by 1, 30 3, mm 2, only 1 = 8; lost: 30 (3) -> recall 5/8; said 3 more for 31 -> precision 5/8
    found = fidelity("Turn by 30 mm only", "Turn by 31 mm only")
    assert (found.recall, found.precision, found.order) == (5 / 8, 5 / 8, 1.0)
    assert found.faults[0] == Fault(kind="changed-value", detail="'30' → '31'")
    heavy = fidelity("Turn by 30 mm only", "Turn by mm only", FidelityOptions(number=10))
    assert heavy.recall == pytest.approx(5 / 15)
    # in a table all weigh 1.5 times as much, words outside it do not: (1 + 1.5 * 3) of (1 + 1.5 * 3 + 1.5)
    found = fidelity("Limits\nShaft 30", "Limits\n\n| | 30 |\n|---|---|")
    assert (found.recall, found.missing) == (pytest.approx((1 + 4.5) / (1 + 4.5 + 1.5)), ("Shaft",))
    found = fidelity("Do not set a b to 3 %", "Do set x y a z to 3 %", FidelityOptions(unit=4, negation=5))
    assert (found.recall, found.precision) == (11 / 17, 11 / 14)  # 4 words, 3 for "3", 4 for "%"
    assert (found.missing, found.invented) == (("not", "b"), ("x y", "z"))


def test_order_is_the_share_that_is_not_moved() -> None:
    found = fidelity("one two three four five six", "four five six one two three")
    assert (found.recall, found.precision, found.order) == (1.0, 1.0, 0.5)
    assert [fault.kind for fault in found.faults] == ["order"]


@pytest.mark.parametrize(
    ("kind", "shares"),  # in percent: recall, precision, recall of the values, length
    [
        ("refusal", "19 59 49 49"),
        ("translation", "39 97 70 50"),
        ("refusal", "9 9 9 9"),
        ("translation", "9 9 99 70"),
        ("summary", "20 59 49 49, 19 60 49 49, 19 70 49 49, 19 59 50 49, 19 59 60 49, 19 59 49 50, 19 59 49 60"),
        ("summary", "40 97 80 50, 50 97 99 50, 39 97 69 50, 39 97 30 50, 39 97 70 49, 39 97 70 9, 74 97 99 74"),
        ("", "75 97 99 74, 99 97 99 74, 74 98 99 74, 74 99 99 74, 74 97 99 75, 74 97 99 99"),
    ],
)
def test_an_answer_that_says_something_else_is_named_by_its_shares(kind, shares) -> None:
    for each in shares.split(", "):
        fault = wholesale(*(int(share) / 100 for share in each.split()))
        assert (fault.kind if fault else "") == kind, each


# --- what is allowed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "other"), cases_of("cases_fidelity_allowed.txt"))
def test_markup_and_typography_are_no_differences(one: str, other: str) -> None:
    assert one in ANSWER
    assert fidelity(SOURCE, ANSWER.replace(one, other)).faults == ()


def test_ligatures_quotes_and_wide_forms_are_no_differences_and_a_new_title_is_let_pass_but_named() -> None:
    assert fidelity("", "") == Fidelity(recall=1.0, precision=1.0, order=1.0)
    assert fidelity("Set it to 5-\n10 mm at most.", "Set it to 5-10 mm at most.").faithful
    assert not fidelity("Set it to 5\n10 mm at most.", "Set it to 5-10 mm at most.").faithful
    assert fidelity("ﬁrst “ﬂow” of １２ bar isn’t", 'first "flow" of 12 bar isn\'t').faithful
    found = fidelity(SOURCE, ANSWER.replace("The valves are", "## Delivery\n\nThe valves are"))
    assert (found.invented, found.precision < 1) == (("Delivery",), True)


def test_an_inferred_heading_number_must_go_on_with_those_before() -> None:
    source = "3 Safety\nRead this.\nDust\nWear a mask."
    assert kinds("# 3 Safety\n\nRead this.\n\n## 3.1 Dust\n\nWear a mask.", source) == set()
    assert kinds("# 3 Safety\n\nRead this.\n\n## 4.7 Dust\n\nWear a mask.", source) == {"heading-number"}
    numbered = "3 Safety\n3.1 Fire\nRead this.\nDust\nWear a mask."
    assert kinds("# 3 Safety\n\n## 3.1 Fire\n\nRead this.\n\n## 3.2 Dust\n\nWear a mask.", numbered) == set()


def test_running_lines_may_be_dropped_and_kept() -> None:
    page = "\n".join(f"Line {name} says something." for name in "abcdefghij")
    source = "\n".join(f"Service manual {n}\n{page.replace('Line', f'Part {n} line')}\nPage {n}\n" for n in (7, 8, 9))
    answer = "\n\n".join(line for line in source.splitlines() if not line.startswith(("Service", "Page")))
    assert fidelity(source, answer).faults == fidelity(source, source.replace("\n", "\n\n")).faults == ()
    once = source[: source.index("Service manual 8")]
    assert kinds(answer[: answer.index("Part 8")], once) == {"omission"}  # one line alone does not run
    assert fidelity(once, answer[: answer.index("Part 8")], furniture=["Service manual 12"]).faults == ()
    alike = "\n".join(f"Pump manual\nPump {n} is here.\n{page.replace('Line', f'Part {n}')}" for n in (7, 8, 9))
    assert fidelity(alike, alike.replace("Pump manual\n", "").replace("\n", "\n\n")).faults == ()
    rows = "\nInlet valve 74 N·m 881 h\nOutlet valve 6 N·m 614 h"
    assert "omission" in kinds(ANSWER + "\n| Inlet valve | 74 N·m | 881 h |\n", SOURCE + rows)


@pytest.mark.parametrize(("heads", "kept", "lines", "running"), rows_of("cases_running_lines.txt"))
def test_a_line_runs_that_is_dropped_from_all_pages_or_all_but_one(heads, kept, lines, running) -> None:
    body = iter(f"Part {one}{other} is here." for one in "abcdefghi" for other in "abcdefghi")
    pages = [(head, [next(body) for _ in range(lines)]) for head in heads]
    source = "\n".join("\n".join([head, *page]) for head, page in pages)
    answer = "\n".join("\n".join([*[head] * (n < kept), *page]) for n, (head, page) in enumerate(pages))
    assert fidelity(source, answer).faithful is running


CAPTION = "Table 3. Limits of the valves\n"
CELLS = [["Part", "Limit", "Interval"], ["Inlet valve", "73 N·m", "880 h"], ["Outlet valve", "6 N·m", "614 h"]]
CELLS.append(["Drive shaft", "29 N·m", "593 h"])
ROWS, ROWS_BY_CELL = "\n".join(map(" ".join, CELLS)), "\n".join(map("\n".join, CELLS))


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param(SOURCE.replace(CAPTION, "").replace("593 h\n", "593 h\n" + CAPTION), id="caption below"),
        pytest.param(SOURCE.replace("Drive shaft 29", "Page 8\nPart Limit Interval\nDrive shaft 29"), id="header"),
        pytest.param(SOURCE.replace("Outlet valve 6 N·m 614 h", "Outlet 6 N·m 614 h\nvalve"), id="wrapped cell"),
        pytest.param(SOURCE.replace(ROWS, ROWS_BY_CELL), id="cell by cell"),
        pytest.param(SOURCE.replace(ROWS, "\n".join(map("\n".join, zip(*CELLS, strict=True)))), id="by column"),
    ],
)
def test_however_a_table_was_printed_it_may_be_put_together(printed: str) -> None:
    assert printed != SOURCE
    assert fidelity(printed, ANSWER).faults == ()


def test_columns_that_were_read_across_may_be_put_in_order() -> None:
    left = ["The gear box is filled", "with oil of the grade", "named on the plate of", "the motor every spring."]
    right = ["A second pump empties", "the tank when its level", "has risen above the red", "mark beside the window."]
    across = "\n".join(line for pair in zip(left, right, strict=True) for line in pair)
    down = " ".join(left) + "\n\n" + " ".join(right)
    assert fidelity(across, down).faults == ()
    assert "order" in kinds(" ".join(right) + "\n\n" + " ".join(left), "\n".join(left + right))
    lines = across.split("\n")
    odd = [*lines[:5], "Nothing of this is said.", *lines[5:]]  # goes to the column after the one before it
    for printed, order in (
        (lines[:6], [0, 2, 4, 1, 3, 5]),
        (["All of it", *lines, "and so on."], [0, 1, 3, 5, 7, 2, 4, 6, 8, 9]),
        (["Oil.", "Dry.", *lines, "Oil.", "Dry."], [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]),
        (odd, [0, 2, 4, 7, 1, 3, 5, 6, 8]),
    ):
        made = " ".join(printed[place] for place in order if not printed[place].startswith("Nothing"))
        read = unread_across(source_words("\n".join(printed)), markdown_words(made))
        assert read is not None
        assert [line.text for line in read.lines] == [printed[place] for place in order]
    for printed, made in ((lines[:4], left[:2] + right[:2]), (left + right, right + left), (left, left)):
        assert unread_across(source_words("\n".join(printed)), markdown_words(" ".join(made))) is None


def test_words_may_be_let_pass_but_no_values() -> None:
    assert fidelity(SOURCE, ANSWER.replace("certificates", "invoices"), FidelityOptions(stray_words=1)).faithful
    assert not fidelity(SOURCE, ANSWER.replace("12 mA", "13 mA"), FidelityOptions(stray_words=9)).faithful


# --- what is not -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "other", "kind"), cases_of("cases_fidelity_faults.txt"))
def test_what_is_changed_lost_or_added_is_a_fault(one: str, other: str, kind: str) -> None:
    source = SOURCE + " The cover of the plate is thin."
    answer = ANSWER.rstrip() + " The cover of the plate is thin.\n"
    if kind == "truncation":
        source, answer = SOURCE, ANSWER
    assert fidelity(source, answer).faithful
    assert one in answer
    assert kinds(answer.replace(one, other, 1), source) == {kind}


@pytest.mark.parametrize(("source", "answer", "faults"), rows_of("cases_fidelity_pairs.txt"))
def test_what_is_let_pass_and_what_is_named(source: str, answer: str, faults: str) -> None:
    found = fidelity(source.replace(" / ", "\n"), answer.replace(" / ", "\n")).faults
    assert " ".join(f"{fault.kind}: {fault.detail}" for fault in found) == faults


def exchanged(text: str, one: str, other: str) -> str:
    assert one in text
    assert other in text
    return text.replace(one, "\0").replace(other, one).replace("\0", other)


def test_values_that_changed_rows_are_seen() -> None:
    for one, other in (("73 N·m", "6 N·m"), ("| Inlet valve", "| Outlet valve"), ("880 h", "614 h"), ("880", "593")):
        assert set() < kinds(exchanged(ANSWER, one, other)) <= {"order", "changed-value", "changed-word"}
    pulled_up = ANSWER.replace("880 h |", "880 h 614 h |").replace("6 N·m | 614 h |", "6 N·m | |")
    rows = ("| Inlet valve | 73 N·m | 880 h |", "| Outlet valve | 6 N·m | 614 h |")
    assert kinds(pulled_up) == kinds(exchanged(ANSWER, *rows)) == {"order"}


def test_refusals_translations_summaries_fences_and_rules_that_come_back_are_known() -> None:
    for text in ("I'm sorry, but I can't help with that.", "Das kann ich nicht tun.", "很抱歉，我无法处理。", ""):
        assert "refusal" in kinds(text)
    table = str.maketrans("abcdefghijklmnopqrstuvwxyz", "qwertzuiopasdfghjklyxcvbnm")
    assert "translation" in kinds(ANSWER.lower().translate(table))
    short = "The supply must not exceed 3.3 V and 12 mA. Loosen the plate, fit the filter. Limits of the valves: "
    assert "summary" in kinds(short + "73 N·m for inlet, 6 N·m for outlet. They are delivered with certificates.")
    assert kinds(f"```markdown\n{ANSWER}```\n") == {"fence"}
    assert kinds("Run:\n\n```sh\n# a comment\nmake all\n```\n", "Run:\n# a comment\nmake all") == set()
    rules = "Leave nothing out, shorten nothing and explain nothing of the window."
    assert kinds(f"{rules}\n\n{ANSWER}", prompt=rules) == {"echo"}
    assert kinds(f"{rules}\n\n{ANSWER}") == {"invention"}


def test_heading_levels_must_agree_with_the_answer_before_and_with_each_other() -> None:
    assert kinds(ANSWER, previous="# 3 Supply\n\n## 3.1 Fuses\n") == set()
    assert kinds(ANSWER, previous="# 3 Supply\n\n### 3.1 Fuses\n") == {"heading-drift"}
    source = "3.1 Fuses\n3.2 Plugs\nWires\n"
    assert kinds("## 3.1 Fuses\n\n# 3.2 Plugs\n\n## Wires", source) == {"heading-drift"}
    assert kinds("# 3.1 Fuses\n\n# 3.2 Plugs\n\n## Wires", source) == set()
    assert kinds("# 3.1 Fuses\n\n# 3.2 Plugs\n\n### Wires", source, previous="## Wires") == {"heading-drift"}
    assert kinds("## 3 Fuses\n\n# 3.1 Plugs", "3 Fuses\n3.1 Plugs") == {"heading-drift"}
    for plain in ("3.2 of it", "- 3.2 of it", "| 3.2 of it |", "```\n3.2 of it\n```"):
        assert kinds(f"## 3.1 Fuses\n\n{plain}", "3.1 Fuses\n3.2 of it", previous="# 3.4 Gas\n\n## 3.5 Fuel") <= {
            "heading-drift"
        }
        assert kinds(f"## 3.1 Fuses\n\n{plain}", "3.1 Fuses\n3.2 of it") == set()
    (fault,) = fidelity("B.2 Fuses\nB.3 Plugs", "# B.2 Fuses\n\n### B.3 Plugs").faults
    assert fault.detail == "'B.3 Plugs' is of level 3, not 1"


def test_what_is_let_pass_one_by_one_adds_up() -> None:
    names = ["anchor", "bracket", "coupling", "damper", "element", "flange", "gasket", "handle", "insert", "journal"]
    source = " ".join(f"the {name} of {other}" for name in names for other in names if name != other)
    answer = source
    for name in names:  # 20 of 360 words are misspelt
        answer = answer.replace(f"the {name} of", f"the {name[:-1]} of", 2)
    found = fidelity(source, answer)
    assert [fault.kind for fault in found.faults] == ["low-recall"]
    assert found.recall == pytest.approx(1 - 20 / 360)
    assert fidelity(source, answer, FidelityOptions(recall=0.9, precision=0.9)).faithful
    assert fidelity(source, answer, FidelityOptions(slack=21)).faithful


@pytest.mark.parametrize("changed", [1, 2, 3, 4, 9])
def test_of_each_kind_only_so_many_faults_are_listed_and_the_last_says_how_many_more(changed: int) -> None:
    words = [f"pump number {i} turns at" for i in range(10, 20)]
    source, answer = (" ".join(f"{text} {value}0 rpm and" for text in words) for value in (3, 4))
    answer = " ".join([*answer.split()[: 8 * changed], *source.split()[8 * changed :]])
    found = [fault.detail for fault in fidelity(source, answer, FidelityOptions(most_faults=3)).faults]
    more = f" and {changed - 3} more" if changed > 3 else ""
    assert found == ["'30' → '40'"] * (min(changed, 3) - 1) + [f"'30' → '40'{more}"]


# --- laws ------------------------------------------------------------------------------------------------------

WORDS = st.lists(
    st.sampled_from(["pump", "valve", "oil", "not", "12", "3.5", "mm", "the", "(a)", "-4", "|", "#", "§", "汉字"]),
    max_size=60,
).map(" ".join)


@given(WORDS)
def test_every_text_is_faithful_to_itself(text: str) -> None:
    assert [f for f in fidelity(text, text).faults if f.kind != "heading-drift"] == []


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_texts_give_shares_and_no_error(source: str, answer: str) -> None:
    found = fidelity(source, answer, prompt=answer, previous=source)
    assert all(0 <= share <= 1 for share in (found.recall, found.precision, found.order))
    assert found == fidelity(source, answer, prompt=answer, previous=source)
    assert pickle.loads(pickle.dumps(found)) == found


@given(st.lists(st.sampled_from("abc"), max_size=80), st.lists(st.sampled_from("abc"), max_size=80))
def test_an_alignment_matches_equal_words_once(source: list[str], answer: list[str]) -> None:
    aligned = align(source, answer)
    joined = {place for place in aligned.there if place >= 0 and aligned.there.count(place) > 1}
    for index, place in enumerate(aligned.here):
        if place >= 0 and index not in joined and aligned.there[place] == index:
            assert source[place] == answer[index]
    steady = [place for index, place in enumerate(aligned.here) if place >= 0 and not aligned.moved[index]]
    assert steady == sorted(steady)
    assert align(source, source).here == list(range(len(source)))


@settings(max_examples=10)
@given(st.sampled_from(["a b ", "ab ", "a ", "| a | b |\n", "1. a\n", "# a\n", "<!--", "[a](", "> ", "$a$ ", "\\"]))
def test_hostile_repetition_is_looked_through(unit: str) -> None:
    found = fidelity("a b " * 2_000, unit * 2_000)
    assert 0 <= found.recall <= 1


# --- words -----------------------------------------------------------------------------------------------------


def test_words_are_values_words_and_signs() -> None:
    line = "f_cpu = 180MHz, ±5 % at −3,5 °C (STM32F103) isn't 5–10"
    expected = """f_cpu:word =:symbol 180:number mhz:unit ±:symbol 5:number %:symbol at:word -3,5:number °:symbol
        c:unit stm32f103:number isn't:negation 5:number -:symbol 10:number"""
    assert [f"{word.key}:{word.kind}" for word in source_words(line).words] == expected.split()


def test_lines_of_an_answer_know_what_they_are() -> None:
    lines = markdown_words(ANSWER).lines
    assert " ".join(line.kind for line in lines) == "heading text item item text row row row row text"
    assert lines[0].level == 2
    assert [end - start for start, end in lines[6].cells] == [2, 3, 2]


# --- the report ------------------------------------------------------------------------------------------

LAYOUT_PAGE = {"page": 2, "recall": 0.5, "precision": 1.0, "order": 0.75, "state": "layout"}
LOST = [{"kind": "omission", "detail": "'12 mA'"}, {"kind": "order", "detail": "'a'"}]
AGAIN = {"page": 3, "recall": 0.9, "precision": 0.8, "order": 1.0, "state": "re-asked"}
PAGES = (
    PageFidelity(page=1, recall=1.0, precision=1.0, order=1.0),
    PageFidelity(**LAYOUT_PAGE, faults=tuple(Fault(**fault) for fault in LOST)),
    PageFidelity(**AGAIN, faults=(Fault(kind="order", detail=""),)),
)
REPORT = FidelityReport(document_id="d", source="a.pdf", pages=PAGES)


def test_the_shape_on_disk_is_stable() -> None:
    assert json.loads(json.dumps(REPORT.as_json())) == {
        "version": 1, "document_id": "d", "source": "a.pdf",
        "summary": {
            "pages": 3, "states": {"llm": 1, "re-asked": 1, "layout": 1}, "faults": {"omission": 1, "order": 2},
            "recall": {"mean": 0.8, "min": 0.5}, "precision": {"mean": 0.933333, "min": 0.8},
            "order": {"mean": 0.916667, "min": 0.75},
        },
        "worst": [2, 3, 1],
        "pages": [
            {"page": 1, "recall": 1.0, "precision": 1.0, "order": 1.0, "state": "llm", "faults": []},
            {**LAYOUT_PAGE, "faults": LOST},
            {**AGAIN, "faults": [{"kind": "order", "detail": ""}]},
        ],
    }  # fmt: skip


def test_options_are_refused_beyond_their_bounds() -> None:
    least = {"recall": 0, "precision": 0, "slack": 0, "number": 1, "unit": 1, "negation": 1, "cell": 1}
    counts = {"stray_words": 0, "added_titles": 0, "title_words": 1, "most_faults": 1}
    FidelityOptions(**least, **counts)
    FidelityOptions(recall=1, precision=1)
    beyond = [*({name: value - 0.1} for name, value in least.items()), *({name: n - 1} for name, n in counts.items())]
    for wrong in (*beyond, {"recall": 1.1}, {"precision": 1.1}, {"slack": math.inf}, {"cell": math.inf}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            FidelityOptions(**wrong)


def test_an_added_run_is_named_by_where_its_words_come_from() -> None:
    text = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
    known, none = shingles(text), frozenset[tuple[str, ...]]()
    assert len(known) == 7
    for run, of_source, of_rules, kind in (
        (text, known, none, "repetition"),
        (text, none, known, "echo"),
        (text, known, known, "echo"),
        (text, none, none, "invention"),
        (["x"] * 9, none, none, "repetition"),
        (["x"] * 8, none, none, "invention"),
        (["a", "b", "c"], known, known, "invention"),
        ([*text[:6], *"xyz"], known, none, "invention"),  # 3 of 6 runs
        ([*text[:7], *"xyz"], none, known, "echo"),
        ([*text[:7], *"xyz"], known, none, "repetition"),  # 4 of 7
    ):
        assert origin(run, of_source, of_rules) == kind


def test_worst_pages_come_first_and_ties_by_page_and_no_pages_have_a_report() -> None:
    assert [page.page for page in REPORT.worst(2)] == [2, 3]
    assert FidelityReport.from_json(REPORT.as_json()) == REPORT
    assert PageFidelity(page=1, recall=1 / 3, precision=1.0, order=1.0).as_json()["recall"] == 0.333333
    made = {"pages_by_model": 1, "pages_asked_again": 1, "pages_from_layout": 1}
    lows = {"fidelity_recall": 0.5, "fidelity_precision": 0.8, "fidelity_order": 0.75}
    assert (REPORT.as_metadata(), PAGES[1].worst) == ({**made, **lows}, 0.5)
    pages = (PageFidelity(page=4, recall=1, precision=1, order=1), PAGES[0])
    assert [page.page for page in FidelityReport(document_id="d", source="", pages=pages).worst()] == [1, 4]
    empty = FidelityReport(document_id="d", source="", pages=()).as_json()
    assert empty["summary"]["recall"] == {"mean": 1.0, "min": 1.0}
    assert empty["worst"] == empty["pages"] == []
    assert FidelityReport.from_json(empty).as_metadata() == {}
