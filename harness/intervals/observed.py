"""Restart and capacity from observed outages: `harness.intervals.recovery` turned round.

With a mean phase, the outage of a job whose checkpoints are ``I`` apart is a straight line::

    outage = downtime · k + MEAN_PHASE · (k - 1) · I        k = capacity / (capacity - rate)

One outage gives the downtime if the capacity is known; outages at two intervals give both. A
record of the lag over time shows both by itself: the lag grows by the rate while the job is down,
and shrinks by what it can do beyond the rate while it catches up."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from harness.claims.samples import Lasting, lasting
from harness.errors import UsageError
from harness.intervals.exports import added, read_series, time_s
from harness.intervals.recovery import MEAN_PHASE, Span
from harness.text import parse_duration_s

SPREAD = 3.0
"""Least ratio of two intervals between which a line is drawn: nearer ones differ by chance."""
COLUMNS = ("time", "lag")
_LONG = ["Series", "Time", "Value"]
BACK = 0.05
"""Share of the way from the usual lag to the largest one, below which the lag is usual again."""
AGAIN = 0.1
"""Share of that way from which on another rise of the lag is another failure."""
_FASTEST = 1.5
"""Most that the lag may grow by, as a multiple of the rate: nothing else than input adds to it."""
_BEFORE = 0.1
"""Share of a record's rows, from its first, that show the usual lag."""
_FEWEST_ROWS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One outage as it was seen, in seconds. Raises `UsageError` for impossible values."""

    interval_s: float
    """Time between two checkpoints at that time."""
    outage_s: float
    """From the failure until output was on time again."""
    downtime_s: float | None = None
    """Until the job worked again, if known."""
    capacity_per_s: float | None = None
    """Tuples a second while it caught up, if known."""
    over: bool = True
    """False if output was still late when it was last seen: the outage took longer than that."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.interval_s < math.inf:
            raise UsageError(
                f"an observed interval is {self.interval_s:g} s", remedy="give 0 s or more"
            )
        if not 0.0 < self.outage_s < math.inf:
            raise UsageError(
                f"an observed outage took {self.outage_s:g} s",
                remedy="give the time from the failure until output was on time again",
            )


