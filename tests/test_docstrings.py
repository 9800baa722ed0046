"""Every public function has a docstring, its own or that of the method it overrides."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from harness.results.provenance import ROOT

TREES = ("harness", "workloads", "datasets")
PLAIN = frozenset({"main", "to_json", "from_json", "close"})
"""Names that need no docstring: a program's entry, a value as JSON and back, an end."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(body: list[ast.stmt]) -> Iterator[Function]:
    """Yield the public functions of a module's or a class's body."""
    for node in body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node


def name_of(base: ast.expr) -> str:
    """Return a base class's own name, without its module and its parameters."""
    if isinstance(base, ast.Subscript):
        return name_of(base.value)
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


class Tree:
    """Every module of the trees, and every class by its name."""

    def __init__(self) -> None:
        self.modules = {
            path: ast.parse(path.read_text())
            for tree in TREES
            for path in sorted((ROOT / tree).rglob("*.py"))
        }
        self.classes: dict[str, list[ast.ClassDef]] = {}
        for module in self.modules.values():
            for node in ast.walk(module):
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, []).append(node)
        self.contracts = {
            function.name
            for nodes in self.classes.values()
            for node in nodes
            if any(name_of(base) in ("Protocol", "ABC") for base in node.bases)
            for function in functions(node.body)
            if ast.get_docstring(function)
        }
        """Methods that a contract describes, for classes that fulfil it without naming it."""

    def silent(self) -> Iterator[str]:
        """Yield the place and name of each public function without a docstring."""
        for path, module in self.modules.items():
            where = path.relative_to(ROOT)
            for function in functions(module.body):
                if not ast.get_docstring(function) and function.name not in PLAIN:
                    yield f"{where}:{function.lineno}: {function.name}"
            for node in ast.walk(module):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    yield from self._silent_methods(where, node)

    def _silent_methods(self, where: Path, node: ast.ClassDef) -> Iterator[str]:
        inherited = set(self._inherited(node))
        for function in functions(node.body):
            described = ast.get_docstring(function) or function.name in self.contracts
            if not described and "*" not in inherited and function.name not in inherited | PLAIN:
                yield f"{where}:{function.lineno}: {node.name}.{function.name}"

    def _inherited(self, node: ast.ClassDef) -> Iterator[str]:
        """Yield the methods of its bases; "*" for a base that another package describes."""
        for base in node.bases:
            known = [each for each in self.classes.get(name_of(base), ()) if each is not node]
            if not known and name_of(base) == "Group":
                yield "*"
            for parent in known:
                yield from (function.name for function in functions(parent.body))
                yield from self._inherited(parent)


def test_every_public_function_has_a_docstring() -> None:
    silent = list(Tree().silent())
    assert not silent, "without a docstring:\n" + "\n".join(silent)
