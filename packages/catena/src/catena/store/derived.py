"""Keep what is derived from the truth in folders that say of which generation they are, and whether intact.

A folder's manifest is replaced by one rename. While its files change it says so, so that neither a reader
nor a restart after a kill takes a half-written folder for a whole one; checksums tell damage of any kind.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MANIFEST = "catena.json"
_BLOCK = 1 << 20  # bytes read at once
_NO_LEAVE = ("ermission denied", "Read-only file system", "Operation not permitted")  # as systems say it


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The state of a derived folder: its generation, its making, and size and CRC-32 of each file."""

    generation: int
    made: str  # engine, format and what of: files of another make are rebuilt
    files: Mapping[str, tuple[int, int]]
    writing: bool = False

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """Return the folder's manifest, None where there is none that can be read."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            body = json.loads((folder / MANIFEST).read_bytes())
            files = {str(name): (int(size), int(crc)) for name, (size, crc) in body["files"].items()}
            return cls(
                generation=int(body["generation"]), made=str(body["made"]), files=files, writing=bool(body["writing"])
            )
        return None

    def write(self, folder: Path) -> None:
        """Replace the folder's manifest."""
        body = {"generation": self.generation, "made": self.made, "files": self.files, "writing": self.writing}
        draft = folder / f"{MANIFEST}.tmp"
        draft.write_text(json.dumps(body), encoding="utf-8")
        os.replace(draft, folder / MANIFEST)

    def is_settled(self, generation: int) -> bool:
        """Return whether the folder claims to be whole and of this generation; nothing is read."""
        return self.generation == generation and not self.writing

    def is_intact(self, folder: Path, made: str) -> bool:
        """Return whether the files are whole, unchanged and of this make."""
        if self.writing or self.made != made:
            return False
        return all(_matches(folder / name, *expected) for name, expected in self.files.items())


def seal(folder: Path, *, generation: int, made: str, before: Manifest | None = None) -> Manifest:
    """Write the manifest of a folder that is complete, and return it.

    Args:
        folder: the derived folder.
        generation: of the truth it now equals.
        made: engine and format.
        before: the previous manifest, whose checksums are taken over: of files once written only JSON changes.
    """
    known = before.files if before else {}
    files: dict[str, tuple[int, int]] = {}
    for path in sorted(folder.iterdir()):
        name = path.name
        if name.startswith(MANIFEST) or name.endswith(".lock"):
            continue
        size = path.stat().st_size
        old = known.get(name)
        files[name] = old if old and old[0] == size and not name.endswith(".json") else (size, checksum(path))
    manifest = Manifest(generation=generation, made=made, files=files)
    manifest.write(folder)
    return manifest


def what_helps(error: BaseException) -> str:
    """Return what to do next where a derived folder cannot be written."""
    refused = any(sign in str(error) for sign in _NO_LEAVE)
    return f"{'leave to write there' if refused else 'more disk space'}; searches go on meanwhile, from memory"


def discard(folder: Path) -> None:
    """Declare a derived folder void: it is rebuilt when next needed."""
    with suppress(OSError):
        (folder / MANIFEST).unlink()


def cleared(folder: Path) -> Path:
    """Empty a derived folder, or make it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    crc = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            crc = zlib.crc32(block, crc)
    return crc


def _matches(path: Path, size: int, crc: int) -> bool:
    with suppress(OSError):
        return path.stat().st_size == size and checksum(path) == crc
    return False
