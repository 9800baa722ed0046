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

import msgspec

from harness.cluster.base import Action
from harness.errors import UsageError
from harness.failures.schedule import FailureEvent, Schedule
from harness.text import parse_duration_s, read_given
from harness.yaml_files import Entry, Mistake, decode, parse_yaml

EXAMPLE = "- {at: 20s, action: kill, target: r1n1}"


class Instant(float):
    """Seconds from the start of the load, written as a duration."""


class _Event(Entry):
    at: Instant
    action: Action
    target: str


class _File(Entry):
    failures: list[_Event]


def read_schedule(path: Path) -> Schedule:
    """Read a schedule. Raises `UsageError` that names the file, the key and the remedy."""
    text = read_given(path, "--failures: ", f"name a YAML file with lines such as {EXAMPLE}")
    name = f"--failures: {path}"
    remedy = f"begin it with the line failures: and write lines such as {EXAMPLE} below"
    document = parse_yaml(text, name=name, remedy=remedy)
    file = decode(_File, document, name=name, remedy=remedy, hook=_read)
    if not file.failures:
        raise UsageError(f"{name} has no failures", remedy=remedy)
    written = [msgspec.structs.asdict(each) for each in file.failures]
    events = [FailureEvent(at_s=float(each.pop("at")), **each) for each in written]
    return Schedule(events=events, origin=str(path))


def _read(kind: type, value: object) -> Any:
    """Be the hook of `decode` for instants."""
    assert kind is Instant, kind
    if str(value) in ("0", "0s"):
        return Instant(0.0)
    try:
        return Instant(parse_duration_s(str(value), name="at"))
    except UsageError as error:
        raise Mistake(f"is {value!r}: {error.what}", error.remedy) from None
