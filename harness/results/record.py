"""What is asked of one run, what came out, and the record that holds both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

Scalar = str | int | float | bool | None
"""What a point's parameter, and a value in a record, may be."""

Point = Mapping[str, Scalar]
"""One cell of an experiment's grid: parameter name to value."""


class Profile(StrEnum):
    """How much of an experiment is run."""

    SMOKE = "smoke"
    """Seconds: does it run at all. Part of the tests."""
    QUICK = "quick"
    """The default: every figure, on two cores, within an hour for all of them."""
    PAPER = "paper"
    """The paper's own scale."""


SCHEMA_VERSION = 1

OK, INVALID, FAILED = "ok", "invalid", "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run of one point gave."""

    values: Mapping[str, Any]
    """Scalars (and small JSON values) by metric name; raw, never rounded."""
    series: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Tables too large for a record, by name; each is stored as a Parquet file beside it."""
    invalid: str | None = None
    """Why the numbers cannot be trusted (the load generator fell behind, say), else None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run of one point: what was asked, on what, and what came out."""

    schema: int = SCHEMA_VERSION
    run: str
    """Unique; begins with the UTC time of its start, so names sort by age."""
    experiment: str
    profile: str
    point: Mapping[str, Any]
    repeat: int
    repeats: int
    """How many repetitions its campaign asked for."""
    root_seed: int
    options: Mapping[str, Any]
    """The user's options that reached this experiment, each with a hash of its content."""
    code: str
    """`harness.results.provenance.code_fingerprint` of the experiment's group."""
    commit: str
    machine: Mapping[str, Any]
    backend: str = ""
    """What kind of cluster it was measured on (`harness.cluster.backends`); empty where no server
    ran."""
    versions: Mapping[str, str]
    started_unix_s: float
    seconds: float
    status: str
    """"ok", "invalid" (measured, not to be trusted) or "failed" (not measured)."""
    reason: str | None = None
    """Why it is invalid or failed."""
    values: Mapping[str, Any] = field(default_factory=dict)
    series: Sequence[str] = ()

    @property
    def campaign(self) -> str:
        """Runs of one campaign may stand in one table: same code, seed, options, machine."""
        same = [self.code, self.root_seed, self.options, self.machine, self.profile]
        same += [self.backend] if self.backend else []
        return sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:12]


def point_key(point: Point, repeat: int) -> str:
    """Identifies a point and repetition within a campaign."""
    return json.dumps([dict(sorted(point.items())), repeat], sort_keys=True)
