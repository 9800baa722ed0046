"""``docs/results.md``: every table of the results, its columns, and every metric, with examples.

It is made from the tables' own column lists and the registry of metrics. A test compares it with
measured results, and runs its examples on them."""

from __future__ import annotations

from collections.abc import Mapping

from harness.measure.facts import FACTS
from harness.measure.metrics import METRICS
from harness.pages.layout import templates
from harness.results.kills import MEANINGS
from harness.results.library import (
    CLAIM_COLUMNS,
    POINT_COLUMNS,
    RUN_COLUMNS,
    SERIES_KEYS,
    Library,
)

PASS = "`failed` for the pass with failures, `twin` for the no-failure twin."
_SERIES_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "timelines": {
        "pass": PASS,
        "at_s": "Begin of the bin, in seconds from the start of the load.",
        "throughput_per_s": "Results (first versions) that arrived per second.",
        "latency_p50_s": "Median latency of the results of the bin, in seconds.",
        "latency_p99_s": "99th percentile of the latency of the results of the bin, in seconds.",
        "latency_max_s": "Latency of the slowest result of the bin, in seconds.",
    },
    "latencies": {
        "pass": PASS,
        "window_start_s": "Begin of the window, in seconds from the start of the load.",
        "expected": "How many results the ground truth has for it.",
        "delivered": "How many of the expected results were delivered.",
        "first_s": "Arrival of its first result; infinite if none came.",
        "complete_s": "Arrival of its last result; infinite if one never came.",
        "due_s": "When the record that closes the window was due.",
        "latency_s": "`complete_s` minus `due_s`.",
    },
    "failures": {
        "planned_at_s": "Planned time, in seconds from the start of the load.",
        "at_s": "Actual time.",
        "action": "kill, pause, cut, and the actions that end a failure.",
        "target": "The node or rack.",
        "lateness_s": "First signal minus planned instant.",
        "spread_s": "Last signal minus first.",
        "processes": "Number of processes that it reached.",
        "pids": "Pids of the processes that it reached, by node.",
        "error": "Error that prevented it, if any.",
    },
    "recoveries": MEANINGS,
    "usage": {
        "pass": PASS,
        "at_s": "Time of the sample, in seconds from the start of the load.",
        "who": "The node or driver.",
        "cpu_s": "CPU seconds of its processes so far, user and system.",
        "resident_bytes": "Resident memory of its processes.",
        "received_bytes": "Bytes received over the network so far; empty without a counter.",
        "sent_bytes": "Bytes sent over the network so far; empty without a counter.",
        "method": "Source of the numbers.",
    },
}

EXAMPLES = {
    "runs": 'results.runs.groupby(["experiment", "status"]).size()',
    "points": 'results.points.query("quantity == \'recovery_s\'")[["experiment", "value"]]',
    "claims": 'results.claims.groupby(["kind", "held"], dropna=False).size()',
    "timelines": 'results.timelines.groupby("pass")["throughput_per_s"].median()',
    "latencies": 'results.latencies.groupby("pass")["latency_s"].quantile([0.5, 0.99])',
    "failures": 'results.failures.assign(late_s=lambda f: f.at_s - f.planned_at_s)["late_s"].max()',
    "recoveries": 'results.recoveries.groupby("action")["recovery_s"].median()',
    "usage": 'results.usage.groupby(["run", "pass", "who"])["cpu_s"].max()',
}


def columns(table: str) -> Mapping[str, str]:
    """Return every column of a table with its meaning."""
    own = {"runs": RUN_COLUMNS, "points": POINT_COLUMNS, "claims": CLAIM_COLUMNS}
    if table in own:
        return own[table]
    return {
        **{name: RUN_COLUMNS[name] for name in SERIES_KEYS},
        **_SERIES_COLUMNS[table],
        "variant": "Name of the pass with failures if a run has several and one twin (the live "
        "figures); empty if it has one.",
    }


def dictionary() -> str:
    """Return the page."""
    tables, known = [], set[tuple[str, str]]()
    for name, example in EXAMPLES.items():
        about = " ".join(str(getattr(Library, name).__doc__).split())
        rows: dict[str, list[str]] = {}
        for column, meaning in columns(name).items():
            said = "As above." if (column, meaning) in known else meaning
            rows.setdefault(said, []).append(f"`{column}`")
        known |= {*columns(name).items()}
        tables.append({"name": name, "about": about, "example": example, "rows": rows})
    page = templates(escape=False).get_template("results.md.j2")
    text: str = page.render(tables=tables, metrics=METRICS, facts=FACTS)
    return text
