"""Long-document retrieval: from real files to ranked, cited passages.

The names below are loaded when first used, so that `import catena` costs nothing: no numpy, no SDK, no
framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# public name -> the module that holds it
_WHERE: dict[str, str] = {
    name: module
    for module, names in {
        "catena.model": ("Chunk Degraded Document Entry Hit Outcome Provenance Ranking Scale Section Segment View"),
        "catena.errors": (
            "BudgetExceededError CancelledError CatenaError FilterError LibraryError MissingExtraError "
            "ModelMismatchError ParameterError ParseError RouteError ScaleError ServerError ServiceError"
        ),
        "catena.effects": "Services arun run",
        "catena.journal": "Journal",
        "catena.library": "Library",
        "catena.retrieval.fusion": "RankFusion ScoreFusion",
        "catena.backends.elasticsearch": "ElasticsearchTransport",
        "catena.backends.opensearch": "OpenSearchTransport",
        "catena.server.store": "ServerOptions ServerStore",
        "catena.server_library": "ServerLibrary",
    }.items()
    for name in names.split()
}

__all__ = ["__version__", *sorted(_WHERE)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'catena' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
