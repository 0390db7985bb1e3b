"""A user's file, as `nox -s types` checks it: public names have types, and a mistake is reported where it stands.

Nothing runs it; mypy and pyright read it. An ignored mistake that is not reported is itself one
(`warn_unused_ignores`, and the next line).
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import assert_type

from catena import Library
from catena.model import Outcome, Ranking
from catena_server import ServerLibrary
from langchain_catena import CatenaRetriever
from llama_index_catena import CatenaSegmentRetriever

library = Library.open("manuals.catena")
assert_type(library, Library)
assert_type(library.search("How tight are the cover screws?"), Ranking)
assert_type(library.index(["manuals"]), tuple[Outcome, ...])
assert_type(ServerLibrary.open("http://127.0.0.1:9200", "manuals"), ServerLibrary)
assert_type(CatenaRetriever(library=library).ranking("q"), Ranking)

library.serch("q")  # type: ignore[attr-defined]
library.search("q", k="4")  # type: ignore[arg-type]
CatenaSegmentRetriever(library, optoins=None)  # type: ignore[call-arg]
