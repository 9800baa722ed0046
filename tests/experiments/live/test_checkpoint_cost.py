"""Cost of checkpoints live: the counted time, and claims that can hold and can fail."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from experiments.live import checkpoint_cost
from experiments.live._runs import nodes_cpu_s
from experiments.live._topology import SPEC, Contender, Shape
from experiments.live.checkpoint_cost import EXPERIMENT
from harness.engines.tasks.parameters import TaskParameters
from harness.protocol.schemes import make_scheme
from harness.results.record import Profile
from tests.experiments.live.judging import all_hold, held, passes


def made_up() -> dict[str, pd.DataFrame]:
    rows: list[dict[str, Any]] = [
        {
            "rate": rate,
            "faster": 10.0,
            "interval_s": interval_s,
            "ratio": 1.2 / interval_s,
            "of_process": 0.8 / interval_s,
        }
        for rate in (1_000, 2_000)
        for interval_s in (1, 2, 5, 15)
    ]
    two = passes({"rate": 1_000, "variant": "none"}, {"rate": 1_000, "variant": "every-1s"})
    return {"costs": pd.DataFrame(rows), "passes": two}


def test_every_claim_can_hold_and_can_fail() -> None:
    assert all_hold(EXPERIMENT, made_up())
    table = made_up()
    table["costs"]["ratio"] = 0.2
    table["passes"].loc[0, "output_equals_truth"] = False
    assert set(held(EXPERIMENT, table).values()) == {False}


def test_nothing_measured_nothing_judged() -> None:
    empty = {name: frame[:0] for name, frame in made_up().items()}
    assert set(held(EXPERIMENT, empty).values()) == {None}


def test_only_the_nodes_of_synthetic_tasks_count_and_only_while_windows_are_full() -> None:
    source = SPEC.node_names[17]
    usage = pd.DataFrame(
        [
            {"pass": which, "who": who, "at_s": at_s, "cpu_s": factor * at_s}
            for which, factor in (("failed", 1.0), ("twin", 100.0))
            for who in (SPEC.node_names[0], SPEC.node_names[14], source)
            for at_s in (0.0, 4.0, 10.0)
        ]
    )
    found = nodes_cpu_s(usage, checkpoint_cost.hosts(), from_s=3.0, until_s=9.0)
    assert found == pytest.approx(2 * 6.0)


@pytest.mark.parametrize("profile", Profile)
def test_the_pass_without_checkpoints_takes_none_and_is_accepted(profile: Profile) -> None:
    faster = checkpoint_cost.FASTER[profile]
    shape = Shape(window_s=30, rate=1_000, faster=faster, speed=False)
    setup = shape.setup(Contender(scheme="checkpoint", checkpoint_s=checkpoint_cost.NEVER_S))
    make_scheme("checkpoint", shape.wiring(), checkpoint_every=round(checkpoint_cost.NEVER_S))
    load_s = (checkpoint_cost.FULL_S + checkpoint_cost.COUNTED_S) / faster
    assert isinstance(setup.parameters, TaskParameters)
    assert setup.parameters.checkpoint_s > load_s


def test_checkpoints_within_the_counted_time() -> None:
    assert len(checkpoint_cost.checkpoints_of(1)) == 60
    assert len(checkpoint_cost.checkpoints_of(15)) == 4
