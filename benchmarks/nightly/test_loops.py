"""The loops that every night times: planners, the simulator, intervals, input, and operators.

`harness.nightly.metrics` lists them. Modules are imported inside each, see `conftest.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.nightly.conftest import Measure
    from harness.topology.model import Topology

RECORDS = 2_000_000
SENT = 20_000
LINES = 5_000
SECOND_US = 1_000_000
EVENTS = 10_000


def topology(operators: int, tasks: tuple[int, int] = (10, 20)) -> Topology:
    """Draw a random topology of Fig. 18b's kind, half of its operators joins."""
    from harness.seeds import generator
    from harness.topology.generate import Specification, random_topology

    spec = Specification(operators=(operators, operators), parallelism=tasks, join_fraction=0.5)
    return random_topology(spec, generator(0, "nightly"))


def test_output_fidelity(measure: Measure) -> None:
    from harness.seeds import generator
    from harness.topology.fidelity import output_fidelity

    large = topology(50)
    plans = generator(0, "plans").random((1000, large.task_count)) < 0.8
    measure(lambda: output_fidelity(large, plans))


def test_plan_structure_aware(measure: Measure) -> None:
    from harness.planning.structure_aware import StructureAware

    large = topology(12)
    measure(lambda: StructureAware().plan(large, int(0.8 * large.total_cost)))


def test_plan_greedy(measure: Measure) -> None:
    from harness.planning.greedy import Greedy

    large = topology(50)
    measure(lambda: Greedy().plan(large, int(0.8 * large.total_cost)))


def test_plan_dynamic_programming(measure: Measure) -> None:
    from harness.planning.dynamic_programming import DynamicProgramming

    small = topology(5, (2, 3))
    measure(lambda: DynamicProgramming().plan(small, int(0.5 * small.total_cost)))


def test_simulator_kernel(measure: Measure) -> None:
    from harness.simulator.kernel import MESSAGE, Kernel

    def run() -> None:
        kernel = Kernel()

        def again(left: int) -> None:
            if left:
                kernel.at(kernel.now + 1, MESSAGE, again, left - 1)

        kernel.at(0, MESSAGE, again, EVENTS)
        kernel.run(until=EVENTS)
        assert kernel.processed == EVENTS + 1

    measure(run)


def test_simulated_schedule(measure: Measure) -> None:
    from harness.simulator.campaign import Choice
    from harness.simulator.run import simulate

    choice = Choice(seeds=range(1, 2), scheme="ppa", topology="recovery")
    options = choice.options(1)
    measure(lambda: simulate(options))


def test_interval_simulation(measure: Measure) -> None:
    import numpy as np

    from harness.intervals.failure_models import Exponential
    from harness.intervals.simulator import simulate
    from harness.intervals.utilization import CheckpointedSystem

    system = CheckpointedSystem(
        cost_s=1.6, failure_rate_per_s=0.05 / 60, restart_s=23.1, depth=5, delay_s=0.027353
    )
    interval_s = float(system.optimal_interval_s())
    measure(
        lambda: simulate(
            system,
            interval_s,
            failures=Exponential(mttf_s=20 * 60),
            generator=np.random.default_rng(5),
            runs=200,
            failures_per_run=10_000,
        )
    )


def test_decode_log(measure: Measure, tmp_path: Path) -> None:
    import numpy as np

    from datasets.worldcup.archive import find, read_all
    from datasets.worldcup.format import DAY_ONE_S, DAY_S, RECORD

    random = np.random.default_rng(66)
    records = np.zeros(RECORDS, dtype=RECORD)
    records["timestamp"] = DAY_ONE_S + 65 * DAY_S + np.sort(random.integers(0, 3600, RECORDS))
    records["client"] = random.integers(0, 100_000, RECORDS)
    records["object"] = random.zipf(1.5, RECORDS) % 20_000
    path = tmp_path / "wc_day66_1"
    path.write_bytes(records.tobytes())
    files = find([path])
    measure(lambda: sum(len(chunk.records) for chunk in read_all(files)))


def test_generate_log(measure: Measure) -> None:
    from datasets.worldcup.generator import Day66

    def make() -> None:
        source = Day66(seed=66, partitions=2)
        for start in range(0, 50_000, 10_000):
            source.payloads(0, start, 10_000)

    measure(make)


class _Lines:
    """Records that cost nothing to make, so that only the generator's own work is measured."""

    def build(self) -> _Lines:
        return self

    def payloads(self, partition: int, start_index: int, count: int) -> list[bytes]:
        return [b"the quick brown fox jumps over the lazy dog"] * count


class _Sink:
    """A producer that takes every record and forgets it."""

    def produce(self, *arguments: Any, **named: Any) -> None:
        pass

    def __len__(self) -> int:
        return 0


def test_load_generator(measure: Measure) -> None:
    from harness.load.child import _Sender
    from harness.load.plan import Stream
    from harness.load.profile import RateProfile

    lines: Any = _Lines()
    stream = Stream(
        topic="lines", partitions=2, rate=RateProfile.constant(10_000, 10), records=lines
    )

    def send() -> None:
        sink: Any = _Sink()
        sender = _Sender(stream, sink, 0.0)  # long overdue: everything is sent at once
        while sender.sent < SENT:
            sender.advance()

    measure(send)


def test_codec(measure: Measure) -> None:
    import pyarrow as pa

    from harness.hosting.codec import decode, encode

    words = ["failover", "rack", "checkpoint", "replica"] * 500
    table = pa.table({"word": words, "count": list(range(len(words)))})
    state = {"finished": [table, table], "position": 17, "counts": {"a": 1, "b": 2}}

    def both_ways() -> None:
        for _ in range(100):
            decode(encode(table))
            decode(encode(state))

    measure(both_ways)


def test_operators_word_count(measure: Measure) -> None:
    import pyarrow as pa

    from workloads import wordcount
    from workloads.toolkit.operators import SOURCE_SCHEMA, Timeline, timestamps

    timeline = Timeline(start_us=0, batch_us=SECOND_US, slide_us=SECOND_US, window_us=2 * SECOND_US)
    program = wordcount.program(timeline=timeline, depth=4, partitions=1, counters=1)
    line = b"the quick brown fox jumps over the lazy dog number "
    values = [line + str(number).encode() for number in range(LINES)]
    source = pa.table(
        [
            pa.array(values, pa.binary()),
            pa.array([0] * LINES, pa.int32()),
            pa.array(range(LINES), pa.int64()),
            timestamps([number * SECOND_US // LINES for number in range(LINES)]),
        ],
        schema=SOURCE_SCHEMA,
    )
    chain: list[Any] = [program.task(name, 0) for name in ("split", "lower", "count", "collect")]

    def run() -> None:
        states = [task.initial() for task in chain]
        for batch in range(2):
            moving = source
            for place, task in enumerate(chain):
                states[place], outputs = task.process(states[place], batch, [moving])
                moving = outputs[0]
            assert moving.num_rows > 0

    measure(run)
