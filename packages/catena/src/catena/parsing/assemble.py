"""From the events of a reading process to a `Parsed`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from catena.model import Document
from catena.model.layout import Layout, Page, PageNote, Parsed
from catena.parsing.failures import Unreadable
from catena.parsing.pages import outline_of, page_of
from catena.text.encodings import is_visible
from catena.text.loaded import PAGE_BREAK, PLAIN

_WHY = {"no-text": "it shows something, but has no text layer", "blank": "nothing is on it"}
# titles that programs fill in by themselves
_NO_TITLE = re.compile(r"untitled|document\d*|microsoft word.*|.*\.(docx?|tex|dvi|indd|pdf|rtf|html?)|\W*", re.I)


def parsed(events: Sequence[Mapping[str, Any]], blank: Document, name: str) -> Parsed:
    """Return the document that a reading process gave.

    Raises:
        Unreadable: it gave none; why.
    """
    is_pdf = any(event["event"] == "start" for event in events)
    return parsed_pdf(events, blank, name) if is_pdf else parsed_text(events, blank, name)


def whole(events: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the bytes of a file that a reading process has opened.

    Raises:
        Unreadable: it could not; why.
    """
    if events[-1]["event"] == "failed":
        raise _unreadable(events[-1])
    return bytes(events[0].get("data", b""))


def parsed_pdf(events: Sequence[Mapping[str, Any]], blank: Document, name: str) -> Parsed:
    """Return the document and its layout.

    Raises:
        Unreadable: no page gave text: all blank ("empty"), scanned ("no-text"), or what ended the reading.
    """
    end = events[-1]
    failed = end if end["event"] == "failed" else None
    start = next((event for event in events if event["event"] == "start"), None)
    if start is None:
        raise _unreadable(failed)
    about: Mapping[str, Any] = next((event for event in events if event["event"] == "about"), {})
    labels = [str(label) for label in about.get("labels", ())]
    count = int(start["pages"])
    labels = labels if len(labels) == count else [""] * count
    read = {event["number"]: event for event in events if event["event"] == "page"}
    given_up = [event for event in events if event["event"] == "unread"]
    why = {event["number"]: f"{event['state']}: {event['what']}" for event in given_up}
    figures: dict[int, list[Mapping[str, Any]]] = {}
    for event in events:
        if event["event"] == "figure":
            figures.setdefault(event["page"], []).append(event)
    missing = f"not read: {failed['what']}" if failed else ""
    pages = tuple(
        page_of(read[number], labels[number - 1], figures.get(number, ()))
        if number in read
        else _unread(number, labels[number - 1], why.get(number, missing))
        for number in range(1, count + 1)
    )
    _check_some_text(pages, failed)
    parsed = _parsed(pages, about, blank, name, str(start.get("problem", "")))
    lost = _lost_figures(events, failed if len(read.keys() | why.keys()) == count else None, count)
    ends = given_up if failed is None else [*given_up, failed]
    cut = [event for event in ends if event["state"] in {"timeout", "memory"}]
    parsed = replace(parsed, retry=str(cut[-1]["do_next"]) if cut else "")
    return parsed if not lost else replace(parsed, state="partial", notes=(*parsed.notes, *lost))


def _lost_figures(
    events: Sequence[Mapping[str, Any]], failed: Mapping[str, Any] | None, pages: int
) -> tuple[PageNote, ...]:
    """Return the pages whose figures are not all there; figures come last, so a reading that ended late lost some."""
    notes = [
        PageNote(page=int(event["page"]), state="text", why=str(event["why"]))
        for event in events
        if event["event"] == "no-figure"
    ]
    if failed is not None:
        reached = max((int(event["page"]) for event in events if event["event"] == "figure"), default=1)
        known = any(event["event"] == "about" for event in events)
        what = "figures from here on" if known else "the outline, the labels of pages and figures"
        why = f"{what} may be missing: {failed['what']}"
        notes.append(PageNote(page=min(reached, pages), state="text", why=why))
    return tuple(notes)


