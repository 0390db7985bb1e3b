"""Declare options that several commands share, and let a command take a group of options as one parameter."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from importlib.util import find_spec
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_type_hints

import typer

from catena.cli.console import tell
from catena.cli.failures import ProblemError
from catena.model.errors import pip_install
from catena.model.options import declared

if TYPE_CHECKING:
    from catena.library import SegmentSearchOptions
    from catena.library.pipeline import Preparation
    from catena.retrieval.routes import OnUnknown

_MOST = 1e9  # a limit above it is a guard of the core, and says nothing to a reader
_Make: TypeAlias = Callable[[dict[str, Any]], Any]

Given: TypeAlias = Mapping[str, Any]
"""Of a dataclass of options: the fields that were given on the command line."""


class FieldsOf:
    """Mark a parameter that holds some options of a dataclass, as far as they were given.

    Type, range, choices, default and help are those of the fields; see `catena.model.options`.

    Args:
        options: the dataclass.
        only_with: the option without which these do nothing.
        says_default: whether the help shows the fields' defaults; not where something else decides them.
        more: the end of the help, behind the default.
        typed: field -> the option as it is typed, and its other names behind spaces.
    """

    def __init__(
        self, options: type, *, only_with: str = "", says_default: bool = True, more: str = "", **typed: str
    ) -> None:
        self.options, self.typed = options, typed
        self._only_with, self._says_default, self._more = only_with, says_default, more

    def parameter(self, name: str) -> Any:
        """Return the annotation by which typer makes the option of one field."""
        option = declared(self.options, name)
        usual = option.default if self._says_default and option.kind is not bool else None
        told = option.help if usual is None else f"{option.help} [{usual}]"
        if self._only_with:
            told = f"With {self._only_with}: {told[:1].lower()}{told[1:]}"
        limits: dict[str, Any] = {}
        if option.kind in (int, float):
            limits = {"metavar": "N" if option.kind is int else "X", "min": option.low}
            limits["max"] = option.high if option.high is not None and option.high < _MOST else None
        names = self.typed[name].split()
        return Annotated[option.kind | None, typer.Option(*names, help=f"{told}{self._more}.", **limits)]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: each field of a group is an option of its own on the command line.

    Args:
        command: with parameters that are annotated as typer wants them, with a dataclass whose fields are, or with
            `FieldsOf`.
    """
    hints = get_type_hints(command, include_extras=True)
    taken = {
        given.name: _taken(given.name, hints[given.name], given.default)
        for given in signature(command).parameters.values()
    }

    def called(**options: Any) -> None:
        command(**{name: make(options) for name, (_, make) in taken.items()})

    parameters = [each for options, _ in taken.values() for each in options]
    called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _taken(name: str, hint: Any, default: Any) -> tuple[list[Parameter], _Make]:
    """Return the options that make one value, and the function that takes them out and makes it."""
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        parts = {each.name: _taken(each.name, hints[each.name], _default(each)) for each in fields(hint)}
        options = [each for found, _ in parts.values() for each in found]
        return options, lambda given: hint(**{part: make(given) for part, (_, make) in parts.items()})
    if marked := _marked(hint):
        own = {
            each: Parameter(f"{name}_{each}", Parameter.KEYWORD_ONLY, default=None, annotation=marked.parameter(each))
            for each in marked.typed
        }

        def make(given: dict[str, Any]) -> Given:
            values = {each: given.pop(parameter.name) for each, parameter in own.items()}
            return {each: value for each, value in values.items() if value is not None}

        return [*own.values()], make
    return [Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)], lambda given: given.pop(name)


def _marked(hint: Any) -> FieldsOf | None:
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, FieldsOf)), None)


def _default(given: Field[Any]) -> Any:
    return Parameter.empty if given.default is MISSING else given.default


