"""The page about one's own job, from the assessments of its kills (`harness.advice.costs`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote, split

import pandas as pd

from harness.advice import answer, costs, job_file
from harness.advice.advise import Option, advise
from harness.advice.evidence import SchemeName
from harness.advice.job import ASSUMED, ASSUMED_LATENCY_S
from harness.claims.samples import FEWEST
from harness.errors import UsageError
from harness.pages.assessment import Assessment
from harness.pages.drawing import Picture, picture
from harness.results import load
from harness.results.library import Library
from harness.results.provenance import machine_name
from harness.results.record import FAILED, INVALID, SKIPPED, Profile
from harness.results.tables import Results
from harness.running.plan import RunSettings
from harness.stock_kills.own import RATE_PER_S, own
from harness.stock_kills.scale import cluster_spec, spark_conf
from harness.text import format_duration
from workloads.base import Workload

KILLS, RAMP = "stock/worker-kill", "stock/calibration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The words of the user's command."""

    file: Path
    options: Mapping[str, str]
    """Words of each option that the user gave, by its name: ``--rate 500`` by ``--rate``."""
    out: Path
    no_real_time: str | None = None
    """Why Spark's real-time mode cannot run the query."""
    lowered: Sequence[str] = ()
    """Rates at which the twin did not keep up, a sentence each."""
    tried: Sequence[str] = ()
    """What settings of Spark made of the outage, a sentence each."""

    def again(self, *more: str, but: Collection[str] = ()) -> str:
        """Return the command once more, with further options and without those named in ``but``."""
        kept = (words for name, words in self.options.items() if name not in but)
        return " ".join(["./faultline try", quote(str(self.file)), *kept, *more])


def page_of(
    workload: Workload,
    judged: Sequence[Assessment],
    settings: RunSettings,
    *,
    given: Given,
    library: Library | None = None,
) -> tuple[costs.Page, list[tuple[str, Picture]], list[job_file.Line]]:
    """Return the page, its further figures, and the job that it advises on.

    ``library``: the runs that the advice learns from, by default those of the repository."""
    by_id = {item.experiment.measurement.id: item for item in judged}
    results = by_id[KILLS].campaign.results() if KILLS in by_id else Results(pd.DataFrame(), {})
    kills = costs.kills_of(results, workload)
    lines = job_lines(workload, results, settings, given.options)
    missing = _missing(by_id.get(KILLS), settings)
    records = by_id[KILLS].campaign.valid if KILLS in by_id else ()
    ramp = None
    if RAMP in by_id and by_id[RAMP].campaign.valid:
        ramp = by_id[RAMP].campaign.results().series("ramp")
    page = costs.Page(
        title=f"What a kill costs: {workload.name}",
        facts=[
            *_facts(workload, by_id.get(KILLS), results.frame, settings),
            *given.lowered,
            *_beyond_kills(workload, results),
            *answer.doubts(records),
            *_unmeasured(missing, given),
        ],
        answer=answer.headline(kills, results.frame, late_data=workload.late_data),
        verdict=costs.verdict_of(results.frame, late_data=workload.late_data),
        costs=costs.costs_of(kills),
        notes=costs.notes_of(kills),
        keeps_up=costs.keeps_up(ramp),
        advice=[
            *_advice(lines, kills, library),
            *answer.of_settings(kills, settings_given(workload, settings)),
            *given.tried,
        ],
        commands=_commands(settings, results.frame, given, missing=missing),
        kills=kills,
    )
    figures = [(item.experiment.title, picture(item)) for item in judged if item.table is not None]
    return page, figures, lines


def job_lines(
    workload: Workload, results: Results, settings: RunSettings, words: Mapping[str, str]
) -> list[job_file.Line]:
    """Return the lines of the measured job's file, which ``advise --job`` reads; none without runs.

    ``words``: those of the user's options, by name."""
    if not len(results.frame):
        return []
    cluster = cluster_spec(settings.profile, settings.options)
    of_job = {
        "nodes": len(cluster.node_names),
        "racks": cluster.racks,
        "window_s": workload.window_s,
        **{n: split(words[f"--{n}"])[-1] for n in ("mttf", "state") if f"--{n}" in words},
    }
    return job_file.measured(results, of_job)


def _beyond_kills(workload: Workload, results: Results) -> list[str]:
    """Return latency and resources without a kill, and late records."""
    if not len(results.frame):
        return []
    late = answer.late_data(results.frame) if workload.late_data else []
    return [*answer.without_a_kill(results.frame, results.series("windows")), *late]


def settings_given(workload: Workload, settings: RunSettings) -> list[str]:
    """Return the names of the settings of Spark that the job has."""
    return [*workload.conf, *spark_conf(settings.options)]


def _facts(
    workload: Workload, kills: Assessment | None, runs: pd.DataFrame, settings: RunSettings
) -> list[str]:
    every = "" if workload.slide_s == workload.window_s else f" every {workload.slide_s:g} s"
    facts = [
        f"windows of {workload.window_s:g} s{every}, a watermark delay of "
        f"{workload.watermark_delay_s:g} s",
    ]
    if len(runs):
        rates = ", ".join(f"{rate:,.4g}" for rate in sorted(set(runs["rate_per_s"])))
        facts.append(
            f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} with "
            f"{', '.join(_ways(runs))}, each once without "
            f"and once with kills: {rates} records/s for {runs['load_s'].max():.3g} s, "
            f"{int(runs['results'].median())} results"
        )
        if (speed := float(runs["event_speed"].max())) != 1:
            facts.append(
                f"event time runs {speed:,.4g} times as fast as the clock: a window takes "
                f"{workload.window_s / speed:.3g} s"
            )
    for status, one, more in (
        (SKIPPED, "1 run is skipped", "runs are skipped"),
        (INVALID, "1 run does not count", "runs do not count"),
        (FAILED, "1 run failed", "runs failed"),
    ):
        bad = [r for r in kills.campaign.records if r.status == status] if kills else []
        if bad:
            facts.append(f"{one if len(bad) == 1 else f'{len(bad)} {more}'}: {bad[0].reason}")
    facts.append(f"profile {settings.profile.value}, seed {settings.root_seed}, {machine_name()}")
    if settings.profile is Profile.SMOKE:
        facts.append("smoke: one kill, to see that the results are right; times are an impression")
    return facts


