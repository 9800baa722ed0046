"""The planners' topologies as wirings."""

from __future__ import annotations

from harness.engines.simulated import topologies
from harness.protocol.planned import wiring_of
from harness.topology import named


def test_the_papers_recovery_topology_is_the_simulators() -> None:
    topology = named.recovery()
    memory = {operator.name: 3 for operator in topology.operators if operator.rate is None}
    wiring = wiring_of(topology, memory)
    simulated = topologies.recovery(memory=3)
    assert wiring.upstream == simulated.upstream
    assert wiring.downstream == simulated.downstream
    assert wiring.memory == simulated.memory


def test_a_join_of_two_streams_has_both_above_it() -> None:
    topology = named.q2()
    wiring = wiring_of(topology, {})
    assert [wiring.names[source].split(".")[0] for source in wiring.sources] == [
        name for name in topology.sources for _ in range(topology.operator(name).parallelism)
    ]
    for edge in topology.edges:
        for task in range(*topology.tasks(edge.downstream).indices(topology.task_count)):
            above = {wiring.names[up].split(".")[0] for up in wiring.upstream[task]}
            assert edge.upstream in above
