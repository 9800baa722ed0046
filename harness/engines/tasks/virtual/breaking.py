"""What each kind of fault does to a world, and how it is undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from harness.engines.tasks.virtual import broker as kafka
from harness.engines.tasks.virtual import server as redis
from harness.engines.tasks.virtual.faults import ONE_WAY, HostFault, Kind, Peer

if TYPE_CHECKING:
    from harness.engines.tasks.virtual.cluster import HostWorld

COORDINATOR = "10.0.0.1"
BUSY_S = 3.0
LOST_S = 1.0
"""What a failover loses."""
KEPT_S = 2.0
"""What is left of a source's records after the broker's retention."""
HOUR_US = 3_600_000_000


def address(node: int) -> str:
    """Return a node's address."""
    return f"10.0.1.{node + 1}"


def _kill(world: HostWorld, fault: HostFault) -> Callable[[], None]:
    if fault.kind is Kind.COORDINATOR:
        process, start = world.coordinator, world.start_coordinator
    else:
        process = world.nodes[fault.node]

        def start() -> None:
            world.start_node(fault.node)

    assert process is not None
    world.absent[process.name] += 1
    if fault.kind is Kind.POWER:
        world.network.cut(process.host, "*", True)
    world.end(process)

    def back() -> None:
        if fault.kind is Kind.POWER:
            world.network.cut(process.host, "*", False)
        world.absent[process.name] -= 1
        now = world.coordinator if process is world.coordinator else world.nodes.get(fault.node)
        if not world.absent[process.name] and (now is None or now.dead):
            start()

    return back


def _freeze(world: HostWorld, fault: HostFault) -> Callable[[], None]:
    process = world.nodes[fault.node]
    if fault.kind is Kind.STOP_COORDINATOR:
        assert world.coordinator is not None
        process = world.coordinator
    process.freeze(True)
    return lambda: process.freeze(False)


def _cut(world: HostWorld, fault: HostFault) -> Callable[[], None]:
    both_ways = fault.kind not in ONE_WAY
    link = address(fault.node), {
        Peer.ALL: "*", Peer.NODE: address(fault.other), Peer.COORDINATOR: COORDINATOR,
        Peer.STORE: redis.HOST, Peer.LOG: kafka.HOST,
    }[_PEERS.get(fault.kind, fault.peer)]  # fmt: skip
    one, other = reversed(link) if fault.kind is Kind.DEAF else link
    world.network.cut(one, other, True, both_ways=both_ways)
    return lambda: world.network.cut(one, other, False, both_ways=both_ways)


def _wire(world: HostWorld, fault: HostFault) -> Callable[[], None]:
    return _more(world.network.damages, address(fault.node), 1)


def _step(world: HostWorld, fault: HostFault) -> Callable[[], None]:
    return _more(world.loop.ahead_us, address(fault.node), fault.amount * HOUR_US)


def _more(counter: Counter[str], host: str, more: int) -> Callable[[], None]:
    counter[host] += more

    def over() -> None:
        counter[host] -= more

    return over


def _trickle(world: HostWorld, fault: HostFault) -> Callable[[], None]:
    here = address(fault.node)
    world.network.slow(here, "*", True)
    return lambda: world.network.slow(here, "*", False)


def _reset(world: HostWorld, fault: HostFault) -> None:
    """Reset connections, before or within what is about to be sent."""
    process = world.nodes[fault.node]
    for end in list(world.network.ends):
        if end.process is process and not end.gone and not end.closed:
            if fault.kind is Kind.TEAR:
                end.torn = True
            else:
                world.network.reset(end)


def _busy(world: HostWorld, fault: HostFault) -> Callable[[], None]:
    process = world.nodes[fault.node]
    process.slow_us += round(BUSY_S * 1e6)

    def over() -> None:
        process.slow_us -= round(BUSY_S * 1e6)

    return over


def _descriptors(world: HostWorld, fault: HostFault) -> Callable[[], None]:
    process = world.nodes[fault.node]
    process.no_descriptors = True

    def over() -> None:
        process.no_descriptors = False

    return over


