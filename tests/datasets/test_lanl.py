"""The loader of LANL's failure records: its errors, and the real file's known statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import weibull_min

from datasets.lanl import gaps_s, load_failures, trace
from harness.errors import UsageError

ROOT = Path(__file__).parent.parent.parent
REAL = ROOT.parent / "shared/data/failures/LA-UR-05-7318-failure-data-1996-2005.csv.gz"

HEADER = "System,nodenumz,nodes,Prob Started,Prob Fixed,Down Time,Hardware,Software"
GOOD = [
    "7,0,16,6/21/2005 10:54,6/21/2005 11:00,6,Disk,",
    "7,3,16,6/21/2005 9:00,6/21/2005 9:30,30,,Kernel",
    "8,1,4,1/2/2003 0:00,1/2/2003 1:00,60,,",
    "7,3,16,6/23/2005 9:00,6/23/2005 9:30,,,",
]


def write(path: Path, *lines: str) -> Path:
    file = path / "records.csv"
    file.write_text("\n".join([HEADER, *lines]) + "\n")
    return file


def test_records_come_sorted_by_system_and_start(tmp_path: Path) -> None:
    records = load_failures(write(tmp_path, *GOOD))
    assert records["system"].tolist() == [7, 7, 7, 8]
    assert records["line"].tolist() == [3, 2, 5, 4]
    assert records["cause"].tolist() == ["software", "hardware", None, None]
    assert records["downtime_min"].tolist() == [30.0, 6.0, 30.0, 60.0]
    assert records["started"].iloc[0] == pd.Timestamp("2005-06-21 09:00")


def test_gaps_are_seconds_between_failures_of_one_system(tmp_path: Path) -> None:
    records = load_failures(write(tmp_path, *GOOD))
    assert gaps_s(records, 7).tolist() == [114 * 60.0, (46 * 60 + 6) * 60.0]
    assert trace(records, 7).mean_s == pytest.approx(86400.0)


def test_a_repair_before_its_failure_is_named_with_line_and_times(tmp_path: Path) -> None:
    file = write(tmp_path, *GOOD, "7,3,16,6/23/2005 9:00,6/23/2005 8:59,1,,")
    with pytest.raises(UsageError, match=r"records\.csv, line 6: repaired '6/23/2005 8:59'") as got:
        load_failures(file)
    assert "6/23/2005 9:00" in got.value.what
    assert "correct the line" in got.value.remedy


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["7,0,16,2005-06-21,6/21/2005 11:00,6,,"], "line 2: Prob Started is '2005-06-21'"),
        (["7,0,16,6/21/2005 10:54,,6,,"], "line 2: Prob Fixed is empty"),
    ],
)
def test_a_time_that_cannot_be_read_is_named(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        load_failures(write(tmp_path, *lines))


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load_failures(tmp_path / "absent.csv")
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match="no column 'System'"):
        load_failures(other)


def test_a_system_that_hardly_failed_gives_no_gaps(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="system 8 has 1 failures") as caught:
        gaps_s(load_failures(write(tmp_path, *GOOD)), 8)
    assert "7 (3)" in caught.value.remedy


@pytest.fixture(scope="module")
def real() -> pd.DataFrame:
    if not REAL.exists():
        pytest.skip(f"the real records are not at {REAL}")
    return load_failures(REAL)


@pytest.mark.parametrize(
    ("system", "nodes", "failures", "rate_per_h", "mtbf_h", "shape", "scale_h"),
    [
        (2, 49, 7104, 0.0939, 10.65, 0.738, 11.47),
        (8, 164, 475, 0.0124, 80.4, 0.711, 67.4),
        (9, 256, 280, 0.0172, 58.2, 0.544, 30.6),
        (12, 512, 259, 0.0159, 62.8, 0.609, 41.8),
        (16, 16, 2680, 0.0542, 18.4, 0.720, 16.95),
        (18, 1024, 3997, 0.1364, 7.33, 0.817, 6.63),
        (19, 1024, 3284, 0.1295, 7.72, 0.889, 7.37),
        (20, 512, 2478, 0.0760, 13.16, 0.647, 9.55),
    ],
)
def test_each_system_fails_as_known(
    real: pd.DataFrame,
    system: int,
    nodes: int,
    failures: int,
    rate_per_h: float,
    mtbf_h: float,
    shape: float,
    scale_h: float,
) -> None:
    one = real[real["system"] == system]
    gaps_h = gaps_s(real, system) / 3600.0
    assert len(one) == failures
    assert one["nodes"].max() == nodes
    assert 1.0 / gaps_h.mean() == pytest.approx(rate_per_h, rel=0.006)
    assert gaps_h.mean() == pytest.approx(mtbf_h, rel=0.006)
    fitted_shape, _, fitted_scale = weibull_min.fit(gaps_h[gaps_h > 0], floc=0)
    assert fitted_shape == pytest.approx(shape, abs=6e-4)
    assert fitted_scale == pytest.approx(scale_h, rel=2e-3)


@pytest.mark.parametrize(
    ("cause", "mean", "median", "mu", "sigma"),
    [
        (None, 355, 60, 4.154, 1.402),
        ("hardware", 345, 69, 4.318, 1.253),
        ("software", 350, 44, 3.877, 1.467),
        ("network", 250, 70, 4.127, 1.595),
        ("facilities", 572, 276, 5.651, 1.217),
        ("human error", 164, 44, 3.805, 1.482),
        ("undetermined", 458, 30, 3.619, 1.704),
    ],
)
def test_repairs_last_as_known(
    real: pd.DataFrame, cause: str | None, mean: float, median: float, mu: float, sigma: float
) -> None:
    minutes = (
        real["downtime_min"] if cause is None else real["downtime_min"][real["cause"] == cause]
    )
    minutes = minutes[minutes > 0]
    logs = np.log(minutes)
    assert minutes.median() == median
    # Tolerances cover the few records in which the two times and the downtime disagree.
    assert minutes.mean() == pytest.approx(mean, rel=0.04)
    assert logs.mean() == pytest.approx(mu, abs=0.002)
    assert logs.std() == pytest.approx(sigma, abs=0.006)


def test_what_failed_and_when_is_as_known(real: pd.DataFrame) -> None:
    assert len(real) == 23739
    share = 100.0 * real["cause"].value_counts() / len(real)
    known = {"hardware": 60.4, "software": 22.6, "undetermined": 11.2, "network": 1.8}
    assert {cause: round(float(share[cause]), 1) for cause in known} == known
    hours = real["started"].dt.hour.value_counts()
    assert hours[[7, 17]].mean() / hours[[2, 3, 4, 5]].mean() == pytest.approx(2.0, abs=0.15)
    days = real["started"].dt.dayofweek.value_counts()
    weekday, weekend = days[range(5)].mean(), days[[5, 6]].mean()
    assert weekday / weekend == pytest.approx(1.65, abs=0.02)


def test_the_early_years_of_system_2_failed_in_bursts(real: pd.DataFrame) -> None:
    early = real[(real["system"] == 2) & (real["started"] < "2000")]
    gaps = gaps_s(early, 2)
    assert (gaps == 0).mean() == pytest.approx(0.42, abs=0.005)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(7.0, abs=0.1)
