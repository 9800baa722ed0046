"""Live ratios: what the task engine costs where stock Spark costs 1, tonight and at the baseline.

Each side has a cluster of its own, both alive at the same time, so passes of the two can take turns
within the same minutes. First all passes of the one engine, then of the other, because an engine
takes half a minute to open. A pair's ratio is that of the passes with the same number.

The cost of a night is about eight minutes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.child import Child
from harness.errors import EnvironmentFailure
from harness.nightly.metrics import LIVE_RATE_PER_S, LiveRatio
from harness.nightly.sampling import BENCHMARKS, Gathered, Side
from harness.nightly.statistics import Pairs
from harness.seeds import generator
from harness.text import Notify

PROGRAM = BENCHMARKS / "live_side.py"
ENGINES = ("tasks", "structured")
"""The engine whose cost is divided, and the one that it is divided by."""
_READY_S, _PASS_S, _STOP_S = 180.0, 150.0, 60.0

Numbers = Mapping[str, float]


class LiveSide:
    """One revision's program with its cluster."""

    def __init__(self, side: Side, child: Child) -> None:
        self.name, self._side, self._child = side.name, side, child

    def wait_ready(self) -> None:
        """Return when its cluster runs; raises `EnvironmentFailure`."""
        ready = self._child.wait_for(
            "its cluster", lambda event: event["event"] == "ready", within_s=_READY_S
        )
        tree = Path(ready["tree"])
        assert tree == self._side.root.resolve(), f"{self.name} imported the code of {tree}"

    def run(self, engine: str) -> Numbers:
        """One pass; raises `EnvironmentFailure` with the program's reason where it failed."""
        mark = self._child.mark()
        self._child.send({"pass": engine, "rate_per_s": LIVE_RATE_PER_S})
        said = self._child.wait_for(
            f"a pass of {engine}",
            lambda event: event["event"] in ("done", "failed"),
            within_s=_PASS_S,
            since=mark,
        )
        if said["event"] == "failed":
            raise EnvironmentFailure(
                f"a live pass of {engine} at {self.name} failed: {said['why']}",
                remedy="run ./faultline run live/engines to see it by itself",
            )
        return {name: value for name, value in said.items() if name != "event"}


def gather_live(
    ratios: Sequence[LiveRatio],
    baseline: Side,
    tonight: Side,
    *,
    pairs: int,
    seed: int,
    report: Notify,
) -> Gathered:
    """``pairs`` ratios of each side. What fails has no number, and its reason is kept."""
    why: dict[str, str] = {}
    found: dict[str, dict[str, list[Numbers | None]]] = {}
    with tempfile.TemporaryDirectory(prefix="faultline-nightly-") as logs:
        try:
            with _sides(baseline, tonight, Path(logs), report) as sides:
                found = _passes(sides, pairs=pairs, seed=seed, report=report, why=why)
        except EnvironmentFailure as failure:
            why = dict.fromkeys(("baseline", "tonight"), failure.what)
    empty: dict[str, list[Numbers | None]] = {engine: [None] * pairs for engine in ENGINES}
    return Gathered(
        pairs={
            ratio.name: Pairs(
                baseline=ratio_of(found.get("baseline", empty), ratio.value),
                tonight=ratio_of(found.get("tonight", empty), ratio.value),
            )
            for ratio in ratios
        },
        reasons={f"{ratio.name} ({which})": why[which] for ratio in ratios for which in why},
    )


def ratio_of(passes: Mapping[str, Sequence[Numbers | None]], value: str) -> list[float | None]:
    """Pass by pass, one engine's number over the other's; None where one has none or it is not
    above zero."""
    ours, theirs = (passes[engine] for engine in ENGINES)
    return [
        mine[value] / other[value]
        if mine and other and mine[value] > 0 and other[value] > 0
        else None
        for mine, other in zip(ours, theirs, strict=True)
    ]


def _passes(
    sides: Mapping[str, LiveSide],
    *,
    pairs: int,
    seed: int,
    report: Notify,
    why: dict[str, str],
) -> dict[str, dict[str, list[Numbers | None]]]:
    """Every side's passes by engine, the sides in an order that is drawn for each pair."""
    found: dict[str, dict[str, list[Numbers | None]]] = {
        which: {engine: [] for engine in ENGINES} for which in sides
    }
    for engine in ENGINES:
        swaps = generator(seed, "nightly", "live", engine).random(pairs) < 0.5
        for number in range(pairs):
            report(f"live pass {number + 1} of {pairs}, engine {engine}")
            order = list(sides.items())
            for which, side in reversed(order) if swaps[number] else order:
                try:
                    found[which][engine].append(side.run(engine))
                except EnvironmentFailure as failure:
                    found[which][engine].append(None)
                    why[which] = failure.what
    return found


@contextmanager
def _sides(
    baseline: Side, tonight: Side, logs: Path, report: Notify
) -> Iterator[Mapping[str, LiveSide]]:
    children = []
    try:
        sides = {}
        for which, side in (("baseline", baseline), ("tonight", tonight)):
            report(f"starting a cluster of {side.name}")
            child = Child(
                PROGRAM,
                name=f"the live side of {side.name}",
                log=logs / f"{which}.log",
                remedy="run ./faultline doctor; leave live engines out with --no-live",
                environment={**os.environ, "PYTHONPATH": str(side.root)},
                python=side.python,
            )
            children.append(child)
            sides[which] = LiveSide(side, child)
        for each in sides.values():
            each.wait_ready()
        yield sides
    finally:
        for child in children:
            child.hang_up()
        for child in children:
            child.stop(within_s=_STOP_S)
