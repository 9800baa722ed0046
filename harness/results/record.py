"""One run: its question, its outcome, and the record that contains both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

Scalar = str | int | float | bool | None
"""Type of a point's parameter and of a value in a record."""

Point = Mapping[str, Scalar]
"""One cell of an experiment's grid: parameter name to value."""


class Profile(StrEnum):
    """The part of an experiment that is run."""

    SMOKE = "smoke"
    """Seconds; it shows only that the experiment runs. Part of the tests."""
    QUICK = "quick"
    """The default: every figure, on two cores, within an hour for all of them."""
    PAPER = "paper"
    """The paper's own scale."""


SCHEMA_VERSION = 5
"""2 has the attempt and the reason to repeat a valid run, 3 the engine, 4 what a run needed, and 5
the setting."""

NOT_RECORDED = "not recorded"
SERVERS = ("java", "java_vendor", "kafka", "redis", "jars")
"""The servers in the versions of a measured run; records from before 2026-11-26 lack some."""
OK, INVALID, FAILED, SKIPPED = "ok", "invalid", "failed", "skipped"
TOO_FEW_CORES = "too_few_cores"
"""The value with the reason why this machine cannot hold a run's load (`harness.judging.headroom`):
its times then count for nothing."""
VARIANTS = "variants"
"""The series with the values of each pass of a run (`harness.judging.run.together`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one run of one point."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """Scalars (and small JSON values) by metric name; raw, never rounded."""
    series: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Tables too large for a record, by name; each is stored as a Parquet file next to it."""
    invalid: str | None = None
    """Reason why the numbers cannot be trusted (a late load generator, say), else None."""
    again: str | None = None
    """Reason to repeat a valid run (the twin fell behind, say): the numbers are right, but they
    answer less than the question."""
    skipped: str | None = None
    """Reason why this point cannot be run at all (the engine lacks the scheme, say), else None.
    It is not a failure: the same command does not try it again."""

    def __post_init__(self) -> None:
        assert self.skipped is None or not self.values, "a skipped point has no numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The question of a campaign, independent of the code that answers it.

    Equal questions to two revisions of the code can be compared; runs of unequal questions are
    never in one table."""

    experiment: str
    profile: str
    root_seed: int
    options: Mapping[str, Any]
    """The user's options that reached this experiment, each with a hash of its content."""
    machine: Mapping[str, Any]
    backend: str = ""
    """Kind of cluster (`harness.cluster.backends`); empty where no server runs."""

    def campaign(self, code: str) -> str:
        """Return a short name for this question and that code."""
        same: list[object] = [code, self.root_seed, self.options, self.machine, self.profile]
        same += [self.backend] if self.backend else []
        return sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A run that has begun: a question, one of its points, and the code that answers it."""

    question: Question
    point: Mapping[str, Any]
    repeat: int
    repeats: int
    """Number of repetitions in its campaign."""
    code: str
    commit: str
    versions: Mapping[str, str]
    started_unix_s: float
    attempt: int = 1
    """Its number within one command."""
    engine: str = ""
    """The live engine that it measured."""
    setting: Mapping[str, Any] = field(default_factory=dict)
    """`Record.setting`."""

    @property
    def run(self) -> str:
        """Unique; begins with the UTC time of its start, so names sort by age."""
        stamp = datetime.fromtimestamp(self.started_unix_s, UTC).strftime("%Y%m%dT%H%M%S.%f")
        digest = sha256(point_key(self.point, self.repeat).encode()).hexdigest()[:8]
        return f"{stamp}-{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run of one point: question, environment and outcome."""

    schema: int = SCHEMA_VERSION
    run: str
    """`Attempt.run`."""
    experiment: str
    profile: str
    point: Mapping[str, Any]
    repeat: int
    repeats: int
    """Number of repetitions in its campaign."""
    root_seed: int
    options: Mapping[str, Any]
    """The user's options that reached this experiment, each with a hash of its content."""
    code: str
    """`harness.results.reach.code_fingerprint` of the experiment."""
    commit: str
    machine: Mapping[str, Any]
    backend: str = ""
    """Kind of cluster (`harness.cluster.backends`); empty where no server ran."""
    engine: str = ""
    """The live engine that it measured (`harness.engines.kinds`); empty where none ran, and in
    records from before schema 3."""
    setting: Mapping[str, Any] = field(default_factory=dict)
    """`harness.results.setting.Setting.row` of its passes, as far as they have it alike; empty in
    records from before schema 5, which `harness.results.recorded` reads."""
    versions: Mapping[str, str]
    started_unix_s: float
    seconds: float
    status: str
    """"ok", "invalid" (measured, not to be trusted), "failed" (not measured) or "skipped" (cannot
    be measured)."""
    reason: str | None = None
    """Reason if it is not "ok"."""
    attempt: int = 1
    """Number of this attempt within one command."""
    again: str | None = None
    """`Outcome.again`."""
    peak_memory_bytes: int | None = None
    """Largest resident memory of the run's processes (`harness.running.peaks`); None in records
    from before schema 4."""
    disk_bytes: int | None = None
    """Files of the servers and of the run at its end; None in records from before schema 4."""
    values: Mapping[str, Any] = field(default_factory=dict)
    series: Sequence[str] = ()

    @classmethod
    def completed(cls, attempt: Attempt, outcome: Outcome, *, seconds: float) -> Record:
        """Build the record of a run that came to its end."""
        status = INVALID if outcome.invalid else SKIPPED if outcome.skipped else OK
        return replace(
            cls._of(attempt, seconds, status, outcome.invalid or outcome.skipped),
            again=outcome.again,
            values=json.loads(json.dumps(outcome.values, default=plain)),
            series=sorted(outcome.series),
        )

    @classmethod
    def failed(cls, attempt: Attempt, reason: str, *, seconds: float) -> Record:
        """Build the record of a run that ended with an error."""
        return cls._of(attempt, seconds, FAILED, reason)

    @classmethod
    def _of(cls, attempt: Attempt, seconds: float, status: str, reason: str | None) -> Record:
        given = {each.name: getattr(attempt, each.name) for each in fields(attempt)}
        question: Question = given.pop("question")
        asked = {each.name: getattr(question, each.name) for each in fields(question)}
        return cls(**asked, **given, run=attempt.run, seconds=seconds, status=status, reason=reason)

    @property
    def stated_versions(self) -> Mapping[str, str]:
        """Versions, with `NOT_RECORDED` for servers that a run had and its record does not name."""
        servers = SERVERS if self.backend else ()
        return {**dict.fromkeys(servers, NOT_RECORDED), **self.versions}

    @property
    def question(self) -> Question:
        """The question, independent of the code that answered it."""
        return Question(**{each.name: getattr(self, each.name) for each in fields(Question)})

    @property
    def campaign(self) -> str:
        """Name of the campaign: runs of one question and code, which may be in one table."""
        return self.question.campaign(self.code)

    @property
    def settled(self) -> bool:
        """True if the same command does not repeat this run."""
        return self.status in (OK, SKIPPED)


