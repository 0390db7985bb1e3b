"""The report page in a real Chromium: what it asks for, what the keyboard reaches, what a reader sees."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import catena
from catena_view.report import Report, report
from catena_view.report.reporting import page_of
from catena_view.report.values import EdgeKind, GroupMark, NodeMark

pytestmark = pytest.mark.browser

PARTS = ("documents", "ranking", "segments", "graph", "fidelity", "studies")
SCREENS = {
    "desktop": {},
    "dark": {"color_scheme": "dark"},
    "phone": {"width": 375, "height": 700, "device_scale_factor": 2, "has_touch": True},
    "narrow": {"width": 320, "height": 600},
}
Look = Callable[..., Any]


@pytest.fixture
def looked(look: Look, everything: Report) -> Any:
    """The page on which no part is missing, open on a wide screen."""
    return look(everything)


@pytest.mark.parametrize("screen", SCREENS)
def test_nothing_is_asked_of_a_network_and_nothing_goes_wrong(look: Look, everything: Report, screen: str) -> None:
    looked = look(everything, **SCREENS[screen])
    for part in PARTS:
        looked.page.locator(f"#{part}").scroll_into_view_if_needed()
    assert looked.requests == []
    assert looked.messages == []


def test_the_policy_stops_what_a_script_would_send(looked: Any) -> None:
    sent = looked.page.evaluate("fetch('http://127.0.0.1:9/x').then(() => 'sent', () => 'refused')")
    looked.page.evaluate("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/y.png'}))")
    looked.page.wait_for_function("[...document.images].at(-1).complete")
    assert sent == "refused"
    assert looked.requests == []
    assert len([text for text in looked.messages if "Content Security Policy" in text]) >= 2


def test_texts_of_documents_are_shown_and_never_obeyed(looked: Any) -> None:
    assert looked.page.evaluate("window.hacked") is None
    assert looked.page.locator("main img[src='x'], #ranking b, main script").count() == 0
    assert "<script>window.hacked=2</script>" in looked.texts("#facts dd")[0]
    assert "<img src=x onerror" in " ".join(looked.texts("#ranking .passage"))


def test_every_part_is_there(looked: Any, everything: Report) -> None:
    assert looked.texts("h1") == [everything.contents.question]
    assert looked.page.locator(".absence").count() == 0
    assert looked.page.locator(".hit").count() == len(everything.contents.ranking.hits)
    bars = sum(len(curve.bars) for curve in everything.contents.segments.curves)
    assert looked.page.locator("#segments rect.bar").count() == bars
    assert looked.page.locator("#segments rect.segment").count() >= 1
    assert looked.page.locator("#graph circle").count() == len(everything.contents.graph.nodes)
    assert looked.page.locator("#graph path.edges").count() >= 3
    assert looked.page.locator("#fidelity svg g").count() == 7
    assert looked.page.locator("#studies figure img").count() == 4
    assert all("by " in text or "first ranking" in text for text in looked.texts("#graph .reasons"))


def test_what_is_missing_and_what_is_unknown_is_said(look: Look, bare: Report) -> None:
    looked = look(bare)
    assert "'HX220' stands nowhere" in looked.texts("#notices .notice")[0]
    assert "Nothing was found." in looked.texts("#ranking .absence")
    for part in ("segments", "graph", "fidelity", "studies"):
        assert looked.page.locator(f"#{part} .absence").count() >= 1
    assert "catena graph build" in looked.texts("#graph code")[0]
    assert looked.messages == []


def test_the_keyboard_reaches_everything_and_shows_where_it_is(looked: Any) -> None:
    press = looked.page.keyboard.press
    press("Tab")
    assert "Skip to the report" in looked.focused()
    press("Enter")
    assert looked.focused().startswith("MAIN")
    seen = []
    for _ in range(120):
        press("Tab")
        seen.append(looked.focused())
        if seen[-1].startswith("BODY"):
            break
        outline = looked.page.evaluate(
            "((e) => getComputedStyle(e.role === 'treeitem' ? e.firstChild : e).outlineStyle)(document.activeElement)"
        )
        assert outline != "none", seen[-1]
    whole = " | ".join(seen)
    for wanted in (
        "manual",
        "arrow keys read them one by one",
        "Graph of",
        "Hide edges",
        "Fidelity of",
        "The ranking as a",
    ):
        assert wanted in whole, wanted
    assert len([each for each in seen if each.startswith("LI")]) == 1  # of the tree one item is in the tab order


def test_arrow_keys_walk_the_tree_and_enter_goes_to_the_hit(looked: Any) -> None:
    press, page = looked.page.keyboard.press, looked.page
    page.get_by_label("Only what holds hits").uncheck()
    page.locator("[role=treeitem]").first.focus()
    press("ArrowLeft")
    first = page.locator("[role=treeitem]").first
    assert first.get_attribute("aria-expanded") == "false"
    press("ArrowRight")
    press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-level')") == "2"
    press("End")
    last = looked.focused()
    press("ArrowDown")
    assert looked.focused() == last
    press("Home")
    press("f")
    assert "Field report" in looked.focused()
    marked = page.locator("[role=treeitem][data-hit='1']").last
    marked.focus()
    press("Enter")
    assert page.evaluate("document.activeElement.id") == "hit-1"


def test_arrow_keys_read_the_curve_and_the_strip(looked: Any) -> None:
    for part, said in (("segments", r"Chunk 1: value -?\d"), ("fidelity", r"Page 2: recall 0\.960")):
        looked.page.locator(f"#{part} .drawing").first.focus()
        looked.page.keyboard.press("ArrowRight")
        looked.page.keyboard.press("ArrowRight")
        assert re.match(said, looked.texts(f"#{part} .readout")[0])


def test_keys_walk_the_graph_the_chain_and_the_zoom(looked: Any, everything: Report) -> None:
    press, readout = looked.page.keyboard.press, looked.page.locator("#graph .readout")
    looked.page.locator("#graph .field").focus()
    press("n")
    assert everything.contents.graph.chains[0][0].citation in (readout.text_content() or "")
    assert "Joined to" in (readout.text_content() or "")
    assert looked.page.locator("#graph path.near").count() >= 1
    told = {readout.text_content()}
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
        press(key)
        told.add(readout.text_content())
    assert len(told) > 1
    press("+")
    assert "scale(1.5)" in (looked.page.locator("#graph svg > g").first.get_attribute("transform") or "")
    press("0")
    assert "scale(1)" in (looked.page.locator("#graph svg > g").first.get_attribute("transform") or "")
    press("Escape")
    assert readout.text_content() == "No node is chosen."
    looked.page.get_by_role("button", name="Show in the graph").first.click()
    assert looked.page.evaluate("document.activeElement.className") == "drawing field"


def test_everything_has_a_name_and_a_text_beside_it(looked: Any) -> None:
    asking = "[role=img],[role=group][tabindex],[role=application],[role=region],input,img"
    nameless = looked.page.locator(asking).evaluate_all(
        "(found) => found.filter((e) => !(e.ariaLabel || e.alt || e.closest('label'))).map((e) => e.outerHTML)"
    )
    ids = looked.page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert nameless == []
    assert len(ids) == len(set(ids))
    for part in ("ranking", "segments", "graph", "fidelity", "studies"):  # a table for each picture
        assert looked.page.locator(f"#{part} table").count() >= 1


@pytest.mark.parametrize("screen", ["phone", "narrow"])
def test_a_small_screen_scrolls_one_way_only(look: Look, everything: Report, screen: str) -> None:
    looked = look(everything, **SCREENS[screen])
    looked.page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    wide, room = looked.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= room
    sizes = looked.page.evaluate(
        "[...document.querySelectorAll('p, li, td, h2, h3')].map((e) => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 13


def test_dark_and_light_follow_the_reader(look: Look, everything: Report) -> None:
    grounds = {
        scheme: look(everything, color_scheme=scheme).page.evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    }
    assert grounds == {"light": "rgb(251, 250, 247)", "dark": "rgb(21, 23, 27)"}


def test_paper_has_the_tables_and_no_controls(looked: Any) -> None:
    looked.page.emulate_media(media="print")
    looked.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert looked.page.locator(".controls:visible, #parts:visible, button:visible").count() == 0
    assert looked.page.locator("details:not([open])").count() == 0
    looked.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert looked.page.locator("details[open]").count() == 0


# Two thousand nodes.

DOCUMENTS, EACH = 40, 50


@pytest.fixture(scope="module")
def large(everything: Report) -> Report:
    """The same report with a graph of 2,000 passages in 40 documents and 12,000 edges."""
    groups = tuple(
        GroupMark(title=f"Manual {d}", tone=d if d < 7 else -1, x=d % 8 / 8, y=d // 8 / 5, nodes=EACH)
        for d in range(DOCUMENTS)
    )
    nodes = tuple(
        NodeMark(x=p / EACH, y=d / DOCUMENTS, group=d, citation=f"Manual {d}, part {p}", excerpt="…", keywords=())
        for d in range(DOCUMENTS)
        for p in range(EACH)
    )
    count = len(nodes)
    beside = [(at, at + 1, 1.0) for at in range(count - 1)]
    alike = [(at % count, (at * 37 + 11) % count, 0.3 + 0.6 * (at % 101) / 101) for at in range(10_000)]
    kinds = tuple(
        EdgeKind(kind=kind, dash=dash, edges=tuple(chain.from_iterable(edges)), count=len(edges))
        for kind, dash, edges in (("structural", "solid", beside), ("semantic", "dashed", alike))
    )
    graph = replace(everything.contents.graph, nodes=nodes, groups=groups, kinds=kinds, chains=(), by_document=True)
    contents = replace(everything.contents, graph=graph)
    return Report(page_of(contents), contents)


@pytest.mark.parametrize("screen", ["desktop", "phone"])
def test_two_thousand_nodes_are_drawn_filtered_and_gathered(look: Look, large: Report, screen: str) -> None:
    looked = look(large, **SCREENS[screen])
    page = looked.page
    assert page.locator("#graph circle").count() == DOCUMENTS * EACH

    def shown() -> int:
        return int(re.sub(r"\D", "", page.locator("#graph .controls output").last.text_content().split(" of ")[0]))

    slider = page.get_by_label("Hide edges weaker")
    begun = shown()
    assert 600 <= begun <= 2_600  # as many as can be followed, of 12,000
    slider.fill("0")
    assert shown() == 11_999
    slider.fill("100")
    assert shown() < begun
    page.get_by_label("semantic").uncheck()
    assert page.locator("#graph path.edges:not(.sample path)").count() < 4
    page.get_by_label("documents", exact=True).check()
    assert page.locator("#graph .field circle").count() == DOCUMENTS
    assert looked.messages == []
    wide, room = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= room


def test_a_hit_shows_rows_that_match_and_the_whole_passage_on_request(look: Look, tmp_path: Path) -> None:
    rows = "\n".join(f"| P{number} | {number}.5 N·m |" for number in range(9))
    text = f"# Pump\n\n## Torques\n\n| Part | Torque |\n| --- | --- |\n{rows}\n| Cover | 24 N·m |\n"
    (tmp_path / "pump.md").write_text(text, encoding="utf-8")
    with catena.Library.open(tmp_path / "lib") as library:
        library.index(tmp_path / "pump.md")
        looked = look(report(library, "Which torque has the cover?"))
        nothing = look(report(library, "asdf qwer zxcv"))
    hit = looked.page.locator("#hit-1")
    assert hit.locator(".preview td").all_text_contents() == ["Cover", "24 N·m"]
    assert "|" not in hit.inner_text()
    assert "words (lexical): rank 1" in hit.inner_text()
    hit.get_by_role("button", name="Whole passage").click()
    assert "| P3 | 3.5 N·m |" in hit.inner_text()
    assert not hit.locator(".preview").is_visible()
    assert "None of the question's words" in nothing.page.locator("#ranking .notice").inner_text()
    assert looked.messages == nothing.messages == []
