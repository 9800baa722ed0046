"""What a machine was told and what it asked for, lately: printed with every violation."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import fields

from harness.protocol.effects import Effect
from harness.protocol.inputs import Input

KEPT = 60
_WIDEST = 160


class Story:
    """A bounded log; an entry costs a tuple, words are made only when it is told.

    What it keeps is many times as much as the machines themselves hold, and too much for a
    processor's cache: who can run the same inputs again (a simulator) keeps 0 entries at first.
    """

    __slots__ = ("_entries", "kept", "title")

    def __init__(self, title: str, *, kept: int = KEPT) -> None:
        self.title = title
        self.kept = kept
        self._entries: deque[tuple[int, Input, Sequence[Effect]]] = deque(maxlen=kept)

    def note(self, now: int, item: Input, effects: Sequence[Effect]) -> None:
        self._entries.append((now, item, effects))

    def tell(self) -> str:
        """The last inputs, each with its effects below it."""
        lines = [f"story of {self.title} (the last {len(self._entries)} inputs)"]
        for now, item, effects in self._entries:
            lines.append(f"  {now / 1e6:12.6f} s  {words(item)}")
            lines.extend(f"  {'':14} -> {words(effect)}" for effect in effects)
        return "\n".join(lines)


def words(item: object) -> str:
    """One line: the class and its fields, long values cut."""
    parts = []
    for field in fields(item):  # type: ignore[arg-type]  # every input and effect is a dataclass
        value = getattr(item, field.name)
        text = words(value) if field.name in ("message", "order", "heartbeat") else f"{value}"
        parts.append(f"{field.name}={text if len(text) <= _WIDEST else text[:_WIDEST] + '…'}")
    return f"{type(item).__name__}({', '.join(parts)})"
