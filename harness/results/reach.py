"""What a record depends on: the code that its experiment reaches, and the pins of the packages.

A module reaches what it imports anywhere in its text (not what only the type checker sees), and
every module of ours that it names in a string: ``"harness.load.child"`` for ``python -m``, or
``"workloads.wordcount:Lines"`` for a `Reference`. The lists that things are chosen from by name
are neither followed nor counted, or one more backend would discard every measurement; an
experiment says what it chooses from them (`Experiment.chooses`).

What counts is the code, not its text: comments, docstrings and layout may change.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
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
"""Lists by name. Adding an entry changes nothing for those who chose another one."""
NOT_MEASURING = (
    "harness.claims",
    "harness.cli",
    "harness.figures",
    "harness.nightly",
    "harness.report",
    "harness.results",
)
"""What tabulates, draws and keeps: it cannot change what was measured."""
LOCKS = (ROOT / "harness/environment/jars.lock.json", ROOT / "harness/environment/redis.lock")
"""What servers are made of; counts for whatever reaches a cluster."""
_STARTS_SERVERS = "harness.environment"
_NAME = re.compile(rf"(?:{'|'.join(TOPS)})(?:\.\w+)+(?=:\w+$|$)")


def code_fingerprint(roots: Iterable[str]) -> str:
    """A hash of all that these modules reach: code, the pins of the packages they use, and the
    servers' lock files where they start any."""
    modules = reached(roots)
    digest = sha256()
    for name in sorted(modules):
        digest.update(f"{name} {_module(name).code}\n".encode())
    for line in sorted(pins(modules)):
        digest.update(f"{line}\n".encode())
    if any(name.startswith(_STARTS_SERVERS) for name in modules):
        for lock in LOCKS:
            digest.update(lock.read_bytes())
    return digest.hexdigest()[:16]


def reached(roots: Iterable[str]) -> frozenset[str]:
    """Every module of ours that can run because one of ``roots`` does, themselves included."""
    found: set[str] = set()
    waiting = [name for root in roots for name in _with_packages(root)]
    while waiting:
        name = waiting.pop()
        if name in found or _is_left_out(name):
            continue
        found.add(name)
        for used in _module(name).uses:
            waiting.extend(_with_packages(used))
    return frozenset(found)


def modules_under(name: str) -> frozenset[str]:
    """The module, or all modules of the package, of that name."""
    path = _file(name)
    if path is None or path.name != "__init__.py":
        return frozenset([name]) if path else frozenset()
    found = [file.relative_to(ROOT).with_suffix("") for file in path.parent.rglob("*.py")]
    return frozenset(".".join(file.parts).removesuffix(".__init__") for file in found)


def pins(modules: Iterable[str]) -> frozenset[str]:
    """``name==version`` of every package these modules import, and of what those require, as far
    as the lock file pins them."""
    lock = ROOT / "requirements.lock"
    locked = _locked(lock, lock.stat().st_mtime_ns)
    tops = {top for name in modules for top in _module(name).foreign}
    waiting = [package for top in tops for package in _distributions().get(top, ())]
    found: dict[str, str] = {}
    while waiting:
        name = _canonical(waiting.pop())
        if name in found or name not in locked:
            continue
        found[name] = locked[name]
        waiting.extend(_required(name))
    return frozenset(f"{name}=={version}" for name, version in found.items())


class _Module:
    """What one file says, parsed once."""

    def __init__(self, path: Path) -> None:
        tree = ast.parse(path.read_bytes())
        nodes = list(_at_run_time(tree))
        self.uses: frozenset[str] = frozenset(_uses(nodes))
        self.foreign: frozenset[str] = frozenset(_foreign(nodes))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                node.body = [item for item in body if not _is_text(item)]  # type: ignore[attr-defined]
        self.code = sha256(ast.dump(tree).encode()).hexdigest()


def _module(name: str) -> _Module:
    path = _file(name)
    assert path is not None, name
    return _parsed(path, path.stat().st_mtime_ns)


@functools.cache
def _parsed(path: Path, _changed_ns: int) -> _Module:
    return _Module(path)


def _file(name: str) -> Path | None:
    """Of a module of ours; None if there is none of that name."""
    if name.split(".")[0] not in TOPS:
        return None
    place = ROOT.joinpath(*name.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None


def _with_packages(name: str) -> Iterator[str]:
    """The module and the packages around it, as far as there are such files: importing a module
    runs them all. Of ``package.module.Class`` the module."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        candidate = ".".join(parts[:length])
        if _file(candidate) is not None:
            yield candidate


def _is_left_out(name: str) -> bool:
    if name in CHOSEN_FROM:
        return True
    return any(name == top or name.startswith(f"{top}.") for top in NOT_MEASURING)


def _uses(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = _NAME.match(node.value)
            if named:
                yield named[0]


def _foreign(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def _at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under ``if TYPE_CHECKING``."""
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
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


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
