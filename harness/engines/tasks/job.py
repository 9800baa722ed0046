"""The job of all processes of one pass: the program, the scheme, the nodes, the topics.

A `Job` is plain data. It crosses the control connection as JSON, so that no network data is ever
unpickled; each process builds the program anew from the workload's reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec

from harness.engines.tasks.control import MOST_BYTES, body_of
from harness.engines.tasks.pacing import Links, Speed
from harness.errors import FaultlineError, UsageError
from harness.hosting.codec import CorruptData, from_parts, to_parts
from harness.hosting.program import Program, host
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.scheme import Scheme
from harness.protocol.wiring import Wiring
from workloads.base import Reference, Workload
from workloads.files import carry
from workloads.toolkit import operators as tables


@dataclass(frozen=True, kw_only=True)
class Job:
    """One pass of a workload under a scheme."""

    run: str
    """Keeps this pass's keys in Redis apart from those of others."""
    workload: Reference
    files: Mapping[str, str] = field(default_factory=dict)
    """Path to text of the file that the workload is from: executors may not have it."""
    choices: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the workload's program."""
    start_us: int
    """Time 0 of the load, microseconds since the epoch: where batch 0 begins."""
    batch_us: int
    scheme: Scheme
    nodes: tuple[NodeInfo, ...]
    placement: tuple[int, ...]
    """Task to the node of its first primary."""
    replicas_at: tuple[int, ...] = ()
    """Task to the node of its replica, -1 where there is none or any node will do; empty: any
    node, on another rack if there is one."""
    topic_of: Mapping[str, str]
    out_topic: str
    out_partitions: int
    ordinary_columns: tuple[str, ...] = ()
    """The columns of a result, where each is a record of its own
    (`harness.engines.tasks.records`); empty: a record is all results of a batch."""
    notes_progress: bool = True
    """True if nodes note every batch of a primary, which measuring recoveries needs."""
    by_connection: bool = True
    """True if the end of a node's connection counts as its death; False: missing heartbeats
    alone."""
    speed: Speed = field(default_factory=Speed)
    """Declared, of every node."""
    links: Links = field(default_factory=Links)
    """Declared, between the nodes."""

    @cached_property
    def code(self) -> tables.TableProgram:
        """The workload's topology and its tasks' code.

        Raises `UsageError` if they cannot be built in this process."""
        carry(self.files)
        try:
            return _code_of(self.workload.build(), self.start_us, self.batch_us, self.choices)
        except FaultlineError:
            raise
        except Exception as error:
            raise UsageError(
                f"{self.workload.target} cannot be built: {type(error).__name__}: {error}",
                remedy="a workload's file is carried to the executors as it is: what it imports or "
                "reads must be there, too",
            ) from error

    @cached_property
    def program(self) -> Program:
        """The tasks as the protocol numbers them."""
        return hosted(self.code)

    @cached_property
    def begin(self) -> bytes:
        """The coordinator's frame that begins the pass on a node.

        Raises `UsageError` if no node would take it."""
        body = body_of({"begin": self.to_json()})
        if len(body) > MOST_BYTES:
            raise UsageError(
                f"{self.workload.target} is {len(body) / 1e6:,.0f} MB with its parameters, and "
                f"nodes take {MOST_BYTES / 1e6:,.0f} MB",
                remedy="let the workload read large data where it runs, or from a topic, instead "
                "of its own file and its parameters",
            )
        return body

    @property
    def wiring(self) -> Wiring:
        """The wiring of the program's tasks."""
        return self.program.wiring

    def source(self, task: int) -> tuple[str, int]:
        """Return the topic and partition that a source task reads."""
        operator, index = self.code.topology.place(task)
        return self.topic_of[self.code.sources[operator]], index

    def out_partition(self, sink: int) -> int:
        """Return the output partition of a sink task.

        Several sinks may share a partition: a header tells them apart."""
        return self.wiring.sinks.index(sink) % self.out_partitions

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.to_builtins(self)
        for name in ("scheme", "nodes"):
            document[name] = to_parts(getattr(self, name))[0].decode()
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the job in a document; raise `CorruptData` if there is none."""
        try:
            parts = {name: from_parts(document[name]) for name in ("scheme", "nodes")}
            return msgspec.convert({**document, **parts}, cls)
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise CorruptData(f"no job: {type(error).__name__}: {error}") from error


def files_of(workload: Reference) -> dict[str, str]:
    """Return the workload's own file with its text, if it is from one."""
    if not workload.is_file:
        return {}
    path = Path(workload.target.rpartition(":")[0]).resolve()
    return {str(path): path.read_text(encoding="utf-8")}


def hosted(code: tables.TableProgram) -> Program:
    """Return a workload's program for the protocol; its sources read from Kafka."""

    def read(operator: str, index: int, batch: int) -> Any:
        raise AssertionError("a live source reads from its log")

    return host(code.topology, task=code.task, read=read)


def wiring_for(workload: Workload, batch_us: int, choices: Mapping[str, Any]) -> Wiring:
    """Return the wiring of a workload's program, the same at any start."""
    return hosted(_code_of(workload, 0, batch_us, choices)).wiring


def _code_of(
    workload: Workload, start_us: int, batch_us: int, choices: Mapping[str, Any]
) -> tables.TableProgram:
    timeline = tables.timeline_of(workload, start_us=start_us, batch_s=batch_us / 1_000_000)
    return tables.program_of(workload, timeline=timeline, **choices)


def spread(
    wiring: Wiring, nodes: Sequence[NodeInfo], *, late: Set[int] = frozenset()
) -> tuple[int, ...]:
    """Deal primaries out over the nodes one by one, the racks in turn, without ``late`` ones."""
    racks: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        if number not in late:
            racks.setdefault(node.rack, []).append(number)
    longest = max(len(members) for members in racks.values())
    order = [m[i] for i in range(longest) for m in racks.values() if i < len(m)]
    return tuple(order[task % len(order)] for task in wiring.tasks)


def slots_per_node(copies: int, racks: Mapping[str, int]) -> int:
    """Return the slots with which every copy has a place without the largest rack.

    ``racks`` is the name of each to its number of nodes; with one rack, one node is taken away."""
    nodes = sum(racks.values())
    left = nodes - (max(racks.values()) if len(racks) > 1 else 1)
    if left < 1:
        raise UsageError(
            "one node cannot recover from its own loss", remedy="use a cluster with 2 or more nodes"
        )
    return max(1, math.ceil(copies / left))
