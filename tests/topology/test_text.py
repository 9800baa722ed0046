"""Topologies in YAML: the documented example, and files that are none."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.results.provenance import ROOT
from harness.topology.partitioning import Partitioning
from harness.topology.text import from_yaml_text

EXAMPLE = (ROOT / "docs/examples/topology.yaml").read_text()


def test_the_documented_example() -> None:
    topology = from_yaml_text(EXAMPLE)
    assert topology.output_rates("jam").tolist() == [100, 50]
    assert topology.total_cost == 10
    assert topology.operator("jam").join
    assert topology.edges[0].partitioning is Partitioning.MERGE
    assert topology.queries[0].sink == "jam"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "t.yaml is not a topology"),
        ("- 1", "t.yaml is not a topology"),
        ("operators: [", "t.yaml, line 1 is not YAML"),
        ("a: \tb\n\t- c", "is not YAML"),
        ("operators: []\nedges: []\noperators: []", "line 3.*'operators' is there twice.*line 1"),
        ("operators:\n- {name: a,\n   rate: 1, rate: 2}", "line 3.*the key 'rate' is there twice"),
        ("operators: 3", "operators is 3"),
        ("operators: [x]", "operators[1] is 'x'"),
        ("operators: [{parallelism: 1}]", "operators[1] lacks name"),
        ("operators: [{name: a, paralelism: 1}]", "'paralelism'"),
        ("operators: [{name: a, parallelism: 1.5, rate: 1}]", "parallelism is 1.5"),
        ("operators: [{name: a, parallelism: two, rate: 1}]", "parallelism is 'two'"),
        ("operators: [{name: a, rate: fast}]", "rate is 'fast'"),
        ("operators: [{name: a, rate: -1}]", "operator 'a' has rate -1"),
        ("operators: [{name: a, rate: 1, join: maybe}]", "join is 'maybe'"),
        ("operators: [{name: a, rate: 1, cost: 0}]", "cost is 0"),
        ("operators: [{name: a, rate: 1, parallelism: 1000000000}]", "parallelism is 1000000000"),
        (f"operators: [{{name: a, rate: 1{'0' * 400}}}]", "rate is too large"),
        ("operators: [{name: a, rate: 1.0e+308, selectivity: 1.0e+10}]", "beyond all numbers"),
        ("operators: [{name: a, rate: .inf}]", "rate inf"),
        ("operators: [{name: yes, rate: 1}]", "name is True"),
        ("operators: [{1: 2}]", "operators[1] has a key that is no text"),
        (EXAMPLE.replace("merge", "mrege"), "'mrege'"),
        (EXAMPLE.replace("merge", "one-to-one"), "vehicles -> speed"),
        (EXAMPLE.replace("from: speed", "from: sped"), "'sped'"),
        (EXAMPLE.replace("sink: jam", "sink: jma"), "'jma'"),
        (EXAMPLE.replace("priority: 1", "priority: -1"), "priority is -1"),
        (EXAMPLE.replace("priority: 1", "weight: 1"), "'weight'"),
    ],
)
def test_what_is_no_topology_is_refused_by_name(text: str, names: str) -> None:
    with pytest.raises(UsageError, match=names.replace("[", r"\[")) as error:
        from_yaml_text(text, name="t.yaml")
    assert "t.yaml" in error.value.what
    assert error.value.remedy
