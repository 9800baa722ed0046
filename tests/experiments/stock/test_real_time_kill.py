"""A worker is really killed under a query in real-time mode; the figures' tables and claims."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from experiments.stock import modes, real_time_kill
from experiments.stock.real_time_kill import EXPERIMENT, KINDS, SCALES, schedule
from harness.engines.kinds import find_engine
from harness.results.record import Profile
from tests.experiments.judging import broken
from tests.experiments.stock.test_real_kill import OneRun

POINT = EXPERIMENT.grid[Profile.SMOKE][0]


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.long
def test_a_killed_worker_ends_the_query_and_its_last_values_are_right(tmp_path: Path) -> None:
    context = OneRun(tmp_path)
    with context.stack:
        measured = EXPERIMENT.measurement.run(POINT, context)
    (one,) = measured.series["variants"].to_dict("records")
    assert one["kills_done"] == 1, one
    assert one["revises"]
    assert one["restarts"] >= 1, "a lost task ends a query in this mode"
    assert one["output_equals_truth"], one["difference_from_truth"]
    assert one["output_equals_twin"], one["difference_from_twin"]
    assert one["early_versions"] > 0
    assert not broken(EXPERIMENT, POINT, measured, tmp_path / "judged")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("checkpoint_s", [5.0, 60.0])
def test_each_kill_has_a_phase_of_its_own_within_the_load(kind: str, checkpoint_s: float) -> None:
    for scale in SCALES.values():
        phases = set()
        for number in range(scale.kills):
            made = schedule(KINDS[kind], scale, checkpoint_s, number=number, part=0.7)
            (kill,) = made.kills
            assert max(event.at_s for event in made.events) < scale.load_s(checkpoint_s)
            phases.add(int((kill.at_s - scale.before_s) / checkpoint_s * scale.kills))
        assert phases == set(range(scale.kills))
    assert SCALES[Profile.QUICK].kills >= 5


def test_every_kind_fits_the_cluster() -> None:
    names = set(real_time_kill.SPEC.node_names) | set(real_time_kill.SPEC.rack_names)
    for kind in KINDS.values():
        plain = {target.removeprefix("executor-") for target in kind.targets}
        assert plain <= names | {"driver-0"}
        assert kind.spare_slots < real_time_kill.SPEC.task_slots - 2
    assert {kind for scale in SCALES.values() for kind in scale.kinds} == set(KINDS)


@pytest.mark.parametrize(("tight_s", "held"), [(9.0, True), (4.1, False)])
def test_spare_slots_shorten_an_outage_or_do_not(tight_s: float, held: bool) -> None:
    """No shipped record has kills without spare slots."""
    kills = pd.DataFrame(
        [
            {"scheme": "checkpoint", "checkpoint_s": 5.0, "kind": kind, "outage_s": s + n / 100}
            for kind, s in (("worker", 4.0), ("worker-tight", tight_s))
            for n in range(6)
        ]
    )
    assert real_time_kill.spare_slots_shorten.decide({"kills": kills}).held is held


def test_each_point_of_the_modes_has_its_settings() -> None:
    kind = find_engine("structured")
    for grid in modes.EXPERIMENT.grid.values():
        for point in grid:
            given = modes.SETTINGS[str(point["mode"]), str(point["settings"])]
            assert given.real_time == (point["mode"] == modes.REAL)
    assert kind.parameters is type(modes.SETTINGS[modes.REAL, modes.TUNED])
