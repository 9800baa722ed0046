"""The metrics of every night: their names, titles and benchmark files.

The benchmarks are in ``benchmarks/nightly``; a test compares this list with them. A hot loop is the
processor time of one call, in seconds. A live ratio is the task engine's cost on real servers as a
share of stock Spark's in micro-batches. A recovery is what the kill of a worker costs an engine: an
outage, or results that are lost, repeated or wrong. Less is better for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import UsageError
from harness.nightly.statistics import FEWEST_PAIRS, RATIO, Scale, confirming_pairs
from harness.text import did_you_mean

Turn = tuple[str, str]
"""An engine and what is measured of it on real servers: a ``pass`` or a ``kill``."""
ENGINES = ("tasks", "structured")
"""The engine of a live ratio's numerator, and that of its denominator."""
LIVE_RATE_PER_S = 5_000.0
"""The rate of passes, which both engines sustain."""
KILLS = {"tasks": 5, "structured": 3}
"""Pairs of kills of each engine. They raise a suspicion, which fresh pairs confirm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A cost that is watched."""

    name: str
    title: str
    what: str
    """The cost in an alarm, and on the axis of its chart."""
    file: str = ""
    """File of a loop's benchmark in ``benchmarks/nightly``; the function is ``test_<name>``."""
    turns: tuple[Turn, ...] = ()
    """What a live metric needs. Its samples are ratios of the first one to the second."""
    value: str = ""
    """The name of its number in a turn (``benchmarks/nightly/live_side.py``)."""
    pairs: int = FEWEST_PAIRS
    """Pairs of a live metric: each takes a minute or more."""
    fewest: int = FEWEST_PAIRS
    """Number of pairs without which there is no comparison."""
    scale: Scale = RATIO

    @property
    def counts_errors(self) -> bool:
        """True for a number of results."""
        return self.scale.unit == "results"


_TITLES = {
    "output_fidelity": "Output fidelity of 1,000 plans for 50 operators",
    "plan_structure_aware": "A plan of the structure-aware planner for 12 operators",
    "plan_greedy": "A plan of the greedy planner for 50 operators",
    "plan_dynamic_programming": "A plan by dynamic programming for 5 operators",
    "simulator_kernel": "10,000 events of the simulator's kernel",
    "simulated_schedule": "One schedule of failures of the 15-task recovery topology, "
    "all checkers on",
    "interval_simulation": "2,000,000 failures of a checkpointed system",
    "decode_log": "Decoding 2,000,000 records of the World Cup's access log",
    "generate_log": "Generating 50,000 records of the World Cup's kind",
    "load_generator": "The load generator's own work for 20,000 records, without a broker",
    "codec": "A table and a state of 2,000 rows to the wire format and back, 100 times",
    "operators_word_count": "Splitting and counting the words of 5,000 lines, task by task",
}
HOT_LOOPS = tuple(
    Metric(name=name, title=title, file="test_loops.py", what="processor time")
    for name, title in _TITLES.items()
)
LIVE_RATIOS = tuple(
    Metric(
        name=name,
        title=f"{title} of the task engine, as a share of stock Spark's in micro-batches",
        what="ratio to stock Spark (micro-batches)",
        turns=tuple((engine, "pass") for engine in ENGINES),
        value=value,
    )
    for name, title, value in (
        ("live_cpu", "CPU per record", "cpu_s_per_record"),
        ("live_latency", "Median latency", "latency_p50_s"),
    )
)
RECOVERIES = tuple(
    Metric(
        name=f"kill_{engine}_{what}",
        title=f"{title} after a kill of "
        + ("the task engine" if engine == "tasks" else "stock Spark (micro-batches)"),
        what=what,
        turns=((engine, "kill"),),
        value=value,
        pairs=pairs,
        fewest=min(KILLS.values()),
        scale=Scale(unit),
    )
    for engine, pairs in KILLS.items()
    for what, title, value, unit in (
        ("outage", "Time for which results were late", "outage_s", "s"),
        ("lost", "Results lost", "lost", "results"),
        ("repeated", "Results delivered again", "repeated", "results"),
        ("wrong", "Wrong or superfluous results", "wrong", "results"),
    )
)
METRICS = (*HOT_LOOPS, *LIVE_RATIOS, *RECOVERIES)

_SECONDS = {"pair of a loop": 0.7, "clusters": 40, "open": 60, "pass": 17, "kill": 75}
"""Seconds on two idle cores."""


def turns_of(metrics: Sequence[Metric], fresh_of: int | None = None) -> dict[Turn, int]:
    """Return the pairs of passes and kills that the live ones of these metrics need.

    With ``fresh_of``, a number of comparisons, those that confirm a suspicion."""
    return {
        turn: each.pairs if fresh_of is None else confirming_pairs(each.pairs, fresh_of)
        for each in metrics
        for turn in each.turns
    }


def planned_s(metrics: Sequence[Metric], pairs: int, fresh_of: int | None = None) -> float:
    """Return about how long these metrics take, ``pairs`` of the loops."""
    loops = sum(not each.turns for each in metrics)
    turns = turns_of(metrics, fresh_of)
    engines = len({engine for engine, _ in turns})
    return (
        pairs * loops * _SECONDS["pair of a loop"]
        + (_SECONDS["clusters"] if engines else 0)
        + engines * _SECONDS["open"]
        + sum(2 * count * _SECONDS[what] for (_, what), count in turns.items())
    )


def chosen(names: Sequence[str], *, live: bool = True) -> tuple[Metric, ...]:
    """Return the metrics with these names, or all if none is named; only loops without ``live``.

    Raises `UsageError` for a name that no metric has."""
    known = {metric.name: metric for metric in METRICS}
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no nightly metric {name!r}", remedy=did_you_mean(name, list(known))
            )
    found = [known[name] for name in dict.fromkeys(names)] if names else METRICS
    return tuple(each for each in found if live or not each.turns)
