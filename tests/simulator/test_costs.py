"""What links, sources and duplicates cost in virtual time."""

from __future__ import annotations

from dataclasses import replace

from harness.protocol import inputs as told
from harness.protocol.effects import ProcessBatch
from harness.protocol.inputs import STABLE
from harness.simulator.options import Costs, Network, Options
from harness.simulator.synthetic import counts
from harness.simulator.world import World
from tests.simulator.test_limits import options

COSTS = Costs(batch_us=0, tuple_us=100, source_us=20, check_us=10)


def world(**changes: object) -> World:
    given: Options = replace(options(), **changes)  # type: ignore[arg-type]
    made = World(given, counts(given), validate=False)
    made.start()
    return made


def part(batch: int, tuples: int) -> told.BatchArrived:
    return told.BatchArrived(
        cause="test", task=2, upstream=1, batch=batch, stable=True, payload=tuples, term=1
    )


def arrivals_us(network: Network) -> list[int]:
    """Send two batches of 1,000 tuples at once over one link, one over another."""
    made = world(network=network)
    made.kernel.run(until=1_000_000)
    came: list[tuple[int, int]] = []
    made.watch.handed.append(
        lambda now, item: (
            came.append((item.batch, now))
            if isinstance(item, told.BatchArrived) and item.batch >= 100
            else None
        )
    )
    for sender, batch in ((1, 100), (1, 101), (0, 102)):
        made.transport.transmit(sender, 2, part(batch, 1_000))
    made.kernel.run(until=1_500_000)
    return [now - 1_000_000 for _, now in sorted(came)]


def test_what_is_sent_over_a_link_waits_for_what_was_sent_before_if_links_queue() -> None:
    network = Network(delay_us=2_000, jitter_us=0, bytes_per_s=1_000_000, tuple_bytes=100)
    assert arrivals_us(network) == [102_000, 102_000, 102_000]
    assert arrivals_us(replace(network, queues=True)) == [102_000, 202_000, 102_000]


def test_a_source_has_a_cost_of_its_own() -> None:
    made = world(costs=COSTS)

    def cost_us(task: int) -> int:
        inputs = (1_000,)
        effect = ProcessBatch(
            cause="test", task=task, incarnation=1, run=STABLE, ticket=1, batch=0, state=0,
            inputs=inputs, copies_state=False,
        )  # fmt: skip
        return made.computing.perform(made.nodes[task], effect)[1]

    assert (cost_us(0), cost_us(1)) == (20_000, 100_000)


def test_a_duplicate_takes_a_node_the_time_to_recognize_it() -> None:
    made = world(costs=COSTS)
    made.kernel.run(until=5_000_000)
    node, now = made.nodes[2], made.kernel.now
    before = node.free_at[0]
    made._deliver(2, node.boot, part(0, 1_000))
    assert node.free_at[0] == max(now, before) + 10_000
    free = node.free_at[0]
    made._deliver(2, node.boot, part(99, 1_000))
    assert node.free_at[0] == free, "what is new is no duplicate"
