"""The report's first table: outages by figure, engine and scheme."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd

from harness.measurement import Origin
from harness.pages.assessment import Assessment
from harness.pages.outages import outages
from tests.toys import toy


def item(table: pd.DataFrame, *engines: str, outages: Any = None) -> Assessment:
    judged = SimpleNamespace(
        experiment=toy(origin=Origin.MEASURED, outages=outages),
        campaign=SimpleNamespace(engines=engines),
        tables=lambda: {"runs": table},
    )
    return cast(Assessment, judged)


def rows(found: list[dict[str, Any]]) -> list[tuple[str, str, str, str, int]]:
    keys = ("engine", "scheme", "outage", "count", "never")
    return [cast(Any, tuple(row[key] for key in keys)) for row in found[0]["rows"]]


def test_an_outage_is_a_median_with_its_interval_from_six_passes_on() -> None:
    few = pd.DataFrame({"scheme": ["active"] * 2, "recovery_s": [1.0, 2.0]})
    assert rows(outages([item(few, "structured")])) == [
        ("stock Spark (micro-batches)", "active", "1.5 s", "2 kills in 2 passes", 0)
    ]
    many = pd.DataFrame({"scheme": ["active"] * 6, "recovery_s": [2.0] * 6})
    assert rows(outages([item(many, "structured")]))[0][2] == "2 s each time"
    one_outage = pd.DataFrame(
        {"scheme": "active", "run": "one", "recovery_s": [44.7, 40.7, 36.7, 30.1, 20.2, 9.9]}
    )
    found = outages([item(one_outage, "structured")])[0]["rows"][0]
    assert (found["outage"], found["count"]) == ("33.4 s", "6 kills in 1 pass")


def test_a_kill_without_a_recovery_is_counted() -> None:
    table = pd.DataFrame(
        {"scheme": "checkpoint", "recovery_s": [3.0, None], "recovery_at_least_s": [None, 20.0]}
    )
    assert rows(outages([item(table, "structured")])) == [
        ("stock Spark (micro-batches)", "checkpoint", "more than 11.5 s", "2 kills in 2 passes", 1)
    ]
    nothing = table.assign(recovery_s=None, recovery_at_least_s=None)
    assert outages([item(nothing, "structured")]) == []


def test_an_outage_that_was_not_over_is_longer_than_all_others() -> None:
    table = pd.DataFrame(
        {"engine": "tasks", "scheme": "tuned", "outage_s": [4.0, 16, 20, 20, 25, 26]}
    )
    for over, words in (
        (6, "20 s (4 to 26 s)"),
        (4, "20 s (4 s and more)"),
        (2, "more than 20 s (4 s and more)"),
        (0, "more than 20 s"),
    ):
        kills = table.assign(not_over=[number >= over for number in range(6)])
        (row,) = outages([item(kills, "tasks", outages=lambda _, kills=kills: kills)])[0]["rows"]
        assert row["outage"] == words
        assert (row["median_s"] is None) == (over < 4)
