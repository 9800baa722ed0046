"""Estimates of durations, from records made by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from harness.results.library import SHIPPED
from harness.results.record import Point, Profile, point_key
from harness.results.store import RecordStore
from harness.running import durations
from harness.running.discovery import all_experiments
from harness.running.durations import Durations
from tests.running.test_execution import measured

ONE, TWO, THREE = {"x": 1}, {"x": 2}, {"x": 3}
KEYS = ("point", "repeat", "attempt", "status", "started_unix_s", "seconds")


def store(root: str, *rows: tuple[Point, int, int, str, float, float]) -> RecordStore:
    """Return a store with these records of any experiment."""
    found = [
        SimpleNamespace(profile=Profile.QUICK, **dict(zip(KEYS, row, strict=True))) for row in rows
    ]
    kept = [SimpleNamespace(record=record) for record in found]
    return cast(RecordStore, SimpleNamespace(root=Path(root), read=lambda name, machine: kept))


def test_an_estimate_counts_every_attempt_and_what_a_cold_start_costs() -> None:
    """Seconds of a first run with its start, of one after it, and of one that was made twice."""
    own = store(
        "own",
        (ONE, 0, 1, "ok", 1000.0, 70.0), (TWO, 0, 1, "ok", 1070.1, 20.0),
        (ONE, 1, 1, "invalid", 1090.2, 18.0), (ONE, 1, 2, "ok", 1108.3, 18.0),
        (TWO, 1, 1, "failed", 1126.4, 3.0), (ONE, 2, 1, "skipped", 1500.0, 0.0),
    )  # fmt: skip
    live = measured("stock/toy", seconds_per_run=dict.fromkeys(Profile, 5.0)).measurement
    seconds = Durations(own, "m", Profile.QUICK, [live], store("none")).of(live)
    assert seconds(ONE, True) == 70
    assert seconds(ONE, False) == 36
    assert seconds(TWO, True) == seconds(TWO, False) == 20
    assert seconds(THREE, True) == 5, "as declared"


def test_declared_durations_are_near_those_of_the_results_that_ship() -> None:
    """``list`` shows them. Where this fails: correct the declared ones.

    What is measured is left out: it has other schedules from one set of results to the next."""
    wrong = []
    for experiment in all_experiments():
        measurement = experiment.measurement
        if measurement.measured:
            continue
        records = [each.record for each in RecordStore(SHIPPED).read(measurement.id)]
        took = durations.took(records, Profile.QUICK, live=False)
        asked = {point_key(point, 0) for point in measurement.grid[Profile.QUICK]}
        runs = [seconds for (point, _), each in took.items() if point in asked for seconds in each]
        declared_s = measurement.seconds_per_run[Profile.QUICK] * len(runs)
        if sum(runs) > 20 and not 0.5 < sum(runs) / declared_s < 2:
            wrong.append(f"{experiment.id}: {sum(runs) / len(runs):.2g} s a run")
    assert not wrong
