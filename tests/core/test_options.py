"""Options of a wrong type or out of range are refused by name, whatever the class that holds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from annotated_types import Ge, Le
from hypothesis import given
from hypothesis import strategies as st

import catena
import catena_bench
import catena_server
import catena_view
from catena import Library
from catena.effects import Services, Step, run
from catena.enrichment import CodeDetector, CriticalTermOptions, ExpertTerms, RecognizerDetector
from catena.graph import TrainingOptions, WalkOptions
from catena.library import FixedLength, Preparation, ScorerTraining
from catena.library.training_questions import FirstStage
from catena.model import Document, ParameterError, Ranking, Scale, check_options
from catena.parsing import Limits
from catena.retrieval import PaperQuota, QuestionLimits, RankFusion, ReadingOptions, ScoreFusion
from catena.segments import SegmentSearch, find_segments
from catena.testing import FakeLLM

# what is just out of range, or what only this class refuses; values of other types are the next law's
WRONG: dict[Any, dict[str, Any]] = {
    SegmentSearch: {**dict.fromkeys(("budget_tokens", "depth", "most_queries"), 0), "adjust": "x", "header": "x"},
    Limits: dict.fromkeys(("seconds", "seconds_per_page", "memory_bytes", "pages", "bytes", "sections", "chunks"), 0),
    CriticalTermOptions: {"title_weight": 0, "max_words": 0},
    CodeDetector: {"weight": 0},
    FixedLength: {"tokens": 0},
    FirstStage: {"depth": 0},
    ScorerTraining: {"validation": 1, "fine_tune": True},  # which is of kind="paper"
    ReadingOptions: {"hits": 0, "alpha": (-0.1, 1.1), "whole": (-0.1, 1.1)},
    ScoreFusion: {"alpha": (-0.1, 1.1), "beta": (-0.1, 2e100), "passages": (-0.1, 1.1)},
    RankFusion: {"k": (0, 2e100)},
    QuestionLimits: {"characters": 0, "conditions": 0},
    PaperQuota: {"per_view": 0},
    Preparation: {"passage_tokens": 0},
}
# the least and the greatest that are in range
RIGHT: tuple[Any, ...] = (
    FirstStage(depth=1), FixedLength(tokens=1), Preparation(passage_tokens=1), PaperQuota(per_view=1),
    ReadingOptions(hits=1, alpha=1, whole=1), ReadingOptions(alpha=0, whole=0), RankFusion(k=0.1),
    ScoreFusion(alpha=0, beta=0, passages=0), ScoreFusion(alpha=1, beta=1e100, passages=1),
    QuestionLimits(characters=1, conditions=1), ScorerTraining(validation=0.0), CodeDetector(weight=1),
)  # fmt: skip


def test_a_wrong_option_is_refused_by_name() -> None:
    for kind, names in WRONG.items():
        for name, values in names.items():
            for value in values if isinstance(values, tuple) else (values,):
                with pytest.raises(ParameterError, match=f"{name} must be ") as refused:
                    kind(**{name: value})
                assert refused.value.value is value
    for options in RIGHT:
        check_options(options)
    drawn = {walk: ScorerTraining(kind="paper", walk=WalkOptions(strategy=walk)).drawn for walk in ("paper", "beam")}
    assert {walk: lists.kind for walk, lists in drawn.items()} == {"paper": "paths", "beam": "best_first"}


def test_settings_that_adjusting_lost_are_refused() -> None:
    def ranked(query: str) -> Step[Ranking]:
        yield from ()
        return Ranking((), Scale.RANK)

    lost: Any = SegmentSearch(adjust=lambda params: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(ParameterError, match="adjust must be a function"):
        run(find_segments("a", lost, ranked=ranked), Services())


@dataclass(frozen=True)
class Options:
    n: Annotated[int, Ge(1), Le(9)] = 1
    share: Annotated[float | None, Ge(0)] = None
    how: Literal["a", 1] = "a"
    names: tuple[str, ...] = ()


@given(st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none(), st.lists(st.text())))
def test_what_is_declared_decides(value: Any) -> None:
    def taken(name: str) -> bool:
        try:
            check_options(replace(Options(), **{name: value}))
        except ParameterError:
            return False
        return True

    number = isinstance(value, int | float) and not isinstance(value, bool)
    assert taken("n") == (number and isinstance(value, int) and 1 <= value <= 9)
    assert taken("share") == (value is None or (number and value >= 0))
    assert taken("how") == (value == "a" or (value == 1 and type(value) is int))
    assert not taken("names")


NAMED = re.compile(r"\w(?:Options|Search|Params|Rules|Training|Limits|Preparation)\Z")
NEEDED: dict[str, dict[str, Any]] = {  # fields without a default, of those that have any
    "BetaCDF": {"a": 1, "b": 1},
    "BetaCalibration": {"a": 1, "b": 1, "c": 0},
    "Bounds": {"texts": 1, "characters": 1},
    "Collection": {"documents": 1, "chunks": 1, "dim": 1},
    "ExpertDetector": {"terms": ExpertTerms()},
    "IndexLayout": {"name": "a", "dim": 1, "embedder": "e"},
    "Linear": {"low": 0, "high": 1},
    "LogRankRules": {"n": 1},
    "TermEdges": {"name": "words", "of": str.split},
}
ANY = (
    "x", None, -1, 10**30, 10**400, [], object(), float("nan"), float("inf"), True, 1.5, b"x", [5], {1: 2}, "\ud800"
)  # fmt: skip


def complete(kind: Any) -> bool:
    """Say whether all fields have a default; those of results, which we give ourselves, have none."""
    return not any(each.default is MISSING and each.default_factory is MISSING for each in fields(kind))


def checks(kind: type) -> bool:
    """Say whether a class, or one that it is made of, checks its options."""
    inits = (vars(base).get("__post_init__") for base in kind.__mro__)
    return any("check_options" in init.__code__.co_names for init in inits if init)


def option_classes() -> Iterator[type]:
    """Yield the dataclasses that check their options or are named as options, but for the command line's own."""
    for package in (catena, catena_server, catena_view, catena_bench):
        root = Path(package.__path__[0])
        for file in sorted(root.rglob("*.py")):
            names = file.relative_to(root).with_suffix("").parts
            text = file.read_text(encoding="utf-8")
            if names[0] != "cli" and "@dataclass" in text:
                module = import_module(".".join((package.__name__, *names)))
                for kind in vars(module).values():
                    if is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == module.__name__:
                        made = "__post_init__" in vars(kind) or kind.__name__ in NEEDED or complete(kind)
                        if (made and checks(kind)) or NAMED.search(kind.__name__):
                            yield kind


