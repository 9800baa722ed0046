"""Exports of Prometheus and Grafana, and the recovery that their lag shows."""

from __future__ import annotations

import json

import pytest

from harness.errors import UsageError
from harness.intervals.exports import read_series
from harness.intervals.observed import read_lag
from tests.intervals.test_observed import ONE

LAG = {at: waits / 2 for at, waits in ONE.items() if at % 5 == 0}
"""The lag of each of two partitions."""
GRAFANA = '"Time","orders-0","orders-1"\n' + "".join(
    f'"1970-01-01 00:{at // 60:02}:{at % 60:02}","{lag / 1000} K","{lag / 1000} K"\n'
    for at, lag in LAG.items()
)
LONG = "sep=,\nSeries,Time,Value\n" + "".join(
    f"p{number},{at * 1000 + 10**12},{lag}\n" for number in (0, 1) for at, lag in LAG.items()
)
PROMETHEUS = json.dumps(
    {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [
                {
                    "metric": {"__name__": "kafka_lag", "partition": str(number)},
                    "values": [[at, str(lag)] for at, lag in LAG.items()],
                }
                for number in (0, 1)
            ],
        },
    }
)


@pytest.mark.parametrize("text", [GRAFANA, LONG, PROMETHEUS], ids=["wide", "long", "JSON"])
def test_every_export_shows_the_outage_and_the_capacity(text: str) -> None:
    found = read_lag(text, name="mine", interval_s=60, rate_per_s=10_000)
    assert (found.downtime_s, found.capacity_per_s) == (45, 15_000)
    assert len(read_series(text, name="mine")) == 2


@pytest.mark.parametrize(
    ("shown", "value"),
    [
        ("225.0 K", 225e3), ("1.2 Mil", 1.2e6), ("4.0 GiB", 4 * 2**30), ("300 ms", 0.3),
        ("1.5 min", 90.0), ("12 ops/s", 12.0), ("-1e3", -1e3),
    ],
)  # fmt: skip
def test_a_value_has_the_unit_it_is_shown_with(shown: str, value: float) -> None:
    (found,) = read_series(f"Time,a\n0,{shown}\n1,null\n2,{shown}\n", name="mine")
    assert found.values.tolist() == pytest.approx([value, value])


@pytest.mark.parametrize(
    "text", ["Time,a\n0,fast\n", "when,a\n0,1\n", "", '{"data": {}}', '{"data": {"result": []}}']
)
def test_what_is_no_export_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="mine cannot be read") as caught:
        read_series(text, name="mine")
    assert "Grafana" in caught.value.remedy
