"""The list of backends, and refusals before anything starts."""

from __future__ import annotations

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
