"""Command lines that cannot do what they ask for: one message, one line of advice, an exit code, and nothing made."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from cli_calls import at_home, call, plain

from catena.enrichment import Keywords, Summaries
from catena.library import Library, Preparation
from catena.structure import SectionChunkOptions

NOTE = "# HX200 manual\n\n## Fuse\n\nThe fuse is rated 250 mA, slow.\n\n## Cover\n\nTighten the screws to 1.8 N·m.\n"
BANK = '{"question": "What?", "gold": {"document": "note.md", "text": "fuse"}, "supporting": []}\n'
NEST = '{"$not": '
MODEL = "--llm m --base-url http://127.0.0.1:9/v1"

REFUSED = {
    # what the command line itself does not take
    "search -l lib": "QUESTION",
    "search x": "--library",
    "search x -l lib -k 0": "-k",
    "search x -l lib --route sparse": "sparse",
    "search x -l lib --segments --penalty 7": "Invalid value for '--penalty'",
    "parse note.md --engine foo": "foo",
    "figures note.md --memory inf": "Invalid value for '--memory'",
    # a slip of the pen is answered with the nearest name
    "serach x": "Did you mean 'search'?",
    "graph bild lib": "Did you mean 'build'?",
    "search x -l lib --route lexcial": "Did you mean 'lexical'?",
    "parse note.md --engine pypdfum": "Did you mean 'pypdfium2'?",
    "delete notes.md -l lib": "Did you mean 'note.md'?",
    "explain-error ParesError": "Did you mean 'ParseError'?",
    "search x -l lib --rout dense": "--route",
    # libraries and files
    "search x -l nowhere": "nowhere",
    "status -l note.md": "Try: the folder of a library; catena index FILES --library PATH makes one",
    "status -l empty": "Kept: everything as it was: nothing was opened or made",
    "index note.md -l empty": "Try: an empty folder, or a path where there is nothing",
    "parse note.md --out no/such/folder.md": "no/such/folder.md",
    "delete gone.md -l lib": "gone.md",
    "ask what?": "no files",
    "index '' -l new": "a path is empty",
    "ask '' what?": "a path is empty",
    "views ''": "a path is empty",
    "ask What? note.md": "is a path, and stands where the question does: it comes last Try: catena ask note.md",
    "ask What? lib": 'Try: catena ask "What?" --library lib',
    "parse note.md more/note.md --out more": "files of the same name",
    "figures note.md": "is no PDF",
    # questions
    "search ' ' -l lib --segments": "the question is empty Try: what you would ask a colleague, in quotes",
    "ask note.md ''": "the question is empty",
    "report '' -l lib": "the question is empty",
    "server search '' --name lib --url http://localhost:9": "the question is empty",
    "search foot bolts -l lib": 'Try: quotes around the whole question, as in catena search "',
    "report foot bolts -l lib": 'Try: quotes around the whole question, as in catena report "',
    # weights, routes and names
    "search x -l lib --alpha 2": "alpha",
    "search x -l lib --alpha 0.5 --fusion rank": "--alpha and --beta weigh scores; ranks have none",
    "search x -l lib -r dense -r dense --beta 1": "only one",
    "search x -l lib --tuned bank.jsonl --alpha 0.5": "one of them",
    "search x -l lib --route passages": "this library have no passages Try: catena index --chunks sections",
    "search x -l lib --no-names --entity HX200": "--entity is about them",
    "search x -l lib --no-names --keep-neighbours": "--keep-neighbours is about them",
    "search x -l lib -r dense --no-names": "where several routes are asked",
    "search x -l lib --figures --keep-neighbours": "not for figures",
    "search x -l lib --figures --route dense": "--figures has its own routes",
    "search x -l lib --figures --alpha 0.5": "--figures has its own routes",
    "search x -l lib --figures --fusion rank": "--figures has its own routes",
    # filters
    "search x -l lib --where '{'": "--where is not JSON",
    "search x -l lib --where [1]": "--where must be a JSON object",
    """search x -l lib --where '{"a": {"$like": 1}}'""": "$like",
    """search x -l lib --where '{"a": {"$lke": 1}}'""": "Did you mean '$lte'?",
    f"search x -l lib --where '{NEST * 9_000}{{}}{'}' * 9_000}'": "nested more than 150",
    f"""search x -l lib --where '{{"a": {'[' * 500}{']' * 500}}}'""": "nested more than 150",
    f"search x -l lib --where '{NEST * 60}{{}}{'}' * 60}'": "nested more than 50",
    # what is to be found
    "search x -l lib --preset balanced": "--preset is about segments",
    "search x -l lib --budget-tokens 9 --figures": "--figures and --budget-tokens each say what is to be found",
    "search x -l lib --budget-tokens 9 -k 3": "-k: with --passages or --budget-tokens, as much is read",
    "ask note.md x --budget-tokens 9 -k 3": "-k: as much is read as the budget holds",
    "search x -l lib --curve c.png": "--curve is about segments",
    "search x -l lib --segments -k 3": "-k is about passages",
    "search x -l lib --segments --figures": "--figures is about passages",
    "search x -l lib --segments --section": "--section is about passages",
    "search x -l lib --segments --queries llm": "--queries llm needs the name of a model",
    "search x -l lib --segments --llm m": "--llm writes queries, and is not asked for any",
    "search x -l lib --segments --base-url http://127.0.0.1:1/v1": "--base-url needs the name of a model",
    "search x -l lib --segments --curve c.gif": "c.gif is neither .png nor .html",
    "search x -l lib --segments --curve no/c.png": "its folder is not there",
    "search x -l lib --segments --calibration cohere": "was made for scores of cohere's rerankers",
    "search x -l lib --segments --calibration voyage --rerank cohere:m": "was made for scores of voyage's",
    "search x -l lib --segments --calibration gone.json": "--calibration gone.json: there is no such file",
    "search x -l lib --segments --rerank jina:m": "--rerank knows no 'jina'",
    "search x -l lib --segments --rerank cohere": "--rerank cohere needs a model",
    "search x -l lib --segments --rerank cohere:m": "there is no key for cohere",
    "search x -l lib --passages --views all": "--passages and --views each say what is to be found",
    "search x -l lib --passages --section": "--section: with --passages",
    "search x -l sections --rule exact": "--rule says how several views become one",
    "search x -l sections -k inf": "only the paper's rule takes parts",
    "search x -l sections --views all --rule exact -k 1.5": "only the paper's rule takes parts",
    "search x -l sections --views ,": "--views names no kind of view",
    "search x -l sections --views questions": "the kind 'questions', only headed, keywords, passage, summary",
    "search x -l sections --views all --beta 1": "--views obeys no --beta",
    "search x -l sections --views all --tuned x.json": "--views obeys no --tuned",
    "search x -l sections --views all --no-names": "--views obeys no --entity, --keep-neighbours and --no-names",
    "search x -l sections --views all --route keyword": "--route keyword searches no single view",
    "search x -l lib --views all": "no views besides the text itself Try: catena index --views keywords,summary",
    # chains and graphs
    "search x -l lib --walk paper": "--walk is about chains over the graph",
    "search x -l lib --picture a.png": "--picture is about chains over the graph",
    "ask note.md x --walk paper": "--walk is about chains",
    "search x -l lib --no-graph --passages": "--no-graph: nothing is added from a graph here",
    "search x -l lib --graph --no-graph": "--no-graph: nothing is added from a graph here",
    "search x -l lib --graph --section": "--graph obeys no --section",
    "search x -l lib --graph --entity HX200": "--graph obeys no --entity",
    "search x -l lib --graph --segments": "each say what is to be found",
    "search x -l lib --graph --beam-width 2": "Try: --walk beam with it",
    "search x -l lib --graph --picture a.pdf": "neither .png nor .html",
    "ask note.md x --graph --segments": "--graph obeys no --segments",
    "ask note.md x --graph --entity HX200": "--graph obeys no --entity",
    "search x -l lib --graph": "library lib has no graph Try: catena graph build lib",
    "graph export lib g.graphml": "library lib has no graph",
    "graph export lib g.csv": "does not end in .graphml",
    "graph export lib nowhere/g.graphml": "its folder is not there",
    "graph train lib bank.jsonl --output s": "library lib has no graph",
    "graph train lib bank.jsonl --output s --encoder m": "--encoder is of the paper's scorer",
    "graph train lib bank.jsonl --output s --checkpoints c": "Try: --scorer paper with it",
    "graph train lib bank.jsonl --output s --scorer paper --fine-tune": "Try: --encoder MODEL",
    "graph train lib bank.jsonl --output s --scorer paper --fine-tune --encoder m": "Try: --checkpoints DIR",
    # asking and measuring
    "ask note.md x --base-url http://localhost": "--base-url needs the name of a model Try: --model",
    "ask note.md x --no-quotes": "--no-quotes needs the name of a model",
    "ask note.md x --preset balanced": "--preset is about segments",
    "ask note.md x --segments -k 2": "-k is about passages",
    "ask note.md x --segments --no-quotes --model m": "--no-quotes is about passages",
    "ask note.md x --segments --queries llm": "--queries llm needs the name of a model",
    "ask note.md x --segments --rerank cohere:m": "there is no key for cohere",
    "evaluate lib bank.jsonl --gamma 0": "--gamma must be above 0",
    "evaluate lib bank.jsonl --gamma nan": "--gamma must be above 0",
    "report what? -l lib --out r.pdf": "r.pdf does not end in .html",
    "evaluate lib bank.jsonl --level 1": "--level must be in (0, 1)",
    # indexing
    "index note.md -l new --chunks sections --max-tokens 9": "a section is one chunk",
    "index note.md -l new --across-sections": "--across-sections is about fixed lengths",
    "index note.md -l new --views keywords,words": "--views words: there is no such kind of view",
    "index note.md -l new --views ,": "--views names no kind of view",
    "index note.md -l new --views-by offline": "--views-by says who makes views",
    "index note.md -l new --views questions": "--views questions: only a model writes these",
    "index note.md -l new --views summary --views-by llm": "--views-by llm needs the name of a model",
    "index note.md -l new --views summary --llm m": "--llm needs to be told what for",
    "index note.md -l new --views summary --language French": "--language is obeyed by models only",
    "index note.md -l new --format-llm": "--format-llm needs the name of a model",
    "index note.md -l new --entities-llm": "--entities-llm needs the name of a model",
    "index note.md -l new --segmentation llm": "--segmentation llm needs the name of a model",
    "index note.md -l new --context llm": "--context llm needs the name of a model",
    "index note.md -l new --graph --graph-keywords llm": "--graph-keywords llm needs the name of a model",
    "index note.md -l new --graph-keywords offline": "Try: --graph with it",
    "index note.md -l new --segment-under headings": "--segment-under is about sections by meaning",
    "index note.md -l new --language French --context offline": "--language is obeyed by models only",
    "index note.md -l new --plan": "--plan needs the name of a model",
    "index note.md -l new --base-url http://127.0.0.1:1/v1": "Try: --llm NAME, or --caption-model NAME",
    "index note.md -l new --context offline --journal j.db": "--journal keeps the replies of a model",
    "index note.md -l new --llm m --format-llm --budget 1": "--budget needs prices",
    "index note.md -l new --expert no.csv": "no.csv",
    # a model is named for what a model does
    **{
        f"{command} {option}": f"{option.split()[0]} needs the name of a model Try: --llm NAME"
        for command, options in {
            "parse note.md": ("--plan", "--budget 1", "--window 9", "--fidelity f.json", "--fidelity-plot f.png"),
            "segment note.md": ("--plan", "--journal j.db"),
            "views note.md": ("--plan", "--requests-per-minute 1"),
        }.items()
        for option in options
    },
    f"parse note.md {MODEL} --budget 1": "--budget needs prices",
    "views note.md --by llm": "--by llm needs the name of a model",
    "views note.md --llm m": "--llm needs to be told what for",
    "views note.md --views questions": "only a model writes these",
    "views note.md --language French": "--language is obeyed by models only",
}  # fmt: skip

FAILED = {  # exit code 1: an input failed, or nothing was found
    "ask nofile what?": "not read: nofile: missing: there is no such file; no passage was found Try: checking",
    "parse gone.pdf": "gone.pdf",
    "parse broken.pdf": "broken.pdf",
    "parse picture.png": "picture.png",
    "parse more": "more: unsupported: it is a folder, not a file",
    "search x -l lib --figures": "Try: files indexed with --figures",
    """search x -l lib --where '{"title": "other"}'""": "nothing was found Try: a filter that lets more pass",
    "search fuse -l sections --passages --budget-tokens 1": "no passage fits into 1 tokens",
    "index empty -l new": "there are no files in these folders",
    "views empty": "there are no files in these folders",
    "views broken.pdf": "no file could be read",
    "segment void.md": "void.md: empty",
    "index hx.md gone -l new": "neither file nor folder hx.md, gone; no library was made",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of all kinds, and two libraries of a note: its passages, and its sections with views."""
    folder = tmp_path_factory.mktemp("refused")
    for name, text in {"note.md": NOTE, "void.md": "", "bank.jsonl": BANK, "more/note.md": NOTE}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "empty").mkdir()
    for name in (".hidden", "~$lock.docx"):
        (folder / "empty" / name).write_text("not searched for")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    whole = Preparation(chunks=SectionChunkOptions(), views=(Keywords(by="offline"), Summaries(by="offline")))
    for name, how in (("lib", None), ("sections", whole)):
        with Library.open(folder / name, preparation=how) as library:
            library.index(folder / "note.md")
    return folder


@pytest.mark.parametrize(
    ("line", "told", "code"),
    [*((*each, 2) for each in REFUSED.items()), *((*each, 1) for each in FAILED.items())],
    ids=lambda each: each[:60] if isinstance(each, str) else "",
)
def test_what_cannot_be_done_is_said_with_advice_and_nothing_is_made(
    made: Path, monkeypatch: pytest.MonkeyPatch, line: str, told: str, code: int
) -> None:
    at_home(made, monkeypatch)
    before = sorted(made.glob("*"))
    result = call(*shlex.split(line), code=code)
    lines = result.stderr.splitlines()
    assert told in plain(result.stderr)
    assert [each.startswith("Try: ") for each in lines].count(True) == 1
    assert lines[-1].startswith("Try: ")
    assert str(made) not in result.output
    assert result.stdout == ""
    assert sorted(made.glob("*")) == before
