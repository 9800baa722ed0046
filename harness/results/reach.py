"""What a record depends on: all code that its measurement reaches, its data files, and the pins.

A module reaches what it imports anywhere in its text (not what only the type checker sees), and
every module of ours that it names in a string: ``"harness.load.child"`` for ``python -m``, or
``"workloads.wordcount:Lines"`` for a `Reference`. Lists from which things are chosen by name are
neither followed nor counted, because one more backend would discard every measurement; a
measurement names its choices (`Measurement.chooses`). Of a table, such as that of the planners,
each row counts for itself: a row is reached if its name is a string of the code that is reached, or
of the grid. So one more planner discards nothing.

Modules under ``experiments`` and ``harness.running`` are followed definition by definition, the
former from the function that `Measurement.run` names. A module's tables, drawing and claims are in
the same file, and no record depends on them.

A module also reaches the files and folders next to it, or from the root, that it names in a string
(`_data_files`): locks of jars and wheels, classes of Java.

The code counts, not its text: comments, docstrings and layout may change."""

from __future__ import annotations

import ast
import functools
import re
import symtable
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from harness.results.provenance import ROOT

TOPS = ("harness", "workloads", "datasets", "experiments", "tests")
CHOSEN_FROM = frozenset(
    {
        "harness.running.discovery",
        "harness.cluster.backends",
        "harness.engines.kinds",
        "workloads.entries",
    }
)
"""Lists by name. A new entry changes nothing for a run that chose another one."""
TABLES = {"harness.planning.planners": "ENTRIES", "harness.protocol.schemes": "SCHEMES"}
"""Modules with a table whose rows are looked up by name, and the table: a mapping, or a sequence of
calls with ``name=``. Code that measures looks rows up and never goes through all of them."""
PARTED = ("experiments.", "harness.running.")
"""Packages whose modules are followed definition by definition."""
NOT_MEASURING = (
    "harness.claims",
    "harness.cli",
    "harness.experiment",
    "harness.figures",
    "harness.measurement",
    "harness.nightly",
    "harness.pages",
    "harness.results",
)
"""Modules that describe, tabulate, draw and keep: they cannot change what was measured."""
MEASUREMENT, LIVE_MEASUREMENT = "MEASUREMENT", "LIVE_MEASUREMENT"
"""The names of the measuring half in an experiment's module, and of its live counterpart's."""
_NAME = re.compile(rf"(?:{'|'.join(TOPS)})(?:\.\w+)+(?=:\w+$|$)")
_distributions = functools.cache(packages_distributions)
_NO_WORD = re.compile(r"[^\w-]+")
_FILE_NAME = re.compile(r"[\w$-]+([./][\w$-]+)*")


def code_fingerprint(roots: Iterable[str], names: Iterable[str] = ()) -> str:
    """Return a hash of all code that ``roots`` reach, with its data files.

    It includes the pins of the packages in use. A root is a module, or ``module:name`` for a
    definition of a module that is followed so. ``names`` are rows of `TABLES` that are chosen."""
    found = _follow(roots, names)
    digest = sha256()
    for name, code in sorted(found.code.items()):
        digest.update(f"{name} {code}\n".encode())
    for path in sorted(found.files):
        digest.update(f"{path} {sha256((ROOT / path).read_bytes()).hexdigest()}\n".encode())
    for line in sorted(_pins(found.foreign)):
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()[:16]


def reached(roots: Iterable[str], names: Iterable[str] = ()) -> frozenset[str]:
    """Return every module of ours that can run because of ``roots``.

    Of a module that is followed so these are definitions, as ``module:name``; of a table the rows
    that are chosen."""
    return frozenset(_follow(roots, names).code)


def reached_files(roots: Iterable[str], names: Iterable[str] = ()) -> frozenset[str]:
    """Return the path in the tree of every file of `code_fingerprint`'s."""
    found = _follow(roots, names)
    modules = [_file(name.partition(":")[0]) for name in found.code]
    return frozenset(found.files).union(
        path.relative_to(ROOT).as_posix() for path in modules if path is not None
    )


class _Reached:
    """The parts found from the roots."""

    def __init__(self) -> None:
        self.code: dict[str, str] = {}
        """A hash of the code by module, or by ``module:name``."""
        self.files: set[str] = set()
        """Data files, by their path in the tree."""
        self.foreign: set[str] = set()
        """Top-level packages of others."""


