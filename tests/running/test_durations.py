"""Estimates of durations, from records made by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from harness.results.library import SHIPPED
from harness.results.record import Point, Profile, Record, point_key
from harness.results.store import RecordStore
from harness.running import durations
from harness.running.discovery import all_experiments
from harness.running.durations import Durations
from tests.running.test_execution import measured

ONE, TWO, THREE = {"x": 1}, {"x": 2}, {"x": 3}
KEYS = ("point", "repeat", "attempt", "status", "started_unix_s", "seconds")


def store(root: Path, **histories: list[tuple[Point, int, int, str, float, float]]) -> Any:
    """Return a store with the records of each experiment (``_`` for ``/``), on machine ``m``."""
    found = {}
    for name, rows in histories.items():
        identifier = name.replace("_", "/")
        (root / "records" / identifier / "m").mkdir(parents=True)
        found[identifier] = [
            SimpleNamespace(
                record=SimpleNamespace(profile=Profile.QUICK, **dict(zip(KEYS, row, strict=True)))
            )
            for row in rows
        ]
    return cast(
        RecordStore,
        SimpleNamespace(
            root=root, records=root / "records", read=lambda name, machine: found.get(name, [])
        ),
    )


def test_an_estimate_counts_every_attempt_and_what_a_cold_start_costs(tmp_path: Path) -> None:
    """Seconds of a first run with its start, of one after it, and of one that was made twice."""
    own = store(
        tmp_path / "own",
        stock_toy=[
            (ONE, 0, 1, "ok", 1000.0, 70.0), (TWO, 0, 1, "ok", 1070.1, 20.0),
            (ONE, 1, 1, "invalid", 1090.2, 18.0), (ONE, 1, 2, "ok", 1108.3, 18.0),
            (TWO, 1, 1, "failed", 1126.4, 3.0), (ONE, 2, 1, "skipped", 1500.0, 0.0),
        ],
    )  # fmt: skip
    live = measured("stock/toy", seconds_per_run=dict.fromkeys(Profile, 5.0)).measurement
    none = store(tmp_path / "none")
    seconds = Durations(own, "m", Profile.QUICK, [live], none).of(live)
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
        took = durations.took(_shipped(measurement.id), Profile.QUICK, live=False)
        asked = {point_key(point, 0) for point in measurement.grid[Profile.QUICK]}
        runs = [seconds for (point, _), each in took.items() if point in asked for seconds in each]
        declared_s = measurement.seconds_per_run[Profile.QUICK] * len(runs)
        if sum(runs) > 20 and not 0.5 < sum(runs) / declared_s < 2:
            wrong.append(f"{experiment.id}: {sum(runs) / len(runs):.2g} s a run")
    assert not wrong


def _shipped(name: str) -> list[Record]:
    return [each.record for each in RecordStore(SHIPPED).read(name)]
