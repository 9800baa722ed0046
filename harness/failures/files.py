"""Failure schedules in files of the user: ``--failures FILE``.

The file is YAML::

    # Seconds count from the start of the load; a target is a node, a rack, or nodes (r1n1+r1n2).
    failures:
      - {at: 20s, action: kill, target: r1n1}
      - {at: 35s, action: restart, target: r1n1}
      - {at: 1.5min, action: kill, target: r2}"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from harness.cluster.base import Action
from harness.errors import UsageError
from harness.failures.schedule import FailureEvent, Schedule
from harness.text import did_you_mean, parse_duration_s, read_given
from harness.yaml_files import compose_yaml

EXAMPLE = "- {at: 20s, action: kill, target: r1n1}"
_KEYS = ("at", "action", "target")


def read_schedule(path: Path) -> Schedule:
    """Read a schedule. Raises `UsageError` that names the file, the line and the remedy."""
    text = read_given(path, "--failures: ", f"name a YAML file with lines such as {EXAMPLE}")
    remedy = f"write lines such as {EXAMPLE}"
    root = compose_yaml(text, name=f"--failures: {path}", remedy=remedy)
    entries = _entries(path, root)
    return Schedule(events=[_event(path, entry) for entry in entries], origin=str(path))


def _entries(path: Path, root: Any) -> list[Any]:
    if isinstance(root, yaml.MappingNode):
        for key, value in root.value:
            if key.value == "failures" and isinstance(value, yaml.SequenceNode) and value.value:
                return list(value.value)
    raise UsageError(
        f"--failures: {path} has no list called failures",
        remedy=f"begin it with the line failures: and write lines such as {EXAMPLE} below",
    )


def _event(path: Path, node: Any) -> FailureEvent:
    where = f"--failures: {path}, line {node.start_mark.line + 1}"
    entry = _scalars(node)
    if entry is None or set(entry) != set(_KEYS):
        raise UsageError(
            f"{where}: this does not have exactly one at, one action and one target",
            remedy=f"write it so: {EXAMPLE}",
        )
    actions = [action.value for action in Action]
    if entry["action"] not in actions:
        raise UsageError(
            f"{where}: there is no action {entry['action']!r}",
            remedy=did_you_mean(entry["action"], actions),
        )
    return FailureEvent(
        at_s=_at_s(where, entry["at"]), action=Action(entry["action"]), target=entry["target"]
    )


def _scalars(node: Any) -> dict[str, str] | None:
    """Return a mapping of plain values as written, without YAML's guesses (1:30 would be 90).

    None for anything else."""
    if not isinstance(node, yaml.MappingNode):
        return None
    pairs = [item for pair in node.value for item in pair]
    entry = {key.value: value.value for key, value in node.value if isinstance(key.value, str)}
    plain = all(isinstance(item, yaml.ScalarNode) for item in pairs)
    return entry if plain else None


def _at_s(where: str, at: str) -> float:
    if at in ("0", "0s"):
        return 0.0
    return parse_duration_s(at, name=f"{where}: at")
