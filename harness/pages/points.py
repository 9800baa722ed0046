"""Every point of the live figures as a row: medians over its valid runs, or why there is none."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from harness.measure.metrics import METRICS
from harness.measurement import Origin
from harness.pages.assessment import Assessment
from harness.pages.facets import of_record, union
from harness.results.record import OK, Record, point_key
from harness.results.tables import variants

SHOWN: Mapping[str, str] = {
    "recovery_s": "on time again after [s]",
    "recovery_at_least_s": "not on time again within [s]",
    "paper_recovery_s": "recovery as the engine reports it [s]",
    "detection_s": "detection [s]",
    "end_latency_p50_s": "latency from window end, p50 [s]",
    "end_latency_p99_s": "p99 [s]",
    "accuracy_first": "accuracy, first versions",
    "output_equals_truth": "output equals truth",
    "cpu_s": "processor [s]",
    "resident_bytes": "memory [MB]",
}
"""Values of a live run that any engine has, with the title of their column."""
_DEFINED = {metric.name: metric.definition for metric in METRICS}


def columns() -> list[dict[str, str]]:
    """Return the columns with their definitions."""
    found = []
    for name, title in SHOWN.items():
        stem = name.replace("_p50_s", "_s").replace("_p99_s", "_s")
        found.append({"title": title, "definition": _DEFINED.get(stem, title)})
    return found


def rows(item: Assessment, machine: str, href: str) -> Iterator[dict[str, Any]]:
    """Yield a row per point, and pass of it, of one live figure; none for other figures."""
    experiment = item.experiment
    if experiment.origin is not Origin.MEASURED:
        return
    points: dict[str, list[Record]] = defaultdict(list)
    for record in item.campaign.records:
        points[point_key(record.point, 0)].append(record)
    for records in points.values():
        base = _row(item, href, records[0].point)
        valid = [record for record in records if record.status == OK]
        if not valid:
            reason = next((r.reason for r in records if r.reason), "no reason was recorded")
            missing = f"{records[-1].status}: {reason.strip().splitlines()[-1]}"
            facets = of_record(records[0], experiment, machine)
            yield {**base, "missing": missing, "facets": facets}
        for variant, values in _passes(item, valid):
            yield {
                **base,
                "point": " · ".join(filter(None, [base["point"], variant])),
                "missing": "",
                "runs": len(values),
                "cells": [_cell(name, values) for name in SHOWN],
                "facets": of_record(valid[0], experiment, machine, variant),
            }
    known = union(of_record(each, experiment, machine) for each in item.campaign.records[:1])
    missing = "not measured: no run of this point is in the records"
    for point in experiment.grid[item.profile]:
        if point_key(point, 0) not in points:
            yield {**_row(item, href, point), "missing": missing, "facets": known}


def _row(item: Assessment, href: str, point: Mapping[str, Any]) -> dict[str, Any]:
    words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in point.items())
    return {"experiment": item.experiment.id, "href": href, "point": words or "–"}


def _passes(item: Assessment, valid: list[Record]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield the values of the runs of a point, for each pass of them if they had several."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in valid:
        several = variants(item.campaign.directories[record.run])
        for variant, values in several or [("", record.values)]:
            found[variant].append(values)
    yield from found.items()


def _cell(name: str, runs: list[Mapping[str, Any]]) -> str:
    values = [run[name] for run in runs if run.get(name) is not None]
    if name == "output_equals_truth":
        return "–" if not values else "yes" if all(bool(value) for value in values) else "no"
    numbers = [float(value) for value in values if not isinstance(value, str)]
    numbers = [number for number in numbers if math.isfinite(number)]
    if not numbers:
        return "–"
    number = median(numbers) / (1e6 if name.endswith("_bytes") else 1)
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:z.3g}"
