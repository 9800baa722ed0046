from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cluster.base import CLOCK_LIMIT_S, demand_near
from harness.cluster.clocks import SAME, Clock, Sample, spanning
from harness.errors import EnvironmentFailure


class World:
    """A clock of the harness, and another one that is ahead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ahead_s: float) -> None:
        self.now, self.ahead_s = 1000.0, ahead_s
        self.trips_s: list[tuple[float, float]] = []
        monkeypatch.setattr(time, "time", lambda: self.now)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def read(self, resolution_s: float = 0.0) -> float:
        there, back = self.trips_s.pop(0)
        self.now += there
        read = self.now + self.ahead_s
        self.now += back
        return read if not resolution_s else read // resolution_s * resolution_s


@given(
    ahead_s=st.floats(-5, 5),
    trips=st.lists(st.tuples(st.floats(0, 0.1), st.floats(0, 0.1)), min_size=1, max_size=8),
    resolution_s=st.sampled_from([0.0, 0.001]),
)
def test_the_true_offset_is_within_the_bound(
    ahead_s: float, trips: list[tuple[float, float]], resolution_s: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        world = World(patch, ahead_s)
        world.trips_s = list(trips)
        sample = Clock().compare(
            lambda: world.read(resolution_s), len(trips), resolution_s=resolution_s
        )
    assert abs(sample.offset_s - ahead_s) <= sample.bound_s + 1e-6
    assert sample.bound_s <= (min(map(sum, trips)) + resolution_s) / 2 + 1e-6, "the best counts"


def test_samples_grow_old(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 0.0)
    clock = Clock()
    assert clock.best() == SAME
    world.trips_s = [(0.001, 0.001), (0.1, 0.1)]
    clock.compare(world.read, 1)
    world.now += 61
    assert clock.compare(world.read, 1).bound_s == pytest.approx(0.1)


def test_several_brokers_have_one_bound_that_covers_all_of_their_clocks() -> None:
    near, ahead = Sample(offset_s=0.001, bound_s=0.001), Sample(offset_s=0.006, bound_s=0.002)
    both = spanning([near, ahead])
    assert both.offset_s == pytest.approx(0.004)
    assert both.bound_s == pytest.approx(0.004)
    assert spanning([near]) == near


def test_only_what_round_trips_prove_is_refused() -> None:
    demand_near("of m1", Sample(offset_s=0.2, bound_s=0.2))
    with pytest.raises(EnvironmentFailure, match=r"of m1 is -200 ms off .* known to 10 ms"):
        demand_near("of m1", Sample(offset_s=-0.2, bound_s=0.01))
    assert CLOCK_LIMIT_S < 0.19
