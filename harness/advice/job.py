"""A job to be advised on, and the values assumed for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UsageError
from harness.intervals.recovery import Load
from harness.intervals.systems import Failure, system_named
from harness.text import format_duration

ASSUMED: Mapping[str, float] = {
    "nodes": 10,
    "racks": 1,
    "depth": 3,
    "speed_per_s": 10_000.0,
    "storage_bytes_per_s": 100e6,
    "budget": 0.5,
}
"""The values for what was not given. An advice names those that it used."""
ASSUMED_SYSTEM = "spark"
ASSUMED_LATENCY_S = 10.0
"""The longest latency that is wanted, where results wait for the interval and it is not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stream-processing job and the machines it runs on. Raises `UsageError`."""

    rate_per_s: float
    """Tuples per second into the whole job."""
    state_bytes: float
    """State of all its tasks together."""
    node_mttf_s: float
    """Mean time to failure of one node."""
    rack_mttf_s: float | None = None
    """Mean time to failure of one rack (a switch, a power line), all of its nodes at once."""
    nodes: int = int(ASSUMED["nodes"])
    racks: int = int(ASSUMED["racks"])
    depth: int = int(ASSUMED["depth"])
    """Operators in a row, each spread over all nodes."""
    window_s: float | None = None
    """Length of the input on which the state depends; source replay cannot be judged without it."""
    speed_per_s: float = ASSUMED["speed_per_s"]
    """Tuples per second that one task can process when it does nothing else."""
    capacity_per_s: float | None = None
    """Tuples per second that the whole job can do at most; None: ``nodes`` times ``speed_per_s``.
    """
    twice_the_rate: bool = False
    """True if ``capacity_per_s`` is only that, because nothing is known of it."""
    storage_bytes_per_s: float = ASSUMED["storage_bytes_per_s"]
    """Bandwidth of one node to and from the checkpoint store."""
    checkpoint_cost_s: float | None = None
    """Time that a checkpoint takes from work; None: as of the system, else to write a node's share
    of the state."""
    system: str = ASSUMED_SYSTEM
    """A key of `harness.intervals.systems.SYSTEMS`."""
    failure: Failure = Failure.PROCESS
    exactly_once: bool = False
    """True if its output is written in transactions."""
    detection_s: float | None = None
    """Time from a failure to its detection; None: as the system's settings decide."""
    restart_s: float | None = None
    """Time until a task runs again, without its state; None: from settings and runs."""
    restore_s: float | None = None
    """Time to get a node's state back; None: its share over ``storage_bytes_per_s``."""
    transaction_s: float | None = None
    """Time from a failure until a lost transaction is settled; None: as the settings decide."""
    interval_s: float | None = None
    """Time between two checkpoints at present, if known."""
    latency_s: float = ASSUMED_LATENCY_S
    """The longest latency of a result that is wanted, if results wait for the interval."""
    budget: float = ASSUMED["budget"]
    """Share of the tasks that may have an active replica under PPA, 0 to 1."""

    def __post_init__(self) -> None:
        system_named(self.system)
        for words, number in (
            ("the rate", self.rate_per_s),
            ("the amount of state", self.state_bytes),
            ("a node's mean time to failure", self.node_mttf_s),
            ("the speed of a task", self.speed_per_s),
            ("what a node stores per second", self.storage_bytes_per_s),
            ("the latency", self.latency_s),
        ):
            if not 0.0 < number < math.inf:
                raise UsageError(f"{words} is {number:g}", remedy="give a number above zero")
        for words, count in (
            ("the number of nodes", self.nodes),
            ("the number of racks", self.racks),
            ("the number of operators in a row", self.depth),
        ):
            if count < 1:
                raise UsageError(f"{words} is {count}", remedy="give at least 1")
        if self.racks > self.nodes:
            raise UsageError(
                f"{self.racks} racks hold {self.nodes} nodes",
                remedy="give no more racks than nodes",
            )
        if not 0.0 <= self.budget <= 1.0:
            raise UsageError(
                f"the budget is {self.budget:g}", remedy="give a share of the tasks, 0 to 1"
            )
        if self.capacity_per_s is None and self.task_rate_per_s >= self.speed_per_s:
            raise UsageError(
                f"each of {self.nodes} tasks gets {self.task_rate_per_s:g} tuples/s and processes "
                f"{self.speed_per_s:g}, so it never catches up after a failure",
                remedy="give what the job can do (--capacity), more nodes, or a task's real speed",
            )
        self.load(0.0)

    def load(self, interval_s: float, capacity_per_s: float | None = None) -> Load:
        """Return what it has to do and can do, with checkpoints so far apart.

        ``capacity_per_s`` replaces its own. Raises `UsageError` if it cannot catch up."""
        return Load(
            rate_per_s=self.rate_per_s,
            capacity_per_s=self.most_per_s if capacity_per_s is None else capacity_per_s,
            interval_s=interval_s,
        )

    @property
    def most_per_s(self) -> float:
        """Tuples per second that it can do at most."""
        if self.capacity_per_s is not None:
            return self.capacity_per_s
        return self.nodes * self.speed_per_s

    @property
    def checkpoint_s(self) -> float:
        """Cost of one checkpoint."""
        if self.checkpoint_cost_s is not None:
            return self.checkpoint_cost_s
        chosen_s = system_named(self.system).checkpoint_s
        return self.transfer_s if chosen_s is None else chosen_s

    @property
    def checkpoint_why(self) -> str:
        """The source of that cost."""
        if self.checkpoint_cost_s is not None:
            return "--checkpoint-cost"
        system = system_named(self.system)
        if system.checkpoint_s is not None:
            return f"assumed: give --checkpoint-cost; {system.checkpoint_why}"
        return "a node's state, to the store: give --checkpoint-cost if it is less"

    @property
    def waits(self) -> str:
        """The reason why its results wait for the interval; empty if they do not."""
        return system_named(self.system).waiting(exactly_once=self.exactly_once)

    @property
    def task_rate_per_s(self) -> float:
        """Tuples per second into one task of an operator."""
        return self.rate_per_s / self.nodes

    @property
    def task_state_bytes(self) -> float:
        """State of one node."""
        return self.state_bytes / self.nodes

    @property
    def transfer_s(self) -> float:
        """Time to write, or to read, one node's share of the state."""
        return self.task_state_bytes / self.storage_bytes_per_s

    @property
    def failure_rate_per_s(self) -> float:
        """Failures per second of all nodes and racks together."""
        racks = self.racks / self.rack_mttf_s if self.rack_mttf_s else 0.0
        return self.nodes / self.node_mttf_s + racks

    def describe(self) -> str:
        """Return the job in a line."""
        state_mb = self.state_bytes / 1e6
        racks = "rack" if self.racks == 1 else "racks"
        return (
            f"{self.rate_per_s:,.0f} tuples/s, {state_mb:,.6g} MB of state, {self.nodes} nodes in "
            f"{self.racks} {racks}; a node or a rack fails every "
            f"{format_duration(1.0 / self.failure_rate_per_s)} on average"
        )