def parse_observation(text: str) -> Observation:
    """Return ``"60s:217s"``: the interval at that time, then the outage.

    ``"60s:>217s"`` is one that was not over then."""
    interval, colon, outage = text.partition(":")
    if not colon:
        raise UsageError(
            f"--observed: {text!r} is no pair",
            remedy="write INTERVAL:OUTAGE, as in 60s:217s, or name a CSV file of (time, lag)",
        )
    return Observation(
        interval_s=parse_duration_s(interval, name="--observed, the interval", zero=True),
        outage_s=parse_duration_s(outage.strip().removeprefix(">"), name="--observed, the outage"),
        over=not outage.strip().startswith(">"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What the observations say of the job."""

    downtime_s: float
    """From the failure until the job works again: detect, restart, restore, transaction."""
    downtimes: Span
    """The shortest, the mean and the longest downtime that an observation shows."""
    capacity_per_s: float | None
    """None if the observations do not tell it."""
    observations: int
    errors: Sequence[float]
    """Predicted over observed, minus 1, each by a fit without that one; empty if too few."""

    @property
    def median_error(self) -> float | None:
        """The median of the errors' sizes; None without any."""
        return float(np.median(np.abs(self.errors))) if self.errors else None


def fit_observed(
    observations: Sequence[Observation], *, rate_per_s: float, capacity_per_s: float | None = None
) -> Fitted:
    """Fit downtime and, unless it is given, capacity. Raises `UsageError` without observations.

    Without a given capacity it cannot be found from outages at intervals that are less than
    `SPREAD` apart: then it is None, and the whole outage counts as downtime. What was not over
    counts as longer than it was seen (`harness.claims.samples.lasting`)."""
    if not observations:
        raise UsageError("nothing was observed", remedy="give --observed INTERVAL:OUTAGE")
    usual_s, capacity = _solve(observations, rate_per_s, capacity_per_s)
    errors = []
    if len(observations) > 2:
        for place, left_out in enumerate(observations):
            if not left_out.over:
                continue
            rest = [*observations[:place], *observations[place + 1 :]]
            other_s, other = _solve(rest, rate_per_s, capacity_per_s)
            predicted_s = predict_s(other_s, other, left_out.interval_s, rate_per_s)
            errors.append(predicted_s / left_out.outage_s - 1.0)
    return Fitted(
        downtime_s=usual_s,
        downtimes=_spread(observations, rate_per_s, capacity),
        capacity_per_s=capacity,
        observations=len(observations),
        errors=errors,
    )


def predict_s(
    downtime_s: float, capacity_per_s: float | None, interval_s: float, rate_per_s: float
) -> float:
    """Return the mean outage at an interval; without a capacity the downtime is all of it."""
    if capacity_per_s is None:
        return downtime_s
    behind = rate_per_s / (capacity_per_s - rate_per_s)
    return downtime_s + (downtime_s + MEAN_PHASE * interval_s) * behind


def _solve(
    observations: Sequence[Observation], rate_per_s: float, given: float | None
) -> tuple[float, float | None]:
    seen = [each.capacity_per_s for each in observations if each.capacity_per_s is not None]
    capacity = given if given is not None else (float(np.median(seen)) if seen else None)
    intervals = [each.interval_s for each in observations]
    if capacity is None and max(intervals) > 0 and max(intervals) >= SPREAD * min(intervals):
        return _line(observations, rate_per_s)
    downtimes = [downtime_s(each, rate_per_s, capacity) for each in observations]
    return _lasting(downtimes, observations).shown, capacity


def _lasting(seconds: Sequence[float], observations: Sequence[Observation]) -> Lasting:
    found = lasting(seconds, [each.over for each in observations])
    assert found is not None, "there is an observation"
    return found


def _spread(observations: Sequence[Observation], rate_per_s: float, capacity: float | None) -> Span:
    """Return the downtimes of the observations one by one, at the capacity of all."""
    downtimes = [downtime_s(each, rate_per_s, capacity) for each in observations]
    mean_s = _lasting(downtimes, observations).mean
    best_s, worst_s = min(downtimes), max(downtimes)
    return Span(best_s=best_s, mean_s=min(max(mean_s, best_s), worst_s), worst_s=worst_s)


def downtime_s(seen: Observation, rate_per_s: float, capacity: float | None) -> float:
    """Return how long the job was down, by the line turned round; without a capacity all of it."""
    if seen.downtime_s is not None:
        return seen.downtime_s
    if capacity is None:
        return seen.outage_s
    behind = rate_per_s / (capacity - rate_per_s)
    return max((seen.outage_s - MEAN_PHASE * seen.interval_s * behind) / (1.0 + behind), 0.0)


def _line(observations: Sequence[Observation], rate_per_s: float) -> tuple[float, float | None]:
    """Return downtime and capacity by a line through the median outage of each interval.

    It minimizes the squared relative error; neither of its numbers is negative."""
    of_interval: dict[float, list[Observation]] = {}
    for each in observations:
        of_interval.setdefault(each.interval_s, []).append(each)
    outage = np.array([
        _lasting([each.outage_s for each in mine], mine).shown for mine in of_interval.values()
    ])  # fmt: skip
    weight = np.sqrt([len(mine) for mine in of_interval.values()])
    design = np.column_stack([np.ones(len(outage)), MEAN_PHASE * np.array([*of_interval])])
    (base_s, behind), _ = nnls(design * (weight / outage)[:, None], weight)
    if behind <= 0.0:
        return float(base_s), None
    return float(base_s / (1.0 + behind)), float(rate_per_s * (1.0 + 1.0 / behind))


def read_lag(text: str, *, name: str, interval_s: float, rate_per_s: float) -> Observation:
    """Return the outage in a CSV of (time, lag), the lag in tuples.

    ``time`` is in seconds or ISO 8601. The file has one failure: it begins before it and ends after
    the outage; the largest lag is where the job works again. Raises `UsageError` saying what
    lacks, also where the usual lag swings so much that it hides the beginning. An export of
    Grafana or Prometheus is read, too: its series are added, one for each partition."""
    at_s, lag = _columns(text, name)
    return lag_outage(at_s, lag, name=name, interval_s=interval_s, rate_per_s=rate_per_s)


def lag_outage(
    at_s: NDArray[np.float64],
    lag: NDArray[np.float64],
    *,
    name: str,
    interval_s: float,
    rate_per_s: float,
) -> Observation:
    """Return the outage that a lag shows; see `read_lag`."""
    calm = lag[: max(3, int(len(lag) * _BEFORE))]
    usual = float(np.median(calm))
    peak = int(np.argmax(lag))
    most = float(lag[peak])
    limit = usual + BACK * (most - usual)
    before = np.flatnonzero(lag[:peak] <= calm.max())
    after = np.flatnonzero(lag[peak:] <= limit)
    if not len(before) or most <= usual:
        raise UsageError(
            f"{name}: the lag does not grow from a usual one",
            remedy="begin the file some rows before the failure",
        )
    if not len(after):
        raise UsageError(
            f"{name}: the lag does not come back to {limit:,.6g} tuples",
            remedy="end the file after the outage",
        )
    if calm.max() - calm.min() > limit - usual:
        raise UsageError(
            f"{name}: before the failure the lag swings from {calm.min():,.6g} to "
            f"{calm.max():,.6g} tuples, so nothing tells when the job stopped",
            remedy="give the lag of what was read instead of what was committed, or write what "
            "you saw, as in 60s:217s",
        )
    start, back = int(before[-1]), peak + int(after[0])
    second = _second(lag, usual, start, peak, back)
    if second is not None:
        raise UsageError(
            f"{name}: the lag rises more than once, to {most:,.6g} tuples in row {peak + 1} and to "
            f"{lag[second]:,.6g} in row {second + 1}",
            remedy="cut the file to one failure and its outage, and give a file for each",
        )
    downtime_s = float(at_s[peak] - at_s[start])
    grew = (most - float(lag[start])) / downtime_s
    if grew > _FASTEST * rate_per_s:
        raise UsageError(
            f"{name}: the lag grows by {grew:,.6g} tuples/s, and the rate is {rate_per_s:,.6g}",
            remedy="give the rate of that time (--rate), and the lag in tuples",
        )
    faster = (most - float(lag[back])) / float(at_s[back] - at_s[peak])
    return Observation(
        interval_s=interval_s,
        outage_s=float(at_s[back] - at_s[start]),
        downtime_s=downtime_s,
        capacity_per_s=rate_per_s + faster,
    )


def _second(lag: NDArray[np.float64], usual: float, start: int, peak: int, back: int) -> int | None:
    """Return the row of another rise than the one from ``start`` to ``peak``; None without any."""
    much = AGAIN * (float(lag[peak]) - usual)
    apart = lag - usual
    apart[start : back + 1] = 0.0
    # A fall on the way up ends an earlier rise, and a rise on the way down is another one.
    up, down = lag[start : peak + 1], lag[peak : back + 1]
    apart[start : peak + 1] = np.maximum.accumulate(up) - up
    apart[peak : back + 1] = down - np.minimum.accumulate(down)
    highest = int(np.argmax(apart))
    if apart[highest] <= much:
        return None
    return start + int(np.argmax(lag[start:highest])) if start < highest < peak else highest


def _columns(text: str, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if text.startswith("sep="):  # Grafana's line for spreadsheets
        text = text.partition("\n")[2]
    rows = list(csv.DictReader(StringIO(text)))
    found = [column.strip() for column in (rows[0] if rows else {}) if column]
    # JSON, or a CSV whose first column is Grafana's ``Time``.
    if text.lstrip().startswith("{") or found[:1] == ["Time"] or found == _LONG:
        series = read_series(text, name=name)
        whole = added([each for each in series if "lag" in each.name.lower()] or series)
        return whole.at_s, whole.values
    missing = [column for column in COLUMNS if column not in found]
    if missing:
        raise UsageError(
            f"{name} has no column {' and no column '.join(missing)}"
            + (f", but {', '.join(found)}" if found else ""),
            remedy="write time,lag in its first line: seconds or ISO 8601, and all tuples that "
            "wait, of every partition together, as a plain number",
        )
    if len(rows) < _FEWEST_ROWS:
        raise UsageError(
            f"{name} has {len(rows)} rows", remedy=f"give {_FEWEST_ROWS} or more of one outage"
        )
    clean = [{str(key).strip(): value for key, value in row.items() if key} for row in rows]
    try:
        at_s = np.array([time_s(row["time"]) for row in clean])
        lag = np.array([float(row["lag"]) for row in clean])
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{name}: {error}", remedy="give times in seconds or ISO 8601, and a number of tuples"
        ) from error
    if not (np.isfinite(at_s).all() and np.isfinite(lag).all() and (lag >= 0).all()):
        raise UsageError(f"{name} has a negative lag or no number", remedy="leave those rows out")
    if not (np.diff(at_s) > 0).all():
        raise UsageError(f"{name}: its times do not grow", remedy="sort its rows by time")
    return at_s, lag
