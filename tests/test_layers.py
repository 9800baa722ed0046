"""Imports point down only, and the pure packages do no I/O."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from harness.engines.kinds import ENGINES
from tests.layers import level, table

ROOT = Path(__file__).parent.parent

PURE = ["harness/protocol", "harness/planning", "harness/topology"]
IMPURE = {
    "asyncio", "confluent_kafka", "docker", "kafka", "multiprocessing", "os", "pyspark", "random",
    "redis", "requests", "shutil", "socket", "subprocess", "tempfile", "threading", "time",
}  # fmt: skip


@cache
def sources() -> Sequence[tuple[str, Path]]:
    found = []
    for top in ("harness", "workloads", "datasets", "experiments"):
        for path in sorted((ROOT / top).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found.append((module.removesuffix(".__init__"), path))
    return found


@cache
def run_time(path: Path) -> Sequence[ast.Import | ast.ImportFrom]:
    """Return all imports of a file except those for the type checker alone."""
    tree = ast.parse(path.read_text())
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped.update(child for item in node.body for child in ast.walk(item))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return [node for node in found if node not in skipped]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield modules imported at run time, with their lines."""
    for node in run_time(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        else:
            assert node.level == 0, f"{path}:{node.lineno}: use absolute imports"
            yield node.lineno, node.module or ""


@pytest.mark.parametrize(("module", "path"), [pytest.param(m, p, id=m) for m, p in sources()])
def test_imports_point_down(module: str, path: Path) -> None:
    own = level(module)
    if module in ("harness", "experiments", "workloads", "datasets"):
        return
    assert own is not None, f"{module} stands in no layer: add it to tests/layers.py"
    for line, imported in imports(path):
        other = level(imported)
        if other is not None:
            assert other >= own, f"{path}:{line}: {module} imports {imported}, which is above it"


INSIDES = {f"harness.engines.{type(kind).__module__.split('.')[2]}" for kind in ENGINES}
"""The engines' own packages."""
SIMULATOR = {
    "campaign", "checkers", "draw", "faults", "observing", "options", "picture", "run", "synthetic",
    "topologies", "world",
}  # fmt: skip
"""The modules of the simulator for its users; the rest hosts the machines."""


def of_an_engine(imported: str) -> bool:
    """Return True for a part of an engine, apart from its parameters, which others may set."""
    return ".".join(imported.split(".")[:3]) in INSIDES


def of_the_simulators_host(imported: str) -> bool:
    """Return True for a part of the simulator that is not for its users."""
    parts = imported.split(".")
    return parts[:2] == ["harness", "simulator"] and not SIMULATOR & {*parts[2:3]}


@pytest.mark.parametrize(
    ("top", "forbidden"),
    [
        ("harness/judging", of_an_engine),
        ("experiments", lambda name: of_an_engine(name) and not name.endswith(".parameters")),
        # A record's engine may be described by a file that is gone.
        ("harness/pages", lambda name: name == "harness.engines.kinds"),
        ("experiments", of_the_simulators_host),
        ("harness/cli", of_the_simulators_host),
    ],
)
def test_what_uses_engines_and_the_simulator_knows_no_inside(
    top: str, forbidden: Callable[[str], bool]
) -> None:
    for path in (ROOT / top).rglob("*.py"):
        for line, imported in imports(path):
            assert not forbidden(imported), f"{path}:{line} imports {imported}"


def used(path: Path, modules: Container[str]) -> Iterator[str]:
    """Yield the tree's modules that a module imports, on loading or later in a function."""
    for node in run_time(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            # "from package import module" uses the module, any other name is of what it is from.
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else str(node.module) for name in whole]
        yield from (name for name in names if name in modules)


def circle(uses: Mapping[str, Collection[str]]) -> Sequence[str]:
    """Return modules that import each other in a ring, the first again at the end; else nothing."""
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        ring: Sequence[str] = error.args[1]
        return ring[::-1]  # the sorter goes from what is imported to who imports it
    return ()


def test_no_modules_import_each_other_in_a_circle() -> None:
    """An import in a function counts too.

    It would only hide that neither module can be read, tested or replaced without the other."""
    modules = dict(sources())
    uses = {name: {*used(path, modules)} - {name} for name, path in modules.items()}
    found = circle(uses)
    assert not found, f"a circle of imports: {' imports '.join(found)}"


@pytest.mark.parametrize("package", sorted({m.rpartition(".")[0] for m, _ in sources()} - {""}))
def test_no_parts_of_a_package_import_each_other_in_a_circle(package: str) -> None:
    """A part is a module, or a package with all that is below it.

    They can be read in an order in which each comes after those that it imports."""
    modules = dict(sources())
    below = f"{package}."
    uses: dict[str, set[str]] = {}
    for name, path in modules.items():
        if name.startswith(below):
            part = name.removeprefix(below).split(".")[0]
            inside = (other for other in used(path, modules) if other.startswith(below))
            uses.setdefault(part, set()).update(o.removeprefix(below).split(".")[0] for o in inside)
    found = circle({part: others - {part} for part, others in uses.items()})
    assert not found, f"a circle in {package}: {' imports '.join(found)}"


@pytest.mark.parametrize("package", PURE)
def test_pure_packages_do_no_io(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        for line, imported in imports(path):
            assert imported.split(".")[0] not in IMPURE, f"{path}:{line}: {imported} is I/O"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("open", "print", "input"), f"{path}:{node.lineno}"


def test_the_table_of_packages_is_the_one_that_is_enforced() -> None:
    assert table() in (ROOT / "ARCHITECTURE.md").read_text(), (
        "renew it: .venv/bin/python -P -m tests.layers"
    )


LONGEST_FILE, LONGEST_FUNCTION = 500, 70


def test_no_file_and_no_function_is_too_long() -> None:
    for top in ("harness", "workloads", "datasets", "experiments", "tests", "benchmarks"):
        for path in (ROOT / top).rglob("*.py"):
            text = path.read_text()
            assert len(text.splitlines()) <= LONGEST_FILE, f"{path} is too long: cut it"
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    lines = (node.end_lineno or node.lineno) - node.lineno + 1
                    assert lines <= LONGEST_FUNCTION, f"{path}:{node.lineno}: {node.name} is long"
