"""One run of the real processes in virtual time, from its seed to its verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from harness.engines.tasks.virtual.cluster import HostWorld
from harness.engines.tasks.virtual.draw import HostOptions, draw_host
from harness.engines.tasks.virtual.loop import virtual_time
from harness.engines.tasks.virtual.program import SHAPES, twin_of
from harness.simulator.campaign import Fidelity
from harness.simulator.checkers import Bystander, Violation
from harness.simulator.run import SimulatedRun, collector_at_rest, violation_in

SETTLE_S = 150.0
"""The bound of the liveness phase: waits of a minute that were begun may end first."""


def simulate_host(
    options: HostOptions, *, prepare: Callable[[HostWorld], None] | None = None
) -> SimulatedRun:
    """Run the processes under the faults of ``options``, then until all output is there.

    ``prepare`` gets the world before it starts."""
    twin = twin_of(options.topology, options.memory, options.load, options.batches)
    bystander = Bystander(options, twin)
    bystander.expect_tentative()
    with collector_at_rest():
        world = HostWorld(options, bystander)
        if prepare is not None:
            prepare(world)
        with virtual_time(world.loop, options.seed):
            try:
                violation = _violation(world)
            finally:
                world.close()
    return SimulatedRun(
        seed=options.seed,
        scheme=options.scheme.name,
        topology=options.topology,
        faults=dict(world.begun),
        violation=violation,
        events=world.loop.calls,
        messages=world.messages,
        tentative_outputs=bystander.tentative_outputs,
        virtual_us=round(world.loop.now * 1e6),
    )


def _violation(world: HostWorld) -> Violation | None:
    options, loop = world.options, world.loop
    asyncio.set_event_loop(None)

    async def until_all_is_there() -> None:
        world.start()
        while loop.now < options.healed_s and not world.ended:
            await asyncio.sleep(0.5)
        deadline = loop.now + SETTLE_S
        while not (world.ended or world.finished()) and loop.now < deadline:
            await asyncio.sleep(0.5)
        if world.ended:
            return
        world.guard(world.bystander.at_end, options.batches)
        world.check()

    return violation_in(
        options.seed,
        lambda: loop.run_until_complete(until_all_is_there()),
        lambda: "\n".join(world.story),
    )


HOST = Fidelity(draw=draw_host, run=simulate_host, topologies=tuple(SHAPES), option=" --host")
"""The task engine's own processes over models of TCP, Kafka and Redis."""
