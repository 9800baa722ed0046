"""The contract between a measurement and the engine under test.

An `EngineKind` describes an engine and opens one; `harness.engines.kinds` lists them. An `Engine`
is open under one scheme on one cluster, stays warm between passes, and runs one workload at a time.
`harness.judging.passes` calls it in this order, once a pass::

    begin(work)            the topics exist and hold one marker a partition
    begins_at(instant)     the start of the load, given before its first record is sent
    usage() ...            sampled while the load runs and failures are injected
    raise_problems() ...   called meanwhile
    drain(until, ...) ...  a marker past the last window has been sent to every partition;
                           called again while results or events come
    end()
    read(messages, ...)    the content of the out topic; and events(), the engine's own
    truth(work)            in a pass with failures, after the cluster has been restored

An engine does not measure itself: latency, throughput and equality come from the out topic, by the
broker's clock. Its events hold only what is invisible from outside: when it noticed a failure, and
why. ``tests/engines/contract.py`` checks an engine against all this."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import pandas as pd

from harness.child import Child
from harness.cluster.base import BROKER, Action, Cluster, ClusterSpec, Node, Prepared, Usage
from harness.engines.settings import Setting
from harness.errors import UsageError
from harness.failures.schedule import BUSIEST, ENDS
from harness.load.plan import LoadPlan
from harness.measure.collector import Message
from harness.text import did_you_mean
from workloads.base import Workload

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class EventKind(StrEnum):
    """The kinds of events of an engine."""

    PROGRESS = "progress"
    """A batch was done. ``detail`` has ``batch``, ``rows``, ``duration_s``, ``dropped_rows``
    (rows that came too late to count, which make the run invalid), and additions of the engine."""
    DETECTED = "detected"
    """``target`` is gone; ``cause`` is the sign of it (a closed connection, a missing heartbeat,
    Spark's own report). A ``detail["tasks"]`` that is empty says that it ran no primary."""
    RECOVERED = "recovered"
    """All that ran on ``target`` is where it was before the failure; ``cause`` is the way (a
    replica took over, a checkpoint was restored, sources were replayed)."""
    FAILED = "failed"
    """A part of the engine ended with an error, in ``detail["error"]``."""
    RESTARTED = "restarted"
    """The part that had failed runs again."""
    ADAPTED = "adapted"
    """The plan was changed during the pass; ``detail`` has the tasks ``started`` and ``retired``,
    the ``cost`` in resource units, and the plan's ``value_before`` and ``value_after``."""
    FENCED = "fenced"
    """A copy of ``target`` that had been replaced still published something, and every reader
    drops it. Known once the output has been read."""
    EXECUTORS = "executors"
    """``detail["count"]`` executors or nodes are at work now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One observation of an engine."""

    kind: EventKind
    at_unix_s: float
    copy: int = 0
    """The copy of the query that made it; 0 where there is one."""
    target: str | None = None
    """The node, rack or task concerned."""
    cause: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The scheme and options of an engine; engines with equal setups are interchangeable."""

    scheme: str
    brief: bool = False
    """For the smoke profile, whose figures show only that everything runs (`open_runner` sets
    it)."""
    parameters: DataclassInstance | None = None
    """The engine's own options, an `EngineKind.parameters`; None: its defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of an engine in one pass."""

    name: str
    """The pass's name, unique on its cluster."""
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
    """A new and empty directory on the harness's machine, readable by its owner alone, for logs and
    tables. Files that executors write, too, go to `Cluster.checkpoint_location`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The accuracy of a pass, or the reason why it was not scored."""

    first: float | None = None
    """Share of the twin's members in the first version of the results; None with a reason."""
    last: float | None = None
    reason: str | None = None
    windows: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(columns=["window_start_s", "members", "first", "last"])
    )
    """A row a window: ``window_start_s``, the twin's ``members``, and the numbers of them in the
    ``first`` and the ``last`` versions."""


NOT_SCORED = Scored(reason="it was not scored")