def _follow(roots: Iterable[str], names: Iterable[str] = ()) -> _Reached:
    found, seen = _Reached(), set(roots)
    chosen = {word for name in names for text in name.split() for word in _words_in(text)}
    waiting = [name for root in roots for name in _with_packages(root)]
    while waiting or (waiting := _rows_of(found.code, chosen)):
        name = waiting.pop()
        if name in found.code or _is_left_out(name.partition(":")[0]):
            continue
        part = _part(name)
        if part is None:
            continue
        found.code[name] = part.code
        found.foreign |= part.foreign
        found.files |= _data_files(name.partition(":")[0], part.texts)
        chosen |= part.names
        for used in part.uses - seen:
            waiting.extend(_with_packages(used))
        seen |= part.uses
    return found


def _rows_of(reached: Collection[str], chosen: Container[str]) -> list[str]:
    """Return the rows that are chosen, of tables that are reached, and not reached themselves."""
    rows = [row for module in TABLES if module in reached for row in _rows(module) if row]
    names = {row: row.partition("[")[2].removesuffix("]").lower() for row in rows}
    return [row for row, name in names.items() if row not in reached and name in chosen]


def _data_files(module: str, texts: frozenset[str]) -> set[str]:
    """Return the files that are no modules and have one of these names, or lie in such a folder.

    A name is looked for next to the module. From the root only a path with a folder, or a lock,
    counts: any word could be the name of a folder there."""
    file = _file(module)
    assert file is not None, module
    home = file.parent
    places = [home / name for name in texts & _data_in(home, home.stat().st_mtime_ns)]
    inside = [path for place in places for path in (place, *place.rglob("*"))]
    inside += [ROOT / text for text in texts if "/" in text or text.endswith(".lock")]
    return {
        path.relative_to(ROOT).as_posix()
        for path in inside
        if path.is_file() and (path.suffix != ".py" or path.relative_to(ROOT).parts[0] not in TOPS)
    }


@functools.cache
def _data_in(directory: Path, _changed_ns: int) -> frozenset[str]:
    """Return the names of files and folders in a package without modules and their byte code."""
    return frozenset(
        place.name
        for place in directory.iterdir()
        if place.suffix not in (".py", ".pyc")
        and place.name != "__pycache__"
        and not any(place.rglob("*.py"))
    )


def modules_under(name: str) -> frozenset[str]:
    """Return the names of the module, or of all modules of the package."""
    path = _file(name)
    if path is None or path.name != "__init__.py":
        return frozenset([name]) if path else frozenset()
    found = [file.relative_to(ROOT).with_suffix("") for file in path.parent.rglob("*.py")]
    return frozenset(".".join(file.parts).removesuffix(".__init__") for file in found)


def _pins(tops: Iterable[str]) -> frozenset[str]:
    """Return ``name==version`` for these packages and what they require, if the lock pins them."""
    lock = ROOT / "requirements.lock"
    locked = _locked(lock, lock.stat().st_mtime_ns)
    waiting = [package for top in tops for package in _distributions().get(top, ())]
    found: dict[str, str] = {}
    while waiting:
        name = _canonical(waiting.pop())
        if name in found or name not in locked:
            continue
        found[name] = locked[name]
        waiting.extend(_required(name))
    return frozenset(f"{name}=={version}" for name, version in found.items())


@dataclass(frozen=True, slots=True)
class _Part:
    """A module, or one definition of it."""

    code: str
    """A hash of its code."""
    uses: frozenset[str]
    """Modules of ours, and definitions as ``module:name``."""
    foreign: frozenset[str]
    """Packages of others."""
    texts: frozenset[str]
    """Strings that may name a file."""
    names: frozenset[str]
    """Strings without spaces, and the words in them, in small letters: names of rows perhaps."""


def _part(name: str) -> _Part | None:
    """Return the part with this name; None if the module has no such definition."""
    module, _, definition = name.partition(":")
    path = _file(module)
    assert path is not None, name
    if module in TABLES:
        return _rows(module)[name if definition else ""]
    if definition or _is_parted(module):
        return _parted(path, module, path.stat().st_mtime_ns).get(definition)
    return _parsed(path, path.stat().st_mtime_ns)


