"""``advise`` through the real parser: output that fits a terminal, and wrong values explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli.advise import command
from tests.advice.shipped import shipped_once as _shipped_once
from tests.cli.kit import refusal

shipped_once = _shipped_once
pytestmark = pytest.mark.usefixtures("shipped_once")
JOB = ("--rate", "20000", "--state", "4GB", "--mttf", "30d")


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(command, list(arguments))


def test_json_has_every_part_with_its_source() -> None:
    done = invoke(*JOB, "--racks", "2", "--system", "flink-2", "--interval", "10min", "--json")
    document = json.loads(done.stdout)
    names = {each["scheme"] for each in document["options"]}
    assert {"checkpoint", "PPA", "active replication", "source replay"} == names
    assert {"--speed 10000", "--storage 100MB", "--depth 3"} <= set(document["assumed"])
    assert document["off_by"]
    parts = document["now"]["parts"]["parts"]
    assert [each["name"] for each in parts] == ["detect", "restart", "restart", "restore", "replay"]
    assert {each["origin"] for each in parts} == {"setting", "assumed", "computed"}
    assert parts[0]["span"] == {"best_s": 10.0, "mean_s": 15.0, "worst_s": 20.0}
    assert all("http" in each["source"] for each in document["system"]["settings"])


def test_people_read_it_in_80_columns() -> None:
    done = invoke(
        *JOB, "--system", "flink-1.14", "--within", "2min", "--nodes", "20", "--budget", "50%",
        "--interval", "10min", "--observed", "60s:217s", "--observed", "10s:95s",
        "--observed", "30s:150s",
    )  # fmt: skip
    text = done.stdout
    assert all(len(line) <= 80 or "://" in line for line in text.splitlines())
    for words in (
        "a failure today, with a checkpoint interval of 10 min",
        "checkpoint interval: 12 min = T*, which leaves most time for work",
        "the next one is outside of what these 3 show with a probability of 50%",
        "each predicted from the others, off",
        "* Flink 1.14 to 1.18 has none: as it would be",
        "assumed, because not given: --racks 1, --depth 3",
        "on 6 outages that others published",
    ):
        assert words in " ".join(text.split()), words


def test_a_file_of_the_lag_is_an_observation(tmp_path: Path) -> None:
    waits = [*[500] * 20, *range(20_500, 620_500, 20_000), *range(600_500, 499, -10_000)]
    rows = "".join(f"{second},{lag}\n" for second, lag in enumerate(waits))
    file = tmp_path / "lag.csv"
    file.write_text(f"time,lag\n{rows}")
    done = invoke(*JOB, "--interval", "60s", "--observed", str(file), "--json")
    document = json.loads(done.stdout)
    assert document["capacity_per_s"] == pytest.approx(30_000.0, rel=0.01)
    assert document["observed"]["downtime_s"] == pytest.approx(30.0, abs=2.0)
    assert "how far apart" in refusal(invoke(*JOB, "--observed", str(file))).what


@pytest.mark.parametrize(
    ("arguments", "words", "remedy"),
    [
        (["--rate", "5"], "--state, --mttf are missing", "--rate 20000"),
        ([*JOB[:4], "--mttf", "1e300d"], "--mttf: '1e300d' is too long", "30 million years"),
        (
            [*JOB[:2], "--state", "9" * 99 + "GB", *JOB[4:]],
            "not an amount of data",
            "below 1e12 TB",
        ),
        ([*JOB, "--capacity", "100"], "never catches up", "a capacity above the rate"),
        ([*JOB, "--capacity", "-5"], "the capacity is -5", "above zero"),
        ([*JOB, "--detection", "-1s"], "--detection: '-1s' is negative", "positive"),
        ([*JOB, "--interval", "0s"], "--interval: '0s' is not above zero", "positive"),
        ([*JOB, "--system", "flink"], "no system is called 'flink'", "flink-"),
        ([*JOB, "--observed", "217s"], "'217s' is no pair", "60s:217s"),
        ([*JOB, "--observed", "no.csv", "--interval", "1min"], "no.csv cannot be read", "time,lag"),
        ([*JOB, "--observed", "1s:9s", "--restart", "1s"], "is what --observed finds", "one of"),
    ],
)
def test_wrong_values_are_answered_with_what_to_write(
    arguments: list[str], words: str, remedy: str
) -> None:
    error = refusal(invoke(*arguments))
    assert words in error.what
    assert remedy in error.remedy
