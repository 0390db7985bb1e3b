"""Hooks of mkdocs: what the site takes from the repository beside docs/, without a second copy of it.

README, CHANGELOG, the adapters' READMEs, the notebooks with their kept outputs, and a page per module, from its
docstrings. Links between them stay as the repository has them and are turned into the site's; a name in `code` that
is a function or class of ours links to its page.
"""

from __future__ import annotations

import ast
import base64
import json
import posixpath
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import File, Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {  # what is imported -> where it is found
    "catena": ROOT / "packages/catena/src",
    "catena_server": ROOT / "packages/catena-server/src",
    "catena_view": ROOT / "packages/catena-view/src",
    "catena_bench": ROOT / "packages/catena-bench/src",
    "catena_minilm": ROOT / "packages/catena-minilm/src",
    "langchain_catena": ROOT / "integrations/langchain-catena",
    "llama_index_catena": ROOT / "integrations/llama-index-catena",
}
TAKEN = {  # path in the repository -> path in the site
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "integrations/langchain-catena/README.md": "integrations/langchain.md",
    "integrations/llama-index-catena/README.md": "integrations/llama-index.md",
    **{f"cookbook/{path.name}": f"cookbook/{path.stem}.md" for path in sorted((ROOT / "cookbook").glob("*.ipynb"))},
}
LISTED = {
    "decisions/": "Decisions",
    "migration/": "Migration",
    "cookbook/": "Notebooks",
}  # folder of the site -> title
FOLDERS = {
    "docs/decisions": "decisions/",
    "docs/how-to": "how-to/",
    "docs/migration": "migration/",
    "cookbook": "cookbook/",
}
FENCED = re.compile(r"^(`{3,}).*?^\1`*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?!\w+:|#|<)([^)#\s]*)")
CODE = re.compile(r"(?<![`\[])`([A-Za-z_][\w.]*)(?:\(\))?`(?![`\]])")
NEEDS = re.compile(r"^(```\w+) \w+$", re.MULTILINE)  # a word behind a block's language, which is for our tests
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
INLINE = re.compile(r"(?<=<code>)[^<]*(?=</code>)")
BREAKS = re.compile(r"(::|[._ ])(?=\S)")
NARROWER = "search:\n  boost: 0.5\n"  # a page of the reference comes after a page in prose