def _ways(runs: pd.DataFrame) -> list[str]:
    """Return the schemes of runs, with the mode of those that are not in micro-batches."""
    modes = runs["mode"] if "mode" in runs else [None] * len(runs)
    pairs = zip(runs["scheme"], modes, strict=True)
    return sorted({scheme if pd.isna(mode) else f"{scheme} ({mode})" for scheme, mode in pairs})


def _missing(kills: Assessment | None, settings: RunSettings) -> int:
    """Return the number of runs that were not made."""
    if kills is None:
        return len(settings.only.get(KILLS, ())) * (settings.repeats or 1)
    campaign = kills.campaign
    return campaign.expected - len(campaign.records) - campaign.left_out


def _unmeasured(missing: int, given: Given) -> list[str]:
    """Return what is not on the page, and why."""
    said = []
    if missing:
        runs = "1 run is" if missing == 1 else f"{missing} runs are"
        said.append(f"{runs} missing; the same command makes what is missing: {given.again()}")
    if given.no_real_time is not None:
        said.append(f"Spark's real-time mode cannot run this query: {given.no_real_time}")
    return said


def _advice(
    lines: Sequence[job_file.Line], kills: pd.DataFrame, library: Library | None
) -> list[str]:
    if not lines:
        return ["Without a valid run there is no advice."]
    assumed = [
        *(f"--{line.option} {line.values[0]}" for line in lines if line.why.startswith("assumed")),
        f"a task processes {ASSUMED['speed_per_s']:g} records/s",
        f"a result may take {format_duration(ASSUMED_LATENCY_S)}",
    ]
    try:
        job, observed = job_file.job_of(lines)
        found = advise(job, library or load(), assumed=assumed, observed=observed)
    except UsageError as error:
        return [f"no advice: {error.what}; {error.remedy}"]
    return [
        job.describe(),
        *(
            _line(option) + answer.measured_beside(kills, option.scheme.key)
            for option in found.options
        ),
        *found.accuracy,
        f"assumed: {', '.join(assumed)}",
    ]


def _line(option: Option) -> str:
    every = f" every {format_duration(option.interval_s)}" if option.interval_s else ""
    outage = option.unknown if option.outage is None else option.outage.describe()
    work = f"{option.utilization:.2%}" if option.utilization is not None else "unknown"
    own = "" if option.offered else " (Spark has none: as it would be)"
    if option.scheme is SchemeName.ACTIVE:
        own = " (a second query on other workers)"
    if option.stuck:
        return f"{option.label}{own}{every}: {option.stuck}"
    late = f", results within {format_duration(option.latency.worst_s)}" if option.latency else ""
    return (
        f"{option.label}{own}{every}{late}: {work} of the time for work, "
        f"{option.extra_tasks:.0%} more tasks, outage after a node's failure {outage}"
    )


def _commands(
    settings: RunSettings, runs: pd.DataFrame, given: Given, *, missing: int
) -> dict[str, str]:
    """Return the command of each next step, with everything that the user said."""
    mine = own(settings.profile, settings.options) if "workload" in settings.options else None
    rate = float(runs["rate_per_s"].max()) if len(runs) else mine.rate_per_s if mine else RATE_PER_S
    # The speed of a recording is its rate.
    paced = ("--rate", "--speed") if mine and mine.recorded else ("--rate",)
    steps = {"the runs that are missing": given.again()} if missing else {}
    if not len(runs) and not missing:
        steps["at half the rate"] = given.again(f"--rate {rate / 2:g}", but=paced)
    elif len(runs) and settings.profile is Profile.SMOKE:
        steps["what both kills cost, calibrated"] = given.again(but=("--profile",))
    elif len(runs):
        steps |= _more(settings, given)
        steps["at twice the rate"] = given.again(f"--rate {2 * rate:g}", but=paced)
    out = given.options.get("--out")
    return {
        **steps,
        "every number and figure": " ".join(["./faultline report", *([out] if out else [])]),
        "figures and tables as PNG, PDF, SVG and CSV": (
            f"./faultline export --from {quote(str(given.out))} --experiment stock --figures "
            "figures --format pdf,png,svg"
        ),
        "advice for the real job": " ".join(
            [
                f"./faultline advise --rate {rate:g}",
                given.options.get("--state", "--state 1GB"),
                given.options.get("--mttf", "--mttf 30d"),
                "--within 10s",
            ]
        ),
    }


def _more(settings: RunSettings, given: Given) -> dict[str, str]:
    """Return the commands for more samples, and for what costs the job less."""
    repeats = settings.repeats or 1
    steps = {}
    if repeats < FEWEST:
        steps[f"95 % intervals, from {FEWEST} kills on"] = given.again(
            f"--repeats {FEWEST}", but=("--repeats",)
        )
    if repeats == 1 and settings.profile is Profile.QUICK:
        steps = {
            "more samples, and Spark's real-time mode": given.again(
                "--profile quick", but=("--profile", "--repeats")
            ),
            **steps,
        }
    if "spark.locality.wait" not in given.options.get("--conf", ""):
        steps["without the wait for a lost executor's place"] = given.again(
            "--conf spark.locality.wait=0s"
        )
    return steps
