"""A running job from the metrics that its dashboards show, as lines of ``job.yaml``."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from harness.advice.job_file import Line
from harness.errors import UsageError
from harness.intervals.exports import Series, added
from harness.intervals.observed import Observation, lag_outage

_TIMES = ("s", "ms", "us", "µs", "ns", "min", "mins", "h", "hour", "m")
_KINDS = {
    "duration": r"(checkpoint|commit|trigger|batch).*(duration|time|latency)",
    "size": r"(checkpoint|state|store).*(size|bytes|memory)",
    "count": r"(completed|number_?of).*checkpoints",
    "lag": r"lag|behind|backlog|pending",
    "rate": r"rate|per_?sec|persecond|throughput|records_?in",
}
"""What a series is, by its name; the first that fits."""
_MILLISECONDS = re.compile(r"(?<!mem)(ms|milli\w*)$|last_?checkpoint_?duration$", re.IGNORECASE)
"""Names whose plain numbers are milliseconds; Flink's has no unit in its name."""


def kind_of(series: Series) -> str | None:
    """Return the kind of a series by its name; None where no kind fits."""
    return next(
        (kind for kind, words in _KINDS.items() if re.search(words, series.name, re.IGNORECASE)),
        None,
    )


def lines_of(
    series: Sequence[Series],
    *,
    name: str,
    rate_per_s: float | None = None,
    interval_s: float | None = None,
) -> list[Line]:
    """Return the options of ``advise`` that these series show.

    Raises `UsageError` where none shows anything, or the rate is neither there nor given."""
    by_kind: dict[str, list[Series]] = {}
    for each in series:
        if kind := kind_of(each):
            by_kind.setdefault(kind, []).append(each)
    if not by_kind:
        raise UsageError(
            f"{name}: no series is a rate, a lag, or a checkpoint's size or duration by its name: "
            + ", ".join(each.name for each in series[:5]),
            remedy="rename the columns to rate, lag, checkpoint_size, checkpoint_duration",
        )
    lines = []
    if "rate" in by_kind and rate_per_s is None:
        whole = added(by_kind["rate"])
        rate_per_s = float(np.median(whole.values))
        lines.append(Line("rate", [f"{rate_per_s:.6g}"], f"median of {whole.name}"))
    elif rate_per_s is not None:
        lines.append(Line("rate", [f"{rate_per_s:.6g}"], "given"))
    if "size" in by_kind:
        whole = added(by_kind["size"])
        most = float(whole.values.max())
        lines.append(Line("state", [f"{most / 1e6:.4g}MB"], f"most of {whole.name}"))
    if "duration" in by_kind:
        lines.append(_duration(by_kind["duration"][0]))
    if "count" in by_kind and interval_s is None:
        interval_s = _interval_s(by_kind["count"][0])
    if interval_s is not None:
        lines.append(Line("interval", [f"{interval_s:.4g}s"], "between checkpoints"))
    if "lag" in by_kind:
        lines += _outage(added(by_kind["lag"]), name, rate_per_s, interval_s)
    return lines


def _duration(one: Series) -> Line:
    plain = one.shown_in not in _TIMES
    seconds = one.values / 1000 if plain and _MILLISECONDS.search(one.name) else one.values
    return Line(
        "checkpoint-cost",
        [f"{float(np.median(seconds)):.4g}s"],
        f"median of {one.name}, all of it: less where work goes on meanwhile",
    )


def _interval_s(one: Series) -> float | None:
    """Return the mean time between two steps of a counter, which a restart sets back."""
    steps = float(np.clip(np.diff(one.values), 0, None).sum())
    return float(one.at_s[-1] - one.at_s[0]) / steps if steps else None


def _outage(
    lag: Series, name: str, rate_per_s: float | None, interval_s: float | None
) -> list[Line]:
    """Return the outage that a lag shows; a comment with the reason where it shows none."""
    if rate_per_s is None or interval_s is None:
        lacking = "the rate" if rate_per_s is None else "the interval of checkpoints"
        return [Line("observed", ["60s:217s"], f"give {lacking}", used=False)]
    try:
        found: Observation = lag_outage(
            lag.at_s, lag.values, name=name, interval_s=interval_s, rate_per_s=rate_per_s
        )
    except UsageError as error:
        why = " ".join(error.what.split())
        return [Line("observed", ["60s:217s"], why, used=False)]
    lines = [
        Line(
            "observed",
            [f"{interval_s:.4g}s:{found.outage_s:.4g}s"],
            f"of {lag.name}: down for {found.downtime_s:.4g} s",
        )
    ]
    if found.capacity_per_s is not None:
        lines.append(Line("capacity", [f"{found.capacity_per_s:.6g}"], "while it caught up"))
    return lines
