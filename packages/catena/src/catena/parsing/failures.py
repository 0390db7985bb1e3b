"""What a parser's exception means, in the words of `FailureState`."""

from __future__ import annotations

import re


class Unreadable(Exception):
    """A file that an engine refuses with a known state."""

    def __init__(self, state: str, what: str, do_next: str = "") -> None:
        super().__init__(state, what, do_next)
        self.state, self.what, self.do_next = state, what, do_next


# What pypdf's one error for all limits says, and what it means; the first words that are found decide.
_LIMITS = (
    ("loop", "malformed", "its objects refer to themselves"),
    ("cycl", "malformed", "its objects refer to themselves"),
    ("Read stream length", "malformed", "a number or name in it does not end"),
    ("depth", "too-deep", "its objects are nested too deeply"),
    ("page tree", "limit", "it claims more pages than any document has"),
    ("array element", "limit", "a list in it is longer than any document needs"),
)

# class names rather than classes: only the engine that raised one has been imported
_STATES = {
    "RecursionError": ("too-deep", "its objects are nested too deeply"),
    "MemoryError": ("memory", "reading it needs more memory than allowed"),
    "LimitReachedError": ("bomb", "it unpacks to far more than a document holds"),
    "FileNotDecryptedError": ("encrypted", "it is encrypted"),
    "WrongPasswordError": ("encrypted", "the password does not open it"),
    "DependencyError": ("encrypted", "its encryption needs a package that is missing"),
    "EmptyFileError": ("empty", "it holds no bytes"),
}


def failure_of(error: BaseException) -> tuple[str, str, str]:
    """Return the state, what is wrong, and what to do next."""
    if isinstance(error, Unreadable):
        return error.state, error.what, error.do_next
    for kind in type(error).__mro__:
        if kind.__name__ == "LimitReachedError":
            for words, state, what in _LIMITS:
                if words in str(error):
                    return state, what, _ADVICE.get(state, "")
        if kind.__name__ in _STATES:
            state, what = _STATES[kind.__name__]
            return state, what, _ADVICE.get(state, "")
    return "malformed", f"it cannot be read ({reason(error)})", _ADVICE["malformed"]


_OBJECT = re.compile(r"IndirectObject\((\d+), \d+, \d+\)")  # its last number is an address in memory


def reason(error: BaseException) -> str:
    """Return an exception in one short line, without control codes."""
    text = _OBJECT.sub(r"object \1", " ".join(str(error).split()))
    text = "".join(character for character in text if character.isprintable())
    return f"{type(error).__name__}: {text[:120]}" if text else type(error).__name__


_ADVICE = {
    "too-deep": "printing it to a new PDF",
    "memory": "a higher Limits(memory_bytes=...)",
    "bomb": "nothing, unless the file comes from someone you trust: then print it to a new PDF",
    "encrypted": "parse(path, password=...)",
    "malformed": "opening it in a viewer and printing it to a new PDF",
    "limit": "splitting it",
}
