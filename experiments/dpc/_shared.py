"""Borealis' experiments in virtual time: one node, or a chain of nodes, with one input cut off.

Three input streams feed a join. One of them is disconnected for a while without stopping its
source. Then everything that is missing is sent while new tuples keep coming (dpc, section 5).
A batch is a bucket of Borealis, and a message is its boundary. The costs per tuple are chosen:
with 22 µs to process one, reconciliation after a 3 s failure at 4,500 tuples/s takes the 300 ms
that the paper reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import pandas as pd

from harness.claims import Foregone
from harness.experiment import Context, Origin, Outcome, Point, Profile, computed
from harness.protocol import inputs
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.effects import Kind
from harness.protocol.operators import TaskOperator
from harness.protocol.scheme import (
    Closing,
    Corrections,
    Method,
    Policy,
    Recovery,
    Scheme,
    Tentative,
)
from harness.protocol.task.computation import Mode
from harness.protocol.task.machine import TaskMachine
from harness.protocol.wiring import Wiring
from harness.simulator.checkers import Bystander
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.observing import Observer
from harness.simulator.options import Costs, Network, Options
from harness.simulator.synthetic import SeriesOperator, WindowOperator, digests
from harness.simulator.topologies import layered
from harness.simulator.world import World

PROCESS_US = 22
CHAIN_PROCESS_US = PROCESS_US * 30 // 18 * 2
"""The same on the machines of the chains: 1.8 GHz (or faster), not 3, each with both replicas of a
node."""
COPY_US = 2
COMPARE_US = 1
BUCKET_US = 100_000
STREAMS = 3
WARM_US = 5_000_000
"""Time from the start to the failure; the failure waits for a full state if that comes later."""
LEAST_POINTS = 3
"""Fewest points that show whether a line is straight."""
STRAIGHT = 0.99
"""Least R² of points that lie on a straight line."""


Value = TypeVar("Value")


def profiles(smoke: Value, full: Value, quick: Value | None = None) -> Mapping[Profile, Value]:
    """Return a value for the smoke profile, and one for the two others, or ``quick`` of its own."""
    return {
        Profile.SMOKE: smoke,
        Profile.QUICK: full if quick is None else quick,
        Profile.PAPER: full,
    }


SETTLE_US = profiles(8_000_000, 30_000_000)
"""Time for which input goes on after the failure has healed."""
FEWEST = 3
"""The paper: "each result is an average of at least three experiments"."""
simulated = partial(computed, origin=Origin.SIMULATED, repeats=(1, FEWEST, FEWEST))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run of the set-up of dpc."""

    failure_s: float
    settle_us: int
    """Time for which input goes on after the failure."""
    bound_s: float = 2.7
    """αX."""
    rate_per_s: int = 3000
    """Aggregate over the three streams."""
    chain: int = 1
    during_failure: Policy = Policy.PROCESS
    during_stabilization: Policy = Policy.PROCESS
    method: Method = Method.CHECKPOINT
    snapshot_every: int = 0
    state: int = 100
    """Tuples in the join's window."""
    boxes: int = 1
    """Joins in series within the node; the state is split evenly over them."""
    logs_tentative: bool = True
    """Undo/redo: True if the history has the tuples that were processed tentatively."""
    interval_known: bool = True
    """True if nodes are configured with the time between buckets."""
    repeat: int = 0
    """Number of the run of a point: each fails at another phase of checkpoints and markers."""
    bucket_us: int = BUCKET_US
    process_us: int = PROCESS_US
    """Cost of processing one tuple."""
    corrections: Corrections = Corrections.DONE
    batches: int | None = None
    seed: int = 0

    @property
    def tuples(self) -> int:
        """Number of tuples per stream and bucket."""
        return self.rate_per_s * self.bucket_us // (STREAMS * 1_000_000)

    @property
    def memory(self) -> int:
        """Buckets of input that hold the join's state."""
        return -(-self.state // (STREAMS * self.tuples))

    @property
    def begin_us(self) -> int:
        """Time of the cut."""
        warm = max(WARM_US, (self.memory + 10) * self.bucket_us)
        return warm + self.repeat * self.bucket_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run as a client sees it; a batch's delay begins when its input is complete."""

    delay_new_s: float
    """Longest delay of a first version, stable or tentative."""
    delay_after_heal_s: float
    """The same among batches that came after the failure had healed."""
    tentative: int
    """Tentative tuples received."""
    tentative_batches: int
    mean_delay_s: float
    """Mean delay of stable first versions, from the middle of the bucket."""
    copy_share: float
    """Time spent on copying state over time spent on processing."""
    kept_tuples: int
    """Most tuples in the join when it goes back: state and input."""
    stabilizing_s: float
    """Sum of the times that the nodes of the chain spend on stabilizing."""
    last_stabilizing_s: float
    """The time of the last node."""
    buffered_tuples: int
    """Sum over the SUnions (one before each node) of the most tuples that waited in it."""


def chain_wiring(length: int, memory: int) -> Wiring:
    """Return three sources into a join, then a row of nodes; task 3 is the join."""
    sizes = [STREAMS, *([1] * length)]
    pairs = [(0, 1, "full"), *((i, i + 1, "one") for i in range(1, length))]
    return layered(
        sizes, pairs, memory=memory, names=["stream", *(f"node {i + 1}" for i in range(length))]
    )


def options_of(setting: Setting) -> Options:
    """Return the simulator's options for a run, with each task on a node of its own."""
    wiring = chain_wiring(setting.chain, setting.memory)
    end_us = setting.begin_us + round(setting.failure_s * 1e6) + setting.settle_us
    scheme = Scheme(
        name="dpc",
        recovery=Recovery.LOCAL,
        checkpoint_every=10_000_000,  # only streams fail here, no node
        window=20_000_000,  # nothing is trimmed, so nothing has to be bounded
        tentative=Tentative(
            closing=Closing.TASK,
            bound_us=round(setting.bound_s * 1e6),
            during_failure=setting.during_failure,
            during_stabilization=setting.during_stabilization,
            method=setting.method,
            snapshot_every=setting.snapshot_every,
            corrections=setting.corrections,
            interval_us=setting.bucket_us if setting.interval_known else 0,
            logs_tentative=setting.logs_tentative,
        ),
        heartbeat_us=50_000,
        suspect_after_us=1_000_000_000,
    )
    failure = Fault(
        kind=FaultKind.LINK,
        at_us=setting.begin_us,
        until_us=setting.begin_us + round(setting.failure_s * 1e6),
        target=0,
        other=STREAMS,
    )
    tasks = len(wiring.names)
    return Options(
        seed=setting.seed,
        topology="borealis chain",
        wiring=wiring,
        scheme=scheme,
        nodes=tuple(NodeInfo(name=f"n{i}", rack=f"r{i}", slots=1) for i in range(tasks)),
        placement=tuple(range(tasks)),
        batches=setting.batches or end_us // setting.bucket_us,
        interval_us=setting.bucket_us,
        tuples=setting.tuples,
        costs=Costs(
            batch_us=0, tuple_us=setting.process_us, copy_us=COPY_US, compare_us=COMPARE_US
        ),
        network=Network(delay_us=1_000, jitter_us=500, store_us=1_000, log_us=1_000),
        lanes=2,
        faults=(failure,) if setting.failure_s > 0 else (),
    )


def join_of(setting: Setting, task: int) -> TaskOperator:
    """Return the join of ``task``: on the first node in boxes, which share its state."""
    boxes = setting.boxes if task == STREAMS else 1
    tuples = setting.state // boxes
    memory = -(-tuples // (STREAMS * setting.tuples))
    if boxes == 1:
        return WindowOperator(task=task, tuples=tuples, memory=memory, fan_out=1)
    return SeriesOperator(task=task, tuples=tuples, memory=memory, boxes=boxes, fan_out=1)


def measure(setting: Setting) -> Measured:
    """Run ``setting`` with every checker on, and read its output partition."""
    options = options_of(setting)
    program = digests(options)
    joins = (join_of(setting, STREAMS + number) for number in range(setting.chain))
    program = replace(program, operators=(*program.operators[:STREAMS], *joins))
    bystander, nodes = Bystander(options, program.twin(options.batches)), Nodes()
    world = World(options, program, observers=(bystander, nodes), validate=False)
    world.start()
    world.kernel.run(until=options.horizon_us)
    world.kernel.run(until=options.horizon_us + 600_000_000, stop=world.finished)
    bystander.at_end(options.batches)
    return _read(world, nodes, setting)


class Nodes(Observer):
    """Observer of the tuples that the join keeps, and of the time that nodes stabilize."""

    def __init__(self) -> None:
        self.kept = 0
        self.stabilizing_us: Counter[int] = Counter()
        self.buffered: Counter[int] = Counter()
        self._since: dict[int, int] = {}

    def after(
        self,
        number: int,
        copy: TaskMachine,
        item: inputs.NodeInput,
        effects: Sequence[Any],
        clock: int,
    ) -> None:
        task = copy.task
        if task < STREAMS:
            return
        if type(item) is inputs.BatchArrived:
            parts = [part for slot in copy.inlet.inbox.slots.values() for part in slot.stable]
            came = item.payload[0] if not parts else 0  # taken by the operator at once
            waits = came + sum(part[0] for part in parts if part is not None)
            self.buffered[task] = max(self.buffered[task], waits)
        if task == STREAMS and type(item) is inputs.StateRebuilt:
            self.kept = max(self.kept, self._held(copy))
        redoes = copy.mode is Mode.STABILIZATION
        if redoes and task not in self._since:
            self._since[task] = clock
        elif not redoes and task in self._since:
            self.stabilizing_us[task] += clock - self._since.pop(task)

    @staticmethod
    def _held(copy: TaskMachine) -> int:
        """Return the tuples of the state (or of the input to rebuild it) and of waiting input."""
        basis = copy.computation.basis
        assert basis is not None
        waiting = 0
        for slot in copy.inlet.inbox.slots.values():
            waiting += sum(part[0] for part in slot.stable if part is not None)
        return basis.kept(tuples_in) + waiting


def tuples_in(value: Any) -> int:
    """Return the tuples in a state or batch: the sum over its nested (tuples, digest) pairs."""
    if value and isinstance(value[0], int):
        return int(value[0])
    return sum(tuples_in(part) for part in value)


def _read(world: World, nodes: Nodes, setting: Setting) -> Measured:
    (sink,) = world.wiring.sinks
    first: dict[int, int] = {}
    stable: list[float] = []
    tentative = batches = 0
    for published in world.partitions[sink].records:
        record = published.record
        if record.kind is Kind.UNDO:
            continue
        if record.kind is Kind.TENTATIVE:
            tentative += record.payload[0]
            batches += 1
        elif record.batch not in first:
            middle = (record.batch + 0.5) * setting.bucket_us
            stable.append((published.at_us - middle) / 1e6)
        first.setdefault(record.batch, published.at_us)
    versions = [
        ((batch + 1) * setting.bucket_us / 1e6, (at - (batch + 1) * setting.bucket_us) / 1e6)
        for batch, at in first.items()
    ]  # intended time and delay of every batch
    stabilizing_s = [nodes.stabilizing_us[STREAMS + n] / 1e6 for n in range(setting.chain)]
    healed_s = setting.begin_us / 1e6 + setting.failure_s
    after = [delay for intended, delay in versions if intended >= healed_s]
    join = world.wiring.names.index("node 1.0")
    return Measured(
        delay_new_s=max(delay for _, delay in versions),
        delay_after_heal_s=max(after, default=0.0),
        tentative=tentative,
        tentative_batches=batches,
        mean_delay_s=sum(stable) / len(stable),
        copy_share=world.copy_us[join] / max(1, world.compute_us[join] - world.copy_us[join]),
        kept_tuples=nodes.kept,
        stabilizing_s=sum(stabilizing_s),
        last_stabilizing_s=stabilizing_s[-1],
        buffered_tuples=sum(nodes.buffered.values()),
    )


def policies(combination: str) -> dict[str, Any]:
    """Return the fields of "policy & policy": during the failure, during stabilization."""
    during, after = map(Policy, combination.split(" & "))
    return {"during_failure": during, "during_stabilization": after}


def setting_of(point: Point, context: Context, **fixed: Any) -> Setting:
    """Return the setting of a point in one run; ``fixed`` are the values of the experiment."""
    values: dict[str, Any] = {
        "settle_us": SETTLE_US[context.profile],
        "seed": context.seed(),
        "repeat": context.repeat,
        **fixed,
    }
    for key, value in point.items():
        if key == "combination":
            values |= policies(str(value))
        else:
            kind: Any = {"during_failure": Policy, "method": Method}.get(key, lambda same: same)
            values[key] = kind(value)
    return Setting(**values)


def outcome(setting: Setting, names: Sequence[str]) -> Outcome:
    """Measure ``setting``, and return the fields of `Measured` with these names."""
    measured = measure(setting)
    return Outcome(values={name: getattr(measured, name) for name in names})


# Shown: no record depends on what follows.

BY_COSTS: Mapping[str, Any] = {
    "foregone": Foregone.CONSTRUCTION,
    "foregone_because": "the declared costs of a tuple are added up",
}

PAPER = "Balazinska et al., SIGMOD 2005"
CHOSEN = (
    "Simulated in virtual time. Chosen: 22 µs to process a tuple (so that a 3 s failure at 4,500 "
    "tuples/s takes 300 ms to reconcile, as the paper says), 2 µs to copy one, 1 µs to read and "
    "compare one, buckets of 100 ms; while a node reconciles, its second version runs on a lane "
    "of its own, as on the partner replica in the paper."
)
STAMP = "simulated, virtual time; costs per tuple chosen"


def averaged(
    frame: pd.DataFrame, by: Sequence[str], values: Sequence[str], *, sort: bool = True
) -> pd.DataFrame:
    """Return a row per point: the means of its runs, and their number."""
    grouped = frame.groupby(list(by), as_index=False, sort=sort)
    means = grouped[list(values)].mean()
    return means.merge(grouped.size().rename(columns={"size": "runs"}), on=list(by))


def per_combination(table: pd.DataFrame, index: str, values: str) -> pd.DataFrame:
    """Return ``values`` by ``index``, with a column per combination of policies."""
    return table.pivot_table(index=index, columns="combination", values=values)


def line(x: Any, y: Any) -> dict[str, float]:
    """Return the straight line through points: slope, intercept and R²."""
    from scipy.stats import linregress  # loading it takes a second

    found = linregress(x, y)
    return {
        "slope": float(found.slope),
        "intercept": float(found.intercept),
        "r_squared": float(found.rvalue**2),
    }


def fits(table: pd.DataFrame, by: str, x: str, y: str, fewest: int = 2) -> pd.DataFrame:
    """Return the straight line of ``y`` over ``x`` by group, of groups with enough points."""
    found = {key: line(own[x], own[y]) for key, own in table.groupby(by) if len(own) >= fewest}
    columns = ["slope", "intercept", "r_squared"]
    return pd.DataFrame.from_dict(found, orient="index", columns=columns)


def stamped(table: pd.DataFrame, statistic: str = "mean") -> str:
    """Return the origin of the numbers and the number of runs."""
    return f"{STAMP}; {runs_of(table, statistic)}"


def runs_of(table: pd.DataFrame, statistic: str = "mean") -> str:
    """Return the number of runs per point in words."""
    count = int(table["runs"].max())
    return "one run per point" if count == 1 else f"{statistic} of {count} runs per point"
