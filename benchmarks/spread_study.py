"""Cost and scaling of simulated schedules that are spread over a Spark cluster.

::

    .venv/bin/python -P -m benchmarks.spread_study                      # a local cluster
    .venv/bin/python -P -m benchmarks.spread_study --cluster docker --workers 1 --workers 2

The same seeds run in processes of this machine and on executors; each line is one campaign. The
first schedules of every campaign are not counted in its rate: they include the start of processes,
which the output mentions. All reports must be equal in all places."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter

import click

from harness.cluster.backends import find_backend
from harness.environment.cache import to_stderr
from harness.simulator.campaign import Choice, reports
from harness.simulator.run import SimulatedRun
from harness.simulator.spread import spread_reports

WARM = 0.2
"""The share of the seeds that a rate leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One way to run the seeds."""

    where: str
    workers: int
    cluster_s: float
    """Time until the cluster was up; 0 where none is needed."""
    first_s: float
    """Time from then to the first report."""
    rate_per_s: float
    """Schedules per second after the first ones."""


def timed(
    arriving: Iterator[SimulatedRun], where: str, workers: int, cluster_s: float
) -> tuple[Campaign, list[SimulatedRun]]:
    """Take all reports, and record their times."""
    began = perf_counter()
    made: list[SimulatedRun] = []
    came_s: list[float] = []
    for report in arriving:
        made.append(report)
        came_s.append(perf_counter() - began)
    skipped = int(len(made) * WARM)
    rate = (len(made) - 1 - skipped) / (came_s[-1] - came_s[skipped])
    campaign = Campaign(
        where=where,
        workers=workers,
        cluster_s=round(cluster_s, 2),
        first_s=round(came_s[0], 2),
        rate_per_s=round(rate, 2),
    )
    return campaign, made


def study(choice: Choice, backend: str, workers: Sequence[int]) -> Iterator[Campaign]:
    """Run every number of workers here, then on the cluster.

    Raises `AssertionError` for reports that are not the same everywhere."""
    expected: list[SimulatedRun] | None = None
    for number in workers:
        campaign, made = timed(reports(choice, number), "this machine", number, 0.0)
        assert made == (expected or made), "the same seeds, other reports"
        expected = made
        yield campaign
    for number in workers:
        place = find_backend(backend)
        began = perf_counter()
        with place.make(place.executors(number)) as cluster:
            cluster.start(to_stderr)
            up_s = perf_counter() - began
            campaign, made = timed(spread_reports(choice, cluster), backend, number, up_s)
        assert made == expected, "the same seeds, other reports"
        yield campaign


@click.command()
@click.option("--cluster", "backend", default="local", show_default=True)
@click.option("--workers", type=click.IntRange(1), multiple=True, default=(1, 2))
@click.option("--seeds", type=click.IntRange(20), default=400, show_default=True)
def main(backend: str, workers: tuple[int, ...], seeds: int) -> None:
    """Print a line of JSON per campaign, then the speed-up of each."""
    choice = Choice(first_seed=0, last_seed=seeds - 1)
    rates: dict[str, list[float]] = {}
    for campaign in study(choice, backend, workers):
        click.echo(json.dumps(asdict(campaign)))
        rates.setdefault(campaign.where, []).append(campaign.rate_per_s)
    for where, found in rates.items():
        shown = ", ".join(f"{rate / found[0]:.2f}" for rate in found)
        click.echo(f"{where}: {shown} times the rate of {workers[0]} worker(s)")


if __name__ == "__main__":
    main()
