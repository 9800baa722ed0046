"""``try``: the runs that it plans, and the page that it leaves, also after Ctrl-C."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from harness.cli import try_file
from harness.cli.main import cli
from harness.judging.calibration import Rung, Tried, told
from harness.measure.windows import Normal
from harness.results.kills import SERIES, Unrecovered
from harness.results.library import Library
from harness.results.record import Outcome
from harness.results.setting import Setting
from harness.running.execution import Runner
from harness.running.plan import Deadline, PlannedRun
from tests.advice.test_costs import killed
from tests.cli.kit import refusal
from tests.workloads.test_own_document import FILE

Try = Callable[..., Result]
RUNG = Rung(interval_s=2.0, rate_per_s=500.0)
HELD = told(RUNG, [Tried(rung=RUNG, normal=Normal(median_s=2.0, slowest_s=3.0))])


@pytest.fixture
def trying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Try:
    """Return ``try`` over a workload whose sample is right."""
    orders = tmp_path / "orders.py"
    orders.write_text(FILE)
    monkeypatch.setattr(try_file, "sample_shown", lambda workload, conf: None)
    monkeypatch.setattr("harness.advice.own_job.load", lambda: Library([], []))

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(
            cli, ["try", str(orders), "--out", str(tmp_path / "out"), *arguments]
        )

    return call


def planned(done: Result) -> list[str]:
    """Return the points that ``--dry-run -v`` has to make, with their repetitions."""
    assert done.exit_code == 0, done.output
    return re.findall(r"about \S+ \S+ +(repetition.*)", done.output)


def test_without_a_profile_there_is_one_kill_of_each_kind(trying: Try) -> None:
    done = trying("--dry-run", "-v")
    assert planned(done) == [
        "repetition 1  scheme=active",
        "repetition 1  scheme=active interval_s=2",
        "repetition 1  scheme=checkpoint interval_s=2",
    ]
    assert "windows of 10 s: 1 before the kill, 2 after, then a rack's kill" in done.output
    minutes = re.search(r"3 runs to make, about ([\d.]+) min", done.output)
    assert minutes is not None
    assert float(minutes.group(1)) <= 9.5, "with the sample ten"


def test_a_profile_adds_samples_and_real_time_mode(trying: Try) -> None:
    points = planned(trying("--dry-run", "-v", "--profile", "quick"))
    assert len(points) == 1 + 3 * 3
    assert "repetition 3  scheme=checkpoint interval_s=5 mode=real-time" in points
    assert len(planned(trying("--dry-run", "-v", "--profile", "smoke"))) == 1


@pytest.mark.parametrize(
    ("point", "kills"),
    [
        ("scheme=checkpoint", ["scheme=checkpoint interval_s=2"]),
        ("scheme=active,interval_s=5", ["scheme=active interval_s=5"]),
        ("mode=real-time", ["scheme=checkpoint interval_s=5 mode=real-time"]),
    ],
)
def test_a_point_is_a_scheme_or_a_mode(trying: Try, point: str, kills: list[str]) -> None:
    _, *found = planned(trying("--dry-run", "-v", "--point", point))
    assert found == [f"repetition 1  {each}" for each in kills]


@pytest.mark.parametrize("interval_s", [2, 5])
def test_only_a_point_with_a_mode_is_in_real_time_mode(trying: Try, interval_s: int) -> None:
    point = f"scheme=checkpoint,interval_s={interval_s}"
    _, *found = planned(trying("--dry-run", "-v", "--profile", "quick", "--point", point))
    kill = point.replace(",", " ")
    assert found == [f"repetition {number}  {kill}" for number in (1, 2, 3)]


def test_a_query_that_real_time_mode_cannot_run_is_skipped(
    trying: Try, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(try_file, "sample_shown", lambda workload, conf: "it joins two streams")
    done = trying("--point", "mode=real-time")
    assert done.exit_code != 0
    assert "Spark's real-time mode cannot run this query: it joins two streams" in str(
        done.exception
    )
    monkeypatch.setattr(Runner, "_measure", ended(interrupt))
    done = trying("--profile", "quick")
    assert "6 runs are missing" in done.output, "those in micro-batches"
    assert "real-time mode cannot run this query: it joins two streams" in done.output


def ended(end: Callable[[], None], *outcomes: Outcome) -> Callable[..., tuple[Outcome, str]]:
    """Return a measurement that gives these outcomes, and ends so in the next run."""
    made = iter(outcomes)

    def run(runner: Runner, planned: PlannedRun, context: Any) -> tuple[Outcome, str]:
        context.measures(Setting(engine="structured"))
        if (outcome := next(made, None)) is None:
            end()
            raise AssertionError("it goes on")
        return outcome, ""

    return run


def interrupt() -> None:
    raise KeyboardInterrupt


def terminate() -> None:
    signal.raise_signal(signal.SIGTERM)


def fail() -> None:
    raise RuntimeError("a defect")


@pytest.mark.parametrize(
    ("number", "kept", "kills"), [(0, "0 of 2", 0), (2, "1 of 2", 2)], ids=["at once", "later"]
)
def test_ctrl_c_leaves_a_page_and_the_way_on(
    trying: Try,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kept: str,
    kills: int,
) -> None:
    made = [HELD, killed()][:number]
    monkeypatch.setattr(Runner, "_measure", ended(interrupt, *made))
    done = trying("--mttf", "90d", "--workers", "1")
    assert done.exit_code == 130, (done.output, done.exception)
    assert f"interrupted: {kept} runs are kept; the same command goes on from here" in done.output
    assert f"{2 - kills // 2} run" in done.output
    again = f"./faultline try {tmp_path / 'orders.py'} --workers 1 --mttf 90d --out"
    assert f"the same command makes what is missing: {again}" in done.output
    page = tmp_path / "out/try/orders"
    assert again in (page / "page.md").read_text()
    if kills:
        assert len(pd.read_csv(page / "kills.csv")) == kills
        assert "with a trigger of 2 s at 500 records/s it keeps up" in done.output

    again_done = trying("--mttf", "90d", "--workers", "1", "--dry-run", "-v")
    assert len(planned(again_done)) == 3 - number, "what was made is not made again"


@pytest.mark.parametrize(("end", "code"), [(terminate, 130), (fail, 1)])
def test_any_end_writes_the_page(
    trying: Try,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[], None],
    code: int,
) -> None:
    monkeypatch.setattr(Runner, "_measure", ended(end, HELD, killed()))
    before = signal.getsignal(signal.SIGTERM)
    done = trying()
    assert done.exit_code == code, done.output
    assert end is terminate or isinstance(done.exception, RuntimeError), done.output[-1500:]
    assert "1 run is missing" in (tmp_path / "out/try/orders/page.md").read_text()
    assert "A killed worker makes your results" in done.output
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("near", [False, True], ids=["in time", "too late"])
def test_the_rate_goes_down_until_the_twin_keeps_up(
    trying: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, near: bool
) -> None:
    monkeypatch.setattr(Deadline, "near", near)
    rates = []

    def run(runner: Runner, planned: PlannedRun, context: Any) -> tuple[Outcome, str]:
        context.measures(Setting(engine="structured"))
        rates.append(context.options.get("rate"))
        return killed() if rates[-1] == 125 else behind(), ""

    monkeypatch.setattr(Runner, "_measure", run)
    done = trying("--profile", "smoke")
    assert done.exit_code == 0, (done.output, done.exception)
    page = (tmp_path / "out/try/orders/page.md").read_text()
    if near:
        assert set(rates) == {None}
        assert "there was too little time left to measure at 250 records/s" in page
        return
    assert list(dict.fromkeys(rates)) == [None, 250, 125]
    assert "at 250 records/s the same input without a kill came late already" in page
    assert "measured at 125 records/s" in page
    assert "A killed worker makes your results" in page


def behind() -> Outcome:
    """Return what a run gives whose twin did not keep up: no kill has an outage."""
    outcome = killed()
    rows = outcome.series[SERIES]
    unknown = rows.assign(recovery_s=None, recovery_why_not=Unrecovered.TWIN_BEHIND.value)
    return replace(outcome, series={**outcome.series, SERIES: unknown})


def test_what_needs_no_sample_is_refused_before_it(
    trying: Try, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(try_file, "sample_shown", lambda *_: pytest.fail("a sample"))
    for arguments in (("--rate", "1e7"), ("--rate", "1e7", "--sample-only")):
        assert "one machine keeps up with" in refusal(trying(*arguments)).what
