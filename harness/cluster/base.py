"""The contract of a cluster backend: real servers, and ways to break them.

A *node* is what is killed alone. A *worker* (one Spark worker process) carries one or several
nodes and never spans racks; for the stock engine a node is a worker. A *rack* is the nodes
that fail together. A *target* is the name of a node ("r1n2") or of a rack ("r1").
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint
from harness.cluster.links import WorkerLink, demand
from harness.cluster.processes import HostProcess
from harness.errors import UsageError
from harness.text import Notify


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """The shape of a cluster. Two equal specs can share one warm cluster."""

    racks: int = 2
    workers_per_rack: int = 1
    nodes_per_worker: int = 1
    cores_per_worker: int = 1
    """Spark task slots of one worker."""
    memory_mb_per_worker: int = 1024

    @property
    def task_slots(self) -> int:
        """Spark task slots of all workers together."""
        return self.racks * self.workers_per_rack * self.cores_per_worker

    @property
    def rack_names(self) -> list[str]:
        """r1, r2 and so on."""
        return [f"r{rack}" for rack in range(1, self.racks + 1)]

    @property
    def node_names(self) -> list[str]:
        """Of every rack in turn."""
        in_rack = range(1, self.workers_per_rack * self.nodes_per_worker + 1)
        return [f"{rack}n{number}" for rack in self.rack_names for number in in_rack]

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value < 1:
                raise UsageError(
                    f"a cluster cannot have {name}={value}", remedy=f"use {name} of at least 1"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What fails alone."""

    name: str
    """"r<rack>n<number in the rack>", both from 1."""
    rack: str
    worker: str
    """"r<rack>w<number in the rack>"; the worker this node lives on."""
    host: str
    """The address its worker is reached at, which Spark uses as its host name."""


TOGETHER = "+"
"""Between nodes to which something is done at the same instant, as one target: "r1n1+r1n2". Their
worker lives on, where they share one."""


class Action(StrEnum):
    """What can be done to a target."""

    KILL = "kill"
    """SIGKILL to every process of the node."""
    RESTART = "restart"
    """Start a killed node again, empty; one that lives is left alone. Returns once it is
    started: `Cluster.alive` tells when the master knows it. Where nodes share a worker it starts
    a dead worker, and the engine starts the node on it."""
    PAUSE = "pause"
    """Freeze every process of the node; its connections stay open."""
    RESUME = "resume"
    CUT = "cut"
    """No byte in or out (Kafka, Redis and driver included); its processes live."""
    HEAL = "heal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One node an action really reached."""

    node: str
    reached: bool
    """Whether it was done: the node lived (a restart: was dead) and the backend saw that it took
    effect. This, not a pid, is the proof of a kill: some backends have no pids to show."""
    at_unix_s: float
    """When it was done: when the last process had been signalled, when the command came back."""
    began_unix_s: float | None = None
    """Just before the first signal: between the two instants it happened. Where a backend does not
    say, only the later one is known."""
    executors: int | None = None
    """How many executors, or registered hosts of a node, were among what it was done to: a worker
    on which nothing ran is no failure of an engine. None where the backend cannot see them."""
    processes: tuple[int, ...] = ()
    """The pids it was done to, as the harness's machine numbers them; empty where they cannot be
    known. When a rack with several nodes to a worker is killed, the worker's own processes stand
    with its first node."""

    @property
    def earliest_unix_s(self) -> float:
        """The first instant at which it can have had an effect. What followed from it counts from
        here, so that no detection or recovery is too short, and none comes before its cause."""
        return self.at_unix_s if self.began_unix_s is None else self.began_unix_s

    @property
    def felt(self) -> bool:
        """Whether an engine must have noticed: reached, and something of an engine ran there."""
        return self.reached and self.executors != 0


class Prepared:
    """An action whose slow part is done: `apply` only has to carry it out. Use it once, as a
    context manager."""

    def __init__(
        self, apply: Callable[[], Sequence[Victim]], close: Callable[[], None] = lambda: None
    ) -> None:
        """Keep what carries the action out, and what gives up the resources held for it."""
        self.apply = apply
        self._close = close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one node's processes have used since they were started."""

    cpu_s: float | None
    resident_bytes: int | None
    received_bytes: int | None
    sent_bytes: int | None
    method: str
    """How it was counted, and why a field is None."""


CLOCK_LIMIT_S = 0.05
"""Half of what the load generator may be late: a clock further off would decide latencies."""


