"""Every pattern of the packages, how the code runs it, and strings made to be hard for it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from types import ModuleType

PACKAGES = ("catena", "catena_bench", "langchain_catena", "llama_index_catena")
SCANS = frozenset({"search", "finditer", "findall", "sub", "subn", "split", "scanner"})
_METHODS = SCANS | {"match", "fullmatch"}
_ANY = frozenset({"finditer", "fullmatch"})  # where the code does not show how it runs a pattern
_HOLE = "ab"  # stands for what only a call knows


@dataclass(slots=True)
class Found:
    """A pattern, where it was met first, and the methods that the code calls on it."""

    pattern: re.Pattern[str] | re.Pattern[bytes]
    place: str
    methods: set[str] = field(default_factory=set)

    def runs(self) -> dict[str, Callable[[str], object]]:
        """Return the hardest honest uses by name: over the whole of a string, at its start, all of it."""
        text = isinstance(self.pattern.pattern, str)
        methods = self.methods or _ANY
        uses: dict[str, Callable[..., object]] = {}
        if methods & SCANS:
            uses["finditer"] = lambda string: sum(1 for _ in self.pattern.finditer(string))
        for name in {"match", "fullmatch"} & methods:
            uses[name] = getattr(self.pattern, name)
        return uses if text else {name: lambda s, use=use: use(s.encode("utf-8")) for name, use in uses.items()}


def modules(packages: Iterable[str] = PACKAGES) -> Iterator[ModuleType]:
    """Import every module of the packages; yield those that can be imported here."""
    for name in packages:
        root = importlib.import_module(name)
        yield root
        for each in pkgutil.walk_packages(root.__path__, f"{name}."):
            if each.name.endswith("__main__"):
                continue
            try:
                yield importlib.import_module(each.name)
            except ImportError:  # of an extra that is not installed
                continue


def patterns() -> list[Found]:
    """Return every pattern that the packages compile, once: of modules, classes, defaults, containers and calls."""
    found: dict[tuple[object, int], Found] = {}

    def add(pattern: object, place: str, method: str | None = None) -> None:
        assert isinstance(pattern, re.Pattern)
        one = found.setdefault((pattern.pattern, pattern.flags), Found(pattern, place))
        if method:
            one.methods.add(method)

    for module in list(modules()):
        for name, value in vars(module).items():
            for pattern in _held(value, module.__name__):
                add(pattern, f"{module.__name__}.{name}")
        try:
            tree = ast.parse(inspect.getsource(module))
        except OSError:
            continue
        for pattern, place, method in _written(tree, module):
            add(pattern, place, method)
    return sorted(found.values(), key=lambda one: one.place)


def _held(value: object, module: str, depth: int = 4) -> Iterator[re.Pattern[str]]:
    """Yield the patterns in a value of a module: itself, or in its containers, classes, defaults and objects."""
    if isinstance(value, re.Pattern):
        yield value
        return
    inside: Iterable[object] = ()
    if isinstance(value, dict):
        inside = (*value.keys(), *value.values())
    elif isinstance(value, tuple | list | set | frozenset):
        inside = value
    elif getattr(value, "__module__", None) == module:
        defaults = (getattr(value, "__defaults__", None), getattr(value, "__kwdefaults__", None))
        inside = defaults if inspect.isfunction(value) else getattr(value, "__dict__", {}).values()
    for each in inside if depth else ():
        yield from _held(each, module, depth - 1)


def _written(tree: ast.Module, module: ModuleType) -> Iterator[tuple[re.Pattern[str], str, str | None]]:
    """Yield the patterns that calls state, and the methods called on those that names hold."""
    names = vars(module)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        if isinstance(node.value, ast.Name) and names.get(node.value.id) is re:
            continue
        if node.attr in _METHODS and isinstance(holder := _value(node.value, names), re.Pattern):
            yield holder, module.__name__, node.attr
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        where, method = node.func.value, node.func.attr
        if not (isinstance(where, ast.Name) and names.get(where.id) is re and method in {*_METHODS, "compile"}):
            continue
        stated = _value(node.args[0], names)
        if not isinstance(stated, str | bytes):
            continue
        place = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(method, 2)
        flags = [each.value for each in node.keywords if each.arg == "flags"] + node.args[place : place + 1]
        value = _value(flags[0], names) if flags else 0
        pattern = re.compile(stated, value if isinstance(value, int) else 0)
        yield pattern, f"{module.__name__}:{node.lineno}", None if method == "compile" else method


def _value(node: ast.expr, names: dict[str, object]) -> object:
    """Return what an expression is where the module alone tells; holes of a text are filled in."""
    if isinstance(node, ast.JoinedStr):
        held = [each.value if isinstance(each, ast.FormattedValue) else each for each in node.values]
        parts = [_value(each, names) for each in held]
        return "".join(str(each) if isinstance(each, str | int) else _HOLE for each in parts)
    if not isinstance(node, ast.Name | ast.Attribute | ast.Constant | ast.BinOp):
        return None
    try:
        return eval(compile(ast.Expression(node), "<pattern>", "eval"), dict(names))  # our own source
    except Exception:
        return None


# strings ------------------------------------------------------------------------------------------------------------

# what files, replies and questions were seen to flood readers with: one piece, repeated
_FLOODS = """
a|1|A|-|_|*|#|=|`|~|:|.|,|(|)|[|]|{|<|>|&|\\|%|$|/|'|"|…|“|–|一|第一|ア|ก|é|a\u0301|\u0301
a\u200d|\u200d|\ufeff|\u3000|a |1 |1.|1,|- |# |. |...|[1]|![|![a](|[a](|{"a":|a-|a_|a.b|a/
<a |<a>|<h1>a</h1>|<!--|<!-- c -->|<br |<think>|\\begin{a}|% a|$a$ |HX210 |1.5 mm |http://a.|a@b.
"""
FLOODS = (
    *(" ", "\t", "\n", "\r\n", " \n", "|", "| a ", "|-", "#\n", "# x\n", "a\n=\n", "```\n"),
    *("<!-- page 1 -->\n", "% a\n"),
    *(piece for line in _FLOODS.strip().splitlines() for piece in line.split("|")),
)
_SIGNS = " \t\n\r\u3000aAxZ10.,-–_#*|`~:;()[]{}<>\"'“”/\\%&$@!?+=^éß\u0301\u200d一第ア…½≤°"


def hostile(found: Found, *, own: int | None, floods: int | None) -> list[tuple[str, str, str]]:
    """Return strings as (beginning, repeated piece, end): those made from the pattern, then the floods.

    For each repetition in the pattern: what leads up to it, then its body again and again, then what breaks the
    match. And each sign that the pattern tells apart from others, alone, behind such a beginning, and in pairs.

    Args:
        found: the pattern.
        own: how many of its own strings to take, first those of its repetitions; None for all.
        floods: how many floods; None for all.
    """
    pumped, varied = _own(found)
    first = _spread(pumped, own and own // 2)
    more = _spread(varied, own and own - min(len(pumped), own // 2))
    return list(dict.fromkeys((*first, *more, *_spread([("", piece, "\x00") for piece in FLOODS], floods))))


def _spread(items: Sequence[tuple[str, str, str]], most: int | None) -> Sequence[tuple[str, str, str]]:
    return items if most is None or len(items) <= most else [items[len(items) * i // most] for i in range(most)]


def _own(found: Found) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    pattern = found.pattern
    if isinstance(pattern.pattern, bytes):
        pattern = re.compile(pattern.pattern.decode("latin-1"), pattern.flags)
    tree = _parser.parse(pattern.pattern, pattern.flags)
    maker = _Maker(tree, pattern.flags & (re.IGNORECASE | re.DOTALL | re.MULTILINE))
    pumps = list(dict.fromkeys((before, body) for before, body in maker.pumps(tree.data, "") if body))
    signs = maker.signs()
    pumped = [(before, body, end) for end in ("\x00", "") for before, body in pumps]
    varied = [("", before + body + gap, "\x00") for gap in ("", "\n") for before, body in pumps if before or gap]
    for before in dict.fromkeys(before for before, _ in pumps):
        varied += [(before, sign, "\x00") for sign in signs]
        varied += [("", before + sign, "\x00") for sign in signs if before]
    return pumped, varied + [("", first + second, "\x00") for first, second in permutations(signs, 2)]


class _Maker:
    """Makes strings from the syntax tree of one pattern."""

    def __init__(self, tree: Sequence[object], flags: int) -> None:
        self.state = tree.state  # type: ignore[attr-defined]
        self.flags = flags
        self.classes: dict[str, re.Pattern[str]] = {}
        self.sample(tree)

    def one(self, item: tuple[object, object]) -> str:
        """Return a character that a literal or a class takes."""
        key = repr(item)
        if key not in self.classes:
            self.classes[key] = _compiler.compile(_parser.SubPattern(self.state, [item]), self.flags)
        takes = self.classes[key]
        own = [chr(number) for number in map(int, re.findall(r"(?<=LITERAL, )\d+|(?<=\()\d+(?=, \d+\)\))", key))]
        return next((sign for sign in (*own, *_SIGNS) if takes.fullmatch(sign)), "")

    def signs(self) -> list[str]:
        """Return one character for each set of classes that it belongs to: what the pattern can tell apart."""
        literals = [chr(int(each)) for key in self.classes for each in re.findall(r"LITERAL, (\d+)", key)]
        kinds: dict[tuple[bool, ...], str] = {}
        for sign in dict.fromkeys((*literals, *_SIGNS)):
            kinds.setdefault(tuple(bool(takes.fullmatch(sign)) for takes in self.classes.values()), sign)
        return list(kinds.values())

    def sample(self, tree: Iterable[tuple[object, object]]) -> str:
        """Return a string that the sequence takes, as far as that is easily seen."""
        return "".join(self._sample(op, value) for op, value in tree)

    def _sample(self, op: object, value: object) -> str:
        c = _constants
        if op in (c.LITERAL, c.NOT_LITERAL, c.IN, c.ANY):
            return self.one((op, value))
        if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            return self.sample(value[2]) * max(1, value[0])  # type: ignore[index]
        samples = [self.sample(each) for each in _inside(op, value)]
        seen = op not in (c.ASSERT, c.ASSERT_NOT) or (op is c.ASSERT and value[0] < 0)  # type: ignore[index]
        return samples[0] if samples and seen else ""

    def pumps(self, tree: Iterable[tuple[object, object]], before: str) -> Iterator[tuple[str, str]]:
        """Yield (what leads up to it, its body) for each repetition without a small bound."""
        c = _constants
        for op, value in tree:
            if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
                least, most, body = value  # type: ignore[misc]
                if most > 50:
                    yield before, self.sample(body)
                yield from self.pumps(body, before)
                before += self.sample(body) * least
                continue
            for inside in _inside(op, value):
                yield from self.pumps(inside, before)
            before += self._sample(op, value)


def _inside(op: object, value: object) -> Sequence[Iterable[tuple[object, object]]]:
    c = _constants
    if op is c.BRANCH:
        return value[1]  # type: ignore[index, no-any-return]
    if op is c.ATOMIC_GROUP:
        return [value]  # type: ignore[list-item]
    if op is c.SUBPATTERN:
        return [value[-1]]  # type: ignore[index]
    return [value[1]] if op in (c.ASSERT, c.ASSERT_NOT) else []  # type: ignore[index]
