"""``faultline nightly``: the comparison of this checkout with an earlier revision."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cache import to_stderr
from harness.cli.options import FILE, out_option
from harness.cli.output import interrupted_by, json_option, show
from harness.errors import UsageError
from harness.nightly.history import History, Night
from harness.nightly.summary import markdown
from harness.results.provenance import machine_name
from harness.seeds import DEFAULT_SEED, derive_seed
from harness.text import format_duration

if TYPE_CHECKING:
    from harness.nightly.metrics import Metric
    from harness.nightly.revisions import Revision

ALARM = 1

_EPILOG = """\b
Examples:
  ./faultline nightly
  ./faultline nightly --baseline HEAD~20 --json
  ./faultline nightly --no-live --baseline main --metric codec --metric output_fidelity
  ./faultline nightly --metric live_cpu --metric kill_tasks_outage
  ./faultline nightly --dry-run
  ./faultline nightly --summary night.md
"""


@click.command("nightly", epilog=_EPILOG)
@click.option(
    "--baseline",
    metavar="REVISION",
    help="Revision to compare this checkout with.  [default: the commit of the newest night of "
    "this class of machine, or the commit before this one]",
)
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="Only this metric; repeatable."
)
@click.option(
    "--pairs",
    type=click.IntRange(min=8),
    default=15,
    help="Samples of each loop and side, and as many again of one that seems to have changed.",
)
@click.option(
    "--live/--no-live",
    default=True,
    help="Also compare the live engines and their outages after kills, which starts two local "
    "clusters.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show the metrics and about how long they take, and end."
)
@click.option(
    "--anyway",
    is_flag=True,
    help="Measure even if nothing that is measured has changed since the baseline.",
)
@click.option(
    "--summary",
    type=FILE,
    envvar="GITHUB_STEP_SUMMARY",
    help="Add the night to this file, in Markdown.  [default: $GITHUB_STEP_SUMMARY, if it is set]",
)
@out_option
@json_option
def command(
    baseline: str | None,
    metrics: tuple[str, ...],
    pairs: int,
    live: bool,
    dry_run: bool,
    anyway: bool,
    summary: Path | None,
    out: Path,
    as_json: bool,
) -> None:
    """Measure this checkout and an earlier revision (the baseline) in turns, and compare them.

    The loops that cost most are measured in processor time. On real servers, the cost of the task
    engine is measured as a share of stock Spark's in micro-batches, and a worker is killed under
    each of the two, for outages and for results that are lost, repeated or wrong (docs/nightly.md).

    Where nothing that is measured has changed since the baseline, it ends at once. A level that
    moved over the nights is an alarm, with the commits between which it did.

    The baseline is built in your cache. The night is added to history/ of the results directory,
    and report/trends.html is written again. The claims of the records there are compared with
    those of the night before.

    Exit code: 0 nothing is worse, 1 an alarm (something is measurably worse, was measured before
    and is null tonight, or a claim stopped holding), 2 wrong use, 3 the environment failed (the
    baseline does not build, say)."""
    from harness.nightly import revisions
    from harness.nightly.metrics import chosen
    from harness.nightly.trends import write_trends

    measured = chosen(metrics, live=live)
    history = History(out, warn=to_stderr)
    nights = history.read(machine_name())
    revision = revisions.resolve(baseline) if baseline else _default_baseline(nights)
    if not (anyway or revisions.changed_code(revision)):
        text = f"nothing that is measured changed since {revision}; --anyway measures all the same"
        document = {"baseline": revision.commit, "changed": False, "alarms": []}
        show(document, [text], as_json=as_json)
        return
    about = _duration(measured, pairs)
    if dry_run:
        lines = [*(f"  {metric.name:<26} {metric.title}" for metric in measured), about]
        document = {"metrics": [metric.name for metric in measured], "about": about}
        show(document, lines, as_json=as_json)
        return
    to_stderr(about)
    night = _measured(measured, revision, nights, out, pairs)
    history.append(night)
    if summary is not None:
        with summary.open("a") as file:
            file.write(markdown(night))
    path, trends = history.path(night.machine_name), write_trends(history)
    lines = [markdown(night), f"history: {path}", f"trends: {trends}"]
    document = {**asdict(night), "history": str(path), "trends": str(trends)}
    show(document, lines, as_json=as_json)
    sys.exit(ALARM if night.alarms else 0)


def _duration(measured: Sequence[Metric], pairs: int) -> str:
    """Return how long a night takes, in words."""
    from harness.nightly.metrics import planned_s

    once = format_duration(planned_s(measured, pairs))
    again = format_duration(planned_s(measured, pairs, fresh_of=len(measured)))
    return f"about {once} on two idle cores, and up to {again} more if all seems to have changed"


def _measured(
    measured: Sequence[Metric], revision: Revision, nights: Sequence[Night], out: Path, pairs: int
) -> Night:
    """Measure a night against a revision, with the moves of the history that it shows first."""
    from harness.cluster.ownership import warn_of_neighbours
    from harness.nightly import gate, revisions
    from harness.nightly.claims import claims_tonight
    from harness.nightly.moves import moves
    from harness.results.store import RecordStore

    if any(metric.turns for metric in measured):
        warn_of_neighbours(to_stderr)
    to_stderr(f"comparing with {revision}")
    with interrupted_by(signal.SIGTERM):
        night = gate.measure_night(
            measured,
            revisions.build(revision, report=to_stderr),
            revisions.working_tree(),
            claims=claims_tonight(RecordStore(out, warn=to_stderr)),
            last=nights[-1] if nights else None,
            pairs=pairs,
            seed=derive_seed(DEFAULT_SEED, "night", len(nights)),
            report=to_stderr,
        )
    found = moves([*nights, night])
    worse = [one.sentence(revisions.commits_between) for one in found if one.worse]
    others = [one.sentence(revisions.commits_between) for one in found if not one.worse]
    return replace(night, alarms=[*night.alarms, *worse], notes=[*night.notes, *others])


def _default_baseline(nights: Sequence[Night]) -> Revision:
    from harness.nightly import revisions

    if nights:
        try:
            return revisions.resolve(nights[-1].commit.rstrip("+"))
        except UsageError:
            pass  # that night's commit is not in this checkout (a shallow clone, a rebase)
    try:
        return revisions.resolve("HEAD~1")
    except UsageError as error:
        raise UsageError(
            "there is no revision before this one to compare with",
            remedy="name one with --baseline REVISION, or fetch the history: git fetch --unshallow",
        ) from error