class Cluster(ABC):
    """Kafka, Redis, a Spark master and its workers, started and stopped together."""

    backend: str
    """"local", "docker" or "external"."""
    spec: ClusterSpec
    run: str
    """Random and unique; marks everything that is made for this cluster."""
    run_directory: Path
    """Of the harness's own machine, mode 0700: logs, credentials, files of drivers. Executors may
    not see it: see `checkpoint_location`."""

    @abstractmethod
    def start(self, report: Notify) -> None:
        """Start every server and return when all of them answer.

        Raises `harness.errors.EnvironmentFailure` with the failed process's state and its last
        log lines; nothing is left running then.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop every process of this cluster, remove what it made. May be called twice."""

    @abstractmethod
    def release(self) -> None:
        """Let the cluster outlive this process, until `faultline cluster down`."""

    @property
    @abstractmethod
    def kafka(self) -> KafkaEndpoint:
        """How clients reach the broker."""

    @property
    @abstractmethod
    def redis(self) -> RedisEndpoint:
        """How clients reach Redis."""

    @abstractmethod
    def spark_conf(self, *, racks: Sequence[str] | None = None) -> dict[str, str]:
        """Configuration for an application on this cluster: master, authentication, jars, Python.

        With ``racks`` (one rack so far) its executors run on those racks only. Holds no secret,
        because PySpark writes its whole configuration onto the command line of the driver's JVM,
        which every user of the machine can read; the secret comes with `driver_environment`.
        """

    @abstractmethod
    def driver_environment(self) -> dict[str, str]:
        """The whole environment of a driver process (PATH, JAVA_HOME, SPARK_CONF_DIR, ...).

        Give them to a process of its own, as the environment it is started with: they mark it
        as part of this cluster, and it ends with the cluster at the latest. SPARK_CONF_DIR
        leads to the secret that the master asks for, so they must be there before PySpark
        starts its JVM.
        """

    @property
    def harness_host(self) -> str:
        """The address of the harness's machine as executors reach it: where whatever they are to
        connect to must listen."""
        return self.spark_conf()["spark.driver.host"]

    @abstractmethod
    def health(self) -> None:
        """Return if Kafka, Redis and the Spark master live; a dead node is not ill health.

        Raises `harness.errors.EnvironmentFailure` that names the server that died, how, and its
        last log lines. Cheap enough to call every second.
        """

    @abstractmethod
    def register_host(self, node: str, host: HostProcess) -> None:
        """Tell the cluster that ``node`` lives in the process ``host`` and its descendants.

        Needed where several nodes share a worker: only the engine knows which process hosts
        which node, and without it `apply` cannot tell them apart. A later registration of the
        same node replaces the earlier one (a new incarnation). The node's own process says who it
        is (`HostProcess.here`): its pid may be another one, or nobody's, on the harness's machine.
        Raises `UsageError` where a node is a whole worker, or when there is no such process on
        that worker.
        """

    @abstractmethod
    def scratch(self, name: str) -> Path:
        """A directory of the harness's own machine for the files of one run, until `tidy`."""

    @abstractmethod
    def checkpoint_location(self, name: str) -> str:
        """A URI that drivers and executors can both write below; new for a new ``name``.

        It lives until `tidy` or `stop`. Raises `UsageError` for a name that is no plain word.
        """

    @abstractmethod
    def tidy(self) -> None:
        """Remove what ended runs left on a warm cluster: checkpoints, files of dead executors.

        Call it between runs, when no query is running. What running applications need stays.
        Raises `EnvironmentFailure` when too little disk is left for another run.
        """

    def clock_offset_s(self) -> Mapping[str, float | None]:
        """How far each node's clock is ahead of the harness's; None where it cannot be asked.

        Latencies subtract two clocks, so `start` and `restore` refuse a cluster with a clock that
        is off by more than `CLOCK_LIMIT_S`.
        """
        return dict.fromkeys((node.name for node in self.nodes()), 0.0)

    @abstractmethod
    def nodes(self) -> Sequence[Node]:
        """What can fail, as it stands now, in the order of `ClusterSpec.node_names`."""

    @abstractmethod
    def alive(self) -> Mapping[str, bool]:
        """Node name to whether its worker is registered with the master and not cut or paused."""

    @abstractmethod
    def capabilities(self) -> frozenset[Action]:
        """What `apply` can do; known before `start`."""

    @abstractmethod
    def apply(self, action: Action, target: str) -> Sequence[Victim]:
        """Do ``action`` to a node or a rack and return what it really reached.

        Raises `UsageError` for a target that does not exist or an action that this backend
        cannot do (the message says why, and what to use instead).
        """

    def prepare(self, action: Action, target: str) -> Prepared:
        """Do the slow part of an action ahead of its instant; `Prepared.apply` does the rest.

        A backend that finds processes finds them here, so that the first signal leaves without
        delay; a process that appears between the two calls is still found, after the others.
        Errors are those of `apply`, from either call.
        """
        return Prepared(lambda: self.apply(action, target))

    def shapes(self) -> frozenset[str]:
        """Which links `shape` can lay (`harness.cluster.links`: "rate", "latency"), found out by
        trying; known once the cluster is started."""
        return frozenset()

    def shape(self, target: str, link: WorkerLink | None) -> None:
        """Lay a link under every worker of a node or rack, until another one, None, or `restore`.

        It lies beneath all that the worker sends and receives, and outlives its processes. Raises
        `UsageError` for a link that this backend, or this kernel, cannot lay.
        """
        self.resolve(target)
        if link is not None:
            demand(link, self.shapes(), self.backend)

    @abstractmethod
    def restore(self, report: Notify) -> None:
        """Bring every node back to life: heal, resume and restart whatever is needed, and wait;
        take declared links away."""

    def reshape(self, spec: ClusterSpec, report: Notify) -> bool:
        """Take another shape, with nodes that are all new, while Kafka, Redis and the master go
        on; whatever ran on the workers has been ended. False, with nothing changed, where a backend
        cannot: then a new cluster takes the place of this one.

        Raises `harness.errors.EnvironmentFailure` as `start` does.
        """
        return False

    @abstractmethod
    def usage(self) -> Mapping[str, Usage]:
        """Per node, cumulative over its incarnations since the cluster started."""

    def resolve(self, target: str) -> Sequence[Node]:
        """The nodes a target names: itself, all of its rack, or several with a plus between
        them."""
        names = target.split(TOGETHER)
        found = [n for n in self.nodes() if n.name in names or n.rack in names]
        if not set(names) <= {name for node in found for name in (node.name, node.rack)}:
            nodes = ", ".join(node.name for node in self.nodes())
            racks = ", ".join(sorted({node.rack for node in self.nodes()}))
            raise UsageError(
                f"this cluster has no node or rack {target!r}",
                remedy=f"use one of its nodes ({nodes}) or racks ({racks})",
            )
        return found

    def is_rack(self, target: str) -> bool:
        """Whether a target is a rack, whose workers go as a whole."""
        return target in {node.rack for node in self.nodes()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
