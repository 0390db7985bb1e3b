"""Every error a user of Catena can meet: what is wrong, where, what is kept, and what to do next.

Nothing but these classes leaves the package: parsers, SDKs and models have their own exceptions, which
are caught at the border and named here. All arguments go through `super().__init__`, so each error
survives pickling and therefore the border between processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from catena.model.near_names import meant, names_in

_SHOWN = 400  # characters of a filter, and of what is wrong with it


class CatenaError(Exception):
    """The base of all errors of this project: `except CatenaError` catches whatever goes wrong in it.

    Attributes:
        page: the section of the catalogue of errors, below the folder of the documentation.
        kept: what is still there after such an error.
        usual_advice: what to do next, where the message does not know better.
    """

    page: ClassVar[str] = "errors.md#catenaerror"
    kept: str = "what was complete before"
    usual_advice: ClassVar[str] = "catena explain-error NAME, which says what an error means"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.page = f"errors.md#{cls.__name__.lower()}"

    @property
    def __notes__(self) -> list[str]:
        """Lines below the message in a traceback, made when they are first looked at, when all are known."""
        if "_notes" not in self.__dict__:
            advice = "" if " Try: " in str(self) else f"\nTry: {self.usual_advice}"
            see = f"See: catena explain-error {type(self).__name__} (docs/{self.page})"
            self.__dict__["_notes"] = [f"Kept: {self.kept}{advice}\n{see}"]
        notes: list[str] = self.__dict__["_notes"]
        return notes

    @__notes__.setter
    def __notes__(self, notes: list[str]) -> None:
        self.__dict__["_notes"] = notes


def _advised(what: str, do_next: str) -> str:
    """Return a whole sentence, and the advice behind it; what is no text, as in names of files, is spelled out."""
    end = "" if what.endswith("?") else "."
    said = f"{what}{end} Try: {do_next}" if do_next else f"{what}{end}"
    return said.encode("utf-8", "backslashreplace").decode()


def _in_few_words(text: str) -> str:
    """Return a text without the middle of one that is too long to be read."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} … {text[-_SHOWN // 2 :]}"


class ParameterError(CatenaError, ValueError):
    """A parameter is outside its domain; the message names it, its value and the domain.

    For a mistyped name the message says which of the names that are valid was probably meant.
    """

    kept = "everything as it was: the value is refused before anything is changed"
    usual_advice = "a value that is allowed, as the message states it"

    def __init__(self, name: str, value: object, allowed: str, do_next: str = "") -> None:
        super().__init__(name, value, allowed, *filter(None, (do_next,)))
        self.name, self.value, self.allowed, self.do_next = name, value, allowed, do_next

    def __str__(self) -> str:
        near = meant(self.value, names_in(self.allowed))
        hint = f". Try: {self.do_next}" if self.do_next else ""
        return f"{self.name} must be {self.allowed}, got {self.value!r}{near}{hint}"


class ScaleError(CatenaError, TypeError):
    """A stage was given scores in a unit it cannot use: fused sums where it needs probabilities, say.

    `needed` and `got` are names of `catena.model.Scale`.
    """

    kept = "the ranking as it was given"
    usual_advice = "a stage that makes the needed scale before this one: a reranker, or a fitted calibration"

    def __init__(self, stage: str, needed: str, got: str) -> None:
        super().__init__(stage, needed, got)
        self.stage, self.needed, self.got = stage, needed, got

    def __str__(self) -> str:
        hint = ". Try: rerank, calibrated or by_rank of catena.segments" if self.needed == "probability" else ""
        return f"{self.stage} needs scores in the scale {self.needed!r}, got {self.got!r}{hint}"


class MissingExtraError(CatenaError, ImportError):
    """A part was asked for whose optional package is not installed.

    The message has the line that installs it; `catena doctor` lists all optional packages.
    """

    kept = "everything as it was: nothing was begun"
    usual_advice = "the pip command in the message, in the environment in which Python runs"

    def __init__(self, package: str, requirement: str) -> None:
        super().__init__(package, requirement)
        self.package, self.requirement = package, requirement

    def __str__(self) -> str:
        return f"{self.package} is not installed. Try: {pip_install(self.requirement)}"


def pip_install(requirement: str) -> str:
    """Return the command that installs a package or an extra: one of Catena from where Catena itself came from."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        # pip notes a folder or a file there
        from_index = not distribution("catena-core").read_text("direct_url.json")
    except PackageNotFoundError:
        from_index = False
    if from_index or not requirement.startswith("catena-"):
        return f"pip install '{requirement}'"
    folder = requirement.replace("catena-core", "catena")
    return f"pip install './packages/{folder}' in a checkout of Catena"


@contextmanager
def needs(package: str) -> Iterator[None]:
    """Turn the failed import of another package of Catena into the line that installs it.

    Args:
        package: as pip names it, e.g. "catena-view"; its module is named the same with "_".

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package.replace("-", "_"):
            raise
        raise MissingExtraError(package, package) from None


