"""The list of backends, the targets of their clusters, and refusals before anything starts."""

from __future__ import annotations

import pytest

from harness.cluster.backends import BACKENDS, DEFAULT, find_backend
from harness.cluster.base import Action, Cluster, ClusterSpec
from harness.errors import UsageError


def test_every_backend_says_of_itself_what_its_clusters_say() -> None:
    assert DEFAULT in BACKENDS
    for name, backend in BACKENDS.items():
        assert backend.name == name
        assert Action.KILL in backend.capabilities
        cluster = backend.make(ClusterSpec())
        assert (cluster.backend, cluster.capabilities()) == (name, backend.capabilities)


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


@pytest.fixture
def cluster() -> Cluster:
    """Make one that is not started: its nodes have names."""
    return find_backend("local").make(ClusterSpec(racks=2, nodes_per_worker=2))


@pytest.mark.parametrize(
    ("target", "names", "rack"),
    [
        ("r1n2", ["r1n2"], False),
        ("r2", ["r2n1", "r2n2"], True),
        ("r2n1+r1n1", ["r1n1", "r2n1"], False),
        ("r1n1+r1n2", ["r1n1", "r1n2"], False),
    ],
)
def test_a_target_names_nodes(cluster: Cluster, target: str, names: list[str], rack: bool) -> None:
    assert [node.name for node in cluster.resolve(target)] == names
    assert cluster.is_rack(target) is rack


@pytest.mark.parametrize("target", ["r3", "r1n1+r1n9", ""])
def test_what_is_not_there_is_refused_with_what_is(cluster: Cluster, target: str) -> None:
    with pytest.raises(UsageError, match="no node or rack") as caught:
        cluster.resolve(target)
    assert "r1n1, r1n2, r2n1, r2n2" in caught.value.remedy
