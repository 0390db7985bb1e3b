"""Every error a user of Catena can meet: what is wrong, where, what is kept, and what to do next.

Nothing but these classes leaves the package: parsers, SDKs and models have their own exceptions, which
are caught at the border and named here. All arguments go through `super().__init__`, so each error
survives pickling and therefore the border between processes.
"""

from __future__ import annotations


class CatenaError(Exception):
    """The base of all errors of this project."""


class ParameterError(CatenaError, ValueError):
    """A parameter is outside its domain; the message names it, its value and the domain."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(name, value, allowed)
        self.name, self.value, self.allowed = name, value, allowed

    def __str__(self) -> str:
        return f"{self.name} must be {self.allowed}, got {self.value!r}"


class ScaleError(CatenaError, TypeError):
    """A stage was given scores in a unit it cannot use."""

    def __init__(self, stage: str, needed: str, got: str) -> None:
        super().__init__(stage, needed, got)
        self.stage, self.needed, self.got = stage, needed, got

    def __str__(self) -> str:
        hint = (
            ". Try: rerank, calibrated or by_rank of catena.rerank.reranking" if self.needed == "probability" else ""
        )
        return f"{self.stage} needs scores in the scale {self.needed!r}, got {self.got!r}{hint}"


class MissingExtraError(CatenaError, ImportError):
    """A part was asked for whose optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package, self.extra = package, extra

    def __str__(self) -> str:
        return f"{self.package} is not installed. Try: pip install 'catena[{self.extra}]'"


class ParseError(CatenaError):
    """A file could not be read into a document.

    `state` is one of the names in `catena.layout.FailureState`; nothing of the file is indexed, and whatever an
    earlier version of it left in a library stays there.
    """

    def __init__(self, source: str, state: str, what: str, do_next: str = "") -> None:
        super().__init__(source, state, what, do_next)
        self.source, self.state, self.what, self.do_next = source, state, what, do_next

    def __str__(self) -> str:
        hint = f" Try: {self.do_next}" if self.do_next else ""
        return f"{self.source}: {self.state}: {self.what}.{hint}"


class LibraryError(CatenaError):
    """An embedded library cannot do what was asked; what it held before is still there."""

    def __init__(self, path: str, what: str, do_next: str = "") -> None:
        super().__init__(path, what, do_next)
        self.path, self.what, self.do_next = path, what, do_next

    def __str__(self) -> str:
        hint = f" Try: {self.do_next}" if self.do_next else ""
        return f"library {self.path}: {self.what}.{hint}"


class LibraryBusyError(LibraryError):
    """Another process is writing to the library."""


class ModelMismatchError(LibraryError):
    """The library holds vectors of another embedding model than the one given."""


class UnknownDocumentError(LibraryError, KeyError):
    """No document of this id is in the library."""

    __str__ = LibraryError.__str__


class DuplicateDocumentError(LibraryError):
    """A document of this id is in the library already."""


class FilterError(CatenaError, ValueError):
    """A filter is malformed, or a route cannot obey it; it is never ignored."""

    def __init__(self, where: object, what: str) -> None:
        super().__init__(where, what)
        self.where, self.what = where, what

    def __str__(self) -> str:
        return f"filter {self.where!r}: {self.what}"


class ServiceError(CatenaError):
    """A request to a model or a store failed.

    `retry` says whether the same request may succeed later; `retry_after` is the wait the service asked
    for, in seconds.
    """

    def __init__(self, service: str, what: str, retry: bool = False, retry_after: float | None = None) -> None:
        super().__init__(service, what, retry, retry_after)
        self.service, self.what, self.retry, self.retry_after = service, what, retry, retry_after

    def __str__(self) -> str:
        return f"{self.service}: {self.what}"


class InvalidReplyError(ServiceError):
    """A model's reply was truncated, refused or not of the asked form; it is never kept."""


class MissingServiceError(CatenaError, LookupError):
    """A step asked for a kind of service that the caller did not give."""

    def __init__(self, request: str, available: tuple[str, ...]) -> None:
        super().__init__(request, available)
        self.request, self.available = request, available

    def __str__(self) -> str:
        have = ", ".join(self.available) or "none"
        return f"no service answers {self.request} requests (given: {have})"


class RouteError(CatenaError):
    """A route failed while the caller asked that failures be raised, or every route failed."""

    def __init__(self, route: str, what: str, all_failed: bool = False) -> None:
        super().__init__(route, what, all_failed)
        self.route, self.what, self.all_failed = route, what, all_failed

    def __str__(self) -> str:
        if self.all_failed:
            return f"every route failed ({self.route}): {self.what}"
        return f"route {self.route!r} failed: {self.what}. Try: on_route_error='degrade' to rank by the others"


class ViewError(CatenaError):
    """A view could not be searched while the caller asked that failures be raised, or no view could."""

    def __init__(self, view: str, what: str, all_failed: bool = False) -> None:
        super().__init__(view, what, all_failed)
        self.view, self.what, self.all_failed = view, what, all_failed

    def __str__(self) -> str:
        if self.all_failed:
            return f"no view could be searched ({self.view}): {self.what}"
        return f"view {self.view!r} failed: {self.what}. Try: on_view_error='degrade' to rank by the others"


class JournalError(CatenaError):
    """The journal of replies cannot be opened, read or written; the replies kept before are still there."""

    def __init__(self, path: str, what: str, do_next: str = "") -> None:
        super().__init__(path, what, do_next)
        self.path, self.what, self.do_next = path, what, do_next

    def __str__(self) -> str:
        hint = f" Try: {self.do_next}" if self.do_next else ""
        return f"journal {self.path}: {self.what}.{hint}"


class BudgetExceededError(CatenaError):
    """The spending cap would be passed; everything paid for so far is kept in the journal."""

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

    def __str__(self) -> str:
        return "stopped by the caller; every complete reply is kept, and a new run continues from there"


class EvaluationError(CatenaError, ValueError):
    """A metric was asked for on judgements or rankings it is not defined on."""


class CalibrationError(CatenaError, ValueError):
    """A fitted calibration cannot be read, kept or used; the rankings it was meant for are unchanged."""

    def __init__(self, where: str, what: str, do_next: str = "") -> None:
        super().__init__(where, what, do_next)
        self.where, self.what, self.do_next = where, what, do_next

    def __str__(self) -> str:
        hint = f". Try: {self.do_next}" if self.do_next else ""
        return f"calibration {self.where}: {self.what}{hint}"