@pytest.mark.parametrize("kind", tuple(option_classes()), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_option_is_refused_by_a_parameter_error_or_is_what_it_is_declared_to_be(kind: Any) -> None:
    needed = NEEDED.get(kind.__name__, {})
    check_options(kind(**needed))
    for name in (field.name for field in fields(kind) if field.init):
        for value in ANY:
            made = None
            with suppress(ParameterError):
                made = kind(**{**needed, name: value})
            if made is not None:
                check_options(made)


def test_numbers_of_numpy_are_numbers_and_its_truth_values_are_none() -> None:
    check_options(Options(n=np.int64(3), share=np.float32(0.5)))  # type: ignore[arg-type]
    wrong: tuple[dict[str, Any], ...] = ({"n": np.bool_(True)}, {"n": np.float64(3)}, {"share": np.float32("nan")})
    for each in wrong:
        with pytest.raises(ParameterError, match=next(iter(each))):
            check_options(Options(**each))


def test_the_message_says_the_range_and_any_list_but_text_will_do_for_names() -> None:
    for options, said in (
        ({"learning_rate": float("inf")}, "learning_rate must be a finite number > 0, got inf"),
        ({"validation": 1}, "validation must be a number >= 0 and < 1, got 1"),
        ({"epochs": "x"}, "epochs must be an integer >= 1, got 'x'"),
    ):
        with pytest.raises(ParameterError) as refused:
            TrainingOptions(**options)
        assert str(refused.value) == said
    labels: Any = ["PRODUCT"]
    assert RecognizerDetector(labels=labels).labels == ("PRODUCT",)
    for wrong in ("PRODUCT", [5]):
        with pytest.raises(ParameterError, match="labels must be a tuple, each item a string"):
            RecognizerDetector(labels=wrong)  # type: ignore[arg-type]


def test_wrong_parts_of_documents_libraries_and_questions_are_refused_by_name(tmp_path: Path) -> None:
    for name in ("metadata", "page_starts", "page_labels", "media_type"):
        with pytest.raises(ParameterError, match=name):
            Document(id="a", text="b", **{name: 5})
    wrong: list[tuple[str, Any]] = [("path", 5), ("path", None), ("preparation", 5), ("preparation", Preparation)]
    for name, value in (*wrong, ("services", 5)):
        with pytest.raises(ParameterError, match=name):
            Library.open(**{"path": tmp_path / "l", name: value})
    asked: list[tuple[str, Any]] = [
        ("limits", "3"), ("routes", 5), ("routes", [[]]), ("routes", {"dense": 5}), ("by_name", "no"), ("k", True),
        ("embedded_texts", 5), ("embedded_texts", "one"), ("entities", "one"), ("fusion", "rank"),
        ("on_unknown", "x"),
    ]  # fmt: skip
    with Library.open(tmp_path / "l") as library:
        for name, value in asked:
            with pytest.raises(ParameterError, match=name):
                library.search("q", **{name: value})
        for ask in ("figure", "figure_file", "section", "sections"):
            for found in (5, None, "x"):
                with pytest.raises(ParameterError, match="ranking" if ask == "sections" else "found"):
                    getattr(library, ask)(found)


def test_a_model_is_given_once_and_a_library_brings_its_own_store(tmp_path: Path) -> None:
    model = FakeLLM(lambda _: "")
    with pytest.raises(ParameterError, match="llm"):
        Library.open(tmp_path / "l", llm=model, services=Services(llm=model))
    with Library.open(tmp_path / "l", services=Services(llm=model)) as library:
        assert library.services.llm is model
        for own in ("store", "graph"):
            with pytest.raises(ParameterError, match=own):
                Library.open(tmp_path / "m", services=Services(**{own: getattr(library.services, own)}))
