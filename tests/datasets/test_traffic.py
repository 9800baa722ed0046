"""The generators of traffic against the numbers that the papers give."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import accident, traffic
from datasets.fields import Layout
from harness.errors import UsageError
from tests.levels import amount

SEED = 5
POPULATION = traffic.Population()


def test_100_000_users_follow_zipf_on_1000_segments() -> None:
    users = POPULATION.users_per_segment()
    assert (users[0], users[-1], users.sum()) == (1_618, 51, 100_000)
    assert (np.diff(users) <= 0).all()
    assert POPULATION.mean_reports == pytest.approx(196.0, abs=0.05)
    assert POPULATION.location_rate == 20_000


def test_150_incidents_happen_in_a_window_of_five_minutes() -> None:
    per_window = []
    for seed, partition in product(range(4), range(2)):
        plan = traffic.IncidentPlan(POPULATION, seed, partition)
        incidents = plan.covering(0, int(3_000 * plan.report_rate))
        per_window.append(len(incidents.number) / 10)
    # Two partitions make half of the incidents each; 40 windows of five minutes.
    assert 2 * np.mean(per_window) == pytest.approx(150, rel=0.05)


def test_every_user_on_the_segment_reports_an_incident_once() -> None:
    source = traffic.Reports(seed=SEED, users=2_000, segments=50, partitions=2)
    users = source.population.users_per_segment()
    seen = defaultdict(list)
    for partition in range(2):
        fields = traffic.REPORT.decode(source.payloads(partition, 0, 20_000))
        for incident, segment, user in zip(*fields.values(), strict=True):
            seen[incident, segment].append(user)
    complete = sorted(seen)[:200]
    for incident, segment in complete:
        first = int(users[:segment].sum())
        assert seen[incident, segment] == list(range(first, first + users[segment]))


def test_both_sources_have_a_segment_in_the_same_partition() -> None:
    shape = {"users": 2_000, "segments": 50, "partitions": 3}
    locations = traffic.Locations(seed=SEED, **shape)
    reports = traffic.Reports(seed=SEED, **shape)
    where = locations.population.partition_of_segment()
    for partition in range(3):
        for layout, source in ((traffic.LOCATION, locations), (traffic.REPORT, reports)):
            fields = layout.decode(source.payloads(partition, 0, 5_000))
            assert set(where[fields["segment"]]) == {partition}


@pytest.mark.parametrize("name", ["locations", "reports", "cars"])
def test_a_record_depends_on_its_place_alone(name: str) -> None:
    def make() -> traffic.Reports | traffic.Locations | accident.Cars:
        if name == "cars":
            return accident.Cars(seed=SEED, partitions=2)
        kind = traffic.Locations if name == "locations" else traffic.Reports
        return kind(seed=SEED, users=2_000, segments=50, partitions=2)

    whole = make().payloads(1, 0, 40_000)
    for start, count in ((39_000, 1_000), (16_380, 10), (0, 1), (20_000, 0)):
        assert make().payloads(1, start, count) == whole[start : start + count]
    assert make().payloads(0, 0, 50) != whole[:50]


def test_populations_that_cannot_be() -> None:
    for shape in (
        {"users": 10, "segments": 20},
        {"segments": 1, "partitions": 2},
        {"users": 10**6 + 1},
        {"users": 10**5, "segments": 10**4 + 1},
    ):
        with pytest.raises(UsageError):
            traffic.Population(**shape)
    largest = traffic.Population(users=10**6, segments=10**4)
    assert largest.users_per_segment().sum() == 10**6
    assert traffic.Population(users=3, segments=3, partitions=3).partitions == 3


# Accidents


def test_positions_follow_speeds_and_nobody_overtakes() -> None:
    cars = accident.Cars(seed=SEED, partitions=2)
    roads = [road for block in range(4) for road in cars.drive(0, block)[:-1]]
    length_cm = accident.ROAD_M * 100
    for before, after in pairwise(roads):
        moved = (after.position_cm - before.position_cm) % length_cm
        np.testing.assert_array_equal(moved, after.speed_cm_per_s)
        assert after.gap_cm().min() >= 0, "cars would stand in each other"
    assert max(road.speed_cm_per_s.max() for road in roads) <= 120 * 100_000 // 3_600


# Fixed-width records


@pytest.mark.parametrize("value", [-1, 1_000])
def test_a_value_that_does_not_fit_is_refused(value: int) -> None:
    with pytest.raises(UsageError, match="does not fit into 3 digits"):
        Layout({"a": 3}).encode({"a": np.array([5, value])})


@given(st.integers(1, 3_000), st.integers(1, 300), st.integers(1, 8))
@settings(max_examples=amount(50), deadline=None)
def test_any_population_adds_up(users: int, segments: int, partitions: int) -> None:
    segments, partitions = min(users, segments), min(users, segments, partitions)
    population = traffic.Population(users=users, segments=segments, partitions=partitions)
    counts = population.users_per_segment()
    assert counts.sum() == users
    assert counts.min() >= 1
    assert set(population.partition_of_segment()) == set(range(partitions))


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 99_999)), max_size=20))
@settings(max_examples=amount(50), deadline=None)
def test_what_is_encoded_is_decoded(rows: list[tuple[int, int]]) -> None:
    layout = Layout({"a": 3, "b": 5})
    columns = {name: np.array([row[i] for row in rows], dtype=int) for i, name in enumerate("ab")}
    payloads = layout.encode(columns).tolist()
    assert payloads == [f"{a:03},{b:05}".encode() for a, b in rows]
    for name, values in layout.decode(payloads).items():
        np.testing.assert_array_equal(values, columns[name])
