"""The order of runs, and the computed runs made at the same time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.cluster.base import Action
from harness.environment.servers import UNKNOWN
from harness.measurement import Context
from harness.results.record import NOT_RECORDED, SKIPPED, Outcome, Point, Profile
from harness.results.setting import Setting
from harness.results.store import RecordStore
from harness.running.discovery import find
from harness.running.plan import RunSettings
from tests.running.test_execution import make, measured, ramp, scaled
from tests.toys import Watcher, changed, toy


@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.SMOKE])
def test_what_this_machine_holds_is_found_out_first_and_once(
    tmp_path: Path, profile: Profile
) -> None:
    scale = measured("stock/scale", run=ramp, once=True, repeats=dict.fromkeys(Profile, 1))
    one = measured("stock/a", run=scaled, scaled_by=scale)
    other = measured("stock/b", run=scaled, scaled_by=scale, keeps=lambda point: "x")
    settings = RunSettings(profile=profile, repeats=2)
    found = make(RecordStore(tmp_path), one, other, settings=settings).finished
    ramps = [record for record in found if record.experiment == "stock/scale"]
    if profile is Profile.SMOKE:
        assert ramps == [], "nothing that depends on it is decided"
        assert {record.values["y"] for record in found} == {None}
    else:
        assert found[:3] == ramps, "one run a point, however many repetitions are asked for"
        assert {record.values["y"] for record in found[3:]} == {3}
    again = make(RecordStore(tmp_path), one, settings=settings).finished
    assert again == [], "once per machine and code"


def test_systems_take_turns_in_an_order_that_the_seed_draws(tmp_path: Path) -> None:
    settings = RunSettings(profile=Profile.QUICK, repeats=6)
    experiment = measured("stock/turns", in_turns=True)
    runs = []
    for name in ("a", "b"):
        watcher = make(RecordStore(tmp_path / name), experiment, settings=settings)
        runs.append([(run.repeat, str(run.point["x"])) for run in watcher.started])
    assert runs[0] == runs[1]
    assert [repeat for repeat, _ in runs[0]] == sorted(3 * [*range(6)]), "one of each in a turn"
    turns = {tuple(x for repeat, x in runs[0] if repeat == turn) for turn in range(6)}
    assert all(sorted(turn) == ["1", "2", "3"] for turn in turns)
    assert len(turns) > 1


def test_rows_of_a_comparison_at_unlike_speeds_are_made_again_once(tmp_path: Path) -> None:
    def run(point: Point, context: Context) -> Outcome:
        context.surroundings(
            "twin", {"loop_cpu_ms": 0.6 if point["x"] == 2 else 0.4}, repeatable=False
        )
        return Outcome(values={"y": 1})

    settings = RunSettings(profile=Profile.QUICK, repeats=1)
    for in_turns, made in ((True, [1, 2, 2, 3]), (False, [1, 2, 3])):
        toy = measured("stock/toy", run=run, in_turns=in_turns)
        found = make(RecordStore(tmp_path / str(in_turns)), toy, settings=settings).finished
        assert sorted(record.point["x"] for record in found) == made


def test_the_short_then_the_early_then_the_computed_then_the_measured(tmp_path: Path) -> None:
    watcher = make(
        RecordStore(tmp_path),
        measured("stock/late"),
        toy(identifier="stock/long", seconds=9),
        measured("stock/early", early=True),
        toy(identifier="stock/short"),
        settings=RunSettings(profile=Profile.QUICK),
    )
    order = [name for name, _ in watcher.campaigns]
    assert order == ["stock/short", "stock/early", "stock/long", "stock/late"]


@pytest.mark.parametrize("profile", [Profile.SMOKE, Profile.QUICK])
def test_while_a_smoke_run_waits_what_others_have_made_is_kept(
    tmp_path: Path, profile: Profile
) -> None:
    """Elsewhere nothing is computed beside a measurement."""
    (computed,) = find(["intervals/dag-delay"])
    watcher = Watcher()
    until = time.monotonic() + 300

    def waits(point: Point, context: Context) -> Outcome:
        context.progress("waiting")
        while profile is Profile.SMOKE and not watcher.campaigns and time.monotonic() < until:
            context.progress("waiting")
        return Outcome(values={"y": len(watcher.campaigns)})

    long = changed(computed, seconds_per_run=dict.fromkeys(Profile, 60.0))
    patient = measured("stock/patient", early=True, run=waits)
    settings = RunSettings(profile=profile, repeats=1)
    make(RecordStore(tmp_path), patient, long, settings=settings, watcher=watcher)
    order = [name for name, _ in watcher.campaigns]
    brief = profile is Profile.SMOKE
    assert (order[0] == computed.id) == brief
    assert sorted(order) == [computed.id, "stock/patient"], "each is told of once"
    seen = [r.values["y"] for r in watcher.finished if r.experiment == "stock/patient"]
    assert max(seen) == brief


def test_a_measured_run_names_its_servers_and_another_java_or_redis_is_another_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for java, vendor, redis, made in (
        ("17.0.1+9", "Azul", "8.0.0", 6),
        ("17.0.1+9", "Azul", "8.0.0", 0),
        ("21.0.2+9", "Azul", "8.0.0", 6),
        ("21.0.2+9", "Eclipse Adoptium", "8.0.0", 6),
        ("21.0.2+9", "Eclipse Adoptium", "6.2.12", 6),
    ):
        servers = {"java": java, "java_vendor": vendor, "kafka": "4.1.0", "redis": redis}
        monkeypatch.setattr(
            "harness.running.execution.server_versions", lambda found=servers: found
        )
        records = make(RecordStore(tmp_path), measured("stock/toy")).finished
        assert len(records) == made
        assert all(servers.items() <= record.versions.items() for record in records)
        assert all("kafka_2.13 4." in record.versions["jars"] for record in records)
        assert not any(NOT_RECORDED in record.stated_versions.values() for record in records)


def test_what_a_run_fetched_is_in_its_record_and_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first run on a machine nobody knows which Java will serve."""
    servers = {"java": UNKNOWN, "java_vendor": UNKNOWN, "kafka": "4.1.0", "redis": UNKNOWN}
    monkeypatch.setattr("harness.running.execution.server_versions", lambda: dict(servers))

    def run(point: Point, context: Context) -> Outcome:
        servers.update(java="21.0.8", java_vendor="JetBrains", redis="6.2.12")
        context.measures(Setting(engine="flink"))
        return Outcome(values={"y": 1})

    toy = measured("stock/toy", run=run)
    records = make(RecordStore(tmp_path), toy).finished
    assert {record.machine["java"] for record in records} == {"21.0.8"}
    assert {record.versions["redis"] for record in records} == {"6.2.12"}
    assert all("apache-flink-libraries" in record.versions["jars"] for record in records)
    assert make(RecordStore(tmp_path), toy).finished == [], (
        "the same question, now that it is known"
    )


def test_what_the_cluster_cannot_do_is_skipped_before_anything_is_started(tmp_path: Path) -> None:
    cut = measured("stock/toy", actions=frozenset({Action.CUT}))
    watcher = make(RecordStore(tmp_path), cut)
    assert [record.status for record in watcher.finished] == [SKIPPED] * 6
    assert watcher.estimate_s == 0
    assert "need cut, which a local cluster cannot do" in str(watcher.finished[0].reason)
    assert watcher.stages == []