class ParseError(CatenaError):
    """A file could not be read into a document.

    `state` is one of the names in `catena.model.layout.FailureState`; nothing of the file is indexed, and whatever an
    earlier version of it left in a library stays there.
    """

    kept = "all other files of the run, and whatever an earlier version of this file left in the library"
    usual_advice = "opening the file in a viewer; its name and its type may be wrong"

    def __init__(self, source: str, state: str, what: str, do_next: str = "") -> None:
        super().__init__(source, state, what, do_next)
        self.source, self.state, self.what, self.do_next = source, state, what, do_next

    def __str__(self) -> str:
        return _advised(f"{self.source}: {self.state}: {self.what}", self.do_next)


class LibraryError(CatenaError):
    """An embedded library cannot do what was asked; what it held before is still there."""

    kept = "what the library held before: a document is written whole or not at all"
    usual_advice = "catena verify --library PATH, which says what is sound, and indexing the files named there again"

    def __init__(self, path: str, what: str, do_next: str = "") -> None:
        super().__init__(path, what, do_next)
        self.path, self.what, self.do_next = path, what, do_next

    def __str__(self) -> str:
        return _advised(f"library {self.path}: {self.what}", self.do_next)


class DamagedLibraryError(LibraryError):
    """A file of a library is not what was written: a disk, a copy or another program changed it.

    On the command line, exit code 4.
    """

    kept = "the library's folder, untouched"
    usual_advice = "a backup, or indexing the sources anew into another folder"


class LibraryBusyError(LibraryError):
    """Another process is writing to the library, and did not end while this one waited."""

    kept = "what the library held before; reading it goes on meanwhile"
    usual_advice = "again when the other process has ended"


class ModelMismatchError(LibraryError):
    """The library holds vectors of another embedding model than the one given.

    Vectors of two models cannot be compared, so nothing is searched or written with the wrong one.
    """

    kept = "the library with its vectors; nothing was searched or written"
    usual_advice = "the model that made the vectors, or a new library for the other one"


class UnknownDocumentError(LibraryError, KeyError):
    """No document of this id is in the library."""

    kept = "everything as it was: nothing was deleted or changed"
    usual_advice = "catena status --library PATH, which lists the documents"

    __str__ = LibraryError.__str__


class DuplicateDocumentError(LibraryError):
    """A document of this id is in the library already."""

    kept = "the document that is there"
    usual_advice = "replace, or another id"


class FilterError(CatenaError, ValueError):
    """A filter is malformed, or a route cannot obey it; it is never ignored."""

    kept = "everything as it was: nothing was searched"
    usual_advice = "only what the message says is known, or no filter"

    def __init__(self, where: object, what: str) -> None:
        super().__init__(where, what)
        self.where, self.what = where, what

    def __str__(self) -> str:
        return f"filter {_in_few_words(repr(self.where))}: {_in_few_words(self.what)}"


class ServiceError(CatenaError):
    """A request to a model or a store failed.

    `retry` says whether the same request may succeed later; `retry_after` is the wait the service asked
    for, in seconds; `rate_limited` says that there were too many requests, which a minute's wait mends.
    """

    kept = "the replies that came before, in the journal where there is one"
    usual_advice = "the same again where `retry` is true; else the name, the key and the address of the service"

    def __init__(
        self,
        service: str,
        what: str,
        retry: bool = False,
        retry_after: float | None = None,
        rate_limited: bool = False,
    ) -> None:
        super().__init__(service, what, retry, retry_after, rate_limited)
        self.service, self.what, self.retry, self.retry_after = service, what, retry, retry_after
        self.rate_limited = rate_limited

    def __str__(self) -> str:
        return f"{self.service}: {self.what}"


class ServerError(ServiceError):
    """A search server refused a request, or part of one.

    `status` is that of HTTP, None where no answer came; `kind` is the server's own word for what is wrong, as
    "mapper_parsing_exception".
    """

    kept = "what the server had acknowledged before"
    usual_advice = "the same again where `retry` is true; else what the server says is wrong"

    def __init__(  # noqa: PLR0917 - all of args, so the error survives pickling
        self,
        service: str,
        what: str,
        retry: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        kind: str = "",
    ) -> None:
        super().__init__(service, what, retry, retry_after, rate_limited=retry and status == 429)
        self.args = (service, what, retry, retry_after, status, kind)
        self.status, self.kind = status, kind


class InvalidReplyError(ServiceError):
    """A model's reply was truncated, refused or not of the asked form; it is never kept."""

    kept = "the valid replies, in the journal where there is one; this one is not kept"
    usual_advice = "the same again, or a model that answers in the asked form"


