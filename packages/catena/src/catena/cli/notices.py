"""What stderr is told of a search besides its hits: what failed, and which names of the question stand nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catena.cli.console import err
from catena.cli.failures import SOME_FAILED, ProblemError
from catena.cli.terminal import printable
from catena.model import NO_DOCUMENTS

if TYPE_CHECKING:
    from catena.model import Degraded, Ranking
    from catena.segments import Extraction


def tell_degraded(degraded: Sequence[Degraded]) -> None:
    """Say what failed, or is not as it was asked for, while the rest went on."""
    for each in degraded:
        whole = each.what == "segments" or each.why == NO_DOCUMENTS
        what = each.what if whole else f"without {each.what}"
        err().print(printable(f"{what}: {each.why}", one_line=True), style="yellow", soft_wrap=True)


def tell_unknown(found: Ranking | Extraction) -> None:
    """Say which names of the question stand nowhere."""
    for name in found.unknown:
        err().print(printable(str(name), one_line=True), style="yellow", soft_wrap=True)


def stands_nowhere(found: Ranking | Extraction) -> ProblemError:
    """Return that nothing was found because the question names what is not there, and which names are near."""
    what = "; ".join(map(str, found.unknown))
    near = any(name.near for name in found.unknown)
    hint = "a name that is there, or --keep-neighbours for what is said of the others" if near else "other words"
    return ProblemError(f"nothing was found: {what}", hint, SOME_FAILED)
