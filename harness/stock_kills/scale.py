"""The size of runs of the stock engine, their cluster, and the user's options.

`experiments.stock.calibration` and everything that kills start from here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datasets.text import read_lines, text_files
from harness.cluster.base import BROKER, Action, ClusterSpec
from harness.engines.structured import parts
from harness.errors import UsageError
from harness.failures.files import read_schedule
from harness.load.plan import BY_THE_CLOCK
from harness.measurement import Context
from harness.results.record import Point, Profile
from harness.stock_kills.own import RATE_PER_S, Own, own
from harness.text import format_bytes, format_duration
from workloads.base import Workload
from workloads.sizes import mean_bytes
from workloads.wordcount import word_count

UPDATES_WATERMARK_S = 60.0
"""Watermark's delay in real-time mode, where no result waits for it; it only keeps state longer.
At a checkpoint one partition may have been read further than another, after a kill by an outage,
and Spark drops what is behind the watermark."""
AFTER_DUE_S = 2.0
"""Load after the last window that must fall due, so that a record closes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScale:
    """The size of a profile's runs."""

    workers_per_rack: int
    load_s: float
    kill_at_s: float
    """Time of the kill, without the phase within the trigger interval."""
    restart_after_s: float
    warmup_s: float
    """Load before every run's twin."""
    first_warmup_s: float
    """The same for applications that have run nothing before."""
    rack_after_s: float | None
    """Time from the kill of the worker to that of the rack, in which the output catches up and is
    calm; None for one kill alone."""
    settle_s: float = 5
    """First seconds of a pass, in which no latency counts."""
    settled_per_trigger: float = 2.0
    """More load, kill and repair time per second of trigger interval beyond the first."""
    windows_before: int
    """Windows that fall due before the first kill, at least."""
    windows_after: int
    """Windows that fall due after each kill, at least."""

    def stretched_s(self, trigger_s: float) -> float:
        """Return the additional time for a trigger interval."""
        return self.settled_per_trigger * max(0.0, trigger_s - 1)

    def following(self, workload: Workload, speed: float = 1.0) -> RunScale:
        """Return the scale with times that hold enough windows of this workload.

        ``speed`` is that of event time (`harness.load.plan.EventTime`).

        A window falls due every slide, the watermark's delay after its end. The windows of the
        papers' workloads are so short that they keep the times as they are. With longer ones the
        kill comes as a window falls due, when it costs most."""
        delay_s, slide_s = workload.due_after_s / speed, workload.slide_s / speed
        kill_at_s = max(self.kill_at_s, delay_s + self.windows_before * slide_s)
        after_s = self.windows_after * slide_s + AFTER_DUE_S
        warm_s = delay_s + slide_s if self.warmup_s else 0.0
        longer_warm_s = max(0.0, warm_s - self.warmup_s)
        return replace(
            self,
            kill_at_s=kill_at_s,
            load_s=kill_at_s + max(self.load_s - self.kill_at_s, after_s),
            warmup_s=self.warmup_s + longer_warm_s,
            first_warmup_s=self.first_warmup_s + 2 * longer_warm_s,
            rack_after_s=None if self.rack_after_s is None else max(self.rack_after_s, after_s),
        )

    @property
    def pieces(self) -> int:
        """The most pieces of load that warm up an engine that has run nothing."""
        return math.ceil(self.first_warmup_s / self.warmup_s) if self.warmup_s else 0

    @property
    def whole_load_s(self) -> float:
        """The load of a pass with both kills, at the shortest trigger."""
        return self.load_s + (self.rack_after_s or 0.0)


