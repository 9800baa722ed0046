"""What each kind of fault does to a world, and how it is undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from harness.engines.tasks.virtual import broker as kafka
from harness.engines.tasks.virtual import server as redis
from harness.simulator.faults import ONE_WAY, Fault, FaultKind, Peer

if TYPE_CHECKING:
    from harness.engines.tasks.virtual.cluster import HostWorld

COORDINATOR = "10.0.0.1"
BUSY_S = 3.0
LOST_S = 1.0
"""What a failover loses."""
KEPT_S = 2.0
"""What is left of a source's records after the broker's retention."""
HOUR_US = 3_600_000_000
Heal = Callable[[], None]


def address(node: int) -> str:
    """Return a node's address."""
    return f"10.0.1.{node + 1}"


def _kill(world: HostWorld, fault: Fault) -> Heal:
    if fault.kind is FaultKind.COORDINATOR:
        process, start = world.coordinator, world.start_coordinator
    else:
        process = world.nodes[fault.target]

        def start() -> None:
            world.start_node(fault.target)

    assert process is not None
    world.absent[process.name] += 1
    if fault.kind is FaultKind.POWER:
        world.network.cut(process.host, "*", True)
    world.end(process)

    def back() -> None:
        if fault.kind is FaultKind.POWER:
            world.network.cut(process.host, "*", False)
        world.absent[process.name] -= 1
        now = world.coordinator if process is world.coordinator else world.nodes.get(fault.target)
        if not world.absent[process.name] and (now is None or now.dead):
            start()

    return back


def _freeze(world: HostWorld, fault: Fault) -> Heal:
    process = world.nodes[fault.target]
    if fault.kind is FaultKind.STOP_COORDINATOR:
        assert world.coordinator is not None
        process = world.coordinator
    process.freeze(True)
    return lambda: process.freeze(False)


def _cut(world: HostWorld, fault: Fault) -> Heal:
    both_ways = fault.kind not in ONE_WAY
    link = address(fault.target), {
        Peer.ALL: "*", Peer.NODE: address(fault.other), Peer.COORDINATOR: COORDINATOR,
        Peer.STORE: redis.HOST, Peer.LOG: kafka.HOST,
    }[_PEERS.get(fault.kind, fault.peer)]  # fmt: skip
    one, other = reversed(link) if fault.kind is FaultKind.DEAF else link
    world.network.cut(one, other, True, both_ways=both_ways)
    return lambda: world.network.cut(one, other, False, both_ways=both_ways)


def _of_a_host(world: HostWorld, fault: Fault) -> Heal:
    host = address(fault.target)
    counter, more = {
        FaultKind.WIRE: (world.network.damages, 1),
        FaultKind.TRICKLE: (world.network.slow, 1),
        FaultKind.CLOCK: (world.loop.ahead_us, fault.amount * HOUR_US),
    }[fault.kind]
    counter[host] += more
    return lambda: counter.update({host: -more})


def _reset(world: HostWorld, fault: Fault) -> None:
    """Reset connections, before or within what is about to be sent."""
    process = world.nodes[fault.target]
    for end in list(world.network.ends):
        if end.process is process and not end.gone and not end.closed:
            if fault.kind is FaultKind.TEAR:
                end.torn = True
            else:
                world.network.reset(end)


def _busy(world: HostWorld, fault: Fault) -> Heal:
    process, more_us = world.nodes[fault.target], round(BUSY_S * 1e6)
    process.slow_us += more_us

    def over() -> None:
        process.slow_us -= more_us

    return over


