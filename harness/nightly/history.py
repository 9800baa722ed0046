"""The history of all nights: a line of JSON for each, a file for each class of machine.

A line is written whole and forced to disk. A crash can only leave the beginning of a last line:
reading leaves it out with a warning, and the next night moves it to a file of its own. Any other
unreadable line is an error, because nights in the middle do not vanish."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import UsageError

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricNight:
    """One metric of one night."""

    verdict: str
    seconds: Sequence[float | None]
    """Tonight's samples: processor time of one call, in seconds; of a live ratio, the ratio; of a
    recovery, its number in `unit`."""
    baseline_seconds: Sequence[float | None]
    unit: str = ""
    """The unit of a difference; empty where costs are compared by their ratio."""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """Tonight over baseline, or minus it if there is a unit, and the ends of its interval."""
    reason: str | None = None
    """The reason why there is no number."""

    @property
    def numbers(self) -> str:
        """The change with its interval, in words; the reason where there is none."""
        if self.ratio is None or self.low is None or self.high is None:
            return f"–  {self.reason or ''}".strip()
        if self.unit:
            return f"{self.ratio:+.3g} {self.unit} ({self.low:+.3g} to {self.high:+.3g})"
        return f"{self.ratio:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNight:
    """One claim as the records of that night decide it."""

    experiment: str
    profile: str
    id: str = ""
    """The claim's name; empty in nights from before claims had one."""
    text: str
    kind: str
    held: bool | None
    undecided: str = ""
    """The reason, where it was measured and that does not decide it."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The numbers of a claim about live engines: ratios between them, times of recovery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One run of the gate."""

    schema: int = SCHEMA_VERSION
    started_unix_s: float
    seconds: float
    machine_name: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    commit: str
    baseline: str
    """The revision on the other side of the comparison."""
    pairs: int
    load: Sequence[float]
    """Processes that wanted a core in the minute before it began and before it ended."""
    metrics: Mapping[str, MetricNight]
    claims: Sequence[ClaimNight] = ()
    alarms: Sequence[str] = field(default_factory=list)
    """Each as one sentence."""
    notes: Sequence[str] = field(default_factory=list)


class History:
    """The nights of a results directory."""

    def __init__(self, root: Path, *, warn: Callable[[str], None] = lambda text: None) -> None:
        self.folder = root / "history"
        self._warn = warn

    def machines(self) -> Sequence[str]:
        """Return the classes of machine that have nights."""
        return sorted(path.stem for path in self.folder.glob("*.jsonl"))

    def path(self, machine: str) -> Path:
        """Return the file of a class of machine."""
        return self.folder / f"{machine}.jsonl"

    def read(self, machine: str) -> Sequence[Night]:
        """Return every night of a class of machine, oldest first."""
        path = self.path(machine)
        if not path.exists():
            return []
        *whole, broken = path.read_bytes().split(b"\n")
        if broken:
            self._warn(
                f"{path} ends in the middle of a line (a night that was cut off); "
                "that line was left out"
            )
        return [_night(path, number, line) for number, line in enumerate(whole, start=1)]

    def append(self, night: Night) -> Path:
        """Add a night. The rest of one that crashed is moved to ``<name>.broken`` first."""
        path = self.path(night.machine_name)
        self.folder.mkdir(parents=True, exist_ok=True)
        _set_aside(path)
        line = json.dumps(asdict(night), ensure_ascii=False, allow_nan=False)
        with path.open("ab") as file:
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return path


def _set_aside(path: Path) -> None:
    content = path.read_bytes() if path.exists() else b""
    if broken := content.rpartition(b"\n")[2]:
        with path.with_suffix(".broken").open("ab") as file:
            file.write(broken + b"\n")
        os.truncate(path, len(content) - len(broken))


def _night(path: Path, number: int, line: bytes) -> Night:
    try:
        schema = msgspec.json.decode(line, type=_Written).schema
        if schema <= SCHEMA_VERSION:
            return msgspec.json.decode(line, type=Night)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{path}, line {number}: not a night that Faultline wrote ({error})",
            remedy="remove that line, or restore the file from where it is kept",
        ) from error
    raise UsageError(
        f"{path}, line {number}: written in schema {schema}, this program reads up to "
        f"{SCHEMA_VERSION}",
        remedy="update this checkout to the version that wrote it, or name another results "
        "directory with --out DIR",
    )


class _Written(msgspec.Struct):
    """The version of what a line holds."""

    schema: int
