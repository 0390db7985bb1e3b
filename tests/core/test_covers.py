"""What the first page says of a document: company, form, period and date; and what is no title."""

from __future__ import annotations

import pytest
from case_files import cases_of
from hypothesis import given
from hypothesis import strategies as st

from catena.text import Cover, is_title, read_cover


@pytest.mark.parametrize(("page", "said"), cases_of("cases_covers.txt"))
def test_cover_says_company_form_and_period(page: str, said: str) -> None:
    found = read_cover(page.splitlines())
    told = [f"{name}: {value}" for name, value in found.metadata.items()]
    told += ["numbered"] * found.numbered + [f"title: {found.title}"] * bool(found.title)
    assert "\n".join(told) == said
    assert read_cover([]) == Cover()


TITLES = ("Libtasn1", "Bash Reference Manual", "Federal Trade Commission Annual Report")
NO_TITLES = (
    "0000764478-23-000041", "d234567d10k", "tm_report_final", "form10q.htm", "Microsoft Word - pump",
    "UNITED STATES SECURITIES AND EXCHANGE COMMISSION", "Ministry of Finance", "",
    "United States Securities and Exchange Commission Washington, D.C. 20549",
)  # fmt: skip


def test_numbers_files_programs_and_authorities_are_no_titles() -> None:
    assert [text for text in (*TITLES, *NO_TITLES) if is_title(text)] == list(TITLES)


@given(st.lists(st.text(max_size=60), max_size=8))
def test_any_page_can_be_read(lines: list[str]) -> None:
    cover = read_cover(lines)
    assert cover == read_cover([*lines, "", "--"])
    assert (cover.title != "") == (cover.company != "" and cover.form not in {"", "Earnings Release"})