class SchemaRefusedError(ServiceError):
    """A model gave nothing with the schema of a reply; a driver asks the same without, as a call of its own.

    `paid` is what it replied, where it did.
    """

    kept = "the replies that came before, in the journal where there is one; this one is booked"
    usual_advice = "the same without a schema, as `run` and `arun` do by themselves"

    def __init__(self, service: str, what: str, paid: object = None) -> None:
        super().__init__(service, what, retry=True, retry_after=0.0)
        self.args = (service, what, paid)
        self.paid = paid


class MissingServiceError(CatenaError, LookupError):
    """A step asked for a kind of service, as a language model, that the caller did not give."""

    kept = "everything as it was: the step stopped before it asked"
    usual_advice = "giving a service for these requests, e.g. Services(llm=..., embedder=...)"

    def __init__(self, request: str, available: tuple[str, ...]) -> None:
        super().__init__(request, available)
        self.request, self.available = request, available

    def __str__(self) -> str:
        have = ", ".join(self.available) or "none"
        return f"no service answers {self.request} requests (given: {have})"


class RouteError(CatenaError):
    """A route failed while the caller asked that failures be raised, or every route failed."""

    kept = "the library; of this question, nothing"
    usual_advice = "on_route_error='degrade', or whatever the reason in the message calls for"

    def __init__(self, route: str, what: str, all_failed: bool = False) -> None:
        super().__init__(route, what, all_failed)
        self.route, self.what, self.all_failed = route, what, all_failed

    def __str__(self) -> str:
        if self.all_failed:
            return f"every route failed ({self.route}): {self.what}"
        return f"route {self.route!r} failed: {self.what}. Try: on_route_error='degrade' to rank by the others"


class ViewError(CatenaError):
    """A view could not be searched while the caller asked that failures be raised, or no view could."""

    kept = "the library; of this question, nothing"
    usual_advice = "on_view_error='degrade', or whatever the reason in the message calls for"

    def __init__(self, view: str, what: str, all_failed: bool = False) -> None:
        super().__init__(view, what, all_failed)
        self.view, self.what, self.all_failed = view, what, all_failed

    def __str__(self) -> str:
        if self.all_failed:
            return f"no view could be searched ({self.view}): {self.what}"
        return f"view {self.view!r} failed: {self.what}. Try: on_view_error='degrade' to rank by the others"


class JournalError(CatenaError):
    """The journal of replies cannot be opened, read or written; the replies kept before are still there."""

    kept = "the replies that were written before"
    usual_advice = "another path for the journal"

    def __init__(self, path: str, what: str, do_next: str = "") -> None:
        super().__init__(path, what, do_next)
        self.path, self.what, self.do_next = path, what, do_next

    def __str__(self) -> str:
        return _advised(f"journal {self.path}: {self.what}", self.do_next)


class BudgetExceededError(CatenaError):
    """The spending cap would be passed; everything paid for so far is kept in the journal."""

    kept = "all replies that were paid for, in the journal where there is one"
    usual_advice = "a higher cap; the run continues where it stopped"

    def __init__(self, cap: float, spent: float, what: str) -> None:
        super().__init__(cap, spent, what)
        self.cap, self.spent, self.what = cap, spent, what

    def __str__(self) -> str:
        return (
            f"the cap of {self.cap:g} would be passed ({self.spent:g} spent) by {self.what}; all replies so far "
            "are kept. Try: a higher cap; the run continues where it stopped"
        )


class CancelledError(CatenaError):
    """The caller stopped the work; every complete reply is kept."""

    kept = "every complete reply, and what was written to a library"
    usual_advice = "the same again, which goes on where it stopped"

    def __str__(self) -> str:
        return "stopped by the caller; every complete reply is kept, and a new run continues from there"


class EvaluationError(CatenaError, ValueError):
    """A metric was asked for on judgements or rankings it is not defined on, or a file of questions has a bad row.

    The message names the query, or the file and the line (from 1).
    """

    kept = "the judgements, the rankings and the files as they are; nothing was written"
    usual_advice = "the row or the value that the message names, corrected"


class CalibrationError(CatenaError, ValueError):
    """A fitted calibration cannot be read, kept or used; the rankings it was meant for are unchanged."""

    kept = "the rankings as they are"
    usual_advice = "fitting it again: catena calibrate"

    def __init__(self, where: str, what: str, do_next: str = "") -> None:
        super().__init__(where, what, do_next)
        self.where, self.what, self.do_next = where, what, do_next

    def __str__(self) -> str:
        hint = f". Try: {self.do_next}" if self.do_next else ""
        return f"calibration {self.where}: {self.what}{hint}"
