"""A toy experiment that takes no time, for tests of running and judging experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from harness.claims import Finding, every, invariant, paper
from harness.experiment import Experiment
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile, Record
from harness.results.store import Campaign
from harness.results.tables import Results
from harness.running.plan import PlannedRun


def table(results: Results) -> pd.DataFrame:
    return results.frame[["x", "repeat", "y"]].sort_values(["x", "repeat"], ignore_index=True)


def draw(frame: pd.DataFrame, figure: Figure) -> None:
    axes = figure.subplots()
    axes.plot(frame["x"], frame["y"], "o", label="y")
    axes.set_xlabel("x (1)")
    axes.set_ylabel("y (1)")


@paper("rising", "y rises with x")
def rising(frame: pd.DataFrame) -> Finding:
    means = frame.groupby("x")["y"].mean()
    return every(means.diff().dropna() > 0, y=frame["y"].tolist())


@invariant("positive", "y is above zero")
def positive(frame: pd.DataFrame) -> Finding:
    return every(frame["y"] > 0, smallest=float(frame["y"].min()))


def square(point: Point, context: Context) -> Outcome:
    context.progress("squaring", fraction=0.5)
    x = point["x"]
    assert isinstance(x, int)
    series = {"noise": pd.DataFrame({"seed": [context.seed("noise")]})}
    return Outcome(values={"y": x * x}, series=series)


def toy(
    run: Callable[[Point, Context], Outcome] = square,
    *,
    identifier: str = "stock/toy",
    seconds: float = 0.1,
    **changes: Any,
) -> Experiment:
    measurement = Measurement(
        id=identifier,
        origin=Origin.COMPUTED,
        grid={profile: [{"x": 1}, {"x": 2}, {"x": 3}] for profile in Profile},
        repeats=dict.fromkeys(Profile, 2),
        seconds_per_run=dict.fromkeys(Profile, seconds),
        run=run,
    )
    experiment = Experiment(
        measurement=measurement,
        paper="Nobody",
        figure="Fig. 0",
        title="Squares",
        statement="Squares of positive numbers rise.",
        table=table,
        draw=draw,
        claims=[rising, positive],
    )
    return changed(experiment, **changes)


def changed(experiment: Experiment, **changes: Any) -> Experiment:
    """Return the experiment with other fields: its own, its measurement's or its scheduling's."""
    own = {name: changes.pop(name) for name in [*changes] if name in _FIELDS[Experiment]}
    when = {name: changes.pop(name) for name in [*changes] if name in _FIELDS[Scheduling]}
    measurement = experiment.measurement
    scheduling = replace(measurement.scheduling, **when)
    measurement = replace(measurement, scheduling=scheduling, **changes)
    return replace(experiment, **{"measurement": measurement, **own})


_FIELDS = {kind: {each.name for each in fields(kind)} for kind in (Experiment, Scheduling)}


class Watcher:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.started: list[PlannedRun] = []
        self.finished: list[Record] = []
        self.campaigns: list[tuple[str, Campaign]] = []
        self.stages: list[str] = []

    def planned(self, runs: Sequence[PlannedRun], estimate_s: float) -> None:
        self.estimate_s = estimate_s

    def run_started(self, run: PlannedRun) -> None:
        self.started.append(run)

    def stage(self, text: str, *numbers: float | None) -> None:
        self.stages.append(text)

    def run_finished(self, run: PlannedRun, record: Record) -> None:
        self.finished.append(record)

    def experiment_finished(self, experiment: Experiment, campaign: Campaign) -> None:
        self.campaigns.append((experiment.id, campaign))
