"""The records of a workload: a source of them, and the way to build it in another process.

Tests: ``tests/workloads/test_base.py``."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from harness.errors import UsageError
from harness.text import did_you_mean
from workloads.files import load_file

SOURCE_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
"""The columns of a source's DataFrame, with the types of Spark's Kafka source: ``value`` is
binary, ``timestamp`` (the event time) the record's intended send time."""
HEADERS = "headers"
"""One more column, of a source whose records have headers (`Source.headers`)."""

MOST_SKEW = 1000
"""The largest number in `Source.skew`."""
_FIXED_OPTIONS = ("kafka.", "subscribe", "assign", "starting", "ending", "includeHeaders")
"""Beginnings of options of Spark's Kafka source that a run decides."""

_NAME = re.compile(r"[a-z][a-z0-9-]*")


def require(holds: object, what: str, remedy: str) -> None:
    """Raise `UsageError` unless a condition holds."""
    if not holds:
        raise UsageError(what, remedy=remedy)


def check_name(name: str, of: str = "workload") -> None:
    """Raise `UsageError` for a name that cannot be part of a topic's."""
    require(
        _NAME.fullmatch(name),
        f"a {of} cannot be called {name!r}",
        "use lower-case letters, digits and dashes, a letter first",
    )


@runtime_checkable
class RecordSource(Protocol):
    """The records of one source, in the form for the load generator."""

    def payloads(self, partition: int, start_index: int, count: int) -> list[bytes]:
        """Return the values of records ``start_index`` to ``start_index + count`` of ``partition``.

        They depend on the source's parameters and these numbers alone, never on earlier calls."""


Header = tuple[str, bytes]


@runtime_checkable
class KeyedSource(RecordSource, Protocol):
    """Records that have keys."""

    def keys(self, partition: int, start_index: int, count: int) -> Sequence[bytes | None]:
        """Return the keys of the same records as `payloads`."""


@runtime_checkable
class HeadedSource(RecordSource, Protocol):
    """Records that have headers."""

    def headers(self, partition: int, start_index: int, count: int) -> Sequence[Sequence[Header]]:
        """Return the headers of the same records as `payloads`, name and value each."""


@runtime_checkable
class RecordedSource(RecordSource, Protocol):
    """Records that were recorded, and are replayed at their own pace in event time."""

    first_unix_s: float
    """The event time of the first record."""
    per_s: float
    """The mean number of records in a second of event time."""

    def rates(
        self, begin_unix_s: float, duration_s: float, speed: float
    ) -> list[tuple[float, float]]:
        """Return the pace of a load that begins at this event time, as seconds and records/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The place of an object for another process, and the arguments to call it with.

    ``target`` is ``"package.module:name"`` or ``"/path/to/file.py:name"``; ``parameters`` are
    keyword arguments that JSON can carry."""

    target: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(
            re.fullmatch(r".+:[A-Za-z_]\w*", self.target),
            f"{self.target!r} names no object",
            'write "package.module:name" or "/path/to/file.py:name"',
        )

    @property
    def is_file(self) -> bool:
        """True if it names a file, and not a module."""
        return self.target.rpartition(":")[0].endswith(".py")

    def module(self) -> ModuleType:
        """Import the module or load the file."""
        place = self.target.rpartition(":")[0]
        return load_file(Path(place)) if self.is_file else importlib.import_module(place)

    def build(self, **more: Any) -> Any:
        """Return the object, or its return value if it is callable.

        It is called with the parameters and with ``more``, which only this process knows."""
        module, name = self.module(), self.target.rpartition(":")[2]
        if not hasattr(module, name):
            raise UsageError(
                f"{module.__file__} defines no {name!r}", remedy=did_you_mean(name, vars(module))
            )
        found = getattr(module, name)
        return found(**self.parameters, **more) if callable(found) else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One topic that the workload reads."""

    name: str
    """Also the topic's suffix: lower-case letters, digits and dashes."""
    records: Reference
    """Builds a `RecordSource`."""
    partitions: int = 2
    share: float = 1.0
    """Its part of the load's rate, relative to the other sources' shares."""
    later: tuple[float, float] | None = None
    """Seconds from the start of the load, and the share from then on; None: it stays."""
    marker: bytes = b""
    """The payload of a record that moves event time on and contributes to no result."""
    skew: Sequence[int] = ()
    """The share of each partition in the source's records, as small whole numbers: ``(8, 1, 1, 0)``
    for a hot partition and a silent one. Empty: all have the same."""
    headers: bool = False
    """True if its records have headers: the class has a method ``headers``, and the query's
    DataFrame a column of that name."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of Spark's Kafka source for it, such as ``{"maxOffsetsPerTrigger": "10000"}``."""
    lag_s: float = 0.0
    """Seconds of event time by which it lags: each record is sent that much after its own time."""
    silent: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """The silence of a partition, from and until these seconds of event time since the begin: its
    records are kept, and sent at its end. They have their own times then, which may be late."""

    def __post_init__(self) -> None:
        check_name(self.name, "source")
        self._check_reading()
        require(
            self.partitions >= 1 and self.share > 0,
            f"source {self.name!r} has {self.partitions} partitions and share {self.share}",
            "give it at least one partition and a share above zero",
        )
        require(
            self.lag_s >= 0,
            f"source {self.name!r} has lag_s {self.lag_s}",
            "give the seconds by which its records are sent after their event time, 0 or more",
        )
        require(
            all(p in range(self.partitions) and 0 <= a < b for p, (a, b) in self.silent.items()),
            f"source {self.name!r} has {self.partitions} partitions and is silent {self.silent}",
            "give partition: (from, until), two instants of event time since the begin, in seconds",
        )
        require(
            self.later is None or min(self.later) > 0,
            f"source {self.name!r} has the second and share {self.later} later",
            "give both above zero",
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its DataFrame."""
        return (*SOURCE_COLUMNS, HEADERS) if self.headers else SOURCE_COLUMNS

    def _check_reading(self) -> None:
        require(
            not self.skew
            or (
                len(self.skew) == self.partitions
                and all(type(each) is int and 0 <= each <= MOST_SKEW for each in self.skew)
                and any(self.skew)
            ),
            f"source {self.name!r} has {self.partitions} partitions and skew {self.skew!r}",
            f"give a whole number from 0 to {MOST_SKEW} for each partition, not all of them 0",
        )
        fixed = [name for name in self.options if name.startswith(_FIXED_OPTIONS)]
        require(
            not fixed,
            f"source {self.name!r}: option {fixed and fixed[0]!r} is set by the harness",
            "leave it out: a run reads its own topic, from its beginning",
        )

    def share_at(self, elapsed_s: float) -> float:
        """Return its share at an instant of the load."""
        return self.later[1] if self.later and elapsed_s >= self.later[0] else self.share
