"""A failure log as a schedule: scaled times, fewer nodes, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.failures import command
from harness.cluster.base import Action, ClusterSpec
from harness.errors import UsageError
from harness.failures.files import read_schedule
from harness.failures.replay import Replay, replay
from harness.failures.schedule import FailureEvent

FOUR = ClusterSpec(racks=2, workers_per_rack=2).rack_of
EXAMPLE = Path(__file__).parents[2] / "docs/examples/failure-log.csv"


def log(*rows: tuple[str, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["node", "began_s", "ended_s"])


def made(*rows: tuple[str, float, float], load_s: float = 60.0, **more: float) -> Replay:
    return replay(log(*rows), FOUR, scale=1000.0, load_s=load_s, first_s=3.0, **more)  # type: ignore[arg-type]


def events(done: Replay) -> list[tuple[float, str, str]]:
    return [(one.at_s, one.action.value, one.target) for one in done.schedule.events]


def test_times_are_scaled_and_neighbours_stay_together() -> None:
    done = made(("n1", 5000, 9000), ("n2", 10000, 14000), ("n10", 30000, 36000), ("n9", 20000, 1e9))
    assert events(done) == [
        (3.0, "kill", "r1n1"), (7.0, "restart", "r1n1"), (8.0, "kill", "r1n2"),
        (12.0, "restart", "r1n2"), (18.0, "kill", "r2n1"), (28.0, "kill", "r2n2"),
        (34.0, "restart", "r2n2"),
    ]  # fmt: skip


def test_failures_at_one_instant_are_one_event_of_a_rack_where_they_fill_it() -> None:
    rows = [(f"n{number}", 0.0, 5000.0) for number in (1, 2, 3)]
    assert events(made(*rows, ("n4", 9000, 9001)))[:2] == [
        (3.0, "kill", "r1+r2n1"), (8.0, "restart", "r1+r2n1"),
    ]  # fmt: skip


def test_an_open_repair_keeps_the_node_away_unless_its_length_is_given() -> None:
    rows = [("a", 0.0, float("nan")), ("a", 20000.0, float("nan"))]
    assert events(made(*rows)) == [(3.0, "kill", "r1n1")]
    assert made(*rows).away == 1
    assert [one[1] for one in events(made(*rows, open_s=5000.0))] == ["kill", "restart"] * 2


def test_what_lies_outside_is_counted() -> None:
    rows = [("a", 0.0, 60000.0), ("a", 5000.0, 6000.0), ("b", 1e6, 1e6)]
    done = made(*rows)
    assert (done.failures, done.away, done.later) == (1, 1, 1)
    assert [one.at_s for one in made(*rows, begin=2).schedule.kills] == [3.0]
    with pytest.raises(UsageError, match="3 failures, and the first is to be number 4"):
        made(*rows, begin=4)


FAILURE = st.tuples(
    st.sampled_from([f"n{number}" for number in range(9)]), st.floats(0, 1e5), st.floats(0, 1e5)
)


@given(st.lists(FAILURE, min_size=1, max_size=30), st.integers(1, 3), st.integers(1, 3))
def test_every_schedule_can_be_carried_out(
    rows: list[tuple[str, float, float]], racks: int, nodes: int
) -> None:
    spec = ClusterSpec(racks=racks, workers_per_rack=nodes)
    found = log(*[(node, began, began + lasts) for node, began, lasts in rows])
    done = replay(found, spec.rack_of, scale=1000.0, load_s=60.0, first_s=3.0)
    done.schedule.check(rack_of=spec.rack_of, actions=set(Action), duration_s=60.0, lasting=True)
    assert done.failures + done.away + done.later == len(rows)


def test_the_example_fits_the_smoke_profile_and_reads_back(tmp_path: Path) -> None:
    arguments = [str(EXAMPLE), "--scale", "1000", "--load", "12s"]
    told = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert told.exit_code == 0
    file = tmp_path / "schedule.yaml"
    file.write_text(told.stdout)
    assert list(read_schedule(file).events)[:2] == [
        FailureEvent(at_s=3.0, action=Action.KILL, target="r1n1"),
        FailureEvent(at_s=5.4, action=Action.RESTART, target="r1n1"),
    ]
    assert "3 of 3 failures" in told.stderr
