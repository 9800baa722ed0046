"""Borealis' experiments in virtual time: one node, or a chain of them, with one input cut off.

Three input streams feed a join; one of them is disconnected for a while without stopping its
source, then everything that is missing is sent while new tuples keep coming (dpc, section 5).
A batch is what Borealis calls a bucket, and a message is its boundary. The costs per tuple are
chosen: 22 µs to process one is what makes reconciliation after a 3 s failure at 4,500 tuples/s
last the 300 ms that the paper reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from harness.protocol import inputs as told
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
from harness.results.record import Point, Profile
from harness.simulator.checkers import Bystander
from harness.simulator.observing import Observer
from harness.simulator.options import Costs, Fault, FaultKind, Network, Options
from harness.simulator.synthetic import SeriesOperator, digests
from harness.simulator.topologies import layered
from harness.simulator.world import World

PAPER = "Balazinska et al., SIGMOD 2005"
PROCESS_US = 22
CHAIN_PROCESS_US = PROCESS_US * 30 // 18 * 2
"""On the machines of the chains: 1.8 GHz instead of 3, each with both replicas of its node."""
COPY_US = 2
COMPARE_US = 1
BUCKET_US = 100_000
STREAMS = 3
WARM_US = 5_000_000
"""The failure begins so long after the start, or when the state is full if that is later."""
SETTLE_US = {Profile.SMOKE: 8_000_000, Profile.QUICK: 30_000_000, Profile.PAPER: 30_000_000}
"""Input goes on for so long after the failure has healed."""
CHOSEN = (
    "Simulated in virtual time. Chosen: 22 µs to process a tuple (so that a 3 s failure at 4,500 "
    "tuples/s takes 300 ms to reconcile, as the paper says), 2 µs to copy one, 1 µs to read and "
    "compare one, buckets of 100 ms; while a node reconciles, its second version runs on a lane "
    "of its own, as on the partner replica in the paper."
)
STAMP = "simulated, virtual time; costs per tuple chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run of the set-up of dpc."""

    failure_s: float
    settle_us: int
    """How long input goes on after the failure."""
    bound_s: float = 2.7
    """αX."""
    rate_per_s: int = 3000
    """Aggregate over the three streams."""
    chain: int = 1
    during_failure: Policy = Policy.PROCESS
    during_stabilization: Policy = Policy.PROCESS
    method: Method = Method.CHECKPOINT
    snapshot_every: int = 0
    memory: int = 1
    """The join's state, in buckets of input."""
    boxes: int = 1
    """Joins in series within the node; the state is split evenly over them."""
    logs_tentative: bool = True
    """Undo/redo: whether the history holds what was processed tentatively."""
    tells_interval: bool = True
    """Whether nodes know how far apart buckets are."""
    repeat: int = 0
    """Which run of the same point: each fails at another phase of checkpoints and markers."""
    bucket_us: int = BUCKET_US
    process_us: int = PROCESS_US
    """To process one tuple."""
    corrections: Corrections = Corrections.DONE
    batches: int | None = None
    seed: int = 0

    @property
    def tuples(self) -> int:
        """Per stream and bucket."""
        return self.rate_per_s * self.bucket_us // (STREAMS * 1_000_000)

    @property
    def begin_us(self) -> int:
        """When the stream is cut."""
        warm = max(WARM_US, (self.memory + 10) * self.bucket_us)
        return warm + self.repeat * self.bucket_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a client sees of one run; a batch's delay counts from when its input was complete."""

    delay_new_s: float
    """The longest delay of a first version, stable or tentative."""
    delay_after_heal_s: float
    """The same among batches that came after the failure had healed."""
    tentative: int
    """Tentative tuples received."""
    tentative_batches: int
    mean_delay_s: float
    """Of stable first versions, from the middle of the bucket."""
    copy_share: float
    """Time spent on copying state, per time spent on processing."""
    kept_tuples: int
    """What the join held when it went back: state and input."""
    stabilizing_s: tuple[float, ...]
    """How long each node of the chain was stabilizing."""
    first_versions: tuple[tuple[float, float], ...]
    """(intended time, delay) of every batch, seconds."""


def chain_wiring(length: int, memory: int) -> Wiring:
    """Three sources into a join, then a row of nodes; task 3 is the join."""
    sizes = [STREAMS, *([1] * length)]
    pairs = [(0, 1, "full"), *((i, i + 1, "one") for i in range(1, length))]
    return layered(
        sizes, pairs, memory=memory, names=["stream", *(f"node {i + 1}" for i in range(length))]
    )


