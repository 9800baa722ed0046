"""The answer in sentences, from kills and runs made by hand."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from harness.advice import answer
from harness.results.kills import Unrecovered


def kills(**outages: list[float | None]) -> pd.DataFrame:
    """Return kills with these outages, by scheme and kill: ``checkpoint_worker=[9.0]``."""
    rows: list[dict[str, Any]] = [
        {
            "scheme": name.split("_")[0], "mode": "micro-batch", "trigger_s": 2.0,
            "kill": f"a {name.split('_')[1]}", "outage_s": seconds, "at_least_s": None,
            "why_not": None if seconds else Unrecovered.TWIN_BEHIND, "wrong": 0,
        }
        for name, found in outages.items()
        for seconds in found
    ]  # fmt: skip
    return pd.DataFrame(rows)


RUNS = pd.DataFrame(
    {
        "scheme": ["checkpoint", "active"], "twin_cpu_s": [60.0, 120.0], "load_s": 50.0,
        "twin_resident_bytes": [2e9, 3e9], "twin_dropped_rows": [4, 4], "dropped_rows": [10, 4],
    }
)  # fmt: skip


def test_the_first_sentence_is_the_answer() -> None:
    found = kills(checkpoint_worker=[9.0, 7.0, 12.0], checkpoint_rack=[14.0], active_worker=[0.5])
    assert answer.headline(found, RUNS) == (
        "A killed worker makes your results late for 9 s (7 to 12) and loses none; a killed rack "
        "makes them late for 14 s; a second query on other workers makes that 0.5 s, for 2 times "
        "the processor time."
    )
    wrong = found.assign(wrong=[0, 3, 0, 0, 0])
    assert "makes 3 of them wrong or lost" in answer.headline(wrong, RUNS)
    assert "late for 9 s (7 to 12) and changes 3 of them" in answer.headline(
        wrong, RUNS, late_data=True
    )


def test_a_window_that_never_came_is_not_the_slowest() -> None:
    windows = pd.DataFrame({"pass": "twin", "latency_s": [1.0, 3.0, float("inf")]})
    (said,) = answer.without_a_kill(pd.DataFrame(columns=["scheme"]), windows)
    assert said.endswith("the slowest window 3 s; results of 1 windows did not come)")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (kills(), "no run was valid"),
        (kills(checkpoint_worker=[None]), str(Unrecovered.TWIN_BEHIND)),
        (
            kills(checkpoint_worker=[None]).assign(at_least_s=0.0, why_not=None),
            "no kill was followed to its end",
        ),
    ],
)
def test_an_unknown_answer_says_why(found: pd.DataFrame, why: str) -> None:
    assert answer.headline(found, RUNS) == f"What a kill costs is not known: {why}."


def test_a_twin_that_fell_behind_asks_for_a_lower_rate() -> None:
    assert answer.twin_behind(kills(checkpoint_worker=[None, None]))
    assert not answer.twin_behind(kills(checkpoint_worker=[None, 5.0]))
    assert not answer.twin_behind(kills())
