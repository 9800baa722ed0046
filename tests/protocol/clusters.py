"""A coordinator and a store that answers at once, for tests of the coordinator's decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from harness.protocol import inputs as told
from harness.protocol.coordinator.machine import SWEEP, CoordinatorMachine
from harness.protocol.coordinator.placement import Placement
from harness.protocol.coordinator.registry import Copy, Registry
from harness.protocol.effects import Effect, Send, SendOrder, StoreRegistry
from harness.protocol.inputs import NodeInfo
from harness.protocol.scheme import Recovery, Scheme
from harness.protocol.wiring import Wiring
from harness.simulator.topologies import chain
from tests.there import there

CAUSE = "test"
BEAT_US = 1000
SUSPECT_US = 5 * BEAT_US

T = TypeVar("T")


def scheme(**options: Any) -> Scheme:
    """Return a scheme, with local checkpoints by default."""
    given: dict[str, Any] = {
        "name": "test",
        "recovery": Recovery.LOCAL,
        "checkpoint_every": 3,
        "heartbeat_us": BEAT_US,
        "suspect_after_us": SUSPECT_US,
        "join_within_us": 20 * BEAT_US,
    }
    return Scheme(**{**given, **options})


def node(number: int, *, slots: int = 1, rack: str = "a") -> NodeInfo:
    return NodeInfo(name=f"node-{number}", rack=rack, slots=slots)


class Cluster:
    """A coordinator that has found ``registry`` in the store, before any node has joined."""

    def __init__(
        self,
        *,
        wiring: Wiring | None = None,
        nodes: Sequence[NodeInfo] | None = None,
        placement: Placement | Sequence[int] = (0, 1),
        owner: int = 1,
        registry: Registry | None = None,
        loads: bool = True,
        **options: Any,
    ) -> None:
        self.machine = CoordinatorMachine(
            wiring=wiring or chain(1),
            scheme=scheme(**options),
            nodes=nodes if nodes is not None else [node(n) for n in range(3)],
            placement=placement,
            owner=owner,
        )
        self.stored: list[Registry] = []
        if loads:
            self.load(registry, now=0)

    def load(self, registry: Registry | None, *, now: int) -> list[Effect]:
        item = told.RegistryLoaded(cause=CAUSE, term=self.machine.ledger.owner, registry=registry)
        return self.tell(item, now=now)

    def tell(self, item: told.CoordinatorInput, *, now: int) -> list[Effect]:
        """Return the effects of ``item``, with the orders that follow its storing."""
        effects = list(self.machine.handle(item, now=now))
        self.machine.validate()
        for effect in list(effects):
            if isinstance(effect, StoreRegistry):
                assert isinstance(effect.registry, Registry)
                self.stored.append(effect.registry)
                answer = told.RegistryStored(cause=CAUSE, version=effect.version)
                effects += self.machine.handle(answer, now=now)
        return effects

    def beat(
        self,
        *nodes: int,
        now: int,
        boot: int = 1,
        copies: Sequence[told.CopyReport] = (),
    ) -> list[Effect]:
        """Send heartbeats of ``nodes``, each with ``copies``."""
        effects: list[Effect] = []
        for number in nodes:
            item = told.HeartbeatReceived(cause=CAUSE, node=number, boot=boot, copies=tuple(copies))
            effects += self.tell(item, now=now)
        return effects

    def sweep(self, now: int) -> list[Effect]:
        return self.tell(told.TimerFired(cause=CAUSE, key=SWEEP), now=now)

    def disconnect(self, number: int, *, now: int, boot: int = 1) -> list[Effect]:
        return self.tell(told.NodeDisconnected(cause=CAUSE, node=number, boot=boot), now=now)

    def primary(self, task: int) -> Copy:
        return there(self.machine.tasks[task].primary)

    def replica(self, task: int) -> Copy:
        return there(self.machine.tasks[task].replica)

    def hosts(self) -> list[int | None]:
        """Return the node of every task's primary."""
        return [a.primary.node if a.primary is not None else None for a in self.machine.tasks]

    def replicas(self) -> list[int | None]:
        """Return the node of every task's replica."""
        return [a.replica.node if a.replica is not None else None for a in self.machine.tasks]


def joined(*numbers: int, **options: Any) -> Cluster:
    """Return a coordinator that the nodes of these numbers have joined."""
    cluster = Cluster(**options)
    cluster.beat(*numbers, now=0)
    return cluster


def in_a_row(*, spare: int, slots: int = 1, **options: Any) -> Cluster:
    """Return a source and two tasks behind it, each on a node of its own, and joined spare ones."""
    nodes = [node(n, slots=slots) for n in range(3 + spare)]
    return joined(*range(3 + spare), wiring=chain(2), nodes=nodes, placement=(0, 1, 2), **options)


def report(copy: Copy, *, position: int = 0, **more: Any) -> told.CopyReport:
    """Return the report of ``copy`` in a heartbeat."""
    given: dict[str, Any] = {"stored": 0, "published": 0, "ready": True, "term": copy.term}
    return told.CopyReport(
        task=copy.task, incarnation=copy.incarnation, position=position, **{**given, **more}
    )


def sent(effects: Sequence[Effect], kind: type[T]) -> list[T]:
    """Return messages and orders of one kind among ``effects``."""
    inner = [
        effect.message if isinstance(effect, Send) else effect.order
        for effect in effects
        if isinstance(effect, Send | SendOrder)
    ]
    return [item for item in inner if isinstance(item, kind)]