SCALES: Mapping[Profile, RunScale] = {
    Profile.SMOKE: RunScale(
        workers_per_rack=1,
        load_s=6,
        kill_at_s=2,
        restart_after_s=2,
        warmup_s=0,
        first_warmup_s=0,
        rack_after_s=None,
        settle_s=1,
        windows_before=1,
        windows_after=1,
    ),
    Profile.QUICK: RunScale(
        workers_per_rack=2,
        load_s=26,
        kill_at_s=7,
        restart_after_s=7,
        warmup_s=12,
        first_warmup_s=36,
        rack_after_s=22,
        windows_before=1,
        windows_after=2,
    ),
    Profile.PAPER: RunScale(
        workers_per_rack=2,
        load_s=60,
        kill_at_s=20,
        restart_after_s=20,
        warmup_s=20,
        first_warmup_s=60,
        rack_after_s=50,
        windows_before=5,
        windows_after=8,
    ),
}


LEAST_TRIGGER_S: Mapping[Profile, float] = {
    Profile.SMOKE: 1.0,
    Profile.QUICK: 2.0,
    Profile.PAPER: 1.0,
}
"""The shortest trigger of the grids of kills: the first that `experiments.stock.calibration`
tries."""


MOST_BYTES_PER_S, USUAL_BYTES_PER_S = 100e6, 5e6
"""A load of more bytes is refused, and one of these is advised instead."""
LONGEST_LOAD_S = 3600.0
"""A longer pass is refused: its windows are for a run of days."""
SHORT_LOAD_S = 120.0
"""About the load of a pass with the speed of event time that is advised instead."""


def scale_of(profile: Profile, options: Mapping[str, Any]) -> RunScale:
    """Return the scale of a profile, with times that follow the user's own workload."""
    mine = own(profile, options)
    if mine is None:
        return SCALES[profile]
    return SCALES[profile].following(mine.workload, mine.event.speed)


def cluster_spec(profile: Profile, options: Mapping[str, Any] | None = None) -> ClusterSpec:
    """Return the cluster of every stock experiment: one shape, so that it stays warm.

    ``options`` may ask for other numbers of workers a rack."""
    workers = (options or {}).get("workers") or SCALES[profile].workers_per_rack
    return ClusterSpec(racks=2, workers_per_rack=workers)


