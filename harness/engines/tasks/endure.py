"""Killing without end: pass after pass under random failures until so many were killed.

Each pass takes the next contender (a scheme with its planner's plan) and another workload. Some
passes have just as many slots as copies, or nodes that stay away for a while: then what is lost
finds no place at once, and output is tentative where the scheme allows it. What is done follows
from the seed (`draw`). Which process dies, and in the middle of what, does not: that is the
machine's, and the reason to do it a thousand times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster.base import Action
from harness.cluster.run_directory import read_journal
from harness.engines.tasks.contenders import CONTENDERS
from harness.engines.tasks.draw import RUN_S, SERVERS, choose, schedule
from harness.engines.tasks.engine import TaskEngine
from harness.engines.tasks.trial import Trial, Verdict
from workloads.base import Workload


@dataclass(slots=True, kw_only=True)
class Tally:
    """All passes so far."""

    kills: int = 0
    runs: int = 0
    results: int = 0
    lost: int = 0
    duplicated: int = 0
    contradictions: int = 0
    undone_stable: int = 0
    uncorrected: int = 0
    tentative: int = 0
    """Results that were delivered as tentative ones at first."""
    corrected: int = 0
    fenced: int = 0
    """Publications of replaced copies that readers dropped: no failure."""
    cuts: int = 0
    """Nodes that were cut off, and healed."""
    leftover_processes: int = 0
    """Of the cluster's after it was stopped."""
    contenders: dict[str, int] = field(default_factory=dict)
    """Kills under each contender."""
    workloads: dict[str, int] = field(default_factory=dict)
    """Kills under each workload."""

    def add(self, contender: str, workload: str, verdict: Verdict) -> None:
        self.runs += 1
        for counts, name in ((self.contenders, contender), (self.workloads, workload)):
            counts[name] = counts.get(name, 0) + verdict.kills
        for name, count in verdict.to_json().items():
            setattr(self, name, getattr(self, name) + count)

    @property
    def failures(self) -> int:
        """How much is not as it must be."""
        return (
            self.lost
            + self.duplicated
            + self.contradictions
            + self.undone_stable
            + self.uncorrected
            + self.leftover_processes
        )


def endure(
    engine: TaskEngine,
    workloads: Sequence[Workload],
    directory: Path,
    *,
    kills: int,
    seed: int,
    contenders: Sequence[str] = (),
    rate_per_s: float = 400,
    seconds: float = RUN_S,
    report: Callable[[str], None] = lambda line: None,
) -> Tally:
    """Go on until ``kills`` nodes and coordinators were killed; each pass takes the next of the
    ``contenders``, by default of all. Racks are cut off, too, where the cluster can do it."""
    tally, base = Tally(), engine.setup
    nodes, cluster = engine.fleet.nodes, engine.fleet.cluster
    ours = dict(read_journal(cluster.run_directory))
    servers = [name for name in SERVERS if name in ours]
    cuts = Action.CUT in cluster.capabilities()
    while tally.kills < kills:
        number = tally.runs
        chosen = choose(seed, number, workloads, contenders or list(CONTENDERS))
        engine.setup = chosen.setup(nodes, rate_per_s, base)
        engine.check()
        planned = schedule(
            seed,
            number,
            nodes,
            seconds=seconds,
            servers=servers,
            cuts=cuts,
            away_s=chosen.away_s,
        )
        report(f"pass {number + 1}, {chosen}: {len(planned)} disturbances")
        place = directory / f"pass-{number}"
        place.mkdir()
        verdict = Trial(
            engine, chosen.workload, place, rate_per_s=rate_per_s, seconds=seconds, report=report
        ).run(planned)
        tally.add(chosen.contender, chosen.workload.name, verdict)
        report(
            f"pass {number + 1}, {chosen}: {verdict.kills} killed, {verdict.cuts} cut off, "
            f"{verdict.results} results, {verdict.tentative} tentative first, "
            f"{verdict.failures} wrong; {tally.kills} of {kills} kills"
        )
    return tally
