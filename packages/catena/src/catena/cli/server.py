"""`catena server`: an index set on Elasticsearch or OpenSearch, filled, asked, looked at, exported and built anew."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli import server_graph, server_index, server_rebuild, server_search
from catena.cli.console import out, plain, write_json
from catena.cli.failures import DAMAGED, ProblemError, check_targets
from catena.cli.library import show_documents, told_views
from catena.cli.option_groups import grouped
from catena.cli.options import AsJson
from catena.cli.progress import counted, progress
from catena.cli.server_address import Address, stored
from catena.cli.server_index import Home
from catena.cli.terminal import printable

if TYPE_CHECKING:
    from catena.server.restoring import StoredChunk

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Keep a library on Elasticsearch or OpenSearch, for more than one machine holds or many ask.

    Each command takes --url, or CATENA_SERVER_URL from the environment. The key of the server is read from
    CATENA_SERVER_API_KEY only, and shown nowhere; for OpenSearch it is a bearer token. A name and password may
    stand in CATENA_SERVER_URL: https://NAME:PASSWORD@HOST:9200.

    `catena plan` says beforehand what a collection will take: memory, disk, shards and hours.""",
)

app.command()(server_index.index)
app.command()(server_search.search)


@app.command()
@grouped
def status(
    *,
    at: Address,
    every: Annotated[bool, typer.Option("--all", help="List every document, not only those of a small set.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a set holds, how it lies on the server, and the files that failed."""
    from catena.cli.views import SHOWN, number

    with stored(at) as store:
        stats, layout, where = store.stats(), store.layout, store.identity
        listed = every or as_json or stats.documents <= SHOWN
        documents, outcomes = store.documents() if listed else (), store.ledger()
    if as_json:
        write_json({"set": where, "layout": layout, "holds": stats, "documents": documents, "ledger": outcomes})
        return
    unfinished = [each.id for each in documents if not each.whole]
    show_documents(documents, outcomes)
    if unfinished:
        what = f"{number(len(unfinished), 'document')} not whole: being written, or a run was stopped\n"
        out().print(what + "".join(f"{_line(each)}\n" for each in unfinished), style="yellow", soft_wrap=True)
    console = out()
    console.print(_line(where), soft_wrap=True)
    console.print(
        f"{number(stats.documents, 'document')}, {number(stats.chunks, 'chunk')} ({told_views(stats.views)})\n"
        f"embedding {_line(layout.embedder)}\n"
        f"{layout.vector_index}, {number(layout.shards, 'shard')}, {layout.replicas} replicas; "
        f"{sum(stats.bytes.values()) / 1e6:.1f} MB on disk"
    )
    if not listed:
        console.print("`catena server status --all` lists the documents")


@app.command()
@grouped
def verify(*, at: Address, as_json: AsJson = False) -> None:
    """Check that all documents of a set are whole; exit code 4 when something is wrong."""
    from catena.cli.views import number

    with stored(at) as store, progress("checking", "documents") as show:
        problems = store.verify(lambda done, total: show(completed=done, total=total))
        stats = store.stats()
    if as_json:
        write_json({"set": at.name, "sound": not problems, "problems": problems})
    elif not problems:
        out().print(f"sound: {number(stats.documents, 'document')}, {number(stats.chunks, 'chunk')} checked")
    else:
        for problem in problems:
            out().print(_line(problem), soft_wrap=True)
    if problems:
        what = f"{number(len(problems), 'problem')} in set {at.name}; what is whole can be searched"
        raise ProblemError(what, "catena server index with the files of the documents named above", DAMAGED)


@app.command()
@grouped
def delete(
    documents: Annotated[
        list[str], typer.Argument(metavar="DOC…", help="Ids, as `catena server status` lists them, or paths.")
    ],
    *,
    at: Address,
    home: Home = Path(),
    as_json: AsJson = False,
) -> None:
    """Remove documents with every chunk, view and vector of them."""
    from catena.cli.views import number
    from catena.library.discovery import document_id_of

    with stored(at) as store:
        ids = {}
        for name in documents:
            ids[name] = name if store.fingerprint(name) is not None else document_id_of(name, home)
        unknown = [name for name, found in ids.items() if store.fingerprint(found) is None]
        if unknown:
            what = f"not in set {at.name}: {', '.join(unknown)}; nothing was deleted"
            raise ProblemError(what, "catena server status --all lists the documents")
        wanted = list(dict.fromkeys(ids.values()))
        for document in wanted:
            store.delete(document)
        left = store.stats().documents
    if as_json:
        write_json({"set": at.name, "deleted": wanted, "documents": left})
    else:
        out().print(f"deleted {_line(', '.join(wanted))}; {number(left, 'document')} left", soft_wrap=True)


app.command()(server_rebuild.rebuild)


@app.command()
@grouped
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="Where to write it.")],
    *,
    at: Address,
    vectors: Annotated[bool, typer.Option("--vectors", help="The vectors, too: some kB for each chunk.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write all chunks of a set, with their views and critical terms, as of one moment: one JSON object a line."""
    from catena.cli.views import number

    if file.suffix.lower() != ".jsonl":
        raise ProblemError(f"{file.name} does not end in .jsonl", "a file name that does")
    check_targets(file)
    part = file.with_name(f"{file.name}.part")
    count = 0
    try:
        with stored(at) as store, part.open("wb") as target:
            for line in counted(_lines(store.export(), vectors), "writing", "chunks", store.stats().chunks):
                target.write(line)
                count += 1
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)
    if as_json:
        write_json({"set": at.name, "file": file, "chunks": count})
    else:
        out().print(f"written: {_line(file)}, {number(count, 'chunk')}", soft_wrap=True)


app.command()(server_graph.graph)


def _lines(chunks: Iterator[StoredChunk], vectors: bool) -> Iterator[bytes]:
    for each in chunks:
        told: dict[str, Any] = {"chunk": each.chunk, "views": each.views, "terms": each.terms}
        if vectors:
            rows = zip(each.kinds, each.rows.tolist(), strict=True)
            told["vectors"] = [{"view": kind or "default", "vector": row} for kind, row in rows]
        try:
            yield json.dumps(plain(told), ensure_ascii=False).encode() + b"\n"
        except UnicodeEncodeError:  # halves of surrogate pairs are no UTF-8
            yield json.dumps(plain(told)).encode() + b"\n"


def _line(text: object) -> str:
    return printable(str(text), one_line=True)