def spark_conf(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the user's own settings of Spark; raise `UsageError` for anything else."""
    pairs = [text.partition("=") for text in options.get("conf", ())]
    for key, sign, value in pairs:
        if not sign or not key.startswith("spark."):
            raise UsageError(
                f"--conf {key}{sign}{value} is no setting of Spark's",
                remedy="write it as --conf spark.locality.wait=0s",
            )
    return {key: value for key, _, value in pairs}


def keeps(point: Point) -> str:
    """Return the name under which the applications of a scheme stay between its runs."""
    return (
        " ".join(str(point[name]) for name in ("scheme", "mode") if name in point) or "checkpoint"
    )


def check_options(profile: Profile, options: Mapping[str, Any]) -> None:
    """Refuse files of the user's that cannot be used, before any server is started."""
    if "failures" in options:
        spec = cluster_spec(profile, options)
        read_schedule(Path(options["failures"])).check(
            rack_of=spec.rack_of,
            parts=parts.names(spec.node_names, 1),
            servers=[BROKER],
            actions=set(Action),
            duration_s=scale_of(profile, options).whole_load_s,
            lasting=True,
        )
    if "text" in options:
        read_lines(text_files([Path(path) for path in options["text"]]))
    spark_conf(options)
    if (mine := own(profile, options)) is not None:
        _check_windows(mine, scale_of(profile, options), fitting_speed(profile, options))
        _check_size(mine)


def _check_size(mine: Own) -> None:
    """Raise `UsageError` for a load of more bytes than one broker takes."""
    shares = sum(source.share for source in mine.workload.sources)
    size = sum(
        source.share / shares * mean_bytes(source.records.build())
        for source in mine.workload.sources
    )
    if size * mine.rate_per_s > MOST_BYTES_PER_S:
        raise UsageError(
            f"workload {mine.workload.name!r}: {mine.rate_per_s:.4g} records/s of "
            f"{format_bytes(size)} are {format_bytes(size * mine.rate_per_s)}/s, and one machine "
            f"keeps up with {format_bytes(MOST_BYTES_PER_S)}/s at most",
            remedy=f"give --rate {max(1, round(USUAL_BYTES_PER_S / size))}",
        )


def fitting_speed(profile: Profile, options: Mapping[str, Any]) -> float | None:
    """Return the speed of event time that makes passes of long windows short; None for others."""
    mine = own(profile, options)
    whole_s = scale_of(profile, options).whole_load_s
    if mine is None or whole_s <= LONGEST_LOAD_S:
        return None
    return math.ceil(mine.event.speed * whole_s / SHORT_LOAD_S)


def _check_windows(mine: Own, scale: RunScale, speed: float | None) -> None:
    workload = mine.workload
    if speed is not None:
        raise UsageError(
            f"workload {workload.name!r}: with windows of {workload.window_s:g} s every "
            f"{workload.slide_s:g} s and a watermark of {workload.watermark_delay_s:g} s one pass "
            f"would last {format_duration(scale.whole_load_s)}, and at most "
            f"{format_duration(LONGEST_LOAD_S)} are allowed",
            remedy=f"let event time run faster than the clock: --speed {speed:g}",
        )


def longer_s(workload: Workload, speed: float) -> float:
    """Return how much longer a piece of warming up takes than one of word count.

    Its end waits for the last window, about a slide and the time until it is due: measured with
    windows of 10 s on 2026-11-28."""
    usual = word_count()
    there_s, here_s = (each.slide_s + each.due_after_s for each in (usual, workload))
    return max(0.0, here_s / speed - there_s)


def lasts(
    profile: Profile, points: Sequence[Point], options: Mapping[str, Any], usual_s: float
) -> tuple[float, str] | None:
    """Return the duration of a run over the user's own workload and its reason.

    ``usual_s`` is that of the papers' short windows; None without a workload of the user's."""
    if "workload" not in options:
        return None
    mine = own(profile, options)
    assert mine is not None
    workload, speed = mine.workload, mine.event.speed
    usual, scale = SCALES[profile], scale_of(profile, options)
    seconds = usual_s + 2 * (scale.whole_load_s - usual.whole_load_s)
    seconds += scale.warmup_s - usual.warmup_s
    # One of two schemes finds its engine warm.
    seconds += scale.pieces / 2 * longer_s(workload, speed)
    before, after = (
        math.floor(span_s * speed / workload.slide_s + 1e-6)
        for span_s in (
            scale.kill_at_s - workload.due_after_s / speed,
            scale.load_s - scale.kill_at_s,
        )
    )
    then = "" if scale.rack_after_s is None else f", then a rack's kill {scale.rack_after_s:g} s on"
    windows = f"windows of {workload.window_s:g} s"
    if workload.slide_s != workload.window_s:
        windows += f" every {workload.slide_s:g} s"
    if speed != 1:
        windows += f", in event time that runs {speed:g} times as fast as the clock"
    return seconds, (
        f"{windows}: {before} before the kill, {after} after{then}; a load of "
        f"{scale.whole_load_s:.3g} s at {mine.rate_per_s:.4g} records/s, once without and once "
        "with failures"
    )


def own_or_words(context: Context) -> Own:
    """Return the user's own workload, or word count over the user's own text or ours."""
    mine = own(context.profile, context.options)
    if mine is not None:
        return mine
    return words(word_count(text=context.options.get("text", ()), seed=context.seed("text")))


def words(workload: Workload, rate_per_s: float = RATE_PER_S) -> Own:
    """Return a workload of ours, whose event time is the clock's."""
    return Own(workload=workload, rate_per_s=rate_per_s, event=BY_THE_CLOCK, recorded=False)


def conf_of(mine: Own, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of Spark that the workload has, and above them the command's."""
    return {**mine.workload.conf, **spark_conf(options)}
