"""The code of a measurement: its fingerprint in this checkout, and which records have another."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from harness.cluster.backends import Backend, recorded_backend
from harness.measurement import Measurement
from harness.results.reach import code_fingerprint, modules_under
from harness.results.record import Record
from harness.running.discovery import all_experiments

RUN_BY: Mapping[bool, Sequence[str]] = {
    False: ["harness.running.computed:RunContext"],
    True: ["harness.running.measured:MeasuredContext", "harness.judging.foreign"],
}
"""What surrounds a run, computed or measured: its seeds, its cluster, the load beside it."""


def code_of(measurement: Measurement, backend: Backend) -> str:
    """Return the fingerprint of all that a run on such a cluster depends on."""
    return code_fingerprint(roots_of(measurement, backend), names_of(measurement))


def roots_of(measurement: Measurement, backend: Backend) -> frozenset[str]:
    """Return the modules and definitions from which the code of such a run is followed."""
    roots = {measurement.root, *measurement.chooses, *RUN_BY[measurement.measured]}
    if measurement.measured:
        roots |= modules_under(backend.code)
    return frozenset(roots)


def names_of(measurement: Measurement) -> frozenset[str]:
    """Return every name in its grid, such as those of schemes and planners."""
    points = (point for grid in measurement.grid.values() for point in grid)
    return frozenset(
        value for point in points for value in point.values() if isinstance(value, str)
    )


def of_other_code(records: Iterable[Record]) -> Mapping[str, int]:
    """Return the number of records by experiment that this checkout's code would make otherwise.

    Records of an experiment that this checkout does not have count too."""
    known = {each.measurement.id: each.measurement for each in all_experiments()}
    return Counter(
        record.experiment
        for record in records
        if record.experiment not in known
        or record.code != _now(known[record.experiment], record.backend)
    )


@functools.cache
def _now(measurement: Measurement, backend: str) -> str:
    """Return the fingerprint in this checkout, which does not change while a command runs."""
    return code_of(measurement, recorded_backend(backend))