@functools.cache
def _parsed(path: Path, _changed_ns: int) -> _Part:
    """Return a whole module as one part."""
    return _whole(ast.parse(path.read_bytes()))


def _whole(tree: ast.AST) -> _Part:
    nodes = list(_at_run_time(tree))
    return _made([tree], nodes, _uses(nodes), _foreign(nodes))


def _made(
    body: Iterable[ast.AST], nodes: Iterable[ast.AST], uses: Iterable[str], foreign: Iterable[str]
) -> _Part:
    texts = frozenset(_strings(nodes))
    return _Part(
        code=hash_of(body),
        uses=frozenset(uses),
        foreign=frozenset(foreign),
        texts=frozenset(text for text in texts if len(text) < 100 and _FILE_NAME.fullmatch(text)),
        names=frozenset(word for text in texts for word in _words_in(text)),
    )


def _rows(module: str) -> Mapping[str, _Part]:
    """Return the rows of a module's table as ``module:TABLE[name]``; ``""`` is all else in it."""
    path = _file(module)
    assert path is not None, module
    return _tabled(path, module, path.stat().st_mtime_ns)


@functools.cache
def _tabled(path: Path, module: str, _changed_ns: int) -> Mapping[str, _Part]:
    tree = ast.parse(path.read_bytes())
    (value,) = (
        each.value
        for each in tree.body
        if isinstance(each, ast.Assign | ast.AnnAssign) and TABLES[module] in _bound(each)
    )
    assert value is not None, f"{module} gives its table no value"
    table = next(node for node in ast.walk(value) if isinstance(node, ast.Dict | ast.Tuple))
    rows: dict[object, ast.AST] = {}
    if isinstance(table, ast.Dict):
        rows = {ast.literal_eval(k): v for k, v in zip(table.keys, table.values, strict=True) if k}
        table.keys, table.values = [], []
    else:
        for row in table.elts:
            assert isinstance(row, ast.Call), f"a row of {module} is not a call"
            (name,) = (each.value for each in row.keywords if each.arg == "name")
            rows[ast.literal_eval(name)] = row
        table.elts = []
    parts = {f"{module}:{TABLES[module]}[{name}]": _whole(row) for name, row in rows.items()}
    return {**parts, "": _whole(tree)}


@functools.cache
def _parted(path: Path, module: str, _changed_ns: int) -> Mapping[str, _Part]:
    """Return the definitions of a module by name.

    The part ``""`` has the statements that define nothing; they run in any case. `MEASUREMENT` is
    the expression after ``run=`` in its call."""
    scope = _Scope(module)
    bodies: dict[str, list[ast.AST]] = {"": []}
    for statement in ast.parse(path.read_bytes()).body:
        if _is_text(statement):
            continue
        if isinstance(statement, ast.Import | ast.ImportFrom):
            scope.add(statement)
            continue
        if isinstance(statement, ast.If) and _is_for_the_type_checker(statement.test):
            continue
        for name in _bound(statement) or [""]:
            bodies.setdefault(name, []).append(_measuring(name, statement))
    scope.defined = frozenset(bodies)
    return {name: scope.part(body) for name, body in bodies.items()}


def _global_names(statement: ast.AST) -> Iterator[str]:
    """Yield the module's own and imported names that a statement uses."""
    tables = [symtable.symtable(ast.unparse(statement), "definition", "exec")]
    while tables:
        table = tables.pop()
        tables.extend(table.get_children())
        for symbol in table.get_symbols():
            here = symbol.is_global() or symbol.is_imported() or table.get_type() == "module"
            if here and (symbol.is_referenced() or symbol.is_imported()):
                yield symbol.get_name()


def _measuring(name: str, statement: ast.stmt) -> ast.AST:
    halves = (MEASUREMENT, LIVE_MEASUREMENT)
    if name in halves and isinstance(statement, ast.Assign | ast.AnnAssign):
        call = statement.value
        assert isinstance(call, ast.Call), f"{name} is not a call"
        return next(word.value for word in call.keywords if word.arg == "run")
    return statement