def given_options(group: Any) -> dict[str, Any]:
    """Return the options of a group that were given, by their names as they are typed, with their values."""
    hints = get_type_hints(type(group), include_extras=True)
    found: dict[str, Any] = {}
    for each in fields(group):
        value = getattr(group, each.name)
        if marked := _marked(hints[each.name]):
            found |= {marked.typed[name]: one for name, one in value.items()}
        elif is_dataclass(value):
            found |= given_options(value)
        elif value != each.default:
            found[f"--{each.name.replace('_', '-')}"] = value
    return found


def option(metavar: str, told: str, *names: str, **more: Any) -> Any:
    """Return an option that takes a value: what stands for the value in the help, the help, names, and limits."""
    return typer.Option(*names, metavar=metavar, help=told, **more)


def flag(name: str, told: str) -> Any:
    """Return an option that is given or not, and has no other name for not."""
    return typer.Option(name, help=told)


def picture(told: str) -> Any:
    """Return the option of a file into which catena-view draws."""
    return option("FILE.png|html", f"{told} (package catena-view).")


def file_path(given: str) -> Path:
    """Return the path that is given; Path("") would be the current folder.

    Raises:
        ProblemError: it is empty.
    """
    if not given:
        raise ProblemError("a path is empty", 'a file or a folder; "." is the one you are in')
    return Path(given)


