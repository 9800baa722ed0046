"""When the coordinator closes a task, and when it waits for a heartbeat first."""

from __future__ import annotations

from harness.engines.simulated.topologies import chain
from harness.protocol import inputs as told
from harness.protocol.coordinator import SWEEP, CoordinatorMachine
from harness.protocol.effects import Send, StoreRegistry
from harness.protocol.registry import NodeInfo
from harness.protocol.scheme import Recovery, Scheme, Tentative

CAUSE = "test"
BEAT_US = 1000
LOST_AT_US = 1400


class Cluster:
    """A coordinator of a source with a replica and its downstream task; the store answers at once.

    Nothing was ever reported of the replica when its primary's node is lost.
    """

    def __init__(self, *, replicated: tuple[int, ...] = (0,)) -> None:
        self.machine = CoordinatorMachine(
            wiring=chain(1),
            scheme=Scheme(
                name="test",
                recovery=Recovery.LOCAL,
                checkpoint_every=3,
                replicated=replicated,
                tentative=Tentative(),
                heartbeat_us=BEAT_US,
                suspect_after_us=5 * BEAT_US,
            ),
            nodes=[NodeInfo(name=f"node-{n}", rack="a", slots=1) for n in range(3)],
            placement=(0, 1),
            now=0,
        )
        self.tell(told.RegistryLoaded(cause=CAUSE, registry=None), now=0)
        lost = told.NodeDisconnected(cause=CAUSE, node=0, boot=1)
        self.tell(lost, now=LOST_AT_US)
        primary = self.machine.tasks[0].primary
        assert primary is not None
        self.primary = primary

    def tell(self, item: told.CoordinatorInput, *, now: int) -> list[told.UpstreamClosed]:
        """The closings that ``item`` leads to."""
        effects = self.machine.handle(item, now=now)
        self.machine.validate()
        for effect in effects:
            if isinstance(effect, StoreRegistry):
                stored = told.RegistryStored(cause=CAUSE, version=effect.version)
                self.machine.handle(stored, now=now)
        sent = [effect.message for effect in effects if isinstance(effect, Send)]
        return [message for message in sent if isinstance(message, told.UpstreamClosed)]

    def sweep(self, now: int) -> list[told.UpstreamClosed]:
        return self.tell(told.TimerFired(cause=CAUSE, key=SWEEP), now=now)

    def beat(self, *copies: told.CopyReport, now: int) -> None:
        """The new primary's node says what it hosts."""
        item = told.HeartbeatReceived(cause=CAUSE, node=self.primary.node, boot=1, copies=copies)
        self.tell(item, now=now)


def test_a_replica_that_was_not_reported_yet_may_be_there() -> None:
    """The sweep comes before its node's heartbeat: closing its task would be needless."""
    cluster = Cluster()
    primary = cluster.primary
    assert primary.term != primary.incarnation, "the replica was promoted"
    assert cluster.sweep(2000) == []
    report = told.CopyReport(
        task=0,
        incarnation=primary.incarnation,
        term=None,
        position=4,
        stored=0,
        published=0,
        ready=True,
    )
    cluster.beat(report, now=2001)
    assert cluster.sweep(3000) == [], "it is there: the loss is over"


def test_a_replica_that_its_node_does_not_have_is_not_waited_for() -> None:
    cluster = Cluster()
    cluster.beat(now=1500)
    assert [closed.upstream for closed in cluster.sweep(2000)] == [0]


def test_a_replica_of_which_nothing_is_heard_is_waited_for_one_heartbeat() -> None:
    cluster = Cluster()
    assert cluster.sweep(LOST_AT_US + BEAT_US) == []
    assert [closed.upstream for closed in cluster.sweep(LOST_AT_US + BEAT_US + 1)] == [0]


def test_a_task_that_starts_anew_is_closed_at_the_next_sweep() -> None:
    """It had no replica, so nobody has its state or its place in the input."""
    cluster = Cluster(replicated=())
    assert cluster.primary.node == 2
    assert [closed.upstream for closed in cluster.sweep(2000)] == [0]
