"""The load of a pass: its beginning, and the rates of a workload's sources."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from harness.load.plan import BY_THE_CLOCK, GATHER_S, EventTime, LoadPlan, Stream
from harness.load.profile import RateProfile
from workloads.base import RecordedSource, Source, Workload


def align(unix_s: float, *periods_s: float) -> float:
    """Return the first common multiple of these periods (to the ms) from ``unix_s`` on."""
    common = Fraction(1, 1000)
    for period in periods_s:
        whole = Fraction(round(period * 1000), 1000)
        common = Fraction(
            math.lcm(common.numerator * whole.denominator, whole.numerator * common.denominator),
            common.denominator * whole.denominator,
        )
    return float(math.ceil(Fraction(unix_s) / common) * common)


def load_plan(
    workload: Workload,
    rate: RateProfile,
    topic_of: Mapping[str, str],
    *,
    marker_s: float = 0.0,
    event: EventTime = BY_THE_CLOCK,
    gather_s: float = GATHER_S,
) -> LoadPlan:
    """Return the sources' streams, which share the rate. ``marker_s``: see `Stream`.

    A recording is sent at its own pace (`_recorded`)."""
    return LoadPlan(
        event=event,
        gather_s=gather_s,
        streams=[
            Stream(
                topic=topic_of[source.name],
                partitions=source.partitions,
                rate=_recorded(source, rate.duration_s, event)
                or _part(rate, source, workload.sources),
                records=source.records,
                marker_s=marker_s,
                marker=source.marker,
                skew=tuple(source.skew),
                lag_s=source.lag_s,
                silent={
                    partition: (begin_s / event.speed, end_s / event.speed)
                    for partition, (begin_s, end_s) in source.silent.items()
                },
            )
            for source in workload.sources
        ],
    )


def _part(rate: RateProfile, source: Source, sources: Sequence[Source]) -> RateProfile:
    """Return a source's part of the rate, by the shares of all at each instant."""
    cuts = sorted({each.later[0] for each in sources if each.later})
    pieces, begin_s = [], 0.0
    for seconds, per_s in rate.segments:
        inside = [cut for cut in cuts if begin_s < cut < begin_s + seconds]
        for end_s in (*inside, None):
            lasts_s = seconds if end_s is None else end_s - begin_s
            total = sum(each.share_at(begin_s) for each in sources)
            pieces.append((lasts_s, per_s * source.share_at(begin_s) / total))
            begin_s, seconds = begin_s + lasts_s, seconds - lasts_s
    return RateProfile(tuple(pieces))


def _recorded(source: Source, duration_s: float, event: EventTime) -> RateProfile | None:
    """Return the pace of a source that is recorded, replayed in event time; else None."""
    built = source.records.build()
    if not isinstance(built, RecordedSource) or event.begin_unix_s is None:
        return None
    return RateProfile(tuple(built.rates(event.begin_unix_s, duration_s, event.speed)))
