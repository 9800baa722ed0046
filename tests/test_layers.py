"""Imports point down only, and the pure packages do no I/O."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.layers import level, table

ROOT = Path(__file__).parent.parent

PURE = ["harness/protocol", "harness/planning", "harness/topology"]
IMPURE = {
    "asyncio", "confluent_kafka", "docker", "kafka", "multiprocessing", "os", "pyspark", "random",
    "redis", "requests", "shutil", "socket", "subprocess", "tempfile", "threading", "time",
}  # fmt: skip


def sources() -> Iterator[tuple[str, Path]]:
    for top in ("harness", "workloads", "datasets", "experiments"):
        for path in sorted((ROOT / top).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield module.removesuffix(".__init__"), path


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Modules imported at run time; what only the type checker sees points nowhere."""
    tree = ast.parse(path.read_text())
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped.update(child for item in node.body for child in ast.walk(item))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
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


NEUTRAL = ["run", "passes", "outcome", "contributions", "table_sink", "deliveries", "base"]
INSIDES = ("structured", "tasks", "simulated")


@pytest.mark.parametrize("module", NEUTRAL)
def test_what_measures_knows_no_engine(module: str) -> None:
    for line, imported in imports(ROOT / "harness" / "engines" / f"{module}.py"):
        inside = imported.removeprefix("harness.engines.").split(".")[0]
        assert inside not in INSIDES, f"{module}.py:{line} imports {imported}"


def test_experiments_on_live_engines_know_the_contract_alone() -> None:
    for path in (ROOT / "experiments").rglob("*.py"):
        for line, imported in imports(path):
            for inside in ("structured", "tasks"):
                assert not imported.startswith(f"harness.engines.{inside}"), f"{path}:{line}"


SIMULATOR = {
    "campaign", "checkers", "draw", "observing", "options", "run", "spread", "synthetic",
    "topologies", "world",
}  # fmt: skip
"""What the simulator shows to those who run it; the rest hosts the machines."""


def test_who_runs_the_simulator_knows_no_host_of_it() -> None:
    for top in ("experiments", "harness/cli"):
        for path in (ROOT / top).rglob("*.py"):
            for line, imported in imports(path):
                if imported.startswith("harness.engines.simulated."):
                    part = imported.split(".")[3]
                    assert part in SIMULATOR | {"picture"}, f"{path}:{line} imports {imported}"


def imported_on_loading(path: Path) -> Iterator[str]:
    """What runs when the module is loaded: not what a function imports when it is called."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_modules_load_each_other_in_a_circle() -> None:
    modules = dict(sources())
    uses = {
        name: {used for used in imported_on_loading(path) if used in modules and used != name}
        for name, path in modules.items()
    }
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


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


def test_no_file_eats_everything() -> None:
    for module, path in sources():
        assert len(path.read_text().splitlines()) <= 600, f"{module} is too long: cut it"
