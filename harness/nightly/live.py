"""Live ratios: the task engine's cost over that of stock Spark in micro-batches, on both sides.

Each side has a cluster of its own, both alive at the same time, so passes of the two can take turns
within the same minutes. First all passes of the one engine, then of the other, because an engine
takes half a minute to open; both sides open it at the same time. A pair's ratio is that of the
passes with the same number.

It takes eight to eleven minutes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.child import Child
from harness.errors import EnvironmentFailure
from harness.nightly.metrics import LIVE_RATE_PER_S, LiveRatio
from harness.nightly.sampling import BENCHMARKS, Gathered, Side
from harness.nightly.statistics import Pairs
from harness.seeds import generator
from harness.text import Notify

PROGRAM = BENCHMARKS / "live_side.py"
ENGINES = ("tasks", "structured")
"""The engine of the ratio's numerator, and that of its denominator."""
_READY_S, _OPEN_S, _PASS_S, _STOP_S = 180.0, 300.0, 150.0, 60.0
"""Longest time for a cluster, an engine with its warm-up, a pass and the end."""

Numbers = Mapping[str, float]


class LiveSide:
    """One revision's program with its cluster."""

    def __init__(self, side: Side, child: Child) -> None:
        self.name, self._side, self._child = side.name, side, child
        self._orders = 0
        self._silent: EnvironmentFailure | None = None

    def wait_ready(self) -> None:
        """Wait until its cluster runs. Raises `EnvironmentFailure`."""
        ready = self._child.wait_for(
            "its cluster", lambda event: event["event"] == "ready", within_s=_READY_S
        )
        tree = Path(ready["tree"])
        assert tree == self._side.root.resolve(), f"{self.name} imported the code of {tree}"

    def begin_open(self, engine: str) -> int:
        """Request that the engine is opened and warmed up, instead of the one that is open."""
        return self._order("open", engine)

    def wait_open(self, number: int, engine: str) -> None:
        """Wait until that request is answered."""
        self._answer(number, f"the start of {engine}", within_s=_OPEN_S)

    def run(self, engine: str) -> Numbers:
        """Make one pass. Raises `EnvironmentFailure` with the program's reason if it failed."""
        said = self._answer(self._order("pass", engine), f"a pass of {engine}", within_s=_PASS_S)
        return {name: value for name, value in said.items() if name not in ("event", "order")}

    def _order(self, what: str, engine: str) -> int:
        self._orders += 1
        order = {what: engine, "order": self._orders, "rate_per_s": LIVE_RATE_PER_S}
        self._child.send(order)
        return self._orders

    def _answer(self, number: int, what: str, *, within_s: float) -> Mapping[str, Any]:
        """Return the answer to that order alone: a late one must not be taken for the next.

        A side that left an order unanswered gets no further one."""
        if self._silent is not None:
            raise self._silent
        try:
            said = self._child.wait_for(
                what, lambda event: event.get("order") == number, within_s=within_s
            )
        except EnvironmentFailure as failure:
            self._silent = failure
            raise
        if said["event"] == "failed":
            raise EnvironmentFailure(
                f"{what} at {self.name} failed: {said['why']}",
                remedy="run ./faultline run live/engines to see it by itself",
            )
        return said


def gather_live(
    ratios: Sequence[LiveRatio],
    baseline: Side,
    tonight: Side,
    *,
    pairs: int,
    seed: int,
    report: Notify,
) -> Gathered:
    """Measure ``pairs`` ratios of each side. A failure leaves no number but a reason."""
    why: dict[str, str] = {}
    found: dict[str, dict[str, list[Numbers | None]]] = {}
    with tempfile.TemporaryDirectory(prefix="faultline-nightly-") as logs:
        try:
            with _sides(baseline, tonight, Path(logs), report) as sides:
                found = _passes(sides, pairs=pairs, seed=seed, report=report, why=why)
        except EnvironmentFailure as failure:
            why = dict.fromkeys(("baseline", "tonight"), _short(failure))
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


def _short(failure: EnvironmentFailure) -> str:
    """Return what happened with the last line of the log alone, for the history."""
    first, *log = failure.what.splitlines()
    return f"{first} … {log[-1].strip()}" if log else first


def ratio_of(passes: Mapping[str, Sequence[Numbers | None]], value: str) -> list[float | None]:
    """Return one engine's number over the other's, pass by pass.

    None where a number is missing or not above zero."""
    ours, theirs = (passes[engine] for engine in ENGINES)
    return [
        mine[value] / other[value]
        if mine and other and mine[value] > 0 and other[value] > 0
        else None
        for mine, other in zip(ours, theirs, strict=True)
    ]


def _passes(
    sides: Mapping[str, LiveSide], *, pairs: int, seed: int, report: Notify, why: dict[str, str]
) -> dict[str, dict[str, list[Numbers | None]]]:
    """Make every side's passes by engine, the sides in an order drawn for each pair."""
    found: dict[str, dict[str, list[Numbers | None]]] = {
        which: {engine: [] for engine in ENGINES} for which in sides
    }
    for engine in ENGINES:
        report(f"starting {engine} on both sides")
        _open(engine, sides, why)
        swaps = generator(seed, "nightly", "live", engine).random(pairs) < 0.5
        for number in range(pairs):
            report(f"live pass {number + 1} of {pairs}, engine {engine}")
            order = list(sides.items())
            for which, side in reversed(order) if swaps[number] else order:
                try:
                    found[which][engine].append(side.run(engine))
                except EnvironmentFailure as failure:
                    found[which][engine].append(None)
                    why[which] = _short(failure)
    return found


def _open(engine: str, sides: Mapping[str, LiveSide], why: dict[str, str]) -> None:
    """Open an engine on all sides at once. After a failure the next pass tries it again."""
    numbers = {}
    for which, side in sides.items():
        try:
            numbers[which] = side.begin_open(engine)
        except EnvironmentFailure as failure:
            why[which] = _short(failure)
    for which, number in numbers.items():
        try:
            sides[which].wait_open(number, engine)
        except EnvironmentFailure as failure:
            why[which] = _short(failure)


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