def on_config(config: MkDocsConfig) -> None:
    """Write out the folders of the navigation, and the pages that it does not name."""
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    named = set(_leaves(config.nav))
    config.nav = _written_out(config.nav, sorted(page for page in pages - named if "/" not in page))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    for source, target in TAKEN.items():
        if source.endswith(".ipynb"):
            for made in _notebook(source, target, config):
                files.append(made)
        elif source.endswith(".md"):
            files.append(_file(config, target, (ROOT / source).read_text(encoding="utf-8")))
    for folder, title in LISTED.items():
        if _pages_in(folder) and f"{folder}index.md" not in files.src_uris:
            files.append(_file(config, f"{folder}index.md", _list_of(title, folder)))
    files.append(_file(config, "reference/index.md", _reference_index()))
    for module in _modules():
        title = module.rpartition(".")[2]
        text = f"---\ntitle: {title}\n{NARROWER}---\n\n::: {module}\n"
        files.append(_file(config, _page_of(module), text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links of the site, and names into links to the reference."""
    if page.file.generated_by and page.file.src_uri not in TAKEN.values():
        return markdown
    if page.parent is None:
        page.meta["hide"] = ["navigation"]  # it has no neighbours to list
    source = _source_of(page.file.src_uri)
    linked = page.file.src_uri != "changelog.md"

    def of_prose(prose: str) -> str:
        prose = LINK.sub(lambda found: site_link(found[1], source), prose)
        return CODE.sub(_reference_link, prose) if linked else prose

    return NEEDS.sub(r"\1", outside_fences(markdown, of_prose))


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let long names in tables break where their parts end, and nowhere else."""
    if page.file.src_uri.startswith("reference/"):
        return html
    return TABLE.sub(lambda table: INLINE.sub(lambda code: BREAKS.sub(r"\1<wbr>", code[0]), table[0]), html)


def site_link(target: str, source: str) -> str:
    """Return a link of a file of the repository as the page made of it has it.

    Args:
        target: the link, relative to its file; "" for one within the page.
        source: the path of that file, from the root of the repository.
    """
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if not target:
        return target
    if path in FOLDERS:
        path = f"{FOLDERS[path]}index.md"
    site = TAKEN.get(path) or path.removeprefix("docs/")
    return posixpath.relpath(site, posixpath.dirname(_target_of(source)) or ".")


def outside_fences(markdown: str, change: Callable[[str], str]) -> str:
    """Change all of a page but its fenced blocks."""
    parts, end = [], 0
    for fence in FENCED.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


def _source_of(page: str) -> str:
    return next((source for source, target in TAKEN.items() if target == page), f"docs/{page}")


def _target_of(source: str) -> str:
    return TAKEN.get(source) or source.removeprefix("docs/")


def _file(config: MkDocsConfig, target: str, content: str | bytes) -> File:
    from mkdocs.structure.files import File  # here, so that the tests need no mkdocs

    return File.generated(config, target, content=content)


def _leaves(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from _leaves(part)


def _written_out(nav: Any, others: list[str]) -> Any:
    if isinstance(nav, dict):
        return {title: _written_out(part, others) for title, part in nav.items()}
    if isinstance(nav, list):
        there = [part for part in nav if not _is_empty(part)]
        return [each for part in there for each in (others if part == "*" else [_written_out(part, others)])]
    if nav == "reference/":
        return ["reference/index.md", *_tree(list(PACKAGES))]
    return [f"{nav}index.md", *_pages_in(nav)] if nav.endswith("/") else nav


def _is_empty(part: Any) -> bool:
    return isinstance(part, dict) and any(folder in LISTED and not _pages_in(folder) for folder in _leaves(part))


def _pages_in(folder: str) -> list[str]:
    paths = sorted((ROOT / "docs" / folder).glob("*.md"))
    pages = [f"{folder}{path.name}" for path in paths if path.name != "index.md"]
    return [*pages, *(target for target in TAKEN.values() if target.startswith(folder) and target not in pages)]


def _title(page: str) -> str:
    source = ROOT / _source_of(page)
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".ipynb":
        text = "".join(json.loads(text)["cells"][0]["source"])
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    return heading[1] if heading else page


def _list_of(title: str, folder: str) -> str:
    lines = [f"- [{_title(page)}]({page.removeprefix(folder)})" for page in _pages_in(folder)]
    return "\n".join([f"# {title}", "", *lines, ""])


def _notebook(source: str, target: str, config: MkDocsConfig) -> Iterator[File]:
    """Yield the page of a notebook, and its pictures."""
    parts = []
    for number, cell in enumerate(json.loads((ROOT / source).read_text(encoding="utf-8"))["cells"]):
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for place, output in enumerate(cell.get("outputs", ())):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{target.removesuffix('.md')}-{number}-{place}.png"
                yield _file(config, name, base64.b64decode("".join(data["image/png"])))
                parts.append(f"![What the cell above draws]({posixpath.basename(name)})")
            else:
                printed = "".join(output.get("text") or data.get("text/plain", ())).rstrip("\n")
                parts.append(f"````{{ .text .output }}\n{printed}\n````")
    yield _file(config, target, "\n\n".join(parts) + "\n")


@cache
def _modules() -> tuple[str, ...]:
    found = []
    for package, root in PACKAGES.items():
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            public = [part for part in parts if part != "__init__"]
            if not any(part.startswith("_") for part in public):
                found.append(".".join(public))
    return tuple(found)


def _children(module: str) -> list[str]:
    return [each for each in _modules() if each.rpartition(".")[0] == module]


def _page_of(module: str) -> str:
    path = module.replace(".", "/")
    return f"reference/{path}/index.md" if _children(module) else f"reference/{path}.md"


def _tree(modules: list[str]) -> list[Any]:
    return [
        {
            module.rpartition(".")[2]: [_page_of(module), *_tree(_children(module))]
            if _children(module)
            else _page_of(module)
        }
        for module in modules
    ]


def _reference_index() -> str:
    lines = ["# API", "", "A page per module, made from its docstrings. Each says what it is for:", ""]
    for module in _modules():
        says = (ast.get_docstring(_syntax(module)) or "").partition("\n")[0]
        lines.append(
            f"{'    ' * module.count('.')}- [`{module}`]({_page_of(module).removeprefix('reference/')}): {says}"
        )
    return "\n".join([*lines, ""])


@cache
def _syntax(module: str) -> ast.Module:
    root = PACKAGES[module.partition(".")[0]]
    path = root.joinpath(*module.split("."))
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8"))


@cache
def _names() -> dict[str, str]:
    """Return what each public name, short or dotted, stands for in full; short ones only where they are unique."""
    full = {name for module in _modules() for name in [module, *_defined(module, _syntax(module).body)]}
    meant: dict[str, set[str]] = {}
    for name in full:
        parts = name.split(".")
        for start in range(len(parts)):
            meant.setdefault(".".join(parts[start:]), set()).add(name)
    unique = {short: next(iter(names)) for short, names in meant.items() if len(names) == 1}
    return {**unique, **{name.removeprefix("catena."): name for name in full}, **{name: name for name in full}}


def _defined(prefix: str, body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if not name.startswith("_"):
                yield f"{prefix}.{name}"
            case ast.ClassDef(name=name) if not name.startswith("_"):
                yield f"{prefix}.{name}"
                yield from _defined(f"{prefix}.{name}", node.body)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if not name.startswith("_"):
                    yield f"{prefix}.{name}"


def _reference_link(code: re.Match[str]) -> str:
    name = code[1]
    telling = "." in name or (name[0].isupper() and not name.isupper())
    return f"[{code[0]}][{_names()[name]}]" if telling and name in _names() else code[0]
