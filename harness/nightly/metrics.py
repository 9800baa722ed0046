"""The metrics of every night: their names, titles and benchmark files.

The benchmarks are in ``benchmarks/nightly``; a test compares this list with them. A hot loop is the
processor time of one call, in seconds. A live ratio is the task engine's cost on real servers as a
share of stock Spark's in micro-batches. Less is better for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.errors import UsageError
from harness.text import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class HotLoop:
    """One loop whose cost is watched."""

    name: str
    title: str
    file: str
    """File of its benchmark in ``benchmarks/nightly``; the function is ``test_<name>``."""

    @property
    def node(self) -> str:
        """Its name for pytest, from ``benchmarks/nightly``."""
        return f"{self.file}::test_{self.name}"


_TITLES = {
    "test_planning.py": {
        "output_fidelity": "Output fidelity of 1,000 plans for 50 operators",
        "plan_structure_aware": "A plan of the structure-aware planner for 12 operators",
        "plan_greedy": "A plan of the greedy planner for 50 operators",
        "plan_dynamic_programming": "A plan by dynamic programming for 5 operators",
    },
    "test_simulator.py": {
        "simulator_kernel": "10,000 events of the simulator's kernel",
        "simulated_schedule": "One schedule of failures of the 15-task recovery topology, "
        "all checkers on",
    },
    "test_intervals.py": {"interval_simulation": "2,000,000 failures of a checkpointed system"},
    "test_data.py": {
        "decode_log": "Decoding 2,000,000 records of the World Cup's access log",
        "generate_log": "Generating 50,000 records of the World Cup's kind",
        "load_generator": "The load generator's own work for 20,000 records, without a broker",
        "codec": "A table and a state of 2,000 rows to the wire format and back, 100 times",
    },
    "test_operators.py": {
        "operators_word_count": "Splitting and counting the words of 5,000 lines, task by task"
    },
}
HOT_LOOPS: tuple[HotLoop, ...] = tuple(
    HotLoop(name=name, title=title, file=file)
    for file, titles in _TITLES.items()
    for name, title in titles.items()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRatio:
    """The cost of the task engine over that of stock Spark in micro-batches, on real servers."""

    name: str
    title: str
    value: str
    """The name of the number in a pass (``benchmarks/nightly/live_side.py``)."""


LIVE_RATIOS: tuple[LiveRatio, ...] = (
    LiveRatio(
        name="live_cpu",
        title="CPU per record of the task engine, as a share of stock Spark's in micro-batches",
        value="cpu_s_per_record",
    ),
    LiveRatio(
        name="live_latency",
        title="Median latency of the task engine, as a share of stock Spark's in micro-batches",
        value="latency_p50_s",
    ),
)
"""Both run word count at `LIVE_RATE_PER_S`, which both engines sustain."""
LIVE_RATE_PER_S = 5_000.0


def chosen(names: tuple[str, ...]) -> tuple[HotLoop, ...]:
    """Return the loops with these names, or all if none is named. Raises `UsageError`."""
    known = {loop.name: loop for loop in HOT_LOOPS}
    _demand(names, known)
    return tuple(known[name] for name in names) if names else HOT_LOOPS


def chosen_with_live(names: tuple[str, ...]) -> tuple[tuple[HotLoop, ...], tuple[LiveRatio, ...]]:
    """Return the loops and the live ratios with these names, or all if none is named."""
    if not names:
        return HOT_LOOPS, LIVE_RATIOS
    live = {ratio.name: ratio for ratio in LIVE_RATIOS}
    loops = tuple(name for name in names if name not in live)
    _demand(loops, [*live, *(loop.name for loop in HOT_LOOPS)])
    return chosen(loops) if loops else (), tuple(live[name] for name in names if name in live)


def _demand(names: Iterable[str], known: Iterable[str]) -> None:
    listed = list(known)
    for name in names:
        if name not in listed:
            raise UsageError(
                f"there is no nightly metric {name!r}", remedy=did_you_mean(name, listed)
            )
