"""``faultline bisect``: which revision made a nightly metric worse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harness.cli.output import emit_json, json_option

if TYPE_CHECKING:
    from harness.nightly.bisect import Found, Step
    from harness.nightly.statistics import Comparison

_EPILOG = """\b
Examples:
  ./faultline bisect output_fidelity HEAD~20 HEAD
  ./faultline bisect codec HEAD~100 main --json
"""


@click.command("bisect", epilog=_EPILOG, short_help="Which revision made a metric worse.")
@click.argument("metric")
@click.argument("good")
@click.argument("bad")
@click.option(
    "--pairs",
    type=click.IntRange(min=5),
    default=None,
    help="Pairs of samples for each revision.  [default: 12; 6 of what live engines cost]",
)
@json_option
def command(metric: str, good: str, bad: str, pairs: int | None, as_json: bool) -> None:
    """Find the first revision after GOOD, up to BAD, that makes METRIC worse.

    METRIC is a name that `./faultline nightly` prints, and each step compares a revision with GOOD
    by its statistics. Of merges, only first parents are tried. A revision that does not build is
    left out and named. A step of a live metric starts two clusters and takes some eight minutes.
    """
    from harness.environment.cache import to_stderr
    from harness.errors import UsageError
    from harness.nightly import revisions
    from harness.nightly.bisect import bisect
    from harness.nightly.gate import LIVE_PAIRS, PAIRS, pairs_of
    from harness.nightly.metrics import chosen_with_live
    from harness.nightly.statistics import Pairs
    from harness.seeds import DEFAULT_SEED, derive_seed

    loops, ratios = chosen_with_live((metric,))
    wanted = loops[0] if loops else ratios[0]
    pairs = pairs or (LIVE_PAIRS if ratios else PAIRS)
    first, last = revisions.resolve(good), revisions.resolve(bad)
    candidates = revisions.between(first, last)
    if not candidates:
        raise UsageError(
            f"there is no revision between {first.short} and {last.short}",
            remedy="give a GOOD that is older than BAD",
        )
    baseline = revisions.build(first, report=to_stderr)

    def measure(revision: revisions.Revision, count: int, seed: int) -> Pairs:
        side = revisions.build(revision, report=to_stderr)
        return pairs_of(wanted, baseline, side, pairs=count, seed=seed, report=to_stderr)

    found = bisect(
        candidates,
        measure,
        pairs=pairs,
        seed=derive_seed(DEFAULT_SEED, "bisect", metric),
        watch=lambda step: to_stderr(_words(step)),
    )
    if as_json:
        emit_json(_document(found, metric, first.commit))
        return
    click.echo(f"first worse revision: {found.first_worse}")
    click.echo(f"  {metric}: {_ratio(found.comparison)} of {first}")
    for other in found.others:
        click.echo(f"  it may also be {other}, which could not be measured")


def _words(step: Step) -> str:
    side = {True: "worse", False: "as good", None: f"left out: {step.why}"}[step.worse]
    numbers = f", {_ratio(step.comparison)}" if step.comparison else ""
    return f"{step.revision}: {side}{numbers}"


def _ratio(found: Comparison) -> str:
    return f"{found.ratio:.3f} times (99 % interval {found.low:.3f} to {found.high:.3f}) the cost"


def _document(found: Found, metric: str, good: str) -> dict[str, Any]:
    return {
        "metric": metric,
        "good": good,
        "first_worse": found.first_worse.commit,
        "subject": found.first_worse.subject,
        "ratio": found.comparison.ratio,
        "low": found.comparison.low,
        "high": found.comparison.high,
        "not_measured": [other.commit for other in found.others],
        "steps": [
            {
                "commit": step.revision.commit,
                "worse": step.worse,
                "ratio": step.comparison.ratio if step.comparison else None,
                "why": step.why,
            }
            for step in found.steps
        ],
    }
