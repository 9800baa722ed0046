"""``faultline advise``: a scheme, an interval and a plan for a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.advice.job import ASSUMED, ASSUMED_LATENCY_S, ASSUMED_SYSTEM
from harness.cli.options import DURATION, DURATION_OR_0, SHARE, SIZE
from harness.cli.output import emit_json, json_option
from harness.errors import UsageError
from harness.intervals.systems import SYSTEMS, Failure
from harness.text import did_you_mean, read_given

if TYPE_CHECKING:
    from collections.abc import Sequence

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

_OPTION_OF = {
    "nodes": ("--nodes", 1, ""),
    "racks": ("--racks", 1, ""),
    "depth": ("--depth", 1, ""),
    "speed_per_s": ("--speed", 1, ""),
    "storage_bytes_per_s": ("--storage", 1e6, "MB"),
    "budget": ("--budget", 1, ""),
}
"""Name of an assumed value to the option that gives it, and its unit there."""
_ASSUMED = {
    option: f"{ASSUMED[name] / size:g}{unit}" for name, (option, size, unit) in _OPTION_OF.items()
}


def _help(option: str, words: str) -> str:
    return f"{words}  [assumed: {_ASSUMED[option]}]"


@click.command("advise", epilog=_EPILOG)
@click.option("--rate", "rate_per_s", type=float, help="Tuples per second, in all.")
@click.option("--state", "state_bytes", type=SIZE, help="State of all tasks together.")
@click.option("--mttf", "node_mttf_s", type=DURATION, help="Mean time to failure of a node.")
@click.option(
    "--system",
    metavar="NAME",
    help=f"{', '.join(SYSTEMS)}: its default settings decide detection, waits and transactions.  "
    f"[assumed: {ASSUMED_SYSTEM}]",
)
@click.option(
    "--failure",
    type=click.Choice([each.value for each in Failure]),
    default=Failure.PROCESS.value,
    show_default=True,
    help="What fails: a process, whose connections end, or a machine, which is silent.",
)
@click.option("--exactly-once", is_flag=True, help="The job writes its output in transactions.")
@click.option(
    "--interval", "interval_s", type=DURATION, help="Time between two checkpoints that it has."
)
@click.option(
    "--latency",
    "latency_s",
    type=DURATION,
    help="The longest time from a record to its result that is wanted, where results wait for the "
    f"interval: micro-batches, transactions.  [assumed: {ASSUMED_LATENCY_S:g}s]",
)
@click.option(
    "--capacity",
    "capacity_per_s",
    type=float,
    help="Tuples/s that the job can do at most.  [assumed: --nodes times --speed]",
)
@click.option(
    "--observed",
    metavar="INTERVAL:RECOVERY",
    multiple=True,
    help="A recovery of your own, as in 60s:217s, or a CSV file of (time, lag) of one; repeatable.",
)
@click.option("--nodes", type=int, help=_help("--nodes", "Nodes of the job."))
@click.option("--racks", type=int, help=_help("--racks", "Racks that hold them."))
@click.option(
    "--rack-mttf", "rack_mttf_s", type=DURATION, help="Mean time to failure of a whole rack."
)
@click.option("--depth", type=int, help=_help("--depth", "Operators in a row."))
@click.option(
    "--window", "window_s", type=DURATION, help="Length of the window that the state covers."
)
@click.option(
    "--speed", "speed_per_s", type=float, help=_help("--speed", "Tuples/s that a task can do.")
)
@click.option(
    "--storage",
    "storage_bytes_per_s",
    type=SIZE,
    help=_help("--storage", "State that a node can store, or read, in a second."),
)
@click.option(
    "--checkpoint-cost",
    "checkpoint_cost_s",
    type=DURATION,
    help="Time that a checkpoint takes from work.  [assumed: a node's state over --storage; for "
    "Spark and Kafka Streams, which write changes alone, 500 and 100 ms]",
)
@click.option(
    "--detection",
    "detection_s",
    type=DURATION_OR_0,
    help="Time until a failure is noticed, for the default's.",
)
@click.option(
    "--restart",
    "restart_s",
    type=DURATION_OR_0,
    help="Time from then until a new task runs, likewise.",
)
@click.option(
    "--restore",
    "restore_s",
    type=DURATION_OR_0,
    help="Time to get a node's state back.  [assumed: its share of --state over --storage]",
)
@click.option(
    "--transaction",
    "transaction_s",
    type=DURATION_OR_0,
    help="Time from a failure until its transactions are settled, likewise.",
)
@click.option(
    "--budget",
    type=SHARE,
    help=_help("--budget", "Share of the tasks that may be replicated: 0.5 or 50%."),
)
@click.option(
    "--within",
    "target_s",
    type=DURATION,
    help="The longest recovery that is allowed: then a scheme, and its interval, are chosen. "
    "Without --capacity the capacity that it needs is the answer.",
)
@click.option(
    "--topology",
    type=click.Path(path_type=Path),
    help="The job's topology, as a file for ./faultline plan.",
)
@click.option(
    "--from",
    "roots",
    multiple=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Results to learn from; repeatable.  [default: those that ship with the repository]",
)
@click.option(
    "--job",
    "job_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A job as ./faultline try or ./faultline job wrote it; other options go before its lines.",
)
@click.option("--judge", is_flag=True, help="Print predictions beside measurements, and stop.")
@json_option
def command(
    roots: tuple[Path, ...],
    judge: bool,
    job_file: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Find how often a job should checkpoint, and compare the schemes.

    Intervals are shown with the time that they leave for work, the recovery, and the latency of a
    result where results wait for the interval: then it is the longest that keeps --latency, else
    T*, which leaves most time for work.

    A recovery is a sum: detect, restart, restore, replay, and what a transaction adds. Each part
    has a range over the moment of the failure and its source: a default setting of the system,
    kills on real servers in the records, your own recoveries, or what you give. Nothing is started.

    With --interval you see what a failure costs today and what T* would change. With --within,
    checkpoints are also tried at the longest interval whose recovery is short enough, and the
    scheme that leaves the most useful work per task is named. Without --capacity the answer is the
    capacity that such a recovery needs."""
    from harness.cache import to_stderr
    from harness.results import load

    if judge:
        from harness.advice.accuracy import document, markdown

        results = load(*roots, warn=to_stderr)
        if as_json:
            emit_json(document(results))
        else:
            click.echo(markdown(results), nl=False)
        return
    if job_file is not None:
        given |= _of_file(click.get_current_context(), job_file)
    needed = {"rate_per_s": "--rate", "state_bytes": "--state", "node_mttf_s": "--mttf"}
    missing = [option for name, option in needed.items() if given[name] is None]
    if missing:
        raise UsageError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            remedy="give the job, as in --rate 20000 --state 4GB --mttf 30d",
        )
    from harness.advice.advise import advise
    from harness.cli.advise_text import words
    from harness.topology.text import from_yaml_text

    target_s, topology, observed = (given.pop(key) for key in ("target_s", "topology", "observed"))
    job, assumed = _job(given, unable=target_s is not None)
    found = advise(
        job,
        load(*roots, warn=to_stderr),
        target_s=target_s,
        assumed=assumed,
        topology=from_yaml_text(_read(topology), name=str(topology)) if topology else None,
        observed=_observed(observed, job, restart_s=given["restart_s"]),
    )
    if as_json:
        emit_json(found.document())
    else:
        click.echo("\n".join(words(found)))


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


def _read(path: Path) -> str:
    return read_given(
        path, "--topology: ", "name a topology in YAML; ./faultline plan --help shows one"
    )


def _observed(texts: Sequence[str], job: Job, *, restart_s: float | None) -> Sequence[Observation]:
    """Return the user's own recoveries: pairs, and files of (time, lag)."""
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
    needless = {"speed_per_s"} if "capacity_per_s" in values else set()
    missing = [_OPTION_OF[name][0] for name in ASSUMED if name not in {*values, *needless}]
    assumed = [f"{option} {_ASSUMED[option]}" for option in missing]
    if "system" not in values:
        assumed.insert(0, f"--system {ASSUMED_SYSTEM}")
    job = Job(**{**values, "failure": Failure(values["failure"])})
    if job.waits and "latency_s" not in values:
        assumed.append(f"--latency {ASSUMED_LATENCY_S:g}s")
    return job, assumed
