"""Headroom: what a twin must leave, what is in doubt, and the wait for a calmer minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import psutil
import pytest

from harness.judging.foreign import ForeignLoad
from harness.judging.headroom import (
    ACKNOWLEDGED_S,
    IDLE_SHARE,
    headroom,
    too_few_cores,
    wait_for_calm,
)
from harness.judging.passes import PassRecord
from tests.judging.constructed import LOAD_S, record


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda: 2)


def twin(idle: Sequence[float], *, judge_cores: float = 0.1) -> PassRecord:
    """Return a twin in which that share of two cores was idle, second by second."""
    at_s = np.arange(len(idle) + 1, dtype=float)
    idle_s = np.concatenate([[100.0], 100.0 + 2 * np.cumsum(idle)])
    machine = pd.DataFrame({"at_s": at_s, "idle_s": idle_s, "judge_s": judge_cores * at_s})
    return replace(record(name="twin"), machine=machine)


def test_a_quarter_of_the_cores_is_idle_over_the_load_and_in_every_ten_seconds() -> None:
    room = headroom(twin([0.5] * 30))
    assert (room.idle_share, room.least_idle_share) == pytest.approx((0.5, 0.5))
    assert room.short is None
    busy = headroom(twin([0.8] * 10 + [0.1] * 10 + [0.8] * 10))
    assert busy.idle_share == pytest.approx(17 / 30)
    assert busy.least_idle_share == pytest.approx(0.1)
    assert str(busy.short) == "10% of 2 cores were idle in the busiest 10 s of it, and 25% must be"
    assert headroom(twin([IDLE_SHARE + 0.01] * 30)).short is None, "the limit is kept"


def test_the_load_generator_the_judge_and_the_broker_need_room_too() -> None:
    busy = twin([0.5] * 30, judge_cores=0.9)
    assert "the judge used 0.90 of a core" in str(headroom(busy).short)
    load = replace(busy.load, cpu_s=0.8 * LOAD_S, delivery={"p99_s": 2 * ACKNOWLEDGED_S})
    short = str(headroom(replace(twin([0.5] * 30), load=load)).short)
    assert "the load generator used 0.80 of a core" in short
    assert "the broker took up to 1 s for a record" in short


def test_a_machine_that_others_disturbed_is_not_said_to_have_too_few_cores() -> None:
    calm = twin([0.1] * 30)
    why = str(too_few_cores(headroom(calm), calm))
    assert why.startswith("this machine has too few cores: 10% of 2 cores were idle")
    for share in ({"foreign_share": 0.4}, {"steal_share": 0.06}):
        disturbed = replace(calm, conditions=share)
        assert too_few_cores(headroom(disturbed), disturbed) is None
    assert too_few_cores(headroom(twin([0.5] * 30)), calm) is None


def others(used: float, stolen: float) -> ForeignLoad:
    return ForeignLoad(foreign_share=used, steal_share=stolen)


def test_another_attempt_waits_for_a_calmer_minute_and_not_for_ever() -> None:
    seen = iter([others(0.5, 0.0), others(0.02, 0.2), others(0.05, 0.01)])
    said: list[str] = []
    assert wait_for_calm(said.append, others=lambda seconds: next(seen))
    assert said == [
        "waiting for a calmer minute: 50% of the machine is in use by others",
        "waiting for a calmer minute: 2% of the machine is in use by others",
    ]
    assert not wait_for_calm(said.append, others=lambda seconds: others(0.9, 0.0), at_most_s=30.0)
