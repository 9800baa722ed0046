"""Estimated durations of runs: from records of this machine, else from those that ship.

A declared duration (`Measurement.seconds_per_run`) counts only for a point without any record.

Tests: ``tests/running/test_durations.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from statistics import median

from harness.measurement import Measurement, Origin
from harness.results.record import INVALID, OK, Point, Profile, Record, point_key
from harness.results.store import RecordStore

LEARNED_FROM = 5
"""Number of the last runs of a point behind an estimate."""
APART_S = 5.0
"""Longest pause between two runs of which the second one finds the servers of the first. In the
shipped records runs of one measurement are at most 0.3 s apart."""
TOO_SHORT_S = 0.05
"""A shorter run tells nothing of a machine's speed."""

Took = Mapping[tuple[str, bool], list[float]]
"""Durations by the key of a point and whether the run began cold, oldest first."""
Seconds = Callable[[Point, bool], float]
"""The estimated duration of a run of a point that begins cold, or does not."""


class Durations:
    """Estimates for the runs of one command.

    What is computed takes a time that depends on the machine: the shipped records count by this
    machine's speed, the median ratio over the points with records of both. What is measured mostly
    waits, so its times count as they are."""

    def __init__(
        self,
        store: RecordStore,
        machine: str,
        profile: Profile,
        measurements: Iterable[Measurement],
        shipped: RecordStore,
    ) -> None:
        """Estimate runs of ``measurements`` in a profile on a machine."""
        self._store, self._machine, self._profile = store, machine, profile
        self._measurements = {each.id: each for each in measurements}
        self._shipped = shipped
        self._known: dict[tuple[Path, str], Took] = {}

    def of(self, measurement: Measurement) -> Seconds:
        """Return the estimate of a measurement's runs.

        It is the median of the last runs of that point, whatever their code, with all of their
        attempts. Points of one measurement can differ a hundredfold. A live run begins cold when
        none of its measurement ended just before: it starts the cluster and warms the engine up,
        and costs up to four times as much."""
        own = self._took(self._store, measurement)

        def seconds(point: Point, cold: bool) -> float:
            key = point_key(point, 0)
            if (known := _last(own, key, cold)) is not None:
                return known
            others = _last(self._took(self._shipped, measurement), key, cold)
            if others is None:
                return measurement.seconds_per_run[self._profile]
            return others * (1.0 if measurement.origin is Origin.MEASURED else self.speed)

        return seconds

    @cached_property
    def speed(self) -> float:
        """The time of a computed run here, in times of the shipped records; 1 if unknown."""
        ratios = []
        for measurement in self._measurements.values():
            own = self._took(self._store, measurement)
            if measurement.origin is Origin.MEASURED or not own:
                continue
            theirs = self._took(self._shipped, measurement)
            for (key, cold), took in own.items():
                other = _last(theirs, key, cold)
                if other is not None and other > TOO_SHORT_S:
                    ratios.append(median(took[-LEARNED_FROM:]) / other)
        return median(ratios) if ratios else 1.0

    def _took(self, store: RecordStore, measurement: Measurement) -> Took:
        key = store.root, measurement.id
        if key not in self._known:
            machine = self._machine if store is self._store else "*"
            records = [each.record for each in store.read(measurement.id, machine)]
            self._known[key] = took(records, self._profile, live=measurement.measured)
        return self._known[key]


def _last(took: Took, key: str, cold: bool) -> float | None:
    last = took.get((key, cold)) or took.get((key, not cold))
    return median(last[-LEARNED_FROM:]) if last else None


def took(records: Iterable[Record], profile: Profile, *, live: bool) -> Took:
    """Return the durations of one measurement's runs, each with all of its attempts.

    ``records`` are in the order of their starts; ``live`` ones begin cold after a pause."""
    found: dict[tuple[str, bool], list[float]] = {}
    latest: dict[str, list[float]] = {}
    ended_s = 0.0
    for record in records:
        if record.profile != profile or record.status not in (OK, INVALID):
            continue
        run = point_key(record.point, record.repeat)
        if record.attempt == 1 or run not in latest:
            cold = live and record.started_unix_s - ended_s > APART_S
            latest[run] = found.setdefault((point_key(record.point, 0), cold), [])
            latest[run].append(0.0)
        latest[run][-1] += record.seconds
        ended_s = record.started_unix_s + record.seconds
    return found
