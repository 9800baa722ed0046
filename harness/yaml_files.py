"""YAML that people write: every mistake is refused with its line, also a key given twice.

Tests: ``tests/topology/test_text.py``, and the tests of those who read such files."""

from __future__ import annotations

from typing import Any

import yaml

from harness.errors import UsageError


class _UniqueKeys(yaml.SafeLoader):
    """A loader that refuses a key given twice. PyYAML's own keeps the last value silently."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: dict[tuple[str, str], yaml.Mark] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            before = seen.get((key.tag, key.value))
            if before is not None:
                problem = f"the key {key.value!r} is there twice, first in line {before.line + 1}"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen[key.tag, key.value] = key.start_mark
        return node


def parse_yaml(text: str, *, name: str, remedy: str) -> Any:
    """Return the document in ``text``, called ``name`` in errors. Raises `UsageError`."""
    return _read(text, name, remedy, nodes=False)


def compose_yaml(text: str, *, name: str, remedy: str) -> yaml.Node | None:
    """Return the document as nodes, each with its line. Raises `UsageError`."""
    root: yaml.Node | None = _read(text, name, remedy, nodes=True)
    return root


def _read(text: str, name: str, remedy: str, *, nodes: bool) -> Any:
    try:
        loader = _UniqueKeys(text)
        try:
            return loader.get_single_node() if nodes else loader.get_single_data()
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise UsageError(f"{name}{where} is not YAML: {problem}", remedy=remedy) from None
