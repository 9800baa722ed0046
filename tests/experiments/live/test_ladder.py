"""Climbing a ladder of rates, on passes made by hand."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from experiments.live import _ladder
from experiments.live._cpu import CpuWatch, servers_cpu_s
from experiments.live._ladder import (
    Course,
    climb,
    counted_s,
    course_of,
    kept_s,
    rung_of,
    why_not_held,
)
from experiments.live._rates import SETTINGS, SLOTS, TUNED, append_only, workload_named
from harness.cluster.base import Cluster
from harness.cluster.processes import ProcessIdentity, read_stat
from harness.engines.base import Setup
from harness.errors import EnvironmentFailure
from harness.judging.runner import Runner
from harness.measurement import Context
from harness.results.record import Profile
from tests.engines.test_toy import Keeping
from tests.engines.test_toy import toy_cluster as toy_cluster
from tests.engines.toy import WORKLOAD as TOY
from tests.engines.toy import Toy, ToyKind
from tests.judging.constructed import WORKLOAD, record
from tests.there import there

STEADY: Mapping[str, Any] = {
    "load_late": None, "dropped": 0, "drained": True, "latency_course": Course.STEADY,
    "batch_course": Course.STEADY, "latency_p50_s": 2.0, "load_s": 24.0,
}  # fmt: skip


def climbing(*courses: Course) -> tuple[list[float], list[dict[str, Any]]]:
    """Return the rates that were asked for, and the rungs, if latencies take these courses."""
    asked: list[float] = []

    def measure(rate: float) -> dict[str, Any]:
        asked.append(rate)
        return {**STEADY, "rate_per_s": rate, "latency_course": courses[len(asked) - 1]}

    rates = [10 * 2**number for number in range(len(courses))]
    return asked, climb(rates, measure)


def test_a_ladder_ends_after_two_rates_that_are_not_held() -> None:
    steady, rising = Course.STEADY, Course.RISING
    asked, rungs = climbing(steady, steady, rising, rising, steady)
    assert asked == [10, 20, 40, 80]
    assert [one["held"] for one in rungs] == [True, True, False, False]
    assert rungs[-1]["why_not"] == "its latency grows during the run"


def test_what_holds_a_rate_holds_every_lower_one() -> None:
    """One noisy pass at the lowest rate ended a ladder."""
    asked, rungs = climbing(Course.RISING, Course.STEADY, Course.RISING, Course.RISING)
    assert asked == [10, 20, 40, 80]
    assert [one["held"] for one in rungs] == [True, True, False, False]
    assert rungs[0]["why_not"], "what its own pass showed stays"
    _, nothing = climbing(Course.RISING, Course.RISING)
    assert [one["held"] for one in nothing] == [False, False]


@pytest.mark.parametrize(
    "trouble", [{"load_late": "late"}, {"dropped": 1}, {"batch_course": Course.FALLING}]
)
def test_a_rung_in_doubt_is_made_once_more(trouble: dict[str, Any]) -> None:
    good, bad = {**STEADY}, {**STEADY, **trouble}
    answers = [bad, good, bad, bad]
    rungs = climb([10, 20], lambda rate: dict(answers.pop(0)))
    assert [one["tries"] for one in rungs] == [2, 2]
    assert [one["settled"] for one in rungs] == [True, False]


@pytest.mark.parametrize(
    ("change", "held"),
    [
        ({}, True),
        ({"latency_course": Course.FALLING}, True),
        ({"batch_course": None}, True),
        ({"batch_course": Course.RISING}, True),
        ({"latency_course": Course.RISING}, False),
        ({"latency_course": None}, False),
        ({"latency_p50_s": 9.9}, True),
        ({"latency_p50_s": 10.1}, False),
        ({"drained": False}, False),
        ({"dropped": 3}, False),
        ({"load_late": "late"}, False),
    ],
)
def test_what_it_takes_to_hold_a_rate(change: dict[str, Any], held: bool) -> None:
    assert (why_not_held({**STEADY, **change}) is None) == held


def test_stationarity_is_tested_both_ways() -> None:
    assert course_of(3.7, 5.1) is Course.RISING
    assert course_of(5.1, 3.7) is Course.FALLING
    assert course_of(4.0, 4.4) is course_of(4.4, 4.0) is Course.STEADY
    assert course_of(0.03, 0.2, within=0.3) is Course.STEADY
    assert course_of(11.8, 12.9, within=0.3) is Course.RISING, "however long it is"
    assert course_of(None, 1.0) is None


def test_what_grows_slowly_does_not_fall_behind() -> None:
    assert kept_s(None, 1.0) == 0.3
    assert kept_s(2.0, 3.0) == 1.0
    assert kept_s(0.5, 10.0) == 1.0


def test_a_window_holds_ten_batches() -> None:
    assert counted_s(Profile.QUICK, 20_000.0, 2.0) >= 20.0
    assert counted_s(Profile.QUICK, 20_000.0, 0.1) == 6.0
    assert counted_s(Profile.QUICK, 320_000.0, 2.0) == 6.0, "within the limit of records"
    assert counted_s(Profile.QUICK, 5_000.0, 0.1, batched=True) == 20.0
    assert counted_s(Profile.SMOKE, 5_000.0, 0.1, batched=True) == 2.0


class Watched(CpuWatch):
    """CPU that grows evenly: 1 s of Python, 0.5 s of the broker and 0.25 s of Redis a second."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, float]] = []

    def between(self, from_unix_s: float, until_unix_s: float | None = None) -> dict[str, float]:
        assert until_unix_s is not None
        self.asked.append((from_unix_s, until_unix_s))
        seconds = until_unix_s - from_unix_s
        return {"python": seconds, "kafka": seconds / 2, "redis": seconds / 4}


