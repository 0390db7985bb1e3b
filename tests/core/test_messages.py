"""Errors name what, where, what is kept and what to do next; their catalogue is whole; nothing prints."""

from __future__ import annotations

import ast
import importlib
import pickle
import runpy
import tomllib
import traceback
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from doc_blocks import ROOT
from hypothesis import given
from hypothesis import strategies as st

import catena
from catena import BudgetExceededError, CancelledError
from catena.model import CatenaError, MissingServiceError, ParameterError, errors, meant, names_in, nearest

FOLDERS = {
    "catena": ROOT / "packages/catena/src",
    "catena_bench": ROOT / "packages/catena-bench/src",
    "catena_minilm": ROOT / "packages/catena-minilm/src",
    "langchain_catena": ROOT / "integrations/langchain-catena",
    "llama_index_catena": ROOT / "integrations/llama-index-catena",
}

# What may be raised besides our errors, and where: what Python, a framework or a caller of ours asks for. What is
# raised for a caller of ours is caught there and made one of our errors, so nobody outside meets it.
BESIDES = {
    "ValueError": (
        # a check of a reply or of a record: whoever asked makes an InvalidReplyError or a LibraryError of it
        "catena/answering/short_answers.py", "catena/backends/hosted.py", "catena/enrichment/",
        "catena/effects/replies.py",
        "catena/text/replies.py", "catena/formatting/llm_markdown.py", "catena/graph/search.py",
        "catena_bench/baselines/", "catena_bench/judges/", "catena_bench/questions/",
        "catena/store/contents.py", "catena/store/records.py", "catena/parsing/protocol.py",
        "catena/parsing/pdf_damage.py",  # of a stream: its page fails
        "catena/retrieval/queries.py", "catena/structure/", "catena_bench/graph_data.py",
        # pydantic makes a ValidationError of it
        "langchain_catena/",
    ),
    "ImportError": ("catena/parsing/readers.py",),  # which the reading process tells
    "TypeError": ("catena/store/", "catena/model/values.py", "catena/testing/"),
    "AttributeError": ("catena/__init__.py", "catena/retrieval/foreign.py", "catena/testing/"),
    "AssertionError": ("catena/testing/",),
    "NotImplementedError": ("llama_index_catena/",),  # of a base class, where `abstractmethod` would show in traces
    "LookupError": ("catena/testing/",),
    "Killed": ("catena/testing/",),
    "ProcessGoneError": ("catena/parsing/",),  # made a ParseError
    "MethodNotAvailable": ("catena_bench/",),  # a collection that is named in the report
    "OSError": ("catena/cli/doctor.py", "catena/text/files.py"),  # one check of many, shown in its row
    "DatabaseError": ("catena/store/",),  # of sqlite3, made a DamagedLibraryError
    "ProblemError": ("catena/cli/", "catena_bench/"),  # a command's own: said in two lines, never leaves it
    "Exit": ("catena/cli/", "catena_bench/"),
    "BadParameter": ("catena_bench/",),
    "Unreadable": ("catena/parsing/",),  # made a ParseError
    "ReplacedError": ("catena/server/",),  # read again
}  # fmt: skip


class Raised(NamedTuple):
    """A `raise` of a module: what, with what, and where."""

    name: str
    call: ast.Call | None
    path: str
    line: int


