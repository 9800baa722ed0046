"""One minute of accident detection under one mechanism, in virtual time, with or without a failure.

As in the paper (section V-C): input for 60 s, then 30 s to finish; the node of the aggregators
dies at 30 s and stays away. Tuples are counted, not made. Output goes on without what is lost
(tentative, corrected afterwards), since Storm's tasks do not wait for each other either. A killed
node's connections close, so that a replica takes over at once: in the paper both copies send all
along and duplicates are dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from experiments.edge._deployment import MASTER, MECHANISMS, RATES, Deployment, deploy, topology
from harness.measurement import Context, Measurement, Origin
from harness.planning.schedulers import STORE, replica_of
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.effects import Kind
from harness.protocol.planned import wiring_of
from harness.protocol.scheme import Closing, Policy, Recovery, Scheme, Tentative
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results
from harness.simulator.options import Costs, Fault, FaultKind, Network, Options
from harness.simulator.synthetic import counts
from harness.simulator.world import World

INPUT_S, DRAIN_S = 60, 30
FAILURE_S = 30
STRIKES_AFTER_S = 0.6
"""The node dies this long after second `FAILURE_S`: between two windows. (At 0.3 s a window is
still on its way, and what happens to it would stand in the figure beside the scheme.)"""
BATCH_S = 1
"""The application's tumbling window."""
LAG_S = 1.0
"""How long the aggregator waits for late tuples; added to every latency."""
TIMEOUT_S = 5.0
"""The paper's tuple timeout."""
RECOVERY_S = 10
""""During recovery" is this long after the failure: the paper's "within about 10 seconds"."""
HEARTBEAT_TIMEOUT_S, RESTART_S = 5.0, 1.0
"""The paper's example of the timeout; and how long a worker takes to start, chosen."""
CHECKPOINT_S = 12
"""The paper names 10 s in an example; with 12 the failure at 30 s falls into the middle of an
interval."""
COSTS = Costs(batch_us=1_000, tuple_us=200, store_us=5, load_us=5)
TUPLE_BYTES = 100
STAMP = "simulated, virtual time; demands, rates and 200 µs per tuple chosen"
NOTES = (
    "Simulated in virtual time by the protocol code of the live engine. Chosen: 200 µs to process "
    "a tuple, 5 µs to write or read one of a checkpoint, checkpoints every 12 s, 100 bytes a "
    "tuple. The failure is of the node with both aggregators, at "
    f"{FAILURE_S + STRIKES_AFTER_S:g} s, when no window is on its way; the node stays away.",
    "A task without a replica comes back in a worker that is started in the nearest other "
    "datacenter, after the heartbeat's timeout of 5 s and another second (chosen). Replicas take "
    "over when the dead node's connections close: in the paper both copies send all along. Output "
    "goes on from what is left and is corrected later, so every tuple is processed in the end. A "
    "replica on its primary's node is left out of the run.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run."""

    mechanism: str
    rate: int
    failure: bool
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What comes out at the sink, tuple by tuple."""

    tuples: pd.DataFrame
    """A row per piece of output: ``batch`` (its window), ``at_s`` when it came, ``tuples`` that
    were not in the output before."""
    offered: int
    """Tuples that were sent."""
    carried_bytes: int
    """What crossed links between nodes, checkpoints included."""
    deployment: Deployment

    def throughput(self) -> pd.Series:
        """Tuples per second at the sink, by whole second."""
        second = np.floor(self.tuples["at_s"]).astype(int)
        found = self.tuples["tuples"].groupby(second).sum()
        return found.reindex(range(INPUT_S + DRAIN_S), fill_value=0)

    def latencies(self, begin_s: float = 0, end_s: float = INPUT_S) -> tuple[float, float, float]:
        """Return mean, 5th and 95th percentile of the latency of the tuples sent in that time.

        Latency counts in seconds from the middle of a tuple's window."""
        sent_s = self.tuples["batch"] * BATCH_S + BATCH_S / 2
        chosen = self.tuples[(sent_s >= begin_s) & (sent_s < end_s)]
        latency = chosen["at_s"] - chosen["batch"] * BATCH_S - BATCH_S / 2 + LAG_S
        order = np.argsort(latency.to_numpy())
        ranked, weight = latency.to_numpy()[order], chosen["tuples"].to_numpy()[order]
        share = np.cumsum(weight) / weight.sum()
        low, high = (float(ranked[np.searchsorted(share, q)]) for q in (0.05, 0.95))
        return float((ranked * weight).sum() / weight.sum()), low, high

    def success(self, within_s: float | None = None) -> float:
        """Return the share of the tuples that came out, within ``within_s`` if it is given."""
        came = self.tuples
        if within_s is not None:
            came = came[came["at_s"] - (came["batch"] + 1) * BATCH_S <= within_s]
        return float(came["tuples"].sum() / self.offered)


def options_of(setting: Setting) -> tuple[Options, Deployment]:
    """Return the simulator's options for a run, and the mechanism's decisions."""
    deployment = deploy(setting.mechanism, setting.rate)
    wiring = wiring_of(topology(setting.rate), {"aggregate": 2})
    names = [task.name for task in deployment.tasks]
    useful = deployment.useful()
    primaries = tuple(deployment.node(name) for name in names)
    failed = deployment.node("aggregate0")
    strikes_us = round((FAILURE_S + STRIKES_AFTER_S) * 1e6)
    # The worker that Storm starts instead of the dead one: a node of its own, which is there when
    # the master has missed the heartbeats and the process is up.
    nodes = [node.name for node in deployment.network.nodes]
    restarted, hosts = len(nodes), [*nodes, nodes[_nearest(deployment, failed)]]
    delays = _delays_us(deployment, hosts)
    slots = _slots(deployment, len(hosts), failed, restarted)
    faults = (
        Fault(kind=FaultKind.CRASH, at_us=strikes_us, until_us=3_600_000_000, target=failed),
        Fault(
            kind=FaultKind.LATE,
            at_us=0,
            until_us=strikes_us + round((HEARTBEAT_TIMEOUT_S + RESTART_S) * 1e6),
            target=restarted,
        ),
    )
    options = Options(
        seed=setting.seed,
        topology="accident detection",
        wiring=wiring,
        scheme=Scheme(
            name=setting.mechanism,
            recovery=Recovery.LOCAL,
            checkpoint_every=CHECKPOINT_S // BATCH_S,
            replicated=tuple(sorted(names.index(name) for name in useful)),
            tentative=Tentative(
                closing=Closing.COORDINATOR, bound_us=0, during_failure=Policy.PROCESS
            ),
            # longer than any node's first message takes: the late worker is not waited for
            join_within_us=300_000,
        ),
        nodes=tuple(
            NodeInfo(name=name, rack=name, slots=slots[number])
            for number, name in enumerate([*nodes, "restarted worker"])
        ),
        placement=primaries,
        batches=INPUT_S // BATCH_S,
        interval_us=BATCH_S * 1_000_000,
        tuples=setting.rate * BATCH_S,
        closes_connections=True,
        costs=COSTS,
        network=Network(
            jitter_us=1_000,
            bytes_per_s=12_500_000,
            tuple_bytes=TUPLE_BYTES,
            pairs_us=delays,
            store_pairs_us=delays[deployment.node(STORE)][:-1],
        ),
        faults=faults if setting.failure else (),
    )
    return options, deployment


def _slots(deployment: Deployment, nodes: int, failed: int, restarted: int) -> list[int]:
    """Return the slots of each node: one for each of its copies, so that the scheduler decides.

    The restarted worker has room for the tasks that the failure leaves without a copy."""
    useful = deployment.useful()
    slots = [0] * nodes
    for task in deployment.tasks:
        slots[deployment.node(task.name)] += 1
        if task.name in useful:
            slots[deployment.node(replica_of(task.name))] += 1
        elif deployment.node(task.name) == failed:
            slots[restarted] += 1
    return slots


def _nearest(deployment: Deployment, failed: int) -> int:
    """Return the datacenter nearest to the one that fails."""
    network = deployment.network
    here = network.nodes[failed]
    others = [
        (network.latency_s(here.name, node.name), number)
        for number, node in enumerate(network.nodes)
        if node.tier is here.tier and number != failed
    ]
    return min(others)[1]


def _delays_us(deployment: Deployment, nodes: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Between every two nodes; the coordinator, last, is on the master."""
    places = [*nodes, MASTER]
    network = deployment.network
    return tuple(
        tuple(round(network.latency_s(one, other) * 1e6) for other in places) for one in places
    )


@lru_cache(maxsize=256)
def measure(setting: Setting) -> Measured:
    """Run ``setting`` for `INPUT_S` and `DRAIN_S` of virtual time, and read the sink."""
    options, deployment = options_of(setting)
    world = World(options, counts(options), validate=False, kept=0)
    world.start()
    world.kernel.run(until=(INPUT_S + DRAIN_S) * 1_000_000)
    (sink,) = world.wiring.sinks
    known: dict[int, int] = {}
    rows = []
    for published in world.partitions[sink].records:
        record = published.record
        if record.kind is Kind.UNDO:
            continue
        fresh = record.payload[0] if isinstance(record.payload, tuple) else record.payload
        fresh -= known.get(record.batch, 0)
        if fresh > 0:
            known[record.batch] = known.get(record.batch, 0) + fresh
            rows.append((record.batch, published.at_us / 1e6, fresh))
    return Measured(
        tuples=pd.DataFrame(rows, columns=["batch", "at_s", "tuples"]),
        offered=options.batches * options.tuples * len(world.wiring.sources),
        carried_bytes=world.carried_tuples * TUPLE_BYTES,
        deployment=deployment,
    )


def at(point: Point, context: Context, *, failure: bool) -> Measured:
    """One minute of a mechanism at one rate, as a point of `grid` says."""
    setting = Setting(
        mechanism=str(point["mechanism"]),
        rate=int(str(point["rate"])),
        failure=failure,
        seed=context.seed("network"),
    )
    context.progress(setting.mechanism)
    return measure(setting)


def means(results: Results, columns: Sequence[str]) -> pd.DataFrame:
    """Return a row per mechanism and rate: each column's mean over the repetitions."""
    frame = results.frame[["engine", "mechanism", "rate", *columns]]
    return frame.groupby(["engine", "mechanism", "rate"], sort=False).mean().reset_index()


def grid(rates: Sequence[int]) -> list[Point]:
    """Every mechanism at every rate, simulated."""
    return [
        {"mechanism": name, "rate": rate, "engine": "simulated"}
        for rate in rates
        for name in MECHANISMS
    ]


def over_rates(id: str, run: Callable[[Point, Context], Outcome]) -> Measurement:  # noqa: A002
    """Return the measurement of every mechanism at every rate, once each; smoke takes one rate."""
    grids = {Profile.SMOKE: RATES[1:2], Profile.QUICK: RATES, Profile.PAPER: RATES}
    return Measurement(
        id=id,
        origin=Origin.SIMULATED,
        grid={profile: grid(rates) for profile, rates in grids.items()},
        repeats=dict.fromkeys(Profile, 1),
        seconds_per_run=dict.fromkeys(Profile, 0.1),
        run=run,
    )


def by_mechanism(frame: pd.DataFrame, value: str) -> Mapping[str, pd.Series]:
    """Return each mechanism's ``value`` by rate, from a table with ``mechanism`` and ``rate``."""
    wide = frame.pivot_table(index="rate", columns="mechanism", values=value)
    return {str(name): wide[name] for name in wide.columns}


def mean_of(frame: pd.DataFrame, value: str) -> dict[str, Any]:
    """Return each mechanism's mean over the rates."""
    return {name: float(each.mean()) for name, each in by_mechanism(frame, value).items()}