def decode(document: object) -> Record:
    """Return the record in a JSON document of any version up to this program's.

    What an older version did not record has the default of its field. Raises `UsageError` for a
    newer one, and `ValueError` for a document that is not a record."""
    if not isinstance(document, Mapping):
        raise ValueError(f"a {type(document).__name__} where a record should be")
    version = document.get("schema")
    if not isinstance(version, int) or version < 1:
        raise ValueError(f"no schema version but {version!r}")
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"a record of schema {version}; this program reads up to {SCHEMA_VERSION}",
            remedy="update this checkout to the version that wrote it (git pull), or name other "
            "results",
        )
    if unknown := sorted(document.keys() - {each.name for each in fields(Record)}):
        raise ValueError(f"unknown fields: {', '.join(unknown)}")
    # Its error is a `ValueError`, with the path of the field.
    return msgspec.convert({**document, "schema": SCHEMA_VERSION}, Record)


def point_key(point: Point, repeat: int) -> str:
    """Return the key of a point and repetition within a campaign."""
    return json.dumps([dict(sorted(point.items())), repeat], sort_keys=True)


def plain(value: Any) -> Any:
    """Return a value in a form for JSON, for ``json.dumps(default=...)``."""
    if hasattr(value, "tolist"):  # NumPy's, which is not loaded for this
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a record cannot hold a {type(value).__name__}: {value!r}")
