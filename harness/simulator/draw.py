"""All options of a random run, drawn from one seed.

Each group of options has a generator of its own, derived from the seed by name, so fixing one of
them (a scheme, a topology, fewer faults) leaves the others as they were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from msgspec import structs

from harness.protocol.coordinator.placement import (
    Near,
    Placement,
    Planned,
    Preferring,
    SameTier,
    Spread,
    Standby,
    in_order,
    other_rack,
    same_rack,
)
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.scheme import (
    Closing,
    Corrections,
    Method,
    Policy,
    Recovery,
    Scheme,
    Tentative,
)
from harness.protocol.schemes import SCHEMES, Replicas, family, make_scheme
from harness.protocol.wiring import Wiring
from harness.seeds import derive_seed
from harness.simulator.faults import FOR_GOOD, OF_THE_PROTOCOL, Fault, FaultKind
from harness.simulator.options import Costs, Network, Options
from harness.simulator.topologies import TOPOLOGIES, named
from harness.simulator.transport import COORDINATOR

INTERVAL_US = 1_000_000
AMOUNTS = {
    FaultKind.BUSY: (3, 10, 40),
    FaultKind.DRIFT: (-300, -50, 50, 300),
    FaultKind.WEATHER: (2, 10, 30),
}


def draw(
    seed: int,
    *,
    scheme: str | None = None,
    topology: str | None = None,
    wiring: Wiring | None = None,
    batches: int = 30,
) -> Options:
    """Return the run for ``seed``; None as an option draws that one too.

    ``wiring`` is a topology of the caller's own, and ``topology`` then only its name."""

    def random(name: str) -> Random:
        return Random(derive_seed(seed, "schedule", name))

    name = scheme or random("scheme").choice(list(SCHEMES))
    shape = topology or random("topology").choice([t for t in TOPOLOGIES if t != "recovery"])
    if wiring is None:
        wiring = draw_sources(named(shape, random("wiring")), random("sources"))
    chosen = draw_scheme(name, wiring, random("options"))
    chosen = replace(chosen, window=draw_window(chosen, wiring, random("window")))
    nodes, placement = draw_nodes(wiring, chosen, random("nodes"))
    options = Options(
        seed=seed,
        topology=shape,
        wiring=wiring,
        scheme=chosen,
        nodes=nodes,
        placement=placement,
        batches=batches,
        interval_us=INTERVAL_US,
        tuples=10,
        costs=draw_opening(draw_costs(random("costs")), random("opening")),
        network=draw_links(draw_network(random("network")), random("links")),
        lanes=random("lanes").choice((1, 1, 2)),
    )
    options = draw_start(options, random("start"))
    faults = (
        *options.faults,
        *draw_faults(options, random("faults")),
        *draw_store_outage(options, random("knot")),
        *draw_rival(options, random("rival")),
        *draw_raise(options, random("raise")),
        *draw_full(options, random("full")),
        *draw_forgetting(options, random("forget")),
        *draw_one_way(options, random("one way")),
    )
    options = replace(options, strategy=draw_strategy(options, random("strategy")))
    options = draw_together(options, random("together"))
    faults = draw_lasting(options, faults, random("lasting"))
    return replace(options, faults=tuple(sorted(faults, key=lambda fault: fault.at_us)))


def draw_sources(wiring: Wiring, random: Random) -> Wiring:
    """Make sources remember as much as the tasks behind them, in one schedule of four."""
    if random.random() >= 0.25:
        return wiring
    most = max(wiring.memory)
    memory = (most if task in wiring.sources else m for task, m in enumerate(wiring.memory))
    return replace(wiring, memory=tuple(memory))


def draw_scheme(name: str, wiring: Wiring, random: Random) -> Scheme:
    """Draw intervals, plan and policies of the scheme ``name``."""
    kind = family(name)
    every = random.randint(1, 6)
    inner = [task for task in wiring.tasks if wiring.upstream[task]]
    some = tuple(sorted(random.sample(inner, random.randint(0, len(inner)))))
    order = list(wiring.tasks)
    random.shuffle(order)
    beat = random.choice((500_000, 1_000_000, 2_000_000))
    return make_scheme(
        name,
        wiring,
        checkpoint_every=every,
        trim_every_us=random.choice((1, 2, 5)) * 1_000_000,
        recovery_order=tuple(order),
        heartbeat_us=beat,
        suspect_after_us=beat * random.choice((2, 3)) + beat // 2,
        plan=some if kind.replicas is Replicas.PLANNED else (),
        tentative=None if kind.closing is None else _tentative(kind.closing, random),
    )


