"""The engine's processes whole, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.engines.tasks.virtual.campaign import HostChoice
from harness.engines.tasks.virtual.faults import HostFault, Kind, draw_host
from harness.engines.tasks.virtual.run import simulate_host
from harness.protocol.schemes import SCHEMES


@pytest.mark.parametrize("scheme", ["checkpoint", "active"])
def test_without_faults_every_batch_comes(scheme: str) -> None:
    report = simulate_host(replace(draw_host(1, scheme=scheme, shape="chain"), faults=()))
    assert report.violation is None, report.violation
    assert report.tentative_outputs == 0


def test_a_run_is_a_function_of_its_seed() -> None:
    options = draw_host(3, scheme="ppa", shape="diamond")
    assert simulate_host(options) == simulate_host(options)


@pytest.mark.parametrize("kind", list(Kind))
def test_each_fault_alone_is_survived(kind: Kind) -> None:
    scheme = list(SCHEMES)[list(Kind).index(kind) % len(SCHEMES)]
    fault = HostFault(kind=kind, at_s=8.0, for_s=3.0, node=0, other=1, amount=6)
    report = simulate_host(replace(draw_host(5, scheme=scheme, shape="chain"), faults=(fault,)))
    assert report.violation is None, report.violation
    assert report.faults == {kind: 1}


def test_a_choice_of_faults() -> None:
    whole = HostChoice(first_seed=9, last_seed=9).options(9)
    choice = HostChoice(first_seed=9, last_seed=9, faults=(0,))
    assert choice.options(9).faults == whole.faults[:1]
