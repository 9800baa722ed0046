"""The contract of a cluster backend: real servers, and ways to break them.

A *node* is what is killed alone. A *worker* (one Spark worker process) carries one or several
nodes and never spans racks; for the stock engine a node is a worker. A *rack* is the nodes
that fail together. A *target* is the name of a node ("r1n2") or of a rack ("r1"). A *program* is a
process of an engine that is not Spark, started on a node (`Cluster.launch`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from harness.cluster.clocks import SAME, Sample
from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint
from harness.cluster.links import WorkerLink, demand
from harness.cluster.processes import HostProcess
from harness.errors import EnvironmentFailure, UsageError
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
    append_only: bool = False
    """True if a local Redis writes an append-only file, as a server whose restart is survived."""

    @property
    def task_slots(self) -> int:
        """Spark task slots of all workers together."""
        return self.racks * self.workers_per_rack * self.cores_per_worker

    @property
    def memory_mb_per_node(self) -> int:
        """Memory of each node: equal parts of its worker's."""
        return self.memory_mb_per_worker // self.nodes_per_worker

    @property
    def rack_names(self) -> list[str]:
        """The racks' names: r1, r2 and so on."""
        return [f"r{rack}" for rack in range(1, self.racks + 1)]

    @property
    def rack_of(self) -> dict[str, str]:
        """The rack of each node, rack by rack."""
        in_rack = range(1, self.workers_per_rack * self.nodes_per_worker + 1)
        return {f"{rack}n{number}": rack for rack in self.rack_names for number in in_rack}

    @property
    def node_names(self) -> list[str]:
        """The nodes' names, rack by rack."""
        return list(self.rack_of)

    def demand_within(self, sizes: Sequence[int], path: Path) -> None:
        """Raise `UsageError` where a file describes racks of ``sizes`` workers, and these are few.

        More racks than are asked for may have fewer workers."""
        if len(sizes) < self.racks or min(sizes[: self.racks]) < self.workers_per_rack:
            raise UsageError(
                f"{self.racks} rack(s) of {self.workers_per_rack} worker(s) were asked for, and "
                f"{path} has {len(sizes)} rack(s) of {', '.join(map(str, sizes))} worker(s)",
                remedy="describe more of them, or run what needs fewer",
            )

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if type(value) is int and value < 1:
                raise UsageError(
                    f"a cluster cannot have {name}={value}", remedy=f"use {name} of at least 1"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The smallest unit that fails alone."""

    name: str
    """"r<rack>n<number in the rack>", both from 1."""
    rack: str
    worker: str
    """"r<rack>w<number in the rack>": the worker under this node."""
    host: str
    """The worker's address, which Spark uses as its host name."""


def nodes_of(spec: ClusterSpec, host: Callable[[int, int], str]) -> tuple[Node, ...]:
    """Return every node of that shape; ``host(rack, worker)``, both from 1, is an address."""
    return tuple(
        Node(
            name=f"r{rack}n{(worker - 1) * spec.nodes_per_worker + number}",
            rack=f"r{rack}",
            worker=f"r{rack}w{worker}",
            host=host(rack, worker),
        )
        for rack in range(1, spec.racks + 1)
        for worker in range(1, spec.workers_per_rack + 1)
        for number in range(1, spec.nodes_per_worker + 1)
    )


TOGETHER = "+"
"""Separator of nodes in one target, for an action on all of them at the same instant: "r1n1+r1n2".
A worker that they share lives on."""


BROKER, STORE = "broker", "store"
"""Targets that are servers of the cluster: Kafka's broker, and Redis, the store of checkpoints.
Further brokers are `broker2` and so on."""


class Action(StrEnum):
    """An action on a target."""

    KILL = "kill"
    """SIGKILL to every process of the node."""
    RESTART = "restart"
    """Start a killed node again, empty, with its programs; a living one is left alone. Returns once
    it is started; `Cluster.alive` becomes True when the master has registered it. Where nodes share
    a worker, a dead worker is started, and the engine starts the node on it."""
    PAUSE = "pause"
    """Freeze every process of the node; its connections stay open."""
    RESUME = "resume"
    CUT = "cut"
    """Let no byte in or out (Kafka, Redis and driver included); its processes live."""
    HEAL = "heal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One node of an action's target, and the effect on it."""

    node: str
    reached: bool
    """True if the node lived (for a restart: was dead) and the backend saw the action's effect.
    This, not a pid, proves a kill: some backends have no pids."""
    at_unix_s: float
    """End of the action: just after the last signal, or when the command returned."""
    began_unix_s: float | None = None
    """Start of the action: just before the first signal. None where only the end is known."""
    executors: int | None = None
    """Number of executors, registered hosts and launched programs that were reached: the end of a
    worker on which nothing ran is not a failure of an engine. None where the backend cannot see
    them."""
    processes: tuple[int, ...] = ()
    """Pids of the processes that were reached, as the harness's machine numbers them; empty where
    they are unknown. When a rack with several nodes to a worker is killed, the worker's own
    processes are counted with its first node."""

    @property
    def earliest_unix_s(self) -> float:
        """The first instant of a possible effect, from which detection and recovery are counted.

        So none is too short, and none precedes its cause."""
        return self.at_unix_s if self.began_unix_s is None else self.began_unix_s

    @property
    def felt(self) -> bool:
        """True if an engine must have noticed: reached, and a part of an engine ran there."""
        return self.reached and self.executors != 0


class Prepared:
    """An action whose slow part is done, as a context manager; `apply` carries it out, once."""

    def __init__(
        self,
        apply: Callable[[], Sequence[Victim]],
        close: Callable[[], None] = lambda: None,
        *,
        at: Callable[[float], None] | None = None,
        lead_s: float = 0.0,
    ) -> None:
        """Keep what carries the action out, and what gives up the resources held for it.

        ``at`` sends it ahead to where it will be carried out, at an instant, by itself; `apply`
        then waits for it. ``lead_s`` is the time that this needs."""
        self.apply = apply
        self.lead_s = lead_s
        self._at, self._close = at, close

    def arm(self, due_unix_s: float) -> None:
        """Have it carried out at that instant, where this can be known ahead."""
        if self._at is not None:
            self._at(due_unix_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


class RunningProgram(ABC):
    """A program that `Cluster.launch` started on a node, over all its incarnations.

    A restart of the node starts it again, unless `stop` ended it before."""

    name: str
    """Unique within the cluster: the node's name and the program's."""
    node: str
    incarnation: int
    """1 for the first start."""
    left_behind: int = 0
    """Processes that lived on when its own one had ended by itself, until `stop` killed them."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Its pid as the node numbers it."""

    @property
    @abstractmethod
    def exit_code(self) -> int | None:
        """None while it lives, frozen or not; negative for the signal that ended it."""

    @property
    def alive(self) -> bool:
        """True while its process exists."""
        return self.exit_code is None

    @property
    @abstractmethod
    def log(self) -> Path:
        """The file in the run directory with the output of the present incarnation."""

    @property
    @abstractmethod
    def directory(self) -> Path:
        """The working directory of the present incarnation."""

    @abstractmethod
    def stop(self, *, within_s: float = 10.0) -> None:
        """End it for good: SIGTERM, and after ``within_s`` SIGKILL to all of its processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Resources that one node's processes have used since they were started."""

    cpu_s: float | None
    resident_bytes: int | None
    received_bytes: int | None
    sent_bytes: int | None
    method: str
    """The way it was counted, and the reason for a field that is None."""


CLOCK_LIMIT_S = 0.05
"""Largest offset of a node's clock: half of the load generator's permitted lateness. A larger one
would decide latencies."""


def demand_near(whose: str, sample: Sample) -> None:
    """Raise `EnvironmentFailure` for a clock that would decide latencies."""
    if sample.certain_s > CLOCK_LIMIT_S:
        raise EnvironmentFailure(
            f"the clock {whose} is {sample.offset_s * 1e3:+.0f} ms off the harness's, known to "
            f"{sample.bound_s * 1e3:.0f} ms; {CLOCK_LIMIT_S * 1e3:.0f} ms are allowed",
            remedy="let both follow the same time servers (chrony, systemd-timesyncd)",
        )


class Cluster(ABC):
    """Kafka, Redis, a Spark master and its workers, started and stopped together."""

    backend: str
    """The name of its kind in records (`harness.cluster.backends`): "local", "docker" and so on.
    The cluster of a file has one like "machines-lab-1f2e3d4c"."""
    spec: ClusterSpec
    run: str
    """A random, unique mark of everything that is made for this cluster."""
    run_directory: Path
    """Directory of the harness's machine, mode 0700: logs, credentials, files of drivers. Executors
    may be unable to see it; see `checkpoint_location`."""

    @property
    def clock_limit_s(self) -> float | None:
        """Largest error of a clock's offset with which times count; None where all are one."""
        return None

    @abstractmethod
    def start(self, report: Notify) -> None:
        """Start every server and return when all of them answer.

        Raises `harness.errors.EnvironmentFailure` with the failed process's state and its last
        log lines; nothing is left running then."""

    @abstractmethod
    def stop(self) -> None:
        """Stop every process of this cluster and remove what it made. May be called twice."""

    @abstractmethod
    def release(self) -> None:
        """Let the cluster outlive this process, until `faultline cluster down`."""

    @property
    @abstractmethod
    def kafka(self) -> KafkaEndpoint:
        """Addresses and credentials of the broker."""

    @property
    @abstractmethod
    def redis(self) -> RedisEndpoint:
        """Address and credentials of Redis."""

    @abstractmethod
    def spark_conf(self, *, racks: Sequence[str] | None = None) -> dict[str, str]:
        """Return the configuration of an application: master, authentication, jars, Python.

        With ``racks`` (one rack so far) its executors run on those racks only. It holds no secret,
        because PySpark writes its whole configuration onto the command line of the driver's JVM,
        which every user of the machine can read; the secret comes with `driver_environment`."""

    @abstractmethod
    def driver_environment(self) -> dict[str, str]:
        """Return the whole environment of a driver process (PATH, JAVA_HOME, SPARK_CONF_DIR, ...).

        Start a process of its own with it: the variables mark the process as part of this cluster,
        and it ends with the cluster at the latest. SPARK_CONF_DIR leads to the secret that the
        master demands, so the variables must be set before PySpark starts its JVM."""

    @property
    def harness_host(self) -> str:
        """The address of the harness's machine for executors. A server for them listens there."""
        return self.spark_conf()["spark.driver.host"]

    @abstractmethod
    def health(self) -> None:
        """Check that Kafka, Redis and the Spark master live; nodes may be dead.

        Raises `harness.errors.EnvironmentFailure` that names the server that died, how, and its
        last log lines. Cheap enough to call every second."""

    @abstractmethod
    def register_host(self, node: str, host: HostProcess) -> None:
        """Register the process ``host``, with its descendants, as the home of ``node``.

        Needed where several nodes share a worker: only the engine can map processes to nodes. A
        later registration of the same node replaces the earlier one (a new incarnation). The node's
        own process gives its identity (`HostProcess.here`), because its pid on the harness's
        machine may be another one. Raises `UsageError` where a node is a whole worker, or when
        there is no such process on that worker."""

    def launch(
        self,
        node: str,
        argv: Sequence[str],
        *,
        name: str = "program",
        env: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> RunningProgram:
        """Start a program on a node and return at once; readiness is for the caller to check.

        The program is part of the node: it is killed, frozen, cut off, counted in `usage` and
        started again with it, and it ends with the cluster, also after a crash of the harness. On
        a node that is one of several on its worker, it belongs to that node alone.

        ``files``, by name, are written into its working directory, which is new for each
        incarnation and readable by its owner only: the place for passwords, because the command
        line and the environment can be read by others. The environment is that of the node's Spark
        worker (PATH, JAVA_HOME, PYTHONPATH, ...), with ``env``. ``name`` tells the programs of a
        node apart. Raises `UsageError` for an unknown or dead node, for a name in use, and on a
        backend that cannot start programs; `EnvironmentFailure` when the start fails."""
        raise UsageError(
            f"a cluster of the backend {self.backend} cannot start {argv[0]} on {node}: it only "
            "uses what others have started",
            remedy="use --cluster local, local-namespaces or docker",
        )

    @abstractmethod
    def scratch(self, name: str) -> Path:
        """Return a directory of the harness's machine for the files of one run, until `tidy`."""

    @abstractmethod
    def checkpoint_location(self, name: str) -> str:
        """Return a URI below which drivers and executors can both write, one for each ``name``.

        It lives until `tidy` or `stop`. Raises `UsageError` for a name that is not a plain word."""

    @abstractmethod
    def tidy(self) -> None:
        """Remove the remains of ended runs: checkpoints, files of dead executors and programs.

        Call it between runs, when no query is running. Files of running applications stay.
        Raises `EnvironmentFailure` when too little disk is left for another run."""

    def clocks(self) -> Mapping[str, Sample | None]:
        """Compare each node's clock with the harness's; None where it is unknown.

        Nodes report instants by their own clocks, so `start` and `restore` refuse a cluster with
        one that is certainly off by more than `CLOCK_LIMIT_S`."""
        return dict.fromkeys((node.name for node in self.nodes()), SAME)

    @abstractmethod
    def nodes(self) -> Sequence[Node]:
        """Return the present nodes, in the order of `ClusterSpec.node_names`."""

    @abstractmethod
    def alive(self) -> Mapping[str, bool]:
        """Return by node: True if its worker is registered, and neither cut nor paused."""

    @abstractmethod
    def capabilities(self) -> frozenset[Action]:
        """Return the actions that `apply` can do; known before `start`."""

    def breakable(self) -> Collection[str]:
        """Return the servers that `prepare` and `apply` take as targets (`BROKER`, `STORE`).

        One that is killed or paused is no error of `health` until it is started again; `restore`
        starts it at the latest. It keeps its addresses and what it had stored."""
        return ()

    @abstractmethod
    def apply(self, action: Action, target: str) -> Sequence[Victim]:
        """Do ``action`` to a node or a rack and return its effect on each node.

        Raises `UsageError` for a target that does not exist or an action that this backend
        cannot do (with the reason, and what to use instead)."""

    def prepare(self, action: Action, target: str) -> Prepared:
        """Do the slow part of an action ahead of its instant; `Prepared.apply` does the rest.

        A backend that finds processes finds them here, so that the first signal leaves without
        delay; a process that appears between the two calls is still found, after the others.
        Errors are those of `apply`, from either call."""
        return Prepared(lambda: self.apply(action, target))

    def shapes(self) -> frozenset[str]:
        """Return the kinds of link that `shape` can lay, found by trying on a started cluster.

        The names are those of `harness.cluster.links`: "rate", "latency", "loss"."""
        return frozenset()

    def shape(self, target: str, link: WorkerLink | None) -> None:
        """Lay a link under every worker of a node or rack, until another one, None, or `restore`.

        It carries all traffic of the worker and outlives the worker's processes. Raises
        `UsageError` for a link that this backend, or this kernel, cannot lay."""
        self.resolve(target)
        if link is not None:
            demand(link, self.shapes(), self.backend)

    @abstractmethod
    def restore(self, report: Notify) -> None:
        """Heal, resume and restart nodes until all live; take declared links away."""

    def reshape(self, spec: ClusterSpec, report: Notify) -> bool:
        """Replace all workers by those of another shape, while Kafka, Redis and the master go on.

        Everything on the old workers is ended. Returns False, with nothing changed, where a backend
        cannot do this: then a new cluster must take the place of this one. Raises
        `harness.errors.EnvironmentFailure` as `start` does."""
        return False

    @abstractmethod
    def usage(self) -> Mapping[str, Usage]:
        """Return the usage by node, added up over its incarnations since the cluster started."""

    def resolve(self, target: str) -> Sequence[Node]:
        """Return the nodes of a target: one, all of a rack, or several joined by a plus."""
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
        """Return True if a target is a rack, whose workers are affected as a whole."""
        return target in {node.rack for node in self.nodes()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