def _tentative(closing: Closing, random: Random) -> Tentative:
    bounds = {
        Closing.COORDINATOR: (0, 0, 2_000_000, 5_000_000),
        Closing.TASK: (500_000, 1_500_000, 4_000_000),
    }
    method = random.choice(list(Method))
    rules = Tentative(
        bound_us=random.choice(bounds[closing]),
        during_failure=random.choice((Policy.PROCESS, Policy.PROCESS, Policy.DELAY)),
        during_stabilization=random.choice(list(Policy)),
        method=method,
        snapshot_every=random.choice((0, 0, 3)),
        corrections=random.choice(list(Corrections)),
        interval_us=random.choice((0, INTERVAL_US)),
    )
    if closing is Closing.COORDINATOR:
        return rules
    return replace(rules, partners=random.random() < 0.5, converges=random.random() < 0.5)


def draw_window(scheme: Scheme, wiring: Wiring, random: Random) -> int:
    """Draw the window; in half of the schedules buffers are small enough to be full at times."""
    least = (scheme.checkpoint_every or 5) + 1 + scheme.kept(max(wiring.memory))
    return random.choice((least, least + 2, 3 * least, 1000, 1000, 1000))


def draw_nodes(
    wiring: Wiring, scheme: Scheme, random: Random
) -> tuple[tuple[NodeInfo, ...], tuple[int, ...]]:
    """Working nodes with the primaries, round-robin over the racks, and standby nodes.

    A large topology is placed as the PPA papers place theirs: four sources to a node, every
    other task on one of its own, as many standby nodes as those."""
    tasks = len(wiring.names)
    racks = random.randint(2, 4)
    if tasks > 12:
        placement = _place_like_the_papers(wiring)
        standby = sum(1 for task in wiring.tasks if wiring.upstream[task])
    else:
        working = random.randint(max(2, tasks // 2), tasks)
        placement = tuple(task % working for task in wiring.tasks)
        standby = max(1, working * random.randint(2, 4) // 4)
    hosted = [placement.count(node) for node in range(max(placement) + 1)]
    slots = max(hosted) + -(-len(scheme.replicated) // standby) + random.randint(0, 1)
    nodes = [NodeInfo(name=f"w{n}", rack=f"r{n % racks}", slots=s) for n, s in enumerate(hosted)]
    nodes += [NodeInfo(name=f"s{n}", rack=f"r{n % racks}", slots=slots) for n in range(standby)]
    return tuple(nodes), placement


def _place_like_the_papers(wiring: Wiring) -> tuple[int, ...]:
    place = {source: number // 4 for number, source in enumerate(wiring.sources)}
    following = max(place.values()) + 1
    for task in wiring.tasks:
        if task not in place:
            place[task] = following
            following += 1
    return tuple(place[task] for task in wiring.tasks)


def draw_costs(random: Random) -> Costs:
    """Draw the costs, from nearly nothing to four fifths of a batch interval per batch."""
    return Costs(
        batch_us=random.choice((1_000, 30_000, 150_000)),
        tuple_us=random.choice((0, 100, 1_000)),
        copy_us=random.choice((0, 50)),
        compare_us=random.choice((0, 50)),
        store_us=random.choice((0, 200)),
        load_us=random.choice((0, 200)),
    )


def draw_opening(costs: Costs, random: Random) -> Costs:
    """Draw how long readers take to open; in half of the schedules input is missed meanwhile."""
    return replace(
        costs,
        host_us=random.choice((0, 0, 20_000, 500_000)),
        reader_us=random.choice((0, 0, 20_000, 500_000)),
    )


def draw_network(random: Random) -> Network:
    """Draw delays, from those within a rack to those that are long compared to a heartbeat."""
    return Network(
        delay_us=random.choice((500, 5_000, 50_000)),
        jitter_us=random.choice((1_000, 20_000, 400_000)),
        store_us=random.choice((1_000, 20_000, 200_000)),
        log_us=random.choice((1_000, 20_000, 200_000)),
    )


def draw_links(network: Network, random: Random) -> Network:
    """Tiers and bandwidth: from one flat network to racks of their own behind thin lines."""
    far = network.delay_us
    return replace(
        network,
        rack_delay_us=random.choice((far, far // 4)),
        local_delay_us=random.choice((far, 0)),
        bytes_per_s=random.choice((0, 0, 100_000, 10_000)),
    )


def draw_faults(options: Options, random: Random) -> tuple[Fault, ...]:
    """Three to eight of them, some while others last, at any time while batches come."""
    horizon = (options.batches + 1) * options.interval_us
    count = random.randint(3, 8)
    kinds = [random.choice(_KINDS) for _ in range(count)]
    faults: list[Fault] = []
    for kind in kinds:
        at = random.randrange(options.interval_us, horizon)
        if random.random() < 0.3 and faults:
            at = min(horizon - 1, faults[-1].at_us + random.randrange(2_500_000))
        faults.append(_fault(kind, at, options, random))
    return tuple(faults)


def draw_start(options: Options, random: Random) -> Options:
    """Draw late starts of nodes, or of the coordinator, in half of the schedules.

    They come a little late, later than the first placement waits, or when much has happened; some
    are machines that no coordinator knew."""
    scheme = replace(options.scheme, join_within_us=random.choice((1, 3, 10)) * 1_000_000)
    options = replace(options, scheme=scheme, closes_connections=random.random() < 0.5)
    if random.random() < 0.5:
        return options
    working = max(options.placement) + 1
    unknown = random.choice((0, 0, random.randint(0, len(options.nodes) - working)))
    late: list[Fault] = []
    for node in range(len(options.nodes)):
        if node >= len(options.nodes) - unknown or random.random() < 0.25:
            until = random.choice((500_000, 2_000_000, 6_000_000, 20_000_000))
            until = random.randrange(until // 2, until)
            late.append(Fault(kind=FaultKind.LATE, at_us=0, until_us=until, target=node))
    if random.random() < 0.3:
        until = random.randrange(1_000_000, 8_000_000)
        late.append(Fault(kind=FaultKind.COORDINATOR, at_us=0, until_us=until))
    return replace(options, unknown_nodes=unknown, faults=tuple(late))


_LASTING = frozenset({FaultKind.LATE, FaultKind.KILL, FaultKind.FREEZE, FaultKind.CUT})
"""Faults that a node need not come back from, where the others have slots for every task."""


def draw_lasting(options: Options, faults: tuple[Fault, ...], random: Random) -> tuple[Fault, ...]:
    """Draw faults that last for good, in one schedule of three.

    Only a core of nodes is sure to heal, with a slot for each task. Half of the faults of the
    others last for good, and half of the time they all crash for good."""
    if random.random() >= 1 / 3:
        return faults
    spare = sum(info.slots for info in options.nodes) - len(options.wiring.names)
    lost: set[int] = set()
    for node in random.sample(range(len(options.nodes)), len(options.nodes)):
        if options.nodes[node].slots <= spare:
            spare -= options.nodes[node].slots
            lost.add(node)

    def may_last(fault: Fault) -> bool:
        if fault.kind is FaultKind.RACK:
            return lost.issuperset(options.rack(fault.target))
        return fault.kind in _LASTING and fault.target in lost

    crashes: list[Fault] = []
    if random.random() < 0.5:
        end = options.batches * options.interval_us
        crashes = [
            Fault(kind=FaultKind.KILL, at_us=random.randrange(end), until_us=FOR_GOOD, target=n)
            for n in sorted(lost)
        ]
    return *crashes, *(
        replace(fault, until_us=FOR_GOOD) if may_last(fault) and random.random() < 0.5 else fault
        for fault in faults
    )


def draw_strategy(options: Options, random: Random) -> Placement | None:
    """Draw the placement: the default in half of the schedules, else one of each kind."""
    primaries, nodes = options.placement, range(len(options.nodes))
    spots = [random.random() for _ in nodes]
    near = Near(lambda a, b: abs(spots[a] - spots[b]))
    tiers = SameTier(tuple(random.choice(("edge", "cloud")) for _ in nodes))
    standby = Standby(frozenset(random.sample(nodes, len(nodes) // 2)))
    planned = {task: random.choice(nodes) for task in options.wiring.tasks}
    apart = Preferring(primaries=primaries, restored=(other_rack, standby))
    strategies: list[Placement] = [
        apart,
        Preferring(primaries=primaries, replica=(same_rack, in_order), restored=(tiers, near)),
        Preferring(primaries=primaries, replica=(near,), restored=(near,)),
        Planned(replicas=planned, otherwise=apart),
    ]
    return random.choice(strategies) if random.random() < 0.5 else None


def draw_together(options: Options, random: Random) -> Options:
    """Plan some replicas on their primary's node, in one schedule of five with replicas.

    That node gets the slots for it."""
    replicated = options.scheme.replicated
    if not replicated or random.random() >= 0.2:
        return options
    together = random.sample(replicated, random.randint(1, len(replicated)))
    planned = {task: options.placement[task] for task in together}
    nodes = [
        structs.replace(info, slots=info.slots + sum(node == number for node in planned.values()))
        for number, info in enumerate(options.nodes)
    ]
    strategy = options.strategy or Spread(options.placement)
    if isinstance(strategy, Planned):
        strategy = replace(strategy, replicas={**strategy.replicas, **planned})
    else:
        strategy = Planned(replicas=planned, otherwise=strategy)
    return replace(options, nodes=tuple(nodes), strategy=strategy)


def _sometimes(
    kind: FaultKind, share: float, options: Options, random: Random, *lengths_us: int
) -> Iterator[Fault]:
    """Draw a fault that this share of the schedules has: when it begins, and its length."""
    if random.random() < share:
        at = random.randrange(options.interval_us, options.batches * options.interval_us)
        until = at + (random.choice(lengths_us) if lengths_us else 0)
        yield Fault(kind=kind, at_us=at, until_us=until)


def draw_rival(options: Options, random: Random) -> Iterator[Fault]:
    """Draw a second coordinator in one schedule of five, often when there is much to decide."""
    for rival in _sometimes(FaultKind.RIVAL, 0.2, options, random, 2_000_000, 10_000_000):
        yield rival
        if random.random() < 0.5:
            return
        suspected = rival.at_us - options.scheme.suspect_after_us
        lost = max(0, suspected + random.randrange(-1_000_000, 1_000_000))
        node = random.randrange(len(options.nodes))
        yield replace(rival, kind=FaultKind.KILL, at_us=lost, target=node)


def draw_full(options: Options, random: Random) -> Iterator[Fault]:
    """Draw a store without room for a while, in one schedule of six."""
    lengths_us = 500_000, 3_000_000, 10_000_000
    return _sometimes(FaultKind.STORE_FULL, 1 / 6, options, random, *lengths_us)


def draw_forgetting(options: Options, random: Random) -> Iterator[Fault]:
    """Draw a node that forgets its copies, sometimes with another one, in one schedule of six."""
    for fault in _sometimes(FaultKind.FORGET, 1 / 6, options, random):
        for node in random.sample(range(len(options.nodes)), random.choice((1, 1, 2))):
            yield replace(fault, target=node)


def draw_one_way(options: Options, random: Random) -> Iterator[Fault]:
    """Draw two ends of which one does not reach the other, in one schedule of four."""
    lengths_us = 500_000, 3_000_000, 15_000_000
    for fault in _sometimes(FaultKind.MUTE, 0.25, options, random, *lengths_us):
        sender, receiver = random.sample(range(COORDINATOR, len(options.nodes)), 2)
        yield replace(fault, target=sender, other=receiver)


def draw_raise(options: Options, random: Random) -> Iterator[Fault]:
    """Draw a node whose operators raise for a while, in one schedule of six."""
    lengths_us = 500_000, 3_000_000, 10_000_000
    for fault in _sometimes(FaultKind.RAISE, 1 / 6, options, random, *lengths_us):
        yield replace(fault, target=random.randrange(len(options.nodes)))


def draw_store_outage(options: Options, random: Random) -> tuple[Fault, ...]:
    """Draw the loss of a node while decisions cannot be stored, in one schedule of five.

    The coordinator crashes when it has just decided."""
    if random.random() >= 0.2:
        return ()
    at = random.randrange(2, options.batches - 1) * options.interval_us
    node = random.randrange(len(options.nodes))
    decided = at + options.scheme.suspect_after_us + options.scheme.heartbeat_us
    away = decided + random.randrange(1_000_000, 6_000_000)
    crash = random.randrange(at + options.scheme.suspect_after_us // 2, away)
    return (
        Fault(kind=FaultKind.KILL, at_us=at, until_us=away + 5_000_000, target=node),
        Fault(kind=FaultKind.STORE_AWAY, at_us=at, until_us=away),
        Fault(kind=FaultKind.COORDINATOR, at_us=crash, until_us=crash + 500_000),
    )


_KINDS = [kind for kind, weight in OF_THE_PROTOCOL.items() for _ in range(weight)]


def _fault(kind: FaultKind, at: int, options: Options, random: Random) -> Fault:
    nodes = len(options.nodes)
    amount = random.choice(AMOUNTS[kind]) if kind in AMOUNTS else 0
    plan: tuple[int, ...] = ()
    if kind is FaultKind.REPLAN and options.scheme.recovery is Recovery.LOCAL:
        inner = [t for t in options.wiring.tasks if options.wiring.upstream[t]]
        plan = tuple(sorted(random.sample(inner, random.randint(0, len(inner)))))
    if kind is FaultKind.REPLAN and options.scheme.name in ("replay", "checkpoint", "global"):
        kind = FaultKind.KILL  # these have no plan to adapt
    lasting = random.choice((300_000, 1_500_000, 6_000_000, 15_000_000))
    return Fault(
        kind=kind,
        at_us=at,
        until_us=at + random.randrange(lasting // 2, lasting),
        target=random.randrange(nodes),
        other=random.randrange(nodes),
        amount=amount,
        plan=plan,
    )