class Engine(Protocol):
    """An open engine.

    Every wait inside has a deadline and ends in an `EnvironmentFailure` with the state of the
    awaited part and its last log lines."""

    @property
    def name(self) -> str:
        """The name of its kind (`EngineKind.name`), which the records of its runs carry."""

    last: str | None
    """The workload of its last pass, empty if something failed in it; None before the first. The
    runner sets it, and warms up by it."""

    def configure(self, setup: Setup) -> None:
        """Take another setup with the same key (`EngineKind.key`) for the passes that follow."""

    def check(self) -> None:
        """Return when all of it is ready for work, after failures too.

        Raises `EnvironmentFailure` if it will not be, so that another engine is opened."""

    def targets(self) -> Sequence[Node]:
        """Return the nodes that can be killed alone and with their rack.

        They are Spark workers, or nodes of the engine's own that it has registered with the cluster
        (`Cluster.register_host`)."""

    def closes_after_s(self, workload: Workload) -> float:
        """Return how long after a window's end late records still count, in event time.

        The first record later than that closes the window, and latency counts from there."""

    def begin(self, work: Work) -> None:
        """Start the work; return when the records already in the topics have been processed."""

    def begins_at(self, unix_s: float) -> None:
        """Take the load's time 0, which is a moment ahead."""

    def drain(self, until_unix_s: float, *, within_s: float) -> bool:
        """Wait until every result of input before that instant has been delivered.

        Returns False if that took too long, which is a finding and not an error. May be called
        again. Raises the errors of `raise_problems`."""

    def raise_problems(self) -> None:
        """Raise if the engine cannot go on.

        `EnvironmentFailure`: a process of its own has ended for good. `UsageError`: the workload is
        the cause."""

    def end(self) -> None:
        """Stop the work; the engine stays. Its topics still exist."""

    def read(self, messages: Sequence[Message], work: Work, start_unix_s: float) -> pd.DataFrame:
        """Return the results in messages of the out topic, by arrival.

        Columns: ``window_start_s``, the workload's other columns, ``arrival_s``, ``copy``,
        ``stability`` (a value of `harness.measure.versions.Stability`). Messages of a sender that a
        newer incarnation has fenced are left out."""

    def events(self) -> Sequence[Event]:
        """Return the events since `begin`, in the order of time; after `end`, too."""

    def settings(self) -> Sequence[Setting]:
        """Return the settings of the work, as asked for and as the running system reports them.

        `begin` raises `EnvironmentFailure` where the two differ (`demand_reported`)."""

    def usage(self) -> Mapping[str, Usage]:
        """Return the usage of processes that belong to no node (a driver, a coordinator), by name.

        It is cumulative."""

    def truth(self, work: Work) -> pd.DataFrame:
        """Compute the workload's columns over the topics' whole input in another way.

        It is a batch query, or every batch once and in order: not the way under test."""


@runtime_checkable
class Divided(Protocol):
    """An engine with parts that are no nodes and can be killed alone, such as a driver."""

    def parts(self) -> Sequence[str]:
        """Return the names of its parts, none of which is a node's or a rack's."""

    def prepare(self, part: str) -> Prepared:
        """Find the processes of a part; `Prepared.apply` kills them."""


def parts_of(engine: Engine) -> Sequence[str]:
    """Return the names of an engine's parts, if it has any that can be killed alone."""
    return engine.parts() if isinstance(engine, Divided) else ()


@dataclass(slots=True, kw_only=True)
class Targets:
    """All that a schedule can name: nodes, racks, servers, the engine's parts, `BUSIEST`."""

    cluster: Cluster
    engine: Engine
    busiest: Callable[[Sequence[str]], str]
    """Returns which of these nodes that is at this moment."""
    _failed: str = ""
    """The node that `BUSIEST` was at its last failure."""

    def prepare(self, action: Action, target: str) -> Prepared:
        """See `Cluster.prepare`; a part can only be killed.

        `BUSIEST` is chosen when its failure is prepared; what ends that failure is for that node.
        """
        if target == BUSIEST:
            if action in ENDS:
                self._failed = self.busiest([node.name for node in self.engine.targets()])
            target = self._failed
        if not isinstance(self.engine, Divided) or target not in self.engine.parts():
            return self.cluster.prepare(action, target)
        if action is not Action.KILL:
            raise UsageError(
                f"{target} is a part of the engine, and a schedule has a {action.value} of it",
                remedy="only kill it: the engine starts it again",
            )
        return self.engine.prepare(target)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNeeds:
    """The requirements of a scheme on a cluster."""

    summary: str
    """The scheme in one line, for `--help` and the documents."""
    racks: int = 1
    nodes: int = 1
    """Over all racks."""


