"""One side of the nightly comparison of live engines: a cluster, and passes over it on request.

Started by `harness.nightly.live` as a program of its own, with the tree of one revision in front
of its imports. It starts a local cluster. At the order ``{"open": ENGINE}`` it closes an
open engine and opens and warms up the named one. For every order ``{"pass": ENGINE}`` it runs word
count once on it (opened now if it is closed) and answers with the cost of the pass. Every order has
a number, which its answer repeats. The end of its standard input ends it and its cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.engines.base import Engine

LOAD_S, WARMUP_S, SETTLE_S = 8.0, 8.0, 2.0
INTERVAL_S = {"tasks": 0.1, "structured": 1.0}
"""Batch interval and trigger at which each engine sustains the rate and is prompt."""
WATERMARK_S = 0.2


class Quiet:
    """An observer that writes the progress of a pass to the log."""

    def measures(self, engine: str) -> None:
        """Do nothing: no record is kept."""

    def surroundings(self, name: str, conditions: object) -> None:
        """Keep no record."""

    def progress(self, stage: str, *, fraction: float | None = None, **_: object) -> None:
        if fraction is None:  # else it is said twice a second
            print(stage, file=sys.stderr, flush=True)


class Passes:
    """Passes of one engine at a time on one cluster."""

    def __init__(self, cluster: Any, rate_per_s: float) -> None:
        self._cluster, self._rate_per_s = cluster, rate_per_s
        self._open: tuple[str, Engine] | None = None
        self._stack = ExitStack()

    def close(self) -> None:
        """End the engine that is open."""
        self._open = None
        self._stack.close()

    def open(self, engine: str) -> None:
        """Open that engine and warm it up, unless it is open."""
        if self._open is None or self._open[0] != engine:
            self.close()
            self._open = engine, self._opened(engine)
            self._once("warm-up", WARMUP_S)

    def measure(self, engine: str) -> dict[str, float]:
        """Return the cost of a pass."""
        self.open(engine)
        return self._once("pass", LOAD_S)

    def _opened(self, name: str) -> Engine:
        from harness.engines.base import Setup
        from harness.engines.kinds import find_engine

        setup = Setup(scheme="checkpoint")
        engine: Engine = self._stack.enter_context(find_engine(name).open(setup, self._cluster))
        engine.configure(setup)
        return engine

    def _once(self, name: str, seconds: float) -> dict[str, float]:
        from harness.failures.schedule import NO_FAILURES
        from harness.judging.passes import Pass, PassPlan
        from harness.load.profile import RateProfile
        from workloads.wordcount import word_count

        assert self._open is not None
        kind, engine = self._open
        workload = word_count(window_s=2, slide_s=1, depth=4, watermark_delay_s=WATERMARK_S)
        plan = PassPlan(
            name=name,
            workload=workload,
            rate=RateProfile.constant(self._rate_per_s, seconds),
            interval_s=INTERVAL_S[kind],
            schedule=NO_FAILURES,
        )
        context: Any = Quiet()
        with Pass(plan, self._cluster, engine, self._cluster.scratch("nightly"), context) as one:
            before_s = self._used_s(engine)
            record = one.run()
            used_s = self._used_s(engine) - before_s
        found = record.deliveries[record.deliveries["window_start_s"] >= SETTLE_S]
        ended = found["window_start_s"] + workload.window_s <= record.until_s
        late_s = (found["arrival_s"] - found["window_start_s"] - workload.window_s)[ended]
        if record.load.invalid is not None:
            raise RuntimeError(f"the load generator was late: {record.load.invalid}")
        return {
            "cpu_s_per_record": used_s / record.load.records,
            "latency_p50_s": float(late_s.median()),
        }

    def _used_s(self, engine: Engine) -> float:
        """Return CPU seconds of all processes on the workers, and of the engine's own."""
        from harness.cluster.processes import members

        workers = members(self._cluster.run).items()
        own = sum(used.cpu_s or 0.0 for used in engine.usage().values())
        return own + sum(stat.cpu_s for worker, stats in workers if worker for stat in stats)


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


def main() -> None:
    """Follow orders until they end."""
    import harness
    from harness.child import orders, speaker

    emit = speaker()
    told = orders()
    assert harness.__file__ is not None
    tree = str(Path(harness.__file__).resolve().parent.parent)
    with running_cluster(lambda line: print(line, file=sys.stderr, flush=True)) as cluster:
        emit({"event": "ready", "tree": tree})
        passes: Passes | None = None
        try:
            for order in told:
                passes, number = passes or Passes(cluster, order["rate_per_s"]), order["order"]
                try:
                    if "open" in order:
                        passes.open(order["open"])
                        emit({"event": "opened", "order": number})
                    else:
                        emit({"event": "done", "order": number, **passes.measure(order["pass"])})
                except Exception as error:
                    passes.close()
                    why = f"{type(error).__name__}: {error}"
                    emit({"event": "failed", "order": number, "why": why})
        finally:
            if passes is not None:
                passes.close()


if __name__ == "__main__":
    main()
