"""The work of ``run`` and ``reproduce``: plan, execute, report, exit code."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from harness.cache import to_stderr
from harness.claims import ClaimKind, Verdict, Word
from harness.cli import inside
from harness.cli.options import RunOptions
from harness.cli.output import check_out, show
from harness.cli.progress import ProgressDisplay, point_words
from harness.cluster.backends import Backend, find_backend
from harness.cluster.ownership import warn_of_neighbours
from harness.engines.structured import parts
from harness.experiment import Experiment
from harness.failures.files import read_schedule
from harness.measurement import Origin
from harness.pages.answers import answers, lines
from harness.pages.assessment import SMOKE_DECIDES, Assessment
from harness.pages.outages import outage_rows
from harness.pages.questions import QUESTIONS
from harness.pages.report import ReportWriter, WrittenReport
from harness.pages.sentences import score_lines
from harness.results.provenance import machine_name
from harness.results.record import OK, Profile, Record
from harness.results.store import Campaign, RecordStore
from harness.running.computed import ProcessPool
from harness.running.execution import Runner, announced, check_options
from harness.running.plan import PlannedRun, RunSettings, seconds_left
from harness.text import format_duration

DONE, FAILED_CLAIM, FAILED_ENVIRONMENT, INTERRUPTED = 0, 1, 3, 130
Conclude = Callable[[Sequence[Assessment]], None]
Campaigns = Mapping[tuple[str, Profile], Campaign]
"""What was measured, by experiment and profile."""
FEW = 2
"""Experiments whose figures are drawn by this process, whatever the profile."""


def measure(
    experiments: Sequence[Experiment],
    settings: RunSettings,
    chosen: RunOptions,
    *,
    as_json: bool,
    conclude: Conclude | None = None,
) -> int:
    """Make every run that is not there yet, and return the exit code.

    ``conclude`` gets what was judged, instead of the summary, and also after Ctrl-C."""
    check_out(chosen.out)
    store = RecordStore(chosen.out, warn=to_stderr)
    brief = settings.profile is Profile.SMOKE
    beside = ProcessPool(stand_back=not brief)
    # Drawing disturbs nothing there, and few figures are not worth a process.
    draws = brief and len(experiments) > FEW
    writer = ReportWriter(store, elsewhere=beside.do if draws else None)
    campaigns: dict[tuple[str, Profile], Campaign] = {}

    def announce(experiment: Experiment, campaign: Campaign) -> None:
        campaigns[experiment.id, settings.profile] = campaign
        said = _said(writer.judge(experiment, settings.profile, campaign), conclude)
        if not draws:  # else it is written once, when all is drawn
            said += f"; {writer.write(campaigns).index}"
        display.note(f"{experiment.id}: {said}")

    display = ProgressDisplay(announce)
    place = find_backend(chosen.backend)
    _check(experiments, settings, place)
    hold = partial(_hold, display) if chosen.keep else None
    began = time.time()
    runner = Runner(store, place.make, display, backend=place, hold=hold, others=lambda: beside)
    experiments, cut = inside.divided(experiments, chosen.backend, settings.profile)
    beyond = Runner(store, place.make, display, backend=find_backend(inside.INSIDE))
    runs = runner.plan(experiments, _of_part(settings, experiments))
    cut_runs = beyond.plan(cut, _of_part(settings, cut))
    _announce([*runs, *cut_runs], settings)
    if chosen.dry_run:
        _show_plan([*runs, *cut_runs], cut, verbose=chosen.verbose, as_json=as_json)
        return DONE
    if any(run.experiment.origin is Origin.MEASURED and not run.done for run in runs):
        place.enter(sys.argv[1:])
        warn_of_neighbours(to_stderr)
    with store.locked():
        store.discard_partial()
        try:
            records = runner.execute(runs, settings)
        except (Exception, KeyboardInterrupt) as error:
            display.close()
            campaigns |= _campaigns(runner, experiments, settings)
            return _stopped(error, writer.write(campaigns), experiments, campaigns, conclude)
        finally:
            display.close()
    ended = inside.make(cut_runs)
    campaigns |= (more := _campaigns(beyond, cut, settings))
    made = (record for campaign in more.values() for record in campaign.records)
    records = [*records, *(record for record in made if record.started_unix_s >= began)]
    with store.locked():
        report = writer.write(campaigns)
    if ended == INTERRUPTED:
        return _stopped(KeyboardInterrupt(), report, [*experiments, *cut], campaigns, conclude)
    judged = _of(campaigns, report)
    if conclude is None:
        _summarize(judged, records, report.index, as_json=as_json)
    else:
        show(None, _failed_lines(records), as_json=False)
        conclude(judged)
    own = "failures" in settings.options
    return exit_code(judged, strict=chosen.strict, own_schedule=own)


def _of_part(settings: RunSettings, part: Sequence[Experiment]) -> RunSettings:
    """Return the settings with the options that a part of the experiments accepts."""
    accepted = {name for experiment in part for name in experiment.measurement.accepts}
    kept = {name: value for name, value in settings.options.items() if name in accepted}
    return replace(settings, options=kept)


def _campaigns(
    runner: Runner, experiments: Sequence[Experiment], settings: RunSettings
) -> Campaigns:
    """Return what is there of experiments, by their ids and the profile."""
    return {(e.id, settings.profile): runner.campaign(e, settings) for e in experiments}


def _of(campaigns: Campaigns, report: WrittenReport) -> list[Assessment]:
    """Return the assessments of this command's campaigns."""
    return [item for item in report.judged if (item.experiment.id, item.profile) in campaigns]