def _state(world: HostWorld, fault: Fault) -> Heal:
    """Change one value of a process, of the store or of the log."""
    process, server, broker = world.nodes[fault.target], world.server, world.broker
    owner, name, during, usual = {
        FaultKind.DESCRIPTORS: (process, "no_descriptors", True, False),
        FaultKind.THREAD: (process, "bad_threads", True, False),
        FaultKind.STORE_AWAY: (server, "away", True, False),
        FaultKind.STORE_SILENT: (server, "silent", True, False),
        FaultKind.STORE_SLOW: (server, "script_s", 1.0, 0.0),
        FaultKind.STORE_FULL: (server, "full", True, False),
        FaultKind.STORE_CROWDED: (server, "crowded", True, False),
        FaultKind.STORE_LOSSY: (server, "loses_answers", 0.3, 0.0),
        FaultKind.LOG_AWAY: (broker, "away", True, False),
        FaultKind.LOG_SILENT: (broker, "silent", True, False),
        FaultKind.LOG_FULL: (broker, "full", True, False),
        FaultKind.LOG_REFUSES: (broker, "refuses", fault.amount, None),
        FaultKind.LOG_LOSSY: (broker, "loses_answers", 0.3, 0.0),
        FaultKind.LOG_SLOW: (broker, "disk_s", 1.0, 0.0),
        FaultKind.LOG_DAMAGE: (broker, "damages", True, False),
        FaultKind.STORE_DAMAGE: (server, "damages", True, False),
    }[fault.kind]
    setattr(owner, name, during)

    def over() -> None:
        setattr(owner, name, usual)
        server.catch_up()

    return over


def _fail_over(world: HostWorld, fault: Fault) -> None:
    lost = world.server.fail_over(LOST_S)
    world.lost_confirmed |= lost and not world.options.store_replicas


def _rot(world: HostWorld, fault: Fault) -> None:
    world.server.rot()


def _leader(world: HostWorld, fault: Fault) -> Heal:
    for place in world.places:
        world.broker.lag(place)

    def over() -> None:
        for place in world.places:
            world.broker.lead(place)

    return over


def _retention(world: HostWorld, fault: Fault) -> None:
    """Forget output whose end is stored: a broker that forgets more ends the run."""
    for place, sink in world.places.items():
        world.broker.forget(place, below=world.server.end_of(sink, LOST_S))


def _input_retention(world: HostWorld, fault: Fault) -> None:
    before_ms = world.broker.wall_ms() - KEPT_S * 1000
    for place in map(world.job.source, world.options.wiring.sources):
        records = world.broker.partition(place).records
        old = [record.at for record in records if record.time_ms < before_ms]
        world.broker.forget(place, below=old[-1] + 1 if old else 0)
        world.expected.add("{}[{}] cannot be read any further".format(*place))


_KILLS = (FaultKind.KILL, FaultKind.COORDINATOR, FaultKind.POWER)
_PEERS = {
    FaultKind.CUT: Peer.ALL, FaultKind.LINK: Peer.NODE, FaultKind.NO_CONTROL: Peer.COORDINATOR,
    FaultKind.NO_STORE: Peer.STORE, FaultKind.NO_LOG: Peer.LOG,
}  # fmt: skip
FAULTS: Mapping[FaultKind, Callable[[HostWorld, Fault], Heal | None]] = {
    **dict.fromkeys(_KILLS, _kill),
    **dict.fromkeys((FaultKind.FREEZE, FaultKind.STOP_COORDINATOR), _freeze),
    **dict.fromkeys((*_PEERS, *ONE_WAY), _cut),
    **dict.fromkeys((FaultKind.WIRE, FaultKind.TRICKLE, FaultKind.CLOCK), _of_a_host),
    **dict.fromkeys((FaultKind.RESET, FaultKind.TEAR), _reset),
    FaultKind.BUSY: _busy,
    **dict.fromkeys((FaultKind.DESCRIPTORS, FaultKind.THREAD), _state),
    **dict.fromkeys([kind for kind in FaultKind if kind.startswith(("store-", "log-"))], _state),
    FaultKind.LEADER: _leader,
    FaultKind.ROT: _rot,
    FaultKind.RETENTION: _retention,
    FaultKind.INPUT_RETENTION: _input_retention,
    FaultKind.FAILOVER: _fail_over,
}
