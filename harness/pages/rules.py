"""The rule of a claim: its place in the source, and what it needs.

A rule that is a value (`harness.claims.rules.Comparison`) says it; of a function the comparisons
are read from its source. So an appendix cannot disagree with the code.

Tests: ``tests/pages/test_rules.py``."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.claims import Claim
from harness.results.provenance import ROOT

_FORMS = ROOT / "harness" / "claims"
"""The forms of a rule, which say themselves what they need."""
_COMPARING = frozenset({"at_most", "at_least", "near", "worst_of"})
"""Functions of the experiments that compare, beside operators."""
_DECIDING = frozenset({"found", "every", "all_of"})
_TELLING = frozenset({"is_monotonic_increasing", "is_monotonic_decreasing", "equals", "issubset"})
_DEPTH = 3
"""Levels of called functions among which comparisons are looked for."""


def places(claim: Claim) -> list[str]:
    """Return the place of a claim, as ``path:line`` from the root."""
    file, line = claim.place
    return [f"{Path(file).relative_to(ROOT).as_posix()}:{line}"] if file else []


def needs(claim: Claim) -> str:
    """Return what a rule compares with what: as its form says it, or else its function's source.

    A function that compares nothing gives what it decides by. Empty if neither is in sight."""
    if claim.needs:
        return claim.needs
    functions = list(_functions(claim.decide))
    words = [each for function in functions for each in _compared(function, _DEPTH)]
    words = words or [each for function in functions for each in _decided(function)]
    return "; ".join(dict.fromkeys(words))


def _functions(function: Any) -> Iterator[Any]:
    """Yield a rule's function and those in its closure and default values, the best one first."""
    function = _plain(function)
    code = getattr(function, "__code__", None)
    if code is None or not Path(code.co_filename).is_relative_to(ROOT):
        return
    if Path(code.co_filename).is_relative_to(_FORMS):
        return
    values = [*_closure(function).values(), *(function.__defaults__ or ())]
    values += (function.__kwdefaults__ or {}).values()
    inner = [value for value in values if inspect.isfunction(_plain(value))]
    # A function that was made around a rule says less than the rule.
    around = bool(inner) and "<locals>" in function.__qualname__
    yield from () if around else (function,)
    for value in inner:
        yield from _functions(value)
    yield from (function,) if around else ()


def _plain(function: Any) -> Any:
    """Return a function without what wraps it; that of a claim is its rule."""
    while isinstance(function, functools.partial | Claim):
        function = function.decide if isinstance(function, Claim) else function.func
    return inspect.unwrap(function) if callable(function) else function


def _closure(function: Any) -> dict[str, Any]:
    found = {}
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not set
            continue
    return found


def _compared(function: Any, depth: int) -> Iterator[str]:
    """Yield the comparisons of a function; of those that it calls where it has none itself."""
    node = _node(function)
    if node is None:
        return
    known = {**function.__globals__, **_closure(function)}
    found = [_in_words(each, known) for each in _comparisons(node)]
    yield from found
    if found or not depth:
        return
    for called in _called(node, known):
        if Path(called.__code__.co_filename).is_relative_to(ROOT / "experiments"):
            yield from _compared(called, depth - 1)


def _called(node: ast.AST, known: dict[str, Any]) -> Iterator[Any]:
    """Yield the functions that are named in a function, by name or as ``module.name``."""
    for each in ast.walk(node):
        value = None
        if isinstance(each, ast.Name):
            value = known.get(each.id)
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            module = known.get(each.value.id)
            value = getattr(module, each.attr, None) if inspect.ismodule(module) else None
        if inspect.isfunction(plain := _plain(value)):
            yield plain


def _decided(function: Any) -> Iterator[str]:
    """Yield what a rule hands to ``found`` or ``every``, as its source has it."""
    node = _node(function)
    if node is None:
        return
    assigned = {
        target.id: each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.args:
            if each.func.id in _DECIDING:
                first = each.args[0]
                value = assigned.get(first.id, first) if isinstance(first, ast.Name) else first
                yield _in_words(value, function.__globals__)
            elif isinstance(node, ast.Lambda):
                yield _in_words(each, function.__globals__)


def _comparisons(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the outermost expressions that compare, of a function."""
    for child in ast.iter_child_nodes(node):
        if _compares(child):
            yield child
        else:
            yield from _comparisons(child)


def _compares(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        # `row["planner"] == "sa"` and `x is None` choose, they do not judge.
        return any(isinstance(each, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for each in node.ops)
    if isinstance(node, ast.BoolOp | ast.BinOp | ast.UnaryOp):
        logical = isinstance(node, ast.BoolOp) or isinstance(
            getattr(node, "op", None), ast.BitAnd | ast.BitOr
        )
        return logical and any(_compares(each) for each in ast.iter_child_nodes(node))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in _COMPARING
    return isinstance(node, ast.Attribute) and node.attr in _TELLING


def _in_words(node: ast.AST, known: dict[str, Any]) -> str:
    """Return an expression as in the source, with the values of the constants in it."""
    if isinstance(node, ast.Call):
        node = ast.Call(node.func, node.args, [])  # the other numbers are only shown
    names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    values = {
        name: _text(known[name])
        for name in dict.fromkeys(names)
        if isinstance(known.get(name), int | float | str) and not isinstance(known[name], bool)
    }
    constants = ", ".join(f"{name} = {value}" for name, value in values.items())
    return ast.unparse(node) + (f" ({constants})" if constants else "")


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _node(function: Callable[..., Any]) -> ast.AST | None:
    """Return the definition of a function, None if its file does not have it."""
    code = function.__code__
    arguments = code.co_varnames[: code.co_argcount]
    for node in _definitions(code.co_filename).get(code.co_firstlineno, ()):
        given = node.args
        names = tuple(each.arg for each in (*given.posonlyargs, *given.args))
        if names == arguments and getattr(node, "name", "<lambda>") == code.co_name:
            return node
    return None


Definition = ast.FunctionDef | ast.Lambda


@functools.cache
def _definitions(path: str) -> dict[int, list[Definition]]:
    """Return the functions of a file by the line at which Python says that they begin."""
    found: dict[int, list[Definition]] = {}
    for node in ast.walk(ast.parse(Path(path).read_text())):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            decorators = getattr(node, "decorator_list", ())
            line = min([node.lineno, *(each.lineno for each in decorators)])
            found.setdefault(line, []).append(node)
    return found
