"""``faultline advise``: a scheme, an interval and a plan for a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.advice.job import ASSUMED, ASSUMED_LATENCY_S, ASSUMED_SYSTEM
from harness.cache import to_stderr
from harness.cli.options import DURATION, DURATION_OR_0, PATH, SHARE, SIZE, results_option
from harness.cli.output import json_option, show
from harness.errors import UsageError
from harness.intervals.systems import SYSTEMS, Failure
from harness.text import did_you_mean, read_given

if TYPE_CHECKING:
    from harness.advice.job import Job
    from harness.intervals.observed import Observation

_EPILOG = """\b
Durations have a unit (ms, s, min, h, d), and so have amounts of data (MB, GB, MiB, GiB).

\b
Examples:
  ./faultline advise --rate 20000 --state 4GB --mttf 30d
  ./faultline advise --system flink-2 --rate 20000 --state 4GB --mttf 30d --interval 10min
  ./faultline advise --rate 5000 --state 500MB --mttf 7d --within 1min
  ./faultline advise --rate 20000 --state 4GB --mttf 30d --restart 2min --within 7min
  ./faultline advise --job job.yaml --within 1min
  ./faultline advise --rate 5000 --state 500MB --mttf 7d --observed 60s:217s --observed 10s:95s
  ./faultline advise --judge
"""

_OF_JOB: Sequence[tuple[str, str, Any, str]] = (
    ("--rate", "rate_per_s", float, "Tuples per second, in all."),
    ("--state", "state_bytes", SIZE, "State of all tasks together."),
    ("--mttf", "node_mttf_s", DURATION, "Mean time to failure of a node."),
    (
        "--system",
        "system",
        str,
        f"{', '.join(SYSTEMS)}: its default settings decide detection, waits and transactions.",
    ),
    ("--interval", "interval_s", DURATION, "Time between two checkpoints that it has."),
    (
        "--latency",
        "latency_s",
        DURATION,
        "The longest time from a record to its result that is wanted, where results wait for the "
        "interval: micro-batches, transactions.",
    ),
    ("--capacity", "capacity_per_s", float, "Tuples/s that the job can do at most."),
    ("--nodes", "nodes", int, "Nodes of the job."),
    ("--racks", "racks", int, "Racks that hold them."),
    ("--rack-mttf", "rack_mttf_s", DURATION, "Mean time to failure of a whole rack."),
    ("--depth", "depth", int, "Operators in a row."),
    ("--window", "window_s", DURATION, "Length of the window that the state covers."),
    ("--speed", "speed_per_s", float, "Tuples/s that a task can do."),
    (
        "--storage",
        "storage_bytes_per_s",
        SIZE,
        "State that a node can store, or read, in a second.",
    ),
    ("--checkpoint-cost", "checkpoint_cost_s", DURATION, "Time that a checkpoint takes from work."),
    (
        "--detection",
        "detection_s",
        DURATION_OR_0,
        "Time until a failure is noticed, for the default's.",
    ),
    ("--restart", "restart_s", DURATION_OR_0, "Time from then until a new task runs, likewise."),
    ("--restore", "restore_s", DURATION_OR_0, "Time to get a node's state back."),
    (
        "--transaction",
        "transaction_s",
        DURATION_OR_0,
        "Time from a failure until its transactions are settled, likewise.",
    ),
    ("--budget", "budget", SHARE, "Share of the tasks that may be replicated: 0.5 or 50%."),
)
"""The options about the job: option, field of `Job`, type, and words."""
_ASSUMED = {
    "system": ASSUMED_SYSTEM,
    "latency_s": f"{ASSUMED_LATENCY_S:g}s",
    "capacity_per_s": "--nodes times --speed",
    "checkpoint_cost_s": "a node's state over --storage; for Spark and Kafka Streams, which write "
    "changes alone, 500 and 100 ms",
    "restore_s": "its share of --state over --storage",
    **{name: f"{value:g}" for name, value in ASSUMED.items()},
    "storage_bytes_per_s": f"{ASSUMED['storage_bytes_per_s'] / 1e6:g}MB",
}
"""Name of a value to what is assumed for it."""
_OPTION_OF = {name: option for option, name, _, _ in _OF_JOB}


def _job_options(command: Callable[..., None]) -> Callable[..., None]:
    for option, name, kind, words in reversed(_OF_JOB):
        assumed = f"  [assumed: {_ASSUMED[name]}]" if name in _ASSUMED else ""
        command = click.option(option, name, type=kind, help=words + assumed)(command)
    return command


@click.command("advise", epilog=_EPILOG)
@_job_options
@click.option(
    "--failure",
    type=click.Choice([each.value for each in Failure]),
    default=Failure.PROCESS.value,
    help="What fails: a process, whose connections end, or a machine, which is silent.",
)
@click.option("--exactly-once", is_flag=True, help="The job writes its output in transactions.")
@click.option(
    "--observed",
    metavar="INTERVAL:OUTAGE",
    multiple=True,
    help="An outage of your own, as in 60s:217s, or a CSV file of (time, lag) of one; repeatable.",
)
@click.option(
    "--within",
    "target_s",
    type=DURATION,
    help="The longest outage that is allowed: then a scheme, and its interval, are chosen. "
    "Without --capacity the capacity that it needs is the answer.",
)
@click.option("--topology", type=PATH, help="The job's topology, as a file for ./faultline plan.")
@results_option
@click.option(
    "--job",
    "job_file",
    type=PATH,
    metavar="FILE",
    help="A job as ./faultline try or ./faultline job wrote it; other options go before its lines.",
)
@click.option("--judge", is_flag=True, help="Print predictions beside measurements, and stop.")
@json_option
def command(
    roots: tuple[Path, ...], judge: bool, job_file: Path | None, as_json: bool, **given: Any
) -> None:
    """Find how often a job should checkpoint, and compare the schemes.

    Intervals are shown with the time that they leave for work, the outage after a failure, and the
    latency of a result where results wait for the interval: then it is the longest that keeps
    --latency, else T*, which leaves most time for work.

    An outage is counted from the failure until output is on time again: detect, then recover
    (restart, restore, replay, and what a transaction adds). Each part has a range over the moment
    of the failure and its source: a default setting of the system, kills on real servers in the
    records, your own outages, or what you give. Nothing is started.

    With --interval you see what a failure costs today and what T* would change. With --within,
    checkpoints are also tried at the longest interval whose outage is short enough, and the
    scheme that leaves the most useful work per task is named. Without --capacity the answer is the
    capacity that such an outage needs."""
    from harness.results import load

    if judge:
        from harness.advice.accuracy import document, markdown

        results = load(*roots, warn=to_stderr)
        if as_json:
            show(document(results), (), as_json=True)
        else:
            click.echo(markdown(results), nl=False)
        return
    if job_file is not None:
        given |= _of_file(click.get_current_context(), job_file)
    needed = ("rate_per_s", "state_bytes", "node_mttf_s")
    missing = [_OPTION_OF[name] for name in needed if given[name] is None]
    if missing:
        raise UsageError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            remedy="give the job, as in --rate 20000 --state 4GB --mttf 30d",
        )
    from harness.advice.advise import advise
    from harness.cli.advise_text import words
    from harness.cli.plan import read_topology

    target_s, topology, observed = (given.pop(key) for key in ("target_s", "topology", "observed"))
    job, assumed = _job(given, unable=target_s is not None)
    found = advise(
        job,
        load(*roots, warn=to_stderr),
        target_s=target_s,
        assumed=assumed,
        topology=read_topology(topology, "--topology: ") if topology else None,
        observed=_observed(observed, job, restart_s=given["restart_s"]),
    )
    show(found.document(), words(found), as_json=as_json)


def _of_file(context: click.Context, path: Path) -> dict[str, Any]:
    """Return the values of a job's file that the command line does not give."""
    from harness.advice import job_file

    options = {
        option.opts[-1].removeprefix("--"): option
        for option in context.command.params
        if option.name not in ("job_file", "judge", "roots", "as_json")
    }
    found: dict[str, Any] = {}
    for key, texts in job_file.read(path).items():
        option = options.get(key)
        if option is None:
            raise UsageError(
                f"--job: {path} has the line {key!r}, which is no option of advise",
                remedy=did_you_mean(key, options),
            )
        default = click.core.ParameterSource.DEFAULT
        if context.get_parameter_source(str(option.name)) is not default:
            continue
        value = texts if option.multiple else texts[0]
        try:
            found[str(option.name)] = option.type_cast_value(context, value)
        except click.BadParameter as error:
            raise UsageError(
                f"--job: {path}: {key}: {error.message}", remedy="write it as for --" + key
            ) from error
    return found


