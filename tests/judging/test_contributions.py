"""The results that a pass's records contribute to, and the number of successful records."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from harness.failures.schedule import NO_FAILURES
from harness.judging.contributions import contributions
from harness.judging.loads import load_plan
from harness.judging.passes import PassRecord
from harness.load.profile import RateProfile
from tests.judging.constructed import START, judged, record
from tests.workloads.agreement import START_US, by_operators, source_table
from workloads.accident import accidents, program
from workloads.base import Workload
from workloads.toolkit.operators import timeline_of

LOAD_S = 100
ACCIDENTS: Workload = accidents(partitions=2, seed=3)
RATE = RateProfile.constant(200, LOAD_S)
PLAN = load_plan(ACCIDENTS, RATE, {"cars": "cars"})
IDENTITY = ["window_start_s", "location"]


@functools.cache
def results() -> pd.DataFrame:
    """Return the operators' results for exactly the records of this load."""
    assert START * 1_000_000 == START_US
    [stream] = PLAN.streams
    source = stream.records.build()
    parts = []
    for partition, count in enumerate(stream.counts()):
        times_ms = stream.intended_s(partition, np.arange(count)) * 1000
        payloads = source.payloads(partition, 0, count)
        parts.append(
            [(int(ms + 1e-6), value) for ms, value in zip(times_ms, payloads, strict=True)]
        )
    timeline = timeline_of(ACCIDENTS, start_us=START_US, batch_s=1)
    code = program(timeline=timeline, filters=2, aggregators=1)
    found = by_operators(code, ACCIDENTS, {"cars": source_table(parts)})
    since_us = found.pop("window_start").astype("datetime64[us]").astype("int64") - START_US
    return found.assign(window_start_s=since_us / 1_000_000)


def a_pass(name: str = "failures") -> PassRecord:
    """Make a pass with every result two seconds after its window's end."""
    frame = results().assign(copy=0)
    frame["arrival_s"] = frame["window_start_s"] + 1 + 2.0
    load = replace(record().load, records=RATE.records)
    frame = frame.sort_values("arrival_s", ignore_index=True)
    return record(frame, name=name, plan=PLAN, load=load)


def test_records_go_into_the_results_that_the_operators_give() -> None:
    found = contributions(a_pass(), ACCIDENTS)
    expected = results()
    ours = found.groupby(IDENTITY).size().rename("tuples").reset_index()
    both = ours.merge(expected, on=IDENTITY, how="outer", indicator="side", validate="1:1")
    assert len(expected) > 50
    assert (both["side"] == "both").all(), both
    cars = both["car_ids"].str.split().str.len()
    # A car reports once a second, so a window of a second has one report of each of its cars.
    assert both["tuples"].tolist() == cars.tolist()
    assert found["tuple"].is_unique
    assert ((found["sent_s"] - found["window_start_s"]).between(0, 1, inclusive="left")).all()


def test_lost_results_fail_their_tuples_and_stand_in_the_record() -> None:
    twin, failed = a_pass("twin"), a_pass()
    kept = failed.deliveries.drop(index=range(10))
    lost = contributions(failed, ACCIDENTS).merge(failed.deliveries.head(10), on=IDENTITY)
    values = judged(
        record(kept, plan=PLAN, load=failed.load),
        twin,
        results(),
        workload=ACCIDENTS,
        schedule=NO_FAILURES,
    ).values
    assert values["twin_success_rate"] == 1
    every = len(contributions(failed, ACCIDENTS))
    assert values["success_rate"] == pytest.approx(1 - len(lost) / every)
