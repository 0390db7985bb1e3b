"""What a report asks of a library, in a folder or on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from catena.library import Library
    from catena.server.library import ServerLibrary

    ReportLibrary: TypeAlias = Library | ServerLibrary
