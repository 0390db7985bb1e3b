"""What the first page says of a document: company, form, period and date; and what is no title."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.text import Cover, is_title, read_cover

FILING = """UNITED STATES
SECURITIES AND EXCHANGE COMMISSION
Washington, D.C. 20549
FORM 10-Q
QUARTERLY REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT OF 1934
For the quarterly period ended
July 29, 2023
Commission File Number: 1-2345
NORTHWIND CO., INC.
______________
(Exact name of registrant as specified in its charter)
Minnesota 41-0000000"""
RELEASE = """May 9, 2023
Northwind Announces Fourth Quarter Fiscal 2022 Results
Net Sales of $3.2 Billion
BOLINGBROOK, Ill. -- Northwind Traders, Inc. (NASDAQ: NWND) today announced results"""
NORTHWIND = "Northwind Co. (Exact Name of Registrant as Specified in Its Charter)"


@pytest.mark.parametrize(
    ("page", "cover", "title"),
    [
        (
            FILING,
            Cover(company="NORTHWIND CO., INC.", form="10-Q", period="2023 Q2", date="2023-07-29", numbered=True),
            "NORTHWIND CO., INC. 10-Q 2023 Q2",
        ),
        (
            f"Form 8-K\nDate of Report (Date of earliest event reported): July 1, 2022\n{NORTHWIND}",
            Cover(company="Northwind Co.", form="8-K", date="2022-07-01", numbered=True),
            "Northwind Co. 8-K 2022-07-01",
        ),
        (
            RELEASE,
            Cover(company="Northwind Traders, Inc.", form="Earnings Release", period="2022 Q4", date="2023-05-09"),
            "",
        ),
        *(
            (page, Cover(company=company, form="Earnings Release", period=period), "")
            for page, company, period in (
                ("Halden reports fiscal 2023 results and outlook for fiscal 2024\nNet sales", "Halden", "2023"),
                ("NEWS\nHALDEN & SONS REPORTS SECOND-QUARTER 2023\nRESULTS", "HALDEN & SONS", "2023 Q2"),
                (
                    "The Halden Company (HLD) Announces Fiscal Year 2024 First Quarter Earnings",
                    "The Halden Company",
                    "2024 Q1",
                ),
                ("Halden posts record third quarter sales", "Halden", ""),
                ("3H veröffentlicht Quartalszahlen Q3 2023", "3H", "2023 Q3"),
                ("Halden Announces Results for the Second Quarter of 2023 and a Dividend", "Halden", "2023 Q2"),
            )
        ),
        ("Smith Reports New Results on Pumps in 1 of 2 Years", Cover(), ""),
        (
            "Annual report\nHalden reports 2021 earnings",
            Cover(company="Halden", form="Annual report", period="2021"),
            None,
        ),
        (
            "Halden Materials plc\nAnnual Report and Accounts 2022\nfor the year ended 31 March 2022",
            Cover(
                company="Halden Materials plc", form="Annual Report and Accounts", period="2022", date="2022-03-31"
            ),
            "Halden Materials plc Annual Report and Accounts 2022",
        ),
        (
            "Halden, Inc.\nCommission File Number 1-2345\n(Exact name of registrant)\nForm 20-F",
            Cover(company="Halden, Inc.", form="20-F", numbered=True),
            "Halden, Inc. 20-F",
        ),
        (
            "2021 Annual Report\nHalden Holdings",
            Cover(company="Halden Holdings", form="Annual Report", period="2021"),
            None,
        ),
        ("Halden Annual Report 2021 and 2022", Cover(company="Halden", form="Annual Report"), "Halden Annual Report"),
        ("Halden Annual Report 2021", Cover(company="Halden", form="Annual Report", period="2021"), None),
        (
            "Halden AG\nGeschäftsbericht 2022",
            Cover(company="Halden AG", form="Geschäftsbericht", period="2022"),
            None,
        ),
        ("Annual Report 2021", Cover(form="Annual Report", period="2021"), ""),
        ("A Study of Pumps\nby A. Smith\nMay 9, 2023\nThe annual report of the maker says", Cover(), ""),
        ("", Cover(), ""),
    ],
)
def test_cover_says_company_form_and_period(page: str, cover: Cover, title: str | None) -> None:
    found = read_cover(page.splitlines())
    assert found == cover
    if title is not None:
        assert found.title == title
    assert found.metadata.keys() <= {"company", "form", "period", "date"}
    assert "" not in found.metadata.values()


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
