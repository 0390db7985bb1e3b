"""What titles, file names, first lines and first pages say: what tells a document from its neighbours, no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from case_files import cases_of
from hypothesis import given
from hypothesis import strategies as st

from catena.effects import FindNames
from catena.library import Library
from catena.model import Document, Name, Ranking
from catena.text import Cover, HeaderNames, header_of, is_title, read_cover, without_wider

SITES = (
    "Privacy policy of {}",
    ("fish.com", "ask.org", "Blue Lake", "Salt Inc", "TALLTREE", "HX-200", "b.net", "Oak"),
)


@pytest.fixture(scope="module")
def sites() -> HeaderNames:
    template, names = SITES
    return HeaderNames(
        {name: header_of(template.format(name), f"/in/{number}.md", "") for number, name in enumerate(names)}
    )


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("fish.com: who sees my data?", "fish.com"),
        ("Does fish share data?", "fish.com"),  # the site by its name
        ("does salt sell data?", "Salt Inc"),  # the company without what it is
        ("blue lake", "Blue Lake"),
        ("BLUELAKE data", "Blue Lake"),
        ("what Blue-Lake keeps", "Blue Lake"),
        ("the Tall Tree policy", "TALLTREE"),
        ("an hx200", "HX-200"),
        ("What is in the privacy policy?", None),  # the template
    ],
)
def test_what_distinguishes_a_title_is_a_name_in_any_spelling(
    sites: HeaderNames, question: str, found: str | None
) -> None:
    assert [name.documents for name in sites.names_in(question)] == ([(found,)] if found else [])


def test_the_longest_run_of_a_header_is_the_name() -> None:
    courts = HeaderNames({
        "a": header_of("law-1", "law-1.md", "IN THE PRESTON, LANCASTER, COURT\nThe People v. T. Jackson"),
        "b": header_of("law-2", "law-2.md", "**Preston, Oakham, Court**"),
        "c": header_of("law-3", "law-3.md", "Salford Court\nv. R. Jackson"),
        "d": header_of("law-4", "law-4.md", "Derby Court"),
    })  # fmt: skip
    said = courts.names_in("By judgments of Preston, Lancaster, Court and Salford Court, who is T. Jackson?")
    assert said == (
        Name("preston, lancaster, court", ("a",)), Name("salford court", ("c",)), Name("t. jackson", ("a",)),
    )  # fmt: skip
    assert without_wider(said) == said[:2]


def test_of_two_names_the_narrower_is_kept_and_each_set_of_documents_once() -> None:
    wide, narrow, same = Name("acme", ("a", "b")), Name("acme pump", ("a",)), Name("pump", ("a",))
    assert without_wider((wide, narrow, same)) == (narrow,)
    assert without_wider((wide, same), (narrow,)) == ()
    assert without_wider((wide,)) == (wide,)


def test_two_or_three_words_of_a_header_are_also_written_as_one() -> None:
    inns = HeaderNames({name: header_of(name, "a.md", "") for name in ("Old Red Oak Inn", "Ox Inn", "Ox Pa")})
    said = ("OldRedOak", "OldRedOakInn", "OxInn", "OxPa")
    assert [name.documents for one in said for name in inns.names_in(f"the {one} sign")] == [
        ("Old Red Oak Inn",), ("Ox Inn",),
    ]  # fmt: skip


def test_words_that_any_question_may_say_name_no_document() -> None:
    titles = ("How to Order Parts", "Was ist neu?", "Pump")
    guides = HeaderNames({name: header_of(name, "a.md", "") for name in titles})
    assert guides.names_in("How often must the bearings be greased?") == ()
    assert guides.names_in("Was ist der Druck?") == ()
    assert guides.names_in("how to order seals") == (Name("how to order", ("How to Order Parts",)),)


def test_a_word_of_the_first_lines_is_a_name_by_its_capital_alone() -> None:
    clubs = HeaderNames({
        "a": header_of("Club Rules", "a.md", "# Club Rules\n\n## Fees\n\nMembers pay."), "b": ("Pool Rules", "B"),
    })  # fmt: skip
    assert clubs.names_in("What are the fees per year?") == ()
    assert [name.text for name in clubs.names_in("the year of Fees, and the club")] == ["fees"]
    assert [name.text for name in clubs.names_in("who runs the club?")] == ["club"]


def test_numbers_of_files_and_periods_are_no_names() -> None:
    headers = {"a": header_of("0000764478-23-000041", "3M_2023Q4_10K.pdf", "16 MHz"), "b": header_of("B", "b.md", "")}
    names = HeaderNames(headers)
    assert names.names_in("000041 of 2023Q4 at 16 MHz") == ()
    assert names.names_in("the sales of 3M") == (Name("3m", ("a",)),)


def test_of_several_documents_those_of_the_period_are_told() -> None:
    files = ("ACME_2022_10K", "ACME_2023_10K", "ACME_2023Q2_10Q", "other", "more", "x1a", "x2a", "x3a", "x4a")
    names = HeaderNames({file: header_of("", f"{file}.pdf", "") for file in files})
    (acme,) = names.names_in("Acme")
    assert acme.documents == files[:3]
    assert names.of_periods(acme, "sales in FY2022") == files[:1]
    assert names.of_periods(acme, "sales in Q2 of fiscal 2023") == files[2:3]
    assert names.of_periods(acme, "sales in 2023") == files[1:3]
    assert names.of_periods(acme, "sales in 2019") == names.of_periods(acme, "sales") == ()


PARTS = st.lists(
    st.sampled_from(["Ab", "ab", "c", "Dé", "1", "漢", " ", "-", ".", ": ", "\n", "İ", "ß"]), max_size=8
).map("".join)


@given(st.dictionaries(st.sampled_from("abcdef"), PARTS, max_size=6), PARTS)
def test_names_stand_in_the_question_and_their_documents_are_few(titles: dict[str, str], question: str) -> None:
    names = HeaderNames({document: header_of(title, "", "") for document, title in titles.items()})
    for name in names.names_in(question):
        assert 1 <= len(name.documents) <= len(titles) ** 0.5
        assert len(titles) > 1
        assert {*name.documents} <= {*titles}


RECORD = "**{town} General Hospital**\n\nPatient: {patient}\n\n## Findings\n\nThe pulse was {pulse} a minute.{more}\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    towns = ("Ashby", "Corby", "Derby", "Formby", "Grimsby", "Rugby", "Selby", "Tenby", "Wetherby")
    with Library.open(tmp_path_factory.mktemp("headers") / "library") as opened:
        for number, town in enumerate(towns):
            more = " He was moved here from Wetherby, to play rugby." if number < 5 else ""
            text = RECORD.format(town=town, patient=f"{town[0]}. Smith", pulse=60 + number, more=more)
            opened.add(Document(id=town.lower(), text=text, title=f"record-{number}"))
        yield opened


def first(found: Ranking, k: int) -> list[str]:
    return [hit.chunk.document_id for hit in found.hits[:k]]


def test_two_names_of_first_lines_take_turns_and_are_shown(library: Library) -> None:
    question = "Whose pulse was higher, that of Derby General Hospital or that of Tenby General Hospital?"
    found = library.search(question)
    assert first(found, 2) == ["derby", "tenby"]
    assert [[way.view for way in hit.provenance if way.route == "name"] for hit in found.hits[:2]] == [
        ["derby general hospital"], ["tenby general hospital"],
    ]  # fmt: skip
    assert not any(
        way.route == "name" for hit in library.search(question, by_name=False).hits for way in hit.provenance
    )


def test_a_name_that_other_texts_print_as_often_tells_no_document(library: Library) -> None:
    assert library.store.names(FindNames(query="the pulse in Wetherby")).parts == ()
    assert library.store.names(FindNames(query="the pulse in Selby")).parts == (Name("selby", ("selby",)),)


def test_a_name_with_a_capital_is_not_the_everyday_word(library: Library) -> None:
    assert library.store.names(FindNames(query="the pulse in rugby")).parts == ()
    assert library.store.names(FindNames(query="the pulse in Rugby")).parts == (Name("rugby", ("rugby",)),)


def test_entities_are_looked_for_in_headers(library: Library) -> None:
    assert first(library.search("What was the pulse?", entities=["Grimsby General Hospital"]), 1) == ["grimsby"]


# the first page


@pytest.mark.parametrize(("page", "said"), cases_of("cases_covers.txt"))
def test_cover_says_company_form_and_period(page: str, said: str) -> None:
    found = read_cover(page.splitlines())
    told = [f"{name}: {value}" for name, value in found.metadata.items()]
    told += ["numbered"] * found.numbered + [f"title: {found.title}"] * bool(found.title)
    assert "\n".join(told) == said
    assert read_cover([]) == Cover()


GOOD_TITLES = (
    "Libtasn1", "Bash Reference Manual", "Federal Trade Commission Annual Report", "Oak", "to " * 66 + "it",
)  # fmt: skip
NO_TITLES = (
    "0000764478-23-000041", "d234567d10k", "tm_report_final", "form10q.htm", "Microsoft Word - pump",
    "UNITED STATES SECURITIES AND EXCHANGE COMMISSION", "Ministry of Finance", "", "Ox",
    "Oak 123", "to " * 66 + "ask",
    "United States Securities and Exchange Commission Washington, D.C. 20549",
)  # fmt: skip


def test_numbers_files_programs_and_authorities_are_no_titles() -> None:
    assert [text for text in (*GOOD_TITLES, *NO_TITLES) if is_title(text)] == list(GOOD_TITLES)


@given(st.lists(st.text(max_size=60), max_size=8))
def test_any_page_can_be_read(lines: list[str]) -> None:
    cover = read_cover(lines)
    assert cover == read_cover([*lines, "", "--"])
    assert (cover.title != "") == (cover.company != "" and cover.form not in {"", "Earnings Release"})