def options_of(setting: Setting) -> Options:
    """The run as the simulator wants it: each task on a node of its own."""
    wiring = chain_wiring(setting.chain, setting.memory)
    end_us = setting.begin_us + int(setting.failure_s * 1e6) + setting.settle_us
    scheme = Scheme(
        name="dpc",
        recovery=Recovery.LOCAL,
        checkpoint_every=10_000_000,  # no node fails here, only streams
        window=20_000_000,  # so nothing is trimmed, and nothing has to be bounded
        tentative=Tentative(
            closing=Closing.TASK,
            bound_us=int(setting.bound_s * 1e6),
            during_failure=setting.during_failure,
            during_stabilization=setting.during_stabilization,
            method=setting.method,
            snapshot_every=setting.snapshot_every,
            corrections=setting.corrections,
            interval_us=setting.bucket_us if setting.tells_interval else 0,
            logs_tentative=setting.logs_tentative,
        ),
        heartbeat_us=50_000,
        suspect_after_us=1_000_000_000,
    )
    failure = Fault(
        kind=FaultKind.LINK,
        at_us=setting.begin_us,
        until_us=setting.begin_us + int(setting.failure_s * 1e6),
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


def series_of(options: Options, task: int, boxes: int) -> TaskOperator:
    """The operator of ``task`` as ``boxes`` in series, with as much state as one."""
    memory = max(1, options.wiring.memory[task] // boxes)
    fan_out = len(options.wiring.downstream[task])
    return SeriesOperator(task=task, memory=memory, boxes=boxes, fan_out=fan_out)


def measure(setting: Setting) -> Measured:
    """Run ``setting`` with every checker on, and read the output partition."""
    options = options_of(setting)
    program = digests(options)
    if setting.boxes > 1:
        operators = list(program.operators)
        operators[STREAMS] = series_of(options, STREAMS, setting.boxes)
        program = replace(program, operators=tuple(operators))
    bystander, nodes = Bystander(options, program.twin(options.batches)), Nodes()
    world = World(options, program, observers=(bystander, nodes), validate=False)
    world.start()
    world.kernel.run(until=options.horizon_us)
    world.kernel.run(until=options.horizon_us + 600_000_000, stop=world.finished)
    bystander.at_end(options.batches)
    return _read(world, nodes, setting)


class Nodes(Observer):
    """What the nodes of the chain hold, and how long they stabilize."""

    def __init__(self) -> None:
        self.kept = 0
        self.stabilizing_us: Counter[int] = Counter()
        self._since: dict[int, int] = {}

    def after(
        self,
        number: int,
        copy: TaskMachine,
        item: told.NodeInput,
        effects: Sequence[Any],
        clock: int,
    ) -> None:
        task = copy.task
        if task < STREAMS:
            return
        if task == STREAMS and type(item) is told.StateRebuilt:
            self.kept = max(self.kept, self._held(copy))
        redoes = copy.mode is Mode.STABILIZATION
        if redoes and task not in self._since:
            self._since[task] = clock
        elif not redoes and task in self._since:
            self.stabilizing_us[task] += clock - self._since.pop(task)

    @staticmethod
    def _held(copy: TaskMachine) -> int:
        """Tuples of the state to go back to, or of the input that it is rebuilt from, and of the
        input that cannot be processed yet."""
        basis = copy.computation.basis
        assert basis is not None
        waiting = 0
        for slot in copy.inlet.inbox.slots.values():
            waiting += sum(part[0] for part in slot.stable if part is not None)
        return basis.kept(tuples_in) + waiting


def tuples_in(value: Any) -> int:
    """Of a state or of a batch's parts, however they are nested: (tuples, digest) counts."""
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
    versions = tuple(
        ((batch + 1) * setting.bucket_us / 1e6, (at - (batch + 1) * setting.bucket_us) / 1e6)
        for batch, at in sorted(first.items())
    )
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
        stabilizing_s=tuple(
            nodes.stabilizing_us[STREAMS + place] / 1e6 for place in range(setting.chain)
        ),
        first_versions=versions,
    )


def setting_of(point: Point, **fixed: Any) -> Setting:
    """A `Setting` from a point's values and what the experiment fixes."""
    values: dict[str, Any] = {**fixed}
    for key, value in point.items():
        if key == "combination":
            failure, stabilization = str(value).split(" & ")
            values["during_failure"] = Policy(failure)
            values["during_stabilization"] = Policy(stabilization)
        elif key == "method":
            values["method"] = Method(str(value))
        else:
            values[key] = value
    return Setting(**values)


THRICE: Mapping[Profile, int] = {Profile.SMOKE: 1, Profile.QUICK: 3, Profile.PAPER: 3}
"""The paper: "each result is an average of at least three experiments"."""


def averaged(frame: pd.DataFrame, by: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """A row per point: the means of its runs, and how many there are."""
    grouped = frame.groupby(list(by), as_index=False)
    means = grouped[list(values)].mean()
    return means.merge(grouped.size().rename(columns={"size": "runs"}), on=list(by))


def runs_of(table: pd.DataFrame) -> str:
    """For the corner of a figure."""
    count = int(table["runs"].max())
    return "one run per point" if count == 1 else f"mean of {count} runs per point"


ONCE: Mapping[Profile, int] = dict.fromkeys(Profile, 1)
