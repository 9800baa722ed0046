"""Warming up: load in pieces until batches no longer become shorter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
import pytest

from harness.failures.schedule import Schedule
from harness.judging.passes import PassRecord
from harness.judging.run import Passes, together
from harness.results.record import Outcome
from tests.judging.constructed import record


class Warming(Passes):
    """Passes with given durations of batches, one for each piece of load."""

    def __init__(self, durations_s: Sequence[float | None]) -> None:
        self.left: Iterator[float | None] = iter(durations_s)
        self.pieces: list[float] = []

    def once(self, name: str, load_s: float, schedule: Schedule) -> PassRecord:
        self.pieces.append(load_s)
        duration_s = next(self.left)
        batches = pd.DataFrame({"at_s": [1.0, 2.0], "rows": [0, 9], "dropped_rows": 0})
        if duration_s is not None:
            batches = batches.assign(duration_s=[99.0, duration_s])
        return record(batches=batches)


@pytest.mark.parametrize(
    ("durations_s", "pieces"),
    [
        ([5.4, 3.2, 3.1], 3),
        ([5.4, 3.2, 2.0, 1.0, 0.5], 4),
        ([1.0, 1.0], 2),
        ([None], 1),
    ],
)
def test_it_lasts_until_batches_are_as_short_as_they_get(
    durations_s: Sequence[float | None], pieces: int
) -> None:
    passes = Warming(durations_s)
    passes.warm_up(12, at_most_s=40)
    assert passes.pieces == [12.0] * pieces, "at most 40 s and what is left of a piece"


def test_without_a_piece_there_is_no_warm_up() -> None:
    passes = Warming([])
    passes.warm_up(0, at_most_s=0)
    assert passes.pieces == []


def test_several_outcomes_become_one_table() -> None:
    kills = pd.DataFrame({"at_s": [2.0], "target": ["r1n1"]})
    quiet = Outcome(values={"results": 3, "nodes_killed": []}, series={"failures": kills[:0]})
    broken = Outcome(
        values={"results": 3, "nodes_killed": ["r1n1"], "accuracy": 0.5},
        series={"failures": kills, "usage": pd.DataFrame({"cpu_s": [1.0]})},
        invalid="the clock jumped",
    )
    found = together({"quiet": quiet, "broken": broken})
    rows = found.series["variants"].set_index("variant")
    assert rows["results"].to_dict() == {"quiet": 3, "broken": 3}
    assert rows.loc["broken", "nodes_killed"] == '["r1n1"]'
    assert rows["accuracy"].isna().to_dict() == {"quiet": True, "broken": False}
    assert found.series["failures"]["variant"].tolist() == ["broken"]
    assert found.series["usage"]["variant"].tolist() == ["broken"]
    assert found.invalid == "broken: the clock jumped"
    assert together({"quiet": quiet}).invalid is None
    assert not len(together({"quiet": quiet}).series["failures"])
