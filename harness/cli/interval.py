"""``faultline interval``: the best interval between checkpoints, and its gain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import DURATION, DURATION_OR_0, PATH
from harness.cli.output import json_option, show
from harness.errors import UsageError
from harness.figures.terminal import area_chart
from harness.seeds import DEFAULT_SEED, generator
from harness.text import format_duration

if TYPE_CHECKING:
    from harness.intervals.utilization import CheckpointedSystem

_EPILOG = """\b
Durations take a unit: us, ms, s, min, h or d.

\b
Examples:
  ./faultline interval --cost 1.6s --mttf 20min --interval 30min
  ./faultline interval --cost 1.6s --mttf 20min --restart 23s --depth 5 --delay 27ms
  ./faultline interval --cost 5s --nodes 1000 --node-mttf 19d --interval 30min --json
  ./faultline interval --cost 1min --failure-records lanl.csv.gz --system 20 --restart 5min
"""
_WRONG_BY = (0.25, 0.5, 2.0, 4.0)
_COLUMNS, _LINES = 64, 8


@click.command(epilog=_EPILOG)
@click.option(
    "--cost",
    "cost_s",
    required=True,
    type=DURATION,
    help="Time that one checkpoint takes from useful work.",
)
@click.option("--mttf", "mttf_s", type=DURATION, help="Mean time to failure of the whole system.")
@click.option("--nodes", type=int, help="Number of nodes. A failure of any restarts the job.")
@click.option("--node-mttf", "node_mttf_s", type=DURATION, help="Mean time to failure of one node.")
@click.option(
    "--failure-records",
    type=PATH,
    metavar="FILE",
    help="Recorded failures, as `failures` reads them: they give the MTTF and are replayed.",
)
@click.option("--system", "system_id", metavar="ID", help="The system, of records with several.")
@click.option(
    "--restart", "restart_s", type=DURATION_OR_0, help="Time from a failure until work goes on."
)
@click.option(
    "--depth", type=int, default=1, help="Operators on the critical path; matters with --delay."
)
@click.option(
    "--delay",
    "delay_s",
    type=DURATION_OR_0,
    help="Time of a checkpoint token to the next operator; 0s if it takes none.",
)
@click.option(
    "--interval",
    "used_s",
    type=DURATION,
    help="The interval in use: the whole period, the checkpoint included.",
)
@json_option
def command(
    cost_s: float,
    mttf_s: float | None,
    nodes: int | None,
    node_mttf_s: float | None,
    failure_records: Path | None,
    system_id: str | None,
    restart_s: float | None,
    depth: int,
    delay_s: float | None,
    used_s: float | None,
    as_json: bool,
) -> None:
    """Compute how often to checkpoint, and the gain.

    The interval T* maximizes utilization, the share of time that is left for useful work. It
    depends on the cost of a checkpoint and the failure rate alone (the utilization model of
    Jayasekara et al., FGCS 2020). The utilization itself also depends on restart, depth and delay.
    """
    from harness.intervals.utilization import CheckpointedSystem

    recorded = _recorded_gaps(failure_records, system_id)
    rate_per_s = 1.0 / _mttf_s(mttf_s, nodes, node_mttf_s, recorded)
    if depth < 1:
        raise UsageError(f"--depth: {depth} is below 1", remedy="count the operators, at least 1")
    if (depth > 1) != (delay_s is not None):
        given, missing = ("--depth", "--delay") if depth > 1 else ("--delay", "--depth above 1")
        raise UsageError(
            f"{given} changes nothing without {missing}",
            remedy="give both (--delay 0s if tokens take no time), or neither",
        )
    system = CheckpointedSystem(
        cost_s=cost_s,
        failure_rate_per_s=rate_per_s,
        restart_s=restart_s or 0.0,
        depth=depth,
        delay_s=delay_s or 0.0,
    )
    if used_s is not None and used_s < cost_s:
        cost = format_duration(cost_s)
        raise UsageError(
            f"--interval: a checkpoint of {cost} does not fit into {format_duration(used_s)}",
            remedy=f"give more than {cost}: it is the whole period, the checkpoint included",
        )
    document = describe(system, used_s)
    if recorded is not None:
        document["replayed"] = _replay(system, recorded, used_s)
    show(document, _report(document) + _plot(system, used_s), as_json=as_json)


def describe(system: CheckpointedSystem, interval_s: float | None) -> dict[str, Any]:
    """Return the document of ``--json``, in seconds and shares.

    ``system`` is one system; raises `UsageError` if its checkpoint outlasts ``interval_s``."""
    from harness.intervals.rivals import RIVALS

    best = float(system.optimal_interval_s())
    document: dict[str, Any] = {
        "optimal_interval_s": best,
        "utilization_at_optimum": float(system.utilization(best)),
        "cost_s": float(system.cost_s),
        "mttf_s": float(system.mttf_s),
        "restart_s": float(system.restart_s),
        "depth": int(system.depth),
        "delay_s": float(system.delay_s),
    }
    if interval_s is not None:
        document["interval_s"] = interval_s
        document["utilization"] = float(system.utilization(interval_s))
        document["gain"] = float(system.increase(best, over_s=interval_s))
    document["sensitivity"] = [_believing(system, factor) for factor in _WRONG_BY]
    document["other_models"] = {
        name: {"interval_s": period, "utilization": float(system.utilization(period))}
        for name, period in ((name, float(rival(system))) for name, rival in RIVALS.items())
    }
    return document


def _believing(system: CheckpointedSystem, factor: float) -> dict[str, float]:
    """Return the loss if the interval is chosen for ``factor`` times the true failure rate."""
    from harness.intervals.utilization import CheckpointedSystem

    believed = CheckpointedSystem(
        cost_s=system.cost_s, failure_rate_per_s=factor * system.failure_rate_per_s
    )
    chosen = float(believed.optimal_interval_s())
    lost = -float(system.increase(chosen, over_s=float(system.optimal_interval_s())))
    return {
        "believed_mttf_s": float(believed.mttf_s),
        "interval_s": chosen,
        "utilization": float(system.utilization(chosen)),
        "lost": lost,
    }


def _recorded_gaps(path: Path | None, system_id: str | None) -> Any:
    if path is None:
        if system_id is not None:
            raise UsageError(
                "--system needs --failure-records", remedy="give the file, or leave it out"
            )
        return None
    from datasets.failure_logs import of_system, read_failures, trace

    return trace(of_system(read_failures(path), system_id, str(path)))


def _mttf_s(
    mttf_s: float | None, nodes: int | None, node_mttf_s: float | None, recorded: Any
) -> float:
    """Return the mean time to failure, which must be given in exactly one way."""
    of_nodes = nodes is not None or node_mttf_s is not None
    ways = [mttf_s is not None, of_nodes, recorded is not None]
    if sum(ways) != 1:
        raise UsageError(
            "the failure rate is not given" if not any(ways) else "the failure rate is given twice",
            remedy="give one of --mttf, --nodes with --node-mttf, or --failure-records",
        )
    if recorded is not None:
        return float(recorded.mean_s)
    if mttf_s is not None:
        return mttf_s
    if nodes is None or node_mttf_s is None:
        raise UsageError(
            "--nodes and --node-mttf go together", remedy="give both, or the whole system's --mttf"
        )
    if nodes < 1:
        raise UsageError(f"--nodes: {nodes} is below 1", remedy="count the nodes, at least 1")
    return node_mttf_s / nodes


def _replay(system: CheckpointedSystem, recorded: Any, used_s: float | None) -> dict[str, Any]:
    """Simulate the utilization under the recorded failures, in their order."""
    import numpy as np

    from harness.intervals.simulator import simulate

    intervals = [float(system.optimal_interval_s()), *([used_s] if used_s else [])]
    frame = simulate(
        system,
        np.array(intervals),
        failures=recorded,
        generator=generator(DEFAULT_SEED, "interval", "replay"),
        runs=2,
        failures_per_run=len(recorded.recorded_gaps_s),
    ).frame()
    # Every run goes once through the whole record, so runs do not differ: no error bar.
    names = ["utilization_at_optimum", "utilization"]
    measured = dict(zip(names, map(float, frame["utilization"]), strict=False))
    return {"failures": len(recorded.recorded_gaps_s) + 1, **measured}


def _report(document: dict[str, Any]) -> list[str]:
    rows = {
        "mean time to failure": format_duration(document["mttf_s"]),
        "utilization at optimum": _percent(document["utilization_at_optimum"]),
    }
    if "interval_s" in document:
        used = format_duration(document["interval_s"])
        rows[f"utilization at {used}"] = _percent(document["utilization"])
        rows["gain"] = _percent(document["gain"])
    if replayed := document.get("replayed"):
        rows[f"with the {replayed['failures']} recorded failures replayed (a simulation):"] = ""
        rows["  utilization at optimum"] = _percent(replayed["utilization_at_optimum"])
        if "utilization" in replayed:
            rows["  utilization in use"] = _percent(replayed["utilization"])
    return [
        f"Checkpoint every {format_duration(document['optimal_interval_s'])} "
        f"(the whole period, the {format_duration(document['cost_s'])} checkpoint included).",
        "",
        *(f"  {name:<26} {value}".rstrip() for name, value in rows.items()),
        "",
        "If the failure rate were misjudged, and the share of the useful work lost:",
        *(
            f"  MTTF believed {format_duration(row['believed_mttf_s']):<9} (rate × {factor:<4g}) "
            f"→ every {format_duration(row['interval_s']):<9} "
            f"utilization {_percent(row['utilization'])}, {_percent(row['lost'])} lost"
            for factor, row in zip(_WRONG_BY, document["sensitivity"], strict=True)
        ),
        "",
    ]


def _percent(share: float) -> str:
    """Return two decimals, more where all would be zeros; a gain from nothing is infinite."""
    if share == float("inf"):
        return "infinite (next to nothing was done before)"
    return f"{share:.2%}" if share == 0.0 or abs(share) >= 1e-4 else f"{100.0 * share:.2g}%"


def _plot(system: CheckpointedSystem, used_s: float | None) -> list[str]:
    """Utilization over the interval, logarithmic, with the optimum (and yours) marked below."""
    import numpy as np

    best, cost = float(system.optimal_interval_s()), float(system.cost_s)
    low = max(cost, min(best, used_s or best) / 8.0)
    high = max(best, used_s or best) * 8.0
    grid = np.geomspace(low, high, _COLUMNS)
    chart = area_chart(system.utilization(grid).tolist(), height=_LINES)
    labels = {0: "100 %", _LINES // 2: " 50 %"}
    lines = [f"{labels.get(i, ''):>6} │{line}" for i, line in enumerate(chart)]
    marks = [" "] * _COLUMNS
    for value, mark in ((used_s, "●"), (best, "▲")):
        if value is not None:
            marks[int(abs(np.log(grid / value)).argmin())] = mark
    ends = f"{format_duration(low)}{format_duration(high):>{_COLUMNS - len(format_duration(low))}}"
    return [
        "Utilization by checkpoint interval (logarithmic):",
        *lines,
        f"{'0 %':>6} └{'─' * _COLUMNS}",
        " " * 8 + "".join(marks).rstrip(),
        " " * 8 + ends,
        " " * 8 + f"▲ optimum {format_duration(best)}"
        + (f"   ● in use {format_duration(used_s)}" if used_s else ""),
    ]  # fmt: skip
