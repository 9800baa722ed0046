"""Live metrics: costs of passes of both engines, and recoveries after kills, on both sides.

Each side has a cluster of its own, both alive at the same time, so the two can take turns within
the same minutes. First everything of the one engine, then of the other, because an engine
takes half a minute to open; both sides open it at the same time. A ratio is that of an engine's
pass to the other engine's pass with the same number. The two kills of a pair are of the same
worker at the same instant of the load, and each is a run of its own (`harness.judging.run`)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.child import Child
from harness.errors import EnvironmentFailure
from harness.measure.windows import LATER_S
from harness.nightly.metrics import ENGINES, LIVE_RATE_PER_S, Metric, Turn, turns_of
from harness.nightly.sampling import BENCHMARKS, Gathered, Side
from harness.nightly.statistics import Pairs
from harness.seeds import derive_seed, generator
from harness.text import Notify

PROGRAM = BENCHMARKS / "live_side.py"
_WHICH = ("baseline", "tonight")
_READY_S, _STOP_S = 180.0, 60.0
"""Longest time for a cluster, and for its end."""
_WITHIN_S = {"open": 300.0, "pass": 150.0, "kill": 1200.0}
"""Longest time for an engine with its warm-up, a pass, and the attempts at a kill."""

Numbers = Mapping[str, Any]
"""The numbers of a pass or a kill. ``why`` is the reason for those that are missing."""


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

    def order(self, what: str, engine: str, **more: float) -> int:
        """Order to open an engine, a pass or a kill, and return the number of the order."""
        self._orders += 1
        order = {what: engine, "order": self._orders, "rate_per_s": LIVE_RATE_PER_S, **more}
        try:
            self._child.send(order)
        except EnvironmentFailure as failure:
            self._silent = self._silent or failure
        return self._orders

    def answer(self, number: int, what: str, engine: str) -> Numbers:
        """Return the answer to that order alone: a late one must not be taken for the next.

        A side that left an order unanswered is not waited for again."""
        if self._silent is None:
            try:
                said = self._child.wait_for(
                    f"the {what} of {engine}",
                    lambda event: event.get("order") == number,
                    within_s=_WITHIN_S[what],
                )
            except EnvironmentFailure as failure:
                self._silent = failure
            else:
                failed = f"the {what} of {engine} at {self.name} failed: {said.get('why')}"
                return {"why": failed} if said["event"] == "failed" else said
        return {"why": _short(self._silent)}


def gather_live(
    metrics: Sequence[Metric],
    baseline: Side,
    tonight: Side,
    *,
    seed: int,
    report: Notify,
    fresh_of: int | None = None,
) -> Gathered:
    """Measure pairs of each metric, as many as `turns_of`. A failure leaves a reason."""
    turns = turns_of(metrics, fresh_of)
    found: dict[tuple[str, Turn], list[Numbers]] = {}
    with tempfile.TemporaryDirectory(prefix="faultline-nightly-") as logs:
        try:
            with _sides(baseline, tonight, Path(logs), report) as sides:
                for engine in ENGINES:
                    found |= _measure(engine, turns, sides, seed, report)
        except EnvironmentFailure as failure:
            nothing: Numbers = {"why": _short(failure)}
            missing = {(which, turn): [nothing] * turns[turn] for which in _WHICH for turn in turns}
            found = missing | found
    gathered = Gathered({}, {})
    for metric in metrics:
        samples = {}
        for which in _WHICH:
            numbers = [found[which, turn] for turn in metric.turns]
            samples[which] = _samples(metric, numbers)
            reasons = [one["why"] for each in numbers for one in each if one.get("why")]
            if None in samples[which] and reasons:
                gathered.reasons[f"{metric.name} ({which})"] = reasons[-1]
        gathered.pairs[metric.name] = Pairs(**samples, scale=metric.scale, fewest=metric.fewest)
    return gathered


def _short(failure: EnvironmentFailure) -> str:
    """Return what happened with the last line of the log alone, for the history."""
    first, *log = failure.what.splitlines()
    return f"{first} … {log[-1].strip()}" if log else first


def _samples(metric: Metric, numbers: Sequence[Sequence[Numbers]]) -> list[float | None]:
    """Return a side's samples of a metric; None where a number is missing.

    A ratio is one engine's number over the other's, pass by pass, if both are above zero."""
    costs = [[one.get(metric.value) for one in each] for each in numbers]
    if len(costs) == 1:
        return costs[0]
    pairs = zip(*costs, strict=True)
    return [over / under if over and under and over > 0 < under else None for over, under in pairs]


def _measure(
    engine: str, turns: Mapping[Turn, int], sides: Mapping[str, LiveSide], seed: int, report: Notify
) -> dict[tuple[str, Turn], list[Numbers]]:
    """Make an engine's passes and kills, the sides in an order that is drawn for each pair."""
    own = {turn: count for turn, count in turns.items() if turn[0] == engine}
    found: dict[tuple[str, Turn], list[Numbers]] = {(w, turn): [] for w in sides for turn in own}
    if own:
        report(f"starting {engine} on both sides")
        opening = [(side, side.order("open", engine)) for side in sides.values()]
        for side, number in opening:  # after a failure the next turn tries it again
            side.answer(number, "open", engine)
    for turn, count in own.items():
        what = turn[1]
        swaps = generator(seed, "nightly", "live", what, engine).random(count) < 0.5
        for number in range(count):
            report(f"live {what} {number + 1} of {count}, engine {engine}")
            more = {"seed": derive_seed(seed, what, engine, number), "later_s": LATER_S}
            order = list(sides.items())
            for which, side in reversed(order) if swaps[number] else order:
                ordered = side.order(what, engine, **more)
                found[which, turn].append(side.answer(ordered, what, engine))
    return found


@contextmanager
def _sides(
    baseline: Side, tonight: Side, logs: Path, report: Notify
) -> Iterator[Mapping[str, LiveSide]]:
    children = []
    try:
        sides = {}
        for which, side in zip(_WHICH, (baseline, tonight), strict=True):
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
