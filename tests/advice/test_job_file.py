"""``job.yaml``: written by ``try`` and from metrics, read by ``advise``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.advice import job_file
from harness.cli.advise import command as advise
from harness.cli.job import command as job
from harness.errors import UsageError
from tests.advice.test_costs import results

pytestmark = pytest.mark.usefixtures("shipped_once")
CLUSTER = {"nodes": 4, "racks": 2, "window_s": 10.0}
METRICS = "Time,records in rate,lastCheckpointSize,lastCheckpointDuration,consumer lag\n"


def advised(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(advise, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def written(path: Path, *lines: str) -> str:
    file = path / job_file.NAME
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def test_what_try_measured_is_what_advise_reads(tmp_path: Path) -> None:
    path, lines = tmp_path / "job.yaml", job_file.measured(results(tmp_path), CLUSTER)
    path.write_text(job_file.text_of(lines, "The job mine."))
    document = advised("--job", str(path))
    job, observed = job_file.job_of(lines)
    assert document["job"] == json.loads(json.dumps(asdict(job))), "the page advises on the same"
    assert [(each.interval_s, each.outage_s) for each in observed] == [(1.0, 6.0), (1.0, 11.0)]
    wanted = {"rate_per_s": 100.0, "nodes": 4, "racks": 2, "interval_s": 1.0, "window_s": 10.0}
    assert {name: document["job"][name] for name in wanted} == wanted
    assert document["observed"]["observations"] == 2
    # The kills of `test_costs`: 6 s of a worker and 11 s of a rack.
    assert "observed: [1s:6s, 1s:11s]" in path.read_text()
    assert document["now"]["outage"]["worst_s"] >= 11.0


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    file = written(
        tmp_path, "rate: 20000", "state: 4GB", "mttf: 30d", "system: flink-2", "interval: 1min",
        "exactly-once: true", "observed: [60s:217s, '10s:>95s']",
    )  # fmt: skip
    document = advised("--job", file, "--rate", "10000")
    assert document["job"]["rate_per_s"] == 10000.0
    assert document["job"]["state_bytes"] == 4e9
    assert document["job"]["exactly_once"] is True
    assert document["observed"]["observations"] == 2


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["stat: 4GB"], "the line 'stat', which is no option of advise"),
        (["rate: {a: 1}"], "line 1: rate is no plain value"),
        (["rate: fast"], "rate: 'fast' is not a valid float"),
        (["state: 4 apples"], "apples"),
        (["- rate"], "has no lines of options"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, lines: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        CliRunner().invoke(
            advise, ["--job", written(tmp_path, *lines)], catch_exceptions=False,
            standalone_mode=False,
        )  # fmt: skip
    assert caught.value.remedy


def test_a_running_jobs_metrics_are_a_job(tmp_path: Path) -> None:
    def lag(at: int) -> int:
        return max(0, min((at - 60) * 10_000, 450_000 - (at - 105) * 5_000))

    file = tmp_path / "export.csv"
    file.write_text(
        METRICS + "".join(f"{at},10 K,4 GB,2500,{lag(at)}\n" for at in range(0, 300, 5))
    )
    arguments = [str(file), "--interval", "1min", "--mttf", "30d", "--system", "flink-2"]
    done = CliRunner().invoke(job, arguments, catch_exceptions=False)
    document = advised("--job", written(tmp_path, done.output))
    wanted = {
        "rate_per_s": 10_000.0, "state_bytes": 4e9, "capacity_per_s": 15_000.0, "interval_s": 60.0,
        "checkpoint_cost_s": 2.5, "node_mttf_s": 30 * 86_400.0, "system": "flink-2",
    }  # fmt: skip
    assert {name: document["job"][name] for name in wanted} == wanted
    assert document["observed"]["observations"] == 1


def test_series_without_a_meaning_are_named(tmp_path: Path) -> None:
    file = tmp_path / "export.csv"
    file.write_text("Time,orders-0\n0,1\n1,2\n")
    with pytest.raises(UsageError, match=r"no series is a rate, a lag.*orders-0"):
        CliRunner().invoke(job, [str(file)], catch_exceptions=False, standalone_mode=False)


JOB = ("--system", "flink-2", "--rate", "20000", "--state", "4GB", "--mttf", "30d")
OUT = ("--detection", "0s", "--restart", "2min", "--restore", "0s", "--interval", "1min")


def test_the_capacity_that_an_outage_needs_is_the_answer() -> None:
    found = advised(*JOB, *OUT, "--within", "5min")["needed"]
    assert found["mean_per_s"] == pytest.approx(20_000 * (1 + (30 + 120) / 180))
    assert found["worst_per_s"] == pytest.approx(20_000 * (1 + (60 + 120) / 180))
    # As Flink's autoscaler counts: the case of five minutes after two minutes out.
    assert found["catch_up_per_s"] == pytest.approx(30_000)
