"""A workload of the user's own under the stock engine: its load, its event time, its cluster.

Event time begins at the same instant in every pass, so that times and dates in results are equal,
too, and runs ``speed`` times as fast as the clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.load.plan import EventTime
from harness.results.record import Profile
from workloads.base import RecordedSource, Source, Workload
from workloads.own import load_workload_file

BEGIN_UNIX_S = 1_577_836_800.0
"""Event time of the first record of a generator, or the next begin of a window: 2020-01-01 UTC. It
is long ago, because a broker refuses records of the future."""
SMOKE_SLIDE_S = 2.0
"""In the smoke profile event time runs so fast that a window falls due at least this often."""
RATE_PER_S = 500.0
SETTINGS = frozenset({"rate", "speed", "partitions", "workers"})
"""Names of the options that are for a workload of the user's own alone."""
OPTIONS = SETTINGS | {"workload", "workload_files", "conf"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The user's workload with the load of its runs."""

    workload: Workload
    rate_per_s: float
    event: EventTime
    recorded: bool
    """True if it has a recording, which is slower at a lower rate."""

    def event_at(self, rate_share: float) -> EventTime:
        """Return the event time at a share of the rate."""
        if not self.recorded:
            return self.event
        return replace(self.event, speed=self.event.speed * rate_share)


def own(profile: Profile, options: Mapping[str, Any]) -> Own | None:
    """Return the user's own workload; None without one. Raises `UsageError`."""
    if "workload" not in options:
        if given := sorted(SETTINGS & set(options)):
            raise UsageError(
                f"--{given[0]} is for a workload of your own",
                remedy=f"name its file with --workload, or leave --{given[0]} out",
            )
        return None
    workload = _with_partitions(
        load_workload_file(Path(options["workload"])), options.get("partitions")
    )
    built = [source.records.build() for source in workload.sources]
    recordings = [each for each in built if isinstance(each, RecordedSource)]
    speed, rate_per_s = _pace(profile, workload, recordings, options)
    first_unix_s = min((each.first_unix_s for each in recordings), default=None)
    slide_s = workload.slide_s
    begin_unix_s = (
        math.ceil(BEGIN_UNIX_S / slide_s) * slide_s
        if first_unix_s is None
        else math.floor(first_unix_s / slide_s) * slide_s
    )
    return Own(
        workload=workload,
        rate_per_s=rate_per_s,
        event=EventTime(begin_unix_s=begin_unix_s, speed=speed),
        recorded=bool(recordings),
    )


def _pace(
    profile: Profile,
    workload: Workload,
    recordings: list[RecordedSource],
    options: Mapping[str, Any],
) -> tuple[float, float]:
    """Return the speed of event time and the rate; one decides the other for a recording."""
    speed, rate_per_s = options.get("speed"), options.get("rate")
    if recordings and speed is not None and rate_per_s is not None:
        raise UsageError(
            f"workload {workload.name!r} replays a recording, whose rate and speed go together",
            remedy="give --rate or --speed, and not both",
        )
    recorded_per_s = sum(each.per_s for each in recordings)
    if recordings and rate_per_s is not None:
        return rate_per_s / recorded_per_s, rate_per_s
    if speed is None:
        smoke = profile is Profile.SMOKE and not recordings
        speed = max(1.0, workload.slide_s / SMOKE_SLIDE_S) if smoke else 1.0
    if recordings:
        return speed, recorded_per_s * speed
    return speed, rate_per_s or RATE_PER_S


def _with_partitions(workload: Workload, partitions: int | None) -> Workload:
    """Return the workload with this number of partitions for every source."""
    if partitions is None:
        return workload

    def changed(source: Source) -> Source:
        parameters = dict(source.records.parameters)
        if "partitions" in parameters:  # a recording deals its records to them
            parameters["partitions"] = partitions
        records = replace(source.records, parameters=parameters)
        return replace(source, partitions=partitions, records=records)

    return replace(workload, sources=[changed(source) for source in workload.sources])