def _observed(texts: Sequence[str], job: Job, *, restart_s: float | None) -> Sequence[Observation]:
    """Return the user's own outages: pairs, and files of (time, lag)."""
    from harness.intervals.observed import parse_observation, read_lag

    if texts and restart_s is not None:
        raise UsageError(
            "--restart is what --observed finds", remedy="give one of --restart and --observed"
        )
    found = []
    for text in texts:
        path = Path(text)
        if path.suffix != ".csv" and not path.is_file():
            found.append(parse_observation(text))
            continue
        if job.interval_s is None:
            raise UsageError(
                f"--observed {text}: nothing says how far apart checkpoints were",
                remedy="give it with --interval",
            )
        remedy = "name a CSV file whose first line is time,lag, or write 60s:217s"
        content = read_given(path, "--observed: ", remedy)
        found.append(
            read_lag(content, name=text, interval_s=job.interval_s, rate_per_s=job.rate_per_s)
        )
    return found


def _job(given: dict[str, Any], *, unable: bool) -> tuple[Job, list[str]]:
    """Return the job, and the options whose values are assumed for it.

    ``unable``: where the assumed speed cannot do the rate, twice the rate is assumed instead."""
    from harness.advice.job import Job

    values = {name: value for name, value in given.items() if value is not None}
    nodes = values.get("nodes", ASSUMED["nodes"])
    slow = values["rate_per_s"] >= nodes * ASSUMED["speed_per_s"]
    if unable and slow and not {"capacity_per_s", "speed_per_s"} & set(values):
        values |= {"capacity_per_s": 2.0 * values["rate_per_s"], "twice_the_rate": True}
    job = Job(**{**values, "failure": Failure(values["failure"])})
    known = {*values, *(["speed_per_s"] if "capacity_per_s" in values else [])}
    names = ["system", *ASSUMED, *(["latency_s"] if job.waits else [])]
    assumed = [f"{_OPTION_OF[name]} {_ASSUMED[name]}" for name in names if name not in known]
    return job, assumed
