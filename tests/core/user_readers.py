"""Readers of a user, for files of types of their own: good ones, and each way to go wrong."""

from __future__ import annotations

from importlib import import_module

from catena.parsing import FileText


def read_ini(data: bytes) -> FileText:
    """Return the settings as a table below their group."""
    text = data.decode().replace("[", "# ").replace("]", "")
    return FileText(text=text, title="Settings", metadata={"by": "me"})


def read_slides(data: bytes) -> FileText:
    """Return two pages with names."""
    text = "# One\n\nred\n\n# Two\n\nblue\n"
    return FileText(text=text, page_starts=(0, 12), page_labels=("slide 1", "slide 2"))


def read_nothing(data: bytes) -> FileText:
    return FileText(text="  ")


def read_wrong(data: bytes) -> object:
    return {"text": "hello"}


def read_badly_placed(data: bytes) -> FileText:
    return FileText(text="hello", page_starts=(3,))


def read_without(data: bytes) -> object:
    return import_module("a_package_that_is_not_there")


def read_for_ever(data: bytes) -> FileText:
    while True:
        pass


def read_too_much(data: bytes) -> FileText:
    return FileText(text="x" * 10**10)