def _bound(statement: ast.stmt) -> list[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        stores = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
        return [node.id for node in stores if isinstance(node.ctx, ast.Store)]
    return []


class _Scope:
    """The names of one module, which resolve those in a definition."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._imports: dict[str, tuple[str, ...]] = {}
        """Possible meanings of each imported name: a module, a name in one, a package of others."""
        self.defined: frozenset[str] = frozenset()

    def add(self, statement: ast.Import | ast.ImportFrom) -> None:
        """Add the names that an import binds."""
        for alias in statement.names:
            if isinstance(statement, ast.ImportFrom):
                source = statement.module or ""
                self._imports[alias.asname or alias.name] = (source, f"{source}.{alias.name}")
            else:
                self._imports[alias.asname or alias.name.split(".")[0]] = (alias.name,)

    def part(self, body: list[ast.AST]) -> _Part:
        """Return the dependencies of these statements."""
        nodes = [node for statement in body for node in _at_run_time(statement)]
        uses, foreign = set(_uses(nodes)), set(_foreign(nodes))
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.add(node)
        names = {name for statement in body for name in _global_names(statement)}
        for name in names:
            self._resolve(name, "", uses, foreign)
        for node in nodes:
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in names:
                    self._resolve(name, attribute, uses, foreign)
        return _made(body, nodes, uses, foreign)

    def _resolve(self, name: str, attribute: str, uses: set[str], foreign: set[str]) -> None:
        if name in self.defined:
            uses.add(f"{self._module}:{name}")
        for target in self._imports.get(name, ()):
            if _file(target) is None:
                owner, _, last = target.rpartition(".")
                if _is_parted(owner) and _file(owner) is not None:
                    uses.add(f"{owner}:{last}")
                elif target.split(".")[0] not in TOPS:
                    foreign.add(target.split(".")[0])
            elif not _is_parted(target):
                uses.add(target)
            elif attribute:
                uses.add(f"{target}:{attribute}")


def _file(name: str) -> Path | None:
    """Return the file of a module of ours; None if there is none."""
    if name.split(".")[0] not in TOPS:
        return None
    place = ROOT.joinpath(*name.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None


def _with_packages(name: str) -> Iterator[str]:
    """Yield a part, its module, and the packages around that: an import runs them all.

    Of ``package.module.Class`` it yields the module."""
    parts = name.partition(":")[0].split(".")
    for length in range(1, len(parts) + 1):
        candidate = ".".join(parts[:length])
        if _file(candidate) is not None:
            yield candidate
    if ":" in name and candidate == ".".join(parts) and _file(candidate) is not None:
        yield name


def _is_parted(module: str) -> bool:
    return module.startswith(PARTED)


def hash_of(nodes: Iterable[ast.AST]) -> str:
    """Return a hash of code without its docstrings, which it removes from the nodes."""
    digest = sha256()
    for tree in nodes:
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                node.body = [item for item in body if not _is_text(item)]  # type: ignore[attr-defined]
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()


def _is_left_out(name: str) -> bool:
    if name in CHOSEN_FROM:
        return True
    return any(name == top or name.startswith(f"{top}.") for top in NOT_MEASURING)


def _uses(nodes: Collection[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
    yield from (named[0] for text in _strings(nodes) if (named := _NAME.match(text)))


def _strings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _words_in(text: str) -> Iterator[str]:
    """Yield a text without spaces and its parts, in small letters: ``RPPG+DRA`` names two rows."""
    if not any(map(str.isspace, text)):
        for word in (text, *_NO_WORD.split(text), *text.split("-")):
            yield word.lower()


def _foreign(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def _at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes except those under ``if TYPE_CHECKING``."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and _is_for_the_type_checker(node.test):
            waiting.extend(node.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _is_for_the_type_checker(test: ast.expr) -> bool:
    return getattr(test, "id", getattr(test, "attr", None)) == "TYPE_CHECKING"


def _is_text(node: object) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@functools.cache
def _locked(path: Path, _changed_ns: int) -> Mapping[str, str]:
    pinned = re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE)
    return {_canonical(name): version for name, version in pinned}


@functools.cache
def _required(name: str) -> frozenset[str]:
    try:
        wanted = requires(name) or []
    except PackageNotFoundError:
        return frozenset()
    always = [text for text in wanted if "extra ==" not in text]
    return frozenset(m[0] for text in always if (m := re.match(r"[\w.-]+", text)))


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
