"""`catena server`: an index set on Elasticsearch or OpenSearch, filled, asked, looked at, exported and built anew."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import out, plain, printable, write_json
from catena.cli.failures import (
    DAMAGED,
    SOME_FAILED,
    ProblemError,
    check_question,
    check_targets,
    stands_nowhere,
    tell_degraded,
    tell_unknown,
)
from catena.cli.graph_search import Edges, building
from catena.cli.library import show_documents, told_views
from catena.cli.options import AsJson, NameOptions, Number, filter_of, flag, grouped, option
from catena.cli.progress import counted, progress
from catena.cli.search import ranking_as_json
from catena.cli.weights import FusionOption, RouteOption, Weights, route_names
from catena_server.cli.index import Address, Home, connected, index, rebuild, stored

if TYPE_CHECKING:
    from catena.library import SegmentSearchOptions
    from catena_server.restoring import StoredChunk


app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Keep a library on Elasticsearch or OpenSearch, for more than one machine holds or many ask.

    Each command takes --url, or CATENA_SERVER_URL from the environment. The key of the server is read from
    CATENA_SERVER_API_KEY only, and shown nowhere; for OpenSearch it is a bearer token. A name and password may
    stand in CATENA_SERVER_URL: https://NAME:PASSWORD@HOST:9200.

    `catena plan` says beforehand what a collection will take: memory, disk, shards and hours.""",
)

app.command()(index)


@app.command()
@grouped
def search(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you would ask a colleague.")],
    *,
    at: Address,
    k: Number = 10,
    route: RouteOption = None,
    where: Annotated[str | None, option("JSON", 'A filter, e.g. \'{"page": {"$lte": 20}}\'.')] = None,
    fusion: FusionOption = "score",
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="Share of the dense route against the lexical one, 0 to 1.")
    ] = None,
    beta: Annotated[float | None, typer.Option("--beta", help="Weight of the critical terms, 0 or more.")] = None,
    names: NameOptions,
    section: Annotated[bool, flag("--section", "Show the whole sections of the passages.")] = False,
    as_json: AsJson = False,
) -> None:
    """Rank the passages of a set for a question, as `catena search` does; the formula runs inside the server."""
    from catena_server.library import ServerLibrary

    check_question(question)
    weights = Weights(routes=route_names(route), fusion=fusion, alpha=alpha, beta=beta)
    weights.check(figures=False, about_names=names.any_given)
    asked: SegmentSearchOptions = {"where": filter_of(where), **names.search()}
    if weights.routes:
        asked["routes"] = weights.routes
    with connected(at) as transport, ServerLibrary.open(transport, at.name, create=False) as opened:
        if chosen := weights.of_routes(opened):
            asked["fusion"] = chosen
        ranking = opened.search(question, k=k, **asked)
        sections = [opened.section(hit) for hit in ranking.hits] if section else None
    tell_degraded(ranking.degraded)
    if ranking.hits:
        tell_unknown(ranking)
    if as_json:
        write_json(ranking_as_json(question, ranking, sections))
    elif ranking.hits:
        from catena.cli.rendering import hits

        bodies = None if sections is None else [each.text.strip() for each in sections]
        out().print(hits(ranking.hits, question, bodies=bodies))
    if not ranking.hits and ranking.unknown:
        raise stands_nowhere(ranking)
    if not ranking.hits:
        hint = "other words, or `catena server status` to see what is there"
        raise ProblemError("nothing was found", hint, SOME_FAILED)


@app.command()
@grouped
def status(
    *,
    at: Address,
    every: Annotated[bool, flag("--all", "List every document, not only those of a small set.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a set holds, how it lies on the server, and the files that failed."""
    from catena.cli.rendering import SHOWN, number

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
    from catena.cli.rendering import number

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
    from catena.cli.rendering import number
    from catena.library import document_id_of

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


app.command()(rebuild)


@app.command()
@grouped
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="Where to write it.")],
    *,
    at: Address,
    vectors: Annotated[bool, flag("--vectors", "The vectors, too: some kB for each chunk.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write all chunks of a set, with their views and critical terms, as of one moment: one JSON object a line."""
    from catena.cli.rendering import number

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


@app.command()
@grouped
def graph(*, at: Address, edges: Edges, as_json: AsJson = False) -> None:
    """Join the passages of a set as `catena graph build` does, and write the graph to the server.

    It is built in this machine's memory from all chunks of the set, and takes the place of the one that the set has
    when all of it is written. It does not follow what is indexed later: the same command builds it anew.
    """
    from catena.cli.rendering import number
    from catena.graph import GraphOptions
    from catena_server.graph_writing import graph_of, upload_graph
    from catena_server.store import ServerStore

    began = time.monotonic()
    with connected(at) as transport, building(f"the graph that set {at.name} had is kept") as tell:
        store = ServerStore.open(transport, at.name, create=False)
        made = graph_of(store.export(), GraphOptions(**edges), progress=tell)
        layout = store.layout
        walked = upload_graph(transport, at.name, made, shards=layout.shards, replicas=layout.replicas)
        about = walked.about()
    joined, seconds = int(made.degrees().sum()) // 2, time.monotonic() - began
    if as_json:
        told = {"set": at.name, "nodes": about.nodes, "edges": joined, "kinds": about.kinds}
        write_json({**told, "seconds": round(seconds, 3)})
    else:
        told_in = f"in {seconds:.1f} s; in set {at.name}"
        out().print(f"{number(about.nodes, 'node')} and {number(joined, 'edge')} {told_in}")


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
