"""``faultline try``: a workload file of one's own, from a sample to what a kill costs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import PATH, RunOptions, run_options, words_of
from harness.cli.output import interrupted_by
from harness.cli.own_options import OwnOptions, own_options, workload_options
from harness.cli.sample import sample_shown, watch
from harness.errors import UsageError
from harness.results.record import Point, Profile
from harness.text import parse_bytes, parse_duration_s

if TYPE_CHECKING:
    from harness.advice.costs import Page
    from harness.advice.own_job import Given
    from harness.cli.measure import Conclude
    from harness.pages.assessment import Assessment
    from harness.running.plan import Deadline, RunSettings
    from workloads.base import Workload

_EPILOG = """\b
Examples:
  ./faultline try workloads/examples/hottest.py --sample-only
  ./faultline try workloads/examples/hottest.py --profile smoke
  ./faultline try orders.py --watch
  ./faultline try orders.py --rate 2000 --workers 1 --mttf 90d
  ./faultline try orders.py --point mode=real-time
  ./faultline try docs/examples/temperatures.py --speed 1800
"""
EXPERIMENTS = ("stock/worker-kill", "stock/rack-kill")
REPEATS = {Profile.SMOKE: 1, Profile.QUICK: 3, Profile.PAPER: 5}
"""Repetitions of each kill in a profile that the user names; without one there is one of quick's,
so that the answer is there in some ten minutes."""
MOST_TIMES = 2.0
"""The runs end within this many times the announced duration, whatever else the machine does,
repetitions, waits for a calmer minute and lower rates included."""
LEAST_S = 240.0
"""They have this long even where less was announced: a run that ends earlier leaves no answer. A
query with Python workers takes a minute to start on two cores."""
MOST_LOWERED = 2
"""Times that the rate is halved, where the same input without a kill comes late."""
DONE = 0
PASSING = ("sample_only", "watched", "again", "dry_run", "verbose")
"""Parameters that the commands of the next steps do not keep."""


@click.command("try", epilog=_EPILOG)
@click.argument("file", type=PATH)
@click.option("--sample-only", is_flag=True, help="Run the query over a sample, and kill nothing.")
@click.option(
    "--watch",
    "watched",
    is_flag=True,
    help="Run the sample again whenever the file is saved, in one warm session.",
)
@click.option(
    "--point",
    metavar="NAME=VALUE,...",
    help="Only some schemes or modes: scheme=checkpoint, or mode=real-time.",
)
@own_options
@click.option("--mttf", metavar="DURATION", help="Mean time to failure of a node, for the advice.")
@click.option("--state", metavar="SIZE", help="State of the real job, instead of the measured one.")
@click.option(
    "--try-settings",
    is_flag=True,
    help="Kill a worker again under settings of Spark that change what that costs, one by one.",
)
@run_options
def command(
    file: Path,
    sample_only: bool,
    watched: bool,
    point: str | None,
    mttf: str | None,
    state: str | None,
    try_settings: bool,
    own: OwnOptions,
    chosen: RunOptions,
) -> None:
    """Try the workload that FILE defines: a sample first, then kills.

    The query runs over a small sample in this process, as a batch and as a stream. Then a worker
    and a rack are killed under it (smoke: a worker alone), and one page says what that cost, at
    which trigger and rate the machine keeps up, and what is advised. --profile quick adds samples,
    and Spark's real-time mode. Runs that were made before are kept."""
    from harness.stock_kills.scale import spark_conf
    from workloads.base import QUERY
    from workloads.own import load_workload_file

    context = click.get_current_context()
    conf = spark_conf({"conf": chosen.conf})
    if watched:
        watch(file, conf)
        return
    if mttf is not None:
        parse_duration_s(mttf, name="--mttf")
    if state is not None:
        parse_bytes(state, name="--state")
    profile_from = context.get_parameter_source("profile")
    workload = load_workload_file(file)
    workload.form(QUERY)
    settings = _settings(
        {**own.given, **workload_options(file)},
        point,
        chosen,
        repeated=profile_from is not click.core.ParameterSource.DEFAULT,
    )
    no_real_time = None if chosen.dry_run else sample_shown(workload, conf)
    if sample_only:
        click.echo(f"next: ./faultline try {file}")
        return
    from harness.advice.own_job import Given

    if no_real_time is not None:
        click.echo(f"Spark's real-time mode cannot run it: {no_real_time}")
        settings = _without_real_time(settings, no_real_time)
    words = words_of(context, but=PASSING)
    given = Given(file=file, options=words, out=chosen.out, no_real_time=no_real_time)
    settings = replace(settings, deadline=_deadline())
    shown = _Shown(workload=workload, chosen=chosen, settings=settings, given=given)
    sys.exit(_kills(shown, try_settings=try_settings))


