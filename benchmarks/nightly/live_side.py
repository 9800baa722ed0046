"""One side of the nightly comparison of live engines: a cluster, passes and kills on request.

Started by `harness.nightly.live` as a program of its own, with the tree of one revision in front
of its imports. It starts a local cluster. At the order ``{"open": ENGINE}`` it closes an
open engine and opens and warms up the named one. For every order ``{"pass": ENGINE}`` it runs word
count once on it (opened now if it is closed) and answers with the cost of the pass. For every
``{"kill": ENGINE}`` it makes a judged run, of a twin and a pass in which a worker dies, and answers
with its outage and its errors. Every order has a number, which its answer repeats. The end of its
standard input ends it and its cluster at once, whatever it does."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.engines.base import Engine
    from harness.judging.runner import Runner
    from harness.results.record import Outcome
    from workloads.base import Workload

LOAD_S, WARMUP_S, SETTLE_S = 8.0, 8.0, 2.0
INTERVAL_S = {"tasks": 0.1, "structured": 1.0}
"""Batch interval and trigger at which each engine sustains the rate and is prompt."""
WATERMARK_S = 0.2
KILL_AT_S, PHASES_S, RESTART_AFTER_S, AFTER_S = 6.0, 1.0, 2.0, 16.0
"""Earliest instant of a kill, the span after it from which the instant is drawn, the absence of the
worker, and the load after the latest kill."""
KILL_RATE_PER_S = 1_000.0
ATTEMPTS = 2
"""Runs for one kill, until it hit something, was on time, and the twin kept up."""


class Surroundings:
    """The context of runs without a record: it keeps an engine open and logs the progress."""

    calibration = None
    repeat = 0

    def __init__(self, directory: Path) -> None:
        from harness.results.record import Profile

        self.directory, self.profile = directory, Profile.QUICK
        self._kept: tuple[str, Any] | None = None
        self._stack = ExitStack()

    def close(self) -> None:
        """End the engine that is open."""
        self._kept = None
        self._stack.close()

    def keep(self, key: str, start: Any, *, check: Any) -> Any:
        """Return the engine that is open under a key, or else close it and open another."""
        if self._kept is None or self._kept[0] != key:
            self.close()
            self._kept = key, self._stack.enter_context(start())
        check(self._kept[1])
        return self._kept[1]

    def measures(self, setting: object) -> None:
        """Do nothing: no record is kept."""

    def surroundings(self, name: str, conditions: object, **_: object) -> bool:
        """Keep no record."""
        return False

    def progress(self, stage: str, *, fraction: float | None = None, **_: object) -> None:
        """Log a stage; the progress within it comes twice a second."""
        if fraction is None:
            print(stage, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes of one engine at a time on one cluster."""

    cluster: Any
    context: Any
    rate_per_s: float

    def open(self, engine: str) -> None:
        """Open that engine and warm it up, unless it is open and warm."""
        if self._runner(engine).engine.last is None:
            self._once(engine, "warm-up", WARMUP_S)

    def measure(self, engine: str) -> dict[str, float]:
        """Return the cost of a pass."""
        self.open(engine)
        return self._once(engine, "pass", LOAD_S)

    def kill(self, engine: str, order: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outage and the errors after the kill of a worker, drawn by the order's seed.

        A kill that hit nothing gives no number, and one whose times do not count gives no outage
        but a reason. The order has the yardstick of an outage, which must be this tree's."""
        from harness.measure.windows import LATER_S

        if order["later_s"] != LATER_S:
            raise RuntimeError(
                f"this revision counts results from {LATER_S:g} s after the twin's median, and the "
                f"other one from {order['later_s']:g} s"
            )
        for attempt in range(ATTEMPTS):
            outcome = self._killed(engine, order["seed"] + attempt)
            if not (outcome.invalid or outcome.again):
                break
        if outcome.invalid:
            raise RuntimeError(outcome.invalid)
        return numbers_of(outcome, word_counts())

    def _runner(self, name: str) -> Runner:
        from harness.engines.base import Setup
        from harness.judging.runner import open_runner

        return open_runner(name, Setup(scheme="checkpoint"), self.cluster, self.context)

    def _once(self, engine: str, name: str, seconds: float) -> dict[str, float]:
        from harness.judging.runner import steady_plan

        runner, workload = self._runner(engine), word_counts()
        plan = steady_plan(name, workload, self.rate_per_s, seconds, INTERVAL_S[engine])
        used_s: list[float] = []
        record = runner.run(plan, watch=self._metered(runner.engine, used_s)).record
        found = record.deliveries[record.deliveries["window_start_s"] >= SETTLE_S]
        ended = found["window_start_s"] + workload.window_s <= record.until_s
        late_s = (found["arrival_s"] - found["window_start_s"] - workload.window_s)[ended]
        if record.load.invalid is not None:
            raise RuntimeError(f"the load generator was late: {record.load.invalid}")
        return {
            "cpu_s_per_record": used_s[0] / record.load.records,
            "latency_p50_s": float(late_s.median()),
        }

    def _killed(self, engine: str, seed: int) -> Outcome:
        from harness.engines.base import Setup
        from harness.failures.generators import random_target
        from harness.judging.run import LiveRun, measure
        from harness.seeds import generator

        workers = sorted({node.rack for node in self._runner(engine).engine.targets()})
        phase_s = PHASES_S * generator(seed, "nightly", "phase").random()
        schedule = random_target(
            workers, at_s=KILL_AT_S + phase_s, seed=seed, restart_after_s=RESTART_AFTER_S
        )
        run = LiveRun(
            workload=word_counts(),
            setup=Setup(scheme="checkpoint"),
            engine=engine,
            interval_s=INTERVAL_S[engine],
            rate_per_s=KILL_RATE_PER_S,
            load_s=KILL_AT_S + PHASES_S + AFTER_S,
            warmup_s=2 * SETTLE_S,  # also for what the kill before has left cold
            first_warmup_s=WARMUP_S,
            settle_s=SETTLE_S,
            schedule=schedule,
            scored=False,
        )
        return measure(run, self.cluster, self.context)

    @contextmanager
    def _metered(self, engine: Engine, used_s: list[float]) -> Iterator[None]:
        """Add what the processes use inside it to a list."""
        before_s = self._used_s(engine)
        yield
        used_s.append(self._used_s(engine) - before_s)

    def _used_s(self, engine: Engine) -> float:
        """Return CPU seconds of all processes on the workers, and of the engine's own."""
        from harness.cluster.processes import members

        workers = members(self.cluster.run).items()
        own = sum(used.cpu_s or 0.0 for used in engine.usage().values())
        return own + sum(stat.cpu_s for worker, stats in workers if worker for stat in stats)


def word_counts() -> Workload:
    """Return the workload of every pass."""
    from workloads.wordcount import word_count

    return word_count(window_s=2, slide_s=1, depth=4, watermark_delay_s=WATERMARK_S)


def numbers_of(outcome: Outcome, workload: Workload) -> dict[str, Any]:
    """Return the numbers of a judged run with one kill; None where one is not known."""
    from harness.judging.again import against_truth
    from harness.results.record import TOO_FEW_CORES

    values = outcome.values
    stable, last = against_truth(outcome.series, workload)
    untimed = outcome.again or values[TOO_FEW_CORES] or values["mistimed"]
    return {
        "outage_s": None if untimed else values["outage_s"],
        "lost": None if values["incomplete"] else len(last.missing),
        "repeated": values["duplicates"],
        "wrong": max(len(found.wrong) + len(found.extra) for found in (stable, last)),
        "why": untimed or values["incomplete"],
    }


@contextmanager
def running_cluster(report: Any) -> Iterator[Any]:
    """Start two racks of a worker each, with room for six nodes."""
    from harness.cluster.backends import find_backend
    from harness.cluster.base import ClusterSpec

    spec = ClusterSpec(
        racks=2, workers_per_rack=1, nodes_per_worker=3, cores_per_worker=3,
        memory_mb_per_worker=768,
    )  # fmt: skip
    with find_backend("local").make(spec) as cluster:
        cluster.start(report)
        yield cluster


def orders_until_end() -> Iterator[Mapping[str, Any]]:
    """Yield the orders. Their end interrupts this process, also while it carries one out."""
    from harness.child import orders

    waiting: queue.Queue[Mapping[str, Any]] = queue.Queue()

    def read() -> None:
        for order in orders():
            waiting.put(order)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    threading.Thread(target=read, daemon=True).start()
    while True:
        yield waiting.get()


def main() -> None:
    """Follow orders until they end."""
    import harness
    from harness.child import speaker

    emit = speaker()
    told = orders_until_end()
    assert harness.__file__ is not None
    tree = str(Path(harness.__file__).resolve().parent.parent)
    with running_cluster(lambda line: print(line, file=sys.stderr, flush=True)) as cluster:
        emit({"event": "ready", "tree": tree})
        context = Surroundings(cluster.scratch("nightly"))
        try:
            for order in told:
                passes, number = Passes(cluster, context, order["rate_per_s"]), order["order"]
                try:
                    if "open" in order:
                        passes.open(order["open"])
                        emit({"event": "opened", "order": number})
                    elif "kill" in order:
                        found = passes.kill(order["kill"], order)
                        emit({"event": "done", "order": number, **found})
                    else:
                        emit({"event": "done", "order": number, **passes.measure(order["pass"])})
                except Exception as error:
                    context.close()
                    why = f"{type(error).__name__}: {error}"
                    emit({"event": "failed", "order": number, "why": why})
        finally:
            context.close()


if __name__ == "__main__":
    main()
