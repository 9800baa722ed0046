"""One simulated schedule from beginning to end, with every checker that observes it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from harness.errors import ProtocolViolation
from harness.hosting.program import Program
from harness.protocol.scheme import Closing
from harness.protocol.story import KEPT
from harness.simulator.checkers import Bystander, InvariantBroken, Violation
from harness.simulator.closings import Closings
from harness.simulator.lateness import Lateness
from harness.simulator.options import Options
from harness.simulator.synthetic import digests
from harness.simulator.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """The result of one schedule."""

    seed: int
    scheme: str
    topology: str
    faults: Mapping[str, int]
    """Faults that really began, by kind."""
    violation: Violation | None
    events: int
    messages: int
    tentative_outputs: int
    virtual_us: int


def settle_us(options: Options) -> int:
    """Return the bound of the liveness phase.

    It is detection and restart of everything, twice over, then all batches again at the pace of the
    slowest node with every task on it."""
    costs = options.costs
    tasks = len(options.wiring.names)
    states = max(options.wiring.memory) * options.tuples * tasks
    batch = costs.batch_us + costs.tuple_us * options.tuples * tasks
    state = (costs.copy_us + costs.compare_us + costs.store_us + costs.load_us) * states
    transfer = options.network.transfer_us(states)
    work = 2 * options.batches * tasks * (batch + state) + 10 * options.wiring.depth() * transfer
    detection = options.scheme.suspect_after_us + 4 * options.scheme.heartbeat_us
    detection += options.scheme.join_within_us // 10
    hops = 4 * options.wiring.depth()
    return 10 * detection + hops * 2 * options.scheme.heartbeat_us + work + 60_000_000


def simulate(
    options: Options,
    *,
    program: Program | None = None,
    prepare: Callable[[World], None] | None = None,
) -> SimulatedRun:
    """Run ``options``: the safety phase, then a liveness phase in which nothing fails any more.

    ``program`` gives the operators and what the log holds; None runs synthetic ones. ``prepare``
    is given the world before it starts. The machines keep no stories at first (`Story`): a run
    that ends in a violation is run again with stories, and ``prepare`` called again."""
    program = digests(options) if program is None else program
    with collector_at_rest():
        report = _run(options, program, prepare, kept=0)
    if report.violation is None:
        return report
    again = _run(options, program, prepare, kept=KEPT)
    assert again.violation is not None, "a run is a function of its options"
    assert again.violation.what == report.violation.what, "a run is a function of its options"
    return again


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Disable the cyclic collector, which finds nothing in a run and takes a sixth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _run(
    options: Options, program: Program, prepare: Callable[[World], None] | None, *, kept: int
) -> SimulatedRun:
    bystander = Bystander(options, program.twin(options.batches))
    world = World(options, program, observers=(bystander,), kept=kept)
    rules = options.scheme.tentative
    if rules is not None:
        world.watch.add(Lateness(world))
        if rules.closing is Closing.COORDINATOR:
            world.watch.add(Closings(world))
    if prepare is not None:
        prepare(world)
    violation = violation_in(
        options.seed, lambda: _both_phases(world, bystander), lambda: tell(world)
    )
    return SimulatedRun(
        seed=options.seed,
        scheme=options.scheme.name,
        topology=options.topology,
        faults=dict(world.begun),
        violation=violation,
        events=world.kernel.processed,
        messages=world.transport.sent_messages,
        tentative_outputs=bystander.tentative_outputs,
        virtual_us=world.kernel.now,
    )


def _both_phases(world: World, bystander: Bystander) -> None:
    options = world.options
    world.start()
    world.kernel.run(until=options.horizon_us)
    world.validate_all()
    world.kernel.run(until=options.horizon_us + settle_us(options), stop=world.finished)
    world.validate_all()
    if world.ended:
        raise InvariantBroken("ended", world.ended)
    bystander.at_end(options.batches)


def violation_in(
    seed: int, phases: Callable[[], None], story: Callable[[], str]
) -> Violation | None:
    """Run both phases of a schedule, in either world, up to the first thing that is wrong."""
    try:
        phases()
    except InvariantBroken as broken:
        return Violation(seed=seed, invariant=broken.invariant, what=broken.what, story=story())
    except ProtocolViolation as bug:
        what, *_ = str(bug).splitlines()
        return Violation(seed=seed, invariant="machine", what=what, story=f"{bug}\n{story()}")
    return None


def tell(world: World) -> str:
    """Return the place of every copy, and the stories of the coordinator and the slowest copies."""
    lines = [f"at {world.kernel.now / 1e6:.6f} s"]
    copies = [
        (copy.position, node.number, copy)
        for node in world.nodes
        if node.machine is not None
        for copy in node.machine.copies.values()
    ]
    for position, number, copy in copies:
        lines.append(
            f"  node {number}: {world.wiring.names[copy.task]} incarnation {copy.incarnation} "
            f"term {copy.term} {copy.phase} {copy.mode}, next batch {position}"
        )
    sinks = [copy for _, _, copy in copies if copy.sink and copy.primary]
    behind = [copy for _, _, copy in sorted(copies, key=lambda entry: entry[:2])]
    lines.extend(copy.story.text() for copy in [*sinks, *behind][:3])
    if world.coordinator is not None:
        lines.append(world.coordinator.story.text())
    return "\n".join(lines)
