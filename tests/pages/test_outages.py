"""The report's first table: outages by figure, engine and scheme."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd

from harness.measurement import Origin
from harness.pages.assessment import Assessment
from harness.pages.outages import outages


def item(
    table: pd.DataFrame, *engines: str, origin: Origin = Origin.MEASURED, outages: Any = None
) -> Assessment:
    experiment = SimpleNamespace(
        origin=origin,
        title="Kills",
        id="stock/kills",
        group="stock",
        anchor="stock-kills",
        outages=outages,
    )
    judged = SimpleNamespace(
        experiment=experiment,
        campaign=SimpleNamespace(engines=engines),
        tables=lambda: {"runs": table},
    )
    return cast(Assessment, judged)


def rows(found: list[dict[str, Any]]) -> list[tuple[str, str, str, str, int]]:
    keys = ("engine", "scheme", "outage", "count", "never")
    return [cast(Any, tuple(row[key] for key in keys)) for row in found[0]["rows"]]


def test_an_experiment_without_a_run_that_came_to_an_end_has_none() -> None:
    judged = item(pd.DataFrame(), "tasks", outages=lambda tables: tables["kills"])
    cast(Any, judged).tables = dict
    assert outages([judged]) == []


def test_an_outage_is_a_median_with_its_interval_from_six_passes_on() -> None:
    few = pd.DataFrame({"scheme": ["active"] * 2, "recovery_s": [1.0, 2.0]})
    assert rows(outages([item(few, "structured")])) == [
        ("stock Spark (micro-batches)", "active", "1.5 s", "2 kills in 2 passes", 0)
    ]
    many = pd.DataFrame({"scheme": ["active"] * 6, "recovery_s": [2.0] * 6})
    assert rows(outages([item(many, "structured")]))[0][2] == "2 s (2 to 2 s)"
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


def test_an_engine_that_is_in_no_list_is_shown_by_its_name() -> None:
    table = pd.DataFrame({"engine": ["own"], "scheme": ["as it comes"], "late_for_s": [1.0]})
    assert rows(outages([item(table, "own")]))[0][0] == "own"


def test_figures_that_compare_engines_come_first() -> None:
    one = pd.DataFrame({"scheme": ["active"], "recovery_s": [1.0]})
    both = pd.DataFrame(
        {"engine": ["structured", "tasks"], "scheme": "checkpoint", "late_for_s": [9.0, 0.0]}
    )
    found = outages([item(one, "tasks"), item(both, "structured", "tasks")])
    assert [len(figure["rows"]) for figure in found] == [2, 1]
    assert found[0]["measure"] == "results were late for"
    assert found[0]["href"] == "stock.html#stock-kills"


def test_what_was_not_measured_or_has_several_engines_in_one_row_is_left_out() -> None:
    table = pd.DataFrame({"scheme": ["active"], "recovery_s": [1.0]})
    assert outages([item(table, "tasks", origin=Origin.SIMULATED)]) == []
    assert outages([item(table, "structured", "tasks")]) == []
    assert outages([item(table.drop(columns="scheme"), "tasks")]) == []


def test_an_experiment_says_itself_what_its_outages_are() -> None:
    def of_rows(tables: Any) -> pd.DataFrame:
        runs: pd.DataFrame = tables["runs"]
        return runs.assign(engine="real-time", scheme="tuned")

    table = pd.DataFrame({"row": ["a"] * 6, "outage_s": [2.0] * 5 + [9.0]})
    table["not_over"] = table["outage_s"] > 8
    assert rows(outages([item(table, "structured", "tasks", outages=of_rows)])) == [
        ("stock Spark (real-time mode)", "tuned", "2 s (2 s and more)", "6 kills in 6 passes", 1)
    ]


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