def test_the_servers_are_counted_apart() -> None:
    watch, one = Watched(), record()
    found = rung_of(one, WORKLOAD, watch, 100.0)
    [(began, ended)] = watch.asked
    assert found["records_per_core_s"] == pytest.approx(1.75 * found["all_records_per_core_s"])
    assert found["cpu_us_kafka"] == pytest.approx(2 * found["cpu_us_redis"])
    assert found["cpu_s"] == pytest.approx(ended - began)


def test_all_records_of_a_rate_that_is_not_held_count() -> None:
    watch, one = Watched(), replace(record(), drained=False)
    found = rung_of(one, WORKLOAD, watch, 100.0)
    [(began, ended)] = watch.asked
    assert began == one.start_unix_s
    assert ended >= one.start_unix_s + one.until_s
    assert found["records"] == one.load.records


class Redis:
    """A server that knows its settings and its CPU time."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.settings = {"appendonly": "no"}
        self._refuses = refuses

    def client(self) -> AbstractContextManager[Redis]:
        return nullcontext(self)

    def config_set(self, name: str, value: str) -> None:
        import redis

        if self._refuses:
            raise redis.ResponseError("no permission")
        self.settings[name] = value

    def info(self, section: str) -> dict[str, float]:
        names = ("user", "sys", "user_children", "sys_children")
        return {f"used_cpu_{name}": 0.25 for name in names} if section == "cpu" else {}


def cluster(server: Redis) -> Cluster:
    return cast(Cluster, SimpleNamespace(redis=server, run_directory="nowhere"))


def test_the_append_only_file_is_kept_meanwhile() -> None:
    server = Redis()
    with append_only(cluster(server), wanted=True):
        assert server.settings == {"appendonly": "yes", "appendfsync": "everysec"}
    assert server.settings["appendonly"] == "no"
    with append_only(cluster(server), wanted=False):
        assert server.settings["appendonly"] == "no"
    with (
        pytest.raises(EnvironmentFailure, match="append-only"),
        append_only(cluster(Redis(refuses=True)), wanted=True),
    ):
        pass


def test_the_broker_is_the_process_of_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    own = there(read_stat(os.getpid()))
    journal = [("kafka", own.identity)]
    monkeypatch.setattr("harness.cluster.run_directory.read_journal", lambda path: journal)
    assert servers_cpu_s(cluster(Redis())) == {
        "kafka": pytest.approx(own.cpu_s, abs=5),
        "redis": 1.0,
    }
    gone = ProcessIdentity(pid=own.pid, started_ticks=own.identity.started_ticks + 1)
    journal[0] = ("kafka", gone)
    assert servers_cpu_s(cluster(Redis())) == {"redis": 1.0}, "another process has its number"


def test_the_tuned_stock_engine_has_no_more_slots_than_cores() -> None:
    conf = SETTINGS[TUNED].conf
    slots = int(conf["spark.cores.max"])
    assert slots == SLOTS == int(conf["spark.sql.shuffle.partitions"])
    assert slots <= max(2, os.cpu_count() or 2)
    assert int(conf["spark.executor.cores"]) * 2 == slots, "an executor on either worker"
    assert SETTINGS[TUNED].source == {"minPartitions": str(SLOTS)}
    workload = workload_named("word count", seed=7, per_slide=SETTINGS[TUNED].per_slide)
    parameters = there(workload.reference).parameters
    assert parameters["per_slide"] is True
    assert parameters["seed"] == 7


def test_batches_are_halved_by_their_end() -> None:
    batches = pd.DataFrame(
        {
            "at_s": [1.0, 4.5, 5.0, 20.0, 25.0],
            "rows": [1, 1, 1, 0, 1],
            "duration_s": [9.0, 3, 3, 1, 2],
        }
    )
    one = replace(record(), batches=batches)
    assert _ladder.batch_halves_s(one, from_s=4.0) == (3.0, 2.0)


def test_a_ladder_of_a_toy_engine(
    toy_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its results are compared with the truth, which lacks one, and the table can be stored."""
    monkeypatch.setattr(_ladder, "SETTLE_S", 0.5)
    monkeypatch.setattr(_ladder, "LEAST_S", dict.fromkeys(Profile, 1.5))
    monkeypatch.setattr(_ladder, "OURS_WARM_S", 0.5)
    monkeypatch.setattr(_ladder, "cpu_s", lambda cluster, engine: {"python": time.time()})
    monkeypatch.setattr(_ladder, "servers_cpu_s", lambda cluster: {"kafka": 1.0})
    context = Keeping(tmp_path)
    context.profile = Profile.SMOKE
    truth = Toy.truth
    monkeypatch.setattr(Toy, "truth", lambda self, work: truth(self, work).iloc[1:])
    with ToyKind().open(Setup(scheme="wait"), toy_cluster) as engine:
        engine.configure(Setup(scheme="wait"))
        context._engine = engine
        outcome = _ladder.measure_ladder(
            Runner(engine, Setup(scheme="wait"), toy_cluster, cast(Context, context)),
            workload=TOY, rates=[50.0], interval_s=0.1, stock=False,
        )  # fmt: skip
    path = tmp_path / "ladder.parquet"
    outcome.series["ladder"].to_parquet(path)
    [row] = pd.read_parquet(path).to_dict("records")
    assert row["drained"]
    assert row["wrong"] == row["contradictions"] == 1
    assert row["results"] > 0
    assert outcome.values["wrong_results"] == 1
    assert row["all_records_per_core_s"] > 0
    assert {"foreign_share", "steal_share", "load_late", "why_not", "tries"} <= set(row)
