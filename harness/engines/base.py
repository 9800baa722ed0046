"""The contract between a measurement and the engine under test.

An `EngineKind` says what an engine can do and opens one; `harness.engines.kinds` lists them.
An `Engine` is open under one scheme on one cluster, stays warm between passes, and runs one
workload at a time. `harness.judging.passes` calls it in this order, once a pass::

    begin(work)            the topics exist and hold one marker a partition
    begins_at(instant)     when the load begins, told before its first record is sent
    usage() ...            sampled while the load runs and failures are injected
    raise_problems() ...   asked meanwhile
    drain(until, ...) ...  a marker past the last window has been sent to every partition;
                           asked again as long as results or events come
    end()
    read(messages, ...)    what the out topic held, and events(): what the engine noticed
    truth(work)            in a pass with failures, after the cluster has been restored
    score(...)             between passes

What an engine must *not* do is measure itself: latency, throughput and equality come from the
out topic, by the broker's clock. Its own events say only what cannot be seen from outside: when
it noticed a failure, and why.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pandas as pd

from harness.cluster.base import Cluster, ClusterSpec, Node, Usage
from harness.errors import UsageError
from harness.load.plan import LoadPlan
from harness.measure.collector import Message
from harness.results.record import Scalar
from harness.text import did_you_mean
from workloads.base import Workload


class EventKind(StrEnum):
    """What an engine can notice."""

    PROGRESS = "progress"
    """A batch was done. ``detail`` has ``batch``, ``rows``, ``duration_s``, ``dropped_rows``
    (rows that came too late to count, which make the run invalid), and what the engine adds."""
    DETECTED = "detected"
    """It noticed that ``target`` is gone; ``cause`` says by what (a closed connection, a missing
    heartbeat, Spark's own report)."""
    RECOVERED = "recovered"
    """What ran on ``target`` is where it was before the failure; ``cause`` says how (a replica
    took over, a checkpoint was restored, sources were replayed)."""
    FAILED = "failed"
    """Something of the engine's own ended with an error, in ``detail["error"]``."""
    RESTARTED = "restarted"
    """What had failed runs again."""
    ADAPTED = "adapted"
    """Its plan was changed while it ran; ``detail`` has what was ``started`` and ``retired``, the
    ``cost`` in resource units, and the plan's ``value_before`` and ``value_after``."""
    FENCED = "fenced"
    """A copy of ``target`` that had been replaced still published something, and every reader
    drops it. Known once the output has been read."""
    EXECUTORS = "executors"
    """``detail["count"]`` executors or nodes are at work now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that an engine noticed."""

    kind: EventKind
    at_unix_s: float
    copy: int = 0
    """Which copy of the query noticed it; 0 where there is one."""
    target: str | None = None
    """The node, rack or task it is about."""
    cause: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What an engine is opened with; engines with equal setups can stand in for each other."""

    scheme: str
    brief: bool = False
    """For the smoke profile, whose figures show only that everything runs."""
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    """What only this engine knows, of `EngineKind.parameters`: a checkpoint interval, a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What an engine does in one pass."""

    name: str
    """Of the pass, unique on its cluster."""
    workload: Workload
    load: LoadPlan
    """The streams that will be sent: their topics, partitions, rates and records."""
    topic_of: Mapping[str, str]
    """Source name to topic."""
    out_topic: str
    out_partitions: int
    interval_s: float
    """Trigger or batch interval. The load begins at a whole multiple of it."""
    directory: Path
    """Of the harness's machine, new and empty, readable by its owner alone: for logs and tables.
    What executors write too goes to `Cluster.checkpoint_location`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """How accurate a pass was, or why that was not scored."""

    first: float | None = None
    """Share of the twin's members in the first version of the results; None with a reason."""
    last: float | None = None
    reason: str | None = None
    windows: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(columns=["window_start_s", "members", "first", "last"])
    )
    """By window: ``window_start_s``, the twin's ``members``, and how many of them the ``first``
    and the ``last`` versions held."""


NOT_SCORED = Scored(reason="it was not scored")


