"""What is asked of one run, what came out, and the record that holds both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
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


SCHEMA_VERSION = 3

OK, INVALID, FAILED, SKIPPED = "ok", "invalid", "failed", "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run of one point gave."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """Scalars (and small JSON values) by metric name; raw, never rounded."""
    series: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Tables too large for a record, by name; each is stored as a Parquet file beside it."""
    invalid: str | None = None
    """Why the numbers cannot be trusted (the load generator fell behind, say), else None."""
    again: str | None = None
    """Why the run should be made again although it is valid (the twin fell behind, say): the
    numbers are right, but less can be said from them than was asked."""
    skipped: str | None = None
    """Why this point cannot be run at all (the engine has no such scheme, say), else None. It is
    no failure: the same command does not try it again."""

    def __post_init__(self) -> None:
        assert self.skipped is None or not self.values, "what was skipped has no numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a campaign asks, whatever code answers it. Equal questions to two revisions of the
    code can be compared; runs of unequal questions never stand in one table."""

    experiment: str
    profile: str
    root_seed: int
    options: Mapping[str, Any]
    """The user's options that reached this experiment, each with a hash of its content."""
    machine: Mapping[str, Any]
    backend: str = ""
    """What kind of cluster it is measured on (`harness.cluster.backends`); empty where no server
    runs."""

    def campaign(self, code: str) -> str:
        """A short name for this question asked of that code."""
        same: list[object] = [code, self.root_seed, self.options, self.machine, self.profile]
        same += [self.backend] if self.backend else []
        return sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A run that has begun: a question, one of its points, and what is to answer it."""

    question: Question
    point: Mapping[str, Any]
    repeat: int
    repeats: int
    """How many repetitions its campaign asks for."""
    code: str
    commit: str
    versions: Mapping[str, str]
    started_unix_s: float
    number: int = 1
    """Which attempt of one command this is."""
    engine: str = ""
    """The live engine that it measured."""

    @property
    def run(self) -> str:
        """Unique; begins with the UTC time of its start, so names sort by age."""
        stamp = datetime.fromtimestamp(self.started_unix_s, UTC).strftime("%Y%m%dT%H%M%S.%f")
        digest = sha256(point_key(self.point, self.repeat).encode()).hexdigest()[:8]
        return f"{stamp}-{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run of one point: what was asked, on what, and what came out."""

    schema: int = SCHEMA_VERSION
    run: str
    """`Attempt.run`."""
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
    """`harness.results.reach.code_fingerprint` of the experiment."""
    commit: str
    machine: Mapping[str, Any]
    backend: str = ""
    """What kind of cluster it was measured on (`harness.cluster.backends`); empty where no server
    ran."""
    engine: str = ""
    """The live engine that it measured (`harness.engines.kinds`); empty where none ran, and in
    records from before schema 3."""
    versions: Mapping[str, str]
    started_unix_s: float
    seconds: float
    status: str
    """"ok", "invalid" (measured, not to be trusted), "failed" (not measured) or "skipped" (cannot
    be measured)."""
    reason: str | None = None
    """Why it is not "ok"."""
    attempt: int = 1
    """Which attempt of one command this was."""
    again: str | None = None
    """`Outcome.again`."""
    values: Mapping[str, Any] = field(default_factory=dict)
    series: Sequence[str] = ()

    @classmethod
    def completed(cls, attempt: Attempt, outcome: Outcome, *, seconds: float) -> Record:
        """Of a run that came to its end."""
        status = INVALID if outcome.invalid else SKIPPED if outcome.skipped else OK
        return replace(
            cls._of(attempt, seconds, status, outcome.invalid or outcome.skipped),
            again=outcome.again,
            values=json.loads(json.dumps(outcome.values, default=plain)),
            series=sorted(outcome.series),
        )

    @classmethod
    def failed(cls, attempt: Attempt, reason: str, *, seconds: float) -> Record:
        """Of a run that ended with an error."""
        return cls._of(attempt, seconds, FAILED, reason)

    @classmethod
    def _of(cls, attempt: Attempt, seconds: float, status: str, reason: str | None) -> Record:
        asked = attempt.question
        return cls(
            run=attempt.run,
            experiment=asked.experiment,
            profile=asked.profile,
            point=dict(attempt.point),
            repeat=attempt.repeat,
            repeats=attempt.repeats,
            root_seed=asked.root_seed,
            options=asked.options,
            code=attempt.code,
            commit=attempt.commit,
            machine=asked.machine,
            backend=asked.backend,
            engine=attempt.engine,
            versions=attempt.versions,
            started_unix_s=attempt.started_unix_s,
            seconds=seconds,
            status=status,
            reason=reason,
            attempt=attempt.number,
        )

    @property
    def question(self) -> Question:
        """What was asked, whatever code answered it."""
        return Question(
            experiment=self.experiment,
            profile=self.profile,
            root_seed=self.root_seed,
            options=self.options,
            machine=self.machine,
            backend=self.backend,
        )

    @property
    def campaign(self) -> str:
        """Runs of one campaign may stand in one table: same question, same code."""
        return self.question.campaign(self.code)

    @property
    def settled(self) -> bool:
        """Whether the same command would leave it at that."""
        return self.status in (OK, SKIPPED)


def point_key(point: Point, repeat: int) -> str:
    """Identifies a point and repetition within a campaign."""
    return json.dumps([dict(sorted(point.items())), repeat], sort_keys=True)


def plain(value: Any) -> Any:
    """A value as JSON can carry it, for ``json.dumps(default=...)``."""
    if hasattr(value, "tolist"):  # NumPy's, which is not loaded for this
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a record cannot hold a {type(value).__name__}: {value!r}")
