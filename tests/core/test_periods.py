"""Periods in texts: all spellings of one are one, and none is a code."""

from __future__ import annotations

import pytest

from catena.effects import FindNames
from catena.store import names_besides
from catena.text import NameIndex, Period, Timing, codes_in, is_period, names_of, periods_in, timing_of

SPELLINGS = {
    Period(2023): ("2023", "of 2023,", "June 2023", "2023-06-30"),
    Period(2023, fiscal=True): (
        "FY2023", "FY 23", "FY'23", "fiscal 2023", "Fiscal Year 2023", "financial year 2023", "FY2022/23",
        "FY 2022-23", "Geschäftsjahr 2022/23", "exercice 2023", "twelve months ended January 28, 2023",
        "52 weeks ended 28 January 2023", "fiscal year ended December 31, 2023",
        "fifty-two weeks ended December 30, 2023", "fifty-three weeks ended December 30, 2023",
    ),
    Period(2023, "q2"): (
        "Q2 2023", "Q2'2023", "Q2’23", "Q22023", "2Q23", "2Q 2023", "2023Q2", "2023-Q2", "second quarter 2023",
        "2nd quarter of 2023", "quarter ended June 30, 2023", "quarterly period ended July 29, 2023",
        "three months ended 2 July 2023", "13 weeks ended July 1, 2023", "2. Quartal 2023", "zweites Quartal 2023",
        "deuxième trimestre 2023", "ACME_2023Q2_10Q", "thirteen weeks ended July 1, 2023", "2e trimestre 2023",
        "fourteen weeks ended July 8, 2023", "zweiten Quartals 2023",
    ),
    Period(2024, "q4", fiscal=True): ("Q4 of FY2024", "Q4 FY24", "4QFY24", "FY24Q4", "fourth quarter of fiscal 2024"),
    Period(2022, "q4"): ("three months ended January 28, 2023",),
    Period(2023, "h1"): (
        "H1 2023", "1H23", "2023H1", "first half of 2023", "six months ended July 2, 2023",
        "twenty-six weeks ended July 1, 2023",
    ),
    Period(2022): ("nine months ended September 30, 2022", "thirty-nine weeks ended October 1, 2022"),
    Period(None, "q3"): ("Q3", "third quarter", "drittes Quartal", "troisième trimestre"),
    Period(None, "q1"): ("1st quarter", "erstes Quartal", "premier trimestre", "1er trimestre"),
    Period(None, "q4"): ("fourth quarter", "viertes Quartal", "quatrième trimestre"),
}  # fmt: skip


@pytest.mark.parametrize("period", SPELLINGS, ids=str)
def test_spellings_of_a_period(period: Period) -> None:
    for text in SPELLINGS[period]:
        assert periods_in(f"Sales in {text}, by region") == (period,), text


NONE = (
    "$2,023", "20230", "12.2023.5", "Q2", "no. 2023.4", "a market of 230", "the third half of it", "Q7", "5Q",
    "H1",
)  # fmt: skip


def test_other_numbers_are_no_years() -> None:
    assert [found for text in NONE if (found := [each.year for each in periods_in(text) if each.year])] == []


def test_several_periods_come_once_each_in_order() -> None:
    text = "Q2 of FY2024 against fiscal 2023, 2019 and Q2 FY24"
    assert periods_in(text) == (Period(2024, "q2", True), Period(2023, "", True), Period(2019))


def test_a_period_has_the_words_of_its_spellings() -> None:
    assert Period(2024, "q2", True).words == ("2024", "fy2024", "2024q2", "q2")
    assert Period(2023).words == ("2023",)
    assert Period(None, "q3").words == ("q3",)
    assert [Period(2023, part).month for part in ("", "q1", "q4", "h1", "h2")] == [12, 3, 12, 6, 12]


def test_a_period_is_no_code_and_no_name() -> None:
    assert [term for term in ("FY2023", "q2'23", "Jun-23", "Q3", "H1", "HX-2023", "") if is_period(term)] == [
        "FY2023", "q2'23", "Jun-23", "Q3",
    ]  # fmt: skip
    assert codes_in("FY2023, Q22023, 2Q23, Jun-23 of the HX-200 with a Q3") == ("HX-200",)
    assert names_of("ACME FY2023") == ("acme fy2023",)
    assert names_besides(FindNames(query="sales of FY2023?", also=("2023", "FY 2024", "HX-200"))) == ("hx 200",)
    assert NameIndex({"a": "FY2023"}).near_in("sales in FY2024") == ()