def _announce(runs: Sequence[PlannedRun], settings: RunSettings) -> None:
    """Show how long runs take whose duration the user's options decide, and why."""
    for experiment in dict.fromkeys(run.experiment for run in runs if run.to_make):
        if (own := announced(experiment, settings)) is not None:
            seconds, why = own
            click.echo(f"{experiment.id}: a run takes {format_duration(seconds)}: {why}", err=True)


def _check(experiments: Sequence[Experiment], settings: RunSettings, backend: Backend) -> None:
    """Refuse unusable options, and a schedule that the backend cannot carry out."""
    check_options(experiments, settings)
    if schedule := settings.options.get("failures"):
        events, what = read_schedule(schedule).events, f"the schedule {schedule}"
        backend.demand({event.action for event in events}, what)
        targets = {event.target for event in events}
        backend.demand_servers(targets, what)
        parts.demand(targets, backend.name, what)


def exit_code(judged: Sequence[Assessment], *, strict: bool, own_schedule: bool = False) -> int:
    """Return 1 for a broken invariant or a defect of an experiment, 3 for a failed run, else 0.

    A run that stayed invalid is reported and is not an error. Under ``strict`` it is one, and so
    is a claim that does not hold. With a schedule of the user's own it is one if no run is valid:
    nothing says what the failures cost."""
    claims = [claim for item in judged for claim in item.claims]
    if any(claim.held is False and (strict or _invariant(claim)) for claim in claims):
        return FAILED_CLAIM
    if any(item.problem for item in judged):
        return FAILED_CLAIM
    if any(item.campaign.failed for item in judged):
        return FAILED_ENVIRONMENT
    if own_schedule and not any(item.campaign.valid for item in judged):
        return FAILED_ENVIRONMENT
    if strict and not all(item.campaign.complete for item in judged):
        return FAILED_CLAIM
    return DONE


MOST_SHOWN = 500
"""Characters of a number or a difference that a terminal shows."""


def _invariant(claim: Verdict) -> bool:
    return claim.kind is ClaimKind.INVARIANT


def verdict_line(item: Assessment) -> str:
    """Return the verdicts and missing runs in a line: ``3 of 4 claims hold, 1 not``."""
    words = Counter(claim.word for claim in item.claims)
    expected, skipped = item.campaign.expected, len(item.campaign.skipped)
    others = {
        "not": words[Word.DOES_NOT_HOLD],
        "undecided": words[Word.UNDECIDED],
        "not measured": words[Word.NOT_MEASURED],
        f"of {expected} runs skipped": skipped,
        f"of {expected} runs missing or invalid": expected - len(item.campaign.valid) - skipped,
    }
    held = f"{words[Word.HOLDS]} of {len(item.claims)} claims hold"
    return ", ".join([held, *(f"{count} {what}" for what, count in others.items() if count)])


def _said(item: Assessment, conclude: Conclude | None) -> str:
    """Return the line of an experiment that is done; a page of its own has no claims of papers."""
    if conclude is None:
        return verdict_line(item)
    return f"{len(item.campaign.valid)} of {item.campaign.expected} runs are there"


def _stopped(
    error: BaseException,
    report: WrittenReport,
    experiments: Sequence[Experiment],
    campaigns: Campaigns,
    conclude: Conclude | None,
) -> int:
    """Conclude from what is there after Ctrl-C, and after an error, which is raised again.

    The runs that are kept are counted, of one campaign a measurement."""
    if conclude is not None:
        conclude(_of(campaigns, report))
    if not isinstance(error, KeyboardInterrupt):
        raise error
    when = "" if error.args != (signal.SIGALRM.name,) else " at the end of its time"
    measurements = {each.id: each.measurement.id for each in experiments}
    one = {
        measurements[name]: found for (name, _), found in campaigns.items() if name in measurements
    }.values()
    kept = sum(len(each.valid) + len(each.skipped) for each in one)
    total = sum(each.expected - each.left_out for each in one)
    click.echo(
        f"interrupted{when}: {kept} of {total} runs are kept; the same command goes on from here\n"
        f"report so far: {report.index}",
        err=True,
    )
    return INTERRUPTED


