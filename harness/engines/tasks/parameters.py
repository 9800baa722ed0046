"""The parameters of the task engine. An experiment builds them; `choices` fits them to a cluster.

All fields are plain values, so that ``TaskParameters(**json.loads(json.dumps(asdict(given))))``
gives the same parameters again. Nodes and tasks are named by their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.engines.tasks.pacing import Links as Links
from harness.errors import UsageError
from harness.protocol.scheme import Corrections, Method, Policy

_ABOVE_ZERO = ("checkpoint_s", "heartbeat_s", "suspect_s", "trim_s")
_NOT_NEGATIVE = (
    "adapt_s", "alternate_s", "bound_s", "tuples_per_s", "copied_tuples_per_s",
    "checkpoint_bytes_per_s",
)  # fmt: skip
_NUMBERS = ("plan", "recovery_order", "placement", "late")


@dataclass(frozen=True, slots=True, kw_only=True)
class Borealis:
    """The choices of a dpc pass beside its bound (`harness.protocol.scheme.Tentative`)."""

    during_failure: Policy = Policy.PROCESS
    during_stabilization: Policy = Policy.PROCESS
    method: Method = Method.CHECKPOINT
    corrections: Corrections = Corrections.DONE
    snapshot_every: int = 0
    partners: bool = False
    """True if the two copies of a task are each other's second version."""
    converges: bool = False
    """True if a replica begins with an empty state and fills it from its input."""
    at_once: Sequence[int] = ()
    """Tasks that take whatever comes at once."""

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            object.__setattr__(self, name, kind(getattr(self, name)))
        object.__setattr__(self, "at_once", _whole("at_once", self.at_once))


_KINDS: Mapping[str, Any] = {
    "during_failure": Policy,
    "during_stabilization": Policy,
    "method": Method,
    "corrections": Corrections,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskParameters:
    """The options of one pass. Raises `UsageError` for values that no cluster could use."""

    checkpoint_s: float = 5.0
    """Seconds between the checkpoints of a task."""
    heartbeat_s: float = 0.25
    """Seconds between the heartbeats of a node."""
    suspect_s: float = 1.0
    """Seconds of silence after which a node counts as lost."""
    trim_s: float = 5.0
    """Seconds between two reports of a primary's progress to its replica."""
    by_connection: bool = True
    """True if the end of a node's connection counts as its death."""
    notes_progress: bool = True
    """True if every batch is noted, which measuring recoveries needs."""
    ordinary_records: bool = False
    """True if every result is a record of its own, a JSON object as of Spark's sink; False: a
    record is all results of a batch, encoded once."""
    gives_way: bool = True
    """True if the driver, which only places nodes, has a lower priority than the nodes; False: all
    processes have the priority of the stock engine's."""
    plan: Sequence[int] = ()
    """The tasks with a replica, for rppg, ppa and dpc."""
    adapt_s: float = 0.0
    """Seconds between adaptations of the plan to the measured rates; 0: it does not change."""
    alternate_s: float = 0.0
    """Seconds after which replicas move from one half of the plan to the other, to measure the cost
    of a change; 0: they do not move."""
    budget: int | None = None
    """The most replicas of an adapted plan; None: as many as ``plan`` has."""
    bound_s: float = 0.0
    """Seconds that a failure must last before output is tentative."""
    borealis: Borealis | None = None
    """Policies of dpc; None: the protocol's own defaults."""
    recovery_order: Sequence[int] = ()
    """The order in which lost tasks get a node; the others follow by number."""
    placement: Sequence[int] = ()
    """Task to the node of its first primary; empty: the racks take turns."""
    replicas_at: Mapping[int, int] = field(default_factory=dict)
    """Task to the node of its replica; a task left out gets a node by rack and load."""
    late: Sequence[int] = ()
    """Nodes that may join while the pass runs."""
    keeps_replicas: bool = False
    """True if a lost task without a free slot waits for a node, and takes no replica's place."""
    slots: int | Sequence[int] | None = None
    """Copies that each node takes, one number for all or one a node; None: enough to bear the loss
    of the largest rack."""
    tuples_per_s: float = 0.0
    """Declared speed of a node; 0: no limit."""
    copied_tuples_per_s: float = 0.0
    """Declared speed of copying state before the first tentative batch; 0: ``tuples_per_s``."""
    checkpoint_bytes_per_s: float = 0.0
    """Declared speed of checkpoints; 0: no limit."""
    restart_s: float | Sequence[float] = 0.0
    """Shortest absence of a dead node in seconds, one number for all or one a node."""
    links: Links = field(default_factory=Links)
    """Declared delays and bandwidth between nodes."""

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            self._set(name, _whole(name, getattr(self, name)))
        if not isinstance(self.slots, int | None):
            self._set("slots", _whole("slots", self.slots))
        if not isinstance(self.restart_s, int | float):
            self._set("restart_s", tuple(float(seconds) for seconds in self.restart_s))
        replicas = {int(task): int(node) for task, node in self.replicas_at.items()}
        self._set("replicas_at", replicas)
        chosen: Any = self.borealis
        if isinstance(chosen, Mapping):  # from JSON
            self._set("borealis", Borealis(**chosen))
        if isinstance(self.links, Mapping):
            self._set("links", Links(**self.links))
        for name in (*_ABOVE_ZERO, *_NOT_NEGATIVE):
            value = getattr(self, name)
            if value < 0 or (value == 0 and name in _ABOVE_ZERO):
                least = "a number above 0" if name in _ABOVE_ZERO else "0 or more"
                raise UsageError(f"{name} is {value}", remedy=f"give {least}")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def _whole(name: str, values: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers as a tuple; raise `UsageError` for text and for negative numbers."""
    if not all(type(each) is int and each >= 0 for each in values):
        raise UsageError(
            f"{name} is {values!r}", remedy="give a sequence of whole numbers: (0, 3, 4)"
        )
    return tuple(values)
