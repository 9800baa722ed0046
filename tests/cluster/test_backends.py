"""The list of backends, and refusals before anything starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.cluster.backends import BACKENDS, DEFAULT, find_backend
from harness.cluster.base import Action, ClusterSpec
from harness.errors import UsageError


def test_every_backend_says_of_itself_what_its_clusters_say() -> None:
    assert DEFAULT in BACKENDS
    for name, backend in BACKENDS.items():
        assert backend.name == name
        assert Action.KILL in backend.capabilities
        cluster = backend.make(ClusterSpec())
        assert (cluster.backend, cluster.capabilities()) == (name, backend.capabilities)


@pytest.mark.parametrize(
    ("racks", "number", "shape"),
    [((), 7, (1, 7)), ((20, 20), 15, (1, 15)), ((20, 20), 40, (2, 20)), ((4, 4, 5), 9, (3, 3))],
)
def test_executors_stand_on_as_many_racks_as_it_takes(
    racks: tuple[int, ...], number: int, shape: tuple[int, int]
) -> None:
    spec = replace(find_backend("local"), racks=racks).executors(number)
    assert (spec.racks, spec.workers_per_rack) == shape


def test_more_executors_than_there_are_workers_are_refused() -> None:
    small = replace(find_backend("local"), racks=(2, 3))
    with pytest.raises(UsageError, match="has 2 racks of 2, 3 workers") as caught:
        small.executors(5)
    assert "at most 4" in caught.value.remedy


def test_an_unknown_backend_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="no cluster backend 'locol'") as caught:
        find_backend("locol")
    assert "'local'" in caught.value.remedy


def test_an_action_that_it_cannot_do_is_refused_by_name() -> None:
    local = find_backend("local")
    local.demand([Action.KILL, Action.PAUSE], "the schedule")
    with pytest.raises(UsageError, match="the schedule needs cut, heal, which a local") as caught:
        local.demand([Action.HEAL, Action.CUT, Action.KILL], "the schedule")
    assert caught.value.remedy
