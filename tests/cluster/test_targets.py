"""Targets: a node, a rack, or several nodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from harness.cluster.base import Cluster, Node
from harness.errors import UsageError


class Named:
    """A cluster of which only the names matter."""

    def nodes(self) -> Sequence[Node]:
        return [
            Node(name=f"r{rack}n{n}", rack=f"r{rack}", worker=f"r{rack}w1", host="127.0.0.1")
            for rack in (1, 2)
            for n in (1, 2)
        ]


CLUSTER = cast(Cluster, Named())


@pytest.mark.parametrize(
    ("target", "names", "rack"),
    [
        ("r1n2", ["r1n2"], False),
        ("r2", ["r2n1", "r2n2"], True),
        ("r2n1+r1n1", ["r1n1", "r2n1"], False),
        ("r1n1+r1n2", ["r1n1", "r1n2"], False),
    ],
)
def test_a_target_names_nodes(target: str, names: list[str], rack: bool) -> None:
    assert [node.name for node in Cluster.resolve(CLUSTER, target)] == names
    assert Cluster.is_rack(CLUSTER, target) is rack


@pytest.mark.parametrize("target", ["r3", "r1n1+r1n9", ""])
def test_what_is_not_there_is_refused_with_what_is(target: str) -> None:
    with pytest.raises(UsageError, match="no node or rack") as caught:
        Cluster.resolve(CLUSTER, target)
    assert "r1n1, r1n2, r2n1, r2n2" in str(caught.value)