@cache
def nodes() -> tuple[tuple[str, ast.AST], ...]:
    """Return what the tests look at, each with the path of its module; bodies are let go, as they fill the memory."""
    found: list[tuple[str, ast.AST]] = []
    for package, folder in FOLDERS.items():
        for path in sorted((folder / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise | ast.ClassDef | ast.FunctionDef):
                    found.append((path.relative_to(folder).as_posix(), node))
                if isinstance(node, ast.ClassDef | ast.FunctionDef):
                    node.body = []  # what is in it is in the queue of the walk already
    return tuple(found)


@cache
def raised() -> tuple[Raised, ...]:
    return tuple(
        Raised(name_of(node.exc.func if call else node.exc), call, path, node.lineno)
        for path, node in nodes()
        if isinstance(node, ast.Raise) and node.exc is not None
        for call in [node.exc if isinstance(node.exc, ast.Call) else None]
    )


def name_of(node: ast.expr) -> str:
    """Return the last part of a dotted name."""
    return ast.unparse(node).rpartition(".")[2]


@cache
def our_errors() -> dict[str, str]:
    """Return the name of each child of CatenaError in the source, and its module."""
    found = {"CatenaError": "catena.model.errors"}
    classes = [(node, path) for path, node in nodes() if isinstance(node, ast.ClassDef)]
    known = 0
    while known < len(found):
        known = len(found)
        found |= {
            node.name: path.removesuffix(".py").replace("/", ".")
            for node, path in classes
            if not found.keys().isdisjoint(map(name_of, node.bases))
        }
    return found


@cache
def makers() -> frozenset[str]:
    """Return the names of functions that return an error."""
    kinds = (*our_errors(), *BESIDES, "BaseException", "Exception", "_Refused")
    functions = [node for _, node in nodes() if isinstance(node, ast.FunctionDef) and node.returns is not None]
    return frozenset(node.name for node in functions if any(kind in ast.unparse(node.returns) for kind in kinds))


def test_nothing_is_raised_but_our_errors_and_what_python_or_a_framework_asks_for() -> None:
    foreign = [
        f"{each.path}:{each.line} raises {each.name}"
        for each in raised()
        if each.name not in our_errors().keys() | makers()
        and not each.name.startswith("_")  # a signal inside of one module
        and not (each.call is None and each.name.islower())  # a variable that holds an error
        and not each.path.startswith(BESIDES.get(each.name, ()))
    ]
    assert not foreign, f"raise a child of CatenaError, or say in BESIDES who catches it: {foreign}"


def test_no_error_is_raised_without_saying_what_is_wrong() -> None:
    silent = [
        f"{each.path}:{each.line} raises {each.name}"
        for each in raised()
        if each.name in our_errors()
        and each.name != "CancelledError"
        and (each.call is None or not (each.call.args or each.call.keywords))
    ]
    assert not silent, "give the message what is wrong and where: " + str(silent)


def loaded() -> dict[str, type[CatenaError]]:
    return {name: getattr(importlib.import_module(module), name) for name, module in our_errors().items()}


def test_every_error_says_what_is_kept_and_what_to_do_in_words_of_its_own() -> None:
    for name, error in loaded().items():
        assert {"kept", "usual_advice"} <= vars(error).keys(), f"{name}: give it `kept` and `usual_advice`"
        assert error.page == f"errors.md#{name.lower()}"
        assert error.__doc__


SAMPLES = {
    "BudgetExceededError": (1.0, 0.5, "'titles'"),
    "MissingServiceError": ("Complete", ("Embed",)),
    "ServiceError": ("model", "no answer", True, 1.5),
    "ServerError": ("server", "refused", False, None, 403, "kind"),
    "CancelledError": (),
}


@pytest.mark.parametrize("name", sorted(our_errors()))
def test_every_error_survives_pickling_and_shows_all_in_a_traceback(name: str) -> None:
    error = loaded()[name]
    arguments = error.__init__.__code__.co_argcount - 1 if "__init__" in vars(error) else 3
    made = error(*SAMPLES.get(name, [f"part {number}" for number in range(arguments)]))
    made.add_note("a note of the caller")
    again = pickle.loads(pickle.dumps(made))
    assert (type(again), str(again), again.args, again.__notes__) == (error, str(made), made.args, made.__notes__)
    shown = "".join(traceback.format_exception(again))
    for part in ("\nKept: ", "Try: ", f"\nSee: catena explain-error {name} (docs/errors.md#{name.lower()})"):
        assert part in shown, f"{name}: {part.strip()} is not in {shown}"
    assert shown.endswith("a note of the caller\n")


def test_the_catalogue_has_every_error_and_says_what_its_class_says() -> None:
    script = runpy.run_path(str(ROOT / "scripts/write_errors.py"))
    listed = {section.name for section in script["sections"]()}
    assert listed == set(our_errors()), "name errors of other modules in scripts/write_errors.py"
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    assert page == script["written"](page), "Try: python scripts/write_errors.py"
    for section in page.split("\n## ")[1:]:
        name = section.partition("\n")[0]
        assert "```python\n" in section, f"{name}: give its section an example that prints a message"
        assert section.count("```text\n") == 1, f"{name}: show in a `text` block what its example prints"


def test_a_mistyped_name_is_answered_with_the_nearest() -> None:
    for value, allowed, told in (
        ("lexcial", "one of dense, lexical, terms", "Did you mean 'lexical'?"),
        ("lexcial", "'dense' or 'lexical'", "Did you mean 'lexical'?"),
        (("dense", "lexcial"), "some of dense, lexical", "Did you mean 'lexical'?"),
        ("On-Route", "one of on_route, off_route", "Did you mean 'on_route'?"),
        ("zzz", "one of dense, lexical, terms", ""),
        (7, "one of dense, lexical, terms", ""),
        ("", "'dense' or 'lexical'", ""),
        ("ten", "an integer, at least 1", ""),
    ):
        shown = str(ParameterError("route", value, allowed))
        assert shown.startswith(f"route must be {allowed}, got {value!r}")
        assert shown.endswith(told or repr(value)), shown
    assert nearest("a_", ["a-", "b"]) == "a-"  # how words are joined does not count


@given(st.lists(st.text("abcdef_-", min_size=1, max_size=8), max_size=6), st.text("abcdef_-", max_size=8))
def test_what_is_guessed_is_one_of_the_names_and_a_known_name_is_never_questioned(
    known: list[str], name: str
) -> None:
    guess = nearest(name, known)
    assert guess is None or guess in known
    assert nearest(name, reversed(known)) == guess or len({one.replace("_", "-") for one in known}) < len(set(known))
    assert all(meant(each, known) == "" for each in known)
    assert set(names_in(" or ".join(f"'{each}'" for each in known))) == set(known)


def test_nothing_of_ours_prints() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "T20" in settings["select"]  # by which the linter refuses `print`
    excused = [path for path, rules in settings["per-file-ignores"].items() if "T20" in rules]
    assert not [path for path in excused if path.startswith(("packages", "integrations"))]


def test_a_library_at_work_writes_to_no_stream_and_tells_who_asks(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[object] = []
    (tmp_path / "note.md").write_text("# Note\n\n## Torque\n\nTighten it to 2.4 N·m.\n", encoding="utf-8")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    with catena.Library.open(tmp_path / "lib") as library:
        outcomes = library.index([tmp_path / "note.md", tmp_path / "broken.pdf"], progress=told.append)
        assert library.search("torque", k=1).hits
        library.build_graph(progress=told.append)
        library.verify(lambda done, total: told.append((done, total)))
        with pytest.raises(ParameterError):
            library.search("torque", routes=["lexcial"])
    assert {outcome.state for outcome in outcomes} == {"indexed", "failed"}
    assert len(told) >= 4
    assert tuple(capfd.readouterr()) == ("", "")


def test_what_is_too_long_to_be_read_is_shown_without_its_middle() -> None:
    shown = [str(errors.FilterError(None, "a" * 200 + "b" * more + "c" * 200)) for more in (0, 1)]
    assert shown == [f"filter None: {'a' * 200}{between}{'c' * 200}" for between in ("", " … ")]


def test_only_a_wait_mends_too_many_requests_and_a_failure_is_for_good_unless_it_is_said() -> None:
    answers = ((True, 429), (False, 429), (True, 503))
    limited = [errors.ServerError("s", "x", retry, status=status).rate_limited for retry, status in answers]
    assert (limited, errors.ServiceError("s", "x").retry) == ([True, False, False], False)
    assert all(" 'a' failed: x. Try: on_" in str(kind("a", "x")) for kind in (errors.RouteError, errors.ViewError))


def test_the_errors_are_those_of_their_protocols() -> None:
    assert issubclass(ParameterError, ValueError)
    assert issubclass(MissingServiceError, LookupError)
    assert not issubclass(CancelledError, BudgetExceededError)