TIMES = {
    "revenue in 2015": (Timing(frozenset({2015})), "revenue in"),
    "FY23 sales": (Timing(frozenset({2023}), fiscal=True), "sales"),
    "Three Months Ended July 29, 2023 Domestic": (Timing(frozenset({2023}), 7, 3, day=True), "domestic"),
    "13 weeks ended 28 January 2023": (Timing(frozenset({2023}), 1, 3, day=True), ""),
    "Year ended December 31, 2015": (Timing(frozenset({2015}), 12, 12, day=True), ""),
    "As of December 31": (Timing(month=12, months=0, day=True), ""),
    "As of/ Year ended December 31, 2015": (Timing(frozenset({2015}), 12, day=True), "/"),
    "at the end of fiscal 2021": (Timing(frozenset({2021}), months=0, fiscal=True), ""),
    "second quarter of fiscal 2024": (Timing(frozenset({2024}), 6, 3, fiscal=True, part=True), ""),
    "first half of 2023": (Timing(frozenset({2023}), 6, 6, part=True), ""),
    "the first six months of 2023": (Timing(frozenset({2023}), months=6), "the of"),
    "three and six months ended July 2, 2023": (Timing(frozenset({2023}), 6, day=True), ""),
    "Balance, January 1, 2023": (Timing(frozenset({2022}), 12, day=True), "balance,"),
    "Change 2015 vs. 2014": (Timing(frozenset({2014, 2015})), "change vs."),
    "Quarterly data, Jun-23": (Timing(frozenset({2023}), 6, 3), "data,"),
    "what may be due at 5.25%": (Timing(), "what may be due at 5.25%"),
}  # fmt: skip


@pytest.mark.parametrize("text", TIMES)
def test_a_text_says_of_which_time_it_is_and_what_it_says_besides(text: str) -> None:
    time, rest = timing_of(text)
    assert (time, " ".join(rest.split())) == TIMES[text]


FITS = (  # a question, columns from the best to the worst, months from the last one of a period to that of its name
    ("2015", ("Year ended December 31, 2015", "Quarter ended March 31, 2015", "Year ended May 31, 2014"), 0),
    ("2015", ("As of December 31, 2015", "Change", "2014"), 0),
    ("in 2022", ("52 weeks ended January 28, 2023", "13 weeks ended January 28, 2023", "June 30, 2021"), 0),
    ("fiscal 2022", ("52 weeks ended January 28, 2023", "52 weeks ended January 29, 2022"), -1),
    ("fiscal 2023", ("Year ended June 30, 2023", "Three months ended June 30, 2023", "Year ended June 30, 2022"), 6),
    ("Q3 2022", ("Three months ended October 29, 2022", "2022", "Three months ended June 30, 2022"), 0),
    ("Q4 FY2023", ("Quarter ended June 30, 2023", "June 30", "Quarter ended June 30, 2022"), 6),
    ("Q2", ("Second quarter", "2015", "Third quarter"), 0),
    ("six months ended June 2023", ("26 weeks ended July 2, 2023", "July 2, 2023", "Quarter ended July 2, 2023"), 0),
    ("as of July 29, 2023", ("As of July 29, 2023", "July 29, 2023", "As of January 28, 2023"), 0),
    ("July 29, 2023", ("July 29, 2023", "Three months ended July 29, 2023", "January 28, 2023"), 0),
    ("July 29, 2023", ("As of July 29, 2023", "Three months ended July 29, 2023", "January 28, 2023"), 0),
    ("December 31, 2023", ("December 31, 2023", "Three months ended December 31, 2023", "June 30, 2023"), 6),
    ("fiscal 2023", ("Year ended June 30, 2023", "Year ended September 30, 2023", "Year ended June 30, 2022"), 6),
    ("three months ended January 28, 2023", ("Fourth quarter 2022", "13 weeks", "Fourth quarter 2021"), 0),
    ("Q4", ("Three months ended January 28", "2015", "Third quarter"), 0),
    ("2015", ("2015", "2015 vs. 2014", "2013"), 0),
    ("2015 against 2014", ("2015 vs. 2014", "2015", "2013"), 0),
)  # fmt: skip


@pytest.mark.parametrize(("question", "columns", "shift"), FITS, ids=str)
def test_a_time_fits_where_it_is_the_same_less_where_it_may_be_and_least_where_it_is_another(
    question: str, columns: tuple[str, ...], shift: int
) -> None:
    fits = [timing_of(question)[0].fit(timing_of(column)[0], shift) for column in columns]
    assert fits == [1, 0.5, 0.25][: len(columns)]
    assert all(timing_of("net income")[0].fit(timing_of(column)[0], shift) == 1 for column in columns)


def test_an_end_is_one_day_of_one_year() -> None:
    texts = ("December 31, 2023", "December 31", "2023", "December 31, 2023 and 2022", "Q4 2023")
    assert [timing_of(text)[0].end for text in texts] == [12 * 2023 + 12, 0, 0, 0, 0]


def test_a_time_is_filled_by_what_only_another_says() -> None:
    day = timing_of("December 31")[0]
    assert day.filled(timing_of("2015, quarterly")[0]) == Timing(frozenset({2015}), 12, 3, day=True)
    assert timing_of("As of June 30, 2014")[0].filled(timing_of("fiscal 2015, quarterly")[0]) == Timing(
        frozenset({2014}), 6, 0, day=True
    )
