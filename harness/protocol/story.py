"""What a machine was told and what it asked for, lately: printed with every violation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from harness.protocol.effects import Effect
from harness.protocol.inputs import Input

KEPT = 60
_WIDEST = 160


class Said(NamedTuple):
    """An input or effect without the data that it carries."""

    kind: str
    fields: tuple[tuple[str, Any], ...]


class Story:
    """A bounded log; an entry costs a few tuples, and text is made only when it is printed.

    It keeps inputs and effects without their data: a payload, a state or the registry is recorded
    by its type alone, or sixty entries would hold sixty times the memory of the machine itself. A
    host that can run the same inputs again (a simulator) keeps 0 entries at first."""

    __slots__ = ("_entries", "kept", "title")

    def __init__(self, title: str, *, kept: int = KEPT) -> None:
        assert kept >= 0, f"a story of {kept} inputs"
        self.title = title
        self.kept = kept
        self._entries: deque[tuple[int, Said, tuple[Said, ...]]] = deque(maxlen=kept)

    def note(self, now: int, item: Input, effects: Sequence[Effect]) -> None:
        """Record an input and its effects."""
        assert now >= 0, f"time {now}"
        self._entries.append((now, said(item), tuple([said(effect) for effect in effects])))

    def text(self) -> str:
        """Return the last inputs, each with its effects below it."""
        lines = [f"story of {self.title} (the last {len(self._entries)} inputs)"]
        for now, item, effects in self._entries:
            lines.append(f"  {now / 1e6:12.6f} s  {words(item)}")
            lines.extend(f"  {'':14} -> {words(effect)}" for effect in effects)
        return "\n".join(lines)


def said(item: Any) -> Said:
    """Return ``item`` without its data."""
    kind = type(item)
    plan = _plans.get(kind)
    if plan is None:
        plan = _plans[kind] = [(name, _BARE.get(name, _itself)) for name in kind.__struct_fields__]
    return Said(kind.__name__, tuple([(name, bare(getattr(item, name))) for name, bare in plan]))


def words(item: Said) -> str:
    """Return one line: the class and its fields, long values cut."""
    assert item.kind, "an entry has a kind"
    parts = []
    for name, value in item.fields:
        text = words(value) if isinstance(value, Said) else f"{value}"
        parts.append(f"{name}={text if len(text) <= _WIDEST else text[:_WIDEST] + '…'}")
    return f"{item.kind}({', '.join(parts)})"


def _itself(value: Any) -> Any:
    return value


def _type(value: Any) -> Any:
    return None if value is None else f"<{type(value).__name__}>"


def _types(values: Sequence[Any]) -> str:
    return f"<{len(values)}>"


def _inner(value: Any) -> Said | None:
    return None if value is None else said(value)


def _records(values: Sequence[Any]) -> str:
    return ", ".join(f"{record.kind} {record.batch}" for record in values)


_BARE: dict[str, Callable[[Any], Any]] = {
    "payload": _type,
    "state": _type,
    "registry": _type,
    "inputs": _types,
    "outputs": _types,
    "records": _records,
    "checkpoint": _inner,
    "message": _inner,
    "order": _inner,
    "heartbeat": _inner,
}


_plans: dict[type, list[tuple[str, Callable[[Any], Any]]]] = {}
"""The kept part of each field, by class."""