def _hold(display: ProgressDisplay, where: Path) -> None:
    display.note(f"a run failed; its cluster stays up: logs and checkpoints are in {where}")
    click.pause("press Enter to stop it and go on")


def _show_plan(
    runs: Sequence[PlannedRun], cut: Sequence[Experiment], *, verbose: bool, as_json: bool
) -> None:
    lines: list[str] = []
    makers = {
        run.experiment.measurement.id: run.experiment for run in reversed(runs) if not run.done
    }
    for experiment in dict.fromkeys(run.experiment for run in runs):
        mine = [run for run in runs if run.experiment is experiment]
        ahead = [run for run in mine if run.to_make]
        took = format_duration(sum(run.seconds for run in ahead))
        state = f"{len(ahead)} runs, about {took}" if ahead else "done"
        if (maker := makers.get(experiment.measurement.id, experiment)) is not experiment:
            state = f"with the runs of {maker.id}"
        if all(run.skipped for run in mine):
            state = f"skipped: {mine[0].skipped}"
        if experiment in cut and ahead:
            state += ", in network namespaces"
        lines.append(f"{experiment.id:<34} {state}")
        for run in mine if verbose else ():
            point = point_words(run.experiment, run.point)
            state = "done" if run.done else f"about {format_duration(run.seconds)}"
            lines.append(f"    {state:<14} repetition {run.repeat + 1}  {point}")
    to_make, left = sum(not run.done for run in runs), seconds_left(runs)
    done = sum(
        r.done
        for r in runs
        if makers.get(r.experiment.measurement.id, r.experiment) is r.experiment
    )
    lines.append(f"{to_make} runs to make, about {format_duration(left)}; {done} done")
    names = ("point", "repeat", "done", "seconds", "skipped")
    planned = [
        {"experiment": run.experiment.id, **{name: getattr(run, name) for name in names}}
        for run in runs
    ]
    show({"runs": planned, "seconds_left": left}, lines, as_json=as_json)


def _summarize(
    judged: Sequence[Assessment], records: Sequence[Record], index: Path, *, as_json: bool
) -> None:
    names = ("run", "experiment", "point", "repeat", "status", "reason", "seconds", "values")
    document = {
        "report": str(index),
        "machine": machine_name(),
        "claims": [claim for item in judged for claim in item.documents()],
        "runs": [{name: getattr(record, name) for name in names} for record in records],
        "complete": all(item.campaign.complete for item in judged),
    }
    show(document, _summary(judged, records, index), as_json=as_json)


def _summary(judged: Sequence[Assessment], records: Sequence[Record], index: Path) -> Iterator[str]:
    for item in judged:
        yield f"\n{item.experiment.id} – {item.experiment.title}: {verdict_line(item)}"
        for claim in item.claims:
            mark = claim.word.upper() if claim.held is False else claim.word.value
            kind = " (invariant)" if _invariant(claim) else ""
            yield f"  {mark}{kind}: {claim.text}"
            if claim.why not in (None, SMOKE_DECIDES):
                word = f" ({claim.cause.value})" if claim.cause else ""
                yield f"    why{word}: {claim.why}"
            elif claim.held is False and _invariant(claim):
                for name, found in claim.measured.items():
                    yield f"    {name}: {str(found)[:MOST_SHOWN]}"
        for row in outage_rows(item) if item.experiment.origin is Origin.MEASURED else ():
            yield (
                f"  results were late for {row['outage']} under {row['engine']}, {row['scheme']} "
                f"({row['count']})"
            )
        if item.problem:
            yield f"  its table or claims could not be made:\n{item.problem}"
    if any(claim.why == SMOKE_DECIDES for item in judged for claim in item.claims):
        yield f"\nwhy not measured: {SMOKE_DECIDES}"
    yield from _failed_lines(records)
    if found := answers(judged, QUESTIONS):
        yield "\nwhat was found:"
        yield from lines(found)
    yield "\nsentences, each counted once:"
    yield from (f"  {line}" for line in score_lines(judged))
    yield f"\nreport: {index}"


def _failed_lines(records: Sequence[Record]) -> Iterator[str]:
    """Yield the runs without a result, those of one reason in one line."""
    alike: dict[tuple[str, str, str | None], list[Record]] = {}
    for record in records:
        if record.status != OK:
            alike.setdefault((record.experiment, record.status, record.reason), []).append(record)
    for (experiment, status, reason), some in alike.items():
        points = str(dict(some[0].point)) if len(some) == 1 else f"({len(some)} runs)"
        yield f"\n{experiment} {points}: {status}: {reason}"
