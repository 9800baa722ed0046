"""Links between nodes, and to the coordinator: they take time, lose, repeat and reorder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.seeds import derive_seed
from harness.simulator.kernel import MESSAGE
from harness.simulator.node import SimulatedNode
from harness.simulator.options import Options

if TYPE_CHECKING:
    from harness.simulator.world import World

COORDINATOR = -1
"""Stands for the coordinator where a node is named."""


class Transport:
    """Delivers messages to where the copies they are for have been noted to be."""

    def __init__(self, world: World) -> None:
        options = world.options
        self._kernel, self._nodes, self._deliver = world.kernel, world.nodes, world.deliver
        self._operators = world.operators
        self._network = network = options.network
        self._random = Random(derive_seed(options.seed, "world"))
        self._links_us: Sequence[Sequence[int]] = network.pairs_us or _links_by_rack(options)
        self._jitter_us = network.jitter_us
        self._host_us = options.costs.host_us
        self._limited = network.bytes_per_s > 0
        self._blocked: Counter[tuple[int, int]] = Counter()
        """The number of faults that cut a link; links that are not cut are left out."""
        self.hosts: list[dict[int, tuple[int, ...]]] = [{} for _ in options.wiring.tasks]
        """Task to {node: incarnations} of the copies that are there."""
        self.loss_percent = 0
        self.sent_messages = 0
        self._free_at: dict[tuple[int, int], int] = {}
        """The time at which a link has carried all that was sent, where links queue."""

    # -- where copies are ------------------------------------------------------------------

    def noted(self, node: SimulatedNode, note: do.NoteCopy) -> None:
        """Note that a node has, or has dropped, a copy."""
        hosts = self.hosts[note.task]
        here = hosts.get(node.number, ())
        if note.event is do.CopyEvent.HOSTED:
            hosts[node.number] = (*here, note.incarnation)
        elif note.event is do.CopyEvent.RETIRED:
            hosts[node.number] = tuple(number for number in here if number != note.incarnation)
            if not hosts[node.number]:
                del hosts[node.number]

    def tasks_on(self, node: int) -> list[int]:
        """Return the tasks that have a copy on this node."""
        return [task for task, hosts in enumerate(self.hosts) if node in hosts]

    def forget(self, node: SimulatedNode) -> None:
        """Note that a node has lost all of its copies."""
        for task in self.tasks_on(node.number):
            del self.hosts[task][node.number]

    # -- links -----------------------------------------------------------------------------

    def cut(self, one: int, other: int, cut: bool = True, *, ways: int = 2) -> None:
        """Lose all messages between two nodes, until this was taken back as often.

        With one of the two ``ways``, only what ``one`` sends gets lost."""
        links = Counter(((one, other), (other, one))[:ways])
        self._blocked = self._blocked + links if cut else self._blocked - links

    def carries(self, sender: int, receiver: int) -> bool:
        """Return True unless what one end sends to another is lost."""
        return (sender, receiver) not in self._blocked

    def deliver(self, sender: int, effect: do.Send) -> None:
        """Send a message to every copy of the task, or to the one that it names."""
        meant, message = effect.incarnation, effect.message
        for number, incarnations in self.hosts[effect.to].items():
            if meant is None or meant in incarnations:
                self.transmit(sender, number, message)

    def order(self, receiver: int, order: told.Order) -> None:
        """Send an order to a node, which opens the input of a new copy before it hosts it."""
        opening = self._host_us if isinstance(order, told.CopyOrdered) else 0
        self.transmit(COORDINATOR, receiver, order, after_us=opening)

    def transmit(
        self, sender: int, receiver: int, message: told.NodeInput, *, after_us: int = 0
    ) -> None:
        """Send to one node, which receives it ``after_us`` after its arrival."""
        node = self._nodes[receiver]
        if node.cut or (self._blocked and not self.carries(sender, receiver)):
            return
        link = self._links_us[sender][receiver] + after_us
        if self._limited and sender != receiver and isinstance(message, told.BatchArrived):
            tuples = self._operators[message.task].tuples((message.payload,))
            link += self._carried_us(sender, receiver, self._network.transfer_us(tuples))
        kernel = self._kernel
        if self.loss_percent:
            for delay in self.delays(link):
                kernel.at(kernel.now + delay, MESSAGE, self._deliver, receiver, node.boot, message)
            return
        self.sent_messages += 1
        at = kernel.now + link + int(self._random.random() * self._jitter_us)
        kernel.at(at, MESSAGE, self._deliver, receiver, node.boot, message)

    def _carried_us(self, sender: int, receiver: int, transfer_us: int) -> int:
        """Return the time until a link has carried something, its queue included."""
        if not self._network.queues:
            return transfer_us
        now, link = self._kernel.now, (sender, receiver)
        done = self._free_at[link] = max(now, self._free_at.get(link, 0)) + transfer_us
        return done - now

    def link_us(self, sender: int, receiver: int) -> int:
        """Return the delay between two nodes, or a node and the `COORDINATOR`."""
        return self._links_us[sender][receiver]

    def delays(self, link_us: int) -> Sequence[int]:
        """One delay per delivery: none if lost, two if repeated."""
        self.sent_messages += 1
        delay = link_us + int(self._random.random() * self._jitter_us)
        if not self.loss_percent:
            return (delay,)
        luck = self._random.random() * 100
        if luck < self.loss_percent:
            return ()
        late = delay + int(self._random.random() * 50 * self._jitter_us)
        return (delay, late) if luck < 2 * self.loss_percent else (late,)


def _links_by_rack(options: Options) -> list[list[int]]:
    """Return the delay between every two nodes by their racks.

    The last row and column are the coordinator's, which -1 finds."""
    network, racks = options.network, [info.rack for info in options.nodes]
    far, near, local = network.delay_us, network.rack_delay_us, network.local_delay_us
    near, local = far if near is None else near, far if local is None else local
    links = [[near if one == other else far for other in racks] + [far] for one in racks]
    for node, row in enumerate(links):
        row[node] = local
    return [*links, [far] * (len(racks) + 1)]