FilePaths: TypeAlias = Annotated[
    list[Path], typer.Argument(metavar="PATH…", help="Files, and folders to search for files.", parser=file_path)
]
LibraryPath: TypeAlias = Annotated[
    Path, option("PATH", "The folder of the library.", "--library", "-l", envvar="CATENA_LIBRARY")
]
EmbedderName: TypeAlias = Annotated[
    str | None,
    option(
        "NAME",
        "Embed with static, minilm, sentence-transformers:NAME, openai:MODEL[@URL], cohere:MODEL or voyage:MODEL"
        " [the library's own; static in a new one].",
        "--embedder",
    ),
]
LibraryFolder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="LIBRARY", help="The folder of the library; or --library PATH.")
]
QuestionFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="QUESTIONS.jsonl", help="Questions with known answers, one a line.")
]
QuestionText: TypeAlias = Annotated[str, typer.Argument(metavar="QUESTION", help="What you would ask a colleague.")]
AsJson: TypeAlias = Annotated[bool, flag("--json", "Write one JSON value to stdout.")]
DryRun: TypeAlias = Annotated[bool, flag("--plan", "Say how much the model would be asked, and ask nothing.")]
Password: TypeAlias = Annotated[
    str | None, typer.Option("--password", envvar="CATENA_PASSWORD", help="The password of encrypted PDFs.")
]
ReadingTime: TypeAlias = Annotated[
    float | None,
    option(
        "SECONDS",
        "Longest time to read one page; a file may take as long, and 1/30 of it more for each page [60].",
        "--timeout",
        min=0.001,
    ),
]
ReadingMemory: TypeAlias = Annotated[
    float | None, option("MB", "Most memory to read one file (on Linux) [1000].", "--memory", min=1, max=1e9)
]
NoHiddenText: TypeAlias = Annotated[
    bool,
    flag(
        "--no-hidden-text",
        "Leave out text that is not to be seen on the page of a PDF: white, invisible (also OCR), off the page.",
    ),
]
Number: TypeAlias = Annotated[int, typer.Option("--k", "-k", min=1, help="How many passages.")]
CropFigures: TypeAlias = Annotated[
    bool, flag("--figures", "Crop the figures of PDFs and index them; pypdfium2 reads (extra fast-pdf).")
]
BudgetTokens: TypeAlias = Annotated[
    int | None,
    option("N", "Read the best text of so many tokens; or most of --segments [2000], or of --graph.", min=1),
]
WhereOption: TypeAlias = Annotated[
    str | None, option("JSON", 'A filter, e.g. \'{"page": {"$lte": 20}}\'.', "--where")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameOptions:
    """Names in a question: which are looked for, and what of those that are not in the library."""

    entity: Annotated[
        list[str] | None, option("NAME", "One more name in the question; may be given several times.", "--entity")
    ] = None
    keep_neighbours: Annotated[
        bool, flag("--keep-neighbours", "Of a name that is not in the library, show passages about names like it.")
    ] = False
    no_names: Annotated[bool, flag("--no-names", "Rank by the whole question; look for no names in it.")] = False

    @property
    def any_given(self) -> bool:
        """Say if one of the options was given."""
        return bool(self.entity or self.keep_neighbours or self.no_names)

    def search(self) -> SegmentSearchOptions:
        """Return what `Library.search` and `Library.segments` are told about the names in a question.

        Raises:
            ProblemError: one option leaves nothing to do for another.
        """
        if self.no_names and (self.entity or self.keep_neighbours):
            option = "--entity" if self.entity else "--keep-neighbours"
            raise ProblemError(f"--no-names looks for no names, and {option} is about them", "one of the two")
        on_unknown: OnUnknown = "keep" if self.keep_neighbours else "empty"
        return {"by_name": not self.no_names, "entities": tuple(self.entity or ()), "on_unknown": on_unknown}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingChoices:
    """Options about the reading of files."""

    engine: Annotated[
        Literal["pypdf", "pypdfium2"] | None,
        typer.Option(help="What reads PDF [pypdfium2 where it is installed (extra fast-pdf), else pypdf]."),
    ] = None
    ruled_tables: Annotated[
        bool, flag("--ruled-tables", "Find tables with drawn borders (slower; extra tables).")
    ] = False
    ocr: Annotated[bool, flag("--ocr", "Read what is seen on PDF pages without text (slow; extra ocr).")] = False
    timeout: ReadingTime = None
    memory: ReadingMemory = None
    password: Password = field(default=None, repr=False)

    def preparation(self, *, figures: bool = False, hidden_text: bool = True) -> Preparation:
        """Return how files become chunks; figures that cannot be cropped are told of on stderr.

        Args:
            figures: whether figures are cropped.
            hidden_text: whether the text stays that is not to be seen on a page of a PDF.
        """
        from catena.library.pipeline import Preparation
        from catena.parsing import Limits

        limits = Limits()
        if self.timeout is not None:
            pages = limits.seconds / limits.seconds_per_page
            limits = replace(limits, seconds=self.timeout, seconds_per_page=self.timeout / pages)
        if self.memory is not None:
            limits = replace(limits, memory_bytes=int(self.memory * 1_000_000))
        engine = self.engine
        if figures and find_spec("pypdfium2") is not None:
            engine = "pypdfium2"
        elif figures:
            tell("figures are not cropped: pypdfium2 is not installed")
            tell(f"Try: {pip_install('catena-core[fast-pdf]')}", style=None)
        return Preparation(
            engine=engine, ruled_tables=self.ruled_tables, figures=figures, hidden_text=hidden_text, ocr=self.ocr,
            limits=limits,
        )  # fmt: skip


def listed(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names in options that may be repeated, or hold several names with commas between, each once."""
    names = (name.strip() for each in given or () for name in each.split(","))
    return tuple(dict.fromkeys(filter(None, names)))


DEEPEST = 150  # lists and objects in one another; no filter that can be obeyed is as deep


def filter_of(where: str | None) -> Any:
    """Return the filter that `--where` holds as JSON, None where there is none.

    Raises:
        ProblemError: it is no JSON object, or is nested too deep.
    """
    if where is None:
        return None
    too_deep = ProblemError(f"--where is nested more than {DEEPEST} deep", "a flat filter; $in takes many values")
    try:
        found = json.loads(where)
    except ValueError as error:
        raise ProblemError(f"--where is not JSON ({error})", 'e.g. --where \'{"kind": "table"}\'') from None
    except RecursionError:
        raise too_deep from None
    if _depth(found) > DEEPEST:
        raise too_deep
    if not isinstance(found, dict):
        raise ProblemError("--where must be a JSON object", 'e.g. --where \'{"kind": "table"}\'')
    return found


def _depth(value: Any) -> int:
    """Return how deep lists and objects are nested; 1 for a value that holds no other."""
    level, depth = [value], 0
    while level:
        depth += 1
        holders = [
            each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)
        ]
        level = [inner for holder in holders for inner in holder]
    return depth