class Guarantee(StrEnum):
    """The promise of an engine about its results, whatever fails."""

    AT_LEAST_ONCE = "at-least-once"
    """None is lost or wrong; one may come again."""
    EXACTLY_ONCE = "exactly-once"
    """None is lost, wrong, or repeated."""


class EngineKind(ABC):
    """An engine as a choice: its schemes, its parameters, and the way to open one."""

    name: str
    summary: str
    """One line, for `--help` and the documents."""
    schemes: ClassVar[Mapping[str, ClusterNeeds]]
    form: ClassVar[str]
    """The form of a workload that it runs, a key of `Workload.forms`."""
    parameters: ClassVar[type[DataclassInstance] | None] = None
    """A frozen dataclass of plain values with defaults, for `Setup.parameters`."""
    servers: ClassVar[frozenset[str]] = frozenset({BROKER})
    """The cluster's servers that it uses, as targets of a schedule."""
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    """Its promise under every setup; experiments know those that some settings add."""

    @abstractmethod
    def open(self, setup: Setup, cluster: Cluster) -> AbstractContextManager[Engine]:
        """Open an engine that is ready; it ends with the context, however that ends."""

    def parts(self, spec: ClusterSpec) -> Sequence[str]:
        """Return the parts that a schedule can kill (`Divided`), where they are processes here."""
        return ()

    def lacks(self, setup: Setup, workload: Workload, spec: ClusterSpec) -> str | None:
        """Return why this engine cannot run a workload under a scheme on such a cluster.

        The reason is a sentence, kept in a record; None if it can. An engine adds its own limits.
        """
        needs = self.needs(setup)
        nodes = len(spec.node_names)
        if spec.racks < needs.racks or nodes < needs.nodes:
            return (
                f"{self.name} needs {needs.racks} racks and {needs.nodes} nodes for scheme "
                f"{setup.scheme!r}, and the cluster has {spec.racks} and {nodes}"
            )
        if self.form not in workload.forms:
            return (
                f"{self.name} runs a workload's form {self.form!r}, and workload "
                f"{workload.name!r} has only {', '.join(map(repr, workload.forms))}"
            )
        return None

    def needs(self, setup: Setup) -> ClusterNeeds:
        """Return the requirements of the setup's scheme.

        Raises `UsageError` for an unknown scheme, and for parameters of another engine."""
        if setup.scheme not in self.schemes:
            raise UsageError(
                f"engine {self.name!r} has no scheme {setup.scheme!r}",
                remedy=did_you_mean(setup.scheme, self.schemes),
            )
        given = setup.parameters
        if given is not None and type(given) is not self.parameters:
            takes = "none" if self.parameters is None else self.parameters.__name__
            raise UsageError(
                f"engine {self.name!r} was given {type(given).__name__} as its parameters",
                remedy=f"give {takes}",
            )
        return self.schemes[setup.scheme]

    def key(self, setup: Setup) -> str:
        """Return a text that is equal for setups that share one warm engine."""
        given = setup.parameters or (self.parameters() if self.parameters else None)
        return f"engine {self.name} ({setup.scheme}, {given})"


def used_by(children: Iterable[Child], method: str) -> Usage:
    """Return the usage of these processes together; None for a value that one of them lacks."""
    each = [child.used() for child in children]
    known = [used for used in each if used is not None]
    whole = len(known) == len(each)
    return Usage(
        cpu_s=sum(cpu_s for cpu_s, _ in known) if whole else None,
        resident_bytes=sum(resident for _, resident in known) if whole else None,
        received_bytes=None,
        sent_bytes=None,
        method=method,
    )
