"""Advice follows its formulas, reports its errors, and refuses senseless jobs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from harness.advice.advise import _choice, advise
from harness.advice.evidence import FailureKind, SchemeName, evidence, fit
from harness.advice.job import ASSUMED, Job
from harness.cli.advise import command
from harness.errors import UsageError
from harness.intervals.utilization import CheckpointedSystem
from harness.results import load
from harness.results.library import Library
from harness.text import parse_bytes, parse_duration_s, parse_share

JOB = Job(
    rate_per_s=20_000, state_bytes=4e9, node_mttf_s=30 * 86_400, nodes=20, racks=4, window_s=60
)


@pytest.fixture(scope="module")
def shipped() -> Library:
    return load()


def rows(runs: int = 8, *, noise: float = 0.0) -> pd.DataFrame:
    draw = np.random.default_rng(5)
    process, transfer = draw.uniform(1, 20, runs), draw.uniform(0.1, 2, runs)
    return pd.DataFrame(
        {
            "scheme": SchemeName.CHECKPOINT,
            "failure": FailureKind.NODE,
            "process_s": process,
            "load_s": transfer,
            "recovery_s": (0.5 + 1.2 * process + 2.0 * transfer)
            * np.exp(draw.normal(0.0, noise, runs)),
        }
    )


def test_a_formula_that_made_the_runs_is_found_again() -> None:
    found = fit(rows(), SchemeName.CHECKPOINT, FailureKind.NODE)
    assert found is not None
    assert found.base_s == pytest.approx(0.5)
    assert found.factors == pytest.approx((1.2, 2.0))
    assert found.off_by == pytest.approx(1.0, abs=1e-6)


def test_each_run_is_predicted_without_itself() -> None:
    odd = rows(noise=0.05)
    odd["recovery_s"] *= np.where(odd.index == 3, 3.0, 1.0)
    found = fit(odd, SchemeName.CHECKPOINT, FailureKind.NODE)
    assert found is not None
    assert found.runs["off"].tolist()[3] < 0.5, "it did not see the odd run"
    assert found.off_by > 1.1


def test_too_few_runs_give_no_formula() -> None:
    assert fit(rows(3), SchemeName.CHECKPOINT, FailureKind.NODE) is None
    assert fit(rows(), SchemeName.ACTIVE, FailureKind.NODE) is None


def test_the_interval_is_the_utilization_models(shipped: Library) -> None:
    found = advise(JOB, shipped)
    system = CheckpointedSystem(
        cost_s=4e9 / 20 / ASSUMED["storage_bytes_per_s"], failure_rate_per_s=20 / (30 * 86_400)
    )
    checkpoint = next(o for o in found.options if o.scheme is SchemeName.CHECKPOINT)
    assert checkpoint.interval_s == pytest.approx(float(system.optimal_interval_s()))


def test_what_costs_more_recovers_faster(shipped: Library) -> None:
    by_name = {each.scheme: each for each in advise(JOB, shipped).options}
    checkpoint, active = by_name[SchemeName.CHECKPOINT], by_name[SchemeName.ACTIVE]
    assert checkpoint.recovery is not None
    assert active.recovery is not None
    assert active.recovery.high_s < checkpoint.recovery.low_s
    assert checkpoint.recovery.low_s <= checkpoint.recovery.expected_s <= checkpoint.recovery.high_s
    assert active.extra_tasks == 1.0
    assert 0 < by_name[SchemeName.PPA].extra_tasks <= JOB.budget
    longer = advise(replace(JOB, state_bytes=8e9), shipped)
    more = next(o for o in longer.options if o.scheme is SchemeName.CHECKPOINT)
    assert more.interval_s is not None
    assert checkpoint.interval_s is not None
    assert more.interval_s > checkpoint.interval_s


def test_the_choice_is_the_cheapest_that_is_fast_enough(shipped: Library) -> None:
    assert advise(JOB, shipped).choice is None
    assert advise(JOB, shipped, target_s=3600.0).choice is SchemeName.REPLAY
    assert advise(JOB, shipped, target_s=5.5).choice is SchemeName.ACTIVE
    assert advise(JOB, shipped, target_s=0.001).choice is None


def test_a_shorter_interval_is_tried_where_the_best_one_recovers_too_late(shipped: Library) -> None:
    found = advise(JOB, shipped, target_s=20.0)
    usual, sooner = (each for each in found.options if each.scheme is SchemeName.CHECKPOINT)
    assert usual.recovery is not None
    assert sooner.recovery is not None
    assert usual.recovery.high_s > 20.0
    assert sooner.recovery.high_s == pytest.approx(20.0)
    assert usual.interval_s is not None
    assert sooner.interval_s is not None
    assert JOB.transfer_s < sooner.interval_s < usual.interval_s
    assert 0 < sooner.utilization < usual.utilization
    assert found.chosen is sooner
    assert found.document()["choice_interval_s"] == sooner.interval_s
    assert len(found.table().index.unique()) == len(found.options) == 5
    assert len(advise(JOB, shipped, target_s=3600.0).options) == 4, "T* is short enough"


def test_checkpoints_that_leave_less_work_than_replicas_are_not_chosen(shipped: Library) -> None:
    found = advise(JOB, shipped, target_s=20.0)
    sooner = next(option for option in found.options if option.shortened)
    active = next(option for option in found.options if option.scheme is SchemeName.ACTIVE)
    assert sooner.utilization > active.work_per_task
    assert _choice([replace(sooner, utilization=0.4), active], 20.0) is active
    assert _choice([sooner, active], 20.0) is sooner


def test_one_rack_keeps_no_replica(shipped: Library) -> None:
    one = advise(replace(JOB, racks=1), shipped)
    active = next(o for o in one.options if o.scheme is SchemeName.ACTIVE)
    assert active.recovery_all is None
    assert any("one rack" in note for note in active.notes)


def test_the_nearest_runs_were_predicted_unseen(shipped: Library) -> None:
    found = advise(JOB, shipped)
    assert len(found.nearest) >= 3
    assert (
        found.nearest["off"] == found.nearest["predicted_s"] / found.nearest["recovery_s"]
    ).all()
    assert set(found.off_by) >= {"checkpoint, one node"}
    assert len(evidence(shipped)) >= len(found.nearest)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rate_per_s": 1e9}, "never catches up"),
        ({"racks": 99}, "99 racks hold 20 nodes"),
        ({"budget": 2.0}, "the budget is 2"),
        ({"state_bytes": 0.0}, "the amount of state is 0"),
        ({"depth": 0}, "operators in a row is 0"),
    ],
)
def test_a_job_that_cannot_be_is_refused(change: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        replace(JOB, **change)  # type: ignore[arg-type]  # each of a field's own type


def test_the_command_prints_strict_json() -> None:
    arguments = ["--rate", "20000", "--state", "4GB", "--mttf", "30d", "--racks", "2", "--json"]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    document = json.loads(done.stdout)
    assert {each["scheme"] for each in document["options"]} == {str(each) for each in SchemeName}
    assert {"--speed 10000", "--storage 100MB", "--restart 5s"} <= set(document["assumed"])
    assert document["off_by"]


def test_the_command_prints_for_people() -> None:
    arguments = ["--rate", "20000", "--state", "4gb", "--mttf", "30d", "--within", "20s"]
    arguments += ["--nodes", "20", "--budget", "50%"]

    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    _, accuracy, live, _, _, first, *_ = done.stdout.splitlines()
    assert "is off by a factor of at most 1." in accuracy
    assert "measured on real servers" in live
    assert first.startswith("checkpoint"), "a scheme whose recovery is known"
    assert "needs --window" in done.stdout
    assert "not known" not in done.stdout
    assert "nine times of ten: checkpoint, every " in done.stdout
    assert "assumed, because not given: --racks 1, --depth 3" in done.stdout
    assert "fitted without it" in done.stdout
    assert "2 times as long: every" in done.stdout


@pytest.mark.parametrize(
    ("text", "share"), [("50%", 0.5), (" 0.3 ", 0.3), ("1", 1.0), ("0", 0.0), (".5", 0.5)]
)
def test_a_share_is_a_fraction_or_a_percentage(text: str, share: float) -> None:
    assert parse_share(text, name="--budget") == share


@pytest.mark.parametrize(
    ("text", "remedy"),
    [("50", "write 50% or 0.5"), ("120%", "write"), ("half", "write"), ("-1", "write")],
)
def test_what_is_no_share_is_answered_with_what_to_write(text: str, remedy: str) -> None:
    with pytest.raises(UsageError, match="not a share") as error:
        parse_share(text, name="--budget")
    assert remedy in error.value.remedy


@pytest.mark.parametrize(("text", "size"), [("50gb", 50e9), ("50G", 50e9), ("2mib", 2.0**21)])
def test_units_are_read_as_people_write_them(text: str, size: float) -> None:
    assert parse_bytes(text, name="--state") == size
    assert parse_duration_s("30m", name="--within") == 1800.0


@pytest.mark.parametrize("text", ["4", "GB", "-1GB", "0GB", "4 apples"])
def test_an_amount_of_data_has_a_unit(text: str) -> None:
    with pytest.raises(UsageError, match="not an amount of data"):
        parse_bytes(text, name="--state")
    assert parse_bytes("1.5GiB", name="--state") == 1.5 * 2**30
