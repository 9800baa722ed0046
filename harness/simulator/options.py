"""Everything a simulated run is made of, as one value; a run is (commit, seed, options)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from harness.protocol.coordinator.placement import Placement
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.scheme import Scheme
from harness.protocol.wiring import Wiring
from harness.simulator.faults import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The costs of actions on a node of speed 1, in microseconds."""

    batch_us: int = 20_000
    """Any batch, however small."""
    tuple_us: int = 0
    """Processing one tuple (p_proc)."""
    source_us: int | None = None
    """Reading and sending on one tuple at a source; None: as processing."""
    check_us: int = 0
    """Recognizing one tuple that was received before."""
    copy_us: int = 0
    """Copying one tuple of state (p_copy)."""
    compare_us: int = 0
    """Reading and comparing one tuple of the undo history (p_comp)."""
    store_us: int = 0
    """Writing one tuple of state into a checkpoint, on the node."""
    load_us: int = 0
    """Reading one tuple of state back."""
    host_us: int = 0
    """Opening what a new copy reads, from the order on; before it is open the copy is not there."""
    reader_us: int = 0
    """Opening a source's partition where a copy begins to read, or goes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The delays of messages, the log and the store, in microseconds."""

    delay_us: int = 2_000
    """Across racks, and between any node and the coordinator."""
    rack_delay_us: int | None = None
    """Between nodes of one rack; None: as across racks."""
    local_delay_us: int | None = None
    """Between copies on one node; None: as across racks."""
    jitter_us: int = 1_000
    """Added to the delay, uniform: messages between different pairs are reordered."""
    store_us: int = 5_000
    log_us: int = 5_000
    bytes_per_s: int = 0
    """The bandwidth that each batch or checkpoint gets on a link: its size over this is added to
    the delay. 0: no limit. Messages within a node are not limited."""
    queues: bool = False
    """True if what is sent over a link between two nodes waits for what was sent before; otherwise
    links do not fill up."""
    tuple_bytes: int = 100
    """The size of one tuple."""
    pairs_us: tuple[tuple[int, ...], ...] = ()
    """One-way delay between every two nodes by their numbers, in place of the three above; the
    last row and column are the coordinator's. Empty: by racks."""

    def transfer_us(self, tuples: int) -> int:
        """Return the time for ``tuples`` beyond the delay."""
        if not self.bytes_per_s:
            return 0
        return tuples * self.tuple_bytes * 1_000_000 // self.bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A simulated run."""

    seed: int
    """The seed of delays and of random losses; everything else is in these options."""
    topology: str
    wiring: Wiring
    scheme: Scheme
    nodes: tuple[NodeInfo, ...]
    placement: tuple[int, ...]
    """Task to the node of its first primary."""
    strategy: Placement | None = None
    """The placement of copies; None: `Spread` from ``placement``."""
    batches: int
    interval_us: int
    """Between batches; batch b is complete at (b + 1) intervals."""
    tuples: int
    """Per source and batch."""
    percent: int = 100
    """Selectivity of every operator that is not a source."""
    costs: Costs = Costs()
    network: Network = Network()
    lanes: int = 1
    """Computations that a node runs at once; with 2 the tentative one runs alongside the stable
    one, as on the partner replica of a Borealis node."""
    unknown_nodes: int = 0
    """The number of nodes, the last ones, that the coordinator does not know at its start."""
    closes_connections: bool = False
    """True if the coordinator is notified at once of a node that crashes, or is cut off (live: the
    end of its connection); else it is detected by its silence."""
    faults: tuple[Fault, ...] = ()

    @property
    def horizon_us(self) -> int:
        """The end of the safety phase: all batches are out and what heals has healed."""
        last = max((f.until_us if f.heals else f.at_us for f in self.faults), default=0)
        return max(last, (self.batches + 1) * self.interval_us)

    def rack(self, number: int) -> list[int]:
        """Return the nodes of the ``number``-th rack, in order of first appearance."""
        names = list(dict.fromkeys(info.rack for info in self.nodes))
        wanted = names[number % len(names)]
        return [n for n, info in enumerate(self.nodes) if info.rack == wanted]

    def describe(self) -> dict[str, Any]:
        """Return all options in terms of JSON."""
        document = asdict(self)
        document["wiring"] = {"tasks": len(self.wiring.names), "topology": self.topology}
        document["faults"] = [str(fault) for fault in self.faults]
        document["strategy"] = type(self.strategy).__name__ if self.strategy else "Spread"
        document["nodes"] = [f"{n.name}@{n.rack}x{n.slots}" for n in self.nodes]
        return document
