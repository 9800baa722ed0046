"""Samples during a pass, and other load of the machine."""

from __future__ import annotations

import time
from collections import namedtuple
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from harness.cluster.base import Cluster, Usage
from harness.errors import UsageError
from harness.judging import foreign
from harness.judging.foreign import ForeignMeter, under_conditions
from harness.judging.metering import Meter
from harness.results.record import Outcome, Profile
from tests.engines.toy import used

Times = namedtuple("Times", ["user", "nice", "system", "irq", "softirq", "steal", "idle"])
Usages = Callable[[], Mapping[str, Usage]]


def meter_of(nodes: Usages, drivers: Usages = dict) -> Meter:
    """Return a meter of a cluster that only reports its usage."""
    return Meter(cast(Cluster, SimpleNamespace(backend="local", usage=nodes)), drivers)


def test_the_busiest_node_has_used_most_since_the_first_sample() -> None:
    spent = {"r1n1": [9.0, 9.5], "r1n2": [3.0, 5.0], "driver": [0.0, 0.0]}
    meter = meter_of(lambda: {name: used(values.pop(0)) for name, values in spent.items()})
    meter.sample()
    meter.sample()
    assert meter.busiest(["r1n1", "r1n2"]) == "r1n2"
    with pytest.raises(UsageError, match="which of r9n9 is the busiest"):
        meter.busiest(["r9n9"])


def test_a_meter_does_not_die_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.judging.metering.INTERVAL_S", 0.0)
    answers = iter([dict[str, Usage]()])

    def usage() -> Mapping[str, Usage]:
        if (answer := next(answers, None)) is None:
            raise RuntimeError("the counters are gone")
        return answer

    with (
        pytest.raises(RuntimeError, match="the counters are gone"),
        meter_of(lambda: {"r1n1": used(3.0)}, usage) as meter,
    ):
        meter._thread.join(10)


def test_what_others_used_is_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 110.0])
    machine = iter([Times(50, 0, 10, 0, 0, 1, 40), Times(60, 1, 12, 0, 1, 3, 44)])
    ours = iter([{(7, 1.0): 5.0, (8, 1.0): 1.0}, {(7, 1.0): 9.0, (9, 2.0): 2.0}])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(machine))
    monkeypatch.setattr(psutil, "cpu_count", lambda: 2)
    monkeypatch.setattr(foreign, "_descendants_cpu_s", lambda: next(ours))
    meter = ForeignMeter()
    meter.sample()
    meter.sample()
    load = meter.load()
    assert meter.machine()["idle_s"].tolist() == [40.0, 44.0]
    assert load.foreign_share == pytest.approx((14 - 4 - 2) / 20)
    assert load.steal_share == pytest.approx(2 / 20)
    assert load.high
    assert load.load_average is not None
    assert load.loop_cpu_ms is not None
    assert load.loop_cpu_ms > 0


@pytest.mark.parametrize(
    ("shares", "disturbed"),
    [
        ([{"foreign_share": 0.02, "steal_share": 0.0}], False),
        ([{"foreign_share": 0.02}, {"foreign_share": 0.11}], True),
        ([{"foreign_share": None, "steal_share": 0.06}], True),
        ([{"foreign_share": None, "steal_share": None}], False),
    ],
)
def test_a_run_is_disturbed_if_one_of_its_passes_was(
    shares: list[dict[str, float | None]], disturbed: bool
) -> None:
    outcome = Outcome(values={"y": 1})
    for profile in (Profile.SMOKE, Profile.QUICK):
        found = under_conditions(outcome, shares, profile)
        assert (found.values["disturbed"] is not None) == disturbed
        assert (found.again is not None) == (disturbed and profile is not Profile.SMOKE)
    assert found.values["foreign_share"] == max(
        (v for one in shares if (v := one["foreign_share"]) is not None), default=None
    )
