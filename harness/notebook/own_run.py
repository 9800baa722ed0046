"""A kill of one's own, on real servers, drawn while it happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cluster.base import Action
from harness.experiment import Experiment
from harness.figures.style import BLUE, GREY, VERMILION
from harness.notebook.cards import Card, drawing, show
from harness.results.library import Library
from harness.results.record import Profile, Record
from harness.results.store import Campaign, RecordStore
from harness.running.discovery import find
from harness.running.execution import Runner
from harness.running.plan import PlannedRun, RunSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPERIMENT = "stock/worker-kill"


def kill_schedule(path: str | Path, *, target: str, at_s: float, restart_after_s: float) -> Path:
    """Write a failure schedule of one kill, as ``--failures`` takes it."""
    import yaml

    events = [
        {"at": f"{at_s:g}s", "action": Action.KILL.value, "target": target},
        {"at": f"{at_s + restart_after_s:g}s", "action": Action.RESTART.value, "target": target},
    ]
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"failures": events}, sort_keys=False))
    return file


@dataclass(slots=True)
class Watch:
    """Shows a run while it goes on: what it does, and throughput and latency so far."""

    display: Callable[[Card], None]
    throughput: list[float] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    said: str = ""

    def planned(self, runs: Sequence[PlannedRun], estimate_s: float) -> None:
        self.said = f"{len(runs)} runs, about {estimate_s:.0f} s"

    def run_started(self, run: PlannedRun) -> None:
        self.throughput.clear()
        self.latency_s.clear()

    def stage(
        self,
        text: str,
        fraction: float | None,
        throughput_per_s: float | None,
        latency_s: float | None,
    ) -> None:
        self.said = text
        if throughput_per_s is not None:
            self.throughput.append(throughput_per_s)
        if latency_s is not None:
            self.latency_s.append(latency_s)
        self.display(drawing(self._draw, (8.0, 3.0)))

    def run_finished(self, run: PlannedRun, record: Record) -> None:
        self.said = f"{record.status} {record.reason or ''}".strip()
        self.display(drawing(self._draw, (8.0, 3.0)))

    def experiment_finished(self, experiment: Experiment, campaign: Campaign) -> None:
        pass

    def _draw(self, figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for axes, values, label in (
            (left, self.throughput, "results/s"),
            (right, self.latency_s, "latency (s)"),
        ):
            axes.plot(values, color=BLUE)
            axes.set_xlabel("reports since the pass began")
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
        figure.suptitle(self.said, fontsize=9)


def run_and_watch(schedule: str | Path, *, out: str | Path, profile: str = "smoke") -> Card:
    """Run `EXPERIMENT` with that schedule on a new cluster, and return the figure with its claims.

    The run is drawn as it goes. It takes a minute (smoke) or several (quick)."""
    from IPython import display

    from harness.cluster.backends import BACKENDS

    shown: Any = display
    handle = shown.display(display_id=True)
    store = RecordStore(Path(out))
    runner = Runner(store, BACKENDS["local"].make, Watch(handle.update))
    settings = RunSettings(profile=Profile(profile), options={"failures": Path(schedule)})
    with store.locked():
        runner.execute(runner.plan(find([EXPERIMENT]), settings), settings)
    return show(EXPERIMENT, out)


def timeline(results: Library, run: str) -> Card:
    """Draw throughput and latency of a live run and its twin without failures, with the faults."""
    bins = results.timelines[results.timelines["run"] == run]
    failures = results.failures[results.failures["run"] == run]

    def draw(figure: Figure) -> None:
        upper, lower = figure.subplots(2, 1, sharex=True)
        for name, color in (("twin", GREY), ("failed", BLUE)):
            mine = bins[bins["pass"] == name]
            label = "no failure" if name == "twin" else "with the kill"
            upper.plot(mine["at_s"], mine["throughput_per_s"], color=color, label=label)
            lower.plot(mine["at_s"], mine["latency_p99_s"], ".-", color=color)
        for axes in (upper, lower):
            for _, done in failures.iterrows():
                axes.axvline(done["at_s"], color=VERMILION, linestyle="--", linewidth=1)
            axes.set_ylim(bottom=0)
        for _, done in failures.iterrows():
            upper.annotate(
                f"{done['action']} {done['target']}", (done["at_s"], 1.0),
                xycoords=("data", "axes fraction"), xytext=(3, -2), textcoords="offset points",
                va="top", fontsize=7, color=VERMILION,
            )  # fmt: skip
        upper.set_ylabel("results/s")
        lower.set_ylabel("latency, 99 % (s)")
        lower.set_xlabel("seconds since the load began")
        upper.legend(loc="upper left", bbox_to_anchor=(0, 1.2), ncols=2, fontsize=7)

    return drawing(draw, (8.0, 4.2))
