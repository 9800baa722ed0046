"""The edge paper's figures 6 to 9 live: measures of a run, tables made by hand, and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pandas as pd
import pytest

from experiments.edge._deployment import MECHANISMS, RATES
from experiments.live import edge_latency, edge_resources, edge_success
from experiments.live._topology import SPEC
from experiments.live.edge_throughput import Scale
from harness.claims import Word
from harness.claims.samples import FEWEST
from harness.measurement import Measurement
from harness.results.record import Profile
from tests.experiments.live.judging import failing, held, judged, panels, passes

SCALE = Scale(input_s=17, fail_at_s=6)


def results(outage: range, late_s: float) -> pd.DataFrame:
    """Return results of one second each, with 10 reports; those of an outage come late."""
    seconds = range(17)
    return pd.DataFrame(
        {
            "window_start_s": [float(second) for second in seconds],
            "arrival_s": [second + 1.5 + (late_s if second in outage else 0) for second in seconds],
            "car_ids": [" ".join(map(str, range(10)))] * len(seconds),
        }
    )


def test_latency_is_from_sending_to_the_first_result() -> None:
    found = edge_latency.measures(
        edge_latency.reports(results(range(0), 0.0)), SCALE, offered_per_s=10
    )
    assert found["overall_s"] == pytest.approx(1.0), "a second's middle to its result"
    assert found["overall_p5_s"] == pytest.approx(0.55)
    assert found["overall_p95_s"] == pytest.approx(1.45)
    assert found["success"] == found["in_time"] == pytest.approx(1.0)
    assert found["throughput_per_s"] == pytest.approx(10.0)


def test_an_outage_weighs_what_it_weighs_in_the_paper_s_minute() -> None:
    found = edge_latency.measures(
        edge_latency.reports(results(range(6, 11), 6.0)), SCALE, offered_per_s=10
    )
    assert found["recovery_s"] == pytest.approx(1.0 + 3.0), "half of the ten seconds are 6 s late"
    assert found["overall_s"] == pytest.approx(1.0 + 3.0 / 6)
    assert found["success"] == pytest.approx(1.0), "late is not lost"
    assert found["in_time"] == pytest.approx(1 - 0.5 / 6)
    lost = results(range(6, 11), 100.0)
    gone = edge_latency.measures(edge_latency.reports(lost), SCALE, offered_per_s=10)
    assert gone["success"] == pytest.approx(1 - 0.5 / 6), "thirty seconds are over"
    assert gone["throughput_per_s"] < 10


def latencies(recovery: Mapping[str, float], overall: Mapping[str, float]) -> pd.DataFrame:
    rows = []
    for repeat, rate in product(range(FEWEST), (RATES[0], RATES[-1])):
        for name in MECHANISMS:
            row: dict[str, float | str] = {"mechanism": name, "rate": rate, "repeat": repeat}
            for part, means in (("overall", overall), ("recovery", recovery)):
                row |= {f"{part}_s": means[name], f"{part}_p5_s": 0.1, f"{part}_p95_s": 9.0}
            rows.append(row)
    return pd.DataFrame(rows)


PAPERS = {"ck-only+DRA": 5.2, "RPPG+DRA": 5.0, "full-rep+DRA": 2.5, "RPPG+RAS": 2.4}
PAPERS_RECOVERY = {"ck-only+DRA": 8.0, "RPPG+DRA": 7.0, "full-rep+DRA": 5.5, "RPPG+RAS": 2.4}


def some_passes() -> pd.DataFrame:
    return passes(*({"mechanism": name, "variant": "failure"} for name in MECHANISMS))


def test_the_paper_s_latencies_would_hold() -> None:
    tables = {"latencies": latencies(PAPERS_RECOVERY, PAPERS), "passes": some_passes()}
    assert set(held(edge_latency.EXPERIMENT, tables).values()) == {True}
    assert len(panels(edge_latency.EXPERIMENT, tables)) == 2
    alike = dict.fromkeys(MECHANISMS, 1.0)
    tables = {"latencies": latencies(alike, alike), "passes": some_passes()}
    assert failing(edge_latency.EXPERIMENT, tables) >= {"fast", "slow", "recovery-above-5"}
    part = tables["latencies"][tables["latencies"]["mechanism"] == "RPPG+RAS"]
    part_held = held(edge_latency.EXPERIMENT, {**tables, "latencies": part})
    assert list(part_held) == ["equal-output"], "as in smoke"


def shares(success: Mapping[str, float]) -> dict[str, pd.DataFrame]:
    rows = [
        {"mechanism": name, "rate": rate, "success": success[name], "in_time": success[name],
         "offered_per_s": 14.0 * rate, "throughput_per_s": 14.0 * rate * success[name]}
        for rate in (RATES[0], RATES[-1])
        for name in MECHANISMS
    ]  # fmt: skip
    return {"rates": pd.DataFrame(rows), "passes": some_passes()}


def test_the_paper_s_success_rates_would_hold() -> None:
    papers = {"ck-only+DRA": 0.8, "RPPG+DRA": 0.94, "full-rep+DRA": 1.0, "RPPG+RAS": 1.0}
    tables = shares(papers)
    assert failing(edge_success.EXPERIMENT, tables) == {"all-in-the-end"}
    assert len(panels(edge_success.EXPERIMENT, tables)) == 2
    everything = shares(dict.fromkeys(MECHANISMS, 1.0))
    assert failing(edge_success.EXPERIMENT, everything) >= {
        "rppg-dra-95",
        "ck-only-80",
        "match-rate",
    }


def used(cores: Mapping[str, tuple[float, float]], network: Mapping[str, float]) -> pd.DataFrame:
    rows = [
        {"mechanism": name, "rate": rate, "cores": cores[name][number],
         "memory_mb": 100 * cores[name][number], "network_kb_per_s": network[name] * rate,
         "copies": 30, "missing": 0.0, "repeat": repeat}
        for repeat in range(FEWEST)
        for number, rate in enumerate((RATES[0], RATES[-1]))
        for name in MECHANISMS
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_paper_s_resources_would_hold() -> None:
    cores = dict.fromkeys(MECHANISMS, (10.0, 13.5)) | {"full-rep+DRA": (12.5, 19.0)}
    network = {"ck-only+DRA": 1.0, "RPPG+DRA": 1.1, "full-rep+DRA": 2.0, "RPPG+RAS": 1.4}
    tables = {"used": used(cores, network)}
    assert set(held(edge_resources.EXPERIMENT, tables).values()) == {True}
    assert len(panels(edge_resources.EXPERIMENT, tables)) == 3
    assert not [c for c in edge_resources.CLAIMS if "circular" in c.text]
    bent = tables["used"].assign(cores=1.0, missing=2.0)
    assert failing(edge_resources.EXPERIMENT, {"used": bent}) >= {
        "complete",
        "forty-percent",
        "full-most",
        "ranges",
    }


def test_one_run_does_not_decide_how_many_cores_are_alike() -> None:
    cores = dict.fromkeys(MECHANISMS, (10.0, 13.5)) | {"full-rep+DRA": (12.5, 19.0)}
    table = used(cores, dict.fromkeys(MECHANISMS, 1.0))
    found = judged(edge_resources.EXPERIMENT, {"used": table[table["repeat"] == 0]})
    for name in ("forty-percent", "ras-like-ck"):
        assert found[name].word is Word.UNDECIDED


def test_resources_are_those_of_the_testbed_s_nodes() -> None:
    node, other, spare = SPEC.node_names[0], SPEC.node_names[1], SPEC.node_names[-1]
    usage = pd.DataFrame(
        [
            {"who": who, "at_s": at_s, "cpu_s": share * at_s, "resident_bytes": 50e6}
            for who, share in ((node, 0.1), (other, 0.2), (spare, 5.0), ("coordinator", 1.0))
            for at_s in (1.0, 4.0, 9.0, 14.0)
        ]
    )
    found = edge_resources.used(usage, [node, other], from_s=4, until_s=14)
    assert found["cores"] == pytest.approx(0.3)
    assert found["memory_mb"] == pytest.approx(100)
    few = usage[usage["at_s"].isin([1.0, 14.0])]
    busy = edge_resources.used(few, [node, other], from_s=4, until_s=14)
    assert busy["cores"] == pytest.approx(0.3), "also from few samples"


@pytest.mark.parametrize("measurement", [edge_latency.MEASUREMENT, edge_resources.MEASUREMENT])
def test_all_mechanisms_run_at_the_least_and_the_greatest_rate(measurement: Measurement) -> None:
    for profile in (Profile.QUICK, Profile.PAPER):
        points = measurement.grid[profile]
        for rate in (RATES[0], RATES[-1]):
            assert {p["mechanism"] for p in points if p["rate"] == rate} == set(MECHANISMS)
