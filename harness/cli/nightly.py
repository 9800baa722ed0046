"""``faultline nightly``: the comparison of this checkout with an earlier revision."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import out_option
from harness.cli.output import emit_json, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.nightly.history import History, Night
    from harness.nightly.revisions import Revision

ALARM = 1

_EPILOG = """\b
Examples:
  ./faultline nightly
  ./faultline nightly --baseline HEAD~20 --json
  ./faultline nightly --no-live --baseline main --metric codec --metric output_fidelity
  ./faultline nightly --metric live_cpu --metric live_latency
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
    default=None,
    help="Samples of each metric and side.  [default: 15]",
)
@click.option(
    "--live/--no-live",
    default=True,
    show_default=True,
    help="Also compare the live engines, which starts two local clusters (8 to 11 minutes).",
)
@click.option(
    "--anyway",
    is_flag=True,
    help="Measure even if nothing that is measured has changed since the baseline.",
)
@click.option(
    "--summary",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="GITHUB_STEP_SUMMARY",
    help="Add the night to this file, in Markdown.  [default: $GITHUB_STEP_SUMMARY, if it is set]",
)
@out_option
@json_option
def command(
    baseline: str | None,
    metrics: tuple[str, ...],
    pairs: int | None,
    live: bool,
    anyway: bool,
    summary: Path | None,
    out: Path,
    as_json: bool,
) -> None:
    """Measure this checkout and an earlier revision (the baseline) in turns, and compare them.

    The loops that cost most are measured in processor time. On real servers, the cost of the task
    engine is measured as a share of stock Spark's in micro-batches (docs/nightly.md).

    Where nothing that is measured has changed since the baseline, it ends at once. A level that
    moved over the nights is an alarm, with the commits between which it did.

    The baseline is built in your cache. The night is added to history/ of the results directory,
    and report/trends.html is written again. The claims of the records there are compared with
    those of the night before.

    Exit code: 0 nothing is worse, 1 an alarm (something is measurably worse, was measured before
    and is null tonight, or a claim stopped holding), 2 wrong use, 3 the environment failed (the
    baseline does not build, say)."""
    from harness.cache import to_stderr
    from harness.cluster.ownership import warn_of_neighbours
    from harness.nightly import revisions
    from harness.nightly.claims import claims_tonight
    from harness.nightly.gate import PAIRS, measure_night
    from harness.nightly.history import History
    from harness.nightly.metrics import chosen_with_live
    from harness.nightly.trends import write_trends
    from harness.results.provenance import machine_name
    from harness.results.store import RecordStore
    from harness.seeds import DEFAULT_SEED, derive_seed

    loops, ratios = chosen_with_live(metrics)
    history = History(out, warn=to_stderr)
    nights = history.read(machine_name())
    revision = revisions.resolve(baseline) if baseline else _default_baseline(nights)
    if not (anyway or revisions.changed_code(revision)):
        _unchanged(revision, as_json)
        return
    if live and ratios:
        warn_of_neighbours(to_stderr)
    side = revisions.build(revision, report=to_stderr)
    to_stderr(f"comparing with {revision}")
    night = measure_night(
        loops,
        side,
        revisions.working_tree(),
        claims=claims_tonight(RecordStore(out, warn=to_stderr)),
        last=nights[-1] if nights else None,
        pairs=pairs or PAIRS,
        seed=derive_seed(DEFAULT_SEED, "night", len(nights)),
        report=to_stderr,
        live=ratios if live else (),
    )
    night = _with_moves(nights, night)
    path = history.append(night)
    trends = write_trends(history)
    _add(night, summary)
    if as_json:
        emit_json({**asdict(night), "history": str(path), "trends": str(trends)})
    else:
        _print(night, history, trends)
    sys.exit(ALARM if night.alarms else 0)


def _unchanged(revision: Revision, as_json: bool) -> None:
    if as_json:
        emit_json({"baseline": revision.commit, "changed": False, "alarms": []})
    else:
        click.echo(
            f"nothing that is measured changed since {revision}; --anyway measures all the same"
        )


def _add(night: Night, page: Path | None) -> None:
    """Add the night to a page in Markdown, where one is named."""
    from harness.nightly.summary import markdown

    if page is not None:
        with page.open("a") as file:
            file.write(markdown(night))


def _with_moves(nights: Sequence[Night], night: Night) -> Night:
    """Return the night with the moves of the history that it shows first."""
    from harness.nightly.moves import moves
    from harness.nightly.revisions import commits_between

    found = moves([*nights, night])
    worse = [one.sentence(commits_between) for one in found if one.worse]
    others = [one.sentence(commits_between) for one in found if not one.worse]
    return replace(night, alarms=[*night.alarms, *worse], notes=[*night.notes, *others])


def _default_baseline(nights: Any) -> Revision:
    from harness.errors import UsageError
    from harness.nightly.revisions import resolve

    if nights:
        try:
            return resolve(nights[-1].commit.rstrip("+"))
        except UsageError:
            pass  # that night's commit is not in this checkout (a shallow clone, a rebase)
    try:
        return resolve("HEAD~1")
    except UsageError as error:
        raise UsageError(
            "there is no revision before this one to compare with",
            remedy="name one with --baseline REVISION, or fetch the history: git fetch --unshallow",
        ) from error


def _print(night: Night, history: History, trends: Path | None) -> None:
    click.echo(f"{night.commit} against {night.baseline}, {night.pairs} pairs each")
    for name, metric in night.metrics.items():
        numbers = (
            f"{metric.ratio:6.3f}  ({metric.low:.3f} to {metric.high:.3f})"
            if metric.ratio is not None
            else f"     –  {metric.reason or ''}"
        )
        click.echo(f"  {name:<26} {metric.verdict:<13} {numbers}")
    decided = sum(claim.held is not None for claim in night.claims)
    click.echo(f"{decided} of {len(night.claims)} claims are measured")
    for note in night.notes:
        click.echo(f"note: {note}")
    for alarm in night.alarms:
        click.echo(f"ALARM {alarm}")
    if not night.alarms:
        click.echo("nothing is worse")
    click.echo(f"history: {history.path(night.machine_name)}")
    if trends:
        click.echo(f"trends: {trends}")