def _settings(
    given: Mapping[str, Any], point: str | None, chosen: RunOptions, *, repeated: bool
) -> RunSettings:
    """Return the settings of the runs, with all of their points; raise `UsageError` for none.

    ``repeated``: the user named a profile, so the kills are repeated, also in real-time mode."""
    from harness.running.discovery import at_point, find
    from harness.running.execution import check_options
    from harness.stock_kills.measure import REAL_TIME
    from harness.stock_kills.scale import fitting_speed

    settings = chosen.settings(**given)
    speed = None if "speed" in given else fitting_speed(settings.profile, settings.options)
    if speed is not None:
        click.echo(
            f"event time runs {speed:g} times as fast as the clock (--speed): otherwise a pass "
            "would last more than an hour",
            err=True,
        )
        settings = replace(settings, options={**settings.options, "speed": speed})
    if chosen.repeats is None:
        settings = replace(settings, repeats=REPEATS[settings.profile] if repeated else 1)
    smoke = settings.profile is Profile.SMOKE
    found = find(EXPERIMENTS[:1] if smoke else EXPERIMENTS)
    check_options(found, settings)
    if point:
        real_time = [REAL_TIME] if "mode" in point else []
        return replace(settings, only=at_point(found, settings.profile, point, more=real_time))
    grid = found[0].grid[settings.profile]
    points = [*grid, REAL_TIME] if repeated and not smoke else grid
    return replace(settings, only={experiment.id: points for experiment in found})


def _without_real_time(settings: RunSettings, why: str) -> RunSettings:
    """Return the settings without the points in real-time mode; raise `UsageError` if none stay."""
    only: dict[str, Sequence[Point]] = {
        name: [point for point in points if "mode" not in point]
        for name, points in settings.only.items()
    }
    if not any(only.values()):
        raise UsageError(
            f"Spark's real-time mode cannot run this query: {why}",
            remedy="leave --point mode=real-time out, and it runs in micro-batches",
        )
    return replace(settings, only=only)


def _kills(shown: _Shown, *, try_settings: bool) -> int:
    """Make the runs of both kills, and show what they cost; at a lower rate where none holds."""
    dry_run = shown.chosen.dry_run
    try:
        with interrupted_by(signal.SIGTERM, signal.SIGALRM):
            code = shown.measure()
            while code == DONE and not dry_run and shown.behind and shown.lower_rate():
                code = shown.measure()
            if code == DONE and try_settings and not dry_run:
                code = shown.try_settings()
    finally:
        shown.end()
    return code


def _deadline() -> Deadline:
    """Return the end of runs that are announced next; one that lasts beyond it is interrupted."""
    from harness.running.plan import Deadline

    alarm = partial(signal.setitimer, signal.ITIMER_REAL)
    return Deadline(MOST_TIMES, least_s=LEAST_S, alarm=alarm)


