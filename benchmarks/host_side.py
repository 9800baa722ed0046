"""One revision of the task engine on a cluster of its own, measured on request.

Started by `benchmarks.host_study` with the tree of the revision in front of its imports, so it uses
what older revisions have, too. Every order names a measurement and has a number, which its answer
repeats. The end of its standard input ends it and its cluster.

==========================================  ====================================================
order                                       answer
==========================================  ====================================================
``{"batches": s}``                          records per core-second and median latency, with
                                            batches of s seconds
``{"kills": scheme}``                       by kill: detection, new primary ready, restored
``{"idle": s}``                             cores in use during a pass of s seconds with one
                                            record a second
==========================================  ====================================================
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WARMUP_S, SETTLE_S, INTERVAL_S = 4.0, 2.0, 0.1
FIRST_KILL_S, GAP_S = 3.0, 4.0
"""Time of the first kill in a pass, and between two."""


class Measured:
    """The engine, open on a cluster."""

    def __init__(self, cluster: Any, engine: Any, *, seconds: float, rate_per_s: float) -> None:
        self._cluster, self._engine = cluster, engine
        self._seconds, self._rate_per_s = seconds, rate_per_s
        self._setup("checkpoint")

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        """Return what an order asks for."""
        if "batches" in order:
            return self._batches(order["batches"])
        if "kills" in order:
            return self._kills(order["kills"], order["count"])
        return self._idle(order["idle"])

    def warm_up(self) -> None:
        """Make one pass that counts nowhere."""
        self._pass("warm-up", WARMUP_S, INTERVAL_S, late=True)

    def _batches(self, interval_s: float) -> dict[str, Any]:
        self._setup("checkpoint")
        record, used_s = self._pass("batches", self._seconds, interval_s)
        found = record.deliveries[record.deliveries["window_start_s"] >= SETTLE_S]
        ended = found["window_start_s"] + 2 <= record.until_s
        late_s = (found["arrival_s"] - found["window_start_s"] - 2)[ended]
        return {
            "records_per_core_s": record.load.records / used_s,
            "latency_p50_ms": float(late_s.median()) * 1e3,
        }

    def _kills(self, scheme: str, count: int) -> dict[str, Any]:
        """Kill one node after the other; each is back before the next dies."""
        from harness.cluster.base import Action
        from harness.failures.schedule import FailureEvent, Schedule

        self._setup(scheme)
        names = [node.name for node in self._engine.targets()]
        events = []
        for number in range(count):
            at_s, target = FIRST_KILL_S + number * GAP_S, names[number % len(names)]
            events.append(FailureEvent(at_s=at_s, action=Action.KILL, target=target))
            events.append(FailureEvent(at_s=at_s + 0.5, action=Action.RESTART, target=target))
        seconds = FIRST_KILL_S + count * GAP_S
        schedule = Schedule(events=events, origin="benchmark")
        record, _ = self._pass("kills", seconds, INTERVAL_S, schedule)
        seen = [event for event in self._engine.events() if event.kind in ("detected", "recovered")]
        found: dict[str, list[float]] = {"detected_ms": [], "ready_ms": [], "restored_ms": []}
        for injected in record.injected:
            if injected.event.action != Action.KILL:
                continue
            died_s = injected.began_unix_s
            ours = [
                event for event in seen
                if event.target == injected.event.target
                and died_s <= event.detail["detected_unix_s"] < died_s + GAP_S
            ]  # fmt: skip
            for event in ours:
                detected_s = event.detail["detected_unix_s"]
                if event.kind == "detected":
                    found["detected_ms"].append((detected_s - died_s) * 1e3)
                else:
                    found["restored_ms"].append((event.at_unix_s - died_s) * 1e3)
                    ready_s = event.detail.get("ready_after_s")
                    if ready_s is not None:
                        found["ready_ms"].append((detected_s + ready_s - died_s) * 1e3)
        return found

    def _idle(self, seconds: float) -> dict[str, Any]:
        self._setup("checkpoint")
        _, used_s = self._pass("idle", seconds, 1.0, rate_per_s=1.0)
        nodes = len(self._engine.targets())
        return {"idle_cores": used_s / seconds, "idle_cores_per_node": used_s / seconds / nodes}

    def _setup(self, scheme: str) -> None:
        from harness.engines.base import Setup

        self._engine.configure(Setup(scheme=scheme))

    def _pass(
        self,
        name: str,
        seconds: float,
        interval_s: float,
        schedule: Any = None,
        rate_per_s: float | None = None,
        late: bool = False,
    ) -> tuple[Any, float]:
        """Return the record of a pass of word count, and the CPU seconds that it took.

        Its load may have been sent ``late``."""
        from benchmarks.nightly.live_side import Quiet
        from harness.failures.schedule import NO_FAILURES
        from harness.judging.passes import Pass, PassPlan
        from harness.load.profile import RateProfile
        from workloads.wordcount import word_count

        plan = PassPlan(
            name=name,
            workload=word_count(window_s=2, slide_s=1, depth=4, watermark_delay_s=0.2),
            rate=RateProfile.constant(rate_per_s or self._rate_per_s, seconds),
            interval_s=interval_s,
            schedule=NO_FAILURES if schedule is None else schedule,
        )
        context: Any = Quiet()
        directory = self._cluster.scratch("study")
        with Pass(plan, self._cluster, self._engine, directory, context) as one:
            before_s = self._used_s()
            record = one.run()
            used_s = self._used_s() - before_s
        if record.load.invalid is not None and not late:
            raise RuntimeError(f"the load generator was late: {record.load.invalid}")
        return record, used_s

    def _used_s(self) -> float:
        """Return CPU seconds of all processes on the workers, and of the engine's own."""
        from harness.cluster.processes import members

        workers = members(self._cluster.run).items()
        own = sum(used.cpu_s or 0.0 for used in self._engine.usage().values())
        return own + sum(stat.cpu_s for worker, stats in workers if worker for stat in stats)


@contextmanager
def opened(nodes: int) -> Iterator[tuple[Any, Any]]:
    """Start two racks of a worker each, and the engine on them."""
    from harness.cluster.backends import find_backend
    from harness.cluster.base import ClusterSpec
    from harness.engines.base import Setup
    from harness.engines.kinds import find_engine

    each = nodes // 2
    spec = ClusterSpec(
        racks=2, workers_per_rack=1, nodes_per_worker=each, cores_per_worker=each,
        memory_mb_per_worker=768,
    )  # fmt: skip
    with find_backend("local").make(spec) as cluster:
        cluster.start(lambda line: print(line, file=sys.stderr, flush=True))
        with find_engine("tasks").open(Setup(scheme="checkpoint"), cluster) as engine:
            yield cluster, engine


def main() -> None:
    """Follow orders until they end."""
    import harness
    from harness.child import orders, speaker

    emit = speaker()
    told = orders()
    assert harness.__file__ is not None
    tree = str(Path(harness.__file__).resolve().parent.parent)
    os.chdir(tree)  # an earlier revision's children look for modules where they are started
    first = next(told)
    with opened(first["nodes"]) as (cluster, engine):
        side = Measured(cluster, engine, seconds=first["seconds"], rate_per_s=first["rate_per_s"])
        side.warm_up()
        emit({"event": "ready", "tree": tree})
        for order in told:
            try:
                found = side.answer(order)
                emit({"event": "done", "order": order["order"], "found": found})
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                emit({"event": "failed", "order": order["order"], "why": why})


if __name__ == "__main__":
    main()