def _parsed(pages: tuple[Page, ...], about: Mapping[str, Any], blank: Document, name: str, problem: str) -> Parsed:
    metadata = {str(key): str(value) for key, value in about.get("metadata", {}).items() if value}
    problems = "; ".join(about.get("problems", ()))
    title = metadata.pop("title", "")
    layout = Layout(
        pages=pages,
        outline=outline_of(about, len(pages)) if "items" in about else (),
        title=title,
        metadata={**metadata, "problems": problems} if problems else metadata,
    )
    texts = ["\n".join(line.text for line in page.lines) for page in pages]
    starts = [0]
    for text in texts[:-1]:
        starts.append(starts[-1] + len(text) + len(PAGE_BREAK))
    document = replace(
        blank,
        text=PAGE_BREAK.join(texts),
        title=title if title and not _NO_TITLE.fullmatch(title) else PurePath(name).stem,
        media_type=PLAIN,
        page_starts=tuple(starts),
        page_labels=tuple(page.label for page in pages) if any(page.label for page in pages) else (),
        metadata=metadata,
    )
    notes = tuple(
        PageNote(page=page.number, state=page.state, why=page.note or _WHY[page.state])
        for page in pages
        if page.state != "text" or page.note
    )
    if problem:  # of the whole file
        notes = (PageNote(page=1, state="text", why=problem), *notes)
    partial = any(note.state != "blank" for note in notes)
    notes += tuple(
        PageNote(page=page.number, state="hidden", why=f"hidden text (characters): {page.hidden}")
        for page in pages
        if page.hidden
    )
    return Parsed(document=document, layout=layout, state="partial" if partial else "parsed", notes=notes)


def _check_some_text(pages: Sequence[Page], failed: Mapping[str, Any] | None) -> None:
    if any(is_visible(line.text) for page in pages for line in page.lines):
        return
    if failed is not None:
        raise _unreadable(failed)
    states = {page.state for page in pages}
    if "failed" in states:
        note = next(page.note for page in pages if page.state == "failed")
        state, _, why = note.partition(": ")
        raise Unreadable(state, f"none of its {len(pages)} pages can be read ({why})")
    if "no-text" in states:
        raise Unreadable(
            "no-text", f"none of its {len(pages)} pages has a text layer: it is a scan", "running OCR on it"
        )
    what = "have nothing on them that can be seen" if "text" in states else "are blank"
    raise Unreadable("empty", f"all of its {len(pages)} pages {what}")


def _unread(number: int, label: str, note: str) -> Page:
    return Page(number=number, width=0.0, height=0.0, lines=(), label=label, state="failed", note=note)


def _unreadable(failed: Mapping[str, Any] | None) -> Unreadable:
    if failed is None:
        return Unreadable("malformed", "nothing could be read from it")
    return Unreadable(str(failed["state"]), str(failed["what"]), str(failed["do_next"]))


def parsed_text(events: Sequence[Mapping[str, Any]], blank: Document, name: str) -> Parsed:
    """Return the document of a file without pages; "partial" where some of it is missing.

    Raises:
        Unreadable: it has no text, or what ended the reading.
    """
    about = next((event for event in events if event["event"] == "text"), None)
    if about is None or events[-1]["event"] == "failed":
        raise _unreadable(events[-1] if events[-1]["event"] == "failed" else None)
    notes = tuple(PageNote(page=1, state="text", why=str(why)) for why in about.get("notes", ()))
    document = replace(
        blank,
        text="".join(str(event["text"]) for event in events if event["event"] == "piece"),
        title=str(about["title"]) or PurePath(name).stem,
        media_type=str(about["media_type"]),
        metadata={"encoding": str(about["encoding"])},
    )
    return Parsed(document=document, state="partial" if notes else "parsed", notes=notes)