class Engine(Protocol):
    """An engine that is open. Every wait inside has a deadline and ends in an
    `EnvironmentFailure` with the state of what was waited for and its last log lines."""

    @property
    def name(self) -> str:
        """Its kind's (`EngineKind.name`), which the records of its runs carry."""

    @property
    def used(self) -> bool:
        """Whether any work ever began: if so, it needs less warming up."""

    def configure(self, setup: Setup) -> None:
        """Take another setup with the same key (`EngineKind.key`) for the passes that follow."""

    def check(self) -> None:
        """Return when all of it is ready for work, after failures too; raise `EnvironmentFailure`
        if it will not be, so that another one is opened."""

    def targets(self) -> Sequence[Node]:
        """What can be killed alone and with its rack: Spark workers, or nodes of the engine's own
        that it has registered with the cluster (`Cluster.register_host`)."""

    def closes_after_s(self, workload: Workload) -> float:
        """How long after a window's end it waits for late records, in event time: the record that
        closes a window is the first one so much after its end, and latency counts from there."""

    def begin(self, work: Work) -> None:
        """Start the work; return when what stands in the topics already has been through it."""

    def begins_at(self, unix_s: float) -> None:
        """The load's time 0, known only now; it lies a moment ahead."""

    def drain(self, until_unix_s: float, *, within_s: float) -> bool:
        """Wait until every result of input before that instant has been delivered; False if that
        did not come about in time, which is a finding and not an error. May be called again.
        Raises what `raise_problems` does."""

    def raise_problems(self) -> None:
        """Raise what it cannot go on with: `EnvironmentFailure` if a process of its own has ended
        for good, `UsageError` if the workload is to blame."""

    def end(self) -> None:
        """Stop the work; the engine stays. Its topics still exist."""

    def read(self, messages: Sequence[Message], work: Work, start_unix_s: float) -> pd.DataFrame:
        """What messages of the out topic deliver, by arrival: ``window_start_s``, the workload's
        other columns, ``arrival_s``, ``copy``, ``stability`` (a value of
        `harness.measure.versions.Stability`). Messages that a reader must ignore, because a newer
        incarnation has fenced their sender, are left out."""

    def events(self) -> Sequence[Event]:
        """What it noticed since `begin`, in the order of time. Still known after `end`."""

    def usage(self) -> Mapping[str, Usage]:
        """Of its processes that belong to no node (a driver, a coordinator), by their name;
        cumulative."""

    def truth(self, work: Work) -> pd.DataFrame:
        """The workload's columns, computed over the topics' whole input by another way than the
        one under test: a batch query, or every batch once and in order."""

    def score(self, accurate: pd.DataFrame, delivered: pd.DataFrame, work: Work) -> Scored:
        """How many members of the ``accurate`` results the ``delivered`` ones (by arrival) have,
        in their first and their last versions, by `Workload.members`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNeeds:
    """What a scheme asks of a cluster."""

    summary: str
    """The scheme in one line, for `--help` and the documents."""
    racks: int = 1
    nodes: int = 1
    """Over all racks."""


class EngineKind(ABC):
    """An engine as a choice: what it can do, and how one is opened."""

    name: str
    summary: str
    """One line, for `--help` and the documents."""
    schemes: ClassVar[Mapping[str, ClusterNeeds]]
    parameters: ClassVar[Mapping[str, str]] = {}
    """What `Setup.parameters` may hold, each with what it means."""

    @abstractmethod
    def open(self, setup: Setup, cluster: Cluster) -> AbstractContextManager[Engine]:
        """An engine that is ready; it ends with the context, however that ends."""

    def lacks(self, setup: Setup, workload: Workload, spec: ClusterSpec) -> str | None:
        """Why this engine cannot run a workload under a scheme on a cluster of that shape, in a
        sentence that a record keeps; None if it can. An engine adds limits of its own."""
        needs = self.needs(setup)
        nodes = len(spec.node_names)
        if spec.racks < needs.racks or nodes < needs.nodes:
            return (
                f"{self.name} needs {needs.racks} racks and {needs.nodes} nodes for scheme "
                f"{setup.scheme!r}, and the cluster has {spec.racks} and {nodes}"
            )
        return None

    def needs(self, setup: Setup) -> ClusterNeeds:
        """What the setup's scheme asks for. Raises `UsageError` for a scheme or a parameter that
        the engine does not know."""
        if setup.scheme not in self.schemes:
            raise UsageError(
                f"engine {self.name!r} has no scheme {setup.scheme!r}",
                remedy=did_you_mean(setup.scheme, self.schemes),
            )
        for name in setup.parameters:
            if name not in self.parameters:
                raise UsageError(
                    f"engine {self.name!r} has no parameter {name!r}",
                    remedy=did_you_mean(name, self.parameters),
                )
        return self.schemes[setup.scheme]

    def key(self, setup: Setup) -> str:
        """Setups with equal keys share one warm engine."""
        parameters = "".join(f", {k}={v}" for k, v in sorted(setup.parameters.items()))
        return f"engine {self.name} ({setup.scheme}{parameters})"