def _server(world: HostWorld, fault: HostFault) -> Callable[[], None]:
    server, broker = world.server, world.broker
    owner, name, during, usual = {
        Kind.STORE_AWAY: (server, "away", True, False),
        Kind.STORE_SILENT: (server, "silent", True, False),
        Kind.STORE_SLOW: (server, "script_s", 1.0, 0.0),
        Kind.STORE_FULL: (server, "full", True, False),
        Kind.STORE_CROWDED: (server, "crowded", True, False),
        Kind.STORE_LOSSY: (server, "loses_answers", 0.3, 0.0),
        Kind.LOG_AWAY: (broker, "away", True, False),
        Kind.LOG_SILENT: (broker, "silent", True, False),
        Kind.LOG_FULL: (broker, "full", True, False),
        Kind.LOG_REFUSES: (broker, "refuses", fault.amount, None),
        Kind.LOG_LOSSY: (broker, "loses_answers", 0.3, 0.0),
        Kind.LOG_SLOW: (broker, "disk_s", 1.0, 0.0),
        Kind.LOG_DAMAGE: (broker, "damages", True, False),
        Kind.STORE_DAMAGE: (server, "damages", True, False),
    }[fault.kind]
    if name == "damages":
        world.expected.add("damaged")  # if it is wrong each time
    setattr(owner, name, during)

    def over() -> None:
        setattr(owner, name, usual)
        server.catch_up()

    return over


def _fail_over(world: HostWorld, fault: HostFault) -> None:
    lost = world.server.fail_over(LOST_S)
    world.lost_confirmed |= lost and not world.options.store_replicas


def _rot(world: HostWorld, fault: HostFault) -> None:
    world.server.rot()
    world.expected.add("damaged")


def _leader(world: HostWorld, fault: HostFault) -> Callable[[], None]:
    for place in world.places:
        world.broker.lag(place)

    def over() -> None:
        for place in world.places:
            world.broker.lead(place)

    return over


def _threads(world: HostWorld, fault: HostFault) -> Callable[[], None]:
    process = world.nodes[fault.node]
    process.bad_threads = True
    world.expected.add("an error that nobody expects")

    def over() -> None:
        process.bad_threads = False

    return over


def _retention(world: HostWorld, fault: HostFault) -> None:
    """Forget output whose end is stored: a broker that forgets more ends the run."""
    for place, sink in world.places.items():
        world.broker.forget(place, below=world.server.end_of(sink, LOST_S))


def _input_retention(world: HostWorld, fault: HostFault) -> None:
    before_ms = world.broker.wall_ms() - KEPT_S * 1000
    for place in map(world.job.source, world.options.wiring.sources):
        records = world.broker.partition(place).records
        old = [record.at for record in records if record.time_ms < before_ms]
        world.broker.forget(place, below=old[-1] + 1 if old else 0)
        world.expected.add("{}[{}] cannot be read any further".format(*place))


_KILLS = (Kind.KILL, Kind.COORDINATOR, Kind.POWER)
_PEERS = {
    Kind.CUT: Peer.ALL, Kind.LINK: Peer.NODE, Kind.NO_CONTROL: Peer.COORDINATOR,
    Kind.NO_STORE: Peer.STORE, Kind.NO_LOG: Peer.LOG,
}  # fmt: skip
FAULTS: Mapping[Kind, Callable[[HostWorld, HostFault], Callable[[], None] | None]] = {
    **dict.fromkeys(_KILLS, _kill),
    **dict.fromkeys((Kind.FREEZE, Kind.STOP_COORDINATOR), _freeze),
    **dict.fromkeys((*_PEERS, *ONE_WAY), _cut),
    Kind.WIRE: _wire,
    Kind.CLOCK: _step,
    Kind.TRICKLE: _trickle,
    **dict.fromkeys((Kind.RESET, Kind.TEAR), _reset),
    Kind.BUSY: _busy,
    Kind.DESCRIPTORS: _descriptors,
    **dict.fromkeys([kind for kind in Kind if kind.startswith(("store-", "log-"))], _server),
    Kind.LEADER: _leader,
    Kind.ROT: _rot,
    Kind.RETENTION: _retention,
    Kind.INPUT_RETENTION: _input_retention,
    Kind.FAILOVER: _fail_over,
    Kind.THREAD: _threads,
}
