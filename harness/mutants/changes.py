"""Small mistakes in a module's text: every comparison, sign and connective, the other way.

A change is an edit of the source between two operands, so that lines and columns stay and the rest
of the file is as it was. Left alone are assertions (a weaker one is not noticed while nothing is
broken, which is what it is for), type annotations and what only a type checker reads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
SIGNS: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
}
CONNECTIVES: Mapping[type[ast.boolop], tuple[str, str]] = {
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One mistake: ``right`` at an offset of the module's text becomes ``wrong``."""

    path: Path
    line: int
    offset: int
    right: str
    wrong: str
    text: str
    """The line as it stands, without its indentation."""

    def applied(self, source: str) -> str:
        """The module's text with the mistake in it."""
        end = self.offset + len(self.right)
        assert source[self.offset : end] == self.right, f"{self} is not in this text"
        return source[: self.offset] + self.wrong + source[end:]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.right} -> {self.wrong}:  {self.text}"


def changes(path: Path, source: str) -> list[Change]:
    """Every change of a module, in the order of the text."""
    found = [
        Change(
            path=path,
            line=source.count("\n", 0, offset) + 1,
            offset=offset,
            right=right,
            wrong=wrong,
            text=_line_at(source, offset),
        )
        for offset, right, wrong in _Finder(source).found
    ]
    return sorted(found, key=lambda change: change.offset)


def _line_at(source: str, offset: int) -> str:
    start = source.rfind("\n", 0, offset) + 1
    end = source.find("\n", offset)
    return source[start : end if end >= 0 else None].strip()


class _Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.found: list[tuple[int, str, str]] = []
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = source.splitlines()
        self.visit(ast.parse(source))

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for number, operator in enumerate(node.ops):
            self._between(operands[number], operands[number + 1], *COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = any(isinstance(side, ast.JoinedStr) or _is_text(side) for side in _sides(node))
        if type(node.op) in SIGNS and not texts:
            self._between(node.left, node.right, *SIGNS[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, *CONNECTIVES[type(node.op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start = self._offset(node.lineno, node.col_offset)
            self.found.append((start, "not ", ""))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Left alone."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Columns inside an f-string are not those of the file before Python 3.12."""

    def visit_arg(self, node: ast.arg) -> None:
        """A parameter's annotation is left alone."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """The operator is what stands between its operands, beside brackets and comments."""
        start = self._offset(left.end_lineno or 0, left.end_col_offset or 0)
        end = self._offset(right.lineno, right.col_offset)
        for offset in _code(self._source, start, end):
            if self._source.startswith(old, offset):
                self.found.append((offset, old, new))
                return

    def _offset(self, line: int, column: int) -> int:
        """Where a place of the tree, whose columns count bytes, is in the text."""
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)


def _sides(node: ast.BinOp) -> tuple[ast.expr, ast.expr]:
    return node.left, node.right


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _code(source: str, start: int, end: int) -> Iterator[int]:
    """The offsets between two places that are no comment."""
    comment = False
    for offset in range(start, end):
        comment = source[offset] == "#" or (comment and source[offset] != "\n")
        if not comment:
            yield offset