@dataclass(slots=True, kw_only=True)
class _Shown:
    """The runs of a job, and the page about them, which is written after each part."""

    workload: Workload
    chosen: RunOptions
    settings: RunSettings
    given: Given
    judged: Sequence[Assessment] = ()
    page: Page | None = None
    index: Path | None = None
    job: Path | None = None

    def measure(self) -> int:
        """Make the missing runs with the present settings."""
        return self._measured(self.settings, self._conclude)

    def _measured(self, settings: RunSettings, conclude: Conclude) -> int:
        from harness.cli.measure import measure
        from harness.running.discovery import find

        return measure(
            find([*settings.only]), settings, self.chosen, as_json=False, conclude=conclude
        )

    def _conclude(self, judged: Sequence[Assessment]) -> None:
        self.judged = judged
        self._write()

    def _write(self) -> None:
        from harness.advice import costs, job_file, own_job

        self.page, figures, job = own_job.page_of(
            self.workload, self.judged, self.settings, given=self.given
        )
        place = self.chosen.out / "try" / self.workload.name
        self.index = costs.write(self.page, place, figures)[0]
        if job:
            self.job = place / job_file.NAME
            self.job.write_text(job_file.text_of(job, f"The job {self.workload.name}."))

    def end(self) -> None:
        """Show the page."""
        if self.page is not None:
            click.echo(f"\n{self.page.text()}")
            click.echo(f"\npage: {self.index}")
        if self.job is not None:
            click.echo(f"job:  {self.job} (./faultline advise --job {self.job} --within 1min)")

    @property
    def behind(self) -> bool:
        """True if no kill has an outage, because the twin did not keep up with the rate."""
        from harness.advice.answer import twin_behind

        return self.page is not None and twin_behind(self.page.kills)

    def lower_rate(self) -> bool:
        """Halve the rate; return False after the last time, and if too little time is left."""
        from harness.stock_kills.own import own

        if len(self.given.lowered) >= MOST_LOWERED or "failures" in self.settings.options:
            return False
        mine = own(self.settings.profile, self.settings.options)
        assert mine is not None, "a file is tried"
        assert self.settings.deadline is not None, "runs that are shown end in time"
        lower, there_is_time = mine.rate_per_s / 2, not self.settings.deadline.near
        then = (
            f"what follows is measured at {lower:.4g} records/s"
            if there_is_time
            else f"there was too little time left to measure at {lower:.4g} records/s"
        )
        said = (
            f"at {mine.rate_per_s:.4g} records/s the same input without a kill came late already; "
            f"{then}"
        )
        click.echo(said)
        self.given = replace(self.given, lowered=[*self.given.lowered, said])
        if not there_is_time:
            self._write()
            return False
        options = {
            k: v for k, v in self.settings.options.items() if k != "speed" or not mine.recorded
        }
        self.settings = replace(self.settings, options={**options, "rate": lower})
        return True

    def try_settings(self) -> int:
        """Kill a worker under each setting of Spark, and say what that changed."""
        from harness.advice.answer import compared, settings_beside
        from harness.advice.costs import kills_of
        from harness.advice.own_job import settings_given

        assert self.page is not None, "the kills without them come first"
        before = self.page.kills
        given = settings_given(self.workload, self.settings)
        only = {
            EXPERIMENTS[0]: [
                point
                for point in self.settings.only[EXPERIMENTS[0]]
                if point["scheme"] == "checkpoint" and "mode" not in point
            ]
        }
        code = DONE
        for setting in settings_beside(given):
            click.echo(f"with {' '.join(setting.conf)}: {setting.what}", err=True)
            conf = [*self.settings.options.get("conf", ()), *setting.conf]
            options = {**self.settings.options, "conf": conf}
            judged: list[Assessment] = []
            settings = replace(self.settings, options=options, only=only, deadline=_deadline())
            code = self._measured(settings, judged.extend)
            kills = [kills_of(each.campaign.results()) for each in judged[:1]]
            said = compared(setting, kills[0] if kills else before.iloc[:0], before)
            self.given = replace(self.given, tried=[*self.given.tried, f"measured: {said}"])
            self._write()
            if code != DONE:
                break
        return code
