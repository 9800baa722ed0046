"""``faultline bisect``: the revision that made a nightly metric worse."""

from __future__ import annotations

from dataclasses import asdict

import click

from harness.cli.output import emit_json, json_option

_EPILOG = """\b
Examples:
  ./faultline bisect output_fidelity HEAD~20 HEAD
  ./faultline bisect codec HEAD~100 main --json
"""


@click.command("bisect", epilog=_EPILOG)
@click.argument("metric")
@click.argument("good")
@click.argument("bad")
@click.option(
    "--pairs",
    type=click.IntRange(min=5),
    default=None,
    help="Pairs of samples for each revision.  [default: 12; 6 for a live metric]",
)
@json_option
def command(metric: str, good: str, bad: str, pairs: int | None, as_json: bool) -> None:
    """Find the first revision after GOOD, up to BAD, that makes METRIC worse.

    METRIC is a name that `./faultline nightly` prints. The search is `git bisect run`; each step
    compares a revision with GOOD as the nightly gate does. Of merges, only first parents are
    tried. A revision that does not build is skipped and named. A step of a live metric starts two
    clusters and takes some eight minutes."""
    from harness.environment.cache import to_stderr
    from harness.errors import UsageError
    from harness.nightly import bisect, revisions
    from harness.nightly.gate import LIVE_PAIRS, PAIRS, measure_of
    from harness.nightly.metrics import chosen_with_live
    from harness.seeds import DEFAULT_SEED, derive_seed

    _, live = chosen_with_live((metric,))
    pairs = pairs or (LIVE_PAIRS if live else PAIRS)
    first, last = revisions.resolve(good), revisions.resolve(bad)
    if not revisions.between(first, last):
        raise UsageError(
            f"there is no revision between {first.short} and {last.short}",
            remedy="give a GOOD that is older than BAD",
        )
    measure = measure_of(metric, first, last, report=to_stderr)
    worse = bisect.is_worse(
        last, measure, pairs=pairs, seed=derive_seed(DEFAULT_SEED, "bisect", metric)
    )
    to_stderr(f"{last}: {bisect.words(worse)}")
    found = bisect.bisect(first, worse, metric, pairs=pairs)
    if as_json:
        emit_json(
            {
                "metric": metric,
                "good": first.commit,
                "first_worse": found.first_worse.commit,
                "subject": found.first_worse.subject,
                "ratio": found.decisive.ratio,
                "low": found.decisive.low,
                "high": found.decisive.high,
                "not_measured": [other.commit for other in found.others],
                "steps": [asdict(step) for step in found.steps],
            }
        )
        return
    click.echo(f"first worse revision: {found.first_worse}")
    click.echo(f"  {metric}: {bisect.cost(found.decisive)} of {first}")
    for other in found.others:
        click.echo(f"  it may also be {other}, which could not be measured")
